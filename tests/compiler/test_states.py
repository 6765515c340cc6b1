"""States: one memory for both ends, whatever the network reads and writes in which order; mistakes are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.emit.c import stai
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.inputs.inputs import edge_values
from atonc.compiler.ir import CarriedState, Graph, Op, Quantisation, Tensor, check
from atonc.compiler.lower.semantics.run import run_mapped
from atonc.compiler.ops import run_graph
from atonc.compiler.passes import order
from atonc.compiler.passes.states import declare_states
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.generate import generating
from atonc.doors.cli.cli import parser
from atonc.doors.python.compilation import session_of
from atonc.insight.report.compile_text import edge_text
from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.network import load
from tests.emit.generated import network_of, view_of
from tests.errors_said import unwrapped
from tests.frontends.test_tflite_variables import model

SHAPE, ROW = (1, 4, 2, 8), (1, 8, 1, 8)
FORMAT = Quantisation.per_tensor(0.05, -3)
FRAMES = 5
ATTRS = {"layout": "NHWC", "dilation": (1, 1), "groups": 1, "stride": (1, 1), "padding": (0,) * 4}


def tensor(name: str, shape: tuple[int, ...] = SHAPE, quant: Quantisation = FORMAT) -> Tensor:
    return Tensor(name, shape, "int8", quant)


def drawn(seed: int) -> Graph:
    """A network of sums, maxima, convolutions and views of three states and a frame; each state gets its next value
    from any tensor, also from another state or one that the application gets."""
    rng = np.random.default_rng(seed)
    inputs = ["x", "a", "b", "c"]
    tensors = {name: tensor(name) for name in inputs}
    ops: list[Op] = []
    weights = rng.integers(-90, 90, (8, 1, 1, 8)).astype(np.int8)
    tensors["w"] = Tensor("w", weights.shape, "int8", Quantisation.per_tensor(0.01, 0), weights)
    known = list(inputs)
    for number in range(int(rng.integers(3, 9))):
        name, kind = f"t{number}", str(rng.choice(["add", "maximum", "conv", "view", "minimum"]))
        one, two = (str(rng.choice(known[-6:] if rng.random() < 0.8 else known)) for _ in range(2))
        tensors[name] = tensor(name)
        if kind == "view":
            tensors[f"{name}r"] = tensor(f"{name}r", ROW)
            ops.append(Op("reshape", f"{name}r", (one,), (f"{name}r",)))
            ops.append(Op("reshape", name, (f"{name}r",), (name,)))
        elif kind == "conv":
            ops.append(Op("conv", name, (one, "w", ""), (name,), ATTRS))
        else:
            ops.append(Op(kind, name, (one, two), (name,)))
        known.append(name)
    last = known[-1]
    first = [np.full(SHAPE, int(rng.integers(-9, 9)), np.int8), rng.integers(-99, 99, SHAPE).astype(np.int8)]
    states = []
    for name in inputs[1:]:
        source = str(rng.choice([other for other in known if other != name]))
        states.append(CarriedState(name, source, first[int(rng.integers(2))], shown=source == last))
    outputs = tuple(dict.fromkeys((last, *(state.output for state in states))))
    return check(Graph(tensors, tuple(ops), tuple(inputs), outputs, f"states {seed}", states=tuple(states)))


def follows_its_states(compiled: Compiled) -> None:
    """Every frame gives what exact arithmetic makes of the states that the frame before has left in memory."""
    graph, emulation = compiled.graph, Emulation(compiled.program, compiled.graph, compiled.memory.pools)
    kept = [state for state in graph.states if state.kept]
    values = {state.input: state.first for state in kept}
    for frame in range(FRAMES):
        given = {name: value for name, value in make_inputs(graph, frame).items() if name in graph.frame_inputs}
        for state in kept:
            assert np.array_equal(emulation.load(state.input), values[state.input]), (frame, state.input)
        found, exact = emulation.run(given), run_graph(graph, {**given, **values})
        for name in graph.outputs:
            apart = np.abs(found[name].astype(np.int64) - exact[name].astype(np.int64)).max(initial=0)
            assert apart <= 2, (frame, name, apart)
        values = {state.input: found[state.output] for state in kept}
    emulation.reset()
    assert all(np.array_equal(emulation.load(state.input), state.first) for state in kept)


@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_reads_and_writes(seed: int) -> None:
    graph = drawn(seed)
    try:
        compiled = compile_graph(graph, Options(verify=seed % 4 == 0))
    except AtoncError as error:
        assert "never changes" in str(error) or "is an output of the model" in str(error)
        return
    follows_its_states(compiled)
    assert compiled.program.inputs == ("x",) and graph.outputs[0] in compiled.program.outputs
    homes = {state.name: compiled.program.placed[state.output].address for state in compiled.program.states}
    assert homes == {state.name: state.address for state in compiled.program.states}
    assert len(set(homes.values())) == len(homes) == 3


def test_states_that_change_places() -> None:
    """Nobody's value is lost where two states get each other's."""
    tensors = {name: tensor(name) for name in ("x", "a", "b", "y")}
    ops = (Op("add", "y", ("x", "a"), ("y",)),)
    states = (CarriedState("a", "b", np.full(SHAPE, 5, np.int8)), CarriedState("b", "a", np.full(SHAPE, 9, np.int8)))
    graph = check(Graph(tensors, ops, ("x", "a", "b"), ("y", "a", "b"), "swap", states=states))
    with pytest.raises(AtoncError, match="input of a state is an output"):
        compile_graph(graph, Options(verify=False))
    views = (Op("reshape", "ar", ("a",), ("ar",)), Op("reshape", "br", ("b",), ("br",)))
    tensors |= {"ar": tensor("ar"), "br": tensor("br")}
    states = (replace(states[0], output="br"), replace(states[1], output="ar"))
    graph = check(Graph(tensors, (*ops, *views), ("x", "a", "b"), ("y", "ar", "br"), "swap", states=states))
    compiled = compile_graph(graph, Options(verify=False))
    follows_its_states(compiled)


def real_ends(given: Quantisation, left: Quantisation) -> Graph:
    """A state that is real at both ends, with codes inside, channels first."""
    shape = (1, 8, 4, 2)
    tensors = {name: Tensor(name, shape, "float32") for name in ("x", "s", "y", "n")}
    tensors |= {"qx": tensor("qx", shape), "qs": tensor("qs", shape, given), "sum": tensor("sum", shape, left)}
    ops = (
        Op("quantize", "qx", ("x",), ("qx",)),
        Op("quantize", "qs", ("s",), ("qs",)),
        Op("add", "sum", ("qx", "qs"), ("sum",)),
        Op("dequantize", "y", ("sum",), ("y",)),
        Op("dequantize", "n", ("sum",), ("n",)),
    )
    state = CarriedState("s", "n", np.zeros(shape, np.float32))
    return check(Graph(tensors, ops, ("x", "s"), ("y", "n"), "real", "onnx", states=(state,)))


def test_real_ends_are_carried_as_codes() -> None:
    compiled = compile_graph(real_ends(FORMAT, FORMAT), Options())
    (state,) = compiled.program.states
    assert state.first == bytes([253]) * 64 and compiled.graph.tensors["s"].dtype == "int8"
    follows_its_states(compiled)


def test_an_input_given_as_codes_may_be_the_next_state() -> None:
    """A cache of one row: the codes of the input are the state's output, and only the conversion goes."""
    tensors = {name: Tensor(name, SHAPE, "float32") for name in ("x", "y")}
    tensors |= {name: tensor(name) for name in ("old", "new", "sum")}
    adds = Op("add", "sum", ("new", "old"), ("sum",))
    ops = (Op("quantize", "new", ("x",), ("new",)), adds, Op("dequantize", "y", ("sum",), ("y",)))
    states = (CarriedState("old", "new", np.full(SHAPE, 5, np.int8)),)
    graph = check(Graph(tensors, ops, ("x", "old"), ("y", "new"), "row", states=states))
    compiled = compile_graph(graph, Options(verify=False, input_type="int8"))
    assert compiled.graph.tensors["x"].dtype == "int8" and compiled.graph.outputs == ("y", "new")
    follows_its_states(compiled)


def test_two_scales_are_requantised() -> None:
    """As the model does it: real values of one scale, then codes of the other."""
    given, left = Quantisation.per_tensor(0.003334, -128), Quantisation.per_tensor(0.003763, -128)
    compiled = compile_graph(real_ends(given, left))
    source, emulation = compiled.source, Emulation(compiled.program, compiled.graph)
    kept = source.states[0].first
    for frame in range(FRAMES):
        x = np.random.default_rng(frame).normal(0, 0.2, (1, 8, 4, 2)).astype(np.float32)
        exact = run_graph(source, {"x": x, "s": kept})
        assert np.allclose(emulation.run({"x": x})["y"], exact["y"])
        kept = exact["n"].astype(np.float32)


def test_the_files_say_where_states_lie(tmp_path: Path) -> None:
    view = view_of(read_tflite(model()), "stream")
    generating.generate(view, tmp_path / "out", with_stai=True)
    network = load(tmp_path / "out", "stream")
    (state,) = network.network.states
    assert state.first == bytes([7]) * 8 and [info.name for info in network.inputs] == ["x"]
    emulation = Emulation(view.compiled.program, view.compiled.graph)
    for frame in range(FRAMES):
        x = make_inputs(view.compiled.graph, frame)["x"]
        network.write_input(0, x)
        assert list(network.run())
        assert np.array_equal(network.read_output(0), emulation.run({"x": x})["y"])
    network.reset()
    assert bytes(network.memory.read(state.address, 8)) == state.first
    header = stai.header(network_of(view))
    assert "#define STAI_STREAM_STATES_NUM (1)" in header and "stai_ext_stream_reset_states" in header
    assert "void stream_reset(void);" in (tmp_path / "out" / "stream.h").read_text()


def test_the_application_may_carry_them() -> None:
    graph = declare_states(read_tflite(model()), ("none",))
    assert graph.frame_inputs == ("x", "old") and "copy the output of the run before" in graph.notes[0]
    assert compile_graph(graph, Options(verify=False)).program.states == ()


def declared(*pairs: str, **others: Tensor) -> Graph:
    """Two inputs and outputs that may be states of a network."""
    tensors = {name: tensor(name) for name in ("x", "h_state_in", "c_state_in", "y", "h_state_out", "c_state_out")}
    tensors |= others
    ops = (
        Op("add", "y", ("x", "h_state_in"), ("y",)),
        Op("maximum", "h_state_out", ("y", "c_state_in"), ("h_state_out",)),
        Op("minimum", "c_state_out", ("x", "c_state_in"), ("c_state_out",)),
    )
    outputs = ("y", "h_state_out", "c_state_out")
    return declare_states(Graph(tensors, ops, ("x", "h_state_in", "c_state_in"), outputs, "net"), pairs)


def test_pairs_by_name_number_and_by_themselves() -> None:
    named = declared("h_state_out=h_state_in", "c_state_out=c_state_in")
    for pairs in (("1=1", "2=2"), ("auto",), ("h_state_out=1", "2=c_state_in")):
        assert [(s.input, s.output) for s in declared(*pairs).states] == [(s.input, s.output) for s in named.states]
    assert named.frame_inputs == ("x",) and named.frame_outputs == ("y",)
    assert "--state auto" in declared().notes[-1] and declared().states == ()


def test_caches_of_decoders_match_by_name() -> None:
    names = ("past_key.0", "past_key.1", "present.key.0", "presentKey1")
    tensors = {name: tensor(name) for name in ("x", "y", *names)}
    ops = [Op("add", new, ("x", old), (new,)) for old, new in zip(names[:2], names[2:], strict=True)]
    ops.append(Op("maximum", "y", names[2:], ("y",)))
    graph = Graph(tensors, tuple(ops), ("x", *names[:2]), ("y", *names[2:]), "decoder")
    pairs = [(state.input, state.output) for state in declare_states(graph, ("auto",)).states]
    assert pairs == list(zip(names[:2], names[2:], strict=True))


def test_pairs_without_a_name_in_common_are_proposed_by_shape_and_order() -> None:
    tensors = {name: tensor(name) for name in ("k", "v", "first", "second")}
    tensors |= {name: tensor(name, ROW) for name in ("x", "row", "y")}
    ops = (
        Op("relu", "first", ("k",), ("first",)),
        Op("add", "second", ("k", "v"), ("second",)),
        Op("reshape", "row", ("second",), ("row",)),
        Op("add", "y", ("x", "row"), ("y",)),
    )
    graph = Graph(tensors, ops, ("x", "k", "v"), ("y", "first", "second"), "net")
    for outputs, said in ((graph.outputs, ""), (("first", "second", "row", "y"), "first=k,second=v")):
        with pytest.raises(AtoncError) as error:  # first every output would be a state, then x has two that fit
            declare_states(replace(graph, outputs=outputs), ("auto",))
        told = unwrapped(str(error.value))
        assert "name the pairs" in told and told.count("=k") == bool(said) and said in told


OTHER = {"scale": tensor("h_state_out", quant=Quantisation.per_tensor(0.06, -3)), "shape": tensor("h_state_out", ROW)}


@pytest.mark.parametrize(
    ("pairs", "other", "said"),
    [
        (("h_state_out=h_state_in",), "scale", "output has scale 0.06, zero point -3, its input scale 0.05"),
        (("h_state_out=h_state_in",), "shape", "the output has shape (1, 8, 1, 8), the input (1, 4, 2, 8)"),
        (("h_state_in=h_state_out",), "", "write --state h_state_out=h_state_in"),
        (("h_state_out",), "", "'h_state_out' is no pair"),
        (("h_out=h_state_in",), "", "the model has no output 'h_out'"),
        (("h_state_out=h_in",), "", "the model has no input 'h_in'"),
        (("1=1", "2=1"), "", "'h_state_in' is the input of two states"),
        (("none", "1=1"), "", "--state none goes with nothing else"),
        (("1=1", "2=2", "0=0"), "", "every output is a state"),
        (("9=1",), "", "the model has no output '9'"),
    ],
)
def test_mistakes_are_named(pairs: tuple[str, ...], other: str, said: str) -> None:
    others = {"h_state_out": OTHER[other]} if other else {}
    with pytest.raises(AtoncError) as error:
        declared(*pairs, **others)
    assert said in unwrapped(str(error.value))


def test_a_state_that_never_changes_is_refused() -> None:
    tensors = {"x": tensor("x"), "s": tensor("s"), "v": tensor("v", ROW), "n": tensor("n"), "y": tensor("y")}
    ops = (Op("add", "y", ("x", "s"), ("y",)), Op("reshape", "v", ("s",), ("v",)), Op("reshape", "n", ("v",), ("n",)))
    state = CarriedState("s", "n", np.zeros(SHAPE, np.int8))
    with pytest.raises(AtoncError, match="never changes"):
        order.run(check(Graph(tensors, ops, ("x", "s"), ("y", "n"), "same", states=(state,))))


def test_pairs_may_be_given_one_by_one() -> None:
    """A list that is given twice is one list, for every option that takes one."""
    given = parser().parse_args(["generate", "m.onnx", "--state", "a=b", "--state", "c=d,e=f", "--distrust", "S1"])
    assert given.states == ("a=b", "c=d", "e=f") and given.distrust == ("S1",)
    again = parser().parse_args(["generate", "m.onnx", "--distrust", "S1", "--distrust", "S2"])
    assert again.states == () and again.distrust == ("S1", "S2")


def window(channels_first: bool, seed: int) -> Graph:
    """A convolution over the rows of some frames: those before are a state."""
    rng = np.random.default_rng(seed)
    row, rows, whole = (1, 8, 1, 6), (1, 8, 3, 6), (1, 8, 4, 6)
    layout, axis = ("NCHW", 2) if channels_first else ("NHWC", 1)
    shapes = [one if channels_first else tuple(one[k] for k in (0, 2, 3, 1)) for one in (row, rows, whole)]
    weights = rng.integers(-90, 90, (8, 4, 1, 8)).astype(np.int8)
    tensors = {name: tensor(name, shape) for name, shape in zip(("x", "s", "t"), shapes, strict=True)}
    tensors |= {"x1": tensor("x1", shapes[0]), "n": tensor("n", shapes[1]), "y": tensor("y", shapes[0])}
    tensors["w"] = Tensor("w", weights.shape, "int8", Quantisation.per_tensor(0.004, 0), weights)
    starts, stops = [0] * 4, list(shapes[2])
    starts[axis] = 1
    ops = (
        Op("relu", "x1", ("x",), ("x1",)),
        Op("concat", "t", ("s", "x1"), ("t",), {"axis": axis}),
        Op("conv", "y", ("t", "w", ""), ("y",), ATTRS | {"layout": layout}),
        Op("slice", "n", ("t",), ("n",), {"starts": tuple(starts), "stops": tuple(stops), "steps": (1,) * 4}),
    )
    first = rng.integers(-99, 99, shapes[1]).astype(np.int8)
    return check(Graph(tensors, ops, ("x", "s"), ("y", "n"), "window", states=(CarriedState("s", "n", first),)))


def rows_in_time(new: int, left: int, whole: bool, spoilt: str = "") -> Graph:
    """`new` rows join the `left` ones before them. Those are the state, or the last rows of one that is the window."""
    name = "s" if whole else "k"
    rows = {"x": new, "x1": new, "t": new + left, "y": new + left, name: left} | ({} if whole else {"s": left})
    shape = {key: (1, size, 1, 16) for key, size in (rows | {"n": left}).items()}
    shape |= {"s": shape["t"]} if whole else {}
    tensors = {key: tensor(key, one) for key, one in shape.items()}
    cut = {"starts": (0, 0 if spoilt == "rows" else new, 0, 0), "stops": (1, new + left, 1, 16), "steps": (1,) * 4}
    cut |= {"stops": (1, left, 1, 16)} if spoilt == "rows" else {}
    if spoilt == "scale":
        tensors["t"] = tensor("t", shape["t"], Quantisation.per_tensor(0.06, -3))
    relu, read = Op("relu", "x1", ("x",), ("x1",)), Op("maximum", "m", ("t", "t2"), ("m",))
    tensors["t2"] = replace(tensors["t"], name="t2", data=np.full(shape["t"], -20, np.int8))
    behind = () if spoilt == "last" else (Op("minimum", "y", ("m", "t2"), ("y",)),)
    read, tensors["m"] = (replace(read, outputs=("m" if behind else "y",)), tensor("m", shape["y"]))
    if not behind:
        tensors.pop("m")
    if whole:
        tensors["k"] = tensor("k", shape["n"])
        head = (Op("slice", "k", ("s",), ("k",), cut), Op("concat", "t", ("k", "x1"), ("t",), {"axis": 1}))
        tensors.pop("n")
        ops, end = (relu, *head, read, *behind), "t"
    else:
        tensors.pop("k")
        join, move = Op("concat", "t", ("s", "x1"), ("t",), {"axis": 1}), Op("slice", "n", ("t",), ("n",), cut)
        ops, end = (relu, join, move, read, *behind), "n"
    first = np.random.default_rng(left).integers(-99, 99, shape["s"]).astype(np.int8)
    return check(Graph(tensors, ops, ("x", "s"), ("y", end), "rows", states=(CarriedState("s", end, first),)))


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("new, left, spoilt", [(1, 5, ""), (3, 2, ""), (2, 4, "rows"), (1, 4, "scale"), (1, 4, "last")])
@pytest.mark.parametrize("distrust", [(), ("S7",)])
def test_windows_stay_and_their_rows_move_down(
    whole: bool, new: int, left: int, spoilt: str, distrust: tuple[str, ...]
) -> None:
    """One copy, from its own memory to where it lies lower; where that may not be, there and back."""
    compiled = compile_graph(rows_in_time(new, left, whole, spoilt), Options(distrust=distrust))
    follows_its_states(compiled)
    home = {name: compiled.program.placed[name].address for name in ("s", "t")}
    stays = (not spoilt or (whole and spoilt == "last")) and (left <= new or not distrust)
    assert (home["s"] == home["t"]) == (stays or whole)  # a state that is the window lies there anyway
    tasks = [task for shares in compiled.scheduled.shares for one in shares for task in one.tasks if not task.units]
    names = {name for name, at in compiled.program.placed.items() if at.address == home["s"]}
    moves = [task for task in tasks if {use.buffer for use in task.engines.values()} <= names]
    assert len(moves) == (1 if stays else 0)
    for task in moves:
        (reader,), (writer,) = task.readers(), task.writers()
        assert (reader.config.address - writer.config.address, writer.config.address) == (16 * new, 0)


@pytest.mark.parametrize("whole", [True, False])
def test_a_join_on_the_cpu_has_its_operands_beside_its_result(whole: bool) -> None:
    compiled = compile_graph(rows_in_time(1, 5, whole), Options(on_cpu=("t",)))
    follows_its_states(compiled)
    assert [one.node for one in compiled.choices.reasons] == ["t"]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("new, left", [(1, 5), (3, 2), (2, 4)])
@pytest.mark.parametrize("options", [Options(), Options(inputs_allocation=False), Options(distrust=("S7",))])
def test_a_frame_is_written_where_the_window_has_it(whole: bool, new: int, left: int, options: Options) -> None:
    """No copy takes it there, and no byte in front of it shares a line of the CPU's cache."""
    source = rows_in_time(new, left, whole)
    ops, frame = (Op("reshape", "x1", ("x",), ("x1",)), *source.ops[1:]), tensor("x", (new, 16))
    compiled = compile_graph(check(replace(source, ops=ops, tensors=source.tensors | {"x": frame})), options)
    follows_its_states(compiled)
    placed, (state,) = compiled.program.placed, compiled.program.states
    stays = options.inputs_allocation and (left <= new or not options.distrust)
    assert (placed["t"].address == state.address) == stays and len(state.first) == 16 * left
    assert (placed["x"].address == state.address + 16 * left) == stays
    assert placed["x"].address % 32 == 0
    read = [use.buffer for step in compiled.program.steps for use in getattr(step.plan, "engines", {}).values()]
    assert not stays or "x" not in read
    given = {"x": np.zeros(frame.shape, np.int8), "s": make_inputs(source, 3)["s"]}  # in the format of the model
    kept = edge_values(compiled.source, compiled.graph, given)["s"]
    assert np.array_equal(kept, given["s"][:, given["s"].shape[1] - left :])


def attention(length: int = 256, heads: int = 4, size: int = 32) -> Graph:
    """One token: its key and value join those before, which are states; the oldest fall out."""
    cache, row, shares = (1, heads, length, size), (1, heads, 1, size), (1, heads, 1, length)
    tensors = {name: tensor(name, row) for name in "qkv"} | {name: tensor(name, cache) for name in ("ks", "vs")}
    tensors |= {f"{name}{end}": tensor(f"{name}{end}", cache) for name in "kv" for end in "n"}
    tensors |= {f"{name}c": tensor(f"{name}c", (1, heads, length - 1, size)) for name in "kv"}
    tensors["kt"] = tensor("kt", (1, heads, size, length))
    tensors["s"] = tensor("s", shares, Quantisation.per_tensor(0.2, 5))
    tensors["p"] = tensor("p", shares, Quantisation.per_tensor(1 / 256, -128))
    tensors["y"] = tensor("y", row, Quantisation.per_tensor(0.02, -31))
    kept = {"starts": (0, 0, 1, 0), "stops": cache, "steps": (1,) * 4}
    ops = [Op("slice", f"{name}c", (f"{name}s",), (f"{name}c",), kept) for name in "kv"]
    ops += [Op("concat", f"{name}n", (f"{name}c", name), (f"{name}n",), {"axis": 2}) for name in "kv"]
    ops += [
        Op("transpose", "kt", ("kn",), ("kt",), {"perm": (0, 1, 3, 2)}),
        Op("matmul", "s", ("q", "kt"), ("s",)),
        Op("softmax", "p", ("s",), ("p",), {"axis": 3}),
        Op("matmul", "y", ("p", "vn"), ("y",)),
    ]
    states = tuple(CarriedState(f"{name}s", f"{name}n", np.full(cache, -3, np.int8)) for name in "kv")
    inputs = ("q", "k", "v", "ks", "vs")
    return check(Graph(tensors, tuple(ops), inputs, ("y", "kn", "vn"), "attention", states=states))


def test_a_row_attends_to_a_cache_where_it_lies() -> None:
    """No key is packed and nothing is transposed: the row becomes the kernels, and values lie as its sums read them."""
    compiled = compile_graph(attention(), Options())
    follows_its_states(compiled)
    graph, emulation = compiled.graph, Emulation(compiled.program, compiled.graph)
    assert "transpose" not in [op.kind for op in graph.ops]
    shown = edge_text(graph, "vs")  # as the model has it
    assert shown.startswith("vs 1x4x256x32 int8") and shown.endswith("kept as 1x4x32x256")
    (packed,) = (op for op in graph.ops if op.kind == "pack_kernels")
    assert packed.inputs == ("q",) and graph.tensors[packed.outputs[0]].elements < 1024
    assert [(one.op, one.rule.id) for one in compiled.choices.reasons if one.op == "matmul"] == [
        ("matmul", "PRODUCT-ROW")
    ]
    values = {state.input: state.first for state in graph.states}
    for frame in range(FRAMES):  # the same bytes as its own semantics, frame after frame
        given = {name: value for name, value in make_inputs(graph, frame).items() if name in graph.frame_inputs}
        found, meant = emulation.run(given), run_mapped(graph, compiled.mapped, {**given, **values})
        assert all(np.array_equal(found[name], meant[name]) for name in graph.outputs)
        values = {state.input: meant[state.output] for state in graph.states}


@pytest.mark.parametrize("channels_first", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_window_over_frames_moves_nothing_but_its_state(channels_first: bool, seed: int, tmp_path: Path) -> None:
    """Rows of channels first would be scattered bytes: the state is kept as the convolution reads it."""
    source = window(channels_first, seed)
    compiled = compile_graph(source, Options())
    follows_its_states(compiled)
    emulation = Emulation(compiled.program, compiled.graph, compiled.memory.pools)
    value = source.states[0].first
    for frame in range(FRAMES):
        x = make_inputs(source, frame)["x"]
        exact = run_graph(source, {"x": x, "s": value})
        value = exact["n"]
        apart = np.abs(emulation.run({"x": x})["y"].astype(np.int64) - exact["y"].astype(np.int64)).max()
        assert apart <= 1, (frame, apart)
    x, first = make_inputs(source, 0)["x"], source.states[0].first
    generating.generate(view_of(source, "window"), tmp_path / "out")
    for session in (session_of(compiled), load(tmp_path / "out", "window").stream()):
        assert np.array_equal(session.states["s"], first)  # in the model's order, wherever they lie
        session({name: x for name in session.shapes})
        assert np.array_equal(session.states["s"], run_graph(source, {"x": x, "s": first})["n"])
    moved = [op.kind for op in compiled.graph.ops if op.kind == "transpose"]
    assert len(moved) == (2 if channels_first else 0)  # at the edges of the application
