"""An estimate as a table of layers with the figures of the whole, and what is assumed."""

from __future__ import annotations

from atonc.insight.estimating.estimate import Estimate, EstimatedLayer
from atonc.insight.report import document as doc
from atonc.machine.base.words import count, elided, ms_digits, ms_text, size_text
from atonc.machine.cost.energy import amount

SHOWN = 10  # layers, the costliest first


def _milliseconds(layer: EstimatedLayer) -> str:
    return ms_text(layer.milliseconds, 4)


COLUMNS = (
    doc.Column[EstimatedLayer]("layer", lambda layer: elided(layer.name, doc.NAME), left=True),
    doc.Column[EstimatedLayer]("operator", lambda layer: layer.kind, left=True),
    doc.Column[EstimatedLayer]("shape", lambda layer: "x".join(map(str, layer.shape)), left=True),
    doc.Column[EstimatedLayer]("runs on", lambda layer: "CPU" if layer.on_cpu else "NPU", left=True),
    doc.Column[EstimatedLayer]("latency", _milliseconds),
    doc.Column[EstimatedLayer]("MACs", lambda layer: layer.macs, "{:,}"),
    doc.Column[EstimatedLayer]("weights", lambda layer: layer.weights_bytes, "{:,}"),
)


def document(found: Estimate, every: bool = False) -> doc.Document:
    """`every`: all layers in the order of the model."""
    costly = sorted(found.layers, key=lambda layer: -layer.milliseconds)[:SHOWN]
    layers = found.layers if every else costly
    rest = len(found.layers) - len(layers)
    blocks: list[doc.Block] = [doc.Table(COLUMNS, layers, "Layers", titles=True)]
    blocks += [f"  and {rest} more (-v shows all)"] if rest else []
    cpu = [(layer.kind, layer.name, layer.milliseconds) for layer in found.layers if layer.on_cpu]
    spilled = f", {size_text(found.spilled_bytes)} of it outside the chip" if found.spilled_bytes else ""
    digits = ms_digits(found.latency_ms)
    bounds = f"{found.latency_low_ms:,.{digits}f} to {found.latency_high_ms:,.{digits}f} ms"
    clocks = f"NPU {found.npu_mhz:.0f} MHz, CPU {found.cpu_mhz:.0f} MHz, {found.board}"
    sizes = f"{size_text(found.ram_bytes)} of RAM, {size_text(found.flash_bytes)} of flash"
    return doc.Document(
        f"{doc.short_name(found.model)}: estimated {ms_text(found.latency_ms)}, {sizes}",
        [
            doc.Chapter("", blocks),
            doc.Chapter("", [doc.Note(one) for one in (*found.notes, *(f"assumed: {one}" for one in found.assumed))]),
        ],
        [
            doc.latency_row(found.latency_ms, f"estimated ({bounds})", clocks),
            doc.cpu_row(cpu, found.latency_ms),
            doc.SummaryRow("RAM", f"{size_text(found.ram_bytes)}{spilled}", doc.Mark.ALARM if spilled else None),
            doc.SummaryRow("flash", f"{size_text(found.flash_bytes)} of weights"),
            doc.SummaryRow("energy", f"{amount(found.energy_uj)} (core, memories)"),
            doc.SummaryRow("work", f"{found.macs:,} MACs in {count(len(found.layers), 'layer')}"),
        ],
        data=found.as_dict,
        tables={"layers": [vars_of(layer) for layer in found.layers]},
    )


def vars_of(layer: EstimatedLayer) -> dict[str, object]:
    return doc.fields_of(layer, "name", "kind", "shape", "on_cpu", "milliseconds", "macs", "weights_bytes")
