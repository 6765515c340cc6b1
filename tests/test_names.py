"""One name, one thing: no two classes of the package share a name. Docstrings are sentences of their own."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("atonc", "benchmarks", "examples", "tests", "tools")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

# exceptions: to be emptied, never to grow
_SHARED_NAMES = """
    Access Affine Area Axis Band Bank Bench Board Buffer Call Candidate Chain Clocks Contents Context Data Distance
    Done DriverCall Ended Entry Expected Facts Figure Finding Flow Form Frames Function Item Job Judge Layer Layout
    Lever Limits Link Log Means Memory Mode Network Node Note Numbers Options Pair Part Picture Piece Place Plan Pool
    Port Power Price Program Range Refused Region Relocated Relocation Result Row RunResult Segment Settings Side
    State Step Stored Sums Table Tensor Term Tried Unit Use UserBuffer Walk Weights Window Windows Wire Wishes Words
    Work _Output _Plan _Reader _Run _Walk _Writer
    """
_FRAGMENTS = """
    atonc/deploy/plan.py atonc/emu/cpu/atonc_costs.py atonc/workers/unit.py
    atonc/boards/elf_map.py atonc/cost/prefetch_advice.py atonc/lower/stripes.py atonc/place/resident.py
    atonc/schedule/lives.py atonc/schedule/pointwise.py atonc/striping.py atonc/weights.py benchmarks/against_st.py
    benchmarks/compile_corpus.py benchmarks/corpus_report.py benchmarks/cpu_kernels.py benchmarks/cpu_layers.py
    benchmarks/deploy_firmware.py benchmarks/machine.py benchmarks/pools.py benchmarks/public_models.py
    benchmarks/published.py benchmarks/random_graphs.py benchmarks/same_programs.py benchmarks/stripes.py
    """
SHARED_NAMES, FRAGMENTS = frozenset(_SHARED_NAMES.split()), frozenset(_FRAGMENTS.split())


@cache
def _trees(folder: str) -> dict[str, ast.Module]:
    paths = sorted((ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in paths}


def repeated(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Finds the class names that are defined in several places, with those places."""
    places = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    return {name: found for name, found in places.items() if len(found) > 1}


def fragments(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Finds docstrings that lean on the name of their function: `cycles` with "Of one epoch."."""
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, Documented) and (ast.get_docstring(node) or "").startswith("Of "):
                yield f"{path}:{node.body[0].lineno}"


def test_class_names_mean_one_thing() -> None:
    assert {name: at for name, at in repeated(_trees("atonc")).items() if name not in SHARED_NAMES} == {}


def test_docstrings_are_sentences() -> None:
    found = [place for folder in SOURCES for place in fragments(_trees(folder))]
    assert [place for place in found if place.split(":")[0] not in FRAGMENTS] == []


def test_planted_ones_are_found() -> None:
    sources = {"a.py": "class A: ...\nclass B: ...", "b.py": 'def f():\n    "Of a."\n    class A: ...'}
    trees = {path: ast.parse(text) for path, text in sources.items()}
    assert repeated(trees) == {"A": ["a.py:1", "b.py:3"]}
    assert list(fragments(trees)) == ["b.py:2"]
