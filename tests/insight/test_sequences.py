"""Networks with states over sequences of frames: in Python, `run` and `validate`; mistakes are named, with a remedy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atonc
from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.inputs.inputs import read_sequences
from atonc.compiler.ops import run_graph
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.doors.cli import cli
from atonc.insight.validating import sequences, validating
from atonc.insight.validating.judging import checks
from atonc.insight.validating.references import EXACT, References
from atonc.insight.validating.sequences import CarriedStates, Drift
from atonc.insight.validating.validate_options import ValidateOptions
from atonc.machine.base.errors import AtoncError
from tests.errors_said import unwrapped

HERE = Path(__file__).resolve().parents[2] / "examples" / "streaming"
MODEL, FRAMES = HERE / "stream.tflite", HERE / "frames.npy"
SHAPE = (1, 8, 4, 2)


@pytest.fixture(scope="module")
def compiled() -> Any:
    return atonc.compile(MODEL, verify=False)


@pytest.fixture(scope="module")
def folder(compiled: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("streaming") / "build"
    compiled.save(place)
    return place


def exact_scores(graph: Any, frames: Any) -> Any:
    """What exact arithmetic makes of a sequence."""
    states = CarriedStates(graph)
    states.reset()
    return np.concatenate([states.run({"features": frame})["score"] for frame in frames])


# ------------------------------------------------------------------------------------------------------------- Python


def test_a_session_keeps_states_and_a_plain_run_does_not(compiled: Any, folder: Path) -> None:
    frames = np.load(FRAMES)
    wanted = exact_scores(compiled.source, frames)
    for network in (compiled, atonc.load(folder)):
        session = network.stream()
        first = session.run(frames[:15])["score"]
        assert np.array_equal(np.concatenate([first, session.run(frames[15:])["score"]]), wanted)
        assert (
            session.frames == len(frames)
            and repr(session) == "<session: 40 frames since the reset, 16 bytes of states>"
        )
        assert np.array_equal(session.states["before"].reshape(2, 8), frames[-2:].reshape(2, 8))
        session.reset()
        assert np.all(session.states["before"] == -3) and session.frames == 0
        assert np.array_equal(session(frames[0])["score"], wanted[:1])
        alone = [exact_scores(compiled.source, frame[None])[0] for frame in frames]
        for _ in range(2):  # nothing is left for the next call either
            assert np.array_equal(atonc.run(network, {"features": frames})["score"], np.stack(alone))
    assert [one.name for one in compiled.inputs] == ["features"] and [one.name for one in compiled.states] == ["before"]
    assert [one.name for one in compiled.outputs] == ["score"]


def test_a_folder_that_tells_no_names_still_has_its_states(compiled: Any, tmp_path: Path) -> None:
    compiled.save(tmp_path / "build")
    told = tmp_path / "build" / "network_program.json"
    (tmp_path / "build" / "network_manifest.json").unlink()
    frames = np.load(FRAMES)
    for content in (b"{", json.dumps({"states": [{"name": "x", "address": 1, "size_bytes": 2}]}).encode(),
                    told.read_bytes().replace(b'"int8"', b'"int9"')):  # fmt: skip
        told.write_bytes(content)
        session = atonc.load(tmp_path / "build").stream()
        session.run(frames)
        (name,) = session.states
        assert name == "state 1" and np.array_equal(session.states[name].view(np.int8), frames[-2:].ravel())


# ---------------------------------------------------------------------------------------------------------------- run


def test_run_takes_frames_in_order(
    compiled: Any, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frames, output = np.load(FRAMES), tmp_path / "out.npz"
    words = ["run", str(folder), "--input", str(FRAMES), "--output", str(output), "--hop", "10"]
    assert cli.main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert np.array_equal(np.load(output)["score"], exact_scores(compiled.source, frames))
    assert found["frames"] == 40 and found["hop_ms"] == 10 and found["real_time_factor"] < 0.01
    assert found["states"][0]["name"] == "before" and found["states"][0]["zero_point"] == -3
    assert cli.main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "40 frames in order from initial states" in said
    assert "state before 1x2x1x8 int8, reset before the run" in said
    assert cli.main(["run", str(folder), "--frames", "3", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["frames"] == 3 and made["outputs"][0]["shape"] == [3, 1, 1, 2]


def test_the_report_of_a_build_tells_its_states(compiled: Any, folder: Path) -> None:
    data = compiled.document.data()
    (state,) = data["states"]
    assert (state["name"], state["output"], state["size_bytes"], state["first"]) == ("before", "next", 16, "all -3")
    assert state["address"] == compiled.program.states[0].address and data["ms_per_frame"] == compiled.latency_ms
    assert [one["name"] for one in data["inputs"]] == ["features"]
    assert "16 bytes, first all -3" in " ".join((folder / "network_report.txt").read_text().split())
    view = atonc.explain(folder)
    assert view.states == compiled.network.states and str(view.states[0]).endswith("(npuRAM3), first all -3")
    page = (folder / "report.html").read_text()
    assert '"states":[{"name":"before"' in page


# ----------------------------------------------------------------------------------------------------------- validate


def validated(model: Path, options: Options | None = None, **asked: Any) -> validating.Validation:
    return validating.validate_model(model, ValidateOptions(**asked), options or Options(verify=False))


def test_every_byte_of_every_frame_is_that_of_the_chain() -> None:
    found = validated(MODEL, valinput=(FRAMES,))
    one = found.sequence
    assert one is not None and (one.frames, one.sequences, one.different) == (40, 1, 0)
    assert one.compared == 40 * (24 + 16 + 2 + 16)  # layers, states behind and before and one.states_bytes == 16
    assert all(check.holds for check in checks(found)) and found.samples == 40
    (drift,) = one.drift
    assert len(drift.codes) == 40 and max(drift.codes) <= 1.0
    pytest.importorskip("ai_edge_litert")
    assert drift.against == "TFLite reference kernels"


def test_sequences_begin_anew() -> None:
    """The second of two equal sequences gives what the first one gave, on both sides."""
    frames = np.concatenate([np.load(FRAMES)] * 2)
    found = [validated(MODEL, valinput=(FRAMES,)), validating_of(frames, frames=40)]
    for name in ("c_outputs_1", "m_outputs_1"):
        once, twice = (one.recorded[name] for one in found)
        assert np.array_equal(np.concatenate([once, once]), twice)
    assert found[1].sequence is not None and found[1].sequence.sequences == 2


def validating_of(values: Any, **asked: Any) -> validating.Validation:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as place:
        file = Path(place) / "frames.npy"
        np.save(file, values)
        return validated(MODEL, valinput=(file,), **asked)


def test_a_state_that_is_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Emulation.run

    def forgets(self: Emulation, inputs: Any, observe: bool = False) -> Any:
        self.reset()
        return run(self, inputs, observe)

    monkeypatch.setattr(Emulation, "run", forgets)
    found = validated(MODEL, valinput=(FRAMES,))
    assert found.sequence is not None and found.sequence.first.startswith("frame 1, ")
    said = [check.says for check in checks(found) if not check.holds]
    assert any("leaves the chain of its own layers in frame 1" in one for one in said)


def test_a_missing_reset_between_sequences_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    reset, done = Emulation.reset, [0]

    def once(self: Emulation) -> None:
        done[0] += 1
        if done[0] <= 2:  # of the emulation itself, and of the first sequence
            reset(self)

    monkeypatch.setattr(Emulation, "reset", once)
    found = validated(MODEL, valinput=(FRAMES,), frames=20, io_only=True)
    assert found.sequence is not None and "frame 20, " in found.sequence.first
    assert "a sequence begins there: its states were not reset (NAME_reset)" in found.sequence.first


def real_model(coded: bool = True) -> bytes:
    """ONNX: a state that is real at both ends; `coded`: quantised throughout, not in float on the CPU."""
    from tests.frontends.onnx_models import Net

    net = Net()
    x, s = net.qdq("x", 0.05, -3), net.qdq("s", 0.04, 2)
    total = net.node("Add", [x, s])[0]
    total = net.qdq(total, 0.07, 1) if coded else total
    net.qdq(net.node("Mul", [total, net.qdq(net.const(np.float32([0.5])), 0.004)])[0], 0.04, 2)
    net.nodes[-1].output[0] = "s_out"
    gain = net.qdq(net.const(np.float32([0.7])), 0.006)
    net.qdq(net.node("Mul", ["s_out", gain])[0], 0.03, 1)
    net.nodes[-1].output[0] = "y"
    return net.model({"x": SHAPE, "s": SHAPE}, ["y", "s_out"])


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("onnx")
    file = tmp_path_factory.mktemp("onnx") / "smooth.onnx"
    file.write_bytes(real_model())
    return file


STATE = Options(verify=False, states=("s_out=s",))


def test_declared_states_of_onnx_along_the_chain_of_its_kernels(real: Path) -> None:
    pytest.importorskip("onnxruntime")
    found = validated(real, STATE, frames=60)
    one = found.sequence
    assert one is not None and one.frames == 60 and one.different == 0 and one.drift[0].output == "y"
    assert all(check.holds for check in checks(found)), [check.says for check in checks(found)]
    assert "onnxruntime" in one.drift[0].against
    assert one.drift[0].ends[1] < 2.0  # codes: what is forgotten by half in each frame cannot run away


def test_real_numbers_on_the_cpu_are_within_their_limits(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    file = tmp_path / "real.onnx"
    file.write_bytes(real_model(coded=False))
    found = validated(file, replace(STATE, allow_float=True), frames=8)
    one = found.sequence
    assert one is not None and one.real and not one.different
    said = [check.says for check in checks(found) if check.name == "sequence"]
    assert said == ["8 frames with states kept: 8 tensors within their limits"]


def test_kernels_of_others_keep_their_own_states(real: Path) -> None:
    pytest.importorskip("onnxruntime")
    made = compile_file(real, STATE)
    samples = validating.synthetic_samples(made.source, 4)
    values: dict[str, Any] = {}
    with References(real) as references:
        for number, sample in enumerate(samples):
            got = references.outputs(made, sample, number > 0)
            exact = run_graph(made.source, {**sample, **values})
            values = {"s": exact["s_out"].astype(np.float32)}
            for title, (y,) in got.items():
                assert title != EXACT and np.abs(y - exact["y"]).max() <= 0.0301, (number, title)
        again = references.outputs(made, samples[1], False)  # a new sequence
    first = run_graph(made.source, samples[1])["y"]
    assert all(np.abs(y - first).max() <= 0.0301 for (y,) in again.values())


def test_drift_is_in_text_json_and_on_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "drift.html"
    words = ["validate", str(MODEL), "--frames", "12", "--hop", "20", "--page", str(page)]
    assert cli.main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "12 frames from initial states: 696 bytes of layers, outputs and states equal" in said
    assert "real-time factor" in said and "drift over the sequence" in said
    text = page.read_text()
    assert "<svg" in text and "of 12 frames" in text
    assert cli.main([*words[:6], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["sequence"]
    assert found["frames"] == 12 and len(found["drift"][0]["codes"]) == 12 and found["real_time_factor"] < 0.01


# ----------------------------------------------------------------------------------------------------------- mistakes


def typed(name: str) -> bytes:
    """The model with another type at one end of its state."""
    import onnx

    model = onnx.ModelProto.FromString(real_model())
    model.graph.node.append(onnx.helper.make_node("Cast", ["s_out"], ["h_out"], to=onnx.TensorProto.FLOAT16))
    model.graph.node.append(onnx.helper.make_node("Flatten", ["s_out"], ["flat"]))
    model.graph.node.append(onnx.helper.make_node("Reshape", ["s", "whole"], ["same"]))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.int64(SHAPE), "whole"))
    model.graph.output.extend(onnx.ValueInfoProto(name=one) for one in ("h_out", "flat", "same") if one == name)
    return bytes(model.SerializeToString())


MISTAKES = (  # pairs, a further output; what is said, and what to do
    ("s_out=s,y=s", "", "'s' is the input of two states", "name every input once"),
    ("s=s_out", "", "'s' is an input and 's_out' an output", "write --state s_out=s"),
    ("s_outt=s", "", "the model has no output 's_outt'", "did you mean 's_out'"),
    ("s_out=s,y=x", "", "every output is a state: nothing is left for the application", "leave out the pair"),
    ("flat=s", "flat", "the output has shape (1, 64), the input (1, 8, 4, 2)", "name the input that belongs"),
    ("h_out=s", "h_out", "the output has type float16, the input float32", "name the input that belongs"),
    ("same=s", "same", "the state never changes: its output is its input", "make the input a constant"),
)


@pytest.mark.parametrize(("pairs", "more", "said", "remedy"), MISTAKES, ids=[one[0] for one in MISTAKES])
def test_planted_mistakes_of_declarations(pairs: str, more: str, said: str, remedy: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    file = tmp_path / "smooth.onnx"
    file.write_bytes(typed(more))
    with pytest.raises(AtoncError) as error:
        atonc.compile(file, state=pairs, verify=False, allow_float=True)
    text = unwrapped(str(error.value))
    assert said in text and remedy in text


def test_planted_mistake_of_scales() -> None:
    """Codes carried as they are would be 13 % off."""
    from tests.compiler.test_states import OTHER, declared

    with pytest.raises(AtoncError) as error:
        declared("h_state_out=h_state_in", h_state_out=OTHER["scale"])
    text = unwrapped(str(error.value))
    assert "the state's output has scale 0.06" in text and "quantise both ends with one scale" in text


def planted(tmp_path: Path, **arrays: Any) -> Path:
    file = tmp_path / "data.npz"
    np.savez(file, **arrays)
    return file


def test_planted_mistakes_of_data(compiled: Any, folder: Path, tmp_path: Path) -> None:
    """A state given as well, the axes exchanged, a length that is no sequence, inputs of unlike length."""
    frames, source = np.load(FRAMES), compiled.source
    wide = planted(tmp_path, features=frames.reshape(40, 8).T)
    for call in (lambda: read_sequences(source, [wide]), lambda: compiled.stream().run(frames.reshape(40, 8).T),
                 lambda: atonc.load(folder).stream().run(frames.reshape(40, 8).T)):  # fmt: skip
        with pytest.raises(AtoncError) as error:
            call()
        text = unwrapped(str(error.value))
        assert "have shape 1x1x1x8, the data 8x40" in text and "the first axis counts frames" in text
        assert "N x 1x1x1x8" in text
    both = planted(tmp_path, features=frames, before=np.zeros((40, 1, 2, 1, 8), np.int8))
    given = {"features": frames, "before": frames}
    for call in (lambda: read_sequences(source, [both]), lambda: compiled.stream().run(given),
                 lambda: atonc.load(folder).stream().run({"features": frames[0], "before": frames[0]}),
                 lambda: compiled.run(given)):  # fmt: skip
        with pytest.raises(AtoncError) as error:
            call()
        text = unwrapped(str(error.value))
        assert "'before' is a state that the network keeps by itself" in text and "leave it out" in text
    with pytest.raises(AtoncError) as error:
        read_sequences(source, [planted(tmp_path, features=frames)], 7)
    text = unwrapped(str(error.value))
    assert "40 frames are no sequences of 7 each" in text and "leave --frames out" in text
    with pytest.raises(AtoncError, match="a call takes one frame"):
        compiled.stream()(frames)


def test_planted_mistakes_on_the_command_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = planted(tmp_path, features=np.load(FRAMES), before=np.zeros((1, 2, 1, 8), np.int8))
    digits = HERE.parent / "digits" / "digits.tflite"
    for words, said in (
        (("run", folder, "--input", both), "'before' is a state that the network keeps by itself"),
        (("run", folder, "--input", FRAMES, "--frames", 7), "7 for 40 frames of data"),
        (("run", folder, "--frames", 3, "--dump", tmp_path / "d"), "give the first frame alone"),
        (("run", HERE.parent / "first", "--frames", 3), "--frames for a network without states"),
        (("validate", MODEL, "--frames", 10**9), "is not a number from 0 to 1,000,000"),
        (("validate", digits, "--frames", 3), "or declare its states: --state OUT=IN"),
        (("validate", MODEL, "-vi", both), "'before' is a state that the network keeps by itself"),
    ):
        assert cli.main(list(map(str, words))) == 2
        assert said in unwrapped(capsys.readouterr().err), words


def test_drift_is_counted_by_frame_of_a_sequence() -> None:
    """What grows within each of several sequences is not averaged away."""
    assert sequences._by_frame(np.array([0.0, 1.0, 2.0, 0.0, 3.0]), [0, 3]) == (0.0, 2.0, 2.0)
    assert Drift("y", "kernels", (0.0, 2.0, 2.0, 4.0)).ends == (0.0, 4.0)
