"""What a compilation does not need is not imported before it begins: it was a third of the time of a small model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from atonc.doors.cli.cli import FILES
from tests.frontends.tflite_models import conv_model
from tests.patience import PATIENCE

NOT_NEEDED = (
    "atonc.machine.emu",
    "atonc.insight.quantizing",
    "atonc.insight.sweeping",
    "atonc.insight.workers",
    "atonc.delivery.reloc",
    "importlib.metadata",
)
ALWAYS = {"atonc.doors.verbs.stedgeai"}  # it says what a command line by ST's name means


def test_compiling_needs_neither_emulator_nor_sweeps() -> None:
    program = "import sys, atonc.delivery.generate.generating; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE)
    loaded = done.stdout.split()
    assert "atonc.compiler.compile.pipeline" in loaded
    assert [name for name in loaded if name.startswith(NOT_NEEDED)] == []


def test_a_verb_loads_no_other_verb(tmp_path: Path) -> None:
    """All options of all verbs, and masked arrays for one sort, were an eighth of the time of one layer."""
    (tmp_path / "one.tflite").write_bytes(conv_model())
    program = (
        "import sys; from atonc.doors.cli.start import main; sys.argv[0] = 'atonc'; code = main(); "
        "print('\\n'.join(sys.modules)); sys.exit(code)"
    )
    command = [sys.executable, "-c", program, "analyze", str(tmp_path / "one.tflite"), "-q"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.split()
    assert "atonc.doors.verbs.generate" in loaded and "atonc.compiler.verify.verify" in loaded
    others = {f"atonc.doors.{file}" for file in FILES.values()} - ALWAYS - {"atonc.doors.verbs.generate"}
    assert not others & set(loaded)
    assert "numpy.ma" not in loaded


def test_the_version_needs_no_arrays() -> None:
    program = "import sys; from atonc.doors.cli.cli import main\ntry: main(['--version'])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    loaded = done.stdout.split()
    assert done.returncode == 0 and loaded[0] == "atonc"
    assert "numpy" not in loaded and not ({f"atonc.doors.{file}" for file in FILES.values()} - ALWAYS) & set(loaded)


def test_the_import_of_torch_is_a_name_until_something_of_it_is_asked_for() -> None:
    program = (
        "import sys; import atonc.torch; print(*(n for n in sys.modules if n.startswith('atonc')))\n"
        "from atonc.torch import compile\nimport atonc.torch as there\n"
        "assert there is atonc.torch and compile is atonc.torch.compile\n"
        "assert 'quantize' in dir(sys.modules['atonc.torch'])\n"
        "assert 'numpy' not in sys.modules and 'torch' not in sys.modules\n"
        "try: from atonc.torch import nothing\nexcept ImportError: print('refused')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE)
    loaded, last = done.stdout.splitlines()
    assert set(loaded.split()) == {"atonc", "atonc.executorch", "atonc.torch"} and last == "refused"


def test_a_package_that_is_missing_is_said_in_words() -> None:
    """`register` imports no package until it is called; the other names do when they are asked for."""
    program = (
        "import sys; sys.modules['executorch'] = None\n"
        "from atonc.executorch import register\n"
        "try: register()\nexcept Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.startswith("ToolError executorch is not installed")
    assert "pip install 'atonc[executorch]'" in done.stdout


def test_the_list_of_verbs_needs_no_arrays() -> None:
    """They were half of the time of the first command that people type."""
    program = "import sys; from atonc.doors.cli.cli import main\ntry: main(['--help'])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and "usage: atonc" in done.stdout
    assert "numpy" not in done.stdout.splitlines()[-1].split()
