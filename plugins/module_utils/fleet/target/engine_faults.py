"""Why an engine did not come up, in words. Each entry is read from what vLLM 0.32 and systemd really say."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    code: str
    pattern: str  # in the journal of the engine, or in systemd's words about its end
    cause: str  # {0} is the first matched group
    remedy: str
    lasting: bool = True  # starting it again changes nothing


FAULTS = (
    Fault(
        "ENG-PORT",
        r"(?:Address already in use|address already in use)(?:.*?\('([\d.]+)', (\d+)\))?",
        "its port is in use by another program",
        "see who listens (ss -ltnp) and end that, or plan another port",
    ),
    Fault(
        "ENG-ADDRESS",
        r"Cannot assign requested address|cannot assign requested address",
        "its address is not an address of this host",
        "correct ansible_host",
    ),
    Fault(
        "ENG-OPTION",
        r"error: unrecognized arguments: ([^\n]+)|error: argument ([^\n]+)|Unknown (?:config )?key[^\n]*",
        "vLLM does not take the option {0}",
        "correct the engine's settings in the inventory",
    ),
    Fault(
        "ENG-LENGTH",
        r"User-specified max_model_len \((\d+)\) is greater than the derived max_model_len[^\n]*",
        "max_model_len {0} is more than the model can",
        "lower max_model_len of the service to what the model's config.json says",
    ),
    Fault(
        "ENG-KV",
        r"(?:larger than the maximum number of tokens that can be stored in KV cache|"
        r"needed, which is larger than the available KV cache memory|No available memory for the cache blocks)",
        "the KV cache has no room for one request of full length",
        "give it more memory (kv_cache_memory_bytes, gpu_memory_utilization) or lower max_model_len",
    ),
    Fault(
        "ENG-MEMORY",
        r"(?:out of memory|OutOfMemoryError|Cannot allocate memory|MemoryError|oom-kill|OOM killer)",
        "it ran out of memory",
        "lower max_num_seqs, the KV cache or max_model_len, raise memory_max_bytes, or put fewer engines on this host",
        lasting=False,
    ),
    Fault(
        "ENG-SIGILL",
        r"(?:SIGILL|Illegal instruction|status=4/ILL|code -4\b|exit code: -4)",
        "it used an instruction that this CPU refuses (SIGILL)",
        "set dtype: float32 for it; bfloat16 needs instructions that some virtual machines promise and lack",
    ),
    Fault(
        "ENG-RUNTIME",
        r"(?:status=203/EXEC|Failed (?:to locate|at step EXEC)[^\n]*|No module named '?vllm[\w.]*'?|"
        r"No package metadata was found for vllm)",
        "its runtime is missing or damaged",
        "run the vllm_runtime role for this host; a runtime without its marker is built again",
    ),
    Fault(
        "ENG-IMPORT",
        r"(?:ImportError|ModuleNotFoundError|OSError)(?:: |\(')"
        r"([^\n]*(?:cannot open shared object|undefined symbol|No module)[^\n]*)",
        "a library cannot be loaded: {0}",
        "install what is missing, or use a version set that fits this host",
    ),
    Fault(
        "ENG-MODEL-PERMISSION",
        r"PermissionError: \[Errno 13\] Permission denied: '([^']+)'|Permission denied \(os error 13\)",
        "the service user may not read or write {0}",
        "files of a model are 0644 and its directories 0755: run the model_store role with model_store_verify full",
    ),
    Fault(
        "ENG-MODEL",
        r"(?:Repo id must be in the form[^\n]*: '(/[^']+)'|Repo id must be in the form|"
        r"Invalid repository ID or local directory specified|Can't load the configuration of|"
        r"(?:does not appear to have|Error no file named|couldn't find) [^\n]*|"
        r"\[Errno 2\] No such file or directory: '([^']+)'|LocalEntryNotFoundError|outgoing traffic has been disabled)",
        "its model is not where the settings say, or is not whole {0}",
        "run the model_store role for this host, and see what it says about this model",
    ),
    Fault(
        "ENG-WEIGHTS",
        r"(?:SafetensorError|incomplete metadata|invalid header|MetadataIncompleteBuffer|HeaderTooLarge)[^\n]*",
        "a file of the model's weights is damaged",
        "run the model_store role with model_store_verify full",
    ),
    Fault(
        "ENG-MODEL-TYPE",
        r"(?:Model architectures \[?([^\n\]]+)\]? (?:are not supported|failed to be inspected)|"
        r"does not recognize this architecture)",
        "this vLLM does not know the model's architecture {0}",
        "use a version set with a vLLM that supports it",
    ),
    Fault(
        "ENG-KEY",
        r"engine-ready: .*\b401\b",
        "it refuses the key that it was given",
        "look whether another program answers on its port",
    ),
    Fault(
        "ENG-TIMEOUT",
        r"(?:start-post operation timed out|start operation timed out|engine-ready: gave up)",
        "it did not become ready in the time that the plan gives it",
        "see what it was doing below; a slow disk or a busy host needs a longer start timeout",
        lasting=False,
    ),
)


def diagnose(journal: str) -> tuple[Fault, str] | None:
    """The first fault, in the order above, that the journal shows, and its cause in words."""
    for fault in FAULTS:
        found = re.search(fault.pattern, journal)
        if found:
            group = next((text for text in found.groups() if text), "") if found.groups() else ""
            return fault, " ".join(fault.cause.format(group.strip()).split())
    return None


NOISE = re.compile(
    r"^(\s*(File \"|~*\^+~*$|During handling|The above exception)|\s{4,}|INFO|\(\w+ pid=\d+\)\s+INFO)|^\s*$"
)


def telling_lines(journal: str, fault: Fault | None, count: int = 6) -> list[str]:
    """The few lines that show it: those that match where there are some, else the last that are not noise."""
    lines = [line.rstrip()[:400] for line in journal.splitlines()]
    if fault is not None:
        hits = [index for index, line in enumerate(lines) if re.search(fault.pattern, line)]
        if hits:
            return list(dict.fromkeys(lines[index].strip() for index in hits))[:3]
    useful = [line for line in lines if not NOISE.search(line)]
    return useful[-count:]
