"""BuildFigures in texts and documents, each from values that all differ: nothing is mixed up, nothing counted twice."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from atonc.compiler.emit.program import ProgramStep
from atonc.compiler.place.usage import MemoryUse, UsageRow, Use
from atonc.compiler.plan.types import CpuPlan, EpochPlan
from atonc.compiler.request.options import Options
from atonc.compiler.search.log import Attempt, Verdict
from atonc.compiler.select.choices import CpuReason
from atonc.compiler.select.decisions import Decisions
from atonc.compiler.select.rules import BY_NATURE
from atonc.insight.explain import rules
from atonc.insight.explain.actions import Action, BuildFigures, TriedOption, ranked
from atonc.insight.explain.types import Decision, RemedyPrice
from atonc.insight.report import compare_text, compile_text, explain_text, exports, generate_report, parts
from atonc.insight.report import document as doc
from atonc.machine.base.words import difference_text
from atonc.machine.cost.network import StepCost
from atonc.machine.hw.epoch import Epoch

KIB, MIB = 1 << 10, 1 << 20


def some(**values: Any) -> Any:
    """A view with these values and no others."""
    return SimpleNamespace(**values)


# --------------------------------------------------------------------------------------------------------------- epochs


def epoch_lines(rows: list[parts.EpochRow], verbose: bool) -> list[str]:
    return doc.lines(doc.Document(sections=[parts.epoch_chapter(rows, verbose, "on", "what")]))


def test_the_slowest_epochs_are_shown_the_slowest_first() -> None:
    rows = [
        parts.EpochRow(k, "npu", StepCost(7, "", 100 * k, "feature", k / 10, 0.0, f"epoch {k}")) for k in range(1, 21)
    ]
    title, _, *lines = epoch_lines(rows, verbose=False)
    assert "10 slowest" in title and [int(line.split()[0]) for line in lines] == list(range(20, 10, -1))
    assert len(epoch_lines(rows, verbose=True)) == 22


def test_cycles_that_were_guessed_are_marked() -> None:
    costs = [StepCost(0, "", 1234, "cpu", 1.0, 1.0, "x", known) for known in (True, False)]
    rows = [parts.EpochRow(number, "cpu", cost) for number, cost in enumerate(costs, 1)]
    *_, measured, guessed = epoch_lines(rows, verbose=True)
    assert " 1,234 " in measured and "~" not in measured and "~1,234" in guessed


def _steps() -> tuple[ProgramStep, ...]:
    cpu = [ProgramStep(n, CpuPlan(("s",), "softmax", f"op{n}", (), ())) for n in (1, 2)]
    npu = [ProgramStep(n, EpochPlan(("c",), "conv", {}, {}, ()), Epoch(n, {}, (), ())) for n in (3, 4, 5)]
    return (*cpu, *npu)


def test_steps_are_counted_by_who_runs_them() -> None:
    assert compile_text.counts(_steps()) == {"total": 5, "npu": 3, "cpu": 2, "hybrid": 0}
    network = some(program=some(steps=_steps()), epoch_controller=False)
    lines = generate_report._epochs(some(compiled=some(graph=some(ops=()))), network)
    assert "Total number of epochs: 5 of which 2 implemented in software" in lines
    pure = [line.split() for line in lines if line.startswith(">> pure ")]  # what pipelines look for
    assert [(words[2], words[-1]) for words in pure] == [("software", "2"), ("hardware", "3")]


def test_a_trace_is_in_microseconds_and_in_two_lanes() -> None:
    def step(number: int, on: str, ms: float) -> Any:
        return some(number=number, on=on, title="t", milliseconds=ms, cycles=9, bound_by="", layer="l", chains=(),
                    modes=(), bytes_moved=0)  # fmt: skip

    steps = (step(1, "npu", 0.25), step(2, "cpu", 1.5), step(3, "npu", 0.5))
    network = some(model="m", tool="t", steps=steps, buffers=(), pools=(), reproduce={})
    events = json.loads(exports.trace(network))["traceEvents"]
    slices = [(event["tid"], event["ts"], event["dur"]) for event in events if event["ph"] == "X"]
    assert slices == [(1, 0, 250), (2, 250, 1500), (1, 1750, 500)]


# --------------------------------------------------------------------------------------------------------------- memory


def test_shares_are_those_of_the_pool() -> None:
    memory = MemoryUse(
        (UsageRow("npuRAM3", Use.ACTIVATIONS, 100 * KIB, ram=True), UsageRow("x", Use.ACTIVATIONS, KIB, ram=True))
    )
    pool = some(name="npuRAM3", base=0x3420_0000, size_bytes=400 * KIB, absolute=True)
    layout = some(placed={}, ratio=1.0, lower_bound_bytes=KIB)
    board = some(name="b", pools=(pool,), application_from={})
    program = some(user_io=(), encrypted=None)
    compiled = some(layout=layout, program=program, written=program)
    view = some(board=board, memory=memory, compiled=compiled, options=Options())
    memory_lines = doc.lines(doc.Document(sections=[compile_text.memory_chapter(view)]))
    (line,) = [line for line in memory_lines if "npuRAM3" in line]
    assert line.endswith(" 25.0 %")


def test_weights_and_activations_of_a_pool_are_apart() -> None:
    kept = UsageRow("p", Use.ACTIVATIONS, 30, ram=True), UsageRow("p", Use.RESIDENT, 12, ram=True)
    rows = (*kept, UsageRow("q", Use.WEIGHTS, 7, ram=False))
    pool: Any = some(name="p")
    assert generate_report._used(pool, MemoryUse(rows)) == (12, 30)
    assert generate_report._used(some(name="q"), MemoryUse(rows)) == (7, 0)


@pytest.mark.parametrize(("size", "text"), [(3 * MIB // 2, "1.500 MB"), (1536, "1.500 kB"), (1023, "1023  B")])
def test_amounts_count_in_powers_of_two(size: int, text: str) -> None:
    assert generate_report._amount(size).strip() == text


def _tried(before: BuildFigures, after: BuildFigures, otherwise: str = "") -> TriedOption:
    return TriedOption(
        Action(lambda subject: (), otherwise=otherwise), Options(), before, after, "--smaller", "atonc x"
    )


NOW = BuildFigures(1000 * KIB, 300, cycles=2_000_000, latency_ms=2.0, flash_bytes=5000, error=1.0, cosine=0.99)


def test_options_say_what_they_bring() -> None:
    after = replace(NOW, ram_bytes=600 * KIB, spilled_bytes=100, cycles=1_500_000, latency_ms=1.5)
    said = explain_text._option_data(_tried(NOW, after))
    assert (said["saved_bytes"], said["unspilled_bytes"], said["cycles"]) == (400 * KIB, 200, -500_000)
    assert (said["latency_ms"], said["fits"], said["marks"]) == (1.5, True, [])
    coarse = replace(NOW, latency_ms=1.0, error=3.02, unseen=2, cosine=0.9706, flash_bytes=7048)
    assert _tried(NOW, coarse, "you give integers").brings == (
        "1.00 ms (-50 %), flash +2.0 KiB, cosine 0.9706 (now 0.9900); you give integers; 2 epochs not seen in ST "
        "programs; max error 3.02 LSB instead of 1"
    )


def test_a_bound_is_told_as_one() -> None:
    bound = replace(NOW, latency_ms=1.5, ram_bytes=1040 * KIB, at_most=True)
    assert _tried(NOW, bound).brings.startswith("at most 1.50 ms (-25 %), RAM +40.0 KiB")


def test_options_are_ranked_by_time_and_those_that_bring_nothing_are_left_out() -> None:
    faster, smaller = replace(NOW, latency_ms=1.9), replace(NOW, ram_bytes=500 * KIB, latency_ms=2.2)
    dear = replace(NOW, ram_bytes=990 * KIB, latency_ms=2.2)
    tried = [_tried(NOW, after) for after in (NOW, smaller, dear, replace(NOW, latency_ms=1.2), faster)]
    assert [one.after.latency_ms for one in ranked(tried)] == [1.2, 1.9, 2.2]


def test_what_then_fits_comes_before_what_is_not_enough() -> None:
    too_large = replace(NOW, fits=False, latency_ms=0.0)
    short, enough = replace(too_large, ram_bytes=10), replace(NOW, ram_bytes=900 * KIB)
    found = ranked([_tried(too_large, short), _tried(too_large, enough)])
    assert [one.brings.partition(",")[0] for one in found] == ["then it fits", "not enough alone"]


# ---------------------------------------------------------------------------------------------------------------- words


def test_prices_say_whether_it_is_less_or_more() -> None:
    def said(cycles: int, size: int) -> str:
        return explain_text._price(Decision(rules.SPILL, "s", "l", "r", RemedyPrice(cycles, size, True, "how")))

    assert said(1500, -20) == " Tried: 1,500 cycles less, 20 bytes of RAM more (how)."
    assert said(-1500, 20) == " Tried: 1,500 cycles more, 20 bytes of RAM less (how)."


def test_operators_of_one_reason_add_their_times_up() -> None:
    reason = CpuReason("n", "softmax", BY_NATURE["softmax"], "seen", "", "")
    chapter = compile_text.cpu_chapter([(reason, StepCost(0, "", 100, "cpu", ms, ms, "x")) for ms in (0.25, 0.5)])
    assert "2 operators, 0.750 ms" in chapter.title and "2 x softmax, 0.750 ms" in str(chapter.blocks[0])


def test_exact_means_every_output() -> None:
    def report(*percents: float) -> Any:
        each = {"name": "o", "cosine": 1.0, "max_lsb": 0, "within1_percent": 100.0, "max_error": 0, "span": 1,
                "blank": False}  # fmt: skip
        outputs = [some(exact_percent=p, **each) for p in percents]
        return some(outputs=outputs, samples=1, layers=1, tensors=1, worst_layer=0, as_vendor=0, sums="", checks=())

    every, one = (compile_text._verify_data(report(100.0, second)) for second in (100.0, 99.0))
    assert every is not None and one is not None and (every["exact"], one["exact"]) == (True, False)


def test_layers_without_a_partner_take_their_share() -> None:
    alone = (some(milliseconds=1.0),)
    found = some(a=some(layers=(*alone, some(milliseconds=3.0))), b=some(layers=()), paired=(3, 2), alone=(alone, ()))
    first, second = compare_text.pairing_lines(found)
    assert first == "3 of 4 layers of A that take time have a partner; those without take 25.0 % of its time"
    assert second == "2 of 2 layers of B that take time have a partner"


def test_a_difference_stands_beside_its_scale() -> None:
    assert difference_text(61.99, 7700.0) == "61.99 (0.8 % of the output's range 7,700)"
    assert difference_text(0.003906, 0.9414) == "0.003906 (0.4 % of the output's range 0.9414)"
    assert difference_text(1e-4, 2.0) == "0.0001 (0.0050 % of the output's range 2)"
    assert difference_text(0.25, 0.0) == "0.25 in real values", "of a constant output"
    assert difference_text(0.0, 2.0) == "0"


@pytest.mark.parametrize(
    ("decisions", "said"),
    [
        (Decisions(), []),
        (Decisions(compact=True), ["decided:", "  compact: yes"]),
    ],
)
def test_the_search_tells_what_it_decided(decisions: Decisions, said: list[str]) -> None:
    tried = [Attempt("the first way", Verdict.BEST, 1234, 99), Attempt("another", Verdict.UNTRUSTED, seen="conv: no")]
    told = [line.rstrip() for line in doc.lines(explain_text.search_document(tried, decisions))]
    assert told[:2] == ["2 programs were built:", "   1  the first way"]
    assert told[2].startswith("      1,234 cycles, 99 bytes at the peak: ") and told[4].endswith(" (conv: no)")
    assert told[6:] == said or (not said and re.fullmatch("decided: [a-z ]+", told[6]))
