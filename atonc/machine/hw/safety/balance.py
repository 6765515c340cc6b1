"""Balance: every consumer gets exactly what it waits for. An epoch that breaks this starves and never ends."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.machine.base.reasons import Evidence, Severity
from atonc.machine.hw.cycles.flow import FEATURES, KERNELS, SUMS
from atonc.machine.hw.safety.view import EpochView, SafetyFinding, proven, rule


@rule(
    "B01",
    "each writer takes exactly as many elements as its chain produces",
    proven(15491, "writers"),
    remedy="make frames times frame size of the writer equal to what arrives; a writer that waits for more never ends",
)
def writers_balanced(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.writers.items():
        words = view.arriving(unit, 0)
        if words is not None and words.total != config.elements:
            yield SafetyFinding(unit, f"takes {config.elements} elements", f"{words.total} arrive")


@rule(
    "B02",
    "the features of a CONVACC are a whole number of its frames",
    proven(6054, "units"),
    remedy="let the reading engine deliver whole feature frames (width x height x batch)",
)
def whole_feature_frames(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.convaccs.items():
        yield from _whole_frames(view, unit, config.feature_words)


@rule(
    "B03",
    "the input of a POOL is a whole number of its frames",
    proven(482, "units"),
    remedy="let the source deliver whole frames (FEATX x FEATY)",
)
def whole_pool_frames(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.poolings.items():
        yield from _whole_frames(view, unit, config.frame_elements)


def _whole_frames(view: EpochView, unit: str, frame: int) -> Iterator[SafetyFinding]:
    """Before a gate as behind it: the gate drops whole frames."""
    words, link = view.arriving(unit, 0), view.source(unit, 0)
    if words is None or link is None or link.source not in view.units:
        return
    for total in {words.total, view.flow[link.source].output.total}:
        if frame < 1 or total < 1 or total % frame:
            yield SafetyFinding(unit, f"{total} elements arrive", f"a multiple of {frame}")
            return


@rule(
    "B04",
    "the kernel stream carries one set of kernels for each output frame",
    proven(6054, "units"),
    remedy="set frames and size of the kernel reader to the number of output frames times the set",
)
def one_kernel_set_per_frame(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.convaccs.items():
        features, kernels = view.arriving(unit, FEATURES), view.arriving(unit, KERNELS)
        if features is None or kernels is None or config.feature_words < 1:
            continue
        frames = config.frames_out(features.total // config.feature_words)
        have, need = kernels.total * kernels.word_bytes, frames * config.set_bytes
        if have != need:
            yield SafetyFinding(
                unit, f"{have} bytes of kernels arrive", f"{frames} frames x {config.set_bytes} bytes = {need}"
            )


@rule(
    "B05",
    "both inputs of an ARITH carry equally many elements",
    Evidence(5807, 5835, "units", "in the other 28 an engine repeats a frame for Y more often than X needs"),
    remedy="make the two streams equally long",
)
def equal_arith_inputs(view: EpochView) -> Iterator[SafetyFinding]:
    for unit in view.ariths:
        x, y = view.arriving(unit, 0), view.arriving(unit, 1)
        if x is None or y is None or x.total == y.total:
            continue
        severity = Severity.NOTE if overshoots(view, unit) else None
        yield SafetyFinding(unit, f"X has {x.total} elements, Y {y.total}", "equally many", severity)


def overshoots(view: EpochView, unit: str) -> bool:
    """The documented exception: an engine repeats a frame for port Y, and its first turn is all that X needs."""
    first, second = view.source(unit, 0), view.source(unit, 1)
    if first is None or second is None or first.source not in view.readers or second.source not in view.readers:
        return False
    engine, needed = view.readers[second.source], view.readers[first.source].elements
    repeated = engine.frame_repeat > 0 and engine.frame_offset == 0 and engine.frames % engine.frame_repeat == 0
    return repeated and engine.frame_repeat * engine.frame_elements == needed


@rule(
    "B06",
    "an accumulator input carries as many elements as the unit puts out",
    proven(7543, "units"),
    remedy="give both units of the chain, or reader and writer, the same frames",
)
def accumulator_balanced(view: EpochView) -> Iterator[SafetyFinding]:
    for unit in view.convaccs:
        sums = view.arriving(unit, SUMS)
        own = view.flow[unit].output.total
        if sums is not None and sums.total != own:
            yield SafetyFinding(unit, f"{sums.total} elements arrive at port 2", str(own))


@rule(
    "B07",
    "every engine moves at least one frame of at least one element",
    proven(46259, "engines"),
    remedy="set the frame count and the frame size",
)
def no_empty_engine(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.engines.items():
        if config.elements < 1:
            yield SafetyFinding(unit, f"{config.frames} frames of {config.frame_elements} elements", "at least 1 of 1")
