"""Are programs, memory images, generated C and explanations the same bytes as at another commit?

Every model of the corpus with the default options, `--resident`, `--prefer memory`, `--silicon seen` and
`--numerics 2.x`, ten of them with `--no-epoch-controller` too, and eight random networks of 16x8. `--quick`: eight
small models and two networks of 16x8. Hashes of another commit: `--tree` at a checkout of it, with `--save FILE`; then
`--against FILE` here. Explanations (decisions of layers) are compared apart from what the chip runs. Where programs
differ, their predicted cycles and peak RAM are compared: slower or larger fails.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from atonc.compiler.emit import write
from atonc.compiler.emit.c.files import files
from atonc.compiler.request.options import ALL_FREE, Options
from atonc.delivery.generate.generating import analyze, c_network
from atonc.insight.explain.ours import network_view
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import MODEL_FILES, ONLY, SAVE, SHARD, Report, argument
from benchmarks.shared.kept import read
from benchmarks.shared.kept import write as keep
from tests.compiler.wide_networks import random_network

GROUP = "speed"
ARGUMENTS = (
    SAVE,
    argument("--against", type=Path, metavar="FILE", help="compare with those there"),
    argument("--figures", action="store_true", help="other bytes are meant: only slower or larger ones fail"),
    argument("--quick", action="store_true", help="eight small models"),
    MODEL_FILES,
    ONLY,
    SHARD,
)

QUICK = (
    "baseline_conv2d_32f_5x5", "baseline_conv2d_pool", "cifar10__resnet", "fomo_face", "micro_speech", "mnist_int8",
    "spatial_cnn", "split_concat",
)  # fmt: skip
MORE = (
    *QUICK, "blazeface_front", "person_detect", "mobilenet_v1_0.25_96_tfs", "esc10__miniresnet",
)[2:]  # fmt: skip
PLAIN = Options(verify=False)
ALWAYS = {
    "default": PLAIN,
    "resident": replace(PLAIN, resident=ALL_FREE),
    "memory": replace(PLAIN, prefer="memory"),
    "seen": replace(PLAIN, silicon="seen"),
    "2.x": replace(PLAIN, numerics="2.x"),
}
SOMETIMES = {"no controller": replace(PLAIN, epoch_controller=False)}
WIDE, FEW_WIDE = 8, 2  # networks of 16x8
EXPLANATION, CYCLES, RAM = "explanation", "cycles", "ram"
FIGURES = {CYCLES, RAM}
SLOWER = 1.002  # so much may change without being called slower

Hashes = dict[str, str]


def hashes(model: Path, options: Options) -> Hashes:
    """Hashes every file that firmware takes, the program as text, and what is said about each layer."""
    try:
        view = analyze(model, options)
    except AtoncError as error:
        return {"refused": error.one_line}
    firmware = files(c_network(view))
    said = [[layer.name, [one.as_dict() for one in layer.decisions]] for layer in network_view(view).layers]
    found = {
        "program": write.assembly(view.compiled.program, "network").encode(),
        EXPLANATION: json.dumps(said).encode(),
        **firmware,
    }
    figures = {CYCLES: str(view.cost.cycles), RAM: str(view.memory.ram_bytes - view.memory.resident_bytes)}
    return {name: sha256(_unnumbered(content)).hexdigest() for name, content in sorted(found.items())} | figures


def _unnumbered(content: bytes) -> bytes:
    """Without the numbers of scratch memories: which forms were tried before is not what the chip runs."""
    return re.sub(rb"#\d+", b"#", content)


def wide_networks(folder: Path, count: int) -> Iterator[Path]:
    for number in range(count):
        path = folder / f"wide_{number}.tflite"
        path.write_bytes(random_network(number, large=number >= WIDE // 2).tflite("int16"))
        yield path


def cases(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Path, Options]]:
    if not arguments.only:
        for model in wide_networks(folder, FEW_WIDE if arguments.quick else WIDE):
            yield f"{model.name} [default]", model, PLAIN
    for model in chosen(arguments):
        if arguments.quick and not model.name.startswith(QUICK):
            continue
        ways = ALWAYS | (SOMETIMES if model.name.startswith(MORE) else {})
        for way, options in ways.items():
            yield f"{model.name} [{way}]", model, options


def different(before: Hashes, after: Hashes) -> list[str]:
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return [name for name in names if name not in FIGURES]


def worse(before: Hashes, after: Hashes) -> str:
    """What became slower or larger, in words."""
    both = FIGURES & before.keys() & after.keys()
    ratios = {name: int(after[name]) / max(1, int(before[name])) for name in both}
    return ", ".join(f"{name} x {ratio:.4f}" for name, ratio in sorted(ratios.items()) if ratio != 1)


def is_worse(before: Hashes, after: Hashes) -> bool:
    if "refused" in before or "refused" in after:
        return "refused" not in before
    return int(after[CYCLES]) > SLOWER * int(before[CYCLES]) or int(after[RAM]) > int(before[RAM])


def run(arguments: argparse.Namespace) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        return _run(arguments, Path(folder))


def _run(arguments: argparse.Namespace, folder: Path) -> Report:
    before: dict[str, Hashes] = read(arguments.against)
    found: dict[str, Hashes] = {}
    programs = explanations = losers = 0
    for label, model, options in cases(arguments, folder):
        started = time.process_time()
        found[label] = hashes(model, options)
        seconds = time.process_time() - started
        if arguments.save:
            keep(arguments.save, found)
        if label not in before:
            print(f"{seconds:5.1f} s  {label}: {len(found[label])} hashes", flush=True)
            continue
        changed = different(before[label], found[label])
        programs += changed not in ([], [EXPLANATION])
        explanations += EXPLANATION in changed
        losers += is_worse(before[label], found[label])
        figures = worse(before[label], found[label])
        print(f"{seconds:5.1f} s  {label}: {', '.join(changed) or 'same'}  {figures}", flush=True)
    if arguments.against:
        print(f"{len(found)} compilations, {programs} with other programs, {explanations} with other explanations")
        print(f"{losers} slower by more than {SLOWER - 1:.1%} or with more RAM")
    return Report(failed=losers > 0 if arguments.figures else programs > 0)
