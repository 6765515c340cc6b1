"""The C code of the self-test: compilers, size, and that its programs are those of the compiler."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.lower.units.arith import AffinePair, pair_unit
from atonc.compiler.plan.streams import contiguous
from atonc.delivery.probes.bench import INPUT, OUTPUT, ProbeBuilder, ProbeEpochs
from atonc.delivery.probes.build import bound, emulated
from atonc.delivery.texts.selftest_text import page_table, selftest_codes
from atonc.machine.base.templates import render
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.machine import stm32n6
from tests.selftest.bench import SELFTEST, codes

SOURCE, HEADER = SELFTEST / "atonc_selftest.c", SELFTEST / "atonc_selftest.h"
DOCS = Path(__file__).parents[2] / "docs"
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Os", "-mcpu=cortex-m55", "-mthumb", "-c")
MOST_BYTES = 6 << 10
HEADER_WORDS = {"name": "network", "NET": "NETWORK", "tool": "atonc"}
COMPILERS = {
    "arm-none-eabi-gcc": (),
    "clang": ("--target=arm-none-eabi", "-ffreestanding", "-mfloat-abi=hard", "-Wno-unused-command-line-argument"),
}


def compiled(compiler: str, target: Path, *options: str, source: Path = SOURCE) -> Path:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    headers = _string_h(target.parent) if compiler == "clang" else ()
    command = [compiler, *COMPILERS[compiler], *STRICT, *headers, *options, str(source), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return target


def _string_h(folder: Path) -> tuple[str, ...]:
    """What a C library has to have: three functions, and one for the page's example."""
    (folder / "libc").mkdir(exist_ok=True)
    text = "void *memset(void *, int, size_t);\nint memcmp(const void *, const void *, size_t);\n"
    text += "void *memcpy(void *restrict, const void *restrict, size_t);\n"
    (folder / "libc" / "string.h").write_text("#include <stddef.h>\n" + text)
    (folder / "libc" / "stdio.h").write_text("int printf(const char *restrict, ...);\n")
    return (f"-I{folder / 'libc'}",)


def sections(file: Path) -> dict[str, int]:
    lines = subprocess.run(["arm-none-eabi-size", "-A", str(file)], capture_output=True, text=True).stdout.splitlines()
    return {words[0]: int(words[1]) for words in map(str.split, lines) if len(words) == 3 and words[1].isdigit()}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("define", ["", "-DATONC_SELFTEST_NO_TEXT", "-DATONC_NO_SELFTEST", "-DATONC_SELFTEST_BASE=0"])
def test_no_warnings(compiler: str, define: str, tmp_path: Path) -> None:
    compiled(compiler, tmp_path / "out.o", *filter(None, [define]))


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("define", ["", "-DATONC_SELFTEST_NO_TEXT", "-DATONC_NO_SELFTEST"])
def test_the_example_of_the_page_compiles_with_every_define(compiler: str, define: str, tmp_path: Path) -> None:
    """A release build sets a define and edits nothing."""
    block = re.search(r"```c\n(#include .*?)\n(.*?)```", (DOCS / "selftest.md").read_text(), re.DOTALL)
    assert block is not None
    (tmp_path / "network_selftest.h").write_text(render("network/selftest.h", HEADER_WORDS))
    source = tmp_path / "example.c"
    source.write_text(f"#include <stdio.h>\n{block[1]}\nvoid example(void);\nvoid example(void) {{\n{block[2]}}}\n")
    compiled(compiler, tmp_path / "out.o", f"-I{SELFTEST}", *filter(None, [define]), source=source)


def test_code_and_constants_fit_6_kb(tmp_path: Path) -> None:
    bare = sections(compiled("arm-none-eabi-gcc", tmp_path / "bare.o", "-DATONC_SELFTEST_NO_TEXT"))
    assert sum(size for name, size in bare.items() if name.startswith((".text", ".rodata"))) < MOST_BYTES
    assert not any(size for name, size in bare.items() if name.startswith((".data", ".bss")))


def test_can_be_left_out(tmp_path: Path) -> None:
    empty = sections(compiled("arm-none-eabi-gcc", tmp_path / "empty.o", "-DATONC_NO_SELFTEST"))
    assert not any(size for name, size in empty.items() if name.startswith((".text", ".rodata", ".data", ".bss")))


def test_needs_nobody_else(tmp_path: Path) -> None:
    """No HAL, CMSIS or runtime: only what every compiler brings."""
    made = compiled("arm-none-eabi-gcc", tmp_path / "out.o")
    found = subprocess.run(["arm-none-eabi-nm", "-u", str(made)], capture_output=True, text=True).stdout.split()
    assert {name for name in found if name != "U"} <= {"memcmp", "memset", "memcpy"}
    assert set(re.findall(r"#include [<\"](.*)[>\"]", SOURCE.read_text() + HEADER.read_text())) == {
        "atonc_selftest.h", "stdint.h", "string.h",
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------------- the programs


def _sum() -> ProbeEpochs:
    bench = ProbeBuilder(512, 256)
    b = bench.epoch("sum")
    x, y = (b.read(INPUT, contiguous(256, offset=256 * k)) for k in (0, 1))
    b.write(b.unit(pair_unit(AffinePair(1 << 14, 1 << 14, 0, 0, 0, 0, 14)), x, y), OUTPUT, contiguous(256, write=True))
    return bench.add(b).done()


def _copy() -> ProbeEpochs:
    return ProbeBuilder(64, 64).chain("copy", contiguous(64), contiguous(64, write=True)).done()


@pytest.mark.parametrize(("name", "made"), [("copy_program", _copy()), ("sum_program", _sum())])
def test_programs_are_the_compilers(name: str, made: ProbeEpochs, tmp_path: Path) -> None:
    """Words of the C file, with addresses put in, are what the compiler emits for the same epoch."""
    words = _words_of(name, tmp_path)
    network = bound("probe", made)
    places = [network.program.placed[buffer].address for buffer in (INPUT, OUTPUT)]
    resolved = [places[w >> 16 & 15] + (w & 0xFFFF) if w >> 20 == 0xADD else w for w in words]
    assert resolved == ec_program.words(network.program.epochs)


def _words_of(name: str, folder: Path) -> list[int]:
    """The contents of an array of the C file, through the compiler at hand."""
    text = SOURCE.read_text().replace("static const uint32_t copy_program[]", "const uint32_t copy_program[]")
    source = folder / "visible.c"
    source.write_text(text.replace("static const uint32_t sum_program[]", "const uint32_t sum_program[]"))
    made = compiled("arm-none-eabi-gcc", folder / "visible.o", "-fdata-sections", f"-I{SELFTEST}", source=source)
    raw = folder / "words.bin"
    copy = ["arm-none-eabi-objcopy", "-O", "binary", f"--only-section=.rodata.{name}", str(made), str(raw)]
    assert subprocess.run(copy).returncode == 0
    return [int(word) for word in np.frombuffer(raw.read_bytes(), "<u4")]


def test_the_sum_is_what_the_test_expects() -> None:
    made = _sum()
    both = np.frombuffer(made.stimulus, np.int8).astype(int)
    assert np.array_equal(np.frombuffer(emulated(made), np.int8), np.clip(both[:256] + both[256:], -128, 127))
    epoch = bound("probe", made).program.epochs[0]
    cycles = hardware.epoch_cycles(epoch, stm32n6(), hardware.CONTROLLER).cycles
    assert f"#define SUM_CYCLES {cycles}u" in SOURCE.read_text()


# ------------------------------------------------------------------------------------------------------------ texts


def test_every_code_has_its_texts() -> None:
    table = selftest_codes()
    assert {number: row.name for number, row in table.items()} == codes()
    for row in table.values():
        assert row.cause and row.fix and row.register, row.name
        assert not row.cause.endswith(".") and not row.fix.endswith(".")
        for register in re.findall(r"(?:RCC|RAMCFG|RIFSC|RISAFx|CACHEAXI|XSPIx|PWR|SCB)_\w+", row.register):
            assert len(register) > 5


def test_the_page_tells_symptom_and_table_of_each() -> None:
    page = (DOCS / "selftest.md").read_text()
    symptoms, table = page.partition("## Symptoms")[2].partition("## Findings")[::2]
    for name in codes().values():
        assert f"`{name}`" in symptoms, name
    assert "\n".join(page_table()) in table
