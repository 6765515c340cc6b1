"""Epochs as calls of the LL_ATON driver, for networks without epoch controller.

The same epoch as `hw.ec.ec_program` writes it, in the same order: configure processing units, readers, writers; wire
the switch; enable writers, units, readers. The runtime waits for the writers; then unwire and release every unit. The
members mean the same to all releases of the driver (1.1.0, 1.1.1, 1.1.3), so the C text has no conditions.

Calls are plain data: what network.c says and what `hw.ll` turns back into registers. The driver fills some registers by
rules of its own (counters, padding, tables): members are found for which these rules give the wanted registers, or it
is said that there are none. Nobody has to believe it: every result is sent through `hw.ll` and compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.emit.c import names
from atonc.compiler.emit.c.calls import ConstantTable
from atonc.compiler.emit.program import ProgramStep
from atonc.machine.base.errors import ToolError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw import ll, regs
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.ec.instructions import Instruction
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.ll import GENERATIONS, Generation
from atonc.machine.hw.units import activ, pool
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ROWS, ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import CIPHER, StrengConfig
from atonc.machine.hw.units.switch import Link


@dataclass(frozen=True)
class Constant:
    """A name that the driver's header defines."""

    name: str


@dataclass(frozen=True)
class Base:
    """The start of a buffer or pool: an address, or a symbol that stands for it until run time."""

    address: int
    symbol: str = ""


Member = int | Constant | ConstantTable | Base | tuple[int, ...]
Members = Mapping[str, Member]


@dataclass(frozen=True)
class DriverCall:
    """One unit gets its configuration, `function(unit, &members)`; `hw.ll` sees it as `name`, `args` and `where`."""

    function: str
    kind: str
    unit: int
    members: Members

    @property
    def name(self) -> str:
        return self.function

    @property
    def args(self) -> tuple[object, object]:
        return self.unit, {name: evaluated(value) for name, value in self.members.items()}

    @property
    def where(self) -> str:
        return f"{self.kind}{self.unit}"


@dataclass(frozen=True)
class DriverPort:
    kind: str
    unit: int
    port: int = 0


@dataclass(frozen=True)
class SwitchLink:
    """One entry of the link list. A context without source keeps the number 0."""

    destination: DriverPort
    sources: tuple[DriverPort | None, DriverPort | None]
    frames: tuple[int, int]
    contexts: tuple[int, int]

    def members(self) -> dict[str, object]:
        result: dict[str, object] = {"dest": _port_value(self.destination)}
        for k, source in enumerate(self.sources):
            if source is not None:
                result[f"source{k}"] = _port_value(source)
            result |= {f"context{k}": self.contexts[k], f"frames{k}": self.frames[k]}
        return result


@dataclass(frozen=True)
class ListCall:
    """A call over all links or all units of an epoch, `function(entries, count)`."""

    function: str
    entries: tuple[SwitchLink, ...] | tuple[DriverPort, ...]

    @property
    def name(self) -> str:
        return self.function

    @property
    def args(self) -> tuple[object, object]:
        values = (e.members() if isinstance(e, SwitchLink) else [[Constant(e.kind), e.unit]] for e in self.entries)
        return list(values), len(self.entries)

    @property
    def where(self) -> str:
        return self.function


EpochCall = DriverCall | ListCall


def evaluated(value: Member) -> object:
    """The value as a reader of the C text gets it."""
    if isinstance(value, ConstantTable):
        return list(value.values)
    if isinstance(value, Base):
        return value.address
    return list(value) if isinstance(value, tuple) else value


def _port_value(port: DriverPort) -> dict[str, object]:
    return {"unit": Constant(port.kind), "instance": port.unit, "port": port.port}


_BYTE, _WORD = 0xFF, 0xFFFF_FFFF
_NO_SHIFT = 16  # register value of the input shifters for shift 0

FILTER_MODES = ("AFILT_MODE_NONE", "AFILT_MODE_PIXELDROP", "AFILT_MODE_FRAMEDROP", "AFILT_MODE_FRAMEZERO")
ARITH_OPERATIONS = {0: "AFFINE", 1: "MIN", 2: "MAX", 7: "MUL", 55: "CLIP"}
ACTIV_OPERATIONS = {
    activ.RELU: "ACTIV_RELU", activ.PRELU: "ACTIV_PRELU", activ.THRESHOLD_RELU: "ACTIV_TRELU",
    activ.FUNCTION: "ACTIV_FUNC",
}  # fmt: skip
POOL_OPERATIONS = {
    pool.MAX: "POOL_MAX", pool.MIN: "POOL_MIN", pool.AVERAGE: "POOL_AVG", pool.GLOBAL_MAX: "POOL_GMAX",
    pool.GLOBAL_MIN: "POOL_GMIN", pool.GLOBAL_AVERAGE: "POOL_GAVG",
}  # fmt: skip


def streng_members(config: StrengConfig, base: Base) -> dict[str, Member]:
    """The engine relative to the start of its buffer."""
    bits, start = round(8 * config.bytes_per_element), config.address - base.address
    frame = config.frame_bytes
    limit = config.address_limit + 1 - base.address if config.address_limit_enabled else 0
    members: dict[str, Member] = {
        "dir": config.to_memory,
        "raw": config.raw,
        "raw_out": config.raw_out,
        "continuous": config.continuous,
        "align_right": config.align_right,
        "nbits_unsigned": 1 - config.sign_extend,
        "sync_with_other": config.sync,
        "cacheable": config.cacheable,
        "cache_allocate": config.cache_allocate,
        **({"cipher_en": 1} if config.ciphers else {}),
        "sync_dma": config.sync_source,
        "addr_base": base,
        "offset_start": start,
        "offset_end": start + frame if config.raw else max(limit, start),
        "offset_limit": limit,
    }
    if config.raw:
        members["frame_count"] = config.frame_elements
    else:
        lines, pixels, depth = config.shape
        members |= {"fwidth": pixels, "fheight": lines, "batch_depth": depth}
        members |= {"batch_offset": config.pixel_offset, "line_offset": config.line_offset & _WORD}
    return members | {
        "frame_offset": config.frame_offset & _WORD,
        "loop_offset": config.repeat_offset & _WORD,
        "frame_loop_cnt": config.frame_repeat,
        "frame_tot_cnt": config.frames,
        "nbits_in": bits,
        "nbits_out": 8 * config.element_bytes,
    }


def convacc_members(config: ConvaccConfig) -> dict[str, Member]:
    top, bottom, left, right = config.padding
    batch = max(1, config.batch)
    members: dict[str, Member] = {
        "simd": config.simd,
        "accumulate": 1 - config.no_sum,
        "accumulate_first": 1 - config.no_first_sum,
        "accumulate_gen_first": config.generate_first_sum,
        "fstat": config.feature_stationary,
        "deepmode": config.deep,
        "dss2mode": config.dss2,
        "f_unsigned": config.features_unsigned,
        "k_unsigned": config.kernels_unsigned,
        "kseten": config.kernel_set_enable,
        "rounding_f": config.feature_round,
        "saturation_f": config.feature_saturate,
        "round_mode_f": config.feature_round_mode,
        "inbytes_f": config.feature_bytes,
        "shift_f": (config.feature_shift - _NO_SHIFT) & _BYTE,
        **_output(config.round_mode, config.rounded, config.saturated, config.out_bytes, config.out_shift),
        "raw_o": config.raw_out,
        "shift_a": config.in_shift,
        "fWidth": config.width,
        "fHeight": config.height,
        "kernelWidth": config.kernel_width,
        "kernelHeight": config.kernel_height,
        "nKernels": config.kernels,
        "batchDepth": config.batch,
        "hstride": config.stride_x,
        "vstride": config.stride_y,
        "left_padding": left,
        "right_padding": right,
        "top_padding": top,
        "bot_padding": bottom,
        "left_crop": config.crop_left // batch,
        "right_crop": min((config.crop_right + 1) // batch, config.width) - 1,
        "top_crop": config.crop_top,
        "bot_crop": min(config.crop_bottom + 1, config.height) - 1,
        "fstatcnt": config.stationary_sets,
        "afilt_mode": Constant(FILTER_MODES[config.accumulator_filter]),
        "fsub": config.feature_offset,
        "zfbias": config.frame_value,
    }
    if config.accumulator_filter:
        members |= {"afilt_tot": config.frames_per_sum, "afilt_first": config.sum_first, "afilt_last": config.sum_last}
    if (config.kernels_per_round, config.kernel_first, config.kernel_last) != (1, 0, 0):
        members |= {"kfilt_tot": config.kernels_per_round}
        members |= {"kfilt_first": config.kernel_first, "kfilt_last": config.kernel_last}
    return members


def arith_members(config: ArithConfig) -> dict[str, Member]:
    members: dict[str, Member] = {}
    for axis in ("x", "y"):
        members |= {
            f"rounding_{axis}": getattr(config, f"round_{axis}"),
            f"saturation_{axis}": getattr(config, f"saturate_{axis}"),
            f"round_mode_{axis}": getattr(config, f"round_mode_{axis}"),
            f"inbytes_{axis}": getattr(config, f"bytes_{axis}"),
            f"outbytes_{axis}": getattr(config, f"out_bytes_{axis}"),
            f"shift_{axis}": getattr(config, f"shift_{axis}") - _NO_SHIFT,
        }
    if config.operation not in ARITH_OPERATIONS:
        raise _impossible(f"ARITH operation {config.operation}")
    return members | {
        "combinebc": config.combine_bc,
        "clipout": config.clip_out,
        **_output(config.round_mode, config.rounded, config.saturated, config.out_bytes, config.shift_out),
        "dualinput": config.dual_input,
        "operation": Constant(f"ARITH_{ARITH_OPERATIONS[config.operation]}"),
        "Ax_shift": config.shift_a,
        "By_shift": config.shift_b,
        "C_shift": config.shift_c,
        "clipmin": config.clip_min,
        "clipmax": config.clip_max,
        "A_scalar": config.a,
        "B_scalar": config.b,
        "C_scalar": config.c,
        **(_arith_vectors(config) if config.is_vector else {"scalar": 1, "bcast": Constant("ARITH_BCAST_NONE")}),
    }


def _arith_vectors(config: ArithConfig) -> dict[str, Member]:
    """Counters as dimensions, and the columns of the coefficient memory that differ from the scalars."""
    dimensions, used = _arith_dimensions(config)
    a, b, c = config.rows()[:used].astype(np.int64).T
    columns: list[tuple[str, NDArray[np.int64], int | None, int]] = [("A", a, config.a, 16)]
    if config.combine_bc:
        columns.append(("C", b << 16 | c & 0xFFFF, None, 32))  # B is the upper half of C
    else:
        columns += [("B", b, config.b, 16), ("C", c, config.c, 16)]
    members: dict[str, Member] = {"scalar": 0, **dimensions}
    for name, column, scalar, bits in columns:
        if scalar is None or (column != scalar).any():
            signed = -column if name == "C" and config.c == -1 else column  # the driver takes C_scalar -1 as a sign
            members[f"{name}_vector"] = _table(f"int{bits}_t", _wrapped(signed, bits))
    return members | {"vec_precision": (16, 16, 32 if config.combine_bc else 16)}


def _arith_dimensions(config: ArithConfig) -> tuple[dict[str, Member], int]:
    """Dimensions for which the driver computes these counters, and how many rows it writes for them."""
    if config.count3:
        depth, channels = config.reset1_every + 1, (-config.offset3 % ROWS) + 1
        bcast, width, height, used = "CHAN", (config.reset2_every + 1) // depth, 1, channels
    elif config.step == 0:
        bcast, width, height, depth, channels, used = "SCALAR", 1, 1, 1, 1, 1
    else:
        width, depth = config.step_every + 1, 1
        height = used = (config.reset1_every + 1) // width
        bcast, channels = "HEIGHT", 1
    if used > ROWS:
        raise _impossible(f"{used} rows of coefficients")
    return {
        "bcast": Constant(f"ARITH_BCAST_{bcast}"),
        "fWidth": width,
        "fHeight": height,
        "fChannels": channels,
        "batchDepth": depth,
    }, used


def _table(ctype: str, values: list[int]) -> ConstantTable:
    """The driver reads whole words, and a reader of the C text takes `{0}` for none: no odd, no single number."""
    return ConstantTable(ctype, (*values, *[0] * (len(values) % 2)))


def _wrapped(values: NDArray[np.int64], bits: int) -> list[int]:
    half = 1 << (bits - 1)
    numbers: list[int] = (((values + half) & ((1 << bits) - 1)) - half).tolist()
    return numbers


def activ_members(config: ActivConfig) -> dict[str, Member]:
    members: dict[str, Member] = {
        **_features_and_output(config),
        "signedop": config.signed_operand,
        "shift_f": (config.feature_shift - _NO_SHIFT) & _BYTE,
        "parameter": config.parameter & 0xFFFF,
        "operation": Constant(ACTIV_OPERATIONS[config.type]),
    }
    if config.type != activ.FUNCTION:
        return members | {"parameter_2": config.parameter2 & 0xFFFF}
    selectors = np.frombuffer(config.rom0, np.uint8)[: 1 << config.index_bits].astype(int)
    segments = int(((selectors & 63) + (1 << (selectors >> 6))).max())
    rows = np.frombuffer(config.rom1, "<i2")[: 3 * segments]
    return members | {
        "ROM0_vector": _table("uint8_t", selectors.tolist()),
        "ROM1_vector": _table("int16_t", rows.tolist()),
        "ROM0_nbytes": selectors.size,
        "ROM1_nbytes": 2 * rows.size,
        "shift_b": config.shift_b,
        "shift_c": config.shift_c,
        "shift_norm": config.normalise,
        "bwidth": config.index_bits,
    }


def pool_members(config: PoolConfig) -> dict[str, Member]:
    batch = max(1, config.batch)
    return {
        "operation": Constant(POOL_OPERATIONS[config.type]),
        "inputX": config.line_elements // batch,
        "inputY": config.height,
        "outputX": config.out_width,
        "outputY": config.out_height,
        "poolWinX": config.window_x,
        "poolWinY": config.window_y,
        "strideX": config.stride_x,
        "strideY": config.stride_y,
        "topCrop": config.crop_top,
        "bottomCrop": config.crop_bottom,
        "leftCrop": config.crop_left // batch,
        "rightCrop": (config.crop_right + 1) // batch - 1,
        "topPad": config.pad_top,
        "bottomPad": config.pad_bottom,
        "leftPad": config.pad_left,
        "rightPad": config.pad_right,
        "batchSize": config.batch,
        "shift_f": (config.feature_shift - _NO_SHIFT) & _BYTE,
        "dualLine": config.dual_line,
        **_features_and_output(config),
        "mulval": config.multiplier,
    }


def _features_and_output(config: ActivConfig | PoolConfig) -> dict[str, Member]:
    return {
        "rounding_f": config.feature_round,
        "saturation_f": config.feature_saturate,
        "round_mode_f": config.feature_round_mode,
        "inbytes_f": config.feature_bytes,
        "outbytes_f": config.feature_out_bytes,
        **_output(config.round_mode, config.rounded, config.saturated, config.out_bytes, config.out_shift),
    }


def _output(mode: int, rounded: int, saturated: int, out_bytes: int, shift: int) -> dict[str, Member]:
    """The output stage, which all processing units share."""
    return {
        "rounding_o": rounded,
        "saturation_o": saturated,
        "round_mode_o": mode & 1,
        "relu_mode_o": mode >> 1,
        "outbytes_o": out_bytes,
        "shift_o": shift,
    }


def unit_members(config: UnitConfig) -> dict[str, Member]:
    """The members of a processing unit."""
    if isinstance(config, ConvaccConfig):
        return convacc_members(config)
    if isinstance(config, ArithConfig):
        return arith_members(config)
    if isinstance(config, ActivConfig):
        return activ_members(config)
    if isinstance(config, PoolConfig):
        return pool_members(config)
    raise _impossible(f"unit {config.KIND}")


def _impossible(what: str) -> ToolError:
    return ToolError(
        f"{what} cannot be said in calls of the driver",
        rule="without epoch controller the driver's structs must be able to say every epoch",
        remedy="compile with the epoch controller, and report the model",
    )


Bases = Mapping[str, Base]
"""Engine -> the buffer that it works on."""

_FUNCTIONS = {
    "STRENG": "LL_Streng_TensorInit",
    "CONVACC": "LL_Convacc_Init",
    "ARITH": "LL_Arithacc_Init",
    "ACTIV": "LL_Activacc_Init",
    "POOL": "LL_Poolacc_Init",
}


_SAYABLE = ((), (CIPHER,))  # settings of units that nobody has seen, but the driver has a member for them


def epoch_functions(step: ProgramStep, name: str, bases: Bases | None = None, first_lines: Sequence[str] = ()) -> str:
    """The C functions `LL_ATON_Start_EpochBlock_<n>_<name>` and `LL_ATON_End_...` of a step that runs on the NPU.

    `bases` says where the buffers of the engines begin (absent: every engine by its own address); one with a symbol
    follows what the application sets at run time. `first_lines` come first in the start function: cache maintenance.
    """
    epoch = _epoch(step)
    start, end = start_calls(epoch, bases or {}), end_calls(epoch)
    require_same(epoch, start, end)
    return functions(epoch.number, name, start, end, first_lines)


def wait_mask(step: ProgramStep) -> int:
    """The engines whose end ends the epoch, as the runtime wants them: bit n is engine n."""
    return _mask(_epoch(step).writers())


def start_calls(epoch: Epoch, bases: Bases) -> list[EpochCall]:
    units, readers, writers = _in_order(epoch)
    configure = [_configure(name, epoch.units[name], bases) for name in (*units, *readers, *writers)]
    enable = tuple(_port(name) for name in (*writers, *units, *readers))
    return [*configure, ListCall("LL_Switch_Init", _links(epoch)), ListCall("LL_ATON_EnableUnits_Init", enable)]


def end_calls(epoch: Epoch) -> list[EpochCall]:
    units, readers, writers = _in_order(epoch)
    release = tuple(_port(name) for name in (*writers, *units, *readers))
    return [ListCall("LL_Switch_Deinit", _links(epoch)), ListCall("LL_ATON_DisableUnits_Init", release)]


def driver_epoch(
    start: Sequence[EpochCall], end: Sequence[EpochCall], mask: int, number: int, generation: Generation
) -> Epoch:
    """What the driver makes of the calls: the epoch read off the registers that it writes."""
    program = ll.epoch_program(start, mask, end, _no_memory, generation, number)
    return next(epoch for epoch in decode_epochs(program) if not epoch.empty)


def driver_stores(config: UnitConfig) -> list[Instruction]:
    """What the driver does to configure a unit, whichever of its kind."""
    name = next(unit.name for unit in regs.UNITS if unit.kind == config.KIND)
    return ll.driver_program([_configure(name, config, {})], _no_memory)


def require_same(epoch: Epoch, start: Sequence[EpochCall], end: Sequence[EpochCall]) -> None:
    """The calls write the registers that the epoch-controller program writes, whichever release of the driver runs."""
    alone = replace(epoch, kept=frozenset())  # the driver loads every table
    wanted = next(e for e in decode_epochs(ec_program.program([alone])) if not e.empty)
    for generation in GENERATIONS:
        made = driver_epoch(start, end, _mask(epoch.writers()), epoch.number, generation.traced())
        different = differences(wanted, made)
        if different:
            raise ToolError(
                f"driver {generation.name} would set {'; '.join(different[:3])}",
                where=f"epoch {epoch.number}",
                rule="an epoch means the same with and without epoch controller",
                remedy="compile with the epoch controller, and report the model",
            )


def differences(wanted: Epoch, made: Epoch) -> list[str]:
    """What two epochs do not have in common, in words."""
    found = []
    if wanted.links != made.links or set(wanted.waits) != set(made.waits):
        found.append("other links or waits")
    if wanted.units.keys() != made.units.keys():
        return [*found, f"other units: {sorted(wanted.units.keys() ^ made.units.keys())}"]
    for name, config in wanted.units.items():
        other = made.units[name]
        for field in (known.name for known in fields(config)):
            if field not in _FREE.get(config.KIND, ()) and getattr(config, field) != getattr(other, field):
                found.append(f"{name} {field} {getattr(other, field)} instead of {getattr(config, field)}"[:200])
    return found


_FREE = {"ARITH": ("translate",)}  # which half of the coefficient memory the bus sees: the unit does not care


def _epoch(step: ProgramStep) -> Epoch:
    if step.epoch is None:
        raise ToolError(f"step {step.number} runs on the CPU: it has no driver calls")
    return step.epoch


def _in_order(epoch: Epoch) -> tuple[list[str], list[str], list[str]]:
    """Processing units, readers and writers."""
    units = sorted((name for name in epoch.units if not name.startswith("STRENG")), key=_id)
    return units, sorted(epoch.readers(), key=_id), sorted(epoch.writers(), key=_id)


def _configure(name: str, config: UnitConfig, bases: Bases) -> DriverCall:
    unit = regs.UNIT_BY_NAME[name]
    if config.unmodelled not in _SAYABLE or config.KIND not in _FUNCTIONS:
        raise ToolError(f"{name} has settings that the driver does not know", remedy="report the model")
    if isinstance(config, StrengConfig):
        members = streng_members(config, bases.get(name, Base(config.address)))
    else:
        members = unit_members(config)
    return DriverCall(_FUNCTIONS[config.KIND], unit.kind, unit.index, members)


def _links(epoch: Epoch) -> tuple[SwitchLink, ...]:
    ordered = sorted(epoch.links, key=lambda link: regs.SWITCH_PORTS[link.destination, link.port])
    return tuple(_link(link) for link in ordered)


def _link(link: Link) -> SwitchLink:
    if link.tick_type:
        raise ToolError(f"link {link} cannot be said in calls of the driver")
    other = _port(regs.SOURCE_NAMES[link.other_source]) if link.other_source else None
    source = _port(link.source)
    return SwitchLink(
        _port(link.destination, link.port),
        (source, other) if link.enabled0 else (other, source),
        (link.frames0, link.frames1),
        (int(link.enabled0), int(link.enabled1)),
    )


def _port(name: str, port: int = 0) -> DriverPort:
    unit = regs.UNIT_BY_NAME[name]
    return DriverPort(unit.kind, unit.index, port)


def _mask(engines: Mapping[str, StrengConfig]) -> int:
    return sum(1 << regs.UNIT_BY_NAME[name].index for name in engines)


def _id(name: str) -> int:
    return regs.UNIT_BY_NAME[name].id


def _no_memory(address: int, size_bytes: int) -> bytes:
    raise ToolError(f"the driver would read {size_bytes} bytes at {address:#x}: tables belong in the code")


_STRUCTS = {
    "STRENG": "LL_Streng_TensorInitTypeDef",
    "CONVACC": "LL_Convacc_InitTypeDef",
    "ARITH": "LL_Arithacc_InitTypeDef",
    "ACTIV": "LL_Activacc_InitTypeDef",
    "POOL": "LL_Poolacc_InitTypeDef",
}
_PER_LINE = 12


def functions(
    number: int, name: str, start: Sequence[EpochCall], end: Sequence[EpochCall], first_lines: Sequence[str]
) -> str:
    """Both functions of an epoch, behind the lists that they share."""
    lists = {
        _list_name(call, number, name): _list(call, number, name)
        for call in (*start, *end)
        if isinstance(call, ListCall)
    }
    parts = (_function("Start", number, name, start, first_lines), _function("End", number, name, end, ()))
    return "\n".join((*lists.values(), *parts))


def function_name(which: str, number: int, name: str) -> str:
    """`which` is Start or End."""
    return f"LL_ATON_{which}_EpochBlock_{number}_{name}"


def _function(which: str, number: int, name: str, calls: Sequence[EpochCall], first_lines: Sequence[str]) -> str:
    parts = [_call(call, number, name) for call in calls]
    opening = [f"static void {function_name(which, number, name)}(ATONC_EPOCH_ARGUMENTS)", "{"]
    opening += [f"  {line}" for line in first_lines]
    return "\n".join([*opening, "", "\n\n".join(parts), "}"]) + "\n"


def _call(call: EpochCall, number: int, name: str) -> str:
    if isinstance(call, ListCall):
        return f"  {call.function}({_list_name(call, number, name)}, {len(call.entries)});"
    return "\n".join(_unit_call(call))


def _unit_call(call: DriverCall) -> Iterator[str]:
    """Its tables, its struct, the call. What holds a pointer of the application cannot be a constant of the image."""
    name = f"{call.kind.lower()}{call.unit}"
    for member, value in call.members.items():
        if isinstance(value, ConstantTable):
            yield _table_text(f"{name}_{member}", value)
    fixed = not any(isinstance(value, Base) and value.symbol for value in call.members.values())
    yield f"  {'static ' if fixed else ''}const {_STRUCTS[call.kind]} {name} = {{"
    for member, value in call.members.items():
        if value != 0:
            yield f"    .{member} = {_value(value, f'{name}_{member}')},"
    yield "  };"
    count = ", 1" if call.kind == "STRENG" else ""
    yield f"  {call.function}({call.unit}, &{name}{count});"


def _table_text(name: str, table: ConstantTable) -> str:
    """The driver reads its tables word by word."""
    numbers = names.lines_of((names.int_literal(int(v)) for v in table.values), _PER_LINE, "    ")
    return f"  __attribute__((aligned(4))) static const {table.ctype} {name}[{len(table.values)}] = {{\n{numbers}  }};"


def _value(value: Member, table: str) -> str:
    if isinstance(value, Constant):
        return value.name
    if isinstance(value, ConstantTable):
        return f"{{(unsigned char *){table}}}"
    if isinstance(value, Base):
        return f"{{(unsigned char *)({value.symbol or names.address(value.address)})}}"
    return f"{{{', '.join(map(str, value))}}}" if isinstance(value, tuple) else names.int_literal(value)


def _list_name(call: ListCall, number: int, name: str) -> str:
    return f"{'links' if _holds_links(call) else 'units'}_{number}_{name}"


def _holds_links(call: ListCall) -> bool:
    return any(isinstance(entry, SwitchLink) for entry in call.entries)


def _list(call: ListCall, number: int, name: str) -> str:
    ctype = "LL_Switch_InitTypeDef" if _holds_links(call) else "LL_ATON_EnableUnits_InitTypeDef"
    texts = (_link_text(e) if isinstance(e, SwitchLink) else f"{{ {{{e.kind}, {e.unit}}} }}" for e in call.entries)
    entries = "".join(f"  {text},\n" for text in texts)
    return f"static const {ctype} {_list_name(call, number, name)}[{len(call.entries)}] = {{\n{entries}}};\n"


def _link_text(link: SwitchLink) -> str:
    parts = [f"LL_Switch_Init_Dest() = {_port_text('DST', link.destination)}"]
    for k, source in enumerate(link.sources):
        if source is not None:
            parts.append(f"LL_Switch_Init_Source({k}) = {_port_text('SRC', source)}")
        if link.contexts[k] or link.frames[k]:
            parts.append(f"LL_Switch_Init_Context({k}) = {link.contexts[k]}")
            parts.append(f"LL_Switch_Init_Frames({k}) = {link.frames[k]}")
    return f"{{ {', '.join(parts)} }}"


def _port_text(side: str, port: DriverPort) -> str:
    return f"ATONN_{side}PORT(STRSWITCH, 0, {port.kind}, {port.unit}, {port.port})"
