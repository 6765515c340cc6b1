"""What `atonc validate` lets pass, and why.

1. Every operator as we read it gives what the reference kernels give on the same inputs, within one code.
2. Every layer of the program is within the error that the compiler declares, on the inputs that it really had.
3. Every output is close to the reference by itself, or not further from it than the reference's own sibling kernels
   are: networks may be chaotic, and then every other way to round gives other outputs.
"""

from __future__ import annotations

from collections.abc import Iterator

from atonc.app.validate_options import MIN_COSINE as MIN_COSINE
from atonc.app.validating import OutputResult, Validation

CLOSE_PERCENT = 99.0  # within one code; outputs that are nearly all zero have no direction to compare
MARGIN = 1.25  # times the root mean square distance of the sibling that is furthest from the reference

CLOSE, SPREAD, FAR = "close", "within the kernels' spread", "too far"


def judge(output: OutputResult, min_cosine: float = MIN_COSINE) -> str:
    metrics = output.metrics
    if metrics.within_1_percent >= CLOSE_PERCENT or metrics.cos >= min_cosine:
        return CLOSE
    return SPREAD if metrics.rmse <= MARGIN * widest(output) else FAR


def widest(output: OutputResult) -> float:
    """The distance from the reference of its furthest sibling."""
    return max((sibling.metrics.rmse for sibling in output.spread), default=0.0)


def complaints(found: Validation, min_cosine: float = MIN_COSINE) -> Iterator[str]:
    """A sentence for each reason to fail; none: it passes."""
    misread, bad = found.first_misread, found.first_bad
    if misread is not None:
        yield (
            f"{misread.node}: {misread.kind} as we read it gives {misread.tensor} {misread.max_diff:g} codes from "
            f"{found.reference}, on the same inputs"
        )
    if bad is not None:
        yield (
            f"{bad.node}: {bad.kind} gives {bad.tensor} {bad.max_diff:g} codes from exact arithmetic, "
            f"the compiler declares at most {bad.limit:g}"
        )
    for output in found.outputs:
        if judge(output, min_cosine) == FAR:
            yield (
                f"output {output.name} has cosine {output.metrics.cos:.4f}, below {min_cosine}, and is further from "
                f"{found.reference} (rmse {output.metrics.rmse:.4g}) than {MARGIN} times what other kernels are "
                f"({widest(output):.4g})"
            )
