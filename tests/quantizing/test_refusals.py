"""What cannot be quantised, and data that calibrates nothing, are told before the work begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper

from atonc.doors.cli.cli import main
from atonc.insight.quantizing import ort_process
from atonc.insight.quantizing.loading import inline_branches, load, tidy
from atonc.insight.quantizing.observe import run, session
from atonc.insight.quantizing.run import quantize
from atonc.insight.quantizing.samples import read_samples
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.machine.base.disk import missing
from atonc.machine.base.errors import AtoncError, InputError, ModelError, UnsupportedError
from tests.errors_said import unwrapped
from tests.quantizing.float_models import Build, network, samples, save

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits" / "digits.tflite"
SHAPES = {"x": (1, 3, 12, 12)}


def refused(path: Path, words: str, shapes: dict[str, tuple[int, ...]] = SHAPES) -> str:
    with pytest.raises(InputError, match=words) as error:
        read_samples(path, shapes, QuantizeOptions())
    return str(error.value)


def test_models_that_are_int8_already_or_have_no_weights(tmp_path: Path) -> None:
    b = Build()
    scale = b.constant("s", 0.1)
    codes = b.node("QuantizeLinear", ["x", scale], "q")
    made = b.model({"x": (1, 4)}, [b.node("DequantizeLinear", [codes, scale], "y")])
    with pytest.raises(UnsupportedError, match="already quantised"):
        load(save(tmp_path, made))
    b = Build()
    with pytest.raises(UnsupportedError, match="nothing to quantise") as error:
        load(save(tmp_path, b.model({"x": (1, 4)}, [b.node("Relu", ["x"], "y")])))
    assert main([*error.value.fix.partition("atonc ")[2].split(), "-o", str(tmp_path / "out")]) == 0, "the fix works"


def test_layers_inside_a_branch_are_seen(tmp_path: Path) -> None:
    """silero-vad has one such branch for each rate."""
    sides = {}
    for side in ("then_branch", "else_branch"):
        inner = Build()
        y = inner.node("MatMul", ["x", inner.constant(f"{side}.w", np.eye(4))], f"{side}.y")
        value = helper.make_tensor_value_info(y, TensorProto.FLOAT, None)
        sides[side] = helper.make_graph(inner.nodes, side, [], [value], inner.constants)
    b = Build()
    made = b.model({"x": (1, 4)}, [b.node("If", ["fast"], "y", **sides)])
    made.graph.input.append(helper.make_tensor_value_info("fast", TensorProto.BOOL, []))
    assert [node.op_type for node in load(save(tmp_path, made), {"fast": True}).graph.node] == ["MatMul"]


def test_data_is_asked_for_where_the_model_can_be_quantised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = Build()
    model = save(tmp_path, b.model(SHAPES, [b.conv("x", "y", (4, 3, 3, 3))]))
    assert main(["quantize", str(model)]) == 2 and "--data FOLDER" in unwrapped(capsys.readouterr().err)
    assert main(["quantize", str(DIGITS)]) != 0 and "already quantised" in capsys.readouterr().err


def test_paddings_that_remove_all_that_there_is(tmp_path: Path) -> None:
    b = Build()
    b.constants.append(numpy_helper.from_array(np.array([0, 0, -12, 0, 0, 0, 0, 0]), "pads"))
    model = save(tmp_path, b.model(SHAPES, [b.node("Pad", [b.conv("x", "c", (4, 3, 1, 1)), "pads"], "y")]))
    with pytest.raises(ModelError, match="has no elements"):
        quantize(model, samples(tmp_path))


def test_open_sizes_are_asked_for(tmp_path: Path) -> None:
    b = Build()
    model = save(tmp_path, b.model({"x": ("N", 3, "H", 8)}, [b.conv("x", "y", (4, 3, 3, 3))]))
    with pytest.raises(ModelError, match="'H': 224"):
        load(model)
    assert [d.dim_value for d in load(model, {"H": 8}).graph.input[0].type.tensor_type.shape.dim] == [1, 3, 8, 8]


def test_broken_files(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"no model" * 9)
    with pytest.raises(ModelError):
        load(tmp_path / "bad.onnx")


def test_too_few_constant_and_unfinite_samples(tmp_path: Path) -> None:
    assert "100 are usual" in refused(samples(tmp_path, 3), "3 samples are too few")
    path = tmp_path / "bad.npz"
    np.savez(path, x=np.ones((20, 3, 12, 12), np.float32))
    refused(path, "are constant")
    np.savez(path, x=np.tile(np.random.default_rng(0).normal(size=(1, 3, 12, 12)), (20, 1, 1, 1)))
    refused(path, "are all the same")
    np.savez(path, x=np.full((20, 3, 12, 12), np.nan))
    refused(path, "not finite")


def test_an_input_that_stays_the_same_beside_one_that_varies_is_told(tmp_path: Path) -> None:
    path, varied = tmp_path / "two.npz", np.random.default_rng(0).normal(size=(20, 3, 4))
    np.savez(path, x=varied, mask=np.tile(np.triu(np.full((4, 4), -9.0), 1), (20, 1, 1)))
    (note,) = read_samples(path, {"x": (1, 3, 4), "mask": (4, 4)}, QuantizeOptions()).notes
    assert "'mask' are all the same" in note
    np.savez(path, x=varied[:1].repeat(20, 0), mask=np.zeros((20, 4, 4)))
    refused(path, "'x' are all the same", {"x": (1, 3, 4), "mask": (4, 4)})


def test_samples_of_another_shape(tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    np.savez(path, x=np.random.default_rng(0).normal(size=(20, 12, 12, 3)))
    assert "transpose" in refused(path, "do not fit the input")
    np.savez(path, x=np.zeros((20, 3, 12)))
    assert "transpose" not in refused(path, "3x12 do not fit", {"x": (2, 3, 12)})
    np.savez(path, x=np.random.default_rng(0).normal(size=(20, 3, 8, 8)))
    refused(path, "3x8x8 do not fit")
    np.savez(path, a=np.zeros((2, 2)), b=np.zeros((2, 2)))
    refused(path, "no array for the input 'x'")
    np.savez(path)
    assert "it holds no arrays" in refused(path, "no array for the input 'x'")
    np.savez(path, x=np.float32(3))
    refused(path, "single numbers do not fit")


def test_models_that_give_no_numbers(tmp_path: Path) -> None:
    b = Build()
    weights = b.constant("w", np.full((4, 3, 1, 1), np.nan))
    model = b.model({"x": (1, 3, 12, 12)}, [b.node("Conv", ["x", weights], "y")])
    with pytest.raises(ModelError, match=r"Conv y: (?s:.*) not finite"):
        quantize(save(tmp_path, model), samples(tmp_path))


def test_inputs_of_another_type(tmp_path: Path) -> None:
    model = network()
    model.graph.input[0].type.tensor_type.elem_type = 10  # float16
    with pytest.raises(UnsupportedError, match="'x' is of type float16"):
        load(save(tmp_path, model))


def test_a_folder_in_place_of_a_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder, not a file"):
        raise missing(tmp_path)


@pytest.mark.parametrize(("turned", "folds"), [({}, True), ({"transB": 1, "alpha": 0.5}, True), ({"beta": 2.0}, False)])
def test_norms_behind_dense_layers_become_their_weights(turned: Any, folds: bool, tmp_path: Path) -> None:
    """As PyTorch exports Linear and BatchNorm1d: a product and a sum with codes of their own would lose decibels."""
    b = Build()
    w = b.constant("w", b.random.normal(size=(6, 8) if "transB" in turned else (8, 6)))
    dense = b.node("Gemm", ["x", w, b.constant("b", b.random.normal(size=6))], "g", **turned)
    path = save(tmp_path, b.model({"x": (1, 8)}, [b.node("Relu", [b.norm(dense, "n", 6, 0.25)], "y")]))
    tidy = load(path)
    assert ([node.op_type for node in tidy.graph.node] == ["Gemm", "Relu"]) is folds
    values = {"x": np.random.default_rng(0).normal(size=(1, 8)).astype(np.float32)}
    before, after = (session(data).run(None, values)[0] for data in (path.read_bytes(), tidy.SerializeToString()))
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)


def test_norms_that_stand_alone_leave_the_graph(tmp_path: Path) -> None:
    """Behind an operator that onnxruntime folds nothing into, in pictures and in rows."""
    b = Build()
    picture = b.norm(b.node("Sigmoid", [b.conv("x", "c", (8, 3, 3, 3))], "s"), "n", 8, 0.5)
    means = b.node("Flatten", [b.node("GlobalAveragePool", [picture], "p")], "f")
    row = b.norm(b.node("Tanh", [means], "t"), "m", 8, 2)
    path = save(tmp_path, b.model({"x": (1, 3, 12, 12)}, [row]))
    tidy = load(path)
    assert not any(node.op_type == "BatchNormalization" for node in tidy.graph.node)
    values = {"x": np.random.default_rng(0).normal(size=(1, 3, 12, 12)).astype(np.float32)}
    before, after = (session(data).run(None, values)[0] for data in (path.read_bytes(), tidy.SerializeToString()))
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)


def test_wishes_about_pictures_are_told_where_there_are_none(tmp_path: Path) -> None:
    found = read_samples(samples(tmp_path), SHAPES, QuantizeOptions(mean=("127.5",)))
    assert any("arrays are taken as they are" in note for note in found.notes)
    assert not any("--mean" in note for note in read_samples(samples(tmp_path), SHAPES, QuantizeOptions()).notes)


def test_folders(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    folder = tmp_path / "pictures"
    folder.mkdir()
    refused(folder, "the folder is empty")
    (folder / "notes.txt").write_text("x")
    refused(folder, "no image among its 1 file")
    random = np.random.default_rng(0)
    for index in range(9):
        pillow.fromarray(random.integers(0, 256, (10, 14, 3), np.uint8)).save(folder / f"{index}.png")
    found = read_samples(folder, SHAPES, QuantizeOptions(mean=("127.5",), std=("127.5",)))
    assert len(found.feeds) == 9 and found.feeds[0]["x"].shape == (1, 3, 12, 12)
    assert -1 <= found.feeds[0]["x"].min() < 0 < found.feeds[0]["x"].max() <= 1
    refused(folder, "images do not fit", {"x": (1, 40)})
    (folder / "5.png").write_bytes(b"\x89PNG broken")
    assert "5.png" in refused(folder, "cannot be read as an image")


def test_pixels_of_another_range_than_in_training(tmp_path: Path) -> None:
    """The first BatchNorm saw a variance of thousands: samples of 0..1 cannot be meant."""
    model = save(tmp_path, network(variance=255.0**2 / 12))
    with pytest.raises(InputError, match="times less than it did in training") as error:
        quantize(model, samples(tmp_path))
    assert "--mean and --std" in str(error.value)
    with pytest.raises(InputError, match="times more"):
        quantize(save(tmp_path, network(variance=1 / 12)), samples(tmp_path, top=255.0))


def test_settings_are_checked() -> None:
    for wrong in ({"samples": 2}, {"objective": "best"}, {"std": ("0",)}, {"threads": 100_000}):
        with pytest.raises(AtoncError):
            QuantizeOptions(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "words",
    ["--max-loss %", "--max-loss 200%", "--max-loss 1%", "--samples 8.7", "--mean nan", "--std inf", "--board nope"],
)
def test_command_lines_that_mean_nothing(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(save(tmp_path, network())), "--data", str(samples(tmp_path)), "-o", str(tmp_path / "out.onnx")]
    assert main(["quantize", *files, *words.split()]) == 2
    said = unwrapped(capsys.readouterr().err)
    assert words.split()[1].removesuffix("%") in said and not (tmp_path / "out.onnx").exists()


def test_a_model_that_the_compiler_refuses_whatever_is_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is there to look into; nobody takes it for one that runs, not even with --quiet."""

    def refuses(*_: object, **__: object) -> None:
        raise InputError("nothing of it is known")

    monkeypatch.setattr("atonc.insight.quantizing.price.compiled_model", refuses)
    out, files = tmp_path / "out.onnx", [str(save(tmp_path, network())), "--data", str(samples(tmp_path))]
    assert main(["quantize", *files, "-o", str(out), "-q"]) == 1
    assert "out.onnx: the compiler refuses the model: nothing of it is known" in unwrapped(capsys.readouterr().err)
    assert out.is_file()


def one_in_another() -> Any:
    """A convolution behind an If in a branch of another one; both conditions are constants."""

    def choice(cond: str, kept: Any, name: str) -> Any:
        ends = [helper.make_tensor_value_info(kept.output[0], TensorProto.FLOAT, None)]
        other = helper.make_node("Neg", ["x"], [f"{name}_not"])
        left = [helper.make_tensor_value_info(f"{name}_not", TensorProto.FLOAT, None)]
        branches = {"then_branch": helper.make_graph([kept], f"{name}_then", [], ends),
                    "else_branch": helper.make_graph([other], f"{name}_else", [], left)}  # fmt: skip
        return helper.make_node("If", [cond], [name], name=name, **branches)

    inner = choice("yes", helper.make_node("Relu", ["x"], ["positive"]), "inner")
    nodes = [choice("yes", inner, "outer"), helper.make_node("Conv", ["outer", "w"], ["y"])]
    shape = [1, 2, 4, 4]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    held = [numpy_helper.from_array(np.array(True), "yes"),
            numpy_helper.from_array(np.ones((2, 2, 1, 1), np.float32), "w")]  # fmt: skip
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_branches_in_branches_are_chosen_before_onnxruntime_sees_them() -> None:
    """It crashes at some of them; silero-vad has fifteen, which constants and shapes decide."""
    model = one_in_another()
    assert [node.op_type for node in tidy(model, "m").graph.node] == ["Relu", "Conv"]
    nodes = {node.name: node for node in one_in_another().graph.node}
    del model.graph.initializer[0]
    asked = [("Shape", ["x"], "size"), ("Gather", ["size", "place"], "rows"), ("Equal", ["rows", "four"], "yes")]
    model.graph.initializer.extend([numpy_helper.from_array(np.array(k), n) for n, k in (("place", 2), ("four", 4))])
    made = [helper.make_node(kind, taken, [name]) for kind, taken, name in asked]
    del model.graph.node[:]
    model.graph.node.extend([*made, *nodes.values()])
    assert [node.op_type for node in tidy(model, "m").graph.node] == ["Relu", "Conv"]
    model.graph.node[1].input[1] = "given"  # which row decides is not known
    model.graph.input.append(helper.make_tensor_value_info("given", TensorProto.INT64, []))
    assert "If" in [node.op_type for node in inline_branches(model).graph.node]


DIES = """
import os, signal
from time import sleep
from atonc.insight.quantizing import ort_process
done = ort_process._ANSWERS[{step!r}]
count = 0
def dies(*asked):
    global count
    count += 1
    if count > {after}:
        os.kill(os.getpid(), signal.SIGSEGV)
    return done(*asked)
ort_process._ANSWERS[{step!r}] = dies
ort_process.main()
"""


@pytest.fixture
def other_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Other code in the process of onnxruntime."""

    def plant(code: str) -> None:
        ort_process.ort_process().close()
        monkeypatch.setattr(ort_process, "_SERVER", code)

    yield plant
    ort_process.ort_process().close()


def test_a_crash_of_onnxruntime_is_an_error_that_names_it(other_server: Callable[[str], None]) -> None:
    other_server(DIES.format(step="optimise", after=0))
    with pytest.raises(ModelError, match="onnxruntime was ended by SIGSEGV while it folded the constants") as found:
        tidy(one_in_another(), "crash.onnx")
    assert "crash.onnx" in str(found.value) and "fix:" in str(found.value)


def test_a_model_that_never_ends_in_onnxruntime(
    other_server: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    other_server(DIES.format(step="optimise", after=0).replace("os.kill(os.getpid(), signal.SIGSEGV)", "sleep(60)"))
    monkeypatch.setattr(ort_process, "LIMIT_SECONDS", 0.5)
    with pytest.raises(ModelError, match=r"did not end within 0\.5 s"):
        tidy(one_in_another(), "slow.onnx")


@pytest.mark.parametrize(("step", "after"), [("open", 1), ("run", 0), ("run", 30)])
def test_a_crash_in_any_later_step_is_an_error(
    step: str, after: int, other_server: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["quantize", str(save(tmp_path, network())), "--data", str(samples(tmp_path))]
    words += ["-o", str(tmp_path / "out.onnx")]
    other_server(DIES.format(step=step, after=after))
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "onnxruntime was ended by SIGSEGV while it" in said and "cause:" in said and "fix:" in said
    assert not (tmp_path / "out.onnx").exists()


def test_a_session_outlives_no_process_and_another_one_begins() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"], "twice")], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    first, feed = session(model), {"x": np.float32([1, 2])}
    (found,) = run(first, feed)
    found += 1  # it is the caller's
    assert found.tolist() == [3, 5] and run(first, feed)[0].tolist() == [2, 4]
    with pytest.raises(ModelError, match="cannot run the model"):
        run(first, {"z": np.float32([1, 2])})
    with pytest.raises(ModelError, match="cannot load the model"):
        session(b"nothing")
    assert run(first, feed)[0].tolist() == [2, 4]  # an error is no death
    ort_process.ort_process().close()
    with pytest.raises(ModelError, match="its process ended before"):
        run(first, feed)
    assert run(session(model), feed)[0].tolist() == [2, 4]
