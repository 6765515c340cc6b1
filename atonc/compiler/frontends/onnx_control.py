"""If, Loop and Scan of ONNX whose course is known when the model is compiled: their nodes take the place of the node.

A condition may be known only because shapes are: it is looked at when everything before it has been read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atonc.compiler.frontends.onnx_builder import Builder, Node, translates
from atonc.compiler.ir import Tensor
from atonc.machine.base.errors import ModelError, UnsupportedError

MOST_TURNS = 256
KINDS = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",)}
EXPORT = "export the model for one case"


@translates("If")
def branch(node: Node) -> None:
    condition = node.input(0)
    if condition.data is None:
        error = node.builder.late(f"If whose condition {node.inputs[0]!r} is computed at run time", node.inputs[0])
        error.rule = "the order of operators is fixed when the model is compiled: constants and shapes decide"
        error.remedy = error.remedy or EXPORT
        raise error
    if condition.elements != 1:
        raise ModelError(f"If with a condition of shape {condition.shape}", where=node.name)
    found = _body(node, "then_branch" if condition.data.reshape(-1)[0] else "else_branch")
    results = node.builder.inline(found, node.name, {})
    if len(results) != len(node.outputs):
        raise ModelError(f"If of {len(node.outputs)} outputs with a branch of {len(results)}", where=node.name)
    for name, inner in zip(node.outputs, results, strict=True):
        if name:
            alias(node.builder, name, inner)


@translates("Loop")
def loop(node: Node) -> None:
    """Turn after turn; what a turn gives beyond its variables is stacked."""
    body, builder = _body(node, "body"), node.builder
    carried = list(node.inputs[2:])
    count = len(carried)
    if len(body.input) != count + 2 or len(body.output) != len(node.outputs) + 1 or len(node.outputs) < count:
        raise ModelError(f"Loop of {count} variables with a body of {len(body.input)} inputs", where=node.name)
    limit, goes_on = _number(node, 0, "a number of turns"), _number(node, 1, "a condition") != 0
    turns, stacked = 0, [list[Tensor]() for _ in node.outputs[count:]]
    while goes_on and (limit is None or turns < limit):
        label = _next_turn(node, turns)
        given = dict(zip((value.name for value in body.input[2:]), carried, strict=True))
        for value, data in zip(body.input, (np.array(turns, np.int64), np.array(True)), strict=False):
            given[value.name] = f"{label}/{value.name}"
            builder.bind(given[value.name], builder.constant(given[value.name], data))
        results = builder.inline(body, label, given)
        carried = results[1 : count + 1]
        for parts, name in zip(stacked, results[count + 1 :], strict=True):
            parts.append(builder.value(name))
        said = builder.value(results[0]).data
        if said is None or said.size != 1:
            raise refusal(node, "a condition computed at run time")
        goes_on, turns = bool(said.reshape(-1)[0]), turns + 1
    for name, source in zip(node.outputs, carried, strict=False):
        if name:
            alias(builder, name, source)
    for name, parts in zip(node.outputs[count:], stacked, strict=True):
        _bind_stacked(node, name, parts, 0)


@translates("Scan")
def scan(node: Node) -> None:
    """A turn for each place along an axis of what is scanned."""
    body, builder, scanned = _body(node, "body"), node.builder, node.integer("num_scan_inputs", 0)
    count, made = len(node.inputs) - scanned, len(node.outputs) - len(node.inputs) + scanned
    fits = len(body.input) == len(node.inputs) and len(body.output) == len(node.outputs)
    if node.opset < 9 or min(scanned - 1, count, made) < 0 or not fits:
        raise ModelError(f"Scan of {len(node.inputs)} inputs by a body of {len(body.input)}", where=node.name)
    axes, backwards = ([*node.ints(f"scan_input_{key}", (0,) * scanned)] for key in ("axes", "directions"))
    slices = [_slices(node, node.input(count + k), axes[k], bool(backwards[k])) for k in range(scanned)]
    if len(lengths := {len(parts) for parts in slices}) != 1:
        raise ModelError(f"Scan along {sorted(lengths)} values at once", where=node.name)
    carried, stacked = list(node.inputs[:count]), [list[Tensor]() for _ in range(made)]
    names = [value.name for value in body.input]
    for turn, parts in enumerate(zip(*slices, strict=True)):
        label = _next_turn(node, turn)
        given = dict(zip(names, [*carried, *(f"{label}/{name}" for name in names[count:])], strict=True))
        for name, part in zip(names[count:], parts, strict=True):
            builder.bind(given[name], part)
        results = builder.inline(body, label, given)
        carried = results[:count]
        for found, name in zip(stacked, results[count:], strict=True):
            found.append(builder.value(name))
    for name, source in zip(node.outputs, carried, strict=False):
        if name:
            alias(builder, name, source)
    axes, backwards = ([*node.ints(f"scan_output_{key}", (0,) * made)] for key in ("axes", "directions"))
    for k, name in enumerate(node.outputs[count:]):
        _bind_stacked(node, name, stacked[k][::-1] if backwards[k] else stacked[k], axes[k])


def _slices(node: Node, x: Tensor, axis: int, backwards: bool) -> list[Tensor]:
    axis = node.axis(axis, len(x.shape))
    if x.shape[axis] > MOST_TURNS:
        raise refusal(node, f"more than {MOST_TURNS} turns")
    before, behind = x.shape[:axis], x.shape[axis + 1 :]
    whole = [slice(0, size) for size in x.shape]
    windows = ([*whole[:axis], slice(at, at + 1), *whole[axis + 1 :]] for at in range(x.shape[axis]))
    found = [node.reshaped(node.sliced(x, window), (*before, *behind)) for window in windows]
    return found[::-1] if backwards else found


def _next_turn(node: Node, turn: int) -> str:
    """Its name; loops inside loops count too."""
    node.builder.turns += 1
    if node.builder.turns > MOST_TURNS:
        raise refusal(node, f"more than {MOST_TURNS} turns")
    return f"{node.name}/{turn}"


def _bind_stacked(node: Node, name: str, parts: Sequence[Tensor], axis: int) -> None:
    """What the turns gave, along an axis of its own."""
    if name and not parts:
        raise refusal(node, "no turn, but results of its turns")
    if name:
        place = node.axis(axis, len(parts[0].shape) + 1)
        wide = [node.reshaped(part, (*part.shape[:place], 1, *part.shape[place:])) for part in parts]
        node.builder.bind(name, wide[0] if len(wide) == 1 else node.step("concat", *wide, axis=place))


def alias(builder: Builder, name: str, source: str) -> None:
    """Another name of a value."""
    builder.bind(name, builder.value(source))
    for kind in (builder.codes, builder.half_bytes):
        if source in kind:
            kind.add(name)


def _body(node: Node, key: str) -> Any:
    found = node.attrs.get(key)
    if found is None or not hasattr(found, "node"):
        raise ModelError(f"{node.kind} without its graph {key}", where=node.name)
    return found


def _number(node: Node, index: int, what: str) -> float | None:
    if not node.has(index):
        return None
    data = node.input(index).data
    if data is None or data.size != 1:
        error = node.late(index, what)
        raise refusal(node, f"{what} computed at run time", error.remedy)
    return float(data.reshape(-1)[0])


def refusal(node: Node, what: str, remedy: str = EXPORT) -> UnsupportedError:
    return UnsupportedError(
        f"{node.kind} with {what}",
        where=node.name,
        rule=f"loops are unrolled: at most {MOST_TURNS} turns of all loops, as many as constants and shapes say",
        remedy=remedy or EXPORT,
    )


def renamed_nodes(graph: Any, label: str, given: Mapping[str, str]) -> tuple[list[Any], list[Any], list[str]]:
    """Copies of the nodes and constants of an inner graph under names of their own, and the names of its outputs.
    `given`: names of its inputs outside; what it does not define itself comes from outside."""
    names = dict(given)
    own = [output for node in graph.node for output in node.output if output]
    for name in [*own, *(proto.name for proto in graph.initializer)]:
        if name in names:
            raise ModelError(f"{name!r} is computed twice", where=label, rule="every value has one producer")
        names[name] = f"{label}/{name}"
    nodes, constants = [_renamed(node, names, label) for node in graph.node], []
    for proto in graph.initializer:
        copy = type(proto)()
        copy.CopyFrom(proto)
        copy.name = names[proto.name]
        constants.append(copy)
    return nodes, constants, [names.get(value.name, value.name) for value in graph.output]


def _renamed(node: Any, names: Mapping[str, str], label: str) -> Any:
    copy = type(node)()
    copy.CopyFrom(node)
    copy.name = f"{label}/{node.name or next(filter(None, node.output), node.op_type)}"
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) if name else "" for name in node.output]
    for attribute in copy.attribute:
        for inner in (attribute.g, *attribute.graphs):
            _rename_reads(inner, names)
    return copy


def _rename_reads(graph: Any, names: Mapping[str, str]) -> None:
    """What an inner graph of an inner graph takes from outside; what it defines itself hides that."""
    own = {output for node in graph.node for output in node.output} | {value.name for value in graph.input}
    outer = {name: new for name, new in names.items() if name not in own | {p.name for p in graph.initializer}}
    for node in graph.node:
        node.input[:] = [outer.get(name, name) for name in node.input]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _rename_reads(inner, outer)
    for value in graph.output:
        value.name = outer.get(value.name, value.name)
