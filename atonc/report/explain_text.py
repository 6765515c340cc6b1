"""What `atonc explain` shows: every layer, where it runs, what bounds it, which rules decided so, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atonc.insight.types import CPU, HYBRID, NOTHING, NPU, Decision, LayerView, NetworkView

LONG_NAME = 72
_MOST_SLOW = 12
# relative errors seen on networks that no constant was fitted to; see docs/latency.md
NPU_ERROR, CPU_ERROR, GUESS_ERROR = 0.03, 0.15, 1.0


def print_explained(network: NetworkView, layers: Sequence[LayerView], verbose: bool) -> None:
    for line in lines(network, layers, verbose):
        print(line)


def lines(network: NetworkView, layers: Sequence[LayerView], verbose: bool) -> list[str]:
    busy = [layer for layer in layers if layer.on != NOTHING]
    on_cpu = [layer for layer in busy if layer.on in (CPU, HYBRID)]
    out = [
        f"{network.model}, compiled by {network.tool}: {len(network.steps)} epochs, "
        f"{network.latency_ms:.2f} ms predicted",
        f"{len(busy)} layers, {len(on_cpu)} of them on the CPU; bound by " + _shares(network),
        *([f"energy of NPU and memories, by ST's powers: {network.energy_uj:,.2f} uJ"] if network.energy_uj else []),
        *band_lines(network),
        *(f"note: {note}" for note in network.notes),
        "",
    ]
    shown = busy
    if not verbose and len(busy) > _MOST_SLOW + len(on_cpu):
        slow = sorted((layer for layer in busy if layer not in on_cpu), key=lambda one: -one.cycles)[:_MOST_SLOW]
        shown = [layer for layer in busy if layer in on_cpu or layer in slow]
        out.append(f"all layers on the CPU and the {_MOST_SLOW} slowest others (-v shows all, --node NAME one)")
    for layer in shown:
        out += layer_lines(layer)
    return out


def band_lines(network: NetworkView) -> list[str]:
    """How far the prediction may be off, and because of what."""
    total = network.latency_ms or 1.0
    guessed = sum(step.milliseconds for step in network.steps if not step.known)
    on_cpu = sum(step.milliseconds for step in network.steps if step.known and step.on != NPU)
    outside = sum(step.milliseconds for step in network.steps if "hyper" in step.bound_by.lower())
    npu = total - guessed - on_cpu - outside
    band = (NPU_ERROR * npu + CPU_ERROR * on_cpu + GUESS_ERROR * (guessed + outside)) / total
    parts = [
        f"{100 * part / total:.0f} % {what}"
        for part, what in (
            (on_cpu, "CPU kernels (measured within 15 %)"),
            (guessed, "CPU kernels that nobody measured"),
            (outside, "external RAM that nobody measured"),
        )
        if part > 0.005 * total
    ]
    return [f"expected error of the prediction: about {100 * band:.0f} %" + (f"; {', '.join(parts)}" if parts else "")]


def _shares(network: NetworkView) -> str:
    return ", ".join(f"{label} {100 * share:.0f} %" for label, share in list(network.bound_by.items())[:5])


def layer_lines(layer: LayerView) -> list[str]:
    numbers = f"epoch {layer.steps[0]}" if len(layer.steps) == 1 else f"epochs {layer.steps[0]} to {layer.steps[-1]}"
    head = f"{layer.kind} {_short(layer.nodes[-1])}: {layer.on.upper()}, {numbers}, {layer.cycles:,} cycles"
    if layer.macs:
        head += f", {layer.macs_per_cycle:.1f} MAC/cycle"
    out = [head]
    if layer.chains:
        out.append("    " + "; ".join(layer.chains) + (f" ({', '.join(layer.modes)})" if layer.modes else ""))
    for one in layer.decisions:
        if one.remedy == "nothing to do":
            out.append(f"    {one.rule.id}: {one.seen}; nothing to do.")
            continue
        out += [f"    {one.rule.id}: {one.rule.sentence}", f"        seen: {one.seen}. Limit: {one.limit}."]
        out.append(f"        what to do: {one.remedy}.{_price(one)}")
    return out


def _price(one: Decision) -> str:
    price = one.price
    if price is None:
        return ""
    if not price.tried:
        return f" Brings {price.how}." if one.rule.id.startswith("CPU-") else ""
    saved = f"{abs(price.bytes):,} bytes of RAM {'less' if price.bytes > 0 else 'more'}" if price.bytes else ""
    faster = f"{abs(price.cycles):,} cycles {'less' if price.cycles > 0 else 'more'}" if price.cycles else "no cycles"
    return f" Tried: {', '.join(filter(None, (faster, saved)))} ({price.how})."


def _short(name: str) -> str:
    return name if len(name) <= LONG_NAME else f"{name[: LONG_NAME - 3]}..."


def as_json(network: NetworkView, layers: Sequence[LayerView]) -> dict[str, Any]:
    return {
        "model": network.model,
        "tool": network.tool,
        "board": network.board,
        "cycles": network.cycles,
        "latency_ms": network.latency_ms,
        "bound_by": dict(network.bound_by),
        "notes": list(network.notes),
        "layers": [layer_data(layer) for layer in layers],
    }


def layer_data(layer: LayerView) -> dict[str, Any]:
    return {
        "name": layer.name,
        "op": layer.kind,
        "nodes": list(layer.nodes),
        "on": layer.on,
        "epochs": list(layer.steps),
        "shape": list(layer.shape),
        "macs": layer.macs,
        "cycles": layer.cycles,
        "milliseconds": layer.milliseconds,
        "macs_per_cycle": round(layer.macs_per_cycle, 3),
        "bound_by": dict(layer.bound_by),
        "chains": list(layer.chains),
        "modes": list(layer.modes),
        "decisions": [one.as_dict() for one in layer.decisions],
    }
