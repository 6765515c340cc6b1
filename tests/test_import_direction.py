"""Who may import whom: the emulator stays an independent witness, the hardware knows nothing above it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "atonc"
FILES = {"disk", "build_folder"}  # how files are read and written: they know nothing of what is in them
ALLOWED = {
    "hw": {"hw", "errors", "reasons", *FILES},
    "emu": {"emu", "hw", "errors", *FILES},
    "ir": {"ir", "errors"},
    "ops": {"ops", "ir", "errors"},
    "frontends": {"frontends", "ops", "ir", "errors", *FILES},
    "plan": {"plan", "hw", "errors"},
    "schedule": {"schedule", "plan", "hw", "errors"},
    "select": {"select", "plan", "hw", "errors"},
    "insight": {  # all that was found out; reports read it, not the other way round
        *FILES, "__version__", "insight", "compare", "comparing", "compile_view", "costs", "declare", "emit", "emu",
        "errors", "frontends", "hw", "ir", "lower", "ops", "options", "passes", "pipeline", "place", "plan",
        "program_costs", "progress", "reasons", "runs", "safety", "saved_machine", "select", "verify",
    },
}


def imported_rooms(path: Path) -> set[str]:
    """First name behind `atonc.` of everything that a file imports."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"atonc.{a.name}" for a in node.names] if node.module == "atonc" else [node.module]
        rooms |= {name.split(".")[1] for name in names if name.startswith("atonc.")}
    return rooms


@pytest.mark.parametrize("room", ALLOWED)
def test_rooms_import_only_what_lies_below(room: str) -> None:
    for path in (ROOT / room).rglob("*.py"):
        stray = imported_rooms(path) - ALLOWED[room]
        assert not stray, f"{path.relative_to(ROOT)} imports {sorted(stray)}"
