"""Networks that ST compiled: names of layers from its node names, rules from the library functions that it calls."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from atonc.compiler.place.pools import outside_chip
from atonc.compiler.place.usage import CountedPool
from atonc.compiler.plan.types import FILLED
from atonc.compiler.select import rules as mapping
from atonc.insight.explain import decide, rules
from atonc.insight.explain.types import BufferView, Decision, OperatorView, StepView, TensorView
from atonc.machine.base.errors import AtoncError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import Rule
from atonc.machine.base.words import count
from atonc.machine.emu import cpu
from atonc.machine.emu.cpu.struct_view import StructView
from atonc.machine.emu.cpu.tensors import tensor
from atonc.machine.emu.files.c_info import CInfo, InfoBuffer, InfoNode
from atonc.machine.emu.files.types import BufferInfo, CompiledNetwork, FunctionCall
from atonc.machine.emu.network import NetworkStep

# ST derives the names of helper nodes from the node they help: Conv2D_7_suboff_0 is a part of Conv2D_7
_NODE = re.compile(r"((?:[A-Za-z][A-Za-z0-9]*_)+?\d+)(?=_|$)")
_NUMBERED = re.compile(r"([A-Za-z][\w]*?)(?:_inserted)?_(?:id)?\d+")
_KINDS = {
    **dict.fromkeys(("conv2d", "conv_2d", "depthwise_conv_2d", "convinteger"), "conv"),
    **dict.fromkeys(("gemm", "fully_connected", "matmul"), "dense"),
    **dict.fromkeys(("convtranspose", "transpose_conv"), "transpose_conv"),
    **dict.fromkeys(("maxpool", "max_pool_2d"), "max_pool"),
    **dict.fromkeys(("averagepool", "average_pool_2d", "globalaveragepool"), "average_pool"),
}
_INFLATED = "_weights_inflated"  # how kernels of depthwise convolutions are stored
_BY_NATURE = (
    ("dequantizelinear", "dequantize"),
    ("quantizelinear", "quantize"),
    ("softmax", "softmax"),
    ("argmax", "arg_max"),
    ("argmin", "arg_min"),
    ("resize", "resize_linear"),
    ("gather", "gather"),
    ("cast", "cast"),
)
_MOVES = (
    *("concat", "split", "pad", "slice", "transpose", "reshape", "gather", "squeeze", "flatten", "tile"),
    *("spacetodepth", "depthtospace", "imagetorow", "rowtoimage"),
)
_FUNCTIONS = ("relu", "prelu", "leakyrelu", "sigmoid", "tanh", "hardsigmoid", "hardswish", "clip", "elu")
_WEIGHTED = ("conv", "gemm", "matmul")
_MOST_WORDS = 3  # operators that a label names


def base_names(names: Iterable[str]) -> tuple[str, ...]:
    """The nodes behind names of parts or buffers, those named in full first."""
    listed = [name for name in names if name]
    whole = [name for name in listed if (match := _NODE.match(name)) and match[1] == name]
    helped = [match[1] if (match := _NODE.match(name)) else name for name in listed]
    return tuple(dict.fromkeys(whole or helped))


def nodes_of(info: InfoNode | None, written: Sequence[str]) -> tuple[str, ...]:
    """Source nodes of an epoch: as c_info.json lists them, else from its parts, else from the buffers it writes."""
    if info is None:
        return base_names(written)
    return info.original_nodes or base_names(part.name for part in info.parts) or base_names(written)


def kind_of(node: str, calls: Sequence[FunctionCall] = ()) -> str:
    """conv of Conv2D_7 or CONV_2D_3; of epochs without a name what the processor calls."""
    match = _NUMBERED.fullmatch(node)
    if match:
        kind = match[1].lower()
        return _KINDS.get(kind, kind)
    if calls:
        called = calls[0].name
        for start in ("ll_sw_forward_", "LL_ATON_LIB_", "atonc_"):
            called = called.removeprefix(start)
        return called.lower()
    return "epoch"


def operators_of(nodes: Iterable[str], held: Sequence[TensorView]) -> tuple[OperatorView, ...]:
    """Each node of a layer with the size of its kernels; weights are listed as outputs, inputs, rows, columns."""
    found = []
    for node in nodes:
        own = next((w for w in held if w.name.startswith(f"{node}_weights") and len(w.shape) == 4), None)
        kernel = (own.shape[0], *own.shape[2:]) if own else ()
        depthwise = own is not None and (_INFLATED in own.name or (own.shape[1] == 1 and own.shape[0] > 1))
        found.append(OperatorView(node, kind_of(node), kernel, depthwise))
    return tuple(found)


def label_of(operators: Sequence[OperatorView]) -> str:
    """`conv 1x1 + add`."""
    shown = [one for one in operators if one.kind != "epoch"]
    words = [_word(one) for one in shown[:_MOST_WORDS]]
    return " + ".join(words) + (" + ..." if len(shown) > _MOST_WORDS else "")


def _word(one: OperatorView) -> str:
    size = f" {one.kernel[1]}x{one.kernel[2]}" if one.kernel else ""
    return f"{'depthwise ' if one.depthwise else ''}{one.kind.replace('_', ' ')}{size}"


def weights_of(nodes: Iterable[str], params: Mapping[str, Sequence[TensorView]]) -> tuple[TensorView, ...]:
    return tuple(tensor for node in nodes for tensor in params.get(node, ()))


def params_by_node(params: Iterable[TensorView]) -> dict[str, list[TensorView]]:
    found: dict[str, list[TensorView]] = {}
    for one in params:
        match = _NODE.match(one.name)
        found.setdefault(match[1] if match else one.name, []).append(one)
    return found


def unique_layers(steps: Sequence[StepView]) -> tuple[StepView, ...]:
    """Epochs of a node that come back after others are a layer of their own: names say which time it is."""
    times: Counter[str] = Counter()
    found, last = list[StepView](), ("", "")
    for step in steps:
        if (step.layer, step.on) != last:
            times[step.layer] += 1
        last = (step.layer, step.on)
        again = times[step.layer]
        found.append(replace(step, layer=f"{step.layer} #{again}") if again > 1 else step)
    return tuple(found)


def node_of(layer: str) -> str:
    """The node behind the name of a layer."""
    return layer.partition(" #")[0]


def cpu_decisions(calls: Sequence[FunctionCall]) -> list[Decision]:
    """Why ST's compiler left this to the processor; one decision a rule."""
    found: dict[str, Decision] = {}
    for call in calls:
        for rule, seen in _rules(call):
            found.setdefault(rule.id, decide.decision(rule, seen))
    return list(found.values())


def form_decisions(kind: str, epochs: int) -> list[Decision]:
    """What the name of a node on the NPU says about its form."""
    found = []
    if kind in ("quantize", "dequantize", "identity", "cast"):
        found.append(decide.decision(rules.CONVERSION, f"{kind} in {count(epochs, 'epoch')}"))
    elif kind in _FUNCTIONS:
        found.append(decide.decision(rules.TABLE, kind))
    elif kind.startswith("resize"):
        found.append(decide.decision(rules.RESIZE, kind))
    elif any(word in kind for word in _MOVES) and "pool" not in kind:
        found.append(decide.decision(rules.MOVE, kind))
    if epochs > 1:
        found.append(decide.decision(rules.SPLIT, f"{count(epochs, 'epoch')}"))
    return found


def rule_of_kind(kind: str) -> Rule:
    """Finds the rule for a kind of node of ST's compiler, where no call is known."""
    name = kind.lower()
    nature = next((found for word, found in _BY_NATURE if word in name), "")
    if nature:
        return mapping.BY_NATURE[nature]
    return rules.MOVE if any(word in name for word in _MOVES) else rules.LIBRARY


def _rules(call: FunctionCall) -> list[tuple[Rule, str]]:
    name, seen = call.name.lower(), cpu.describe_call(call.name, list(call.args))
    nature = next((kind for word, kind in _BY_NATURE if word in name), "")
    if nature:
        return [(mapping.BY_NATURE[nature], seen)]
    if any(word in name for word in _MOVES):
        return [(rules.MOVE, seen)]
    if not name.startswith("ll_sw_forward_"):
        return [(rules.LIBRARY, seen)]
    weighted = any(word in name for word in _WEIGHTED)
    awkward = decide.awkward(_channels(call)) if weighted else ()
    found = [(rules.AWKWARD_CHANNELS, f"{' and '.join(map(str, awkward))} channels in {seen}")] if awkward else []
    if "integer" in name or "qlinear" in name:
        return found or [(rules.LIBRARY, f"{seen} on int8")]
    return [*found, (mapping.NOT_CODES, f"{seen} in float")]


def _channels(call: FunctionCall) -> tuple[int, ...]:
    try:
        info = StructView.of(call.args[0] if call.args else None, call.name)
        return tuple(tensor(info, f"general.{end}").shape[-1] for end in ("input", "output"))
    except AtoncError:
        return ()


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
    reads = {step.number: tuple(b.name for b in kept if step_reads(step, b)) for step in steps}
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
        found[step.number] = base_names([*read, *own]) or base_names(written.get(step.number, ()))
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


def home_of(address: int, banks: Iterable[CountedPool]) -> str:
    return next((p.name for p in banks if p.base <= address < p.base + p.size_bytes), "")


def buffers(
    network: CompiledNetwork, steps: Sequence[NetworkStep], banks: Sequence[CountedPool]
) -> tuple[BufferView, ...]:
    """As the C file names them; how long each lives is read off the programs."""
    first_step, last_step = (steps[0].number, steps[-1].number) if steps else (0, 0)
    kinds = {
        "input": network.inputs,
        "output": network.outputs,
        "activation": network.internals,
        "constant": network.params,
    }
    listed: dict[tuple[str, int], tuple[str, BufferInfo]] = {}
    for kind, infos in kinds.items():
        for info in infos:
            listed.setdefault((info.name, info.address), ("constant" if info.is_param else kind, info))
    starts = [(info.address, info.address + info.size_bytes, info.epoch) for _, info in listed.values()]
    found = []
    for kind, info in listed.values():
        first = first_step if kind in ("constant", "input") else info.epoch
        last = last_step if kind in ("constant", "output") else _last_use(info, first, starts, steps)
        home = home_of(info.address, banks)
        found.append(BufferView(info.name, home, info.address, info.size_bytes, first, last, kind))
    return tuple(sorted(found, key=lambda b: (b.address, b.first, b.name)))


def listed_buffers(
    info: CInfo, banks: Sequence[CountedPool], kind: Callable[[InfoBuffer], str], last: int, most: int = 1 << 30
) -> tuple[BufferView, ...]:
    """As c_info.json lists them: also where the C file names no internal buffers, and with lifetimes. `last`, `most`:
    the step until which constants live, and everything else at most."""
    bases, found = {pool.id: pool.address for pool in info.pools}, []
    for one in info.buffers:
        base = bases.get(one.pool)
        if base is not None and one.size_bytes:
            address = base + one.offset
            span = (0, last) if one.is_param else (one.first_epoch, min(one.last_epoch, most))
            home = home_of(address, banks)
            found.append(BufferView(one.name, home, address, one.size_bytes, *span, kind(one)))
    return tuple(sorted(found, key=lambda b: (b.address, b.first, b.name)))


def _last_use(
    info: BufferInfo, first: int, starts: Sequence[tuple[int, int, int]], steps: Sequence[NetworkStep]
) -> int:
    """The last epoch that reads the place before somebody else writes there."""
    end = info.address + info.size_bytes
    others = [epoch for a, b, epoch in starts if a < end and info.address < b and epoch > first]
    until = min(others, default=1 << 30)
    last = first
    for step in steps:
        if first < step.number <= until and _touches(step, info.address, end):
            last = step.number
    return last


def _touches(step: NetworkStep, start: int, end: int) -> bool:
    if step.calls:
        return any(_mentions(argument, start, end) for call in step.calls for argument in call.args)
    return step.epoch is not None and any(start <= e.address < end for e in step.epoch.readers().values())


def _mentions(value: object, start: int, end: int) -> bool:
    """Whether an address inside the range occurs in the arguments of a call."""
    if isinstance(value, int):
        return start <= value < end
    if isinstance(value, Mapping):
        base, offset = value.get("addr_base"), value.get("offset_start")
        if isinstance(base, Mapping):
            base = base.get("p", base.get("i"))
        if isinstance(base, int) and isinstance(offset, int):
            return start <= base + offset < end
        return any(_mentions(part, start, end) for part in value.values())
    return isinstance(value, list) and len(value) < 64 and any(_mentions(part, start, end) for part in value)


def banks(network: CompiledNetwork) -> list[CountedPool]:
    real = [pool for pool in network.pools if not pool.virtual and pool.size_bytes]
    return [CountedPool(p.name, p.base, p.size_bytes, p.writable, outside_chip(p.base)) for p in real]


def step_reads(step: NetworkStep, buffer: BufferView) -> bool:
    """Whether a step uses what an earlier one left in a buffer."""
    alive = buffer.first < step.number <= buffer.last or (buffer.kind == "input" and step.number <= buffer.last)
    return alive and _touches(step, buffer.address, buffer.address + buffer.size_bytes)


def readers(
    buffers: Sequence[BufferView], steps: Sequence[NetworkStep], layers: Mapping[int, str]
) -> dict[tuple[str, int], str]:
    """Constants and their copies, by name and address: the first layer whose engines read them."""
    listed = sorted((b for b in buffers if b.kind in FILLED), key=lambda b: b.address)
    starts, found = [b.address for b in listed], dict[tuple[str, int], str]()
    for step in steps:
        for engine in step.epoch.readers().values() if step.epoch is not None else ():
            place = bisect_right(starts, engine.address) - 1
            if place >= 0 and engine.address < starts[place] + listed[place].size_bytes:
                found.setdefault((listed[place].name, starts[place]), layers.get(step.number, ""))
    return found
