"""A slower or larger program is a failure too, also where its numbers are right.

`tests/golden/figures.toml` has what the programs of small networks and of a few real ones take: cycles by the model
that was calibrated on boards, epochs, bytes of RAM, words of the program. Whoever changes one of them writes the file
anew

    pytest tests/compiler/test_golden_figures.py --rewrite-figures

and says in the commit what the change brings.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.lower import registry
from atonc.compiler.request.options import Options
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.ec.instructions import Irq, encode, merge_writes
from tests.compiler.golden_graphs import GRAPHS
from tests.real_networks import usual

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "golden" / "figures.toml"
MODELS = (
    "cifar10__resnet_v1_8_32_tfs_int8.tflite",
    "esc10__miniresnet_1stacks_64x50_tl_int8.tflite",
    "fomo_face_detection.tflite",
    "kws_ref_model.tflite",
    "person_detect.tflite",
    "yunetn_320_qdq_int8.onnx",
)
OPTIONS = Options(verify=False)
Figures = dict[str, int]


def figures(compiled: Compiled) -> Figures:
    program = compiled.program
    return {
        "cycles": compiled.cost.cycles,
        "epochs": len(program.epochs),
        "cpu_steps": len(compiled.choices.reasons),
        "peak_bytes": compiled.layout.peak_bytes,
        "program_words": len(ec_program.words(program.epochs)),
    }


def differences(name: str, found: Figures, kept: Mapping[str, int]) -> list[str]:
    return [
        f"{name}: {key} {kept.get(key, 0):,} -> {found[key]:,} ({100 * (found[key] / kept[key] - 1):+.1f} %)"
        if kept.get(key)
        else f"{name}: {key} {kept.get(key)} -> {found[key]:,}"
        for key in found
        if found[key] != kept.get(key)
    ]


def kept() -> dict[str, Figures]:
    return tomllib.loads(FILE.read_text()) if FILE.is_file() else {}


def rewrite(name: str, found: Figures) -> None:
    """One line each, sorted: a change of one network changes one line."""
    lines = [
        f'"{key}" = {{ {", ".join(f"{figure} = {value}" for figure, value in values.items())} }}'
        for key, values in sorted((kept() | {name: found}).items())
    ]
    head = "# Written by: pytest tests/compiler/test_golden_figures.py --rewrite-figures"
    FILE.write_text("\n".join([head, *lines, ""]))


@pytest.fixture
def compare(request: pytest.FixtureRequest) -> Callable[[str, Compiled], None]:
    def compare(name: str, compiled: Compiled) -> None:
        found = figures(compiled)
        if request.config.getoption("--rewrite-figures"):
            rewrite(name, found)
        assert not differences(name, found, kept().get(name, {})), "say so in the commit, and --rewrite-figures"

    return compare


@pytest.mark.parametrize("name", GRAPHS)
def test_small_networks(name: str, compare: Callable[[str, Compiled], None]) -> None:
    compare(name, compile_graph(GRAPHS[name](), OPTIONS))


@pytest.mark.parametrize("name", MODELS)
def test_real_networks(name: str, compare: Callable[[str, Compiled], None]) -> None:
    compare(name, usual(name).compiled)


def test_every_figure_belongs_to_a_network() -> None:
    assert set(kept()) == {*GRAPHS, *MODELS}


# ------------------------------------------------------------------------------------- mutants that are slower only

SLOWER: dict[str, dict[str, float]] = {
    "one depthwise chain": {"FEW_CYCLES": 8e9, "MAX_CHAINS": 1},
    "an epoch for every few channels": {"WORTH": 0.0, "ERROR_CODE_CYCLES": 1e9},
    "copies on the CPU": {"MOST_MOVES": 0},
    "functions on the CPU": {"atonc.compiler.lower.elementwise.function.MOST_ERROR": -1},
}


def mutate(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    """Wherever a recipe reads this number, or in one place."""
    if "." in name:
        return monkeypatch.setattr(name, value)
    modules = [
        module
        for key, module in sys.modules.items()
        if key.startswith(("atonc.compiler.lower.", "atonc.compiler.select.", "atonc.compiler.plan."))
    ]
    readers = [module for module in modules if hasattr(module, name)]
    assert readers, f"{name} is gone: choose another mutant"
    for module in readers:
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("mutant", SLOWER)
def test_a_slower_compiler_is_noticed(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.load()
    for name, value in SLOWER[mutant].items():
        mutate(monkeypatch, name, value)
    slower = [
        name
        for name in ("depthwise", "residual", "movements")
        if figures(compile_graph(GRAPHS[name](), OPTIONS))["cycles"] > 1.1 * kept()[name]["cycles"]
    ]
    assert slower, "by more than 10 %"


@pytest.mark.parametrize("name", GRAPHS)
def test_words_are_counted_as_they_are_written(name: str) -> None:
    """Choices count the words of an epoch without writing it."""
    epochs = compile_graph(GRAPHS[name](), OPTIONS).program.epochs
    assert sum(map(ec_program.epoch_words, epochs)) + len(ec_program.words([])) == len(ec_program.words(epochs))
    for epoch in epochs:
        assert ec_program.words([epoch]) == encode([*merge_writes(ec_program.epoch_trace(epoch)), Irq(0)])
