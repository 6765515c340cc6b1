"""`generate --layout tflite`: the file itself, what it refuses, and whether it gives the bytes of the whole network."""

from __future__ import annotations

import copy
import json
import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import atonc
from atonc.compiler.compare.reference import run_tflite
from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.frontends.tflite_file import FlatTable
from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.delivery.layouts import tflite_model
from atonc.delivery.layouts.every import layout_files, require_taken, with_layout
from atonc.delivery.layouts.tflite import LAYOUT
from atonc.delivery.layouts.tflite_model import CODE, LINE, npu_operator, read_model, require_intact
from atonc.delivery.trials.tflite_running import TfliteRunner
from atonc.doors.cli.cli import main
from atonc.insight.runs import runs
from atonc.insight.runs.run_options import RunOptions
from atonc.machine.base.errors import AtoncError, ModelError, UnsupportedError
from tests.emit.generated import DIGITS, needs_compiler
from tests.frontends.test_tflite_variables import model as streaming
from tests.reloc import images

litert = pytest.importorskip("ai_edge_litert.interpreter")
pytestmark = needs_compiler
DAMAGED = 200
RESEALED = 24


@cache
def _view(model: Path = DIGITS, **options: object) -> CompileView:
    return generating.analyze(model, with_layout(Options(verify=False, **options), LAYOUT))  # type: ignore[arg-type]


@cache
def _file(**options: object) -> bytes:
    return layout_files(LAYOUT, _view(**options))["network.tflite"]


@pytest.fixture(autouse=True)
def one_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader's firmware is the same for all of them."""
    loader = images.loader()
    monkeypatch.setattr("atonc.delivery.trials.loading.build_loader", lambda runtime, folder: loader)


def _run(data: bytes, tmp_path: Path, seed: int = 3) -> dict[str, np.ndarray]:
    path = tmp_path / "some.tflite"
    path.write_bytes(data)
    with TfliteRunner(path) as runner:
        return runner.run(runs.choose_from(runner.edges, (), seed))


def _whole(tmp_path: Path, seed: int = 3, model: Path = DIGITS) -> list[bytes]:
    """What the emulator makes of the network that is compiled without the layout."""
    generating.generate(generating.analyze(model, Options(verify=False)), tmp_path / "whole")
    found = runs.run(RunOptions(directory=tmp_path / "whole", seed=seed)).outputs
    return [value.tobytes() for value in found.values()]


def _complaint(data: bytes) -> str:
    made = litert.Interpreter(model_content=data)
    with pytest.raises(RuntimeError) as caught:
        made.allocate_tensors()
    return str(caught.value)


def test_litert_misses_the_operator_and_nothing_else() -> None:
    said = _complaint(_file())
    assert said.startswith(f"Encountered unresolved custom op: {CODE}")


def test_one_operator_gives_the_bytes_of_the_network(tmp_path: Path) -> None:
    found = _run(_file(), tmp_path)
    assert list(found) == ["probabilities"] and found["probabilities"].shape == (1, 10)
    assert [value.tobytes() for value in found.values()] == _whole(tmp_path)


def test_what_is_cut_off_behind_stays_in_the_file(tmp_path: Path) -> None:
    data = _file(cut_outputs=("dense",))
    assert [row.code for row in read_model(data).operators] == [f"CUSTOM {CODE!r}", "SOFTMAX"]
    assert [value.tobytes() for value in _run(data, tmp_path).values()] == _whole(tmp_path)


def test_what_is_cut_off_in_front_stays_too(tmp_path: Path) -> None:
    """LiteRT's convolutions round otherwise than the NPU's, so each part is compared for itself."""
    data = _file(cut_inputs=("pool",), cut_outputs=("dense",))
    codes = [row.code for row in read_model(data).operators]
    assert codes == ["CONV_2D", "CONV_2D", "ADD", "MAX_POOL_2D", f"CUSTOM {CODE!r}", "SOFTMAX"]
    path = tmp_path / "cut.tflite"
    path.write_bytes(data)
    with TfliteRunner(path) as runner:
        image = runs.choose_from(runner.edges, (), 3)
        found = runner.run(image)["probabilities"]
    pool = run_tflite(DIGITS, [image["image"]], all_tensors=True)["pool"]
    middle = generating.analyze(DIGITS, Options(verify=False, cut_inputs=("pool",), cut_outputs=("dense",)))
    generating.generate(middle, tmp_path / "middle")
    dense = atonc.run(tmp_path / "middle", {"pool": pool})["dense"]
    model = read_model(DIGITS.read_bytes())
    (tmp_path / "tail.tflite").write_bytes(tflite_model.part(model, [7], [16], [17]))
    (right,) = run_tflite(tmp_path / "tail.tflite", [dense]).values()
    assert np.array_equal(found, right)


def test_a_file_that_has_one_operator_takes_another(tmp_path: Path) -> None:
    """With a pool between them that LiteRT computes; it gives the same bytes as the NPU."""
    first = tmp_path / "first.tflite"
    first.write_bytes(_file(cut_outputs=("add",)))
    data = layout_files(LAYOUT, _view(first, cut_inputs=("pool",)))["network.tflite"]
    codes = [row.code for row in read_model(data).operators]
    assert codes == [f"CUSTOM {CODE!r}", "MAX_POOL_2D", f"CUSTOM {CODE!r}"]
    assert data.count(CODE.encode() + b"\0") == 1  # one code for both
    assert [value.tobytes() for value in _run(data, tmp_path).values()] == _whole(tmp_path)


def test_what_stays_in_front_needs_no_translation(tmp_path: Path) -> None:
    """An operator of somebody in the middle: the network begins behind it, or another ends before it."""
    schema = tflite_model.load_schema()
    made = schema.ModelT.InitFromPackedBuf(DIGITS.read_bytes(), 0)
    graph = made.subgraphs[0]
    pool = next(k for k, tensor in enumerate(graph.tensors) if tensor.name == b"pool")
    place = next(k for k, op in enumerate(graph.operators) if pool in op.inputs)
    odd = copy.deepcopy(graph.tensors[pool])
    odd.name, reader = "odd", graph.operators[place]
    graph.tensors.append(odd)
    reader.inputs = np.where(reader.inputs == pool, len(graph.tensors) - 1, reader.inputs).astype("<i4")
    made.operatorCodes.append(schema.OperatorCodeT(32, "somebody", 1, 32))
    edges = [np.array([k], "<i4") for k in (pool, len(graph.tensors) - 1)]
    graph.operators.insert(place, schema.OperatorT(len(made.operatorCodes) - 1, *edges))
    path = tmp_path / "somebody.tflite"
    path.write_bytes(tflite_model._written(made))
    with pytest.raises(UnsupportedError, match="somebody"):
        _view(path)
    data = layout_files(LAYOUT, _view(path, cut_outputs=("pool",)))["network.tflite"]
    path.write_bytes(data)
    both = layout_files(
        LAYOUT, generating.analyze(path, with_layout(Options(verify=False, cut_inputs=("odd",)), LAYOUT))
    )
    codes = [row.code for row in read_model(both["network.tflite"]).operators]
    assert codes == [f"CUSTOM {CODE!r}", "CUSTOM 'somebody'", f"CUSTOM {CODE!r}"]


def test_the_file_is_smaller_without_the_weights_of_the_operator() -> None:
    tensors = read_model(_file()).names
    assert set(tensors) == {"image", "probabilities"}


def test_the_image_begins_at_a_line() -> None:
    data = _file()
    (row,) = read_model(data).operators
    operator = npu_operator(row.table.array(5, "u1").tobytes(), "it")
    assert data.index(operator.image) % LINE == 0


def test_viewers_can_show_the_memory_map() -> None:
    from flatbuffers import flexbuffers

    (row,) = read_model(_file()).operators
    shown = flexbuffers.Loads(bytearray(row.table.array(5, "u1").tobytes()))
    assert shown["network"] == "network"
    assert any(name.startswith("memory ") and "bytes from 0x34" in value for name, value in shown.items())


def _with_signature(folder: Path) -> Path:
    """The digits with a signature and somebody's metadata."""
    schema = tflite_model.load_schema()
    made = schema.ModelT.InitFromPackedBuf(DIGITS.read_bytes(), 0)
    graph = made.subgraphs[0]
    made.buffers.append(schema.BufferT(np.frombuffer(b"labels of somebody", np.uint8)))
    made.metadata = [schema.MetadataT("labels", len(made.buffers) - 1)]
    edges = [[schema.TensorMapT(name, int(k))] for name, (k,) in (("x", graph.inputs), ("y", graph.outputs))]
    made.signatureDefs = [schema.SignatureDefT(*edges, "serving_default", 0)]
    path = folder / "signed.tflite"
    path.write_bytes(tflite_model._written(made))
    return path


def test_signature_and_metadata_are_kept(tmp_path: Path) -> None:
    view = generating.analyze(_with_signature(tmp_path), with_layout(Options(verify=False), LAYOUT))
    data = layout_files(LAYOUT, view)["network.tflite"]
    signatures = litert.Interpreter(model_content=data).get_signature_list()
    assert signatures == {"serving_default": {"inputs": ["x"], "outputs": ["y"]}}
    assert b"labels of somebody" in data
    require_intact(data)


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        (DIGITS.with_suffix(".onnx"), {}, "no TFLite file"),
        (DIGITS, {"input_type": "float32"}, "image of the model is int8"),
        (DIGITS, {"inputs_allocation": False}, "to supply it"),
        (DIGITS, {"resident": "8k"}, "copied to RAM"),
        (
            DIGITS,
            {"mpool": str(images.pool_file(images.MEMORIES["inside"], "inside_tflite"))},
            "constants lie in axisram3",
        ),
        (DIGITS, {"inputs_channel_position": "chfirst"}, "change places"),
    ],
)
def test_what_it_refuses(model: Path, options: dict[str, object], said: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        require_taken(LAYOUT, _view(model, **options))
    assert said in caught.value.what and caught.value.rule and caught.value.remedy


# --------------------------------------------------------------------------------------------------------------- damage


def _damaged(data: bytes, chance: random.Random) -> bytes:
    """Bits turned, bytes replaced, an end cut off, a piece moved."""
    spoiled = bytearray(data)
    kind = chance.randrange(4)
    at = chance.randrange(len(data))
    if kind == 0:
        spoiled[at] ^= 1 << chance.randrange(8)
    elif kind == 1:
        spoiled[at : at + 4] = chance.randbytes(4)
    elif kind == 2:
        del spoiled[at:]
    else:
        del spoiled[at : at + chance.randrange(1, 64)]
    return bytes(spoiled) if bytes(spoiled) != data else data[:-1]


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    chance, path = random.Random(50), tmp_path / "damaged.tflite"
    data = _file(cut_outputs=("dense",))
    for turn in range(DAMAGED):
        path.write_bytes(_damaged(data, chance))
        with pytest.raises(AtoncError) as caught:
            TfliteRunner(path).close()
        assert caught.value.what, turn


def test_damage_with_a_right_checksum_ends_without_a_traceback(tmp_path: Path) -> None:
    """Whoever makes a file to do harm can count, too: then our reader, the loader and LiteRT's process look."""
    chance, data, refused = random.Random(51), _file(cut_outputs=("dense",)), 0
    for _ in range(RESEALED):
        spoiled = _damaged(data, chance)
        try:
            place = tflite_model._seal_place(spoiled)
            if place is None:
                continue
            length = len(spoiled).to_bytes(8, "little")
            _run(tflite_model._with_digest(spoiled[:place] + length + spoiled[place + 8 :], place), tmp_path)
        except AtoncError:
            refused += 1
    assert refused > RESEALED // 4


def test_errors_of_its_pieces_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the files that a piece was in for a while, and no fix for them."""
    spoiled, path = bytearray(_file()), tmp_path / "spoiled.tflite"
    place = tflite_model._seal_place(bytes(spoiled))
    start = spoiled.index(tflite_model.MAGIC) + LINE
    assert place is not None
    for at in (start, start + 64, start + 4096):
        broken = bytearray(spoiled)
        broken[at : at + 64] = bytes(64)
        path.write_bytes(tflite_model._with_digest(bytes(broken), place))
        try:
            TfliteRunner(path).close()
        except AtoncError as error:
            assert path.name in error.where and "part_" not in str(error) and error.fix.startswith("generate the file")
            break
    else:
        raise AssertionError("no damage was found")
    path.write_bytes(_file(cut_outputs=("dense",)))

    def fails(piece: Path, *others: object) -> None:
        raise ModelError(f"{piece}: aborted", where=str(piece))

    with TfliteRunner(path) as runner:
        monkeypatch.setattr("atonc.delivery.trials.tflite_running.kernel_sets", fails)
        with pytest.raises(ModelError) as caught:
            runner.run(runs.choose_from(runner.edges, (), 3))
    assert caught.value.where.startswith(path.name) and "atonc_" not in str(caught.value)


def test_what_is_compiled_already_is_not_compiled_again(tmp_path: Path) -> None:
    (tmp_path / "network.tflite").write_bytes(_file())
    with pytest.raises(UnsupportedError) as caught:
        generating.analyze(tmp_path / "network.tflite", Options(verify=False))
    assert "--layout tflite wrote" in caught.value.what and "atonc run" in caught.value.fix


def test_run_says_what_it_wants_instead_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    model = DIGITS.with_suffix(".onnx")
    assert main(["run", str(model)]) == 2
    said = capsys.readouterr().err
    assert "is a model" in said and "-o build, then atonc run build" in " ".join(said.split())


@pytest.mark.parametrize("options", [{}, {"states": ("none",)}])
def test_variables_are_refused_as_such(tmp_path: Path, options: dict[str, object]) -> None:
    (tmp_path / "stream.tflite").write_bytes(streaming())
    with pytest.raises(UnsupportedError) as caught:
        require_taken(LAYOUT, _view(tmp_path / "stream.tflite", **options))
    assert "VAR" in caught.value.what and "--state" not in "".join((caught.value.fix, *caught.value.details))


def test_bytes_behind_the_end_are_a_change() -> None:
    require_intact(_file())
    with pytest.raises(ModelError, match="changed since atonc wrote it"):
        require_intact(_file() + bytes(64))


def test_a_file_of_somebody_else_is_refused() -> None:
    with pytest.raises(ModelError, match="no checksum of atonc"):
        require_intact(DIGITS.read_bytes())


# --------------------------------------------------------------------------------------------------------- command line


def test_generate_and_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build, outputs = tmp_path / "build", tmp_path / "out.npz"
    assert main(["generate", str(DIGITS), "--layout", "tflite", "-o", str(build), "--no-verify", "-q"]) == 0
    assert {path.name for path in (build / "network_tflite").iterdir()} == {
        *("network.tflite", "README.md", "kernel", "runtime", "atonc_layout.json")
    }
    capsys.readouterr()
    file = build / "network_tflite" / "network.tflite"
    assert main(["run", str(file), "--seed", "3", "--output", str(outputs), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["npu_operators"], told["other_operators"]) == (1, [])
    with np.load(outputs) as found:
        assert [found["probabilities"].tobytes()] == _whole(tmp_path)


def test_flags_of_folders_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some.tflite"
    path.write_bytes(_file())
    assert main(["run", str(path), "--until", "2"]) == 2
    assert "--until with a .tflite file" in capsys.readouterr().err


def test_a_tail_of_values_stays_in_the_file(tmp_path: Path) -> None:
    """The three best digits: sizes behind TOPK_V2 depend on values, so the network ends before it by itself."""
    schema = tflite_model.load_schema()
    made = schema.ModelT.InitFromPackedBuf(DIGITS.read_bytes(), 0)
    graph = made.subgraphs[0]
    (last,) = (int(k) for k in graph.outputs)
    made.buffers.append(schema.BufferT(np.frombuffer(b"\3\0\0\0", np.uint8)))
    first = len(graph.tensors)
    graph.tensors += [
        schema.TensorT(np.zeros(0, "<i4"), 2, len(made.buffers) - 1, "k"),
        schema.TensorT(np.array([1, 3], "<i4"), 9, 0, "best", graph.tensors[last].quantization),
        schema.TensorT(np.array([1, 3], "<i4"), 2, 0, "which"),
    ]
    made.operatorCodes.append(schema.OperatorCodeT(48, None, 1, 48))
    operands = np.array([last, first], "<i4"), np.array([first + 1, first + 2], "<i4")
    graph.operators.append(schema.OperatorT(len(made.operatorCodes) - 1, *operands))
    graph.outputs = operands[1]
    path = tmp_path / "best.tflite"
    path.write_bytes(tflite_model._written(made))
    data = layout_files(LAYOUT, _view(path))["network.tflite"]
    codes = [row.code for row in read_model(data).operators]
    assert codes[0] == f"CUSTOM {CODE!r}" and codes[-1] == "TOPK_V2" and "CONV_2D" not in codes
    found = _run(data, tmp_path)
    (scores,) = (np.frombuffer(value, np.int8) for value in _whole(tmp_path))
    assert found["best"].tolist() == [sorted(scores.tolist(), reverse=True)[:3]]
    assert scores[found["which"][0]].tolist() == found["best"][0].tolist()


def test_an_offset_in_front_of_the_file_is_no_place_in_it() -> None:
    with pytest.raises(ModelError, match="leads in front of the file") as caught:
        FlatTable(bytes(64), -32204).uint32(0)
    assert "-32204" not in caught.value.where
