"""What does it cost to do only what ST does? `--silicon seen` against ST's best published figure for the same file.

    python benchmarks/silicon_seen.py [--only TEXT ...] [--files FILE ...] [--all] [--fresh] [--write]

By default the models of the corpus that ST published a figure for. One record a model, kept in
results/silicon_seen.json as they come: predicted ms, operators that are on the CPU only so, each with the reason.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fetched import corpus_dir
from schedule import INPUTS, RECORDS, mean, published

from atonc.errors import AtoncError
from atonc.options import Options
from atonc.pipeline import Compiled, compile_file

RESULTS = Path(__file__).parent / "results" / "silicon_seen.md"
KEPT = RESULTS.with_suffix(".json")
Record = dict[str, Any]


def measure(model: Path) -> Record:
    inputs = INPUTS.get(model.name, {})
    try:
        seen, default = (compile_file(model, Options(verify=False, silicon=s, **inputs)) for s in ("seen", "composed"))
    except AtoncError as error:
        return {"refused": str(error)}
    return {
        "ms": round(seen.cost.latency_ms, 3),
        "default_ms": round(default.cost.latency_ms, 3),
        "epochs": len(seen.program.epochs),
        "moved": moved(seen, default),
    }


def moved(seen: Compiled, default: Compiled) -> list[list[str]]:
    """Operators that only `--silicon seen` sends to the CPU."""
    already = {reason.node for reason in default.mapped.reasons}
    found = [r for r in seen.mapped.reasons if r.node not in already]
    return [[r.op, r.node, r.rule, f"{r.seen} (seen: {r.limit})"] for r in found]


def lines(records: Mapping[str, Record]) -> Iterator[str]:
    best = published()
    rows = {name: record for name, record in sorted(records.items()) if "ms" in record}
    ratios = [record["ms"] / best[name].ms for name, record in rows.items() if name in best]
    yield f"* Against ST's best published figure: geometric mean {mean(ratios)} models."
    yield f"* Against our programs as by default: {mean(r['ms'] / r['default_ms'] for r in rows.values())} models."
    yield f"* Operators on the CPU that are not by default: {sum(len(r['moved']) for r in rows.values())}."
    yield ""
    yield "| model | ms | by default | ST ms | to ST | epochs | on the CPU besides |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name, r in rows.items():
        st = (f"{best[name].ms:g}", f"{r['ms'] / best[name].ms:.2f}") if name in best else ("", "")
        figures = f"{r['ms']:.3f} | {r['default_ms']:.3f} | {st[0]} | {st[1]} | {r['epochs']} | {len(r['moved'])}"
        yield f"| {name} | {figures} |"
    yield ""
    reasons = Counter((kind, rule, why) for r in rows.values() for kind, _, rule, why in r["moved"])
    yield "| operators | kind | rule | why |"
    yield "|---:|---|---|---|"
    for (kind, rule, why), count in reasons.most_common():
        yield f"| {count} | {kind} | {rule} | {why.replace('|', chr(92) + '|')} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="models whose name contains one of these")
    parser.add_argument("--files", nargs="*", type=Path, default=[], help="these files instead of the corpus")
    parser.add_argument("--all", action="store_true", help="also models without a figure of ST's")
    parser.add_argument("--fresh", action="store_true", help="forget what is kept")
    parser.add_argument("--keep", type=Path, default=KEPT)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    args = parser.parse_args()
    kept: dict[str, Record] = json.loads(args.keep.read_text()) if args.keep.exists() and not args.fresh else {}
    names = json.loads(RECORDS.read_text())["default"] if args.all else published()
    paths = {path.name: path for path in sorted((corpus_dir() / "models").rglob("*")) if path.name in names}
    paths = {path.name: path for path in args.files} or paths
    chosen = {n: p for n, p in paths.items() if not args.only or any(text in n for text in args.only)}
    for name, path in chosen.items():
        if name not in kept or args.only or args.files:
            kept[name] = measure(path)
            print(name, kept[name].get("ms"), kept[name].get("refused", ""), flush=True)
            args.keep.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    text = "\n".join(lines({name: kept[name] for name in chosen}))
    print(text)
    if args.write:
        said = "`python benchmarks/silicon_seen.py`. Times are predicted; nothing has run on a board."
        RESULTS.write_text(f"# With --silicon seen\n\n{said}\n\n{text}\n")


if __name__ == "__main__":
    main()
