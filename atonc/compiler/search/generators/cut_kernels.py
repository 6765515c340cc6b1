"""Kernels of which only a part has room in RAM, or is brought there in time, are read in several epochs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from atonc.compiler.place.resident import free_spans, on_chip_spans
from atonc.compiler.plan.policy import FETCH_BYTES, RESIDENT_CUT_CYCLES, WORTH_PER_BYTE
from atonc.compiler.search.candidate import Candidate
from atonc.compiler.search.generators.prefetch import Planner
from atonc.compiler.search.generators.resident import Prices, budget
from atonc.compiler.search.log import Proposal
from atonc.compiler.search.weights import Weights, in_flash
from atonc.machine.hw.limits import CPU_CACHE_LINE

Cuts = dict[str, tuple[int, ...]]


def propose(candidate: Candidate) -> Iterator[Proposal]:
    setting, known = candidate.setting, candidate.decisions.cuts
    found: list[tuple[Cuts, str]] = []
    if candidate.decisions.resident_bytes:
        found.append((for_free_ram(candidate), "a part of large kernels has room in RAM"))
    if setting.by_engines:
        found.append((for_idle_flash(candidate), "the flash is idle long enough for a part of large kernels"))
    for cuts, reason in found:
        if cuts:
            both = {name: (*known.get(name, ()), *cuts.get(name, ())) for name in (*known, *cuts)}
            yield Proposal(candidate.decisions.but(cuts=both), f"{reason}: {len(cuts)} are cut", candidate)


def for_free_ram(candidate: Candidate) -> Cuts:
    """Kernels too large for the RAM that is left, and how many bytes of them would fit."""
    placed, setting, found = candidate.made.layout.placed, candidate.setting, Cuts()
    spans = sorted(free_spans(placed, setting.memory), key=lambda span: span[0] - span[1])
    rates = _rates(candidate, spans[0][0] if spans else 0)
    left = budget(candidate, spans)
    for start, end in spans:
        size = min(end - start, left) // CPU_CACHE_LINE * CPU_CACHE_LINE
        name = next((w.name for w in rates if w.size_bytes > size and w.name not in found), None)
        rate = next((rate for w, rate in rates.items() if w.name == name), 0.0)
        if name is None or rate * size < RESIDENT_CUT_CYCLES:
            break
        found[name] = (size,)
        left -= size
    return found


def for_idle_flash(candidate: Candidate) -> Cuts:
    """Kernels that are not copied ahead as a whole, and where the part begins that could be."""
    made, target, found = candidate.made, candidate.setting.target, Cuts()
    planner = Planner(made.program, on_chip_spans(candidate.setting.memory), target)
    for weights, rate in _rates(candidate, target.machine.npu_ram[0].base).items():
        idle = planner.take_idle(weights) if rate > WORTH_PER_BYTE else 0
        if idle * rate > RESIDENT_CUT_CYCLES:
            first, count = weights.exact_bytes - idle, -(-idle // FETCH_BYTES[1])
            found[weights.name] = tuple(first + idle * k // count for k in range(count) if first + idle * k // count)
    return {name: cuts for name, cuts in found.items() if cuts}


def _rates(candidate: Candidate, address: int) -> Mapping[Weights, float]:
    """Cycles that a byte in RAM saves, of kernels that one step reads from flash; the most first."""
    program, target = candidate.made.program, candidate.setting.target
    prices = Prices(program, target)
    read_once = [weights for weights in in_flash(program, target) if len(weights.readers) == 1]
    rates = {weights: prices.saved(weights, address) / weights.size_bytes for weights in read_once}
    return dict(sorted(rates.items(), key=lambda item: (-item[1], item[0].address)))
