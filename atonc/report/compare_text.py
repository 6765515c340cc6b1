"""What `atonc compare` shows."""

from __future__ import annotations

from typing import Any

from atonc.insight.compare import Comparison, Figure
from atonc.insight.types import NetworkView

_MOST = 15
LONG_NAME = 60


def lines(found: Comparison, verbose: bool) -> list[str]:
    out = [
        f"A: {found.a.model}, {found.a.tool}, {found.a.clocks}",
        f"B: {found.b.model}, {found.b.tool}, {found.b.clocks}",
        *(f"note on {side}: {note}" for side, view in (("A", found.a), ("B", found.b)) for note in view.notes),
        "",
        f"{'':26}{'A':>16}{'B':>16}{'B / A':>9}",
        *(_row(figure) for figure in found.figures),
    ]
    out += _output_lines(found)
    pairs = found.layers if verbose else found.layers[:_MOST]
    if pairs:
        title = f"{len(pairs)} layers" if verbose else f"the {len(pairs)} layers that differ most"
        out += ["", f"{title}, paired by {found.paired_by} (milliseconds)", f"{'A':>10}{'B':>10}{'B - A':>10}  layer"]
        for pair in pairs:
            x, y = (side.milliseconds if side else 0.0 for side in (pair.a, pair.b))
            places = f" [{pair.a.on} / {pair.b.on}]" if pair.a and pair.b and pair.a.on != pair.b.on else ""
            out.append(
                f"{x:10.4f}{y:10.4f}{pair.difference:+10.4f}  {' / '.join(_short(n) for n in pair.nodes)}{places}"
            )
    if found.unmatched:
        out += ["", f"{found.unmatched} layers of both builds have no partner in the other"]
    return out


def _output_lines(found: Comparison) -> list[str]:
    if not found.outputs:
        return []
    head = "outputs for the same inputs, both emulated (a step: the coarser of both quantisations)"
    rows = [
        f"  cosine {o.cosine:.6f}, exact {o.exact_percent:.2f} %, within one step {o.within1_percent:.2f} %, "
        f"largest difference {o.largest:.4g}: {_short(o.a)}" + (f" / {_short(o.b)}" if o.a != o.b else "")
        for o in found.outputs
    ]
    return ["", head, *rows]


def _short(name: str) -> str:
    return name if len(name) <= LONG_NAME else f"{name[: LONG_NAME - 3]}..."


def _row(figure: Figure) -> str:
    shown = [f"{v:,.3f}" if figure.unit == "ms" else f"{v:,.0f}" for v in (figure.a, figure.b)]
    ratio = "" if figure.ratio is None else f"{figure.ratio:.3f}"
    name = f"{figure.name} ({figure.unit})" if figure.unit else figure.name
    return f"{name:26}{shown[0]:>16}{shown[1]:>16}{ratio:>9}"


def _side(view: NetworkView) -> dict[str, Any]:
    clocks = {"npu_mhz": view.npu_mhz, "cpu_mhz": view.cpu_mhz}
    return {"model": view.model, "tool": view.tool, "clocks": clocks}


def as_json(found: Comparison) -> dict[str, Any]:
    return {
        "a": _side(found.a),
        "b": _side(found.b),
        "figures": [{"name": f.name, "a": f.a, "b": f.b, "unit": f.unit, "ratio": f.ratio} for f in found.figures],
        "layers": [
            {
                "nodes": list(pair.nodes),
                "a_ms": pair.a.milliseconds if pair.a else None,
                "b_ms": pair.b.milliseconds if pair.b else None,
                "a_on": pair.a.on if pair.a else None,
                "b_on": pair.b.on if pair.b else None,
            }
            for pair in found.layers
        ],
        "paired_by": found.paired_by,
        "unmatched": found.unmatched,
        "outputs": [
            {
                "a": o.a,
                "b": o.b,
                "elements": o.elements,
                "cos": o.cosine,
                "exact_pct": o.exact_percent,
                "within1_pct": o.within1_percent,
                "largest": o.largest,
            }
            for o in found.outputs
        ],
    }
