"""Who may import whom: the emulator stays an independent witness, the hardware knows nothing above it, and every room
knows the ones below it only."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "atonc"
PLAIN = {"errors", "reasons", "progress", "disk", "build_folder", "about"}  # they know nothing of networks
# room -> rooms and single modules that it may import; modules are exceptions, which have to be named one by one
ALLOWED = {
    # the machine and its witness
    "hw": {"errors", "reasons", "disk", "build_folder"},
    "emu": {"hw", "errors", "disk", "build_folder"},
    # the model
    "ir": {"errors"},
    "ops": {"ir", "errors"},
    "frontends": {"ops", "ir", "errors", "disk", "build_folder"},
    "passes": {"ops", "ir", "errors", "progress"},
    "compare": {"frontends", "ops", "ir", "workers", "errors", "about"},
    # the compiler
    "plan": {"hw", "errors"},
    "select": {"plan", "ir", "hw", "schedule.assign", "schedule.pack", "errors"},
    "schedule": {"plan", "hw", "select", "errors"},
    "lower": {"schedule", "select", "plan", "ops", "ir", "hw", *PLAIN},
    "place": {"plan", "hw", "errors"},
    "cost": {  # programs are finished when they are weighed; what of them is weighed stands in emit
        "emit.c.calls", "emit.c.cpu_calls", "emit.program", "lower", "plan", "ops", "ir", "emu",
        "hw", *PLAIN,
    },
    "emit": {"place", "lower", "plan", "ops", "ir", "hw", "errors", "cost.macs", "cost.network", "compile_view"},
    "search": {
        "cost", "emit", "place", "lower", "schedule", "select", "plan", "ops", "ir", "hw", "declare", "options",
        "silicon", *PLAIN,
    },
    # what stands beside it
    "boards": {"emu", "hw", "errors", "disk"},
    "doctor": {"hw", "errors"},
    "wire": {"errors"},
    "reloc": {"emu", "hw", "firmware.building", "declare", *PLAIN},
    "probes": {"emit", "place", "schedule", "lower", "plan", "ir", "hw", "firmware.building", "emulation", *PLAIN},
    # all that was found out; reports read it, not the other way round
    "insight": {
        "compare", "cost", "emit", "emu", "frontends", "hw", "ir", "lower", "ops", "passes", "place", "plan",
        "schedule", "select", "compile_view", "cost.network", "declare", "options", "pipeline", "cost.program",
        "app.runs", "app.safety", "cost.saved_machine", "search", "verify", *PLAIN,
    },
    "report": {
        "accuracy", "evaluating", "quantizing", "sweeping", "insight", "boards", "compare", "cost", "deploy", "doctor",
        "emit", "emu", "frontends", "hw", "ir", "lower", "place", "plan", "reloc", "schedule", "select",
        "app.comparing", "app.distances", "compilation", "compile_view", "cost.network", "app.judging", "layer_checks",
        "app.load_run", "search",
        "app.loading", "options", "pipeline", "probes", "app.runs", "app.targeting", "app.validating", "verify", *PLAIN,
    },
    "evaluating": {
        "workers", "compare", "frontends", "ir", "ops", "lower", "plan", "hw", "report.progress_bar", "app.arrays",
        "declare", "emu", "emulation", "app.images", "app.inputs", "options", "pipeline", "app.references", "app.runs",
        *PLAIN,
    },
    "workers": PLAIN,
    "accuracy": {
        "app.sample_files",
        "compare", "frontends", "insight", "ir", "lower", "ops", "app.inputs", "options", "pipeline", "cost.program",
        "app.validating", *PLAIN,
    },
    "quantizing": {
        "workers", "frontends", "insight.own_steps", "ir", "ops", "app.arrays", "declare", "app.images", "options",
        "pipeline", "cost.program", *PLAIN,
    },
    "sweeping": {
        "app.analyzing",
        "accuracy", "workers", "frontends", "hw", "declare", "app.generating", "options", "pipeline", *PLAIN,
    },
    "firmware": {"emit", "emu", "hw", *PLAIN},
    "app": {
        "report", "insight", "firmware", "boards", "compare", "cost", "emit", "emu", "frontends", "hw", "ir", "lower",
        "ops", "place", "plan", "reloc", "wire", "compile_view", "declare", "emulation", "layer_checks", "options",
        "pipeline", "verify", *PLAIN,
    },
    # what users call
    "deploy": {"frontends", "hw", "ir", "app.generating", "declare", "options", "app.profiles", *PLAIN},
    "explorer": {
        "compare", "insight", "emulation", "app.generating", "app.inputs", "layer_checks", "options", "pipeline",
        *PLAIN,
    },
    "serve": {
        "app.sample_files",
        "frontends", "hw", "insight", "place", "report", "verbs", "workers", "cli", "compile_view", "app.generating",
        "declare", "options", "app.references", "app.validating", *PLAIN,
    },
    "verbs": {
        "app.sample_files",
        "accuracy", "evaluating", "quantizing", "sweeping", "workers", "boards", "deploy", "doctor", "emu", "frontends",
        "hw", "insight", "place", "probes", "reloc", "report", "wire", "serve.app", "serve.limits", "serve.options",
        "serve.running", "app.run_options", "app.validate_options",
        "app.board_running", "app.boarding", "cli", "app.comparing", "compile_view", "cost.network", "app.csv_arrays",
        "declare", "app.generating", "app.judging", "app.load_run", "app.load_target", "options", "pipeline",
        "app.preflight", "app.profiles", "app.programs", "app.real_board", "app.recording", "app.references",
        "app.relocating", "app.runs", "app.safety", "app.targeting", "app.validating", "firmware.wire_firmware", *PLAIN,
    },
}  # fmt: skip


def imported(path: Path) -> set[str]:
    """Everything of atonc that a file imports, without `atonc.`: `hw.limits` for the module and for its names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name.removeprefix("atonc.") for name in names if name.startswith("atonc.")}
    return found


def stray(path: Path, room: str) -> list[str]:
    allowed = {room, *ALLOWED[room]}
    return sorted(n for n in imported(path) if not any(n == name or n.startswith(f"{name}.") for name in allowed))


@pytest.mark.parametrize("room", ALLOWED)
def test_rooms_import_only_what_lies_below(room: str) -> None:
    files = sorted((ROOT / room).rglob("*.py"))
    assert files
    for path in files:
        found = stray(path, room)
        assert not found, f"{path.relative_to(ROOT)} imports {found}"


def test_every_room_is_named() -> None:
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert rooms == set(ALLOWED), "a new room says here what it may import"


def test_rooms_form_no_circle() -> None:
    below = {room: {name for name in allowed if name in ALLOWED} for room, allowed in ALLOWED.items()}
    assert len(list(TopologicalSorter(below).static_order())) == len(ALLOWED)


def test_a_forbidden_import_is_found(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text("from atonc.hw import limits\nfrom atonc.lower.conv.layer import Layer\nimport atonc.pipeline\n")
    assert stray(planted, "hw") == ["lower.conv.layer.Layer", "pipeline"]
    assert stray(planted, "lower") == ["pipeline"]
