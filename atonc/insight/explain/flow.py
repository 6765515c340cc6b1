"""What flows between the epochs of a network that ST compiled: who reads what, and who wrote it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from atonc.insight.explain import folder_memory, vendor
from atonc.insight.explain.types import BufferView, TensorView
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.files.c_info import CInfo, InfoBuffer
from atonc.machine.emu.files.types import BufferInfo, CompiledNetwork
from atonc.machine.emu.network import NetworkStep

_FOR_READER = "_zero_off_out"  # codes without zero point are named after the convolution that will read them
_TYPES = {"FLOAT": "float32"}


@dataclass(frozen=True)
class BufferFlow:
    """Buffers by epoch; each read is named by the buffer that was written."""

    reads: Mapping[int, tuple[str, ...]]
    writes: Mapping[int, tuple[str, ...]]

    def read(self, numbers: Iterable[int]) -> tuple[str, ...]:
        own = tuple(numbers)
        inside = {name for number in own for name in self.writes.get(number, ())}
        names = (name for number in own for name in self.reads.get(number, ()))
        return tuple(dict.fromkeys(name for name in names if name not in inside))

    def written(self, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for number in numbers for name in self.writes.get(number, ())))


def info_flow(info: CInfo, buffers: Sequence[BufferView], steps: Iterable[int]) -> BufferFlow:
    """As c_info.json lists it for the epochs that run; one that lists nothing is taken by the lifetimes of buffers."""
    names = {b.id: b.name for b in info.buffers if not b.is_param}
    kept = [b for b in buffers if b.kind != "constant"]
    reads, writes = dict[int, tuple[str, ...]](), dict[int, tuple[str, ...]]()
    for number in sorted(set(steps) & set(info.by_epoch)):
        node = info.by_epoch[number]
        reads[number] = tuple(names[one] for one in node.inputs if one in names)
        writes[number] = tuple(names[one] for one in node.outputs if one in names)
        if not reads[number] and not writes[number]:
            reads[number] = tuple(b.name for b in kept if b.last == number and b.first < number)
            writes[number] = tuple(b.name for b in kept if b.first == number)
    return _resolved(reads, writes, kept)


def program_flow(steps: Sequence[NetworkStep], buffers: Sequence[BufferView]) -> BufferFlow:
    """Follows the flow by the addresses in the program."""
    kept = [b for b in buffers if b.kind != "constant"]
    reads = {step.number: tuple(b.name for b in kept if folder_memory.reads(step, b)) for step in steps}
    writes = {
        step.number: tuple(b.name for b in kept if b.first == step.number and b.kind != "input") for step in steps
    }
    return _resolved(reads, writes, kept)


def _resolved(
    reads: Mapping[int, tuple[str, ...]], writes: Mapping[int, tuple[str, ...]], buffers: Sequence[BufferView]
) -> BufferFlow:
    """A buffer that no epoch writes (a concatenation in place) stands for those that were written into it."""
    homes = {b.name: b for b in buffers}
    done = [b for b in buffers if b.kind == "input"]  # and what is written later, in order
    produced, found = set[str](), dict[int, tuple[str, ...]]()
    for number in sorted(reads):
        names: list[str] = []
        for name in reads[number]:
            home = homes.get(name)
            known = name in produced or home is None or home.kind == "input"
            names += [name] if known or home is None else _inside(home, done) or [name]
        found[number] = tuple(dict.fromkeys(names))
        done += [homes[name] for name in writes.get(number, ()) if name in homes]
        produced |= set(writes.get(number, ()))
    outputs = [b for b in buffers if b.kind == "output" and b.name not in produced]
    return BufferFlow(found, _with_outputs(writes, outputs, done))


def _with_outputs(
    writes: Mapping[int, tuple[str, ...]], outputs: Sequence[BufferView], done: Sequence[BufferView]
) -> dict[int, tuple[str, ...]]:
    """An output that no epoch writes (a transposition that costs nothing) is given by those who wrote its bytes."""
    found = dict(writes)
    epochs = {name: number for number, names in sorted(writes.items()) for name in names}
    for output in outputs:
        for name in _inside(output, done):
            if name in epochs:
                found[epochs[name]] = (*found[epochs[name]], output.name)
    return found


def _inside(home: BufferView, done: Sequence[BufferView]) -> list[str]:
    """Names of the buffers whose bytes are there, the last writer of each place; those that still live, if some do."""
    free, found = [(home.address, home.address + home.size_bytes)], list[str]()
    there = [one for one in done if one.address < free[0][1] and home.address < one.address + one.size_bytes]
    alive = [one for one in there if one.last + 1 >= home.first]
    for one in reversed(alive or there):
        start, end = one.address, one.address + one.size_bytes
        if not any(a < end and start < b for a, b in free):
            continue
        found.append(one.name)
        free = [part for a, b in free for part in ((a, min(b, start)), (max(a, end), b)) if part[0] < part[1]]
        if not free:
            break
    return found[::-1]


def node_names(network: CompiledNetwork, steps: Sequence[NetworkStep]) -> dict[int, tuple[str, ...]]:
    """Nodes by epoch, as the C file tells: those whose weights it reads, then those whose results it writes."""
    params = sorted(network.params, key=lambda p: p.address)
    starts = [p.address for p in params]
    written: dict[int, list[str]] = {}
    for buffer in (*network.internals, *network.outputs):
        if not buffer.is_param:
            written.setdefault(buffer.epoch, []).append(buffer.name)
    found = {}
    for step in steps:
        engines = step.epoch.readers().values() if step.epoch is not None else ()
        read = [p.name for engine in engines if (p := _at(params, starts, engine.address)) and "_weights" in p.name]
        own = [name for name in written.get(step.number, ()) if _FOR_READER not in name]
        found[step.number] = vendor.base_names([*read, *own]) or vendor.base_names(written.get(step.number, ()))
    return found


def _at(params: Sequence[BufferInfo], starts: Sequence[int], address: int) -> BufferInfo | None:
    place = bisect_right(starts, address) - 1
    inside = place >= 0 and address < params[place].address + params[place].size_bytes
    return params[place] if inside else None


def info_tensor(buffer: InfoBuffer) -> TensorView:
    one = len(buffer.scales) == 1
    zero = buffer.offsets[0] if one and buffer.offsets else None
    dtype = _TYPES.get(buffer.dtype.upper(), buffer.dtype)
    return TensorView(
        buffer.name, buffer.shape, dtype, buffer.scales[0] if one else None, zero, max(1, len(buffer.scales))
    )


def file_tensor(buffer: BufferInfo) -> TensorView:
    """Weights as c_info.json has them (outputs, inputs, rows, columns), though the C file has the inputs last."""
    one = len(buffer.scales) == 1
    return TensorView(
        buffer.name,
        file_shape(buffer),
        _TYPES.get(buffer.type, buffer.type.lower()),
        buffer.scales[0] if one else None,
        buffer.offsets[0] if one and buffer.offsets else None,
        max(1, len(buffer.scales)),
    )


def file_shape(buffer: BufferInfo) -> tuple[int, ...]:
    """Activations as they lie in memory, unless that is in pieces."""
    if buffer.is_param and len(buffer.shape) == 4:
        return (buffer.shape[0], buffer.shape[3], *buffer.shape[1:3])
    return buffer.mem_shape if len(buffer.mem_shape) == len(buffer.shape) else buffer.shape
