"""PyTorch modules in, and training as the chip rounds. Needs atonc[torch]; what runs without is in test_coded_graph.py
and tests/quantizing/test_pt2_archive.py."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="atonc[torch] is not installed: PyTorch modules are not tried")
pytest.importorskip("onnxscript", reason="atonc[torch] is not installed: PyTorch's exporter needs onnxscript")
pytest.importorskip("onnxruntime", reason="atonc[quantize] is not installed")

import torch

import atonc
from atonc.insight.quantizing.from_torch import read_pt2
from atonc.insight.quantizing.price import chip_outputs
from atonc.insight.training.network import TrainingNetwork, coded, rounded, written
from atonc.insight.training.types import PrepareOptions
from tests.training.test_coded_graph import qdq

nn, F = torch.nn, torch.nn.functional


class Block(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)

    def forward(self, x: Any) -> Any:
        return x + F.relu6(self.bn(self.conv(x)))


class Small(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, inner: Any = None) -> None:
        super().__init__()
        self.stem, self.backbone = nn.Conv2d(1, 8, 3, padding=1), nn.Sequential(Block(), inner or nn.SiLU())
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.head(F.max_pool2d(self.backbone(self.stem(x)), 2).mean((2, 3)))


class Spectral(nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return x + torch.linalg.eigvals(x).real[..., None]


class Picking(nn.Module):  # type: ignore[misc, name-defined]
    """What it gives has as many values as are large."""

    def __init__(self, how: Any) -> None:
        super().__init__()
        self.conv, self.how = nn.Conv2d(3, 4, 3), how

    def forward(self, x: Any) -> Any:
        return self.how(torch.relu(self.conv(x)))


class Branching(nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return 2 * x if x.sum() > 0 else x


@pytest.fixture(scope="module", name="small")
def _small() -> tuple[Any, Any, Any]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    samples = torch.randn(24, 1, 8, 8)
    return Small().eval(), samples[:1], samples


@pytest.fixture(scope="module", name="prepared")
def _prepared(small: tuple[Any, Any, Any]) -> TrainingNetwork:
    return atonc.torch.prepare(*small)


def test_nodes_are_named_after_their_modules(small: tuple[Any, Any, Any]) -> None:
    names = [node.name for node in atonc.torch.to_onnx(*small[:2]).graph.node]
    assert {"stem/Conv", "backbone.0.conv/Conv", "backbone.0/Add", "head/Gemm"} <= set(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("inner", "words"), [(Spectral(), "linalg_eig"), (Branching(), "torch.export cannot follow")])
def test_a_refusal_names_the_module(inner: Any, words: str) -> None:
    with pytest.raises(atonc.errors.UnsupportedError, match=words) as caught:
        atonc.torch.to_onnx(Small(inner), torch.randn(1, 1, 8, 8))
    assert caught.value.where.startswith("backbone.1") and caught.value.remedy


@pytest.mark.parametrize(
    ("how", "left"), [(lambda y: y[y > 0.2], "NonZero"), (torch.unique, "Unique")], ids=["mask", "unique"]
)
def test_what_has_no_fixed_size_is_left_to_the_application_and_told(how: Any, left: str) -> None:
    torch.manual_seed(0)
    few = {"objective": "accuracy", "calibration": "minmax"}
    with pytest.warns(UserWarning, match=f"the application: .*{left}"):
        made = atonc.torch.quantize(Picking(how), torch.randn(1, 3, 6, 6), torch.randn(16, 1, 3, 6, 6), **few)
    assert made.tail is not None and made.tail.operators[-1].kind in (left, "GatherND", "Transpose")
    assert [one.name for one in made.outputs] == list(made.tail.outputs)


def test_the_mode_of_every_part_is_put_back() -> None:
    net = Small().train()
    net.backbone[0].bn.eval()
    atonc.torch.to_onnx(net, torch.randn(1, 1, 8, 8))
    assert net.training and net.head.training and not net.backbone[0].bn.training


def test_a_module_becomes_a_verified_program_in_one_call(small: tuple[Any, Any, Any]) -> None:
    made = atonc.torch.compile(*small, quantize={"objective": "accuracy"})
    assert made.verification is not None and made.verification.worst_layer <= 1
    assert "backbone.0.conv/Conv" in [layer.name for layer in made.layers]


def test_samples_that_are_made_are_told(small: tuple[Any, Any, Any]) -> None:
    with pytest.warns(UserWarning, match="says nothing of accuracy"):
        atonc.torch.quantize(*small[:2], objective="accuracy", correct_rounding=False, equalise=False)


def test_an_exported_program_is_read_from_its_file(small: tuple[Any, Any, Any], tmp_path: Path) -> None:
    file = tmp_path / "small.pt2"
    torch.export.save(torch.export.export(small[0], (small[1],)), file)
    names = [node.name for node in read_pt2(file).graph.node]
    assert names == [node.name for node in atonc.torch.to_onnx(*small[:2]).graph.node]


def test_sample_inputs_that_are_more_than_tensors_run_nothing(small: tuple[Any, Any, Any], tmp_path: Path) -> None:
    from atonc.insight.quantizing.from_torch import SAMPLE_INPUTS, checked_archive, packed

    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "ran",)

    file = tmp_path / "small.pt2"
    torch.export.save(torch.export.export(small[0], (small[1],)), file)
    torch.save(((Evil(),), {}), tmp_path / "evil.pt")
    found = checked_archive(file.read_bytes(), file.name)
    file.write_bytes(packed(found | {SAMPLE_INPUTS: (tmp_path / "evil.pt").read_bytes()}))
    with pytest.raises(atonc.errors.UnsupportedError, match="more than tensors"):
        read_pt2(file)
    assert not (tmp_path / "ran").exists()


# ----------------------------------------------------------------------------------------------------------- training


def test_halves_go_away_from_zero_as_on_the_chip() -> None:
    values = torch.tensor([0.5, 1.5, -0.5, -2.5, 0.49999997, 2.4])
    assert rounded(values, torch.tensor(0.0)).tolist() == [1, 2, -1, -3, 0, 2]
    assert rounded(values, torch.tensor(-10.0)).tolist() == [0, 1, -1, -3, 0, 2], "away from code 0"
    assert rounded(values).tolist() == [0, 2, 0, -2, 0, 2]


def test_gradients_pass_roundings_and_end_where_codes_end() -> None:
    values = torch.tensor([0.3, 100.0], requires_grad=True)
    scale = torch.tensor(0.5, requires_grad=True)
    coded(values, scale, torch.tensor(0.0), False).sum().backward()
    assert values.grad is not None and values.grad.tolist() == [1.0, 0.0]
    assert scale.grad is not None and float(scale.grad) == pytest.approx(1 - 0.6 + 127)


def _last_step(net: TrainingNetwork) -> float:
    """What one code of the output is worth."""
    return float(net.form(list(net.graph.activations.values())[-1].group)[0].detach())


def _by_onnxruntime(model: Any, samples: Any) -> Any:
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    return np.concatenate([session.run(None, {given.name: one[None].numpy()})[0] for one in samples])


@pytest.mark.parametrize(
    "wishes",
    [{}, {"zero_points": "plain"}, {"power_of_two": True}, {"scales": "range"}, {"scales": "fixed"}],
    ids=["learned", "plain zeros", "powers of two", "moving range", "fixed"],
)
def test_the_file_is_what_was_trained(prepared: TrainingNetwork, small: tuple[Any, Any, Any], wishes: Any) -> None:
    """After some steps the exported file gives, by onnxruntime, what the module gives with its rounding."""
    net = TrainingNetwork(
        prepared.graph.model.SerializeToString(), PrepareOptions(**{"rounding": "even", "momentum": 0.5, **wishes})
    )
    optimiser = torch.optim.Adam(net.train().parameter_groups(1e-2))
    before = [one.detach().clone() for one in net.parameters()]
    for _ in range(3):
        loss = net(small[2]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    moved = [not torch.equal(one, other) for one, other in zip(before, net.parameters(), strict=True)]
    assert any(moved) and net.eval()(small[2]).shape == (24, 4)
    with torch.no_grad():
        seen = net(small[2]).numpy()
    step = _last_step(net)
    off = np.abs(seen - _by_onnxruntime(written(net), small[2]))
    assert (off > 1e-5).mean() < 0.05 and off.max() < 1.5 * step, "single precision may move a tie"
    forms = [net.form(one.group) for one in net.graph.activations.values() if not one.is_input]
    if wishes.get("zero_points") == "plain":
        assert {int(zero) for _, zero in forms} <= {0, -128}
    if wishes.get("power_of_two"):
        assert all(float(torch.log2(scale.detach())).is_integer() for scale, _ in forms)


def test_moving_ranges_move_in_training_only(small: tuple[Any, Any, Any], prepared: TrainingNetwork) -> None:
    net = TrainingNetwork(prepared.graph.model.SerializeToString(), PrepareOptions(scales="range", momentum=0.5))
    start = {name: value.clone() for name, value in net.named_buffers()}
    net.eval()(3 * small[2])
    assert all(torch.equal(value, start[name]) for name, value in net.named_buffers())
    net.train()(3 * small[2])
    assert any(not torch.equal(value, start[name]) for name, value in net.named_buffers())


def test_tied_scales_stay_tied_and_inputs_keep_theirs() -> None:
    net = TrainingNetwork(qdq())
    groups = {name: one.group for name, one in net.graph.activations.items()}
    assert not net.scales[str(groups["xq"])].requires_grad and net.scales[str(groups["rq"])].requires_grad
    assert len(net.scales) == 2 and net(torch.randn(3, 1, 4, 4)).shape == (3, 2, 2, 2)


def test_weights_of_four_bits_stay_within_their_codes(tmp_path: Path) -> None:
    net = TrainingNetwork(qdq(bits=4))
    with torch.no_grad():
        net.weights["wd"].mul_(50)
    codes, _ = net.weight_form("wd")
    assert codes.reshape(-1).tolist() == [7, -8]
    atonc.torch.export(net, tmp_path / "four.onnx")
    again = TrainingNetwork((tmp_path / "four.onnx").read_bytes()).graph
    assert again.weights["wd"].bits == 4 and again.constants["b_scale"].shape == ()


def test_the_chip_answers_as_the_module_does(
    prepared: TrainingNetwork, small: tuple[Any, Any, Any], tmp_path: Path
) -> None:
    """Bit for bit where it is evaluated, within single codes where it trains; and again after a step of training."""
    net = TrainingNetwork(prepared.graph.model.SerializeToString()).eval()
    with torch.no_grad():
        before = net(small[2])
        next(iter(net.weights.values())).mul_(1.1)
    net = copy.deepcopy(net)
    atonc.torch.export(net, tmp_path / "small.onnx")
    compiled = atonc.compile(tmp_path / "small.onnx")
    (name,) = compiled.source.inputs
    found = chip_outputs(compiled.compiled, [{name: sample[None].numpy()} for sample in small[2]])
    on_chip = np.concatenate([one[0].reshape(1, -1) for one in found])
    answers = net(small[2])
    assert np.array_equal(answers.detach().numpy(), on_chip) and not np.array_equal(before.numpy(), on_chip)
    answers.sum().backward()
    assert any(one.grad is not None and one.grad.abs().sum() > 0 for one in net.weights.values())
    off = np.abs(on_chip - net.train()(small[2]).detach().numpy())
    step = _last_step(net)
    assert off.max() < 1.5 * step and (off > 0.5 * step).mean() < 0.1


def test_an_operator_that_cannot_be_trained_is_named(prepared: TrainingNetwork) -> None:
    model = type(prepared.graph.model)()
    model.CopyFrom(prepared.graph.model)
    next(node for node in model.graph.node if node.op_type == "MaxPool").op_type = "Cumulate"
    with pytest.raises(atonc.errors.UnsupportedError, match="the operator Cumulate cannot be trained"):
        TrainingNetwork(model.SerializeToString())
