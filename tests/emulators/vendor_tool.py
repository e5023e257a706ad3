"""What the stand-ins of vendors' tools share: which recording is replayed, and failing as the real ones do.

    EMULATOR_NPU_SMI=910b3 npu-smi info          replay recorded/npu-smi/910b3
    EMULATOR_NPU_SMI=half:910b3 npu-smi info     the first half of it, as of a tool that died
    EMULATOR_NPU_SMI=hang npu-smi info           never answer, and ignore every signal that can be ignored
    EMULATOR_NPU_SMI=dcmi-8005 npu-smi info      fail: recorded/failures/npu-smi.dcmi-8005

Where the environment says nothing, the first line of the file ``<tool>.case`` beside the tool does, so that a tool on a
host can be told from outside. ``EMULATOR_RECORDED`` names another folder of recordings, ``EMULATOR_EXIT`` another exit
code. Every recording has its source in recorded/SOURCES.md.

Runs on Python 3.7, so that it runs on every kind of host.
"""

import os
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: Exit codes of failures, where the source tells them; 1 stands for "not told".
EXITS = {"mismatch": 18, "no-devices": 6, "no-driver": 9, "lost": 15}
#: A command that nothing was recorded of.
NOT_RECORDED = 64


class Case:
    """One call of a tool."""

    def __init__(self, tool):
        self.tool = tool
        name = os.environ.get("EMULATOR_" + tool.upper().replace("-", "_")) or self._beside()
        kind, _, rest = name.partition(":")
        self.half, self.name = (True, rest) if kind == "half" else (False, name)
        self.recorded = Path(os.environ.get("EMULATOR_RECORDED") or HERE / "recorded")
        self.failure = HERE / "recorded" / "failures" / (tool + "." + self.name)

    def _beside(self):
        try:
            return (Path(sys.argv[0]).parent / (self.tool + ".case")).read_text().partition("\n")[0].strip()
        except OSError:
            return ""

    def text(self, file):
        """A recording of this case, or None."""
        try:
            return (self.recorded / self.tool / self.name / file).read_text(encoding="utf-8")
        except OSError:
            return None

    def fail_if_told(self):
        """Hang or fail, if that is what this case is."""
        if self.name == "hang":
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            if os.fork() == 0:  # a helper that keeps the output open, as the real ones have them
                time.sleep(600)
                os._exit(0)
            time.sleep(600)
        if self.failure.exists():
            self.answer(self.failure.read_text(encoding="utf-8"), EXITS.get(self.name, 1))

    def answer(self, text, code=0):
        """Print and end. Without a recording: say so, with an exit code of its own."""
        if text is None:
            text, code = (
                "{}: emulator: nothing recorded for: {}\n".format(self.tool, " ".join(sys.argv[1:])),
                NOT_RECORDED,
            )
        sys.stdout.write(text[: len(text) // 2] if self.half else text)
        sys.stdout.flush()
        sys.exit(int(os.environ.get("EMULATOR_EXIT", code)))
