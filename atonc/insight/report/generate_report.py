"""`<name>_generate_report.txt`: model, memories and epochs in the layout that users of ST's tool know. No dates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.reproduce import parameters
from atonc.compiler.emit.c.memories import PoolRange, ranges
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.lower.context import item_bytes
from atonc.compiler.ops.shapes import macs
from atonc.compiler.place.usage import MemoryUse, Use
from atonc.compiler.plan.types import CpuPlan
from atonc.machine.base.errors import plain
from atonc.machine.hw.mpool import MemoryPool

_WIDTH = 84
_LONG = 48
_AXES = {1: "c", 2: "bc", 3: "bhc", 4: "bhwc"}


def text(view: CompileView, network: CNetwork) -> str:
    asked = parameters(view.model, view.options, view.name, view.board.name)
    lines = [
        network.tool,
        f"Parameters            : {plain(asked)}",
        "",
        f"Model name - {_plain(PurePath(view.model).stem)}",
        *_model_table(view.compiled.source),
        f"model: macc={view.macs:,} weights={view.memory.weights_bytes:,} "
        f"activations={view.memory.activations_bytes:,} io=--",
        *("", ""),
        *_part("Compilation details", _compilation(view, network)),
        *_part("Memory usage information  (input/output buffers are included in activations)", _memory(network)),
        *_user_memory(network),
        *_part("Used memory ranges", _used_ranges(network)),
        *_part("Epochs details", _epochs(view, network))[:-1],
        *_sections(network),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _part(title: str, lines: Iterable[str]) -> list[str]:
    return [title, "-" * _WIDTH, *lines, "=" * _WIDTH, ""]


# ------------------------------------------------------------------------------------------------------------- model

ReportRow = tuple[str, str, str, str, str, str]
_TITLES = ("m_id", "layer (original)", "oshape", "param/size", "macc", "connected to")


def _model_table(source: Graph) -> list[str]:
    inputs = [source.tensors[name] for name in source.inputs]
    groups: list[list[ReportRow]] = [
        [(str(k), f"{_plain(one.name)} ()", _shape(one), "", "", "")] for k, one in enumerate(inputs)
    ]
    groups += [_op_rows(source, k, op) for k, op in enumerate(source.ops, len(inputs))]
    rows = [row for group in groups for row in group]
    widths = [max(map(len, column)) for column in zip(_TITLES, *rows, strict=True)]

    def aligned(cells: Sequence[str]) -> str:
        """Figures end at the right."""
        pairs = enumerate(zip(cells, widths, strict=True))
        return " ".join(cell.ljust(width) if k < 4 else cell.rjust(width) for k, (cell, width) in pairs)

    rule = " ".join("-" * width for width in widths)
    lines = [rule, aligned(_TITLES), rule]
    for group in groups:
        lines += [*map(aligned, group), rule]
    return lines


def _op_rows(graph: Graph, number: int, op: Op) -> list[ReportRow]:
    """The operator, and one more line for each further input."""
    constants = [graph.tensors[n] for n in op.inputs if n and graph.tensors[n].is_constant]
    others = [_plain(n) for n in op.inputs if n and not graph.tensors[n].is_constant]
    count = sum(tensor.elements for tensor in constants)
    size = sum(tensor.elements * item_bytes(tensor) for tensor in constants)
    work = macs(op, graph.tensors)
    first = (
        str(number),
        f"{_plain(op.name)} ({op.kind.upper()})",
        _shape(graph.tensors[op.outputs[0]]) if op.outputs and op.outputs[0] else "",
        f"{count:,}/{size:,}" if count else "",
        f"{work:,}" if work else "",
        others[0] if others else "",
    )
    return [first, *(("", "", "", "", "", other) for other in others[1:])]


def _shape(tensor: Tensor) -> str:
    axes = _AXES.get(len(tensor.shape))
    if axes is None:
        return f"[{','.join(map(str, tensor.shape))}]"
    return f"[{','.join(f'{axis}:{size}' for axis, size in zip(axes, tensor.shape, strict=True))}]"


def _compilation(view: CompileView, network: CNetwork) -> list[str]:
    form = "epoch controller" if network.epoch_controller else "driver calls"
    return [
        f"Compiler version: {network.tool}",
        f"Compiler arguments: numerics {view.options.numerics}, prefer {view.options.prefer}, {form}",
    ]


# ------------------------------------------------------------------------------------------------------------ memory


def _memory(network: CNetwork) -> Iterator[str]:
    """Copies of weights in RAM count as weights, as those do that lie in RAM only."""
    totals = [0, 0]
    for pool in network.pools:
        weights, activations = _used(pool, network.memory)
        totals = [totals[0] + weights, totals[1] + activations]
        used = weights + activations
        yield (
            f"\t{_extent(pool)}: {_amount(used)} / {_amount(pool.size_bytes)}  ({_share(used, pool)} used) -- weights: "
            f"{_amount(weights)} ({_share(weights, pool)} used)  activations: {_amount(activations)} "
            f"({_share(activations, pool)} used)"
        )
    if in_code := network.memory.code_constants_bytes:
        totals[0] += in_code
        yield f"\t{_plain(network.name) + '.c':10} {'[constants of CPU layers]':25}: {_amount(in_code)}"
    yield "---"
    yield (
        f"Total: {_amount(sum(totals)):>50} {'':33}-- weights: {_amount(totals[0])} {'':16} activations: "
        f"{_amount(totals[1])}"
    )


def _used(pool: MemoryPool, memory: MemoryUse) -> tuple[int, int]:
    working = [row.size_bytes for row in memory.rows if row.pool == pool.name and row.use == Use.ACTIVATIONS]
    return memory.by_pool.get(pool.name, 0) - sum(working), sum(working)


def _extent(pool: MemoryPool) -> str:
    return f"{_plain(pool.name):10} [0x{pool.base:08X} - 0x{pool.base + pool.size_bytes:08X}]"


def _amount(size_bytes: int) -> str:
    if size_bytes >= 1 << 20:
        return f"{size_bytes / (1 << 20):10.3f} MB"
    return f"{size_bytes / (1 << 10):10.3f} kB" if size_bytes >= 1 << 10 else f"{size_bytes:10d}  B"


def _share(size_bytes: int, pool: MemoryPool) -> str:
    return f"{100 * size_bytes / pool.size_bytes if pool.size_bytes else 0.0:6.2f} %"


def _user_memory(network: CNetwork) -> list[str]:
    users = network.program.user_io
    if not users:
        return []
    sums = {d: sum(u.size_bytes for u in users if u.direction == d) for d in ("input", "output")}
    lines = [
        f"Memory to be allocated by the user: inputs ({_amount(sums['input']).strip()}), "
        f"outputs ({_amount(sums['output']).strip()})"
    ]
    lines += [f"\t{u.direction.capitalize():6}[{u.index}]: {_amount(u.size_bytes)}" for u in users]
    return [*lines, "=" * _WIDTH, ""]


def _used_ranges(network: CNetwork) -> Iterator[str]:
    parts = ranges(network)
    for pool in network.pools:
        own = [f"0x{p.start:08X}-0x{p.end:08X}" for p in _joined([p for p in parts if p.pool == pool])]
        if own:
            yield f"\t{_extent(pool)}: {' | '.join(own)}"


def _joined(parts: list[PoolRange]) -> list[PoolRange]:
    """Without those that lie inside others: read-ahead reaches into what follows."""
    return [
        part for part in parts if not any(o is not part and o.start <= part.start and part.end <= o.end for o in parts)
    ]


# ------------------------------------------------------------------------------------------------------------ epochs


def _epochs(view: CompileView, network: CNetwork) -> list[str]:
    steps = network.program.steps
    kinds = {op.name: op.kind for op in view.compiled.graph.ops}
    cpu = sum(step.epoch is None for step in steps)
    lines = [
        f"Total number of epochs: {len(steps)} of which {cpu} implemented in software",
        f">> pure software (SW) epochs                       {cpu:>5}",
        f">> hybrid epochs (using both software and hardware) {0:>4}",
        f">> pure hardware (HW or EC) epochs                 {len(steps) - cpu:>5}{_blob_count(network)}",
        "---",
        "epoch ID   HW/SW/EC Operation (SW only)",
    ]
    for step in steps:
        name = f"epoch {step.number}"
        if isinstance(step.plan, CpuPlan):
            lines.append(f"{name:12} -SW-   ( {kinds.get(step.plan.op, step.plan.op):^18} )")
        else:
            lines.append(f"{name:12}  {'EC' if network.epoch_controller else 'HW'}")
    return lines


def _blob_count(network: CNetwork) -> str:
    if not network.epoch_controller:
        return ""
    count = sum(not block.on_cpu for block in network.blocks)
    return f"  (implemented in {count} epoch controller blobs)" if count else ""


# ---------------------------------------------------------------------------------------------------------- sections


def _sections(network: CNetwork) -> list[str]:
    """What is known before the firmware is built: programs, weights, activations; all `bss` but io is `ram_bytes`."""
    memory = network.memory
    blobs = [("EC blobs", network.blob_bytes, memory.relocatable_bytes)] if network.epoch_controller else []
    ram = memory.ram_bytes - memory.activations_bytes - memory.relocatable_bytes
    io = sum(user.size_bytes for user in network.program.user_io)
    rows = [*blobs, ("weights", memory.weights_bytes, ram), ("activations", 0, memory.activations_bytes), ("io", 0, io)]
    flash, all_ram = sum(row[1] for row in rows), sum(row[2] for row in rows)
    rule, short = " ------------------------------- ----------- -----------", "  " + "-" * 50
    return [
        ' Requested memory size by section - "stm32n6npu" target',
        *(rule, f" {'module':31} {'rodata':>11} {'bss':>11}", rule),
        *(f" {name:31} {rodata:11,} {bss:11,}" for name, rodata, bss in rows),
        *(rule, f" {'TOTAL':31} {flash:11,} {all_ram:11,}", rule, ""),
        '  Summary - "stm32n6npu" target',
        *(short, f"  {'':12} {'FLASH (ro)':>14} {'RAM (rw)':>14}", short),
        *(f"  {'TOTAL':12} {flash:14,} {all_ram:14,}", short),
    ]


def _plain(name: str) -> str:
    """Names of the model: one line, of bearable length."""
    safe = "".join(c if c.isprintable() else "?" for c in name)
    return safe if len(safe) <= _LONG else f"{safe[: _LONG - 3]}..."
