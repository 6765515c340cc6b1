"""Fusing asks what recipes say of their tasks, and what they say is true: read again from registers by the checkers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atonc
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.plan.aliases import root
from atonc.compiler.plan.flow import EACH_ELEMENT, EachChannel, EachElement, EachPiece, EachWindow
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import check_merges
from atonc.compiler.schedule.check_means import means_of, whole_means
from atonc.compiler.schedule.check_pools import pooled
from atonc.compiler.schedule.fuse import Fused, fuse
from atonc.compiler.schedule.merging import MergeNetwork
from atonc.compiler.schedule.types import LoweredOperator, Merge
from atonc.compiler.select.cycles import cycles_of
from tests.compiler.golden_graphs import GRAPHS, Sketch
from tests.compiler.random_graphs import random_graph
from tests.lower.harness import TARGET, activation, constant, graph_of
from tests.schedule import test_fuse, test_fuse_pools

FOLDER = Path(atonc.__file__).parent / "compiler" / "schedule"
PLAIN = Options(verify=False)

# ------------------------------------------------------------------------------------------------- nothing is guessed


def imported(module: str) -> set[str]:
    nodes = list(ast.walk(ast.parse((FOLDER / f"{module}.py").read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def fusing() -> set[str]:
    """`fuse`, `spacers` and what they use of their room."""
    found, left = set[str](), {"fuse", "spacers"}
    while left:
        module = left.pop()
        found.add(module)
        below = {
            name.removeprefix("atonc.compiler.schedule.")
            for name in imported(module)
            if "atonc.compiler.schedule." in name
        }
        left |= below - found - {"pack"}  # which lays tasks side by side, and counts units and words of the bus
    return found


@pytest.mark.parametrize("module", sorted(fusing()))
def test_fusing_knows_no_registers(module: str) -> None:
    for name in imported(module):
        assert not name.startswith(
            ("atonc.machine.hw.units", "atonc.machine.hw.fields", "atonc.machine.hw.footprint")
        ), name
    tree = ast.parse((FOLDER / f"{module}.py").read_text())
    read = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "config"]
    assert not read, f"{module} reads the configuration of a unit in lines {read}: ask TaskGroup.flow or EngineUse.scan"


def test_the_modules_that_fuse_are_looked_at() -> None:
    assert fusing() >= {"fuse", "fuse_means", "fuse_pools", "fuse_consumer", "merging", "spacers"}


# ------------------------------------------------------------------------------------------------- what is said is true


PICTURE = (1, 8, 8, 16)


def single(
    kind: str, out: Tensor, *others: Tensor, shape: tuple[int, ...] = PICTURE, **attrs: Any
) -> Callable[[], Graph]:
    x = activation("x", shape, 0.02, -5)
    op = Op(kind, "op", ("x", *(one.name for one in others)), (out.name,), attrs, ("op",))
    return lambda: graph_of(op, x, *others, out)


def result(*shape: int) -> Tensor:
    return activation("y", shape, 0.03, 1)


ROWS = {"shape": (1, 7, 1, 5), "starts": (0, 1, 0, 0), "stops": (1, 4, 1, 5), "steps": (1, 1, 1, 1)}
SINGLE = {  # operator by operator: what is said of it
    "a sum": (single("add", result(*PICTURE), activation("z", PICTURE)), [EachElement]),
    "a repeated operand": (single("mul", result(*PICTURE), activation("z", (1, 1, 1, 16))), [None]),
    "two other formats": (single("maximum", result(*PICTURE), activation("z", PICTURE)), [None, EachElement]),
    "one other format": (
        single("maximum", result(*PICTURE), activation("z", PICTURE, 0.03, 1)), [EachElement, EachElement]
    ),
    "a copy with another format": (single("reshape", result(1, 64, 16)), [EachElement]),
    "bytes in a row from another place": (
        single("slice", activation("y", (1, 3, 1, 5), 0.02, -5), **ROWS), [EachPiece]
    ),
    "a transposition": (single("transpose", activation("y", (1, 16, 8, 8), 0.02, -5), perm=(0, 3, 1, 2)), [None]),
    "means of pictures": (single("mean", result(1, 16), axes=(1, 2)), [EachChannel]),
    "means of lines": (single("mean", result(1, 8, 16), axes=(2,)), [None]),
    "means of windows": (
        single("average_pool", result(1, 3, 3, 16), **{**test_fuse_pools.HALVES, "window": (3, 3)}), [None]
    ),
}  # fmt: skip
NETWORKS = {
    **{name: GRAPHS[name] for name in ("classifier", "residual", "pools", "movements")},
    **{name: test_fuse_pools.GRAPHS[name] for name in ("maxima", "averages", "channels that are no multiple of eight")},
    **{one.__name__: one for one in (test_fuse.sigmoid, test_fuse.two_branches)},
    **{name: graph for name, (graph, _) in SINGLE.items()},
    **{f"random {seed}": partial(random_graph, seed, seed % 2 == 0) for seed in (0, 2)},
}


def slopes(*signs: float) -> Callable[[], Graph]:
    """A PReLU with an int8 slope a channel."""
    codes = np.linspace(*signs, PICTURE[-1]) * 127
    return single("prelu", result(*PICTURE), constant("a", codes.astype(np.int8), 1 / 127))


NETWORKS["slopes of both signs"], NETWORKS["slopes of one sign"] = slopes(-0.5, 1.0), slopes(0.1, 1.0)


def read_again(group: TaskGroup, sizes: dict[str, int]) -> type | None:
    """What a group does, as the checkers see it: they know nothing of flows."""
    targets = {use.buffer for task in group.tasks for use in task.writers()}
    if len(targets) != 1 or not group.tasks:
        return None
    size = sizes[targets.pop()]
    if _each_byte(group, size):
        return EachElement
    ends = [(task, *check_merges._ends(task)) for task in group.tasks]
    if any(len(task.engines) != 2 for task in group.tasks):
        return None
    means = [means_of(*one) for one in ends]
    found = whole_means([one for one in means if one]) if all(means) else None
    if found is not None and [place for _, place in found[3]] == list(range(size)):  # type: ignore[attr-defined]
        return EachChannel
    windows = [pooled(*one) for one in ends]
    places = [one.places for one in windows if one]
    whole = all(windows) and np.array_equal(np.sort(np.concatenate(places)), np.arange(size))
    return EachWindow if whole and len({one.arithmetic for one in windows if one}) == 1 else None


def _each_byte(group: TaskGroup, size: int) -> bool:
    cuts, reference = [], set()
    for task in group.tasks:
        one = {check_merges._cut(use.config) for use in task.engines.values()}
        writer = next(name for name, use in task.engines.items() if use.config.to_memory)
        leaves = {name: ("byte", use.buffer) for name, use in task.engines.items() if not use.config.to_memory}
        reference.add(check_merges._expression(task, writer, leaves))
        cuts += sorted(one, key=repr)
    if None in reference or None in cuts or len(reference) != 1 or len(cuts) != len(group.tasks):
        return False
    covered = np.concatenate([np.arange(start, start + count) for start, count in (cut for cut in cuts if cut)])
    return np.array_equal(np.sort(covered), np.arange(size))


def groups_of(compiled: Compiled) -> Iterator[tuple[str, TaskGroup]]:
    yield from ((work.op, group) for work in compiled.mapped.works for group in work.groups)


@pytest.mark.parametrize("numerics", ["best", "2.x"])
@pytest.mark.parametrize("name", NETWORKS)
def test_recipes_say_what_their_tasks_do(name: str, numerics: str) -> None:
    """And all of it: what the checkers can see, fusing may use."""
    compiled = compile_graph(NETWORKS[name](), replace(PLAIN, numerics=numerics))
    sizes = {buffer.name: buffer.size_bytes for buffer in compiled.mapped.context.buffers.values()}
    for op, group in groups_of(compiled):
        said = type(group.flow) if isinstance(group.flow, EachElement | EachChannel | EachWindow) else None
        assert said == read_again(group, sizes), f"{op}: {group.tasks[0]}"


@pytest.mark.parametrize("name", SINGLE)
def test_each_recipe_says_it(name: str) -> None:
    graph, said = SINGLE[name]
    found = [group.flow for _, group in groups_of(compile_graph(graph(), PLAIN))]
    assert [type(flow) if flow else None for flow in found] == said


# ------------------------------------------------------------------------------------------------- what is said counts


def fused(compiled: Compiled, works: list[LoweredOperator]) -> Fused:
    context = compiled.mapped.context
    outputs = compiled.graph.outputs
    return fuse(works, MergeNetwork(context.buffers, context.aliases, outputs, partial(cycles_of, target=TARGET)))


def saying(work: LoweredOperator, flow: EachElement | None) -> LoweredOperator:
    return replace(work, groups=tuple(replace(group, flow=flow) for group in work.groups))


@pytest.mark.parametrize("name", ("residual", "maxima", "sigmoid"))
def test_what_nobody_says_is_not_merged(name: str) -> None:
    compiled = compile_graph(NETWORKS[name](), PLAIN)
    assert fused(compiled, list(compiled.mapped.works)).merges
    assert not fused(compiled, [saying(work, None) for work in compiled.mapped.works]).merges


def lied() -> tuple[Compiled, tuple[Merge, ...]]:
    """A transposition that says that it keeps the places of its bytes."""
    net = Sketch().start(1, 16, 16, 32)
    net.conv(32)
    net.op("transpose", (1, 32, 16, 16), perm=(0, 3, 1, 2))
    compiled = compile_graph(net.graph(), PLAIN)
    works = [saying(work, EACH_ELEMENT) if "transpose" in work.op else work for work in compiled.mapped.works]
    mapped = replace(compiled.mapped, works=works)
    return replace(compiled, lowered=lambda: mapped), fused(compiled, works).merges


def test_a_lie_is_found_by_the_checker() -> None:
    compiled, merges = lied()
    assert [merge.consumer for merge in merges if "transpose" in merge.consumer]
    found = check_merges.prove(compiled.mapped.works, merges, compiled.mapped.context.aliases)
    assert any("transpose" in where for where, _ in found.faults)


def test_longer_tasks_say_nothing() -> None:
    compiled = compile_graph(test_fuse.two_branches(), PLAIN)
    found = fused(compiled, list(compiled.mapped.works))
    became = {id(new) for merge in found.merges for _, new in merge.pairs}
    longer = [group for work in found.works for group in work.groups if any(id(t) in became for t in group.tasks)]
    assert longer and all(group.flow is None for group in longer)
    assert {root(merge.through, compiled.mapped.context.aliases) for merge in found.merges}
