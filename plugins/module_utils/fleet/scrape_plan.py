"""What a Prometheus reads on a host: vLLM's own metrics on the API port of each engine, and HAProxy's own exporter."""

from __future__ import annotations

from collections.abc import Iterable

from .plan import Engine, Gateway, ScrapeTarget

METRICS_PATH = "/metrics"


def targets(host: str, engines: Iterable[tuple[Engine, str]], vllm: str, gateway: Gateway | None) -> list[ScrapeTarget]:
    """The targets of a host, in a stable order.

    Args:
        host: its name.
        engines: its engines, each with its tier. Of a replica over several hosts only the first one answers.
        vllm: the version that they run, by which rules and dashboards choose the names of metrics.
        gateway: its gateway's part.
    """
    found = [
        ScrapeTarget(
            "vllm",
            engine.address,
            engine.port,
            METRICS_PATH,
            {
                "host": host,
                "engine": engine.name,
                "service": engine.service,
                "model": engine.model,
                "model_version": engine.version,
                "tier": tier,
                "vllm": vllm,
            },
        )
        for engine, tier in engines
        if engine.replica[0] == host
    ]
    if gateway is not None:
        found.append(
            ScrapeTarget("haproxy", gateway.metrics_address, gateway.metrics_port, METRICS_PATH, {"host": host})
        )
    return found
