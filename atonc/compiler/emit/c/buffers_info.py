"""The tables of inputs, outputs and internal buffers, as applications and debuggers read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from atonc.compiler.emit.c import names
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.ir import Tensor
from atonc.compiler.plan.types import Buffer, BufferKind
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import PREFETCH_BYTES

# element type of the model -> (DataType_..., bits, unsigned)
_TYPES = {
    "int8": ("INT8", 8, 0), "uint8": ("UINT8", 8, 1), "bool": ("BOOL", 8, 1), "int16": ("INT16", 16, 0),
    "uint16": ("UINT16", 16, 1), "int32": ("INT32", 32, 0), "uint32": ("UINT32", 32, 1), "int64": ("INT64", 64, 0),
    "uint64": ("UINT64", 64, 1), "float16": ("FLOAT16", 16, 0), "float32": ("FLOAT", 32, 0),
    "float64": ("DOUBLE", 64, 0),
}  # fmt: skip
_INT16 = (-0x8000, 0x7FFF)


@dataclass(frozen=True)
class Info:
    """One line of a table."""

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
    position: str  # of the channels in the memory: First, Last, UNDEFINED
    type: str
    bits: int
    unsigned: int
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


def _epoch(network: CNetwork, name: str) -> int:
    """The step that made a buffer; an output that is a view of other memory has the writer of that memory."""
    if name in network.writer:
        return network.writer[name].number
    home = network.home(name)
    same = [s.number for n, s in network.writer.items() if network.home(n).address == home.address]
    return max(same, default=0)


def tensor_info(network: CNetwork, name: str, epoch: int) -> Info:
    home = network.home(name)
    tensor = network.graph.tensors.get(home.buffer.tensor or name)
    if tensor is None or tensor.dtype not in _TYPES or not _fills(tensor, home.buffer.size_bytes):
        return _bytes_info(network, name, epoch)
    base, start = network.origin(name)
    type_, bits, unsigned = _TYPES[tensor.dtype]
    shift = home.buffer.offset
    if shift:  # memory holds code + 128: seen from outside an unsigned tensor with another zero point
        type_, unsigned = "UINT8", 1
    scales, offsets = _quantisation(tensor, home.buffer)
    position, user = _position(network, name, tensor), network.user_of(name) is not None
    return Info(
        buffer=name,
        label=network.labels[name],
        base=base,
        start=start,
        size_bytes=home.buffer.size_bytes,
        user=user,
        param=False,
        epoch=epoch,
        shape=four(tensor.shape, position),
        mem_shape=tensor.shape or (1,),
        position=position,
        type=type_,
        bits=bits,
        unsigned=unsigned,
        scales=scales,
        offsets=offsets,
    )  # fmt: skip


def _fills(tensor: Tensor, size_bytes: int) -> bool:
    return prod(tensor.shape) * _TYPES[tensor.dtype][1] // 8 == size_bytes


def _bytes_info(network: CNetwork, name: str, epoch: int = 0, param: bool = False) -> Info:
    base, start = network.origin(name)
    size = network.home(name).buffer.size_bytes
    user = network.user_of(name) is not None
    label = network.labels[name]
    return Info(
        buffer=name,
        label=label,
        base=base,
        start=start,
        size_bytes=size,
        user=user,
        param=param,
        epoch=epoch,
        shape=four((size,)),
        mem_shape=(size,),
        position="UNDEFINED",
        type="UINT8",
        bits=8,
        unsigned=1,
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


def table(network: CNetwork, kind: str, always: list[Info], debug: list[Info]) -> str:
    """`LL_ATON_<kind>_Buffers_Info_<net>`; `debug` lines are left out when the firmware says so."""
    prefix = f"atonc_{kind.lower()}"
    numbered = list(enumerate(always))
    extra = list(enumerate(debug, len(always)))
    guard = "#if LL_ATON_DBG_BUFFER_INFO_EXCLUDED == 0\n", "#endif\n"
    arrays, rows = _arrays(prefix, numbered), "".join(_row(prefix, k, info) for k, info in numbered)
    if extra:
        arrays += guard[0] + _arrays(prefix, extra) + guard[1]
        rows += guard[0] + "".join(_row(prefix, k, info) for k, info in extra) + guard[1]
    return (
        f"const LL_Buffer_InfoTypeDef *LL_ATON_{kind}_Buffers_Info_{network.suffix}(void)\n{{\n{arrays}"
        f"  static const LL_Buffer_InfoTypeDef buff_info[] = {{\n{rows}"
        f"    {{\n      .name = NULL,\n    }}\n  }};\n\n  return buff_info;\n}}\n"
    )


def _arrays(prefix: str, numbered: Iterable[tuple[int, Info]]) -> str:
    return "".join(line for k, info in numbered for line in _array_lines(f"{prefix}_{k}", info))


def _array_lines(prefix: str, info: Info) -> Iterator[str]:
    yield f"  static const uint32_t {prefix}_shape[] = {{ {_integers(info.shape)} }};\n"
    yield f"  static const uint32_t {prefix}_mem_shape[] = {{ {_integers(info.mem_shape)} }};\n"
    if info.scales:
        # without the letter f: ST's packager reads them too
        scales = ", ".join(names.float_literal(scale).removesuffix("f") for scale in info.scales)
        yield f"  static const float {prefix}_scale[] = {{ {scales} }};\n"
        yield f"  static const int16_t {prefix}_offset[] = {{ {_integers(info.offsets)} }};\n"


def _integers(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))


def _row(prefix: str, number: int, info: Info) -> str:
    members = "".join(f"      .{member} = {value},\n" for member, value in _members(f"{prefix}_{number}", info))
    return f"    {{\n{members}    }},\n"


def _members(prefix: str, info: Info) -> Iterator[tuple[str, str]]:
    yield "name", f'"{info.label}"'
    named = info.base if info.base.startswith("0x") else f"(uintptr_t){info.base}"  # as ST's packager reads it
    pointer = f"(uintptr_t)&{info.base}" if info.user else named
    yield "addr_base", f"{{(unsigned char *)({pointer})}}"
    yield "offset_start", str(info.start)
    yield "offset_end", str(info.start + info.size_bytes)
    yield "offset_limit", str(info.start + info.size_bytes + PREFETCH_BYTES)
    yield "is_user_allocated", str(int(info.user))
    yield "is_param", str(int(info.param))
    yield "epoch", str(info.epoch)
    yield "batch", str(info.channels)
    yield "mem_shape", f"{prefix}_mem_shape"
    yield "mem_ndims", str(len(info.mem_shape))
    yield "chpos", f"CHPos_{info.position}"
    yield "Qm", str((info.bits if info.unsigned else info.bits - 1) if info.is_fixed_point else 0)
    yield "Qn", "0"
    yield "Qunsigned", str(info.unsigned)
    yield "type", f"DataType_{info.type}"
    yield "nbits", str(info.bits)
    yield "ndims", str(len(info.shape))
    yield "shape", f"{prefix}_shape"
    if info.scales:
        yield "per_channel", str(int(len(info.scales) > 1))
        yield "scale", f"{prefix}_scale"
        yield "offset", f"{prefix}_offset"
