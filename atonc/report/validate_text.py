"""What `atonc validate` shows: ST's metrics per output, percentages in codes, the first bad layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from atonc.validating import LayerCheck, Validation

_COLUMNS = ("acc", "rmse", "mae", "l2r", "mean", "std", "nse", "cos")


def print_validation(found: Validation, verbose: bool) -> None:
    for line in lines(found, verbose):
        print(line)


def lines(found: Validation, verbose: bool) -> list[str]:
    text = [f"validation on the emulator: {found.samples} samples against {found.reference}"]
    text += [f"note: {found.note}"] if found.note else []
    width = max([6, *(len(o.name) for o in found.outputs)])
    text.append(f"{'output':{width}} " + " ".join(f"{c:>9}" for c in _COLUMNS) + "   exact %  within 1 %  max codes")
    for output in found.outputs:
        m = asdict(output.metrics)
        values = [f"{m['acc']:9.2%}", *(f"{m[c]:9.5f}" for c in _COLUMNS[1:])]
        text.append(
            f"{output.name:{width}} {' '.join(values)} {m['exact_percent']:9.3f} {m['within_1_percent']:11.3f} "
            f"{output.max_lsb:10.2f}"
        )
    if found.accuracy is not None:
        a = found.accuracy
        text += ["", f"accuracy by label, {a.samples} samples: {a.program / a.samples:.2%} on the emulator, "
                 f"{a.reference / a.samples:.2%} with {found.reference}"]  # fmt: skip
    return text + (_layers(found, verbose) if found.layers else [])


def _layers(found: Validation, verbose: bool) -> list[str]:
    layers = found.layers
    worst = max(layer.max_diff for layer in layers)
    exact = sum(layer.max_diff == 0 for layer in layers)
    text = [
        "",
        f"layers: {len(layers)} compared with exact arithmetic on the inputs they really had: {exact} exact, "
        f"largest difference {worst:g}",
    ]
    bad = [layer for layer in layers if layer.bad]
    if found.first_bad is not None:
        text.append(f"first bad layer: {found.first_bad.tensor} ({found.first_bad.kind}, {found.first_bad.node})")
    else:
        text.append("no layer is further than 1 (function tables 2) from exact arithmetic")
    return text + _rows(layers if verbose else bad)


def _rows(layers: Sequence[LayerCheck]) -> list[str]:
    return [
        f"  epoch {layer.step:4d} {'cpu' if layer.on_cpu else 'npu'} {layer.kind:14} max {layer.max_diff:<6g} differ "
        f"{layer.differ_percent:6.2f} %  {layer.tensor}"
        for layer in layers
    ]


def as_json(found: Validation) -> dict[str, Any]:
    document: dict[str, Any] = {
        "samples": found.samples,
        "mode": "emulator",
        "reference": found.reference,
        "note": found.note,
        "outputs": [_output(o.name, o.max_lsb, asdict(o.metrics)) for o in found.outputs],
    }
    if found.accuracy is not None:
        document["accuracy"] = asdict(found.accuracy)
    if found.layers:
        bad = found.first_bad
        document["layers"] = [asdict(layer) for layer in found.layers]
        document["first_bad_layer"] = bad.tensor if bad is not None else None
    return document


def _output(name: str, max_lsb: float, metrics: dict[str, float]) -> dict[str, Any]:
    renamed = {"exact_percent": "exact_pct", "within_1_percent": "within1_pct"}
    figures = {renamed.get(key, key): _finite(value) for key, value in metrics.items()}
    return {"name": name, "max_lsb": max_lsb, **figures}


def _finite(value: float) -> float | None:
    """JSON knows no infinities."""
    return value if abs(value) < float("inf") else None
