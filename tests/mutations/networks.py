"""Folders of compiled networks: one of the files damaged; then run, weighed, checked, viewed."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.insight.explain.folder import folder_view
from atonc.insight.report import explain_text, run_text
from atonc.insight.runs import programs, runs
from atonc.machine.cost import network as costs
from tests.emu.files_samples import write_network
from tests.frontends.tflite_models import O, T, build
from tests.mutations.damage import damaged_bytes, damaged_values
from tests.test_hostile_networks import MUTATIONS

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = (".c", ".h", ".raw", ".hex", "_c_info.json", "_program.json")


def small_model() -> bytes:
    """A convolution, and a softmax for the processor."""
    tensors = [
        T("x", (1, 4, 4, 3), scale=0.1),
        T("w", (8, 3, 3, 3), scale=0.01, data=[[[[1, -2, 3]] * 3] * 3] * 8),
        T("y", (1, 4, 4, 8), scale=0.2),
        T("z", (1, 4, 4, 8), scale=1 / 256, zero=-128),
    ]
    same = {0: ("b", 0), 1: ("i", 1), 2: ("i", 1), 3: ("b", 1), 4: ("i", 1), 5: ("i", 1)}
    ops = [
        O("CONV_2D", ["x", "w"], ["y"], "Conv2DOptions", same),
        O("SOFTMAX", ["y"], ["z"], "SoftmaxOptions", {0: ("f", 1.0)}),
    ]
    return build(tensors, ops, ["x"], ["z"])


@lru_cache
def bases(work: Path) -> tuple[dict[str, bytes], ...]:
    """The files of good networks by name."""
    first = {path.name: path.read_bytes() for path in (ROOT / "examples" / "first").iterdir()}
    model = work / "small.tflite"
    model.write_bytes(small_model())
    found = [first, first]
    for options in (
        Options(verify=False),
        Options(verify=False, epoch_controller=False),
        Options(verify=False, inputs_allocation=False, outputs_allocation=False),
    ):
        files = generating.files_of(generating.analyze(model, options), with_hex=not options.epoch_controller)
        found.append({name: data for name, data in files.items() if name.endswith(KEPT) and "kernels" not in name})
    sample = work / "sample"
    sample.mkdir(exist_ok=True)
    write_network(sample)
    found.append({path.name: path.read_bytes() for path in sample.iterdir() if path.is_file()})
    return tuple(found)


def try_network(rng: random.Random, number: int, work: Path) -> None:
    files = rng.choice(bases(work))
    folder = work / "network"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        if old.name not in files:
            old.unlink()
    chosen = rng.choice(sorted(files))
    for name, data in files.items():
        content = _damaged(data, chosen, rng) if name == chosen else data
        if not (folder / name).is_file() or (folder / name).read_bytes() != content:
            (folder / name).write_bytes(content)
    use(folder, run=number % 3 != 0)


def _damaged(data: bytes, name: str, rng: random.Random) -> bytes:
    if name.endswith(".json") or (name.endswith((".c", ".h")) and rng.random() < 0.3):
        return damaged_values(data.decode("utf-8", "replace"), rng).encode()
    if rng.random() < 0.5:
        return bytes(rng.choice(MUTATIONS)(bytearray(data), rng))
    return damaged_bytes(data, rng)


def use(folder: Path, run: bool) -> None:
    """All that a user can ask of a folder."""
    if not run:
        view = folder_view(folder)
        explain_text.as_json(view, list(view.layers))
        return
    result = runs.run(runs.RunOptions(folder, observe=True))
    violations = programs.check_run(result)
    cost = costs.network_cost(result.net, result.steps)
    run_text.as_json(run_text.RunView(result, cost, None, None, violations))
