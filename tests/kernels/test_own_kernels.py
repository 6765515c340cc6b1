"""The kernels inside a network's own file: enough for every kernel alone, and not a function more."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from atonc.compiler.emit.c import kernels
from atonc.compiler.emit.c import kernels as own_kernels
from tests.kernels.three_ways import kernels_folder

STRICT = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wunused-macros", "-O0", "-c")
CORES = {
    "here": ("gcc",),
    "vectors": ("arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mfloat-abi=hard"),
    "plain": ("arm-none-eabi-gcc", "-mcpu=cortex-m33", "-mfloat-abi=hard"),
}
KERNELS = sorted(name for d in own_kernels.definitions() for name in d.names if name.startswith("atonc_"))
KERNELS = [name for name in KERNELS if f"void {name}(" in kernels.source()]


def alone(name: str) -> str:
    """A file that uses one kernel and nothing else."""
    calls = f"const void *used(void);\nconst void *used(void) {{ return (const void *)&{name}; }}\n"
    return f"#include <stddef.h>\n#include <stdint.h>\n{own_kernels.around(calls)}"


@pytest.mark.parametrize("core", CORES)
def test_each_kernel_stands_alone_with_what_it_needs_and_nothing_else(core: str, tmp_path: Path) -> None:
    """What is missing is an error, and so is a static function or a macro that nobody uses."""
    command, *options = CORES[core]
    gcc = shutil.which(command)
    if gcc is None:
        pytest.skip(f"no {command}")
    assert len(KERNELS) > 20
    for name in KERNELS:
        (tmp_path / f"{name}.c").write_text(alone(name))
    files = [f"{name}.c" for name in KERNELS]
    done = subprocess.run([gcc, *options, *STRICT, *files], cwd=tmp_path, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    assert {path.stem for path in tmp_path.glob("*.o")} == set(KERNELS)


def test_only_what_is_called() -> None:
    text = own_kernels.around("atonc_softmax_8(1);")
    assert "static void atonc_softmax_8(" in text and "atonc_conv(" not in text and "error_function" not in text
    assert own_kernels.around("LL_ATON_Cache_MCU_Clean_Range(1);") == "LL_ATON_Cache_MCU_Clean_Range(1);"


def test_names_have_a_prefix_outside_comments() -> None:
    """The file includes headers of the application, which may have functions and macros of any name."""
    text = own_kernels.around("\n".join(KERNELS))
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    defined = re.findall(
        r"^(?:static |inline |ATONC_INLINE )*\w+ \*?(\w+)\([^;{]*\)\s\{|^#define (\w+)|^\} (\w+);", code, re.MULTILINE
    )
    names = {name for found in defined for name in found if name}
    assert len(names) > 100
    assert not {name for name in names if not name.lower().startswith(("atonc_", "kernel_"))}


def test_together_they_are_the_shared_file() -> None:
    """The same definitions in the same order, none twice and none forgotten."""
    code = "".join(re.sub(r"/\*.*?\*/", "", (kernels_folder() / kernels.SOURCE).read_text(), flags=re.DOTALL).split())
    assert all("".join(d.code.split()) in code for d in own_kernels.definitions() if d.text not in kernels.types())
    everything = own_kernels.needed(kernels.source(), with_vectors=True)
    assert [d for d in own_kernels.definitions() if d not in everything] == []


def test_a_definition_that_is_not_understood_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_kernels, "body", lambda name: "struct odd { int a; };\n")
    own_kernels.definitions.cache_clear()
    with pytest.raises(AssertionError, match="what does this define"):
        own_kernels.definitions()
    own_kernels.definitions.cache_clear()
