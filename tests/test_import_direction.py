"""Who may import whom. The order stands once, in the first lines of each wing (`atonc/*/__init__.py`): which wings it
may import, and its rooms from the ground up, each of which imports those before it only. Here it is read and held
against every import: dotted names and those inside functions too; only what type checkers alone see is left out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "atonc"
MOST_ENTRIES = 8
ENTRY = {"__init__.py", "__main__.py", "py.typed"}
WINGS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


def docstring(wing: str) -> str:
    return ast.get_docstring(ast.parse((ROOT / wing / "__init__.py").read_text())) or ""


def listed(wing: str, title: str) -> list[str]:
    """The names behind `title:` up to the full stop."""
    found = re.search(rf"^{title}: ([\w,\s]+)\.", docstring(wing), re.MULTILINE)
    assert found, f"atonc/{wing}/__init__.py does not say: {title}: ..."
    names = re.split(r",\s+", found[1])
    return [] if names == ["nothing"] else names


BELOW = {wing: listed(wing, "May import") for wing in WINGS}
ROOMS = {wing: listed(wing, "Rooms, from the ground up") for wing in WINGS}
MODULES = {
    ".".join((path.parent if path.name == "__init__.py" else path.with_suffix("")).relative_to(ROOT.parent).parts): path
    for path in sorted(ROOT.rglob("*.py"))
}


def imports(tree: ast.Module) -> Iterator[str]:
    """Dotted names of all that is imported where it runs; `from x import y` gives x.y."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
        else:  # statements stand in statements only
            waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]


def modules_of(source: str, known: Mapping[str, Path] = MODULES) -> set[str]:
    """The modules of ours that a file imports: the longest part of each name that is one."""
    found = set()
    for name in imports(ast.parse(source)):
        assert not name.startswith("."), "imports name the whole way from atonc"
        if name.split(".")[0] != "atonc":
            continue
        while name not in known and "." in name:
            name = name.rpartition(".")[0]
        found.add(name)
    return found


@cache
def imported() -> dict[str, set[str]]:
    """What each module of ours imports of ours; read when a test asks, since every worker collects every test."""
    return {name: modules_of(path.read_text()) - {name} for name, path in MODULES.items()}


def place(module: str) -> tuple[str, str]:
    """Wing and room; a wing's own `__init__` has no room, the entry has neither."""
    parts = [*module.split(".")[1:3], "", ""]
    return (parts[0], parts[1]) if parts[0] in WINGS else ("", "")


def upwards(importer: tuple[str, str], imported: tuple[str, str]) -> bool:
    """A wing that is not below, or a room that is not before."""
    (wing, room), (other, there) = importer, imported
    if not wing:
        return False  # the entry may hand on anything
    if wing != other:
        return other not in BELOW[wing]
    order = ["", *ROOMS[wing]]
    return order.index(there) > order.index(room)


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("wing", WINGS)
def test_nothing_imports_upwards(wing: str) -> None:
    pairs = [(name, other) for name in MODULES if place(name)[0] == wing for other in sorted(imported()[name])]
    assert [f"{name} imports {other}" for name, other in pairs if upwards(place(name), place(other))] == []


def test_wings_say_all_their_rooms() -> None:
    for wing in WINGS:
        folders = {path.name for path in (ROOT / wing).iterdir() if path.is_dir() and path.name != "__pycache__"}
        assert folders == set(ROOMS[wing]), f"atonc/{wing}/__init__.py lists its rooms from the ground up"
        assert [path.name for path in (ROOT / wing).glob("*.py")] == ["__init__.py"], "files stand in rooms"


def test_no_circle_of_modules_rooms_or_wings() -> None:
    assert circle(imported()) == []
    rooms: dict[str, set[str]] = {}
    for name, found in imported().items():
        here = "/".join(place(name))
        rooms.setdefault(here, set()).update({"/".join(place(other)) for other in found} - {here})
    assert circle(rooms) == []
    assert circle({wing: set(below) for wing, below in BELOW.items()}) == []


def test_nothing_imports_the_front_of_the_house() -> None:
    assert [name for name, found in imported().items() if "atonc" in found] == []


def test_the_first_look_shows_the_wings() -> None:
    entries = {path.name for path in ROOT.iterdir() if path.name != "__pycache__"}
    assert entries == ENTRY | set(WINGS) and len(entries) <= MOST_ENTRIES


def test_the_emulator_is_a_witness() -> None:
    """Whatever wings and rooms may do: the emulator knows the chip only."""
    known = {place(other) for name in MODULES if place(name) == ("machine", "emu") for other in imported()[name]}
    assert known == {("machine", "base"), ("machine", "hw"), ("machine", "emu")}


def test_a_forbidden_import_is_found() -> None:
    planted = (
        "from atonc.machine.hw import limits\n"
        "def late():\n    import atonc.compiler.lower.conv.layer\n    from atonc.doors import verbs\n"
        "if TYPE_CHECKING:\n    from atonc.insight.report import epochs\n"
    )
    found = modules_of(planted)
    assert found == {"atonc.machine.hw.limits", "atonc.compiler.lower.conv.layer", "atonc.doors.verbs"}
    assert [upwards(("compiler", "plan"), place(name)) for name in sorted(found)] == [True, True, False]
    assert upwards(("machine", "hw"), ("machine", "emu")) and not upwards(("doors", "cli"), ("machine", "hw"))
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
