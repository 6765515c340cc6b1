"""The generated C: our own reader runs it to the same bytes, and nothing of the model can break it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit import runs
from atonc.compiler.emit.runs import npu_runs
from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.firmware import building
from atonc.delivery.generate import generating
from atonc.machine.emu import network as emulated
from atonc.machine.emu.files.network_c import read_network
from atonc.machine.emu.files.types import EpochFlags
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.ec.instructions import decode
from tests.emit.generated import GCC, digits, needs_compiler, network_of, view_of
from tests.lower.harness import activation, constant

HOSTILE = (
    "a */ int x = 1; /*", "??/\n#error", 'quote" \\', "// \\\nnext", "%s%n", "\u202e\x00\x07", "../../etc/passwd",
    "??'??/",
)  # fmt: skip


def sums(names: tuple[str, ...] = ("a", "b", "c")) -> Graph:
    """c = softmax(a + b): the NPU, then the CPU."""
    a, b, c = names
    shape = (1, 8, 8, 16)
    tensors = {n: activation(n, shape, 0.05, k) for k, n in enumerate((a, b))}
    tensors["sum"] = activation("sum", shape, 0.1, 3)
    tensors[c] = activation(c, shape, 1 / 256, -128)
    ops = (Op("add", "plus", (a, b), ("sum",)), Op("softmax", "soft", ("sum",), (c,), {"axis": 3, "beta": 1.0}))
    return Graph(tensors, ops, (a, b), (c,))


@pytest.fixture(scope="module", params=(True, False), ids=("controller", "driver"))
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[CompileView, Path]:
    view = digits(epoch_controller=request.param)
    folder = tmp_path_factory.mktemp("c") / "out"
    return generating.generate(view, folder), folder


def outputs_of(folder: Path, inputs: list[np.ndarray], name: str | None = None) -> list[np.ndarray]:
    net = emulated.load(folder, name)
    for index, value in enumerate(inputs):
        net.write_input(index, value)
    for _ in net.run():
        pass
    return [net.read_output(k) for k in range(len(net.outputs))]


def test_run_gives_the_bytes_of_the_verification(written: tuple[CompileView, Path]) -> None:
    view, folder = written
    compiled = view.compiled
    emulation = Emulation(compiled.program, compiled.graph)
    for seed in range(2):
        inputs = make_inputs(compiled.graph, seed)
        expected = emulation.run(inputs)
        got = outputs_of(folder, [inputs[name] for name in compiled.graph.inputs])
        for name, value in zip(compiled.graph.outputs, got, strict=True):
            assert value.tobytes() == np.asarray(expected[name]).tobytes(), name


def test_blobs_decode_to_the_program(tmp_path: Path) -> None:
    view = digits("digits")
    generating.generate(view, tmp_path / "out")
    network = read_network(tmp_path / "out")
    expected = npu_runs(view.compiled.program)
    blocks = [block for block in network.blocks if block.blob]
    assert len(blocks) == len(expected) > 0
    for block, run in zip(blocks, expected, strict=True):
        wanted = ec_program.program(step.epoch for step in run if step.epoch is not None)
        assert list(decode(network.block_program(block))) == wanted
        made = [e for e in decode_epochs(decode(network.block_program(block))) if not e.empty]
        assert [e.number for e in made] == [step.number for step in run]


def test_long_programs_are_cut_between_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = digits("digits")
    program = view.compiled.program
    longest = max(ec_program.epoch_words(epoch) for epoch in program.epochs)
    most = longest + len(ec_program.words([]))
    whole = npu_runs(program)
    monkeypatch.setattr(runs, "MOST_WORDS", most)
    cut = npu_runs(program)
    assert [step for run in cut for step in run] == [step for run in whole for step in run]
    assert len(cut) > len(whole)
    lengths = [len(ec_program.words(step.epoch for step in run if step.epoch is not None)) for run in cut]
    assert max(lengths) <= most
    generating.generate(view, tmp_path / "out")
    assert len([block for block in read_network(tmp_path / "out").blocks if block.blob]) == len(cut)
    inputs = make_inputs(view.compiled.graph, 0)
    got = outputs_of(tmp_path / "out", [inputs[name] for name in view.compiled.graph.inputs])
    expected = Emulation(program, view.compiled.graph).run(inputs)
    assert [value.tobytes() for value in got] == [expected[name].tobytes() for name in view.compiled.graph.outputs]


def test_blocks_have_the_flags_that_runtimes_walk_by(written: tuple[CompileView, Path]) -> None:
    view, folder = written
    blocks = read_network(folder).blocks
    whole = EpochFlags.EPOCH_START | EpochFlags.EPOCH_END
    for block in blocks:
        assert whole in block.flags
        assert (EpochFlags.PURE_SW in block.flags) != (EpochFlags.PURE_HW in block.flags)
        assert (EpochFlags.BLOB in block.flags) == (block.blob is not None)
        if EpochFlags.PURE_SW in block.flags:
            assert block.start is None and block.end is not None and block.wait_mask == 0
        elif block.blob is None:
            assert block.wait_mask == block.out_streng_mask != 0
    numbers = [(block.epoch_num or 0, block.last_epoch_num or 0) for block in blocks]
    assert numbers[0][0] == 1 and numbers[-1][1] == len(view.compiled.program.steps)
    assert all(before[1] + 1 == after[0] for before, after in pairwise(numbers))


def test_buffer_tables_say_what_the_model_says(written: tuple[CompileView, Path]) -> None:
    view, folder = written
    network, graph, program = read_network(folder), view.compiled.graph, view.compiled.program
    for infos, names in ((network.inputs, graph.inputs), (network.outputs, graph.outputs)):
        assert len(infos) == len(names)
        for info, name in zip(infos, names, strict=True):
            tensor = graph.tensors[name]
            assert info.address == program.placed[name].address
            assert info.mem_shape == tensor.shape
            assert info.size_bytes == program.placed[name].buffer.size_bytes
            if tensor.quant is not None:
                assert info.scales == pytest.approx([tensor.scale]) and info.offsets == (tensor.zero_point,)
    assert {p.address for p in network.params} == {h.address for h in network_of(view).constants()}
    assert network.internals


def test_same_input_same_bytes() -> None:
    assert generating.files_of(digits(), with_hex=True) == generating.files_of(digits(), with_hex=True)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_the_model_cannot_act(name: str, tmp_path: Path) -> None:
    view = replace(view_of(sums((f"{name}1", f"{name}2", f"{name}3"))), model=f"{name}.tflite")
    view = generating.generate(view, tmp_path / "out")
    assert all(Path(file).parent == tmp_path / "out" for file in view.files)
    network = read_network(tmp_path / "out")
    labels = [info.name for info in (*network.inputs, *network.outputs)]
    assert len(set(labels)) == 3 and all(label.isascii() and label.isprintable() for label in labels)
    for file in view.files:
        if file.endswith((".c", ".h")):
            text = Path(file).read_text()
            assert name not in text and "??" not in text
    expected = outputs_of_plain(view)
    inputs = make_inputs(view.compiled.graph, 0)
    got = outputs_of(tmp_path / "out", [inputs[n] for n in view.compiled.graph.inputs])
    assert got[0].tobytes() == expected.tobytes()


K = constant("k", np.arange(16, dtype=np.int8).reshape(1, 16), 0.1)
ODD_EDGES = {
    "one output twice": (("c", "c"), ()),
    "a constant as output": (("c", "k"), (K,)),
    "an input as output": (("c", "a"), ()),
    "a value inside as output": (("sum", "c"), ()),
}


@pytest.mark.parametrize("case", ODD_EDGES)
def test_odd_outputs(case: str, tmp_path: Path) -> None:
    outputs, more = ODD_EDGES[case]
    graph = sums()
    view = view_of(replace(graph, tensors={**graph.tensors, **{t.name: t for t in more}}, outputs=outputs))
    generating.generate(view, tmp_path / "out")
    compiled = view.compiled
    inputs = make_inputs(compiled.graph, 0)
    expected = Emulation(compiled.program, compiled.graph).run(inputs)
    got = outputs_of(tmp_path / "out", [inputs[n] for n in compiled.graph.inputs])
    for name, value in zip(compiled.graph.outputs, got, strict=True):
        assert value.tobytes() == np.asarray(expected[name]).tobytes(), name


@pytest.mark.parametrize("dtype", ("int16", "int32", "int64", "uint8", "bool", "float32"))
def test_types_of_outputs(dtype: str, tmp_path: Path) -> None:
    tensors = {"x": Tensor("x", (1, 8), "float32"), "y": Tensor("y", (1, 8), dtype)}
    graph = Graph(tensors, (Op("cast", "to", ("x",), ("y",)),), ("x",), ("y",))
    view = view_of(graph, options=Options(verify=False, allow_float=True))
    generating.generate(view, tmp_path / "out")
    compiled = view.compiled
    inputs = make_inputs(compiled.graph, 0)
    expected = Emulation(compiled.program, compiled.graph).run(inputs)
    (value,) = outputs_of(tmp_path / "out", [inputs["x"]])
    assert value.dtype == np.dtype("uint8" if dtype == "bool" else dtype)
    assert value.tobytes() == np.asarray(expected["y"]).tobytes()


def outputs_of_plain(view: CompileView) -> np.ndarray:
    compiled = view.compiled
    result = Emulation(compiled.program, compiled.graph).run(make_inputs(compiled.graph, 0))
    return np.asarray(result[compiled.graph.outputs[0]])


def test_names_keep_networks_apart(tmp_path: Path) -> None:
    for name in ("first", "second"):
        generating.generate(view_of(sums(), name), tmp_path / "out")
    for name in ("first", "second"):
        network = read_network(tmp_path / "out", name)
        assert network.name == name
        blobs = {block.blob for block in network.blocks if block.blob}
        assert all(blob.startswith(f"_ec_blob_{name}_") for blob in blobs if blob)


def test_a_network_without_a_name_is_called_default(tmp_path: Path) -> None:
    generating.generate(view_of(sums()), tmp_path / "out")
    assert read_network(tmp_path / "out").name == "Default"
    assert 'alias("LL_ATON_EpochBlockItems_Default")' in (tmp_path / "out" / "network.c").read_text()


def test_channels_first_models_say_so(tmp_path: Path) -> None:
    shape = (1, 4, 8, 8)
    tensors = {n: activation(n, shape) for n in ("a", "b")}
    op = Op(
        "max_pool",
        "pool",
        ("a",),
        ("b",),
        {"window": (1, 1), "stride": (1, 1), "padding": (0, 0, 0, 0), "layout": "NCHW"},
    )
    graph = Graph(tensors | {"b": Tensor("b", shape, "int8", tensors["a"].quant)}, (op,), ("a",), ("b",))
    view = view_of(graph)
    generating.generate(view, tmp_path / "out")
    (info,) = read_network(tmp_path / "out").inputs
    assert info.chpos == "First" and info.mem_shape == shape and info.shape == (1, 8, 8, 4)


@needs_compiler
@pytest.mark.parametrize("extra", ((), ("-DLL_ATON_EB_DBG_INFO",), ("-DLL_ATON_DBG_BUFFER_INFO_EXCLUDED=1",)))
def test_it_compiles_without_a_warning(
    written: tuple[CompileView, Path], extra: tuple[str, ...], tmp_path: Path
) -> None:
    _, folder = written
    done = compile_c(folder / "network.c", tmp_path, extra)
    assert done.returncode == 0 and not done.stderr, done.stderr


@needs_compiler
def test_hostile_names_compile(tmp_path: Path) -> None:
    names = tuple(f"{name}{k}" for k, name in enumerate(HOSTILE[:3]))
    view = replace(view_of(sums((names[0], names[1], names[2]))), model="".join(HOSTILE))
    generating.generate(view, tmp_path / "out")
    done = compile_c(tmp_path / "out" / "network.c", tmp_path, ("-trigraphs",))
    assert done.returncode == 0 and not done.stderr, done.stderr


def compile_c(source: Path, folder: Path, extra: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    includes = [flag for part in ("include", "kernels") for flag in ("-I", str(building.runtime_folder(part)))]
    flags = ["-mcpu=cortex-m55", "-mthumb", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]
    platform = ["-DLL_ATON_PLATFORM=LL_ATON_PLAT_STM32N6", "-DLL_ATON_OSAL=LL_ATON_OSAL_BARE_METAL"]
    command = [GCC, *flags, *platform, *extra, *includes, "-c", str(source), "-o", str(folder / "x.o")]
    return subprocess.run(command, capture_output=True, text=True)
