"""Are programs, memory images, generated C and explanations the same bytes as at another commit?

    python benchmarks/same_programs.py --write FILE [--quick] [--only TEXT]      hashes of this tree
    python benchmarks/same_programs.py --against FILE [--quick] [--only TEXT] [--shard 1/3]    compares with them

Every model of the corpus ($ATONC_CORPUS or ../shared/corpus) with the default options and with `--numerics 2.x`; ten of
them with `--prefer memory` and `--no-epoch-controller` too. `--quick`: eight small models. For the hashes of another
commit, run this file with PYTHONPATH at a tree of it. Explanations (decisions of layers) are compared apart from what
the chip runs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from atonc.app.generating import analyze, c_network
from atonc.emit import write
from atonc.emit.c.files import files
from atonc.errors import AtoncError
from atonc.insight.ours import network_view
from atonc.options import Options

CORPUS = Path(os.environ.get("ATONC_CORPUS") or Path(__file__).parents[2] / "shared" / "corpus")
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
    """Of every file that firmware takes, of the program as text, and of what is said about each layer."""
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


def cases(quick: bool, only: str, shard: str) -> Iterator[tuple[str, Path, Options]]:
    models = sorted(path for path in (CORPUS / "models").iterdir() if path.suffix in (".tflite", ".onnx"))
    number, shards = map(int, shard.split("/"))
    for model in models[number - 1 :: shards]:
        if only not in model.name or (quick and not model.name.startswith(QUICK)):
            continue
        ways = ALWAYS | (SOMETIMES if model.name.startswith(MORE) else {})
        for way, options in ways.items():
            yield f"{model.name} [{way}]", model, options


def different(before: Hashes, after: Hashes) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--shard", default="1/1")
    args = parser.parse_args()
    before: dict[str, Hashes] = json.loads(args.against.read_text()) if args.against else {}
    found: dict[str, Hashes] = {}
    programs = explanations = 0
    for label, model, options in cases(args.quick, args.only, args.shard):
        started = time.process_time()
        found[label] = hashes(model, options)
        seconds = time.process_time() - started
        if args.write:
            args.write.write_text(json.dumps(found, indent=1))
        if label not in before:
            print(f"{seconds:5.1f} s  {label}: {len(found[label])} hashes", flush=True)
            continue
        changed = different(before[label], found[label])
        programs += changed not in ([], [EXPLANATION])
        explanations += EXPLANATION in changed
        print(f"{seconds:5.1f} s  {label}: {', '.join(changed) or 'same'}", flush=True)
    if args.against:
        print(f"{len(found)} compilations, {programs} with other programs, {explanations} with other explanations")
    return int(programs > 0)


if __name__ == "__main__":
    sys.exit(main())
