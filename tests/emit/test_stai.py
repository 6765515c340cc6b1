"""The ST.AI interface: what an application gets, with a runtime that only counts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from atonc.compiler.emit.c import stai
from atonc.delivery.generate import generating
from tests.emit.generated import digits, network_of

STUBS = Path(__file__).parent / "stubs"
EXPECTED = """closed 30000
init 0
again 30000
info 0 1 1
tensor 64 4 {format}
unaligned 40070
set 0 40011
get 0 1 1
out 40020
sync 0 1
async 11
busy 50000 50000
continue 10
continue 12
new 0 0
callback 0
error 30000
deinit 0 30000
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for this machine")
def test_an_application_runs_on_it(tmp_path: Path) -> None:
    view = digits("digits", inputs_allocation=False)
    generating.generate(view, tmp_path / "out", with_stai=True)
    sources = [str(tmp_path / "out" / "stai_digits.c"), str(STUBS / "main.c")]
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-I", str(STUBS), "-I", str(tmp_path / "out")]
    subprocess.run(["cc", *flags, *sources, "-o", str(tmp_path / "app")], check=True)
    done = subprocess.run([str(tmp_path / "app")], check=True, capture_output=True, text=True)
    tensor = view.compiled.graph.tensors[view.compiled.graph.inputs[0]]
    assert tensor.dtype == "int8"
    assert done.stdout == EXPECTED.format(format="840440")


def test_only_on_request() -> None:
    view = digits("digits")
    assert not any(name.startswith("stai_") for name in generating.files_of(view))
    assert {"stai_digits.c", "stai_digits.h"} <= set(generating.files_of(view, with_stai=True))


def test_macros_say_sizes_and_scales() -> None:
    text = stai.header(network_of(digits()))
    for line in (
        "#define STAI_NETWORK_IN_NUM (1)",
        "#define STAI_NETWORK_IN_1_HEIGHT (8)",
        "#define STAI_NETWORK_IN_1_SIZE_BYTES (64)",
        "#define STAI_NETWORK_OUT_1_SIZE (10)",
    ):
        assert line in text
    assert "@" not in text and "@" not in stai.source(network_of(digits()))
