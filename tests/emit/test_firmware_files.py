"""Memory images, required memories, caches, buffers of the application, literals."""

from __future__ import annotations

import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit.c import cpu_functions as caches
from atonc.compiler.emit.c import files, memories, names
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.generate import generating
from atonc.insight.report import generate_report
from atonc.machine.emu import network as emulated
from atonc.machine.emu.files.c_arrays import c_array_bytes
from atonc.machine.emu.files.intel_hex import read_hex
from atonc.machine.emu.files.network_c import read_network
from tests.emit.generated import DIGITS, default_board, digits, needs_compiler, network_of, view_of
from tests.emit.test_network_c import compile_c, outputs_of, sums

RAM_ONLY = """{ "memory": { "mempools": [
 { "fname": "AXISRAM5", "name": "npuRAM5",
   "prop": { "rights": "ACC_WRITE", "byteWidth": 8, "freqRatio": 1.25, "throughput": "HIGH", "latency": "LOW" },
   "offset": { "value": "0x342e0000", "magnitude": "BYTES" }, "size": { "value": "448", "magnitude": "KBYTES" } }
] } }"""


def ram_view(folder: Path) -> CompileView:
    """Nothing but RAM: constants have to live there."""
    (folder / "ram.mpool").write_text(RAM_ONLY)
    return generating.analyze(DIGITS, Options(verify=False, mpool=str(folder / "ram.mpool")), "digits")


def test_raw_images_begin_at_the_pool() -> None:
    network = network_of(digits())
    (content,) = memories.raw_files(network).values()
    (pool,) = memories.by_pool(network)
    for home in network.constants():
        start = home.address - pool.base
        assert content[start : start + len(home.buffer.data)] == home.buffer.data


def test_hex_holds_the_same_bytes(tmp_path: Path) -> None:
    network = network_of(digits())
    ((name, text),) = memories.hex_files(network).items()
    (raw,) = memories.raw_files(network).values()
    (pool,) = memories.by_pool(network)
    path = tmp_path / name
    path.write_bytes(text)
    image = bytearray(len(raw))
    for address, data in read_hex(path):
        image[address - pool.base : address - pool.base + len(data)] = data
    assert bytes(image) == raw


def test_hex_crosses_a_bank() -> None:
    pool = default_board().read_only[0]
    part = memories.PoolRange(pool, 0x7038_FFF0, bytes(range(64)), 64)
    lines = list(memories.hex_lines([part]))
    assert [line[7:9] for line in lines] == ["04", "00", "04", "00", "00", "01"]
    assert all(sum(bytes.fromhex(line[1:].strip())) % 256 == 0 for line in lines)


def test_constants_in_ram_come_as_a_loader(tmp_path: Path) -> None:
    view = ram_view(tmp_path)
    network = network_of(view)
    parts = memories.ram_ranges(network)
    assert parts
    view = generating.generate(view, tmp_path / "out")
    source = tmp_path / "out" / "digits_ram_constants.c"
    for index, part in enumerate(parts):
        assert c_array_bytes(source, f"atonc_constants_{index}") == part.data
    assert "ATONC_Load_Constants_digits" in (tmp_path / "out" / "digits.h").read_text()
    graph = view.compiled.graph
    inputs = make_inputs(graph, 0)
    expected = Emulation(view.compiled.program, graph).run(inputs)
    got = outputs_of(tmp_path / "out", [inputs[n] for n in graph.inputs], "digits")
    assert got[0].tobytes() == np.asarray(expected[graph.outputs[0]]).tobytes()


@needs_compiler
def test_the_loader_compiles(tmp_path: Path) -> None:
    generating.generate(ram_view(tmp_path), tmp_path / "out")
    done = compile_c(tmp_path / "out" / "digits_ram_constants.c", tmp_path, ())
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_pool_names_are_no_paths(tmp_path: Path) -> None:
    view = digits()
    pools = tuple(replace(pool, postfix=f"../{pool.postfix}", name=f"*/{pool.name}") for pool in view.board.pools)
    bad = replace(view, board=replace(view.board, pools=pools))
    made = generating.files_of(bad, with_hex=True)
    assert all("/" not in name for name in made)
    assert b"*/" not in made["network.c"].split(b"/* global pool 0")[1].split(b"*/\n")[1][:40]


# ----------------------------------------------------------------------------------------------------------- memories


def test_every_byte_of_the_network_is_in_a_range() -> None:
    network = network_of(digits())
    parts = memories.ranges(network)
    for home in network.program.placed.values():
        assert any(p.start <= home.address and home.end <= p.end for p in parts), home.buffer.name
    for part in parts:
        if part.data:
            assert part.crc == zlib.crc32(part.data)


@needs_compiler
def test_a_memory_that_nobody_promises_is_an_error(tmp_path: Path) -> None:
    view = digits()
    generating.generate(view, tmp_path / "out")
    source, check = tmp_path / "out" / "network.c", "-DATONC_CHECK_MEMORIES=1"
    done = compile_c(source, tmp_path, (check,))
    assert done.returncode and "switch it on" in done.stderr
    network = network_of(view)
    promised = {memories.have(part.pool) for part in memories.ranges(network)}
    assert compile_c(source, tmp_path, (check, *(f"-D{name}=1" for name in promised))).returncode == 0


@needs_compiler
def test_ranges_of_the_firmware_are_checked(tmp_path: Path) -> None:
    view = digits()
    generating.generate(view, tmp_path / "out")
    work = next(part for part in memories.ranges(network_of(view)) if not part.data)
    for start, fits in ((work.start - 64, True), (work.start - 32, False), (work.end, True)):
        source = tmp_path / "x.c"
        text = f'#include "out/network_memories.h"\nATONC_DEFAULT_KEEPS_CLEAR({start:#x}UL, {start + 64:#x}UL);\n'
        source.write_text(text)
        assert (compile_c(source, tmp_path, ()).returncode == 0) == fits


# -------------------------------------------------------------------------------------------------------------- caches


def test_caches_between_npu_and_cpu() -> None:
    network = network_of(view_of(sums()))
    npu, cpu = network.blocks
    middle, result = (network.home(name) for name in ("sum", "c"))
    assert [line.split("(")[0] for line in caches.before_npu(network, npu)] == [caches.INVALIDATE]
    assert f"{middle.address:#010x}" in caches.before_npu(network, npu)[0]
    assert caches.before_cpu(network, cpu) == [f"{caches.INVALIDATE}({middle.address:#010x}UL, 1024U);"]
    assert caches.after_cpu(network, cpu) == [f"{caches.CLEAN}({result.address:#010x}UL, 1024U);"]


def test_inputs_of_the_cpu_are_left_alone() -> None:
    """The application may have written them through the cache: invalidating would throw them away."""
    view = digits(on_cpu=())
    network = network_of(view)
    for block in network.cpu_blocks:
        first = block.reads() <= set(network.program.inputs)
        assert not first or caches.before_cpu(network, block) == []


# ------------------------------------------------------------------------------------------------------------- user I/O


@pytest.mark.parametrize("controller", (True, False), ids=("controller", "driver"))
def test_buffers_of_the_application(controller: bool, tmp_path: Path) -> None:
    view = digits("own", inputs_allocation=False, outputs_allocation=False, epoch_controller=controller)
    generating.generate(view, tmp_path / "out")
    network = read_network(tmp_path / "out")
    assert {(u.direction, u.index) for u in network.user_buffers} == {("input", 0), ("output", 0)}
    assert all(info.is_user_allocated for info in (*network.inputs, *network.outputs))
    graph = view.compiled.graph
    inputs = make_inputs(graph, 0)
    expected = Emulation(view.compiled.program, graph).run(inputs)
    got = outputs_of(tmp_path / "out", [inputs[n] for n in graph.inputs])
    assert got[0].tobytes() == np.asarray(expected[graph.outputs[0]]).tobytes()
    header = files.network_h(network_of(view))
    assert "#define LL_ATON_OWN_USER_ALLOCATED_INPUTS (1)" in header


@needs_compiler
@pytest.mark.parametrize("controller", (True, False), ids=("controller", "driver"))
def test_buffers_of_the_application_compile(controller: bool, tmp_path: Path) -> None:
    view = digits("own", inputs_allocation=False, outputs_allocation=False, epoch_controller=controller)
    generating.generate(view, tmp_path / "out")
    done = compile_c(tmp_path / "out" / "own.c", tmp_path, ())
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_the_emulator_finds_all_initialisers(tmp_path: Path) -> None:
    generating.generate(digits(), tmp_path / "out")
    (tmp_path / "out" / "network_atonbuf.xSPI2.raw").unlink()
    with pytest.raises(Exception, match="no initial contents"):
        emulated.load(tmp_path / "out")


# ------------------------------------------------------------------------------------------------------------- report


def test_the_report_has_the_sections_that_people_look_for() -> None:
    view = digits()
    text = generate_report.text(view, network_of(view))
    sections = (
        "Model name - digits", "m_id", "connected to", "Compilation details", "Memory usage information",
        "Used memory ranges", "Epochs details", "Requested memory size by section", "Summary",
    )  # fmt: skip
    places = [text.index(section) for section in sections]
    assert places == sorted(places)
    steps = view.compiled.program.steps
    assert f"Total number of epochs: {len(steps)} of which 1 implemented in software" in text
    assert len(re.findall(r"^epoch \d+ ", text, re.MULTILINE)) == len(steps)
    assert "-SW-   (      softmax       )" in text


# ------------------------------------------------------------------------------------------------------------ literals


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_floats_read_back_exactly(value: float) -> None:
    text = names.float_literal(value)
    assert text.endswith("f") and re.fullmatch(r"-?\d+\.\d+e[+-]\d+f", text)
    assert np.float32(text[:-1]) == np.float32(value)


@given(st.integers(-(1 << 63), (1 << 64) - 1))
def test_integers_read_back_exactly(value: int) -> None:
    text = names.int_literal(value)
    plain = re.sub(r"(?<=[0-9a-f])(U|LL|ULL)\b", "", text)
    assert eval(plain) == value


@given(st.lists(st.text(max_size=200), max_size=8))
def test_plain_names_are_different_and_plain(texts: list[str]) -> None:
    chosen = names.unique(texts)
    assert len(set(chosen.values())) == len(set(texts))
    assert all(re.fullmatch(r"[A-Za-z0-9_.:-]{1,96}", name) for name in chosen.values())


@given(st.text(max_size=300))
def test_comments_stay_comments(text: str) -> None:
    safe = names.comment(text)
    assert not re.search(r"[*/\\?\n\"]", safe)
