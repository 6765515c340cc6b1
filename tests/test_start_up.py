"""What a compilation does not need is not imported before it begins: it was a third of the time of a small model."""

from __future__ import annotations

import subprocess
import sys

from tests.patience import PATIENCE

NOT_NEEDED = (
    "atonc.machine.emu",
    "atonc.insight.quantizing",
    "atonc.insight.sweeping",
    "atonc.insight.workers",
    "atonc.delivery.reloc",
    "importlib.metadata",
)


def test_compiling_needs_neither_emulator_nor_sweeps() -> None:
    program = "import sys, atonc.delivery.generate.generating; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE)
    loaded = done.stdout.split()
    assert "atonc.compiler.compile.pipeline" in loaded
    assert [name for name in loaded if name.startswith(NOT_NEEDED)] == []
