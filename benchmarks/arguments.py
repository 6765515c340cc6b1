"""What does each argument of docs/silicon.md carry, and what does it cost to do without it?

    python benchmarks/arguments.py [--only TEXT] [--few] [--arguments S2 S6] [--shard K/N]
                                   [--cache DIR] [--fresh] [--write]

Every model is compiled as by default and once more for each argument that its program rests on, with `--distrust`. A
program that does not rest on an argument is the same without it. One record a model and setting, kept in the cache;
`--few`: only the models of FEW. `--write` keeps the table as results/arguments.md and arguments.json, from which
`tools/gen_reference.py` fills docs/silicon.md.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fetched import corpus_dir
from silicon import Record, judge

from atonc.hw.safety.evidence.arguments import ARGUMENTS
from atonc.options import Options

RESULTS = Path(__file__).parent / "results" / "arguments.md"
MEASURED = "2026-11-16, 2-core aarch64 Linux"
DEFAULT = "default"
IDS = tuple(argument.id for argument in ARGUMENTS)
FEW = (  # of every family one or two, none that takes minutes
    "033_hand_landmark",
    "ImageNet__mobilenet_v1_0.25_224",
    "ImageNet__mobilenet_v2_0.35_128",
    "blazeface_front_128",
    "cifar10__resnet_v1_8_32",
    "fomo_face_detection",
    "food-101__st_efficientnet_lc_v1_128",
    "kws_ref_model",
    "K1_BOARD_614.4MHz_V1.0__models__mobilenet_v1",
    "esc10__miniresnet",
    "mobilenet_v1_0.25_96_tfs",
    "st_yolo_x_nano_192_0.33_0.25_int8",
    "face_landmark_ptq",
    "baseline_conv2d_pool",
    "yunetn_320",
    "micro_speech",
    "split_concat",
)
Records = dict[str, dict[str, Record]]  # by model, by setting


def rests_on(record: Record, argument: str) -> int:
    """Epochs."""
    return int(record.get("by_argument", {}).get(argument, 0))


def settings(record: Record, asked: tuple[str, ...]) -> list[str]:
    """Those whose program differs from the default one."""
    return [argument for argument in asked if rests_on(record, argument)]


def kept(cache: Path, model: Path, setting: str, fresh: bool) -> Record:
    """The record of one compilation, made now if there is none."""
    file = cache / setting / f"{model.name}.json"
    if fresh or not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        distrust = () if setting == DEFAULT else (setting,)
        file.write_text(json.dumps(judge(model, Options(verify=False, distrust=distrust))))
        print(setting, model.name, file=sys.stderr, flush=True)
    return dict(json.loads(file.read_text()))


def run(arguments: argparse.Namespace) -> Records:
    shard, shards = (int(part) for part in arguments.shard.split("/"))
    models = [m for m in sorted((corpus_dir() / "models").iterdir()) if arguments.only in m.name]
    if arguments.few:
        models = [m for m in models if any(name in m.name for name in FEW)]
    records: Records = {}
    for model in models[shard::shards]:
        default = kept(arguments.cache, model, DEFAULT, arguments.fresh)
        own = {
            one: kept(arguments.cache, model, one, arguments.fresh) for one in settings(default, arguments.arguments)
        }
        records[model.name] = {DEFAULT: default} | own
    return records


def row(records: Records, argument: str) -> Record:
    """What an argument carries and what doing without it costs, over all models."""
    rest = {name: found for name, found in records.items() if argument in found}
    ratios = {name: price(found, argument) for name, found in records.items()}
    known = {name: ratio for name, ratio in ratios.items() if ratio}
    worst = max(known, key=lambda name: known[name], default="")
    moved = {name: moved_without(found, argument) for name, found in rest.items()}
    return {
        "argument": argument,
        "epochs": sum(rests_on(found[DEFAULT], argument) for found in rest.values()),
        "models": len(rest),
        "to_cpu": sum(map(len, moved.values())),
        "left": sum(rests_on(found[argument], argument) for found in rest.values()),
        "refused": sorted(name for name, found in rest.items() if "refused" in found[argument]),
        "price": mean(known.values()),
        "worst": known.get(worst, 1.0),
        "worst_model": worst,
        "moved": {name: names for name, names in moved.items() if names},
    }


def price(found: Mapping[str, Record], argument: str) -> float:
    """Predicted cycles without the argument, of those by default; none where nothing is predicted."""
    default, without = found[DEFAULT], found.get(argument, found[DEFAULT])
    return float(without.get("cycles", 0) / default["cycles"]) if default.get("npu_cycles") else 0.0


def mean(ratios: Any) -> float:
    """Geometric."""
    found = list(ratios)
    return math.exp(sum(map(math.log, found)) / len(found)) if found else 1.0


def moved_without(found: Mapping[str, Record], argument: str) -> list[str]:
    """Operators that the CPU has to do then, and only then."""
    return sorted(set(found[argument].get("on_cpu", ())) - set(found[DEFAULT].get("on_cpu", ())))


def lines(rows: list[Record], models: int, few: str) -> Iterator[str]:
    yield "# What each argument carries, and the price of doing without it\n"
    yield f"`python benchmarks/arguments.py{few}`, {MEASURED}. {models} models of the corpus. Price: predicted"
    yield "cycles, the CPU with them, with `--distrust ID` of those by default; a model whose program does not rest on"
    yield "the argument counts as 1.\n"
    yield "| argument | epochs that rest on it | models | operators to the CPU without | price, mean | worst |"
    yield "|---|---:|---:|---:|---:|---|"
    for found in rows:
        worst = f"{found['worst']:.3f} {found['worst_model']}" if found["worst"] > 1 else ""
        cells = (found["argument"], found["epochs"], found["models"], found["to_cpu"], f"{found['price']:.4f}", worst)
        yield f"| {' | '.join(map(str, cells))} |"
    yield ""
    for found in rows:
        yield from (f"- without {found['argument']}, {m}: {', '.join(names)}" for m, names in found["moved"].items())
        yield from (f"- without {found['argument']}, {m}: refused" for m in found["refused"])
        if found["left"]:
            yield f"- without {found['argument']}: {found['left']} epochs still rest on it"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--few", action="store_true", help="a varied handful of models")
    parser.add_argument("--arguments", nargs="+", choices=IDS, default=IDS, metavar="ID")
    parser.add_argument("--shard", default="0/1", metavar="K/N")
    parser.add_argument("--cache", type=Path, default=Path("/tmp/atonc_arguments"), metavar="DIR")
    parser.add_argument("--fresh", action="store_true", help="compile again what is in the cache")
    parser.add_argument("--write", action="store_true", help=f"also write {RESULTS.name} and its JSON")
    arguments = parser.parse_args()
    records = run(arguments)
    rows = [row(records, argument) for argument in arguments.arguments]
    text = "\n".join(lines(rows, len(records), " --few" if arguments.few else "")) + "\n"
    print(text)
    if arguments.write:
        RESULTS.write_text(text)
        RESULTS.with_suffix(".json").write_text(json.dumps({"models": len(records), "rows": rows}, indent=1) + "\n")
    return 1 if any(found["left"] or found["refused"] for found in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
