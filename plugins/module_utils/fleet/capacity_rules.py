"""Whether models fit the memory of the cards that they are planned for, and whether parallel sizes divide them.

The arithmetic is in ``capacity``; here is what an inventory and a host's facts make of its questions and answers.
Engines of one deployment on hosts of one kind share one answer, so that a fleet costs as much as it has kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from .capacity import ArchitectureError, Draft, ParallelError, from_config
from .capacity_options import Options, dashless, options_of, written
from .capacity_places import Claim, Place, claim_of, kind_of_host, place_of, together
from .capacity_question import Known, Question, divides, indivisible
from .contract import Parsed
from .contract.shapes import Artifact
from .facts import HostFacts
from .inventory import Inventory
from .placement import Placed, artifact_of, pin
from .plan import Memory
from .problems import Problem, path_of, problem
from .rules import KNOWN_SCHEMES
from .version_plan import Chosen
from .version_rules import problems_of_model
from .version_sets.matrix import Matrix

#: Schemes of sources that are not on the controller: only there may a model be unknown without anything being wrong.
ELSEWHERE = frozenset(KNOWN_SCHEMES) - {"file"}
#: The library checks the numbers that it needs; config.json may hold anything else besides.
UNEXPECTED = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)


class Checker:
    """Answers for one fleet. Engines of one deployment on hosts of one kind share the answer."""

    def __init__(self, parsed: Parsed, inventory: Inventory, matrix: Matrix) -> None:
        self._parsed, self._inventory, self._matrix = parsed, inventory, matrix
        self._served: set[tuple[object, ...]] = set()
        self._hosts: dict[tuple[object, ...], list[Memory | None]] = {}
        self._answers: dict[tuple[object, ...], tuple[Memory | None, Claim]] = {}
        self._shapes: dict[tuple[object, ...], Known | ArchitectureError | None] = {}

    def check(self, engines: list[Placed], chosen: Chosen, facts: HostFacts) -> tuple[list[Problem], dict[str, Memory]]:
        """All engines of one host.

        Returns:
            Problems, each once for a deployment and a kind of host, and what is expected of memory, by engine.
        """
        key = kind_of_host(engines, chosen, facts)
        found: list[Problem] = []
        if key not in self._hosts:
            pinned = pin(engines, facts, chosen.set.backend)
            places = [place_of(e, p, chosen, facts) for e, p in zip(engines, pinned, strict=True)]
            answers = [self._engine(e, place, found) for e, place in zip(engines, places, strict=True)]
            if chosen.set.backend == "cpu":
                found += together(engines, places, [claim for _, claim in answers])
            found += [p for engine in engines for p in self._support(engine, chosen)]
            self._hosts[key] = [memory for memory, _ in answers]
        pairs = zip(engines, self._hosts[key], strict=True)
        return found, {engine.name: memory for engine, memory in pairs if memory is not None}

    def _engine(self, engine: Placed, place: Place | None, found: list[Problem]) -> tuple[Memory | None, Claim]:
        if place is None:
            return None, Claim(0, 0, None)
        key = (engine.prefix, place)
        if key not in self._answers:
            self._answers[key] = self._judge(engine, place, found)
        return self._answers[key]

    def _judge(self, engine: Placed, place: Place, found: list[Problem]) -> tuple[Memory | None, Claim]:
        options = options_of(engine)
        if engine.model not in self._parsed.models or engine.version not in self._parsed.models[engine.model].versions:
            return None, claim_of(options, place, 0)
        name, artifact = artifact_of(engine, self._parsed, place.backend)
        shape = self._shape(artifact, options.overrides)
        path = _artifact_path(engine, name)
        if isinstance(shape, ArchitectureError):
            found.append(problem("CAP-011", f"{path}.config", None, key=shape.key, fault=shape.rule))
        if shape is None and artifact.config is None and urlsplit(artifact.source).scheme in ELSEWHERE:
            found.append(problem("CAP-010", f"{path}.config", None, host=engine.host, chip=place.name))
        seen = self._inventory.models_seen.get(artifact.source)
        if not isinstance(shape, Known):
            return None, claim_of(options, place, seen.weight_bytes if seen else 0)
        draft = self._draft(engine, place, options, found)
        if (
            draft is not None
            and options.own_draft_size
            and not divides(draft.architecture, engine.deployment.tensor_parallel)
        ):
            draft = None  # it runs on fewer cards, which nobody counts yet
        question = Question(engine, place, options, artifact, shape, draft)
        try:
            memory = question.answer(found)
        except ParallelError as error:
            found.append(indivisible(engine, shape.architecture, draft.architecture if draft else None, error))
            memory = None
        except ArchitectureError as error:
            where = _option_path(engine, path, error)
            found.append(problem("CAP-011", where, None, key=error.key, fault=error.rule))
            memory = None
        except UNEXPECTED as error:
            found.append(problem("CAP-011", f"{path}.config", None, key="config.json", fault=_unexpected(error).rule))
            memory = None
        weights = memory.weights_bytes if memory else seen.weight_bytes if seen else 0
        return memory, claim_of(options, place, weights)

    def _support(self, engine: Placed, chosen: Chosen) -> list[Problem]:
        """Whether the vLLM of the set serves a model of this architecture; once for an artifact and a set."""
        row = chosen.set
        key = (engine.model, engine.version, engine.prefix, row.vllm, row.vllm_ascend, row.soc)
        model = self._parsed.models.get(engine.model)
        if key in self._served or model is None or engine.version not in model.versions:
            return []
        self._served.add(key)
        name, artifact = artifact_of(engine, self._parsed, row.backend)
        config = self._config(artifact)
        names = _merged(config, options_of(engine).overrides).get("architectures") if config else None
        if not isinstance(names, list) or not names or not isinstance(names[0], str):
            return []
        return problems_of_model(f"{_artifact_path(engine, name)}.config", names[0], row, self._matrix)

    def _config(self, artifact: Artifact) -> Mapping[str, Any] | None:
        """The config.json of an artifact: that of the files themselves first; None where there is none to be had."""
        seen = self._inventory.models_seen.get(artifact.source)
        config: Any = seen.config if seen else None
        if config is None:
            config = artifact.config
            config = self._inventory.configs.get(config) if isinstance(config, str) else config
        return config if isinstance(config, Mapping) and config else None

    def _shape(self, artifact: Artifact, overrides: Mapping[str, Any]) -> Known | ArchitectureError | None:
        """What is known of an artifact, the files themselves first."""
        key = (artifact.source, repr(artifact.config), repr(overrides))
        if key not in self._shapes:
            self._shapes[key] = self._read(artifact, overrides)
        return self._shapes[key]

    def _read(self, artifact: Artifact, overrides: Mapping[str, Any]) -> Known | ArchitectureError | None:
        seen, config = self._inventory.models_seen.get(artifact.source), self._config(artifact)
        if config is None:
            return None
        config = _merged(config, overrides)
        try:
            return Known(from_config(config), config, seen.headers if seen else None)
        except ArchitectureError as error:
            return error
        except UNEXPECTED as error:
            return _unexpected(error)

    def _draft(self, engine: Placed, place: Place, options: Options, found: list[Problem]) -> Draft | None:
        """The draft model, where it is a declared one: by name, by its directory on hosts, or by source."""
        wanted = options.speculation
        if wanted is None or wanted.model is None:
            return None
        for name, model in sorted(self._parsed.models.items()):
            for version, versions in sorted(model.versions.items()):
                for label, artifact in sorted(versions.artifacts.items()):
                    if label not in (place.backend, "default"):
                        continue
                    source = artifact.source.partition("://")[2]
                    if wanted.model in (name, source) or wanted.model.endswith(f"/{name}/{version}/{label}"):
                        shape = self._shape(artifact, {})
                        if isinstance(shape, Known):
                            return Draft(shape.architecture, wanted.method.startswith(("eagle", "mtp")))
        path = path_of((*engine.prefix, "engine", written(engine, "speculative_config", "spec_model")))
        found.append(problem("CAP-014", path, wanted.model, draft=wanted.model))
        return None


def _unexpected(error: Exception) -> ArchitectureError:
    return ArchitectureError("config.json", f"holds something unexpected: {str(error)[:80]}")


def _merged(config: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """config.json with what ``hf_overrides`` replaces."""
    merged = dict(config)
    for key, value in overrides.items():
        own = merged.get(key)
        merged[key] = _merged(own, value) if isinstance(own, Mapping) and isinstance(value, Mapping) else value
    return merged


def _artifact_path(engine: Placed, name: str) -> str:
    return path_of(("fleet_models", engine.model, "versions", engine.version, "artifacts", name))


def _option_path(engine: Placed, artifact: str, error: ArchitectureError) -> str:
    """Where a dtype or a scheme stands that the library does not know; otherwise config.json's place."""
    for own, value in engine.deployment.engine.items():
        if dashless(str(own)) in ("kv_cache_dtype", "dtype", "quantization") and repr(str(value)) in error.rule:
            return path_of((*engine.prefix, "engine", str(own)))
    return f"{artifact}.{'quantization' if error.key == 'quantization' else 'config'}"
