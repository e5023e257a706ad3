"""The readiness script, run as the unit runs it, before a small server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "roles/vllm_engine/files/engine-ready"
# argv: port, seconds of 503 at first, status of completions, what tokens it says it made
SERVER = """
import json, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
port, sick, status, tokens = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
started = time.monotonic()
class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def answer(self, code, body=b""):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.answer(503 if time.monotonic() - started < sick else 200)
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        good = self.headers.get("Authorization") == "Bearer the-key" and body["max_tokens"] == 1
        code = status if good else 401
        self.answer(code, json.dumps({"choices": [{}], "usage": {"completion_tokens": tokens}}).encode())
HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server(port: int, sick: float = 0, status: int = 200, tokens: int = 1) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(port), str(sick), str(status), str(tokens)])
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def ready(port: int, pid: int, seconds: float = 20, key: str = "the-key") -> tuple[int, str]:
    command = [sys.executable, "-I", str(SCRIPT), "--address", "127.0.0.1", "--port", str(port), "--model", "m"]
    environment = {**os.environ, "MAINPID": str(pid), "VLLM_API_KEY": key, "http_proxy": "http://127.0.0.1:1"}
    answer = subprocess.run(
        [*command, "--seconds", str(seconds)], env=environment, capture_output=True, text=True, timeout=50
    )
    return answer.returncode, answer.stdout + answer.stderr


def test_ready_after_a_token_and_never_through_a_proxy() -> None:
    port = free_port()
    with server(port, sick=1) as pid:
        code, said = ready(port, pid)
    assert (code, "waiting: its health page answers 503" in said, "ready: a token" in said) == (0, True, True)
    assert "the-key" not in said


def test_health_without_a_token_is_not_ready() -> None:
    port = free_port()
    with server(port, status=500) as pid:
        code, said = ready(port, pid, seconds=2)
    assert code == 1
    assert "gave up after 2 s: it answers 500 to a request for one token" in said


def test_an_answer_without_a_token_is_not_ready() -> None:
    port = free_port()
    with server(port, tokens=0) as pid:
        assert ready(port, pid, seconds=1)[0] == 1


def test_a_refused_key_ends_it_at_once() -> None:
    port = free_port()
    started = time.monotonic()
    with server(port) as pid:
        code, said = ready(port, pid, key="another")
    assert (code, "it answers 401" in said) == (1, True)
    assert time.monotonic() - started < 15


def test_the_end_of_the_main_process_ends_it_at_once() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    code, said = ready(free_port(), gone.pid)
    assert (code, "main process has ended" in said) == (1, True)


def test_another_program_on_the_port_is_not_the_engine() -> None:
    port = free_port()
    engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with server(port):
            code, said = ready(port, engine.pid, seconds=2)
    finally:
        engine.terminate()
        engine.wait()
    assert (code, "does not listen on port" in said) == (1, True)
