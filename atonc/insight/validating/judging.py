"""What `atonc validate` lets pass, and why.

1. Every operator as we read it gives what the reference kernels give on the same inputs, within one code.
2. Every layer of the program is within the error that the compiler declares, on the inputs that it really had.
3. Every output is close to exact arithmetic by itself, or not further from it than the same network rounded in another
   correct way is: networks may be chaotic, and then every other way to round gives other outputs. Both are ours
   (`OwnKernels`), so nobody needs other packages to pass, or to fail by far. What lies between may still be within the
   spread of the model's own kernels: they decide where they are installed, and where they are not nobody can judge.
   Where there are some, the model as we read it is held against them in the same way: what fails there is misread.

In a chaotic network few samples bring most of the distance, of the program as of the siblings, and not the same ones:
the ratio of both swings by a factor of ten between two samples and forty. So the third verdict is open as long as the
margin lies within two standard errors of the ratio, and more samples are taken; the margin itself stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, isfinite, sqrt
from typing import TYPE_CHECKING

import numpy as np

from atonc.compiler.compare.layers import code_size, scale_behind, steps_behind
from atonc.compiler.compare.metrics import Metrics, measure
from atonc.compiler.ir import Array, Graph
from atonc.insight.validating.validate_options import MIN_COSINE as MIN_COSINE
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import CheckResult
from atonc.machine.base.words import count

if TYPE_CHECKING:
    from atonc.insight.validating.validating import Validation


@dataclass(frozen=True)
class Distance:
    """How far one side's values of an output lie from the yardstick's, over all samples."""

    title: str
    metrics: Metrics
    max_lsb: float
    squares: tuple[float, ...] = ()  # mean square distance of each sample


@dataclass(frozen=True)
class OutputResult:
    """One output over all samples: the program's distance, and those of the yardstick's siblings."""

    name: str
    metrics: Metrics
    max_lsb: float
    spread: tuple[Distance, ...] = ()
    squares: tuple[float, ...] = ()
    against: str = ""  # the yardstick
    skipped: int = 0  # values that the yardstick has as no number: NaN or infinite
    blank: bool = False  # all of them
    judged: OutputResult | None = None  # the program against what every installation has; None: this is it
    read: OutputResult | None = None  # exact arithmetic of the model as we read it, against kernels of others
    steps: int = 0  # of its largest value are counted, where it is computed in float and no codes tell its LSB
    lacks: str = ""  # the package whose kernels would decide where ours do not


def output_result(graph: Graph, name: str, values: Array, kernels: Mapping[str, Array]) -> OutputResult:
    """How far values of an output lie from the first of these kernels, and how far the others do; samples along the
    first axis. Where the yardstick has no number there is nothing to compare with."""
    yardstick, *others = kernels
    finite = np.isfinite(kernels[yardstick])
    compared = {title: np.where(finite, one, 0) for title, one in {**kernels, "program": values}.items()}
    expected = compared[yardstick]
    unit = unit_of(graph, name, expected)
    mine = distance("program", expected, compared["program"], unit)
    spread = tuple(distance(title, expected, compared[title], unit) for title in others)
    skipped = int(finite.size - finite.sum())
    blank = skipped == finite.size > 0
    computed = graph.tensors[name].is_float and scale_behind(graph, name) is None
    steps = steps_behind(graph, name) if computed else 0
    return OutputResult(name, mine.metrics, mine.max_lsb, spread, mine.squares, yardstick, skipped, blank, steps=steps)


def unit_of(graph: Graph, name: str, expected: Array) -> float:
    tensor = graph.tensors[name]
    return tensor.scale if tensor.quant is not None else code_size(graph, tensor, expected, steps_behind(graph, name))


def distance(title: str, expected: Array, values: Array, unit: float) -> Distance:
    """Both hold samples along the first axis."""
    apart = values.astype(np.float64) - expected
    worst = float(np.abs(apart).max(initial=0.0)) / unit
    squares = np.square(apart).reshape(len(apart), -1).mean(axis=1) if apart.size else np.zeros(len(apart))
    return Distance(title, measure(expected, values, unit), worst, tuple(squares.tolist()))


CLOSE_PERCENT = 99.0  # within one code; outputs that are nearly all zero have no direction to compare
HOPELESS = 8.0  # times: kernels of one model are never so much further apart than our two ways to round it
MARGIN = 1.25  # times the root mean square distance of the sibling that is furthest from the reference
ERRORS = 2.0  # standard errors: 19 of 20 intervals of this width hold the ratio of many samples

CLOSE, SPREAD, FAR, UNJUDGED = "close", "within the kernels' spread", "too far", "cannot judge"


@dataclass(frozen=True)
class Ratio:
    """The program's root mean square distance over the furthest sibling's, and between which ends many samples may put
    it."""

    value: float
    low: float
    high: float

    @property
    def open(self) -> bool:
        return self.low <= MARGIN <= self.high

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def is_close(cosine: float, within_1_percent: float, min_cosine: float = MIN_COSINE) -> bool:
    """By itself, whatever other kernels give: the one threshold of `validate`, and of the summary of `generate`."""
    return within_1_percent >= CLOSE_PERCENT or cosine >= min_cosine


def judge(output: OutputResult, min_cosine: float = MIN_COSINE) -> str:
    by = decisive(output, min_cosine)
    verdict = _verdict(by, min_cosine)
    return UNJUDGED if by.blank or (verdict == FAR and output.lacks and not _hopeless(by)) else verdict


def nothing_compared(output: str) -> str:
    return f"{UNJUDGED}: every value of output {output} is not a number or infinite"


def decisive(output: OutputResult, min_cosine: float = MIN_COSINE) -> OutputResult:
    """On which the verdict rests: the reading of the model where that is wrong, else the program against what every
    installation has; where it is not much too far from that, the program against the model's own kernels."""
    if output.read is not None and _verdict(output.read, min_cosine) == FAR:
        return output.read
    own = output.judged or output
    return own if _verdict(own, min_cosine) != FAR or _hopeless(own) else output


def _hopeless(output: OutputResult) -> bool:
    return not output.metrics.rmse <= HOPELESS * widest(output)


def _verdict(output: OutputResult, min_cosine: float) -> str:
    metrics = output.metrics
    if is_close(metrics.cos, metrics.within_1_percent, min_cosine):
        return CLOSE
    return SPREAD if metrics.rmse <= MARGIN * widest(output) else FAR


def is_open(output: OutputResult, min_cosine: float = MIN_COSINE) -> bool:
    """Whether more samples may change the verdict: siblings that never part may do so on other inputs."""
    output = decisive(output, min_cosine)
    if _verdict(output, min_cosine) == CLOSE or not output.spread or not isfinite(output.metrics.rmse):
        return False
    found = ratio(output)
    return found is None or found.open


def ratio(output: OutputResult) -> Ratio | None:
    """None: no sibling is away from the reference. Both distances are of the same samples, so their common part does
    not widen the interval."""
    output = decisive(output)
    sibling = furthest(output)
    if sibling is None or not sibling.metrics.rmse:
        return None
    mine, theirs = np.array(output.squares), np.array(sibling.squares)
    value = output.metrics.rmse / sibling.metrics.rmse
    if mine.size < 2 or mine.size != theirs.size:
        return Ratio(value, 0.0, inf)
    rest = mine - value**2 * theirs
    error = sqrt(float(np.square(rest).sum()) / (mine.size * (mine.size - 1))) / float(theirs.mean())
    return Ratio(value, sqrt(max(0.0, value**2 - ERRORS * error)), sqrt(value**2 + ERRORS * error))


def furthest(output: OutputResult) -> Distance | None:
    return max(output.spread, key=lambda sibling: sibling.metrics.rmse, default=None)


def widest(output: OutputResult) -> float:
    """The distance from the reference of its furthest sibling."""
    sibling = furthest(output)
    return sibling.metrics.rmse if sibling is not None else 0.0


def install(output: OutputResult) -> str:
    return f"pip install {output.lacks.replace('_', '-')}"


def complaints(found: Validation, min_cosine: float = MIN_COSINE) -> Iterator[str]:
    """A sentence for each reason to fail."""
    return (check.says for check in checks(found, min_cosine) if check.broken)


def unjudged(found: Validation, min_cosine: float = MIN_COSINE) -> Iterator[str]:
    """A sentence for each output that cannot be judged here; none, and no complaints: it passes."""
    return (check.says for check in checks(found, min_cosine) if check.unjudged)


def checks(found: Validation, min_cosine: float = MIN_COSINE) -> Iterator[CheckResult]:
    """Operators as read, layers of the program, every output."""
    misread, bad = found.first_misread, found.first_bad
    if found.reading:
        said = f"{count(len(found.reading), 'operator')} as the reference computes them"
        if misread is not None:
            said = (
                f"{misread.node}: {misread.kind} as we read it gives {misread.tensor} "
                f"{misread.max_diff:g} LSB from {found.reference}, on the same inputs"
            )
        yield CheckResult("operators", misread is None, said)
    if found.layers:
        said = f"{count(len(found.layers), 'tensor')} as near to exact arithmetic as the compiler declares"
        if bad is not None:
            said = (
                f"{bad.node}: {bad.kind} gives {bad.tensor} {bad.max_diff:g} LSB from exact arithmetic, the compiler "
                f"declares at most {bad.limit:g}"
            )
        yield CheckResult("layers", bad is None, said)
    if (one := found.sequence) is not None:
        held = "within their limits" if one.real else "equal, byte for byte"
        said = f"{count(one.frames, 'frame')} with states kept: {count(one.tensors, 'tensor')} {held}"
        if one.different:
            said = f"the program leaves the chain of its own layers in {one.first} ({one.different:,} bytes in all)"
        yield CheckResult("sequence", not one.different, said)
    for output in found.outputs:
        verdict = judge(output, min_cosine)
        said = f"{verdict}, cosine {output.metrics.cos:.6f}"
        if verdict == FAR:
            said = _too_far(output, found, min_cosine)
        elif decisive(output, min_cosine).blank:
            said = nothing_compared(output.name)
        elif verdict == UNJUDGED:
            said = (
                f"cannot judge output {output.name}: cosine {output.metrics.cos:.4f} is below {min_cosine}; only the "
                f"model's own kernels tell whether that is their spread, and {output.lacks} is not installed: "
                f"{install(output)}"
            )
        yield CheckResult(f"output {output.name}", verdict in (CLOSE, SPREAD), said, verdict == UNJUDGED)


def _too_far(output: OutputResult, found: Validation, min_cosine: float) -> str:
    by = decisive(output, min_cosine)
    what = f"output {output.name} of the model as we read it" if by is output.read else f"output {output.name}"
    said = (
        f"{what} has cosine {by.metrics.cos:.4f}, below {min_cosine}, and is further from "
        f"{by.against or found.reference} (rmse {by.metrics.rmse:.4g}) than {MARGIN} times what the same network "
        f"rounded in another way is ({widest(by):.4g})"
    )
    if not is_open(output, min_cosine):
        return said
    times = ratio(output)
    seen = f"the ratio is {times}" if times is not None else "the other kernels never part"
    return f"{said}; on {count(found.samples, 'sample')} {seen}, so more of them may tell otherwise (-b)"
