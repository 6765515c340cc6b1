"""Weights of 4 bits: half the flash where a copy in RAM is what engines read."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.place import check
from atonc.compiler.place.four_bits import packed, unpacked
from atonc.compiler.plan.types import Buffer, BufferKind
from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.insight.report import compile_text
from atonc.insight.report.document import lines
from atonc.machine.base.errors import InputError
from atonc.machine.emu.network import load
from tests.board.programs import needs_compiler
from tests.compiler.test_named_cases import _conv, _net
from tests.emit.generated import view_of
from tests.reloc import images


def network(small: bool = True) -> Graph:
    """Weights of its convolutions fit 4 bits, or not."""
    net = _net((1, 4, 4, 24))
    _conv(net, _conv(net, net.inputs[0], 64, (1, 1)), 128, (3, 3))
    graph = net.graph("two layers")
    return replace(graph, tensors={
        name: replace(t, data=t.data >> 4) if small and t.data is not None and t.dtype == "int8" else t
        for name, t in graph.tensors.items()
    })  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 7, 256])
def test_two_values_to_a_byte_and_back(count: int) -> None:
    values = np.random.default_rng(0).integers(-8, 8, count).astype(np.int8)
    small = packed(Buffer("w", count, BufferKind.CONSTANT, data=values.tobytes()))
    assert small is not None and small.size_bytes == len(small.data) == -(-count // 2)
    assert unpacked(small, count) == values.tobytes()


@pytest.mark.parametrize("wide", [-9, 8])
def test_one_wide_value_is_enough_to_stay(wide: int) -> None:
    assert packed(Buffer("w", 3, BufferKind.CONSTANT, data=np.array([1, wide, 2], np.int8).tobytes())) is None


def test_half_the_flash_and_the_same_time() -> None:
    small, wide = (compile_graph(network(small), Options(verify=False, resident="all")) for small in (True, False))
    sizes = [found.layout.memory.weights_bytes for found in (small, wide)]
    assert sizes[0] == pytest.approx(sizes[1] / 2, abs=4) and small.cost.cycles == wide.cost.cycles
    plain = compile_graph(network(), Options(verify=False))
    assert plain.layout.memory.weights_bytes == sizes[1]  # engines read bytes


def test_what_engines_read_from_flash_stays_bytes_and_moves_up() -> None:
    found = compile_graph(network(), Options(resident="20000"))  # verified: addresses are right
    homes = [home for home in found.layout.placed.values() if home.buffer.kind == BufferKind.CONSTANT]
    assert {home.buffer.four_bits for home in homes} == {True, False}
    ends = sorted((home.address, home.address + home.reserved_bytes) for home in homes)
    assert all(before[1] == behind[0] for before, behind in pairwise(ends))


def test_the_checker_compares_the_copy_with_what_is_packed() -> None:
    found = compile_graph(network(), Options(verify=False, resident="all"))
    name = next(name for name, home in found.layout.placed.items() if home.buffer.four_bits)
    home = found.layout.placed[name]
    wrong = replace(home, buffer=replace(home.buffer, data=bytes([home.buffer.data[0] ^ 1]) + home.buffer.data[1:]))
    placed = {**found.layout.placed, name: wrong}
    edges = found.graph.inputs, found.graph.outputs
    findings = check.check(placed, found.scheduled.plans, found.memory, found.mapped.context.aliases, *edges)
    assert "a resident buffer holds the bytes of its constant" in {one.rule for one in findings}


@pytest.mark.parametrize("epoch_controller", [True, False])
def test_the_emulator_unpacks_as_the_network_does(tmp_path: Path, epoch_controller: bool) -> None:
    outputs = []
    for resident in ("", "all"):
        view = view_of(network(), options=Options(verify=False, resident=resident, epoch_controller=epoch_controller))
        folder = tmp_path / (resident or "flash")
        generating.generate(view, folder)
        emulated = load(folder)
        shape = emulated.inputs[0].shape
        emulated.write_input(0, np.arange(np.prod(shape)).astype(np.int8).reshape(shape))
        assert list(emulated.run())
        outputs.append(emulated.read_output(0))
    assert {copy.bits for copy in emulated.network.residents} == {4}
    np.testing.assert_array_equal(*outputs)


def test_other_widths_are_refused(tmp_path: Path) -> None:
    generating.generate(view_of(network(), options=Options(verify=False, resident="all")), tmp_path)
    file = tmp_path / "network.c"
    file.write_text(file.read_text().replace(".bits = 4U", ".bits = 3U"))
    with pytest.raises(InputError, match=r"changed|4 or 8 bits"):
        load(tmp_path)


@pytest.mark.parametrize("asked", [{"resident": "all"}, {"allow_unproven": ("w4-stream",)}], ids=["copied", "streamed"])
def test_every_file_counts_packed_bytes(tmp_path: Path, asked: dict[str, object]) -> None:
    view = view_of(network(), options=Options(verify=False, **asked))  # type: ignore[arg-type]
    generating.generate(view, tmp_path)
    values = 64 * 24 + 128 * 3 * 3 * 64
    assert view.memory.weights_bytes == values // 2
    assert (tmp_path / "network_atonbuf.xSPI2.raw").stat().st_size == values // 2
    info = json.loads((tmp_path / "network_c_info.json").read_text())
    assert info["memory_footprint"]["weights"] == values // 2
    assert sum(one["size_bytes"] for one in info["buffers"] if one["is_param"]) == values // 2
    assert {pool["name"]: pool["used_size_bytes"] for pool in info["memory_pools"]}["octoFlash"] == values // 2
    assert f"OCTOFLASH_CONSTANTS_BYTES {values // 2}UL" in (tmp_path / "network_memories.h").read_text()
    assert f"weights={values // 2:,} " in (tmp_path / "network_generate_report.txt").read_text()
    assert f"weights {values // 2:,} bytes" in (tmp_path / "network_report.txt").read_text()


def test_initialisation_takes_time_and_less_of_it_for_packed_weights() -> None:
    small, wide = (view_of(network(one), options=Options(verify=False, resident="all")) for one in (True, False))
    flash = small.memory.weights_bytes * small.compiled.target.machine.flash_byte_cycles / 1e6
    assert flash < compile_text.copying_ms(small) < compile_text.copying_ms(wide)
    assert "in about 0.2 ms (counted, not measured)" in "\n".join(lines(compile_text.report(small)))


@needs_compiler
def test_relocatable_images_hold_packed_bytes(tmp_path: Path) -> None:
    sizes = []
    for small in (True, False):
        mpool = str(images.pool_file(images.MEMORIES["flash"], "four_bits"))
        options = Options(mpool=mpool, relocatable=True, verify=False, resident="all")
        view, folder = view_of(network(small), options=options), tmp_path / str(small)
        generating.generate(view, folder)
        sizes.append(images.image(folder).image.params_bytes - view.memory.weights_bytes)
        assert view.memory.weights_bytes == (37632 if small else 75264)
    assert sizes[0] == sizes[1]  # what is not weights: the same padding
