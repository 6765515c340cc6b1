"""The runtime for the chip: compiles without a warning, stays small, and its generated header is fresh."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.runtime import host

LIMIT_BYTES = 10 * 1024
MAPPING = re.compile(r"^\s*(\d+)\s+(\d+)\s+(\d+)\s+\d+\s+[0-9a-f]+\s+\(TOTALS\)", re.M)
POLLING = "-DLL_ATON_RT_MODE=LL_ATON_RT_POLLING"


def arm_tool(name: str) -> str:
    found = shutil.which(f"arm-none-eabi-{name}")
    if found is None:
        pytest.skip(f"arm-none-eabi-{name} is not installed: nothing is compiled for the chip here")
    return found


def compile_all(folder: Path, flags: list[str]) -> list[str]:
    compiler, objects = arm_tool("gcc"), []
    for source in sorted((host.RUNTIME / "src").glob("*.c")):
        target = folder / f"{source.stem}.o"
        command = [compiler, "-std=c11", "-mthumb", *host.WARNINGS, *flags, f"-I{host.RUNTIME / 'include'}"]
        done = subprocess.run(
            [*command, "-c", str(source), "-o", str(target)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        objects.append(str(target))
    return objects


def test_harness_compiles_without_warning(tmp_path: Path) -> None:
    """The validation harness, for the chip; its list of networks is empty but for one name."""
    home = host.RUNTIME / "wire"
    (tmp_path / "networks.h").write_text('#define ATONC_NETWORKS(use) use(one)\n#define ATONC_SIGNATURES "00"\n')
    folders = [home, host.RUNTIME / "include", host.RUNTIME / "bare_metal", tmp_path]
    command = [arm_tool("gcc"), "-std=gnu11", "-mthumb", "-mcpu=cortex-m55", "-mfloat-abi=hard", "-O2", *host.WARNINGS]
    command += [*(f"-I{folder}" for folder in folders), "-Wstrict-prototypes", "-DLL_ATON_EB_DBG_INFO", "-c"]
    for source in sorted(home.glob("*.c")):
        done = subprocess.run([*command, str(source), "-o", str(tmp_path / "x.o")], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def sizes(objects: list[str]) -> tuple[int, int, int]:
    """Bytes of code and constants, of data, of zeroed data."""
    text = subprocess.run([arm_tool("size"), "-t", *objects], capture_output=True, text=True, check=True).stdout
    found = MAPPING.search(text)
    assert found is not None, text
    code, data, zeroed = (int(part) for part in found.groups())
    return code, data, zeroed


@pytest.mark.parametrize(
    "flags",
    [
        ["-mcpu=cortex-m55", "-O2", "-Wstrict-prototypes", "-Wshadow"],
        ["-mcpu=cortex-m33", "-Os", "-std=c99", POLLING],
        ["-mcpu=cortex-m55", "-Os", "-Wshadow", "-DLL_ATON_RT_RELOC", "-DLL_ATON_EB_DBG_INFO"],
    ],
    ids=" ".join,
)
def test_compiles_without_warning(flags: list[str], tmp_path: Path) -> None:
    assert compile_all(tmp_path, flags)


def test_the_controller_only_runtime_is_small(tmp_path: Path) -> None:
    code, data, zeroed = sizes(compile_all(tmp_path, ["-mcpu=cortex-m55", "-Os", "-DATONC_EC_ONLY"]))
    assert code + data <= LIMIT_BYTES
    assert data + zeroed < 256


def test_register_header_is_fresh() -> None:
    path = host.HERE.parent.parent / "tools" / "gen_runtime_regs.py"
    spec = importlib.util.spec_from_file_location("gen_runtime_regs", path)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.OUT.read_text(encoding="utf-8") == tool.header_text(), "run tools/gen_runtime_regs.py"


def test_headers_serve_cplusplus(tmp_path: Path) -> None:
    source = tmp_path / "application.cc"
    headers = ("ll_aton_runtime.h", "ll_aton_lib.h", "ll_sw.h", "ecloader.h")
    source.write_text("".join(f'#include "{header}"\n' for header in headers))
    flags = ["-mcpu=cortex-m55", "-fsyntax-only", *host.WARNINGS, f"-I{host.RUNTIME / 'include'}"]
    done = subprocess.run([arm_tool("g++"), *flags, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
