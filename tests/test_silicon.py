"""`--silicon`: operators whose epochs lack evidence leave the NPU, with the form as the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.compile.reproduce import command
from atonc.compiler.ir import Graph, Op
from atonc.compiler.request.options import Options
from atonc.compiler.request.target import trust_of
from atonc.compiler.schedule.shares import Share
from atonc.compiler.search import silicon
from atonc.insight.report import parts
from atonc.machine.base.errors import ToolError
from atonc.machine.hw.safety.evidence import PUBLISHED, EpochGrade, Grade, Graded, GradedForm, Strength
from atonc.machine.hw.safety.evidence.grades import Feature
from atonc.machine.hw.safety.evidence.summary import summarise
from tests.lower.harness import activation, constant, graph_of


def graph(zero: int = -128) -> Graph:
    """1 x 1 over 16 channels. A zero point of -128 at the input is the composed form of FSUB = -128."""
    rng = np.random.default_rng(0)
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "groups": 1, "layout": "NHWC"}
    return graph_of(
        Op("conv", "conv", ("x", "w", "b"), ("y",), attrs),
        activation("x", (1, 12, 12, 16), 0.02, zero),
        constant("w", rng.integers(-127, 128, (16, 1, 1, 16)).astype(np.int8), rng.uniform(0.002, 0.004, 16), axis=0),
        constant("b", rng.integers(-2000, 2000, 16).astype(np.int32)),
        activation("y", (1, 12, 12, 16), 0.05, 3),
    )


def test_composed_forms_are_allowed_and_named() -> None:
    compiled = compile_graph(graph(), Options())
    found = summarise(compiled.grades)
    assert found.epochs["unseen"] == 0 < found.epochs["composed"] and not compiled.choices.reasons
    assert "S5" in found.by_argument
    text = "\n".join(parts.silicon_lines(found, verbose=True))
    for said in ("0 not seen in ST programs", "S5 Operands: 1 epoch", "CONVACC FSUB of signed = -128"):
        assert said in text
    data = found.as_dict()
    assert data["composed"] == found.epochs["composed"]
    assert {a["id"] for a in data["arguments"]} == set(found.by_argument)
    assert {f["value"] for f in data["forms"] if f["form"] == "CONVACC FSUB"} == {-128}


def test_only_seen_forms() -> None:
    compiled = compile_graph(graph(), Options(silicon="seen"))
    assert all(epoch.grade.rank <= Grade.WITHIN.rank for epoch in compiled.grades)
    assert not compiled.choices.reasons  # -127 is subtracted, or nothing, instead of -128
    assert compiled.report is not None and compiled.report.outputs[0].within1_percent == 100


def test_a_network_of_seen_forms_stays_on_the_npu() -> None:
    compiled = compile_graph(graph(zero=-5), Options(silicon="seen"))
    assert not compiled.choices.reasons and len(compiled.grades) == 1


def planted(grade: Grade, argument: str = "") -> EpochGrade:
    form = GradedForm("CONVACC0", Graded(Feature("CONVACC W", "3x3/1 simd1 F1", 1), grade, "2..240", argument))
    return EpochGrade(1, grade, (form,))


@pytest.mark.parametrize(
    ("grade", "options", "refused"),
    [
        (Grade.UNSEEN, Options(), True),
        (Grade.UNSEEN, Options(allow_unproven=True), False),
        (Grade.COMPOSED, Options(), False),
        (Grade.COMPOSED, Options(silicon="seen"), True),
        (Grade.COMPOSED, Options(silicon="seen", allow_unproven=True), False),
    ],
)
def test_what_the_gate_refuses(grade: Grade, options: Options, refused: bool) -> None:
    compiled = compile_graph(graph(), Options(verify=False))
    found = silicon.refused([planted(grade, "S3")], compiled.program, compiled.scheduled.shares, trust_of(options))
    assert list(found) == (["conv"] if refused else [])


def test_it_ends_when_nothing_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = {"conv": silicon.refused([planted(Grade.UNSEEN)], *_bound(), PUBLISHED)["conv"]}
    monkeypatch.setattr(silicon, "refused", lambda *_: refusal)
    with pytest.raises(ToolError, match="CONVACC W of 3x3/1 simd1 F1 = 1"):
        compile_graph(graph(), Options(verify=False))


def branches() -> Graph:
    """Two layers that read the same picture."""
    one = graph(zero=-5)
    (op,) = one.ops
    other = replace(op, name="other", outputs=("z",))
    tensors = {**one.tensors, "z": activation("z", (1, 12, 12, 16), 0.05, 3)}
    return replace(one, tensors=tensors, ops=(op, other), outputs=("y", "z"))


def test_operators_leave_a_shared_epoch_before_they_leave_the_npu(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = silicon.refused([planted(Grade.UNSEEN)], *_bound(), PUBLISHED)["conv"]
    asked = []

    def refuse_neighbours(grades: object, program: object, shares: Sequence[Sequence[Share]], trust: object):
        asked.append([[share.op for share in some] for some in shares])
        return {some[0].op: refusal for some in shares if len(some) > 1 or len(some[0].tasks) > 1}

    monkeypatch.setattr(silicon, "refused", refuse_neighbours)
    compiled = compile_graph(branches(), Options(verify=False))
    assert max(map(len, asked[0])) == 2 and max(map(len, asked[-1])) == 1
    assert not compiled.choices.reasons and {op for some in asked[-1] for op in some} == {"conv", "other"}


def _bound():
    compiled = compile_graph(graph(), Options(verify=False))
    return compiled.program, compiled.scheduled.shares


def test_what_is_unseen_is_listed_without_being_asked() -> None:
    text = parts.silicon_lines(summarise([planted(Grade.UNSEEN), replace(planted(Grade.COMPOSED, "S3"), number=2)]))
    assert text[0] == "hardware confidence: 2 epochs: 1 new combination of known parts, 1 not seen in ST programs"
    assert "     CONVACC W of 3x3/1 simd1 F1 = 1 (seen: 2..240): 1 epoch, first 1" in text
    assert text[-1] == "  S3 Larger frames: 1 epoch"


def test_what_was_seen_once_is_told_with_whose_program_it_is() -> None:
    once = Graded(Feature("chain", "", "IN>OUT"), Grade.ONCE, strength=Strength(3, 1, 1, 1))
    found = summarise([EpochGrade(4, Grade.WITHIN, (GradedForm("STRENG0", once),), once.strength)])
    assert (found.epochs["within"], found.with_form[Grade.ONCE], found.shipped) == (1, 1, 1)
    text = parts.silicon_lines(found, verbose=True)
    assert text[1] == "  1 epoch has a configuration seen in one program only; ST ships all configurations of 1"
    assert text[-1] == "     chain = IN>OUT [one program, shipped by ST]: 1 epoch, first 4"
    assert text[-1] not in parts.silicon_lines(found)
    data = found.as_dict()
    assert data["strength"] == {"with_a_form_seen_once": 1, "all_forms_shipped": 1}
    assert [(f["grade"], f["programs"], f["owners"], f["shipped"]) for f in data["forms"]] == [("once", 1, 1, 1)]


def test_the_command_keeps_the_options() -> None:
    asked = command("m.tflite", Options(silicon="seen", allow_unproven=True))
    assert "--silicon seen" in asked and "--allow-unproven" in asked
    assert "silicon" not in command("m.tflite", Options())
