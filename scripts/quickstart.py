"""From nothing to an answer on this machine: sandbox hosts, `site.yml`, then a completion through the VIP.

Safe to run again at any time; every stage leaves alone what is already right.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
INVENTORY = "inventories/sandbox"
STATE = ROOT / ".fleet" / "sandbox"
BEGIN = time.monotonic()


def clock() -> str:
    seconds = int(time.monotonic() - BEGIN)
    return f"[{seconds // 60:3d}:{seconds % 60:02d}]"


def stage(title: str, command: list[str]) -> None:
    """Run one stage with its output shown; end with the stage's name when it fails."""
    print(f"\n{clock()} {title}\n        $ {' '.join(command)}", flush=True)
    if code := subprocess.run(command, cwd=ROOT, check=False).returncode:
        print(f"\n{clock()} FAILED: {title} (exit code {code}). The cause stands above.", file=sys.stderr)
        print(
            "          what to do: mend it and run `make quickstart` again; it goes on from here.",
            file=sys.stderr,
        )
        sys.exit(1)


def slices() -> list[dict[str, Any]]:
    return [json.loads(p.read_text()) for p in sorted((STATE / "slices").glob("*.json"))]


def post(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=120)


def show_completion(base: str, model: str) -> None:
    messages = [{"role": "user", "content": "What does this licence permit?"}]
    body: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": 24}
    print(f"\n{clock()} A completion\n        $ curl {base}/chat/completions -H 'Content-Type: application/json' \\")
    print(f"            -d '{json.dumps(body)}'")
    started = time.monotonic()
    with post(f"{base}/chat/completions", body) as response:
        answer = json.load(response)
    print(f"        {answer['choices'][0]['message']['content']!r}")
    usage = answer["usage"]
    print(f"        {usage['completion_tokens']} tokens in {time.monotonic() - started:.2f} s")

    print(f"\n{clock()} The same as a stream\n        ", end="")
    chunks = 0
    with post(f"{base}/chat/completions", body | {"stream": True}) as response:
        for raw in response:
            line = raw.decode().strip()
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            for choice in json.loads(line[6:])["choices"]:
                if text := choice["delta"].get("content"):
                    chunks += 1
                    print(text.replace("\n", "⏎"), end="", flush=True)
    print(f"\n        {chunks} chunks")


def table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("        " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def show_fleet(plan: list[dict[str, Any]], base: str, vip: str) -> None:
    rows: list[tuple[str, ...]] = [("host", "address", "runs", "listens on")]
    for host in plan:
        for engine in host["engines"]:
            what = f"vLLM {engine['service']} ({engine['model']} {engine['version']})"
            rows.append((host["host"], host["address"], what, f"{engine['address']}:{engine['port']}"))
        if host["gateway"]:
            gateway = host["gateway"]
            rows.append((host["host"], host["address"], "HAProxy, keepalived", f"{host['address']}:{gateway['port']}"))
    print(f"\n{clock()} What runs where")
    table(rows)
    gateway_host = next(h for h in plan if h["gateway"])
    metrics = f"{gateway_host['gateway']['metrics_address']}:{gateway_host['gateway']['metrics_port']}"
    engine = next(e for h in plan for e in h["engines"])
    print(f"""
        The service answers at the virtual address {vip}. How to go on:
          status      make status
          one host    .venv/bin/python -m sandbox exec -i {INVENTORY} {plan[0]["host"]} -- systemctl status
          plan        .venv/bin/ansible-playbook playbooks/plan.yml -i {INVENTORY}
          metrics     curl http://{engine["address"]}:{engine["port"]}/metrics
                      curl http://{metrics}/metrics
          client      OpenAI(base_url="{base}", api_key="unused").chat.completions.create(
                        model="{engine["served_model_name"]}", messages=[{{"role": "user", "content": "Hello"}}])
          stop        make stop    (keeps the caches; `make clean` removes every trace)
""")


def main() -> int:
    python = sys.executable
    stage("Images, packages, wheels and the model", [python, "-m", "sandbox", "prepare", "-i", INVENTORY])
    stage("Hosts of the sandbox", [python, "-m", "sandbox", "up", "-i", INVENTORY])
    stage("From bare hosts to a serving fleet", ["ansible-playbook", "site.yml", "-i", INVENTORY])
    plan = slices()
    gateway = next(h["gateway"] for h in plan if h["gateway"])
    vip = gateway["vip_addresses"][0]
    base = f"http://{vip}:{gateway['port']}/v1"
    try:
        show_completion(base, gateway["services"][0]["models"][0])
    except (urllib.error.URLError, OSError) as error:
        print(f"\n{clock()} FAILED: {base} did not answer: {error}", file=sys.stderr)
        print(
            "          what to do: `make status`; then the journal of haproxy and of the engines.",
            file=sys.stderr,
        )
        return 1
    show_fleet(plan, base, vip)
    print(f"{clock()} done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
