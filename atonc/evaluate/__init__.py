"""`atonc evaluate`: accuracy on whole data sets, in the chip's own arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from atonc.evaluate.run import Evaluation

__all__ = ["evaluate"]


def evaluate(
    model: str | PathLike[str],
    data: str | PathLike[str],
    *,
    output: str | PathLike[str] = "evaluation",
    compiler: Mapping[str, Any] | None = None,
    **options: Any,
) -> Evaluation:
    """Accuracy on a data set, in the chip's arithmetic, with intervals; beside it the model's own kernels.

    The options are those of `atonc.evaluate.options.EvaluateOptions`; `compiler`: those of `atonc.compile`. What is
    done is kept in `output`, so an interrupted call goes on where it was.
    """
    from pathlib import Path

    from atonc.declare import arguments
    from atonc.evaluate.options import EvaluateOptions
    from atonc.evaluate.run import evaluate as run_evaluation
    from atonc.options import Options
    from atonc.report.progress_bar import in_notebook

    wanted = arguments(EvaluateOptions, {"data": data, **options})
    asked = arguments(Options, {"verify": False, **(compiler or {})})
    with in_notebook():
        return run_evaluation(Path(model), wanted, asked, Path(output))
