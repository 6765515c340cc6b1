"""Variables of TFLite: what a run leaves for the next one becomes an output, what it finds there an input.

A program of the NPU is a function of its inputs. The application (or whoever tests the program) carries the state from
one run to the next by copying the codes of that output to that input.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from atonc.compiler.frontends import limits
from atonc.compiler.frontends.flatbuffer import FlatTable
from atonc.compiler.frontends.tflite_schema import OperatorField, SubgraphField
from atonc.compiler.ir import Array, CarriedState, Tensor
from atonc.machine.base.errors import ModelError, UnsupportedError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

INITIALISE, HANDLE, READ, ASSIGN = CODES = ("CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")


@dataclass
class Variable:
    """Numbers are indices of tensors of the subgraph."""

    name: str
    read: int = -1
    assigned: int = -1


def find(tables: Sequence[FlatTable], codes: Sequence[str]) -> dict[str, Variable]:
    """All variables of a subgraph by name. Each is read once at most, and before it gets its next value."""
    found, handles = dict[str, Variable](), dict[int, str]()
    for index, table in enumerate(tables):
        code = _code(table, codes)
        if code not in CODES[1:]:
            continue
        where = f"{code}_{index}"
        inputs, outputs = (operands(table, field, where) for field in (OperatorField.INPUTS, OperatorField.OUTPUTS))
        _require(len(outputs) == (code != ASSIGN) and len(inputs) == CODES.index(code) - 1, "wrong operands", where)
        if code == HANDLE:
            handles[outputs[0]] = _name(table)
            continue
        _require(inputs[0] in handles, "its first operand is no variable", where)
        variable = found.setdefault(handles[inputs[0]], Variable(handles[inputs[0]]))
        if code == ASSIGN:
            variable.assigned = inputs[1]
            continue
        if variable.read >= 0 or variable.assigned >= 0:
            raise UnsupportedError(
                f"variable {variable.name!r} is read again, or after it was assigned",
                where=where,
                rule="a variable is read once in a run, before it gets its next value",
                remedy="use the tensor that was read or assigned, instead of the variable",
            )
        variable.read = outputs[0]
    return found


def needed(tables: Sequence[FlatTable], outputs: Sequence[int], variables: Collection[Variable] = ()) -> list[int]:
    """The operators that these tensors depend on, in later runs too."""
    producers = {i: k for k, table in enumerate(tables) for i in operands(table, OperatorField.OUTPUTS, str(k))}
    next_value = {variable.read: variable.assigned for variable in variables}
    waiting, chosen = list(outputs), set[int]()
    while waiting:
        tensor = waiting.pop()
        index = producers.get(tensor)
        if index is not None and index not in chosen:
            chosen.add(index)
            waiting += operands(tables[index], OperatorField.INPUTS, str(index))
            waiting += [next_value[tensor]] if next_value.get(tensor, -1) >= 0 else []
    return sorted(chosen)


def choose(
    tables: Sequence[FlatTable], codes: Sequence[str], outputs: Sequence[int], cut: bool
) -> tuple[list[int], list[Variable]]:
    """The operators to translate: all, or where outputs were chosen (`cut`) or variables kept those that they depend
    on; and the variables that matter to them."""
    variables = find(tables, codes).values()
    if not cut and not variables:
        return list(range(len(tables))), []
    chosen = needed(tables, outputs, variables)
    seen = {i for k in chosen for i in operands(tables[k], OperatorField.OUTPUTS, str(k))}
    plain_ones = [index for index in chosen if _code(tables[index], codes) not in CODES]
    return plain_ones, [variable for variable in variables if variable.read in seen]


def first_values(
    tables: Sequence[FlatTable],
    codes: Sequence[str],
    subgraphs: Sequence[FlatTable],
    tensor: Callable[[int, int], Tensor],
) -> dict[str, Array]:
    """What the graphs behind CALL_ONCE assign, by name; `tensor` gives one by subgraph and index."""
    found = dict[str, Array]()
    for index, table in enumerate(tables):
        if _code(table, codes) != INITIALISE:
            continue
        options = table.table(OperatorField.OPTIONS)
        number = options.int32(0) if options is not None else 0
        _require(0 < number < len(subgraphs), f"subgraph {number} does not exist", f"{INITIALISE}_{index}")
        inner = subgraphs[number].tables(SubgraphField.OPERATORS)
        limits.count(len(inner), limits.MAX_OPS, "operators")
        for variable in find(inner, codes).values():
            value = tensor(number, variable.assigned) if variable.assigned >= 0 else None
            if value is not None and value.data is not None:
                found[variable.name] = value.data
    return found


def state(variable: Variable, read: Tensor, assigned: Tensor, first: Mapping[str, Array]) -> CarriedState:
    """What the application has to carry on."""
    start = first_value(variable, read, first)
    if (assigned.shape, assigned.dtype) != (read.shape, read.dtype):
        raise ModelError(
            f"variable {variable.name!r} is read as {read.dtype} {read.shape} and becomes {assigned.dtype} "
            f"{assigned.shape}",
            where=read.name,
        )
    return CarriedState(read.name, assigned.name, start)


def first_value(variable: Variable, read: Tensor, first: Mapping[str, Array]) -> Array:
    value = first.get(variable.name)
    if value is not None and value.shape == read.shape and str(value.dtype) == read.dtype:
        return value
    raise UnsupportedError(
        f"variable {variable.name!r} has no constant first value of {read.dtype} {read.shape}",
        where=read.name,
        rule="CALL_ONCE assigns a constant to every variable",
        remedy="export the model with initialised variables",
    )


def note(found: CarriedState) -> str:
    values = np.unique(found.first)
    start = f"all {values[0]}" if values.size == 1 else "the values in the model"
    return (
        f"a variable of the model is input {found.input!r} and output {found.output!r}: before each run copy the "
        f"output of the run before to the input; the first run begins with {start}"
    )


def operands(table: FlatTable, number: int, where: str) -> list[int]:
    values = [int(v) for v in table.array(number, "<i4")]
    if len(values) > limits.MAX_OPERANDS:
        raise ModelError(f"{count(len(values), 'operand')}", where=where)
    return values


def _code(table: FlatTable, codes: Sequence[str]) -> str:
    number = table.uint32(OperatorField.CODE)
    return codes[number] if number < len(codes) else ""


def _name(handle: FlatTable) -> str:
    """Variables are told apart by container and name."""
    options = handle.table(OperatorField.OPTIONS)
    return "/".join(plain(options.text(k)[: limits.MAX_NAME]) for k in (0, 1)) if options is not None else ""


def _require(holds: bool, what: str, where: str) -> None:
    if not holds:
        raise ModelError(what, where=where)
