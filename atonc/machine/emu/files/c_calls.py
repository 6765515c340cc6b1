"""Epoch functions as ordered lists of calls with evaluated arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from atonc.machine.base.errors import InputError
from atonc.machine.emu.files.c_syntax import TranslationUnit, declared_name, require_sound
from atonc.machine.emu.files.c_values import Evaluator, Scope
from atonc.machine.emu.files.types import CValue, FunctionCall

if TYPE_CHECKING:
    from tree_sitter import Node

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
