"""The picture of a network in a folder, ours or the vendor's: read off its C file, programs and c_info.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from atonc.costs import NetworkCost, StepCost, network_cost
from atonc.emu.files.c_info import CInfo, find_c_info, mismatch, read_c_info
from atonc.emu.files.types import BufferInfo, CompiledNetwork
from atonc.emu.network import EmulatedNetwork, Step, load
from atonc.errors import AtoncError
from atonc.hw.cycles.flow import element_counts
from atonc.hw.machine import Machine, stm32n6
from atonc.hw.units.convacc import ConvaccConfig
from atonc.insight import decide, rules, wiring
from atonc.insight.types import CPU, HYBRID, BufferView, Decision, LayerView, NetworkView, PoolView, StepView


def folder_view(directory: Path, name: str | None = None, machine: Machine | None = None) -> NetworkView:
    """Nothing is executed: weights may be missing, where the program does not need them."""
    net = load(directory, name)
    return view_of(net, machine)


def view_of(net: EmulatedNetwork, machine: Machine | None = None) -> NetworkView:
    machine = machine or stm32n6()
    network, info, notes = net.network, *_info(net.network)
    steps = [step for step in net.steps if not step.empty]
    cost = network_cost(net, steps, machine)
    views = tuple(_step(step, c, info) for step, c in zip(steps, cost.steps, strict=True))
    buffers = _buffers(network, steps)
    pools = _pools(network, buffers, machine)
    external = {pool.name for pool in pools if pool.external}
    activations = [b for b in buffers if b.kind != "constant"]
    layers = tuple(_layer(step, view, buffers, external) for step, view in zip(steps, views, strict=True))
    return NetworkView(
        network.name,
        network.c_file.name,
        f"ST {network.atonn_version}" if network.atonn_version else "a compiler that does not name itself",
        "",
        cost.npu_mhz,
        cost.cpu_mhz,
        views,
        layers,
        buffers,
        pools,
        _span(b for b in activations if b.pool not in external),
        sum(b.size_bytes for b in buffers if b.kind == "constant"),
        sum(b.size_bytes for b in activations if b.pool in external),
        _peak(activations),
        (*notes, *_guessed(cost)),
    )


def _info(network: CompiledNetwork) -> tuple[CInfo | None, tuple[str, ...]]:
    path = find_c_info(network)
    if path is None:
        return None, ()
    try:
        info = read_c_info(path)
        wrong = mismatch(info, network)
    except AtoncError as error:
        return None, (f"{path.name} cannot be used: {error}",)
    return (None, (f"{path.name} belongs to another compilation: {wrong}",)) if wrong else (info, ())


def _guessed(cost: NetworkCost) -> tuple[str, ...]:
    return (f"no measured constant for {', '.join(cost.unknown)}",) if cost.unknown else ()


def _step(step: Step, cost: StepCost, info: CInfo | None) -> StepView:
    node = info.by_epoch.get(step.number) if info else None
    nodes = ", ".join(node.original_nodes) if node else ""
    title = nodes or cost.origin or f"epoch {step.number}"
    common = (step.number, step.kind, title, f"epoch {step.number}", cost.cycles, cost.milliseconds)
    if step.epoch is None:
        return StepView(*common, cost.st_cycles, cost.bound_by, cost.known, macs=node.macc if node else 0)
    return StepView(
        *common,
        cost.st_cycles,
        cost.bound_by,
        cost.known,
        {},
        wiring.chains(step.epoch),
        wiring.modes(step.epoch),
        wiring.links(step.epoch),
        wiring.units(step.epoch),
        _multiplications(step),
        sum(engine.elements * engine.element_bytes for engine in step.epoch.engines().values()),
    )


def _multiplications(step: Step) -> int:
    """What the convolvers do, padding included."""
    if step.epoch is None:
        return 0
    flow, total = element_counts(step.epoch), 0
    for name, config in step.epoch.units.items():
        if isinstance(config, ConvaccConfig):
            total += flow[name].output.total * config.kernel_height * config.kernel_width * config.batch
    return total


def _layer(step: Step, view: StepView, buffers: Sequence[BufferView], external: set[str]) -> LayerView:
    written = tuple(b.name for b in buffers if b.first == view.number and b.kind not in ("constant", "input"))
    read = tuple(b.name for b in buffers if b.kind != "constant" and _reads(step, b))
    return LayerView(
        view.layer,
        "+".join(call.name for call in step.calls) or "epoch",
        (view.title,),
        view.on,
        (view.number,),
        read,
        written,
        (),
        view.macs,
        view.cycles,
        view.milliseconds,
        {view.bound_by: 1.0} if view.bound_by else {},
        view.chains,
        view.modes,
        tuple(_decisions(step, view, [b for b in buffers if b.name in (*read, *written)], external)),
    )


def _decisions(step: Step, view: StepView, touched: Iterable[BufferView], external: set[str]) -> list[Decision]:
    found = [decide.bound({view.bound_by: 1.0}, view.cycles)] if view.bound_by and view.on not in (CPU, HYBRID) else []
    if step.calls:
        names = ", ".join(dict.fromkeys(call.name for call in step.calls))
        found.append(decide.decision(rules.LIBRARY, names))
    elif step.epoch is not None:
        found += decide.of_epochs([step.epoch])
    outside = [b.name for b in touched if b.pool in external and b.kind != "constant"]
    if outside:
        found.append(decide.decision(rules.SPILL, f"{', '.join(outside[:3])} in external RAM"))
    return found


def _reads(step: Step, buffer: BufferView) -> bool:
    if step.epoch is None:
        return False
    end = buffer.address + buffer.size_bytes
    return any(buffer.address <= e.address < end for e in step.epoch.readers().values()) and (
        buffer.first < step.number <= buffer.last
    )


# ------------------------------------------------------------------------------------------------------------- memory


def _buffers(network: CompiledNetwork, steps: Sequence[Step]) -> tuple[BufferView, ...]:
    last_step = steps[-1].number if steps else 0
    first_step = steps[0].number if steps else 0
    kinds: dict[str, list[BufferInfo]] = {
        "input": list(network.inputs),
        "output": list(network.outputs),
        "activation": list(network.internals),
        "constant": list(network.params),
    }
    listed: dict[tuple[str, int], tuple[str, BufferInfo]] = {}
    for kind, infos in kinds.items():
        for info in infos:
            listed.setdefault((info.name, info.address), ("constant" if info.is_param else kind, info))
    real = [pool for pool in network.pools if not pool.virtual]
    starts = [(info.address, info.address + info.size_bytes, info.epoch) for _, info in listed.values()]
    found = []
    for kind, info in listed.values():
        if kind == "constant":
            first, last = first_step, last_step
        else:
            first = first_step if kind == "input" else info.epoch
            last = last_step if kind == "output" else _last_use(info, first, starts, steps)
        pool = next((p.name for p in real if p.base <= info.address < p.base + p.size_bytes), "")
        found.append(BufferView(info.name, pool, info.address, info.size_bytes, first, last, kind))
    return tuple(sorted(found, key=lambda b: (b.address, b.first, b.name)))


def _last_use(info: BufferInfo, first: int, starts: Sequence[tuple[int, int, int]], steps: Sequence[Step]) -> int:
    """The last epoch that reads the place before somebody else writes there."""
    end = info.address + info.size_bytes
    others = [epoch for a, b, epoch in starts if a < end and info.address < b and epoch > first]
    until = min(others, default=1 << 30)
    last = first
    for step in steps:
        if first < step.number <= until and _touches(step, info.address, end):
            last = step.number
    return last


def _touches(step: Step, start: int, end: int) -> bool:
    if step.calls:
        return any(_mentions(argument, start, end) for call in step.calls for argument in call.args)
    return step.epoch is not None and any(start <= e.address < end for e in step.epoch.readers().values())


def _mentions(value: object, start: int, end: int) -> bool:
    """Whether an address inside the range occurs in the arguments of a call."""
    if isinstance(value, int):
        return start <= value < end
    if isinstance(value, Mapping):
        return any(_mentions(part, start, end) for part in value.values())
    return isinstance(value, list) and len(value) < 64 and any(_mentions(part, start, end) for part in value)


def _pools(network: CompiledNetwork, buffers: Sequence[BufferView], machine: Machine) -> tuple[PoolView, ...]:
    found = []
    for pool in network.pools:
        if pool.virtual or not pool.size_bytes:
            continue
        end = pool.base + pool.size_bytes
        bank = machine.memory_at(pool.base)
        used = _span(buffers, pool.base, end)
        found.append(PoolView(pool.name, pool.base, pool.size_bytes, used, bank.external if bank else False))
    return tuple(found)


def _span(buffers: Iterable[BufferView], low: int = 0, high: int = 1 << 32) -> int:
    """Bytes of a range that some buffer covers."""
    total, reach = 0, low
    for start, end in sorted((b.address, min(b.address + b.size_bytes, high)) for b in buffers):
        total += max(0, end - max(start, reach))
        reach = max(reach, end)
    return total


def _peak(buffers: Sequence[BufferView]) -> int:
    """Largest sum of live bytes."""
    changes: dict[int, int] = {}
    for b in buffers:
        changes[b.first] = changes.get(b.first, 0) + b.size_bytes
        changes[b.last + 1] = changes.get(b.last + 1, 0) - b.size_bytes
    live = peak = 0
    for _, change in sorted(changes.items()):
        live += change
        peak = max(peak, live)
    return peak
