"""What a compilation does not need is not imported before it begins: it was a third of the time of a small model."""

from __future__ import annotations

import subprocess
import sys

from tests.patience import PATIENCE

NOT_NEEDED = ("atonc.emu", "atonc.quantizing", "atonc.sweeping", "atonc.workers", "atonc.reloc", "importlib.metadata")


def test_compiling_needs_neither_emulator_nor_sweeps() -> None:
    program = "import sys, atonc.app.generating; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE)
    loaded = done.stdout.split()
    assert "atonc.pipeline" in loaded
    assert [name for name in loaded if name.startswith(NOT_NEEDED)] == []
