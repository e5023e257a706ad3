"""Open-loop load: requests start when they are due, whether or not earlier ones have been answered.

A stream counts as whole only when it has as many completion tokens as were asked for and its finish reason is `length`:
vLLM ends a cut stream with a clean `[DONE]`.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass
from typing import Any


@dataclass
class Result:
    """One request. Times are of `time.monotonic()`, in seconds."""

    stream: bool
    started: float
    ended: float = 0.0
    tokens: int = 0
    error: str = ""

    @property
    def ok(self) -> bool:
        return not self.error


def ask(host: str, port: int, model: str, max_tokens: int, stream: bool, timeout: float = 60) -> Result:
    """One completion of exactly `max_tokens` tokens; everything else is an error that says what came instead."""
    result = Result(stream, time.monotonic())
    body: dict[str, Any] = {"model": model, "prompt": "The licence", "max_tokens": max_tokens, "ignore_eos": True}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            result.error = f"status {response.status}: {response.read(200).decode(errors='replace')}"
        else:
            reason, result.tokens = _read_stream(response) if stream else _read_answer(response)
            if result.tokens != max_tokens or reason != "length":
                result.error = f"cut: {result.tokens} of {max_tokens} tokens, finish reason {reason}"
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        result.error = f"{type(error).__name__}: {error}"
    finally:
        connection.close()
        result.ended = time.monotonic()
    return result


def _read_answer(response: http.client.HTTPResponse) -> tuple[str | None, int]:
    answer = json.load(response)
    return answer["choices"][0]["finish_reason"], answer["usage"]["completion_tokens"]


def _read_stream(response: http.client.HTTPResponse) -> tuple[str | None, int]:
    reason, tokens = None, 0
    for raw in response:
        line = raw.decode().strip()
        if not line.startswith("data: ") or line == "data: [DONE]":
            continue
        event = json.loads(line[6:])
        for choice in event.get("choices", []):
            reason = choice.get("finish_reason") or reason
        if event.get("usage"):
            tokens = event["usage"]["completion_tokens"]
    return reason, tokens


class OpenLoop:
    """Load in the background: `rate` requests a second, every second one a stream, for at most `limit` seconds."""

    def __init__(
        self, host: str, port: int, model: str, rate: float = 3, tokens: tuple[int, int] = (8, 40), limit: float = 240
    ) -> None:
        self.target = (host, port, model)
        self.rate, self.tokens, self.limit = rate, tokens, limit
        self.results: list[Result] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._pacer = threading.Thread(target=self._pace, daemon=True)

    def __enter__(self) -> OpenLoop:
        self._pacer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> list[Result]:
        self._stop.set()
        self._pacer.join(timeout=10)
        for thread in self._threads:
            thread.join(timeout=90)
        return self.results

    def _pace(self) -> None:
        begin = time.monotonic()
        for number in range(int(self.rate * self.limit)):
            if self._stop.wait(max(0.0, begin + number / self.rate - time.monotonic())):
                return
            thread = threading.Thread(target=self._one, args=(number,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _one(self, number: int) -> None:
        stream = number % 2 == 1
        result = ask(*self.target, max_tokens=self.tokens[1] if stream else self.tokens[0], stream=stream)
        with self._lock:
            self.results.append(result)
