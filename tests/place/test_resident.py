"""Weights in RAM: chosen by cycles, beside everything else, and the same results."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.place import check as place_check
from atonc.compiler.place.resident import free_spans
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.request.options import Options, room
from atonc.compiler.search.generators.resident import outlook
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.boards.checking import Kind, Span, find_overlaps
from atonc.insight.explain.actions import quick
from atonc.machine.base.errors import InputError
from atonc.machine.hw.board import find_board
from tests.compiler.random_graphs import random_graph, random_inputs
from tests.emit.generated import default_board, digits

PLAIN = Options(verify=False)


def cycles(compiled: Compiled) -> int:
    return compiled.cost.cycles


def resident(compiled: Compiled) -> list[str]:
    return [name for name, home in compiled.layout.placed.items() if home.copy_of]


@pytest.mark.parametrize("seed", [3, 11, 29])
def test_the_same_results_and_never_slower(seed: int) -> None:
    graph = random_graph(seed)
    before, after = compile_graph(graph, PLAIN), compile_graph(graph, replace(PLAIN, resident="all"))
    assert after.layout.peak_bytes == before.layout.peak_bytes
    assert cycles(after) <= cycles(before)
    values = random_inputs(before.graph, seed)
    results = [Emulation(one.program, one.graph).run(values) for one in (before, after)]
    assert all(np.array_equal(results[0][name], results[1][name]) for name in graph.outputs)


def test_engines_read_the_copies_and_flash_keeps_the_bytes() -> None:
    found = digits(resident="all").compiled
    assert resident(found) and found.layout.memory.resident_bytes <= sum(p.size_bytes for p in default_board().on_chip)
    for name in resident(found):
        home = found.layout.placed[name]
        source = found.layout.placed[home.copy_of]
        assert home.buffer.kind == BufferKind.RESIDENT and source.buffer.kind == BufferKind.CONSTANT
        assert home.buffer.data == source.buffer.data
        assert any(name in plan.reads() for plan in found.scheduled.plans)
        assert not any(home.copy_of in plan.reads() for plan in found.scheduled.plans)


def test_more_room_is_never_slower() -> None:
    times = []
    for size in ("", "0", "512", "4k", "all"):
        found = digits(resident=size).compiled
        assert not size or found.layout.memory.resident_bytes <= room(size)
        times.append(cycles(found))
    assert all(later <= earlier for earlier, later in pairwise(times)) and times[-1] < 0.8 * times[0]


def test_free_spans_touch_no_line_of_a_buffer() -> None:
    layout, board = digits().compiled.layout, default_board()
    spans = free_spans(layout.placed, board)
    on_chip = sum(pool.size_bytes for pool in board.on_chip)
    assert on_chip - layout.peak_bytes - 4096 < sum(end - start for start, end in spans) < on_chip
    for start, end in spans:
        assert start % 32 == 0 and end % 32 == 0 and all(p.writable for p, _ in board.pools_at(start, end))
        assert not any(home.address < end and home.end > start for home in layout.placed.values())


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda home, other: replace(home, address=other.address), "do not overlap"),
        (lambda home, other: replace(home, buffer=replace(home.buffer, data=b"x")), "bytes of its constant"),
    ],
)
def test_the_check_finds_a_copy_that_is_wrong(change, rule) -> None:  # type: ignore[no-untyped-def]
    found = digits(resident="all").compiled
    placed = dict(found.layout.placed)
    activation = next(h for h in placed.values() if h.buffer.kind == BufferKind.ACTIVATION)
    name = resident(found)[0]
    placed[name] = change(placed[name], activation)
    edges = found.graph.inputs, found.graph.outputs
    findings = place_check.check(placed, found.scheduled.plans, default_board(), found.mapped.context.aliases, *edges)
    assert any(rule in finding.rule for finding in findings)


def test_two_networks_may_not_share_resident_weights() -> None:
    """Activations of networks that take turns may share memory; weights that stay may not."""
    first = Span("resident weights of a", Kind.RESIDENT, 0x34200000, 0x34201000, "a")
    for kind in (Kind.ACTIVATIONS, Kind.RESIDENT):
        other = Span("something of b", kind, 0x34200800, 0x34201000, "b")
        assert any(not finding.note for finding in find_overlaps([first, other], find_board("stm32n6570-dk")))


def test_the_outlook_keeps_to_its_room() -> None:
    """More room never takes fewer bytes nor saves fewer cycles, and no more is taken than there is."""
    found = digits().compiled
    spans, whole = free_spans(found.layout.placed, found.memory), found.layout.memory.weights_bytes
    rooms = range(0, 2 * whole, whole // 8)
    told = [outlook(found.program, spans, room, found.target) for room in rooms]
    assert all(0 <= taken <= room for (_, taken), room in zip(told, rooms, strict=True))
    assert told == sorted(told) and told[0] == (0, 0) and told[-1][1] > whole // 2


def test_words_that_are_no_size() -> None:
    assert (str(room("all")), str(room("1.5k")), str(room(""))) == ("all", "1536", "")
    with pytest.raises(InputError, match="not a size"):
        room("model.tflite")


def test_the_application_keeps_what_it_asks_for() -> None:
    everything = digits(resident="all").compiled
    free = sum(end - start for start, end in free_spans(everything.layout.placed, everything.memory))
    kept = everything.layout.memory.resident_bytes
    found = digits(resident="all", keep_free=free + kept // 2).compiled
    assert 0 < found.layout.memory.resident_bytes <= kept - kept // 2
    left = sum(end - start for start, end in free_spans(found.layout.placed, found.memory))
    assert left >= free + kept // 2


def test_the_outlook_is_no_promise_that_the_search_breaks() -> None:
    """What the summary says of `--resident` is what it brings, or less."""
    plain, kept = digits(), digits(resident="all")
    assert plain.resident_outlook is not None and kept.resident_outlook is None
    said, taken, every = plain.resident_outlook
    assert every
    assert kept.cost.latency_ms <= said < plain.cost.latency_ms and taken <= kept.memory.resident_bytes
    advice = next(iter(quick(plain)), None)
    assert advice is not None and advice.command.endswith("--resident all") and advice.after.latency_ms == said
    assert not quick(kept)
