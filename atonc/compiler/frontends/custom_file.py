"""The file of `--custom`: operators of the model that are C functions of the user, and how they are called."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.ir.types import Quantisation, check_shape
from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, ModelError
from atonc.machine.base.user_c import ELEMENTS, LISTS, VALUES, CustomOperator, CustomOutput, CustomValue, Value
from atonc.machine.base.words import count, listed

_MOST_BYTES, _MOST_SOURCE, _MOST_FILES, _MOST_OPERATORS = 1 << 20, 4 << 20, 32, 64
_MOST_CYCLES, _MOST_SCRATCH = (1 << 31) - 1, 1 << 26
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}\.[ch]")
_OURS = ("atonc_", "ll_", "stai_", "main")  # begin names of generated code and its runtime
_C_WORDS = (
    "alignas alignof asm auto bool break case char const constexpr continue default do double else enum extern false "
    "float for goto if inline int long nullptr register restrict return short signed sizeof static static_assert "
    "struct switch thread_local true typedef typeof union unsigned void volatile while"
)
_KEYS = {
    "operator": (
        "name",
        "domain",
        "function",
        "sources",
        "headers",
        "inputs",
        "outputs",
        "attributes",
        "cycles",
        "scratch_bytes",
    ),
    "output": ("type", "shape", "scale", "zero_point"),
    "attribute": ("name", "type", "default"),
}
_ENDS = ("sources", ".c"), ("headers", ".h")
_SAME = "same"  # the shape of the first input


def read_custom(path: str) -> dict[str, CustomOperator]:
    """By the names that operators have in a model: with the domain of ONNX in front, where there is one."""
    if not path:
        return {}
    return _File(Path(path)).operators()


def custom_files(path: str) -> list[Path]:
    """The declaration and the C files that it names."""
    if not path:
        return []
    file = _File(Path(path))
    file.operators()
    places = [place for row in file.root["operators"] for place in (*row["sources"], *row.get("headers", ()))]
    return [file.path, *(file.path.parent / place for place in places)]


def declaration_name(network: str) -> str:
    """The file beside a network that declares its operators."""
    return f"{network}_custom.json"


def declaration(operators: Iterable[CustomOperator]) -> bytes:
    """The file that declares them where all their files lie beside it."""
    return f"{json.dumps({'operators': list(map(_declared, operators))}, indent=2)}\n".encode()


def _declared(one: CustomOperator) -> dict[str, Any]:
    domain, _, name = one.name.rpartition(".")
    outputs = [_declared_output(made) for made in one.outputs]
    attributes = [{key: value for key, value in vars(value).items() if value is not None} for value in one.attributes]
    return {
        **{"name": name, "domain": domain, "function": one.function},
        **{key: [file for file, _ in one.files if file.endswith(end)] for key, end in _ENDS},
        **{"inputs": list(one.inputs), "outputs": outputs, "attributes": attributes},
        **({} if one.cycles is None else {"cycles": one.cycles}),
        **({"scratch_bytes": one.scratch_bytes} if one.scratch_bytes else {}),
    }


def _declared_output(one: CustomOutput) -> dict[str, Any]:
    codes = {"scale": one.scale, "zero_point": one.zero_point} if one.scale else {}
    return {"type": one.type, "shape": _SAME if one.shape is None else list(one.shape), **codes}


class _File:
    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.root = json.loads(read_file(path, _MOST_BYTES))
        except (ValueError, RecursionError) as error:
            raise self.fail(f"is not JSON: {str(error)[:100]}") from None

    def fail(self, what: str, remedy: str = "docs/custom_operators.md has an example") -> InputError:
        rule = "--custom names a file that declares C operators"
        return InputError(what, where=str(self.path), rule=rule, remedy=remedy)

    def operators(self) -> dict[str, CustomOperator]:
        rows = self.root.get("operators") if isinstance(self.root, dict) else None
        if not isinstance(rows, list) or not 0 < len(rows) <= _MOST_OPERATORS or len(self.root) != 1:
            raise self.fail(f'it holds one list "operators", of 1 to {_MOST_OPERATORS}')
        found = [self._operator(row) for row in rows]
        functions = {one.function: one.name for one in reversed(found)}
        for one in found:
            if functions[one.function] != one.name or [x.name for x in found].count(one.name) > 1:
                raise self.fail(f"{one.name} or {one.function}() is declared twice")
        return {one.name: one for one in found}

    def _operator(self, row: Any) -> CustomOperator:
        self._keys(row, "operator")
        name, domain, function = (self._text(row, key) for key in ("name", "domain", "function"))
        word = function in _C_WORDS.split()
        if word or function.lower().startswith(_OURS):
            taken = "a word of C" if word else f"names that begin with {listed(_OURS, 'or')} are taken"
            raise self.fail(f"{name[:60]!r} is called {function[:60]}(): {taken}", "give the C function another name")
        if not name or not _WORD.fullmatch(function):
            raise self.fail(
                f"{name[:60]!r} is called {function[:60]!r}()", "give the name of the operator and of a C function"
            )
        inputs = self._list(row, "inputs", 1)
        for kind in inputs:
            self._element(kind, name)
        attributes = tuple(self._attribute(one, name) for one in self._list(row, "attributes", 0))
        titles = [one.name for one in attributes]
        if twice := [title for title in titles if titles.count(title) > 1]:
            raise self.fail(f"{name}: attribute {twice[0][:60]!r} is declared twice", "declare it once")
        cycles, scratch = row.get("cycles"), row.get("scratch_bytes", 0)
        if cycles is not None and not (_is_whole(cycles) and 1 <= cycles <= _MOST_CYCLES):
            raise self.fail(
                f"{name}: cycles {str(cycles)[:40]} is no number of cycles",
                f"give 1 to {_MOST_CYCLES}, or leave it out if it was not measured",
            )
        if not _is_whole(scratch) or not 0 <= scratch <= _MOST_SCRATCH:
            raise self.fail(f"{name}: scratch_bytes {str(scratch)[:40]} is no number of bytes up to {_MOST_SCRATCH}")
        return CustomOperator(
            f"{domain}.{name}" if domain else name,
            function,
            tuple(self._files(row, name)),
            tuple(inputs),
            tuple(self._output(one, name) for one in self._list(row, "outputs", 1)),
            attributes,
            cycles,
            scratch,
        )

    def _output(self, row: Any, name: str) -> CustomOutput:
        row = {"type": row} if isinstance(row, str) else row
        self._keys(row, "output")
        kind, shape, scale, zero = (
            row.get("type"),
            row.get("shape", _SAME),
            row.get("scale"),
            row.get("zero_point", 0),
        )
        self._element(kind, name)
        if shape != _SAME and not (isinstance(shape, list) and all(_is_whole(n) and n > 0 for n in shape)):
            raise self.fail(
                f"{name}: the shape of an output is {str(shape)[:60]}",
                f'give a list of sizes, or "{_SAME}" as the first input',
            )
        codes = np.iinfo(kind) if kind != "float32" else np.iinfo("int32")
        known_scale = scale is None or (_is_number(scale) and np.float32(scale) > 0)
        if not known_scale or not _is_whole(zero) or not codes.min <= zero <= codes.max:
            raise self.fail(
                f"{name}: scale {str(scale)[:40]}, zero_point {str(zero)[:40]} are no format of {kind} codes",
                "give a scale above 0 and a code of that type, or neither where the model says them",
            )
        if (scale is None and zero) or (scale is not None and kind == "float32"):
            raise self.fail(f"{name}: an output of {kind} with scale {scale}, zero_point {zero}",
                            "codes have a scale and perhaps a zero_point, real numbers have neither")  # fmt: skip
        try:
            known = None if shape == _SAME else check_shape(tuple(shape), name)
        except ModelError as error:
            raise self.fail(f"{name}: {error.what}", "give the sizes that the output has") from None
        return CustomOutput(kind, known, float(np.float32(scale or 0.0)), zero)  # as files have scales

    def _attribute(self, row: Any, name: str) -> CustomValue:
        row = {"name": row, "type": None} if isinstance(row, str) else row
        self._keys(row, "attribute")
        title, kind = self._text(row, "name"), row.get("type")
        if kind not in VALUES:
            raise self.fail(
                f"{name}: the type of attribute {title[:60]!r} is {str(kind)[:40]}",
                f"give it one of {listed(list(VALUES), 'or')}",
            )
        default = row.get("default")
        return CustomValue(
            title,
            kind,
            None
            if default is None
            else value_as(kind, default, self.fail(f"{name}: the default of {title[:60]!r} is no {kind}")),
        )

    def _files(self, row: Any, name: str) -> Iterator[tuple[str, bytes]]:
        """All in one folder, as they will lie beside the network."""
        sources, headers = self._list(row, "sources", 1), self._list(row, "headers", 0)
        taken = set[str]()
        for place in (*sources, *headers):
            file = place.rpartition("/")[2] if isinstance(place, str) else ""
            if not _FILE.fullmatch(file) or file.lower().startswith(_OURS) or file.casefold() in taken:
                raise self.fail(
                    f"{name}: {str(place)[:80]!r} cannot be a C file beside the network",
                    "give names that end in .c or .h, each once; atonc_*, ll_*, stai_*, main* are taken",
                )
            taken.add(file.casefold())
            folder = self.path.resolve().parent
            target = folder.joinpath(place).resolve()
            if not target.is_relative_to(folder):
                raise self.fail(
                    f"{name}: {place[:80]!r} is not in the folder of this file", "put the C files beside it, or below"
                )
            yield file, read_file(target, _MOST_SOURCE)
        if not all(str(place).endswith(".c") for place in sources):
            raise self.fail(f"{name}: sources end in .c, headers in .h")

    def _keys(self, row: Any, what: str) -> None:
        if not isinstance(row, dict):
            raise self.fail(f"{str(row)[:60]!r} is no description of an {what}")
        for key in row:
            if key not in _KEYS[what]:
                raise self.fail(
                    f"an {what} has no {key[:60]!r}", did_you_mean(key, _KEYS[what], f"it has {listed(_KEYS[what])}")
                )

    def _text(self, row: Mapping[str, Any], key: str) -> str:
        found = row.get(key, "")
        if not isinstance(found, str) or len(found) > 200 or not found.isprintable():
            raise self.fail(f"{key} is {str(found)[:60]!r}, not a name")
        return found

    def _list(self, row: Mapping[str, Any], key: str, least: int) -> list[Any]:
        found = row.get(key, [])
        if not isinstance(found, list) or not least <= len(found) <= _MOST_FILES:
            raise self.fail(f"{key} is no list of {least} to {_MOST_FILES}")
        return found

    def _element(self, kind: Any, name: str) -> None:
        if kind not in ELEMENTS:
            raise self.fail(f"{name}: the element type {str(kind)[:40]!r}", f"it is one of {listed(ELEMENTS, 'or')}")


def require_count(node: str, operator: CustomOperator, inputs: int, outputs: int) -> None:
    declared = len(operator.inputs), len(operator.outputs)
    if (inputs, outputs) != declared:
        has, wants = (f"{count(a, 'input')} and {count(b, 'output')}" for a, b in ((inputs, outputs), declared))
        raise unlike(node, f"it has {has}, its declaration {wants}")


def values_of(node: str, operator: CustomOperator, given: Callable[[CustomValue], object | None]) -> tuple[Value, ...]:
    """What a node hands on to its function. `given`: an attribute as the file has it."""
    found = []
    for one in operator.attributes:
        value = given(one)
        value = one.default if value is None else value
        if value is None:
            raise unlike(node, f"it has no attribute {one.name!r}, and there is no default")
        found.append(value_as(one.type, value, unlike(node, f"its attribute {one.name!r} is no {one.type}")))
    return tuple(found)


def unlike(node: str, what: str) -> InputError:
    """The error for a node that is not as its operator is declared."""
    return InputError(
        what,
        where=node,
        rule="an operator of --custom is called as its declaration says",
        remedy="change the declaration, or the model",
    )


def code_format(quant: Quantisation) -> str:
    """For errors."""
    return f"scale {quant.scales.reshape(-1)[0]:.9g}, zero point {quant.zero_points.reshape(-1)[0]}"


def value_as(kind: str, value: Any, error: InputError) -> Value:
    """An attribute as C has it; anything else is the error."""
    if kind in LISTS:
        values: Sequence[Any] = list(value) if isinstance(value, list | tuple | bytes) else [value]
        return tuple(_one(kind, each, error) for each in values)
    return _one(kind, value, error)


def _one(kind: str, value: Any, error: InputError) -> int | float:
    low, high = (0, 255) if kind == "bytes" else (-(1 << 31), (1 << 31) - 1)
    if kind.startswith("float"):
        if _is_number(value):
            return float(value)
    elif _is_whole(value) and low <= value <= high:
        return int(value)
    raise error


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e38
