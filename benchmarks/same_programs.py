"""Are programs, memory images, generated C and explanations the same bytes as at another commit?

Every model of the corpus with the default options and with `--numerics 2.x`; ten of them with `--prefer memory` and
`--no-epoch-controller` too. `--quick`: eight small models. Hashes of another commit: `--tree` at a checkout of it, with
`--save FILE`; then `--against FILE` here. Explanations (decisions of layers) are compared apart from what
the chip runs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from atonc.compiler.emit import write
from atonc.compiler.emit.c.files import files
from atonc.compiler.request.options import Options
from atonc.delivery.generate.generating import analyze, c_network
from atonc.insight.explain.ours import network_view
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import MODEL_FILES, ONLY, SAVE, SHARD, Report, argument
from benchmarks.shared.kept import read
from benchmarks.shared.kept import write as keep

GROUP = "speed"
ARGUMENTS = (
    SAVE,
    argument("--against", type=Path, metavar="FILE", help="compare with those there"),
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
ALWAYS = {"default": PLAIN, "2.x": replace(PLAIN, numerics="2.x")}
SOMETIMES = {"memory": replace(PLAIN, prefer="memory"), "no controller": replace(PLAIN, epoch_controller=False)}
EXPLANATION = "explanation"

Hashes = dict[str, str]


def hashes(model: Path, options: Options) -> Hashes:
    """Hashes every file that firmware takes, the program as text, and what is said about each layer."""
    try:
        view = analyze(model, options)
    except AtoncError as error:
        return {"refused": str(error)}
    firmware = files(c_network(view))
    said = [[layer.name, [one.as_dict() for one in layer.decisions]] for layer in network_view(view).layers]
    found = {
        "program": write.assembly(view.compiled.program, "network").encode(),
        EXPLANATION: json.dumps(said).encode(),
        **firmware,
    }
    return {name: sha256(content).hexdigest() for name, content in sorted(found.items())}


def cases(arguments: argparse.Namespace) -> Iterator[tuple[str, Path, Options]]:
    for model in chosen(arguments):
        if arguments.quick and not model.name.startswith(QUICK):
            continue
        ways = ALWAYS | (SOMETIMES if model.name.startswith(MORE) else {})
        for way, options in ways.items():
            yield f"{model.name} [{way}]", model, options


def different(before: Hashes, after: Hashes) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def run(arguments: argparse.Namespace) -> Report:
    before: dict[str, Hashes] = read(arguments.against)
    found: dict[str, Hashes] = {}
    programs = explanations = 0
    for label, model, options in cases(arguments):
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
        print(f"{seconds:5.1f} s  {label}: {', '.join(changed) or 'same'}", flush=True)
    if arguments.against:
        print(f"{len(found)} compilations, {programs} with other programs, {explanations} with other explanations")
    return Report(failed=programs > 0)
