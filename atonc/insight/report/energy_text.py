"""What an inference takes from the supply, in words and as data: always an estimate, with its band and its source."""

from __future__ import annotations

from typing import Any

from atonc.insight.report.marks import Mark, Marked, head
from atonc.insight.report.summary import SummaryRow
from atonc.machine.cost.energy import SOURCE, EnergyEstimate, amount


def lines(energy: EnergyEstimate) -> list[str]:
    """Nothing where it is not known what the steps do."""
    if not energy.known:
        return []
    parts = ", ".join(f"{name} {amount(span.likely)}" for name, span in energy.parts.items())
    return [
        head("energy ", f"{energy} an inference, {energy.milliwatts:.0f} mW while it runs; not measured"),
        f"  of it {parts}",
        f"  on the core rail alone: {amount(energy.core_uj.likely)}",
        Marked(Mark.DOUBT, f"  {SOURCE}"),
    ]


def row(energy: EnergyEstimate) -> SummaryRow | None:
    return SummaryRow("energy", f"{energy} an inference, estimated") if energy.known else None


def as_json(energy: EnergyEstimate) -> dict[str, Any]:
    """`energy_uj` is the likely figure; 0 where it is not known what the steps do."""
    return {"energy_uj": energy.uj.likely, "energy": energy.as_dict()}
