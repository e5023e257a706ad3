"""A stand-in for an engine, for tests of what is before it: speaks the part of vLLM's HTTP API that gateways see.

    EMULATOR_KEY=... engine.py PORT MODEL        MODEL is "*" for any

Runs on Python 3.7, so that it runs on every kind of host.

GET  /emulator/seen       what came since the last call of /emulator/reset, one record a request
POST /emulator/mode       {"mode": "ok" | "error" | "hang" | "die" | "sick"}: how it behaves from now on
POST /emulator/reset      forget what came
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GUARDED = "/v1/"


class State:
    def __init__(self, port: int, key: str, model: str) -> None:
        self.port, self.key, self.model = port, key, model
        self.mode = "ok"
        self.seen: list[dict[str, object]] = []
        self.lock = threading.Lock()


class Engine(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: State
    # As uvicorn has it.
    timeout = 5

    def log_message(self, format: str, *args: object) -> None:
        pass

    def answer(self, status: int, body: object, content_type: str = "application/json") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                parts.append(self.rfile.read(size))
                self.rfile.readline()
                if size == 0:
                    return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_GET(self) -> None:
        self.handle_any()

    do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = do_GET

    def handle_any(self) -> None:
        state = self.state
        body = self.read_body()
        if self.path.startswith("/emulator/"):
            self.control(body)
            return
        if state.mode == "hang":
            # The connection stands, nothing is said: what a stopped process looks like.
            while state.mode == "hang":
                time.sleep(0.1)
            self.close_connection = True
            return
        if self.path == "/health":
            self.answer(503 if state.mode == "sick" else 200, b"")
            return
        with state.lock:
            state.seen.append(
                {"method": self.command, "path": self.path, "headers": dict(self.headers.items()), "bytes": len(body)}
            )
        if state.mode == "die":
            os._exit(137)
        if self.path.startswith(GUARDED) and self.headers.get("Authorization") != f"Bearer {state.key}":
            self.answer(401, {"error": {"message": "Unauthorized", "type": "invalid_request_error", "code": 401}})
        elif state.mode == "error":
            self.answer(500, {"error": {"message": "the engine drains", "type": "server_error", "code": 500}})
        elif self.path.startswith(GUARDED):
            self.complete(json.loads(body or b"{}"))
        else:
            # Everything else that an engine has, and that no client may reach.
            self.answer(200, {"reached": self.path})

    def control(self, body: bytes) -> None:
        state = self.state
        with state.lock:
            if self.path == "/emulator/seen":
                self.answer(200, state.seen)
                return
            if self.path == "/emulator/reset":
                state.seen = []
            elif self.path == "/emulator/mode":
                state.mode = json.loads(body)["mode"]
        self.answer(200, {"mode": state.mode})

    def complete(self, request: dict[str, object]) -> None:
        if self.state.model != "*" and request.get("model") not in (None, self.state.model):
            self.answer(404, {"error": {"message": "no such model", "type": "NotFoundError", "code": 404}})
            return
        time.sleep(float(str(request.get("emulator_seconds", 0))))
        if not request.get("stream"):
            choice = {"index": 0, "text": "ok", "finish_reason": "stop"}
            self.answer(
                200,
                {"object": "text_completion", "model": self.state.model, "port": self.state.port, "choices": [choice]},
            )
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(int(str(request.get("max_tokens", 5)))):
            self.chunk(f"data: {json.dumps({'choices': [{'index': 0, 'text': str(number)}], 'sent': time.time()})}\n\n")
            time.sleep(float(str(request.get("emulator_gap", 0.1))))
        self.chunk("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def main() -> None:
    Engine.state = State(int(sys.argv[1]), os.environ["EMULATOR_KEY"], sys.argv[2])
    ThreadingHTTPServer.allow_reuse_address = True
    ThreadingHTTPServer.daemon_threads = True
    ThreadingHTTPServer.request_queue_size = 128
    ThreadingHTTPServer(("0.0.0.0", Engine.state.port), Engine).serve_forever()


if __name__ == "__main__":
    main()
