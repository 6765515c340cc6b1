"""Constant expressions, initialisers and literals of generated C, as Python values; C files as trees, functions as
lists of calls with evaluated arguments, arrays as bytes."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from atonc.machine.base.errors import InputError
from atonc.machine.emu.files.c_text import (
    BINARY,
    MAX_SOURCE_BYTES,
    NARROW,
    SIZES,
    Preprocessed,
    TranslationUnit,
    blank,
    bounded_depth,
    c_parser,
    declared_name,
    flat_list,
    number,
    parse_expression,
    preprocess,
    read_source,
    require_sound,
    unescape,
)
from atonc.machine.emu.files.types import CValue, EpochFlags, FunctionCall, Symbol

if TYPE_CHECKING:
    from tree_sitter import Node

_UNION_FIELD = re.compile(r"addr_base|\w+_vector")  # unions of pointer types: braces around one address


def store(result: dict[str, CValue], path: list[str | int], value: CValue, node: Node, unit: TranslationUnit) -> None:
    """`.a.b.c = v` into nested dicts."""
    for key in path[:-1]:
        inner = result.setdefault(str(key), {})
        if not isinstance(inner, dict):
            raise unit.error(f"field {key} is initialised twice in different ways", node)
        result = inner
    name = str(path[-1])
    if isinstance(value, list) and len(value) == 1 and _UNION_FIELD.fullmatch(name):
        value = value[0]
    result[name] = value


def store_indexed(
    array: list[CValue], path: list[str | int], value: CValue, node: Node, unit: TranslationUnit
) -> list[CValue]:
    index = path[0]
    if len(path) != 1 or not isinstance(index, int) or not 0 <= index < 1 << 20:
        raise unit.error("this array designator is not understood", node)
    array.extend([0] * (index + 1 - len(array)))
    array[index] = value
    return array


MAX_DEPTH = 80
MAX_CHAIN = 16  # globals and macros that refer to each other
MAX_ELEMENTS = 1 << 24
_WORD = 1 << 64

# Address translations of ST's headers: on the target they do nothing.
_TRANSPARENT = {
    "ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR",
    "__LL_ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR",
    "ATON_LIB_VIRTUAL_TO_PHYSICAL_ADDR",
    "LL_Address_Physical2Virtual",
    "LL_Address_Virtual2Physical",
    "LL_ATON_virt_to_bus",
}
_NUMBERS = {f"__builtin_{name}{size}": float(name) for name in ("inf", "nan") for size in ("", "f")}
_PORT_MACROS = {"ATONN_DSTPORT", "ATONN_SRCPORT"}
# Macros that stand for a designator: LL_Switch_Init_Source(1) = v means .source1 = v
_DESIGNATOR_MACRO = re.compile(r"LL_Switch_(?:Init|Deinit)_(Dest|Source|Context|Frames)\s*\(\s*(\d?)\s*\)")

CONSTANTS: dict[str, CValue] = {f"EpochBlock_Flags_{name}": int(flag) for name, flag in (
    ("NONE", EpochFlags.NONE), ("epoch_start", EpochFlags.EPOCH_START), ("epoch_end", EpochFlags.EPOCH_END),
    ("blob", EpochFlags.BLOB), ("last_eb", EpochFlags.LAST), ("pure_hw", EpochFlags.PURE_HW),
    ("pure_sw", EpochFlags.PURE_SW), ("hybrid", EpochFlags.HYBRID), ("internal", EpochFlags.INTERNAL),
    ("blob_encrypted", EpochFlags.BLOB_ENCRYPTED),
)}  # fmt: skip
CONSTANTS |= {"true": 1, "false": 0, "NULL": None}


class Scope:
    """Names visible at one point; a missing name becomes a `Symbol`."""

    def __init__(
        self, unit: TranslationUnit, parent: Scope | None = None, externals: Mapping[str, CValue] | None = None
    ) -> None:
        self.unit, self.parent = unit, parent
        self.names: dict[str, CValue] = dict(externals or {})
        self._pending: set[str] = set()

    def lookup(self, name: str) -> CValue:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            if scope.parent is None:
                return scope._global(name)
            scope = scope.parent
        return Symbol(name)

    def _global(self, name: str) -> CValue:
        """Globals and macros are evaluated when first used."""
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in self._pending:
            raise InputError(f"{name} is defined by itself", where=self.unit.path)
        if len(self._pending) >= MAX_CHAIN:
            raise InputError(f"more than {MAX_CHAIN} names defined by each other", where=self.unit.path)
        self._pending.add(name)
        try:
            value = self._evaluate_global(name)
        finally:
            self._pending.discard(name)
        self.names[name] = value
        return value

    def _evaluate_global(self, name: str) -> CValue:
        if name in self.unit.source.defines:
            parsed = parse_expression(self.unit.source.defines[name])
            return Symbol(name) if parsed is None else Evaluator(parsed[0]).value(parsed[1], self)
        declarator = self.unit.globals.get(name)
        initialiser = declarator.child_by_field_name("value") if declarator is not None else None
        return Symbol(name) if initialiser is None else Evaluator(self.unit).value(initialiser, self)


class Evaluator:
    """Evaluates expression nodes of one unit."""

    def __init__(self, unit: TranslationUnit) -> None:
        self.unit = unit
        self.depth = 0

    def value(self, node: Node, scope: Scope) -> CValue:
        handler = _HANDLERS.get(node.type)
        if handler is None:
            raise self.unit.error(f"cannot evaluate a {node.type.replace('_', ' ')} here", node)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.unit.error(f"nested deeper than {MAX_DEPTH} levels", node)
        try:
            return handler(self, node, scope)
        finally:
            self.depth -= 1

    # -- leaves

    def _number(self, node: Node, scope: Scope) -> CValue:
        value = number(self.unit.slice(node))
        if value is None or (not -_WORD < value < _WORD and isinstance(value, int)):
            raise self.unit.error(f"not a number: {self.unit.slice(node)[:40]}", node)
        return value

    def _identifier(self, node: Node, scope: Scope) -> CValue:
        return scope.lookup(self.unit.slice(node))

    def _string(self, node: Node, scope: Scope) -> CValue:
        body = self.unit.slice(node)
        inner = body[body.index('"') + 1 : -1] if '"' in body else body
        return unescape(inner)

    def _strings(self, node: Node, scope: Scope) -> CValue:
        return "".join(str(self._string(part, scope)) for part in node.named_children)

    def _null(self, node: Node, scope: Scope) -> CValue:
        return None

    def _char(self, node: Node, scope: Scope) -> CValue:
        body = unescape(self.unit.slice(node).strip("'"))
        return ord(body) if len(body) == 1 else Symbol(self.unit.slice(node)[:40])

    # -- structure

    def _parenthesised(self, node: Node, scope: Scope) -> CValue:
        children = [c for c in node.named_children if c.type != "comment"]
        if len(children) != 1:
            raise self.unit.error("this expression is not understood", node)
        return self.value(children[0], scope)

    def _initialiser(self, node: Node, scope: Scope) -> CValue:
        flat = self.unit.lists.get(node.start_byte) or flat_list(self.unit.slice(node))
        if flat is not None:
            return flat
        items = [child for child in node.children if child.is_named and child.type != "comment"]
        if len(items) > MAX_ELEMENTS:
            raise self.unit.error(f"more than {MAX_ELEMENTS} elements", node)
        if items and items[0].type in ("initializer_pair", "assignment_expression"):
            return self._struct(items, scope)
        return [self.value(item, scope) for item in items]

    def _struct(self, items: list[Node], scope: Scope) -> CValue:
        result: dict[str, CValue] = {}
        indexed: list[CValue] | None = None
        for item in items:
            if item.type == "assignment_expression":
                self._assign_macro(item, scope, result)
                continue
            if item.type != "initializer_pair":
                raise self.unit.error("designated and plain initialisers are mixed", item)
            path, value_node = self._designator(item, scope)
            value = self.value(value_node, scope)
            if isinstance(path[0], int):
                indexed = store_indexed(indexed or [], path, value, item, self.unit)
            else:
                store(result, path, value, item, self.unit)
        return result if indexed is None else indexed

    def _designator(self, pair: Node, scope: Scope) -> tuple[list[str | int], Node]:
        children = pair.children
        path: list[str | int] = []
        for child in children:
            kind = child.type
            if kind == "field_designator":
                path.append(self.unit.text[child.start_byte + 1 : child.end_byte].decode("utf-8", "replace").strip())
            elif kind == "subscript_designator":
                path.append(self._integer(child.named_children[0], scope))
            elif kind == "=":
                break
            else:
                raise self.unit.error("this designator is not understood", child)
        if not path or not children[-1].is_named or len(path) > 16:
            raise self.unit.error("this initialiser is not understood", pair)
        return path, children[-1]

    def _assign_macro(self, node: Node, scope: Scope, result: dict[str, CValue]) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        match = _DESIGNATOR_MACRO.fullmatch(self.unit.slice(left)) if left is not None else None
        if match is None or right is None:
            raise self.unit.error("this initialiser is not understood", node)
        result[match[1].lower() + match[2]] = self.value(right, scope)

    # -- operators

    def _integer(self, node: Node, scope: Scope) -> int:
        value = self.value(node, scope)
        if not isinstance(value, int):
            raise self.unit.error(f"{self.unit.slice(node)[:60]} is not a known integer", node)
        return value

    def _parts(self, node: Node, what: str, *names: str) -> list[Node]:
        """Parts of a node, all of which it must have."""
        found = [part for name in names if (part := node.child_by_field_name(name)) is not None]
        if len(found) != len(names):
            raise self.unit.error(f"this {what} is not understood", node)
        return found

    def _cast(self, node: Node, scope: Scope) -> CValue:
        type_node, value_node = self._parts(node, "cast", "type", "value")
        value = self.value(value_node, scope)
        target = " ".join(self.unit.slice(type_node).replace("const", "").split())
        if isinstance(value, (int, float)) and target in NARROW:
            bits, signed = NARROW[target]
            if isinstance(value, float) and not abs(value) < _WORD:
                raise self.unit.error(f"{value} does not fit {target}", node)
            low = int(value) & ((1 << bits) - 1)
            return low - (1 << bits) if signed and low >> (bits - 1) else low
        return float(value) if target in ("float", "double") and isinstance(value, int) else value

    def _binary(self, node: Node, scope: Scope) -> CValue:
        left_node, right_node, operator = self._parts(node, "expression", "left", "right", "operator")
        left, right = self.value(left_node, scope), self.value(right_node, scope)
        name = self.unit.slice(operator)
        if isinstance(left, list) and isinstance(right, int) and name == "+" and 0 <= right <= len(left):
            return left[right:]
        if isinstance(left, Symbol) and name in ("+", "-") and right == 0:
            return left
        return self._arithmetic(name, left, right, node)

    def _arithmetic(self, name: str, left: CValue, right: CValue, node: Node) -> CValue:
        if isinstance(left, float) or isinstance(right, float):
            return self._float_arithmetic(name, left, right, node)
        if not isinstance(left, int) or not isinstance(right, int) or name not in BINARY:
            raise self.unit.error(f"{self.unit.slice(node)[:80]} has no known value", node)
        if (name in ("/", "%") and right == 0) or (name in ("<<", ">>") and not 0 <= right < 64):
            raise self.unit.error("division by zero or impossible shift", node)
        result = BINARY[name](left, right)
        if not -_WORD < result < _WORD:
            raise self.unit.error("a constant is wider than 64 bits", node)
        return result

    def _float_arithmetic(self, name: str, left: CValue, right: CValue, node: Node) -> CValue:
        if not isinstance(left, (int, float)) or not isinstance(right, (int, float)) or (name == "/" and right == 0):
            raise self.unit.error(f"{self.unit.slice(node)[:80]} has no known value", node)
        if name not in ("+", "-", "*", "/"):
            raise self.unit.error(f"operator {name} on floats", node)
        operations = {"+": left + right, "-": left - right, "*": left * right}
        return operations[name] if name in operations else left / right

    def _unary(self, node: Node, scope: Scope) -> CValue:
        operand, operator = self._parts(node, "expression", "argument", "operator")
        value, name = self.value(operand, scope), self.unit.slice(operator)
        if name == "!" and (value is None or isinstance(value, int)):
            return int(not value)
        if not isinstance(value, (int, float)) or (name == "~" and isinstance(value, float)):
            raise self.unit.error(f"{self.unit.slice(node)[:60]} has no known value", node)
        return -value if name == "-" else ~int(value) if name == "~" else value

    def _pointer(self, node: Node, scope: Scope) -> CValue:
        """`&x` is x itself, `&a[k]` the rest of the array, `*p` the first element."""
        operand, operator = self._parts(node, "expression", "argument", "operator")
        if self.unit.slice(operator) == "&":
            rest = operand.type == "subscript_expression"
            return self._subscript_rest(operand, scope) if rest else self.value(operand, scope)
        value = self.value(operand, scope)
        if isinstance(value, list) and value:
            return value[0]
        if (
            isinstance(value, float) and abs(value) < 3e38 and "int32_t" in self.unit.slice(operand)
        ):  # *((int32_t*)&a_float): its bits
            return int(struct.unpack("<i", struct.pack("<f", value))[0])
        if isinstance(value, int):
            return value
        raise self.unit.error(f"{self.unit.slice(node)[:60]} has no known value", node)

    def _subscript(self, node: Node, scope: Scope) -> CValue:
        rest = self._subscript_rest(node, scope)
        if not isinstance(rest, list) or not rest:
            raise self.unit.error("array index outside the array", node)
        return rest[0]

    def _subscript_rest(self, node: Node, scope: Scope) -> CValue:
        array_node, index_node = self._parts(node, "index", "argument", "index")
        array, index = self.value(array_node, scope), self._integer(index_node, scope)
        if not isinstance(array, list) or not 0 <= index < len(array):
            raise self.unit.error("array index outside the array", node)
        return array[index:]

    def _conditional(self, node: Node, scope: Scope) -> CValue:
        condition, then, other = self._parts(node, "expression", "condition", "consequence", "alternative")
        value = self.value(condition, scope)
        if isinstance(value, Symbol) and "MustDecrypt" in value.name:
            value = 0  # a macro of the blob header; encrypted blobs are refused where they are read
        if not isinstance(value, int):
            raise self.unit.error("the condition has no known value", node)
        return self.value(then if value else other, scope)

    def _compound(self, node: Node, scope: Scope) -> CValue:
        """`(type){ ... }` is what its braces say."""
        return self.value(self._parts(node, "expression", "value")[0], scope)

    def _call(self, node: Node, scope: Scope) -> CValue:
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        name = self.unit.slice(function) if function is not None else ""
        args = arguments.named_children if arguments is not None else []
        if name in _TRANSPARENT and len(args) == 1:
            return self.value(args[0], scope)
        if name in _PORT_MACROS and len(args) == 5:
            _, _, unit, instance, port = (self.value(a, scope) for a in args)
            return {"unit": unit, "instance": instance, "port": port}
        if name in _NUMBERS:
            return _NUMBERS[name]
        if name == "defined" and len(args) == 1:
            return int(scope.unit.source.is_defined(self.unit.slice(args[0])))
        return Symbol(self.unit.slice(node)[:200])

    def _sizeof(self, node: Node, scope: Scope) -> CValue:
        type_node = node.child_by_field_name("type")
        name = " ".join(self.unit.slice(type_node).split()) if type_node is not None else ""
        if name.endswith("*"):
            return 4
        return SIZES.get(name, Symbol(self.unit.slice(node)[:80]))


_HANDLERS: dict[str, Callable[[Evaluator, Node, Scope], CValue]] = {
    "number_literal": Evaluator._number,
    "identifier": Evaluator._identifier,
    "true": Evaluator._identifier,
    "false": Evaluator._identifier,
    "string_literal": Evaluator._string,
    "concatenated_string": Evaluator._strings,
    "char_literal": Evaluator._char,
    "null": Evaluator._null,
    "parenthesized_expression": Evaluator._parenthesised,
    "initializer_list": Evaluator._initialiser,
    "compound_literal_expression": Evaluator._compound,
    "cast_expression": Evaluator._cast,
    "binary_expression": Evaluator._binary,
    "unary_expression": Evaluator._unary,
    "pointer_expression": Evaluator._pointer,
    "subscript_expression": Evaluator._subscript,
    "conditional_expression": Evaluator._conditional,
    "call_expression": Evaluator._call,
    "sizeof_expression": Evaluator._sizeof,
    "preproc_defined": Evaluator._call,
}


class _ConditionScope(Scope):
    """In an `#if`, a name that is not a macro is 0."""

    def lookup(self, name: str) -> CValue:
        value = super().lookup(name)
        return value if isinstance(value, int) else 0


def evaluate_condition(text: str, source: Preprocessed) -> bool:
    """The truth of an `#if` expression; what we cannot understand counts as true."""
    text = re.sub(r"\bdefined\s*\(?\s*(\w+)\s*\)?", lambda m: str(int(source.is_defined(m[1]))), text)
    parsed = parse_expression(text)
    if parsed is None:
        return True
    try:
        scope = _ConditionScope(TranslationUnit("#if", b"", parsed[0].root, source))
        return bool(Evaluator(parsed[0]).value(parsed[1], scope))
    except InputError:
        return True


_LONG_LIST = re.compile(rb"\{[-+0-9.,eEf\s]{1024,}\}")


def parse_unit(source: bytes, path: str) -> TranslationUnit:
    """Parses C text. Broken syntax is reported when a broken function is used, not before."""
    if len(source) > MAX_SOURCE_BYTES:
        raise InputError("too large for a generated C file", where=path)
    prepared = preprocess(source, path, evaluate_condition)
    lists: dict[int, list[CValue]] = {}
    root = c_parser().parse(_without_lists(prepared.text, lists)).root_node
    unit = TranslationUnit(path, prepared.text, root, prepared, lists)
    for node in unit.root.named_children:
        if node.type == "function_definition":
            name = declared_name(node, unit)
            if name:
                unit.functions[name] = node
        elif node.type == "declaration":
            _collect_globals(node, unit)
    return unit


def _without_lists(text: bytes, lists: dict[int, list[CValue]]) -> bytes:
    """The text with long brace lists of plain numbers blanked, each number read already: a tree of them would take a
    hundred times their room."""

    def blanked(match: re.Match[bytes]) -> bytes:
        numbers = flat_list(match[0].decode())
        if numbers is None:
            return match[0]
        lists[match.start()] = numbers
        return b"{0" + blank(match[0][2:-1]) + b"}"

    return _LONG_LIST.sub(blanked, text)


def _collect_globals(declaration: Node, unit: TranslationUnit) -> None:
    for declarator in declaration.children_by_field_name("declarator"):
        name = declared_name(declarator, unit)
        if name and declarator.type != "function_declarator":
            unit.globals[name] = declarator


MAX_BLOCK_DEPTH = 32
_NO_EFFECT = {"LL_ATON_LIB_UNUSED", "assert"}


class FunctionReader:
    """Reads functions of one unit; globals are shared between them."""

    def __init__(self, unit: TranslationUnit, externals: Mapping[str, CValue] | None = None) -> None:
        self.unit = unit
        self.globals = Scope(unit, externals=externals)
        self._evaluator = Evaluator(unit)
        self._known: dict[str, tuple[tuple[FunctionCall, ...], CValue]] = {}

    def calls(self, name: str) -> tuple[FunctionCall, ...]:
        """The calls that a function makes, in order."""
        return self._read(name)[0]

    def returned(self, name: str) -> CValue:
        """What a function without parameters returns."""
        return self._read(name)[1]

    def _read(self, name: str) -> tuple[tuple[FunctionCall, ...], CValue]:
        if name not in self._known:
            node = self.unit.functions.get(name)
            body = node.child_by_field_name("body") if node is not None else None
            if node is None or body is None:
                raise InputError(
                    f"function {name} is used but not defined",
                    where=self.unit.path,
                    remedy="the file is damaged or cut off; generate or fetch it again",
                )
            require_sound(node, self.unit)
            run = _FunctionRun(self.unit, self._evaluator)
            run.block(body, Scope(self.unit, self.globals), 0)
            self._known[name] = (tuple(run.calls), run.result)
        return self._known[name]


class _FunctionRun:
    """One pass over the statements of a function."""

    def __init__(self, unit: TranslationUnit, evaluator: Evaluator) -> None:
        self.unit, self.evaluator = unit, evaluator
        self.calls: list[FunctionCall] = []
        self.result: CValue = None
        self.returned = False

    def block(self, node: Node, scope: Scope, depth: int) -> None:
        if depth > MAX_BLOCK_DEPTH:
            raise self.unit.error(f"blocks nested deeper than {MAX_BLOCK_DEPTH}", node)
        for child in node.named_children:
            if self.returned:
                return
            self.statement(child, scope, depth)

    def statement(self, node: Node, scope: Scope, depth: int) -> None:
        kind = node.type
        if kind == "declaration":
            self._declare(node, scope)
        elif kind == "expression_statement":
            for expression in node.named_children:
                self._expression(expression, scope)
        elif kind == "compound_statement":
            self.block(node, Scope(self.unit, scope), depth + 1)
        elif kind == "return_statement":
            values = node.named_children
            self.result = self.evaluator.value(values[0], scope) if values else None
            self.returned = True
        elif kind == "if_statement":
            self._branch(node, scope, depth)
        elif kind != "comment":
            raise self.unit.error(f"a {kind.replace('_', ' ')} is not expected in generated code", node)

    def _declare(self, node: Node, scope: Scope) -> None:
        for declarator in node.children_by_field_name("declarator"):
            name = declared_name(declarator, self.unit)
            if name is None:
                raise self.unit.error("this declaration is not understood", node)
            value = declarator.child_by_field_name("value")
            if value is not None:
                scope.names[name] = self.evaluator.value(value, scope)

    def _expression(self, node: Node, scope: Scope) -> None:
        if node.type == "call_expression":
            self._call(node, scope)
        elif node.type == "assignment_expression":
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            if left is None or right is None or left.type != "identifier" or self.unit.slice(node.children[1]) != "=":
                raise self.unit.error("this assignment is not understood", node)
            scope.names[self.unit.slice(left)] = self.evaluator.value(right, scope)
        else:
            self.evaluator.value(node, scope)

    def _call(self, node: Node, scope: Scope) -> None:
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or arguments is None:
            raise self.unit.error("this call is not understood", node)
        name = self.unit.slice(function)
        if name in _NO_EFFECT:
            return
        args = [a for a in arguments.named_children if a.type != "comment"]
        self.calls.append(
            FunctionCall(name, tuple(self.evaluator.value(a, scope) for a in args), self.unit.where(node))
        )

    def _branch(self, node: Node, scope: Scope, depth: int) -> None:
        condition, then = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
        value = self.evaluator.value(condition, scope) if condition is not None else None
        if not isinstance(value, int) or then is None:
            raise self.unit.error("the outcome of this branch is not known", node)
        if value:
            self.statement(then, scope, depth + 1)
            return
        other = node.child_by_field_name("alternative")
        if other is not None:
            self.statement(other.named_children[-1], scope, depth + 1)


_ELEMENT_BYTES = {
    "uint8_t": 1, "int8_t": 1, "char": 1, "unsigned char": 1, "signed char": 1, "uint16_t": 2, "int16_t": 2,
    "uint32_t": 4, "int32_t": 4, "uint64_t": 8, "int64_t": 8, "unsigned long long": 8,
}  # fmt: skip


@bounded_depth
def c_array_bytes(path: Path, name: str) -> bytes | None:
    """The bytes of a global array in a C file, little endian; None if the file does not define it."""
    source = read_source(path)
    if not re.search(rb"\b" + re.escape(name.encode()) + rb"\s*\[", source):
        return None
    return unit_array_bytes(parse_unit(source, str(path)), name)


def unit_array_bytes(unit: TranslationUnit, name: str) -> bytes | None:
    """The same for a parsed unit."""
    for node in unit.root.named_children:
        if node.type != "declaration":
            continue
        for declarator in node.children_by_field_name("declarator"):
            value = declarator.child_by_field_name("value")
            if value is not None and declared_name(declarator, unit) == name:
                require_sound(node, unit)
                type_node = node.child_by_field_name("type")
                kind = " ".join(unit.slice(type_node).split()) if type_node is not None else ""
                return _pack(Evaluator(unit).value(value, Scope(unit)), kind, unit.where(node))
    return None


def _pack(values: object, kind: str, where: str) -> bytes:
    width = _ELEMENT_BYTES.get(kind)
    if width is None:
        raise InputError(f"array elements of type {kind or '?'} are not understood", where=where)
    if not isinstance(values, list) or not all(isinstance(v, int) for v in values):
        raise InputError("the array holds something that is not an integer", where=where)
    limit = 1 << (8 * width)
    if any(not -limit // 2 <= v < limit for v in values):
        raise InputError(f"a value does not fit {kind}", where=where)
    wrapped = np.array([v % limit for v in values], dtype=np.uint64)
    return wrapped.astype(f"<u{width}").tobytes()
