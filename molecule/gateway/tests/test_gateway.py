"""What clients can and cannot do through a gateway, and how it takes engines that fail."""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

SCENARIO = Path(__file__).resolve().parents[1]
HOSTS = yaml.safe_load((SCENARIO / "inventory" / "hosts.yml").read_text())["all"]["hosts"]
KEY = (SCENARIO / "files" / "key").read_text().strip()
ONE, TWO = (HOSTS[name]["ansible_host"] for name in ("gateway-1", "gateway-2"))
ACTIVE = [(ONE, 9001), (TWO, 9001)]
STANDBY = (ONE, 9002)
EMBED = (ONE, 9003)
ENGINES = [*ACTIVE, STANDBY, EMBED]
CHAT = {"model": "tiny-chat", "prompt": "Hello"}
SOCKET = "/run/haproxy/admin.sock"


def ask(
    where: tuple[str, int],
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    limit: float = 20,
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(*where, timeout=limit)
    try:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, data, headers or {})
        response = connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
    finally:
        connection.close()


def mode(engine: tuple[str, int], name: str) -> None:
    assert ask(engine, "POST", "/emulator/mode", {"mode": name})[0] == 200


def seen(engines: list[tuple[str, int]] = ENGINES) -> list[dict[str, Any]]:
    return [record for engine in engines for record in json.loads(ask(engine, "GET", "/emulator/seen")[2])]


def wait_for(what: str, test: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end, f"{what}: not within {seconds:g} s"
        time.sleep(0.1)


@pytest.fixture
def gateway(host) -> tuple[str, int]:
    """A gateway with all engines up and nothing recorded."""
    address = (HOSTS[host.backend.get_hostname()]["ansible_host"], 80)

    for engine in ENGINES:
        wait_for(f"the stand-in {engine}", lambda engine=engine: up(engine))
    wait_for("all engines up", lambda: set(states(host).values()) == {"UP"})
    for engine in ENGINES:
        ask(engine, "POST", "/emulator/reset", {})
    return address


@pytest.fixture
def one_gateway(host, gateway) -> tuple[str, int]:
    """For what takes long and is HAProxy's own, the same on every system: shown on one host."""
    if host.backend.get_hostname() != "gateway-1":
        pytest.skip("shown on gateway-1")
    return gateway


def up(engine: tuple[str, int]) -> bool:
    try:
        return ask(engine, "POST", "/emulator/mode", {"mode": "ok"}, limit=1)[0] == 200
    except OSError:
        return False


def admin(host, command: str) -> str:
    """HAProxy's admin socket, asked by the system's own Python: nothing else has to be installed."""
    program = (
        f"import socket; s=socket.socket(socket.AF_UNIX); s.connect('{SOCKET}'); s.sendall(b'{command}\\n');"
        "print(b''.join(iter(lambda: s.recv(65536), b'')).decode())"
    )
    return host.check_output("/usr/bin/python3 -c %s", program)


def states(host) -> dict[str, str]:
    """server -> status, as HAProxy has it"""
    lines = [line.split(",") for line in admin(host, "show stat").splitlines()]
    status = lines[0].index("status")
    rows = [line for line in lines[1:] if len(line) > status and line[1] not in ("FRONTEND", "BACKEND")]
    return {row[1]: row[status] for row in rows}


# What works


@pytest.mark.parametrize(
    "path", ["/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/score"]
)
def test_inference_reaches_an_engine_with_its_key(gateway, path):
    headers = {"Authorization": "Bearer of-the-client", "X-Request-Id": "client-1", "x-fleet-models": "x"}
    status, answered, _ = ask(gateway, "POST", f"{path}?debug=1", CHAT, headers)
    assert status == 200
    assert answered["x-request-id"] == "client-1"
    (record,) = seen()
    assert record["path"] == path, "the query must not travel"
    sent = {name.lower(): value for name, value in record["headers"].items()}
    assert sent["authorization"] == f"Bearer {KEY}"
    assert sent["x-request-id"] == "client-1"
    assert "x-fleet-models" not in sent
    assert "x-forwarded-for" in sent


def test_request_ids_are_made_and_bad_ones_replaced(gateway):
    for headers in ({}, {"X-Request-Id": "a b\tc"}, {"X-Request-Id": "x" * 500}):
        _, answered, _ = ask(gateway, "POST", "/v1/completions", CHAT, headers)
        assert len(answered["x-request-id"]) == 36


def test_services_are_told_apart_by_model(gateway):
    assert ask(gateway, "POST", "/v1/embeddings", {"input": "x", "model": "org/tiny-embed"})[0] == 200
    assert len(seen([EMBED])) == 1
    assert ask(gateway, "POST", "/v1/embeddings", {"model": "tiny-alias"})[0] == 200
    assert len(seen([EMBED])) == 2
    assert seen(ACTIVE) == []


def test_models_are_listed_by_the_gateway(gateway):
    status, headers, body = ask(gateway, "GET", "/v1/models")
    assert status == 200
    assert headers["content-type"] == "application/json"
    assert [m["id"] for m in json.loads(body)["data"]] == ["tiny-chat", "org/tiny-embed", "tiny-alias"]
    for name in ("org/tiny-embed", "org%2Ftiny-embed", "tiny-chat"):
        status, _, body = ask(gateway, "GET", f"/v1/models/{name}")
        assert (status, json.loads(body)["id"]) == (200, name.replace("%2F", "/"))
    assert seen() == [], "engines are not asked"


def test_a_stream_is_passed_on_as_it_comes(gateway):
    connection = http.client.HTTPConnection(*gateway, timeout=20)
    body = json.dumps(CHAT | {"stream": True, "max_tokens": 6, "emulator_gap": 0.2})
    connection.request("POST", "/v1/completions", body)
    response = connection.getresponse()
    late = []
    for line in response:
        if line.startswith(b"data: {"):
            late.append(time.time() - json.loads(line[6:])["sent"])
    connection.close()
    assert len(late) == 6
    assert sorted(late)[3] < 0.03, late


def test_large_bodies_are_routed_when_the_model_comes_first(gateway):
    large = {"model": "tiny-chat", "prompt": "x" * 1_000_000}
    assert ask(gateway, "POST", "/v1/completions", large)[0] == 200
    assert seen()[0]["bytes"] > 1_000_000
    status, _, body = ask(gateway, "POST", "/v1/completions", {"prompt": "x" * 140_000, "model": "tiny-chat"})
    assert (status, json.loads(body)["error"]["code"]) == (400, "model_missing")


# What must not work

HOSTILE_PATHS = [
    "/", "/metrics", "/health", "/version", "/docs", "/openapi.json", "/tokenize", "/detokenize", "/invocations",
    "/ping", "/load", "/pooling", "/v2/rerank", "/rerank", "/score", "/inference/v1/generate", "/server_info",
    "/sleep", "/wake_up", "/reset_prefix_cache", "/collective_rpc", "/start_profile", "/emulator/seen", "/v1", "/v1/",
    "/v1/completions/", "/v1//completions", "//v1/completions", "/v1/./completions", "/v1/../metrics",
    "/v1/completions/../../metrics", "/v1/%2e%2e/metrics", "/v1/%2E%2E/invocations", "/v1/..%2fmetrics",
    "/v1/..%2Finvocations", "/v1/completions%2f..%2f..%2fmetrics", "/%6detrics", "/%2fmetrics", "/v1/completions%00",
    "/v1/completions;/../../metrics", "/v1/completions/..;/metrics", "/V1/COMPLETIONS", "/v1/completions%20",
    "/v1\\completions", "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/v1/audio/transcriptions",
    "/v1/models/../../metrics", "/v1/models/%2e%2e/%2e%2e/metrics", "/v1/models/tiny-chat/../../../metrics",
    "/v1/completions#/../metrics", "http://engine/metrics", "http://engine/v1/completions/../../metrics", "*",
]  # fmt: skip


def raw(where: tuple[str, int], text: bytes) -> bytes:
    """The answer to bytes that no client library would send."""
    with socket.create_connection(where, timeout=10) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_nothing_else_reaches_an_engine(gateway):
    body = json.dumps(CHAT).encode()
    wrong = []
    for path in HOSTILE_PATHS:
        for method in ("GET", "POST"):
            head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            answer = raw(gateway, head.encode() + body)
            status = int(answer.split()[1]) if answer else 0
            # The parser's own refusal of what is no HTTP is not JSON.
            if not (400 <= status < 500) or (status != 400 and b'{"error":' not in answer):
                wrong.append((method, path, answer[:80]))
    assert wrong == []
    assert seen() == []


def test_methods_are_limited(gateway):
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        status, headers, body = ask(gateway, method, "/v1/completions")
        assert (status, headers["allow"]) == (405, "POST"), method
        assert json.loads(body)["error"]["code"] == "method_not_allowed"
    for method in ("POST", "PUT", "DELETE"):
        assert ask(gateway, method, "/v1/models", CHAT)[0] == 405
    assert seen() == []


def test_smuggled_requests_stay_one(gateway):
    inner = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    both = (
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        % (5 + len(inner))
    ) + inner
    raw(gateway, both)
    raw(
        gateway,
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 40\r\n\r\n{}" + inner,
    )
    raw(gateway, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + inner)
    assert [r["path"] for r in seen() if r["path"] != "/v1/completions"] == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "no-such"}, 404, "model_not_found"),
        ({"model": ""}, 400, "model_missing"),
        ({"prompt": "x"}, 400, "model_missing"),
        (b"not json", 400, "model_missing"),
        (b"", 400, "model_missing"),
        ({"model": ["tiny-chat"]}, 400, "model_missing"),
        ({"model": "tiny-chat "}, 404, "model_not_found"),
    ],
)
def test_models_that_do_not_exist(gateway, body, status, code):
    answered = ask(gateway, "POST", "/v1/completions", body)
    assert (answered[0], json.loads(answered[2])["error"]["code"]) == (status, code)
    assert seen() == []


def test_errors_have_openai_form(gateway):
    status, headers, body = ask(gateway, "GET", "/metrics")
    assert (status, headers["content-type"]) == (404, "application/json")
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}
    assert len(headers["x-request-id"]) == 36


def test_key_is_in_one_private_file_only(host):
    assert KEY not in host.check_output("ps axww -o args")
    assert KEY not in host.check_output("systemctl show haproxy; systemctl cat haproxy")
    assert KEY not in host.check_output("journalctl --no-pager -a -o export")
    found = host.run("grep -rlsF %s /etc /run /var/lib/vllm-fleet /opt", KEY).stdout.split()
    assert set(found) == {"/etc/haproxy/vllm-fleet-engine-key.map", "/etc/engine.environment"}
    file = host.file("/etc/haproxy/vllm-fleet-engine-key.map")
    assert (file.user, file.mode) == ("root", 0o600)
    socket_file = host.file(SOCKET)
    assert (socket_file.user, socket_file.mode) == ("root", 0o600)


# Engines that fail


def many(gateway: tuple[str, int], during: Callable[[], None], count: int = 120, rate: float = 40) -> list[int]:
    def one(number: int) -> int:
        time.sleep(number / rate)
        try:
            return ask(gateway, "POST", "/v1/completions", CHAT | {"emulator_seconds": 0.02}, limit=15)[0]
        except OSError:
            return 0

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        results = [pool.submit(one, number) for number in range(count)]
        time.sleep(0.5)
        during()
        return [result.result() for result in results]


def test_an_engine_that_dies_costs_no_request(one_gateway):
    assert set(many(one_gateway, lambda: mode(ACTIVE[0], "die"))) == {200}


def test_an_engine_that_drains_costs_no_request(one_gateway):
    assert set(many(one_gateway, lambda: mode(ACTIVE[1], "error"))) == {200}


def test_an_engine_that_hangs_is_left(host, one_gateway):
    statuses = many(one_gateway, lambda: mode(ACTIVE[0], "hang"), 60, 20)
    assert states(host)["gateway-1-chat-0"] != "UP"
    # Stuck requests were ended when the engine went down, not at the time limit of requests.
    assert statuses.count(200) >= 50
    assert set(statuses) <= {200, 502, 503, 504}


def test_standby_serves_when_no_active_engine_does(host, one_gateway):
    for engine in ACTIVE:
        mode(engine, "sick")
    wait_for("both active engines down", lambda: all(states(host)[f"gateway-{n}-chat-0"] == "DOWN" for n in (1, 2)), 10)
    assert ask(one_gateway, "POST", "/v1/completions", CHAT)[0] == 200
    assert len(seen([STANDBY])) == 1


def test_without_engines_clients_get_json(host, one_gateway):
    for engine in ENGINES:
        mode(engine, "sick")
    wait_for("all engines down", lambda: set(states(host).values()) == {"DOWN"}, 10)
    for method, path, body in (
        ("POST", "/v1/completions", CHAT),
        ("GET", "/v1/models", None),
        ("GET", "/v1/models/tiny-chat", None),
    ):
        status, headers, answer = ask(one_gateway, method, path, body)
        assert (status, headers["content-type"]) == (503, "application/json")
        assert json.loads(answer)["error"]["code"] == "service_unavailable"
    assert host.run("curl -sf http://127.0.0.1:8404/").rc == 0, (
        "the virtual address follows the gateway, not the engines"
    )


# Operation


def test_drains_survive_reload_and_restart(host, gateway):
    admin(host, "set server service_chat/gateway-1-chat-0 state drain")
    try:
        for verb in ("reload", "restart"):
            host.check_output("systemctl %s haproxy", verb)
            wait_for(f"the drain after a {verb}", lambda: states(host)["gateway-1-chat-0"] == "DRAIN", 5)
            assert {ask(gateway, "POST", "/v1/completions", CHAT)[0] for _ in range(6)} == {200}
            assert seen([ACTIVE[0]]) == []
    finally:
        admin(host, "set server service_chat/gateway-1-chat-0 state ready")
        host.check_output("/opt/vllm-fleet/libexec/gateway-save-state")


def test_a_reload_cuts_no_stream(host, gateway):
    connection = http.client.HTTPConnection(*gateway, timeout=20)
    connection.request("POST", "/v1/completions", json.dumps(CHAT | {"stream": True, "max_tokens": 20}))
    response = connection.getresponse()
    assert response.readline().startswith(b"data:")
    host.check_output("systemctl reload haproxy")
    assert response.read().endswith(b"data: [DONE]\n\n")
    connection.close()


def test_saved_state_does_not_hold_an_old_port(host, gateway):
    """A changed configuration wins over what was saved: engines get other ports and weights."""
    config = "/etc/haproxy/haproxy.cfg"
    host.check_output("cp -a %s /tmp/haproxy.cfg", config)
    try:
        host.check_output("sed -i 's/10.78.23.12:9001 weight 100/10.78.23.12:9002 weight 50/' %s", config)
        host.check_output("systemctl reload haproxy")
        wait_for("requests at the new port", lambda: served_by(gateway) >= {9001, 9002}, 8)
    finally:
        host.check_output("cp -a /tmp/haproxy.cfg %s && systemctl reload haproxy", config)
        wait_for("requests at the old port alone", lambda: served_by(gateway) == {9001}, 8)


def served_by(gateway: tuple[str, int]) -> set[int]:
    return {json.loads(ask(gateway, "POST", "/v1/completions", CHAT)[2])["port"] for _ in range(8)}


def test_a_killed_gateway_comes_back(host, gateway):
    host.check_output("systemctl kill -s KILL haproxy")
    wait_for("the check port", lambda: host.run("curl -sf -m 1 http://127.0.0.1:8404/").rc == 0, 10)
    wait_for("an answer", lambda: ask(gateway, "POST", "/v1/completions", CHAT)[0] == 200, 10)


def test_metrics_and_check_port_are_where_they_belong(gateway):
    status, _, body = ask((gateway[0], 8405), "GET", "/metrics")
    assert status == 200
    assert b"haproxy_server_status" in body
    assert ask((gateway[0], 8405), "GET", "/stats")[0] == 404
    with pytest.raises(OSError):
        ask((gateway[0], 8404), "GET", "/", limit=2)


def test_service_is_enabled_with_its_limits(host):
    assert host.service("haproxy").is_enabled
    properties = host.check_output("systemctl show haproxy -p Restart -p LimitNOFILE -p StartLimitIntervalUSec")
    assert "Restart=always" in properties
    assert "StartLimitIntervalUSec=0" in properties
