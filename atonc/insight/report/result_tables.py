"""What validations, evaluations, quantisations, sweeps and comparisons found, as plain tables and in one line: Python
makes data frames of them. The figures are those of `--json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from atonc.machine.base.errors import plain
from atonc.machine.base.words import count, elided

if TYPE_CHECKING:
    from atonc.insight.evaluating.run import Evaluation
    from atonc.insight.explain.compare import Comparison
    from atonc.insight.quantizing.types import Quantised
    from atonc.insight.sweeping.run import Sweep
    from atonc.insight.validating.validating import Validation

Rows = list[dict[str, Any]]
Tables = dict[str, Rows]  # the first is the one that people mean
_NAME = 48


def _name(text: str) -> str:
    return elided(plain(text), _NAME)


def _columns(rows: Iterable[Mapping[str, Any]], without: tuple[str, ...] = ()) -> Rows:
    return [{key: value for key, value in row.items() if key not in without} for row in rows]


# --------------------------------------------------------------------------------------------------------- validation


def validation_tables(found: Validation, min_cosine: float) -> Tables:
    from dataclasses import asdict

    from atonc.insight.report.validate_text import as_json

    return {
        "outputs": _columns(as_json(found, min_cosine)["outputs"], without=("ratio", "spread", "judged")),
        "layers": [asdict(layer) | {"bad": layer.bad} for layer in found.layers],
        "operators": [asdict(check) | {"bad": check.bad} for check in found.reading],
    }


def validation_line(found: Validation, min_cosine: float) -> str:
    from atonc.insight.validating.judging import complaints

    failed = len(list(complaints(found, min_cosine)))
    verdict = f"failed, {count(failed, 'complaint')}" if failed else "passed"
    worst = min((output.metrics.cos for output in found.outputs), default=None)
    cosine = "" if worst is None else f", cosine {worst:.6f} in the worst output"
    return f"{verdict}: {count(found.samples, 'sample')} emulated, against {_name(found.reference)}{cosine}"


# --------------------------------------------------------------------------------------------------------- evaluation


def evaluation_tables(found: Evaluation) -> Tables:
    document = found.as_dict()
    by = {**document["figures"], **document["distances"], f"NPU-{found.yardstick}": document["differences"]}
    return {
        "figures": [{"by": side, **figure} for side, figures in by.items() for figure in figures],
        "changed": document["changed"],
    }


def evaluation_line(found: Evaluation) -> str:
    firsts = [f"{side} {figures[0].value:.4f}" for side, figures in found.sides.items() if figures]
    changed = f"; {count(len(found.changed), 'sample')} changed" if found.yardstick else ""
    return f"{_name(found.model)}, {count(found.samples, 'sample')}, {found.metric}: {', '.join(firsts)}{changed}"


# ------------------------------------------------------------------------------------------------------- quantisation


def quantised_tables(found: Quantised) -> Tables:
    from atonc.insight.report.quantize_text import as_json

    document = as_json(found)
    outputs = [{"name": name, "snr_db": snr} for name, snr in document["outputs"].items()]
    found_tables = {"front": document["front"], "steps": document["steps"], "outputs": outputs}
    found_tables |= {name: document[name] for name in ("sizes", "tensors")} if found.sizes else {}
    return found_tables | ({"widths": document["widths"]} if found.widths else {})


def quantised_line(found: Quantised) -> str:
    from atonc.insight.report.quantize_text import time_text

    chosen = found.chosen
    worst = min(found.outputs_db.values(), default=chosen.snr_db)
    predicted = "refused by the compiler" if chosen.milliseconds is None else f"{time_text(chosen)} predicted"
    return f"{_name(found.source)} as int8: {worst:.1f} dB in the worst output, {predicted}"


# -------------------------------------------------------------------------------------------------------------- sweep


def sweep_tables(found: Sweep) -> Tables:
    rows = []
    for result in found.results:
        varied = {key: result.options.get(key) for key in found.varied}
        figures = {key: value for key, value in (result.figures or {}).items() if key != "notes"}
        names = {"model": result.model, "board": result.board, "size": result.size}
        rows.append({**names, **varied, **figures, "on_front": result.on_front, "why_not": result.why_not})
    return {"rows": rows}


def sweep_line(found: Sweep) -> str:
    from atonc.insight.sweeping.front import BUSY, time_of

    compiled = [result.figures for result in found.results if result.figures is not None]
    best = ""
    if compiled:
        name = time_of(compiled[0])
        keys = f"{name}_ms", f"{name}_low_ms", f"{name}_high_ms"
        time, low, high = min(tuple(one[key] for key in keys) for one in compiled)
        of = " of a second" if name == BUSY else ""
        best = f"; the fastest {time:.3f} ms{of} predicted ({low:.3f} to {high:.3f})"
    rows = count(len(found.results), "row")
    return f"{_name(found.file)}: {rows}, {len(compiled)} compiled, {len(found.refused)} refused{best}"


# --------------------------------------------------------------------------------------------------------- comparison


def comparison_tables(found: Comparison) -> Tables:
    from atonc.insight.report.compare_text import as_json

    document = as_json(found)
    layers = [{**row, **{key: ", ".join(row[key]) for key in ("nodes", "a", "b")}} for row in document["layers"]]
    options = document["options"] or []
    return {"figures": document["figures"], "layers": layers, "outputs": document["outputs"], "options": options}


def comparison_line(found: Comparison) -> str:
    from atonc.insight.explain.band import span_of

    sides = [f"{side} {view.latency_ms:.3f} ms {view.basis}{span_of(view, 3)}"
             for side, view in (("A", found.a), ("B", found.b))]  # fmt: skip
    names = " and ".join(dict.fromkeys((_name(found.a.model), _name(found.b.model))))
    return f"two builds of {names}: {', '.join(sides)}"
