"""Forms are values: what is refused or not chosen leaves nothing behind, and why it was refused is kept."""

from __future__ import annotations

import ast
from dataclasses import FrozenInstanceError
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from atonc import compiler
from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.layer import layer_of
from atonc.compiler.lower.conv.recipe import padding
from atonc.compiler.plan import policy
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select import form as form_module
from atonc.compiler.select.enumerate import (
    Draw,
    Drawing,
    Found,
    Pieces,
    Steps,
    attempt,
    cheapest,
    cheapest_of,
    chosen,
    enumerated,
    first,
)
from atonc.compiler.select.form import Form, Refusal, RefusedForm
from atonc.compiler.select.rules import CONV_LINES, CONV_MODE
from atonc.compiler.select.variants import LABELS, Variant
from tests.lower import harness

TOO_LARGE = RefusedForm(CONV_MODE, "too large", "smaller", "make it smaller")
TOO_WIDE = RefusedForm(CONV_LINES, "too wide", "narrower", "make it narrower")


def graph(size: int = 8) -> Graph:
    weights = np.ones((4, 3, 3, 4), np.int8)
    tensors = (
        harness.activation("x", (1, size, size, 4), zero_point=3),
        harness.constant("w", weights, np.full(4, 0.01), axis=0),
        harness.activation("y", (1, size, size, 4), scale=0.5),
    )
    attrs = {"padding": (1, 1, 1, 1), "stride": (1, 1), "dilation": (1, 1), "layout": "NHWC"}
    return harness.graph_of(Op("conv", "c", ("x", "w"), ("y",), attrs), *tensors)


def state(context: Context) -> tuple[dict[str, object], ...]:
    return tuple(map(dict, (context.buffers, context.aliases, context.shifted_copies, context.semantics)))


def way(label: str, elements: int = 8, refused: RefusedForm | None = None, error: float = 0.25) -> Draw:
    """Writes something of every kind into its draft, then works or not."""

    def build(context: Context) -> list[TaskGroup]:
        scratch = context.scratch(elements, label)
        context.constant(label.encode(), "constant")
        context.alias("y", "x")
        context.shifted_copies["x"] = scratch
        context.explain(context.graph.ops[0], lambda values: values, error=error)
        b = TaskBuilder(("c",), label)
        b.write(b.read("x", contiguous(elements)), scratch, contiguous(elements, write=True))
        if refused:
            raise Refusal.of(refused)
        return [b.alone()]

    return build


def rows(*draws: Draw) -> list[Steps]:
    return [(Drawing(draw),) for draw in draws]


def competing(*draws: Draw) -> list[tuple[Variant, Steps]]:
    return [(MANY, row) for row in rows(*draws)]


def titles(groups: list[TaskGroup]) -> list[str]:
    return [task.title for group in groups for task in group.tasks]


def test_a_refused_form_leaves_nothing_behind() -> None:
    context = Context(harness.facts(graph()))
    context.buffer("x")
    before = state(context)
    assert attempt(context, way("a", refused=TOO_LARGE)) == TOO_LARGE
    assert state(context) == before


def test_a_form_is_nothing_until_it_is_taken() -> None:
    context = Context(harness.facts(graph()))
    before = state(context)
    form = attempt(context, way("a"))
    assert isinstance(form, Form) and state(context) == before
    assert form.error == 0.25 and set(form.semantics) == {"c"} and form.aliases == {"y": "x"}
    with pytest.raises(FrozenInstanceError):
        form.groups = ()  # type: ignore[misc]
    assert titles(context.take(form)) == ["a"]
    assert set(context.buffers) == {"a#1", "x", "y", *(n for n in context.buffers if n.startswith("constant:"))}
    assert context.shifted_copies == {"x": "a#1"} and context.semantics["c"].error == 0.25


def test_the_first_form_that_works_is_taken_and_later_ones_are_not_tried() -> None:
    context = Context(harness.facts(graph()))
    tried: list[str] = []

    def never(context: Context) -> list[TaskGroup]:
        tried.append("never")
        return []

    assert titles(chosen(context, first(rows(way("a", refused=TOO_LARGE), way("b"), never)))) == ["b"]
    assert context.refused == [TOO_LARGE] and not tried
    assert not [name for name in context.buffers if name.startswith("a#")]


def test_the_cheapest_form_is_taken_and_the_first_of_equals() -> None:
    three = competing(way("a", 4096), way("b", 512), way("c", 512))
    assert titles(chosen(Context(harness.facts(graph())), cheapest(three))) == ["b"]


def test_cycles_error_and_memory_have_a_price() -> None:
    form = attempt(Context(harness.facts(graph())), way("a", 512, error=2.0))
    assert isinstance(form, Form) and form.scratch_bytes == 512
    scratch = 512 * policy.scratch_byte_cycles(harness.TARGET.machine)
    assert form.cost == form.cycles + 2.0 * policy.ERROR_CODE_CYCLES + scratch
    both = competing(way("a", 512, error=2.0), way("b", 4096, error=0.5))
    closer = chosen(Context(harness.facts(graph())), cheapest(both))
    assert titles(closer) == ["b"]


def test_cycles_are_worked_out_only_where_forms_compete(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    counted = form_module.cycles_of
    monkeypatch.setattr(form_module, "cycles_of", lambda *given: asked.append(1) or counted(*given))
    chosen(Context(harness.facts(graph())), first(rows(way("a"), way("b"))))
    assert not asked
    chosen(Context(harness.facts(graph())), cheapest(competing(way("a"), way("b"))))
    assert len(asked) == 2


def test_what_was_preferred_says_to_what_and_why() -> None:
    context = Context(harness.facts(graph()))
    slow, fast = (attempt(context, way(label, size)) for label, size in (("a", 4096), ("b", 512)))
    assert isinstance(slow, Form) and isinstance(fast, Form) and fast.cycles < slow.cycles
    rows, all_rows = Variant("bands"), Variant("all rows")
    found = Found.of(slow).over(rows, [(rows, Found.of(slow)), (all_rows, Found.of(fast))], "an order")
    assert titles(context.take(found.whole)) == ["a"]
    (other,) = context.alternatives
    assert (other.variant, other.chosen, other.because, other.form) == (all_rows, rows, "an order", fast)


MANY, FEW = Variant("many shifts"), Variant("few shifts")


def test_a_row_that_cannot_win_is_built_when_somebody_asks() -> None:
    """Rows come by their bounds; the dear one has a draft only then, and the answer is the same form."""
    built: list[str] = []

    def noted(label: str, elements: int) -> Draw:
        def draw(context: Context) -> list[TaskGroup]:
            built.append(label)
            return way(label, elements)(context)

        return draw

    context = Context(harness.facts(graph()))
    few, many = rows(noted("few", 512), noted("many", 4096))
    found = enumerated(None, context, (lambda subject, draft: cheapest_of([(MANY, many, 1e9), (FEW, few, 0.0)]),))
    assert isinstance(found, Found) and built == ["few"]
    (other,) = found.beaten
    assert (other.variant, other.chosen, other.built, other.least_cycles) == (MANY, FEW, None, 1e9)
    assert other.form is not None and built == ["few", "many"] and other.form.cycles > found.form.cycles


def test_pieces_are_done_in_turn_or_as_their_cut_joins_them() -> None:
    context = Context(harness.facts(graph()))
    both: tuple[tuple[Drawing, Steps], ...] = tuple((Drawing(way(label)), ()) for label in "ab")
    backwards = Pieces(both, lambda draft, groups: [*groups[1], *groups[0]])
    for pieces, order in ((Pieces(both), ["a", "b"]), (backwards, ["b", "a"])):
        found = enumerated(pieces, context, ())
        assert isinstance(found, Found) and titles(list(found.form.groups)) == order


def test_nothing_is_decided_about_a_drawing() -> None:
    decisions = (lambda subject, draft: first(rows(way("a"))), lambda subject, draft: pytest.fail("asked"))
    found = enumerated(None, Context(harness.facts(graph())), decisions)
    assert isinstance(found, Found) and titles(list(found.form.groups)) == ["a"]


def test_a_bound_is_not_the_cost() -> None:
    """Where two rows may win, the one that costs less is taken, whichever promised more."""
    few, many = rows(way("few", 512), way("many", 4096))
    decision = cheapest_of([(MANY, many, 0.0), (FEW, few, 1.0)])
    found = enumerated(None, Context(harness.facts(graph())), (lambda subject, draft: decision,))
    assert isinstance(found, Found) and [one.variant for one in found.beaten] == [MANY]


def test_nearly_the_best_is_enough_where_somebody_says_so() -> None:
    few, many = rows(way("few", 512), way("many", 4096))
    cost = attempt(Context(harness.facts(graph())), way("few", 512)).cost  # type: ignore[union-attr]
    for enough, built in (1.0, True), (1.1, False):
        decision = cheapest_of([(FEW, few, 0.0), (MANY, many, cost / 1.05)], enough)
        found = enumerated(None, Context(harness.facts(graph())), (lambda subject, draft: decision,))  # noqa: B023
        assert isinstance(found, Found) and [one.built is not None for one in found.beaten] == [built]


def test_scratch_that_lives_one_after_the_other_counts_once() -> None:
    def draw(context: Context) -> list[TaskGroup]:
        names = [context.scratch(size, "s") for size in (100, 300, 200)]
        copies = []
        for source, target in pairwise(names):
            b = TaskBuilder(("c",), "copy")
            b.write(b.read(source, contiguous(64)), target, contiguous(64, write=True))
            copies.append(b.alone())
        return copies

    form = attempt(Context(harness.facts(graph())), draw)
    assert isinstance(form, Form) and form.scratch_bytes == 500


@pytest.mark.parametrize("blame_last, blamed", [(False, TOO_LARGE), (True, TOO_WIDE)])
def test_without_any_form_a_refusal_is_the_answer(blame_last: bool, blamed: RefusedForm) -> None:
    context = Context(harness.facts(graph()))
    before = state(context)
    draws = [way("a", refused=TOO_LARGE), way("b", refused=TOO_WIDE)]
    form = attempt(context, lambda draft: chosen(draft, first(rows(*draws), blame_last=blame_last)))
    assert form == blamed and state(context) == before


def test_drafts_see_what_is_below_them() -> None:
    context = Context(harness.facts(graph()))
    outer = context.draft()
    name = outer.scratch(16, "outer")
    inner = outer.draft()
    assert inner.buffers[name].size_bytes == 16
    outer.take(inner.done([]))
    assert list(outer.done([]).buffers) == [name]
    assert not context.buffers


def test_reasons_of_nested_choices_travel_with_the_form() -> None:
    def nested(context: Context) -> list[TaskGroup]:
        return chosen(context, first(rows(way("a", refused=TOO_WIDE), way("b"))))

    draws = [way("z", refused=TOO_LARGE), nested]
    form = attempt(Context(harness.facts(graph())), lambda draft: chosen(draft, first(rows(*draws))))
    assert isinstance(form, Form) and form.refused == (TOO_LARGE, TOO_WIDE)


def test_a_padded_convolution_without_any_form_leaves_nothing_behind() -> None:
    """All ways are tried, tap by tap and on padded copies; the last one's buffers and pieces once stayed."""
    context = Context(harness.facts(graph()))
    layer = layer_of(context.graph.ops[0], context)
    before = state(context)
    tried = []

    def refusing(layer: object, draft: Context) -> None:
        tried.append(layer)
        raise Refusal.of(TOO_WIDE)

    assert enumerated(layer, context, (padding, refusing)) == TOO_WIDE
    assert len(tried) == 4 and state(context) == before


def test_a_variant_has_a_text_of_its_own_and_a_label() -> None:
    """Decisions store the text: rewording a label leaves them as they are."""
    known = [Variant(name, count, within) for name in LABELS for count in (0, 2) for within in ("", "anywhere")]
    assert len({str(one) for one in known}) == len(known)
    assert str(Variant("rows beside", 3, "anywhere")) == "rows beside 3 within anywhere"
    assert Variant("rows beside", 3).label == "3 parallel chains by rows"


def test_every_variant_that_the_compiler_names_has_a_label() -> None:
    """Two names are put together (`Ringed.variant`); all others are literals."""
    together = {f"{lines} {codes}" for lines in ("ring of", "stride on") for codes in ("codes", "shifted codes")}
    folder = Path(compiler.__file__).parent
    named = {
        node.args[0].value
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Variant"
        if isinstance(node.args[0], ast.Constant)
    }
    lanes = {"rows beside", "kernels beside", "even beside", "rows in turn"}  # constants of `lanes`
    assert named | together | lanes == LABELS.keys()
