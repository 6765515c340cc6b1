"""The tables of inputs, outputs and internal buffers, as applications and debuggers read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from atonc.compiler.emit.c import names
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.ir import Tensor
from atonc.compiler.plan.types import Buffer, BufferKind
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.templates import Words
from atonc.machine.hw.limits import PREFETCH_BYTES

# element type of the model -> (DataType_..., bits, unsigned)
_TYPES = {
    "int8": ("INT8", 8, 0), "uint8": ("UINT8", 8, 1), "bool": ("BOOL", 8, 1), "int16": ("INT16", 16, 0),
    "uint16": ("UINT16", 16, 1), "int32": ("INT32", 32, 0), "uint32": ("UINT32", 32, 1), "int64": ("INT64", 64, 0),
    "uint64": ("UINT64", 64, 1), "float16": ("FLOAT16", 16, 0), "float32": ("FLOAT", 32, 0),
    "float64": ("DOUBLE", 64, 0),
}  # fmt: skip
_CODES = ("INT8", "UINT8", "INT16")
_INT16 = (-0x8000, 0x7FFF)


@dataclass(frozen=True)
class Info:
    """One line of a table; what it says of elements are plain bytes where nothing else is known."""

    buffer: str
    label: str
    base: str  # as C
    start: int
    size_bytes: int
    user: bool
    param: bool
    epoch: int
    shape: tuple[int, ...]  # batch, height, width, channels
    mem_shape: tuple[int, ...]  # order of the bytes
    position: str = "UNDEFINED"  # of the channels in the memory: First, Last
    type: str = "UINT8"
    bits: int = 8
    unsigned: int = 1
    scales: tuple[float, ...] = ()
    offsets: tuple[int, ...] = ()

    @property
    def channels(self) -> int:
        """What lies side by side in memory."""
        return self.shape[-1] if self.position == "Last" else 1

    @property
    def is_fixed_point(self) -> bool:
        return self.type not in ("FLOAT", "FLOAT16", "DOUBLE")


def inputs(network: CNetwork) -> list[Info]:
    return [tensor_info(network, name, 0) for name in network.program.inputs]


def outputs(network: CNetwork) -> list[Info]:
    return [tensor_info(network, name, _epoch(network, name)) for name in network.program.outputs]


def params(network: CNetwork) -> list[Info]:
    """Constants as the engines and the CPU read them: bytes in the order of the hardware."""
    homes = sorted(network.constants(), key=lambda home: (home.address, home.buffer.name))
    return [_bytes_info(network, home.buffer.name, param=True) for home in homes]


def internals(network: CNetwork) -> list[Info]:
    """Whatever else a step writes, in that order."""
    edges = {*network.program.inputs, *network.program.outputs}
    found = []
    for name, step in sorted(network.writer.items(), key=lambda item: (item[1].number, item[0])):
        if name not in edges and network.home(name).buffer.kind != BufferKind.CONSTANT:
            found.append(tensor_info(network, name, step.number))
    return found


def coded_inputs(network: CNetwork, inner: Sequence[Info]) -> list[Info]:
    """The codes of float inputs, among what is inside: they tell which range the inputs have, in every firmware."""
    found = []
    for given in inputs(network):
        coded = [one for one in inner if one.type in _CODES and one.scales]
        same = [one for one in coded if prod(one.mem_shape) == prod(given.mem_shape)]
        found += same[:1] if given.type == "FLOAT" else []
    return list(dict.fromkeys(found))


def _epoch(network: CNetwork, name: str) -> int:
    """The step that made a buffer; an output that is a view of other memory has the writer of that memory."""
    if name in network.writer:
        return network.writer[name].number
    home = network.home(name)
    same = [s.number for n, s in network.writer.items() if network.home(n).address == home.address]
    return max(same, default=0)


def tensor_info(network: CNetwork, name: str, epoch: int) -> Info:
    buffer = network.home(name).buffer
    tensor = network.graph.tensors.get(buffer.tensor or name)
    if tensor is None or tensor.dtype not in _TYPES:
        return _bytes_info(network, name, epoch)
    type_, bits, unsigned = _TYPES[tensor.dtype]
    if tensor.elements * bits // 8 != buffer.size_bytes:
        return _bytes_info(network, name, epoch)
    if buffer.offset:  # memory holds code + 128: seen from outside an unsigned tensor with another zero point
        type_, unsigned = "UINT8", 1
    scales, offsets = _quantisation(tensor, buffer)
    position = _position(network, name, tensor)
    return replace(
        _bytes_info(network, name, epoch),
        shape=four(tensor.shape, position),
        mem_shape=tensor.shape or (1,),
        position=position,
        type=type_,
        bits=bits,
        unsigned=unsigned,
        scales=scales,
        offsets=offsets,
    )


def _bytes_info(network: CNetwork, name: str, epoch: int = 0, param: bool = False) -> Info:
    base, start = network.origin(name)
    size = network.home(name).buffer.size_bytes
    return Info(
        buffer=name,
        label=network.labels[name],
        base=base,
        start=start,
        size_bytes=size,
        user=network.user_of(name) is not None,
        param=param,
        epoch=epoch,
        shape=four((size,)),
        mem_shape=(size,),
    )


def _quantisation(tensor: Tensor, buffer: Buffer) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Scales and zero points of what memory holds; none where a zero point does not fit the table's 16 bits."""
    if tensor.quant is None:
        return (), ()
    if buffer.coarse:
        return (tensor.scale * buffer.coarse.step,), (buffer.coarse.zero,)
    offsets = tuple(int(zero) + buffer.offset for zero in tensor.quant.zero_points)
    if any(not _INT16[0] <= offset <= _INT16[1] for offset in offsets):
        return (), ()
    return tuple(map(float, tensor.quant.scales)), offsets


def four(shape: tuple[int, ...], position: str = "") -> tuple[int, ...]:
    """Batch, height, width, channels: shorter shapes get ones, at the end one for the channels."""
    if len(shape) >= 4:
        return (shape[0], *shape[2:], shape[1]) if position == "First" else shape
    return (*[1] * (3 - len(shape)), *shape, 1)


def _position(network: CNetwork, name: str, tensor: Tensor) -> str:
    """Inside the network channels are last; inputs and outputs are as the user wants them."""
    if len(tensor.shape) < 4:
        return "UNDEFINED"
    return "First" if name in network.channels_first else "Last"


# ---------------------------------------------------------------------------------------------------------------- C


def tables(network: CNetwork) -> list[Words]:
    """`LL_ATON_<kind>_Buffers_Info_<net>`: lines that are always there, and those for debugging, which are left out
    when the firmware says so."""
    inner = internals(network)
    coded = coded_inputs(network, inner)
    lists: tuple[tuple[str, list[Info], list[Info]], ...] = (
        ("Input", inputs(network), params(network)),
        ("Output", outputs(network), []),
        ("Internal", coded, [one for one in inner if one not in coded]),
    )
    return [{"kind": kind, "rows": _rows(f"atonc_{kind.lower()}", always, debug)} for kind, always, debug in lists]


def _rows(prefix: str, always: list[Info], debug: list[Info]) -> list[Words]:
    found = [row(f"{prefix}_{k}", info) for k, info in enumerate((*always, *debug))]
    first, last = len(always), len(found) - 1
    return [{**one, "guard": k == first, "guard_end": bool(debug) and k == last} for k, one in enumerate(found)]


def row(prefix: str, info: Info) -> Words:
    # as ST's packager reads it: no cast in front of a number, no letter f behind scales
    named = info.base if info.base.startswith("0x") else f"(uintptr_t){info.base}"
    sign_bits = 0 if info.unsigned else 1
    return {
        **{"prefix": prefix, "label": info.label, "epoch": info.epoch, "channels": info.channels},
        "pointer": f"(uintptr_t)&{info.base}" if info.user else named,
        "offset_start": info.start,
        "offset_end": info.start + info.size_bytes,
        "offset_limit": info.start + info.size_bytes + PREFETCH_BYTES,
        **{"user": int(info.user), "param": int(info.param), "position": info.position},
        **{"type": info.type, "bits": info.bits, "unsigned": info.unsigned},
        "integer_bits": info.bits - sign_bits if info.is_fixed_point else 0,
        **{"rank": len(info.shape), "shape": ", ".join(map(str, info.shape))},
        **{"mem_rank": len(info.mem_shape), "mem_shape": ", ".join(map(str, info.mem_shape))},
        **{"scaled": bool(info.scales), "per_channel": int(len(info.scales) > 1)},
        "scales": ", ".join(names.float_literal(scale).removesuffix("f") for scale in info.scales),
        "offsets": ", ".join(map(str, info.offsets)),
    }
