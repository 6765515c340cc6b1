"""Functions of one int8 value: straight lines and clips on ARITH units, everything else as ACTIV tables."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.requantise import cut_to_32_bits, factor_shift, half_away
from atonc.compiler.lower.elementwise.tables import MOST_ERROR, FunctionTable, fit_table, fits
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import ints, looked_up, table_codes
from atonc.compiler.lower.semantics.arithmetic import line as line_codes
from atonc.compiler.lower.units.arith import (
    CODES,
    FULL_RANGE,
    Affine,
    Array,
    affine_of_table,
    affine_unit,
    clip_unit,
    edge_unit,
)
from atonc.compiler.lower.units.views import row
from atonc.compiler.lower.units.wiring import End, Wiring, is_one_scale, origin_of, pack, parts
from atonc.compiler.ops.registry import evaluate
from atonc.compiler.plan.evidence import untrusted_unit
from atonc.compiler.plan.flow import EACH_ELEMENT
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.rules import INT8_CODES, TABLE_ERROR
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.limits import MOST_TABLE_SHIFT
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.safety.evidence import PUBLISHED, Trust

EDGES = ("uint8_to_int8", "int8_to_uint8")
_WAYS = {("ARITH",): 3, ("ARITH", "ARITH"): 2, ("ACTIV",): 2}


@dataclass(frozen=True)
class FunctionChain:
    """A chain of units that turns every code into another one."""

    units: tuple[UnitConfig, ...]
    codes: Array  # what it computes for -128..127, in plain integers
    error: int  # largest distance from what was asked for


@recipe("table", "requantize")
def lower_function(op: Op, context: Context) -> list[TaskGroup]:
    table = table_of(op, context, 0)
    line = line_2x(op, context) if context.numerics == "2.x" and op.kind == "requantize" else None
    if line is None:
        return function_steps(op, context, op.inputs[0], table)
    codes = line_codes(line, CODES)
    context.explain(op, lambda values: [looked_up(codes, values[0])], float(np.abs(codes - table).max()))
    return chain_steps(op, context, op.inputs[0], (affine_unit(line, 1),))


def line_2x(op: Op, context: Context) -> Affine | None:
    """A change of format as ST's releases 2.x have it: a gain of 15 bits; None for gains beyond use and clips."""
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    ratio = x.scale / y.scale
    shift = factor_shift(np.array([ratio]))
    if not 0 <= shift <= MOST_TABLE_SHIFT or "clip" in op.attrs:
        return None
    offset = np.array([(y.zero_point - x.zero_point * ratio) * 2.0**shift])
    return Affine(half_away(np.array([ratio * 2.0**shift])), cut_to_32_bits(offset), shift)


@recipe(*EDGES)
def lower_edge(op: Op, context: Context) -> list[TaskGroup]:
    """Both directions flip the highest bit; where convolutions read the codes as code + 128, the bytes stay."""
    step = 128 if op.kind == "int8_to_uint8" else -128
    context.explain(op, lambda values: [ints(values[0]) + step])
    source, target = context.buffer(op.inputs[0]), context.buffer(op.outputs[0])
    if context.buffers[target].offset == 128 and context.may_share(target, source):
        context.alias(target, source)
        return []
    return chain_steps(op, context, op.inputs[0], (edge_unit(),))


def table_of(op: Op, context: Context, varying: int) -> Array:
    """The exact codes of an operator for all 256 codes of one input, the others being single constants."""
    values = []
    for index, name in enumerate(op.inputs):
        tensor = context.tensor(name)
        values.append(CODES.astype(np.int8) if index == varying or tensor.data is None else tensor.data.reshape(-1))
    require_int8(op, context.tensor(op.inputs[varying]), context.tensor(op.outputs[0]))
    return evaluate(context.graph, op, values)[0].codes.reshape(256)


def function_steps(op: Op, context: Context, source: str, table: Array) -> list[TaskGroup]:
    found = function_for(table, context.facts.target.trust)
    if found.error > MOST_ERROR:
        seen, limit = f"the best table is {found.error} LSB off", f"{MOST_ERROR} LSB"
        remedy = "leave the function to the CPU; steps that are not at multiples of 8 LSB need too many segments"
        raise Refusal(TABLE_ERROR, seen, limit, remedy)
    varying = op.inputs.index(source)
    context.explain(op, lambda values: [looked_up(found.codes, values[varying])], found.error)
    return chain_steps(op, context, source, found.units)


def function_for(table: Array, trust: Trust = PUBLISHED) -> FunctionChain:
    """The cheapest units that compute a table and may be relied on, exactly wherever possible; if none may be, the
    cheapest."""
    first = next(_ways(table))
    found = (way for way in _ways(table) if not any(untrusted_unit(unit, "", trust) for unit in way.units))
    return next(found, first)


def fitted(table: Array, trust: Trust) -> FunctionTable:
    """The nearest table that may be relied on; if none may be, the nearest."""
    found = (way for way in fits(table) if not untrusted_unit(way.config, "", trust))
    return next(found, fit_table(table))


def _ways(table: Array) -> Iterator[FunctionChain]:
    """Yields the ways from cheap to dear, each worked out when somebody asks."""
    codes, dtype = table.tobytes(), table.dtype.str
    clip = int(table.min()), int(table.max())
    if np.array_equal(np.clip(CODES, *clip), table):
        yield FunctionChain((clip_unit(*clip),), table, 0)
    for limits in (FULL_RANGE, clip):
        line = _line(codes, dtype, limits)
        if line is not None:
            after = (clip_unit(*clip),) if limits is clip else ()
            yield FunctionChain((affine_unit(line, 1), *after), np.clip(line_codes(line, CODES), *limits), 0)
    yield from map(_by_table, fits(table))


@lru_cache(maxsize=4096)
def _line(codes: bytes, dtype: str, clip: tuple[int, int]) -> Affine | None:
    return affine_of_table(np.frombuffer(codes, dtype), clip)


@memoise
def _by_table(fitted: FunctionTable) -> FunctionChain:
    return FunctionChain((fitted.config,), table_codes(fitted), fitted.error)


def chain_steps(op: Op, context: Context, source: str, units: tuple[UnitConfig, ...]) -> list[TaskGroup]:
    """The whole tensor through a chain of units, in parallel parts."""
    elements, target = context.tensor(op.outputs[0]).elements, context.buffer(op.outputs[0])
    work = chain_wirings(context.buffer(source), target, elements, units)
    return pack(work, origin_of(op), op.kind, flow=EACH_ELEMENT)


def lower_rows(op: Op, source: str, target: str, at: tuple[int, int], size: int, context: Context) -> list[TaskGroup]:
    """So many bytes of a function, from these places of both buffers on; what they mean is known."""
    trust = context.facts.target.trust
    units = (edge_unit(),) if op.kind in EDGES else function_for(table_of(op, context, 0), trust).units
    whole = at == (0, 0) and size == context.buffers[target].size_bytes
    return pack(
        chain_wirings(source, target, size, units, at), origin_of(op), op.kind, flow=EACH_ELEMENT if whole else None
    )


def chain_wirings(
    source: str, target: str, elements: int, units: tuple[UnitConfig, ...], at: tuple[int, int] = (0, 0)
) -> list[Wiring]:
    """`at`: where the elements begin in both buffers."""
    cuts = parts(elements, _WAYS[tuple(unit.KIND for unit in units)])
    near = [End(source, row(count, at[0] + start)) for start, count in cuts]
    far = [End(target, row(count, at[1] + start, write=True)) for start, count in cuts]
    return [Wiring.chain([one], units, other, cut[1]) for one, other, cut in zip(near, far, cuts, strict=True)]


def require_int8(op: Op, *tensors: Tensor) -> None:
    for tensor in tensors:
        if not is_one_scale(tensor):
            seen = f"{op.kind} on {tensor.name}: {tensor.dtype}"
            raise Refusal(INT8_CODES, seen, "int8 with one scale for the tensor", "quantise the tensor to int8")
