"""A model compiled and validated on the emulator: what `atonc validate` and `atonc.validate` do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.inputs.inputs import Sample, read_labels, read_outputs, read_samples
from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from atonc.insight.validating import validating
from atonc.insight.validating.references import References
from atonc.insight.validating.validate_options import SAMPLES, ValidateOptions
from atonc.insight.validating.validating import Validation


def validate_model(model: Path, asked: ValidateOptions, compiler: Options) -> Validation:
    begins_later = bool(compiler.cut_inputs or compiler.cut_input_layers)
    with References(model, exact_only=begins_later or asked.no_exec_model) as references:
        compiled = compile_file(model, compiler)
        samples = chosen_samples(compiled.source, asked, compiler.seed, SAMPLES)
        what = validating.Wanted(
            read_labels(asked.valinput),
            read_outputs(compiled.graph, asked.valoutput),
            not asked.io_only,
            asked.classifier,
            asked.min_cos,
            _more(compiled.source, asked, compiler.seed),
        )
        return validating.validate(None if asked.no_exec_model else references, compiled, samples, what)


def chosen_samples(source: Graph, asked: ValidateOptions, seed: int, count: int) -> list[Sample]:
    """Those that the user gave, or made ones; in the formats of the model."""
    if asked.valinput:
        return read_samples(source, asked.valinput, asked.batches)
    count = asked.batches or count
    if asked.range:
        return validating.random_samples(source, count, seed, asked.range)
    return validating.synthetic_samples(source, count, seed)


def _more(source: Graph, asked: ValidateOptions, seed: int) -> Callable[[int, int], Sequence[Sample]] | None:
    """Further samples where the verdict is open; none where the user says which or how many."""
    if asked.valinput or asked.valoutput or asked.batches:
        return None
    return lambda first, count: chosen_samples(source, replace(asked, batches=count), seed + first, count)
