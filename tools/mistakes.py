"""Mistakes made by rule, at random places of the package, the same ones for the same seed; `tools/mutants.py` plants
them.

A place is chosen by wing, in proportion to its lines, then a file by its lines, a function of it, a rule that the
function has a place for, and one of these places. Texts, docstrings, annotations, decorators, `assert` and what is said
by an exception stay as they are. Numbers outside of functions are tables and tuned numbers: they have tests of their
own or change no result.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

WINGS = ("machine", "compiler", "insight", "delivery", "doors")
SKIPPED = {
    "atonc/compiler/plan/policy.py": "tuned numbers: what is tried first, and what it is worth",
    "atonc/machine/hw/regs.py": "written by a tool",
}
_SHOWN = frozenset({"__repr__", "__str__", "__rich__"})
_ANY_ORDER = frozenset({
    "min", "max", "lcm", "gcd", "maximum", "minimum", "isinstance", "issubclass", "getattr", "hasattr", "cast",
})  # fmt: skip


class Mistake(NamedTuple):
    file: str
    inside: str
    line: int
    at: int  # byte of the file
    old: str
    new: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line} {self.inside}: {_short(self.old)} -> {_short(self.new)}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) < 90 else f"{text[:60]} ... {text[-25:]}"


# --------------------------------------------------------------------------------------------------------------- rules


def _numbers(node: ast.AST, dice: random.Random) -> ast.AST | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.Constant(node.value + dice.choice((-1, 1)))
    return None


def _bounds(node: ast.AST, dice: random.Random) -> ast.AST | None:
    other = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
    if isinstance(node, ast.Compare):
        places = [k for k, op in enumerate(node.ops) if type(op) in other]
        if places:
            which = dice.choice(places)
            ops = [other[type(op)]() if k == which else op for k, op in enumerate(node.ops)]
            return ast.Compare(node.left, ops, node.comparators)
    return None


def _extremes(node: ast.AST, dice: random.Random) -> ast.AST | None:
    other = {"min": "max", "max": "min"}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in other:
        return ast.Call(ast.Name(other[node.func.id]), node.args, node.keywords)
    return None


def _signs(node: ast.AST, dice: random.Random) -> ast.AST | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and not _is_text(node):
        return ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right)
    return None


def _connectives(node: ast.AST, dice: random.Random) -> ast.AST | None:
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    return None


def _negations(node: ast.AST, dice: random.Random) -> ast.AST | None:
    return node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else None


def _arguments(node: ast.AST, dice: random.Random) -> ast.AST | None:
    if not isinstance(node, ast.Call) or len(node.args) < 2 or any(isinstance(one, ast.Starred) for one in node.args):
        return None
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    first = dice.randrange(len(node.args) - 1)
    a, b = node.args[first : first + 2]
    if name in _ANY_ORDER or ast.dump(a) == ast.dump(b) or _is_text(a) or _is_text(b):
        return None
    return ast.Call(node.func, [*node.args[:first], b, a, *node.args[first + 2 :]], node.keywords)


def _divisions(node: ast.AST, dice: random.Random) -> ast.AST | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        negative = ast.BinOp(ast.UnaryOp(ast.USub(), node.left), node.op, node.right)
        return ast.UnaryOp(ast.USub(), negative)
    return None


def _slices(node: ast.AST, dice: random.Random) -> ast.AST | None:
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Slice):
        return None
    cut, one = deepcopy(node.slice), ast.Constant(1)
    if cut.upper is not None and dice.random() < 0.5:
        cut.upper = ast.BinOp(cut.upper, dice.choice((ast.Add(), ast.Sub())), one)
    else:
        cut.lower = one if cut.lower is None else ast.BinOp(cut.lower, ast.Add(), one)
    return ast.Subscript(node.value, cut, ast.Load())


def _raises(node: ast.AST, dice: random.Random) -> ast.AST | None:
    return ast.Pass() if isinstance(node, ast.Raise) and node.exc is not None else None


Rule = Callable[[ast.AST, random.Random], "ast.AST | None"]
RULES: tuple[Rule, ...] = (
    _numbers, _bounds, _extremes, _signs, _connectives, _negations, _arguments, _divisions, _slices, _raises,
)  # fmt: skip


def _is_text(node: ast.AST) -> bool:
    texts = (one for one in ast.walk(node) if isinstance(one, ast.Constant | ast.JoinedStr))
    return any(isinstance(one, ast.JoinedStr) or isinstance(one.value, str | bytes) for one in texts)


# -------------------------------------------------------------------------------------------------------------- places


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{one.name}", one) for one in node.body if isinstance(one, ast.FunctionDef))


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """What of a function computes something: no annotations, decorators, texts, assertions."""
    if isinstance(node, ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    yield node
    if isinstance(node, ast.Raise):
        return
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _code(child)


@cache
def _parsed(path: Path) -> tuple[bytes, ast.Module]:
    source = path.read_bytes()
    return source, ast.parse(source)


def _in_file(path: Path, file: str, dice: random.Random) -> Mistake | None:
    source, tree = _parsed(path)
    functions = [one for one in _functions(tree) if one[1].name not in _SHOWN]
    if not functions:
        return None
    inside, function = dice.choice(functions)
    nodes = [node for node in _code(function) if isinstance(node, ast.expr | ast.stmt)]
    for rule in dice.sample(RULES, len(RULES)):
        found = [(node, new) for node in nodes if (new := rule(node, dice)) is not None]
        if found:
            node, new = dice.choice(found)
            return _placed(source, file, inside, node, new)
    return None


def _placed(source: bytes, file: str, inside: str, node: Any, new: ast.AST) -> Mistake:
    lines = source.splitlines(keepends=True)
    at = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    text = ast.unparse(ast.fix_missing_locations(new))
    bare = isinstance(new, ast.Pass | ast.Name | ast.Call | ast.Subscript) or isinstance(node, ast.Constant)
    return Mistake(file, inside, node.lineno, at, source[at:end].decode(), text if bare else f"({text})")


def random_mistakes(root: Path, seed: int, count: int, area: str = "") -> list[Mistake]:
    """So many different ones of the package, or of what lies under `area`."""
    files = {str(path.relative_to(root)): path for path in sorted((root / "atonc").rglob("*.py"))}
    files = {name: path for name, path in files.items() if name not in SKIPPED and name.startswith(area)}
    lines = {name: len(_parsed(path)[0].splitlines()) for name, path in files.items()}
    dice, found = random.Random(seed), dict[tuple[str, int], Mistake]()
    for wing, wanted in _shares(lines, count).items():
        names = [name for name in lines if name.startswith(f"atonc/{wing}/")]
        full = len(found) + wanted
        while len(found) < full:
            (name,) = dice.choices(names, [lines[one] for one in names])
            made = _in_file(files[name], name, dice)
            if made is not None:
                found.setdefault((made.file, made.at), made)
    return list(found.values())


def _shares(lines: Mapping[str, int], count: int) -> dict[str, int]:
    """How many each wing gets: by its lines, the largest rests rounded up."""
    sizes = {wing: sum(n for name, n in lines.items() if name.startswith(f"atonc/{wing}/")) for wing in WINGS}
    exact = {wing: count * size / max(1, sum(sizes.values())) for wing, size in sizes.items()}
    by_rest = sorted(WINGS, key=lambda wing: int(exact[wing]) - exact[wing])
    more = by_rest[: count - sum(map(int, exact.values()))]
    return {wing: int(exact[wing]) + (wing in more) for wing in WINGS}


# --------------------------------------------------------------------------------------------------------------- tests


class _File(NamedTuple):
    imports: frozenset[str]
    words: frozenset[str]
    size: int


@cache
def _read(path: Path) -> _File:
    source, tree = _parsed(path)
    imports, words = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            imports |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
        elif isinstance(node, ast.Import):
            imports |= {one.name for one in node.names}
        elif isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.alias):
            words.add(node.name)
    return _File(frozenset(imports), frozenset(words), len(source))


def _callers(tree: ast.Module, inside: str) -> set[str]:
    """The name of a function, and of those in its file that use it, directly or not."""
    own = set(inside.split(".")) - {"__init__", "__call__", "__post_init__"}
    words = {one.name: {getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(one)} for _, one in _functions(tree)}
    while more := {name for name, used in words.items() if used & own and len(name) > 4} - own:
        own |= more
    return own


def nearest_tests(root: Path, mistake: Mistake, most: int) -> Sequence[str]:
    """Files of tests by how near they are: they import the module, name its functions, import who imports it, or lie in
    the folder of its room. Of those alike the smallest first."""
    module = mistake.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    tree = _parsed(root / mistake.file)[1]
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own = _callers(tree, mistake.inside)
    users = {
        str(path.relative_to(root).with_suffix("")).replace("/", ".").removesuffix(".__init__"): own & _read(path).words
        for path in (root / "atonc").rglob("*.py")
        if module in _read(path).imports
    }
    parts = {part for word in module.split(".")[2:] for part in word.split("_")}
    ranked = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        test, name = _read(path), str(path.relative_to(root))
        told = {part for word in name.removesuffix(".py").split("/") for part in word.split("_")} - {"test", "tests"}
        by_users = sum(1 + bool(users[user]) for user in users if user in test.imports)
        direct = module in test.imports
        near = 4 * direct + 2 * min(2, len(parts & told)) + min(2, by_users)
        near += (direct + bool(by_users)) * (2 * bool(own & test.words) + bool(names & test.words))
        if near > 1:
            ranked.append((-near, test.size, name))
    return [name for _, _, name in sorted(ranked)[:most]]


@cache
def _tests(path: Path) -> Mapping[str, frozenset[str]]:
    """Tests of a file, each with the words that it and its helpers of this file use."""
    words, helped = dict[str, set[str]](), dict[str, set[str]]()
    for node in _parsed(path)[1].body:
        named = {getattr(node, "name", "")} | {one.id for one in ast.walk(node) if _is_stored(one)} - {""}
        used = {getattr(one, "id", getattr(one, "attr", "")) for one in ast.walk(node)}
        for name in named:
            words[name] = words.get(name, set()) | used
    for name in words:
        seen, waiting = set[str](), [name]
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting += words.get(one, ())
        helped[name] = seen
    return {name: frozenset(found) for name, found in helped.items() if name.startswith("test_")}


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def nearest_functions(root: Path, mistake: Mistake, files: Sequence[str]) -> Sequence[str]:
    """Tests of these files by what they name of the mistake's file: its function, those that use it there, others."""
    tree = _parsed(root / mistake.file)[1]
    inside = set(mistake.inside.split("."))
    own = _callers(tree, mistake.inside)
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    ranked = []
    for place, file in enumerate(files):
        scored = [
            (5 * len(inside & words) + 3 * len(own & words) + min(3, len(names & words)), len(words), name)
            for name, words in _tests(root / file).items()
        ]
        for turn, (near, size, name) in enumerate(sorted(scored, key=lambda one: (-one[0], one[1]))):
            ranked.append((turn // 2 * 4 - near - max(0, 5 - place), size, f"{file}::{name}"))
    return [name for *_, name in sorted(ranked)]
