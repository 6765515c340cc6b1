"""How near to published programs are ours?

The corpus is compiled, every form graded, and the price in cycles stated. One record a model, kept in a folder: cycles
of the hardware model, epochs by grade, how much stands behind them, every form that is not simply seen with its count
and first place, and the operators that went to the CPU for want of evidence. Several gates are reported one after the
other; `any` lets all forms pass, to see what the lowering would do; `resident` and `prefetch` are the default with
weights in RAM. `--list` prints all forms; `--before` compares with an earlier `GATE.json` (written to that folder by
every run). `--random`: also so many random networks of the tests, half of them with formats that fit badly.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from atonc.compiler.compile.pipeline import Compiled, compile_file, compile_graph
from atonc.compiler.emit.contexts import safety_contexts
from atonc.compiler.ir import Graph
from atonc.compiler.place import board
from atonc.compiler.request.options import ALL_FREE, Options
from atonc.compiler.request.target import trust_of
from atonc.compiler.schedule import PREFETCH
from atonc.compiler.select.rules import NO_EVIDENCE
from atonc.machine.base.errors import AtoncError
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec import ec_program, instructions
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.safety import SafetyContext
from atonc.machine.hw.safety.evidence import EpochGrade, Grade, counts, grade_program
from atonc.machine.hw.safety.evidence.table import behind
from benchmarks.shared import kept, tables
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import (
    BEFORE,
    FEW,
    FRESH,
    KEEP,
    MODEL_FILES,
    ONLY,
    RANDOM,
    SHARD,
    WRITE,
    Report,
    argument,
)
from tests.compiler.random_graphs import random_graph

ANY = "any"
FEW_MOVED = 50
ARGUMENT = re.compile(r"argument S\d+")
RESIDENT, FETCHED = "resident", "prefetch"
TITLES = {
    "composed": "As by default",
    "seen": "With --silicon seen",
    ANY: "With --allow-unproven",
    RESIDENT: "With --resident",
    FETCHED: "With --schedule-with prefetch",
}
CHANGES: dict[str, dict[str, Any]] = {
    "composed": {},
    "seen": {"silicon": "seen"},
    ANY: {"allow_unproven": True},
    RESIDENT: {"resident": ALL_FREE},
    FETCHED: {"schedule_with": (PREFETCH,)},
}
UNSEEN_ALLOWED = (ANY, FETCHED)
GROUP = "silicon"
ARGUMENTS = (
    MODEL_FILES,
    ONLY,
    FEW,
    SHARD,
    argument("--silicon", nargs="+", choices=list(TITLES), default=["composed"]),
    KEEP.but(default=kept.HOME / "atonc_silicon", metavar="DIR"),
    FRESH,
    BEFORE,
    RANDOM,
    argument("--list", action="store_true", help="print every form that is not simply seen"),
    WRITE,
)
Record = dict[str, Any]


def judge(source: Path | Graph, options: Options) -> Record:
    try:
        compiled = compile_graph(source, options) if isinstance(source, Graph) else compile_file(source, options)
    except AtoncError as error:
        return {"refused": error.one_line}
    pools = board("stm32n6570-dk").pools
    cost = compiled.cost
    steps = compiled.program.steps
    npu = sum(c.cycles for s, c in zip(steps, cost.steps, strict=True) if s.epoch is not None)
    record = {"npu_cycles": npu, "cycles": cost.cycles, "latency_ms": cost.latency_ms}
    record |= {"cpu_steps": sum(s.epoch is None for s in steps), "moved": moved(compiled)}
    record |= {"on_cpu": [f"{r.op} {r.node}" for r in compiled.choices.reasons]}
    decoded = [e for e in decode_epochs(instructions.decode(ec_program.words(compiled.program.epochs))) if not e.empty]
    return record | look(decoded, safety_contexts(compiled.program, pools, trust_of(options)), titles(compiled))


def moved(compiled: Compiled) -> list[str]:
    """What went to the CPU for want of evidence."""
    return [f"{r.op} {r.node}: {r.seen}" for r in compiled.choices.reasons if r.rule == NO_EVIDENCE]


def titles(compiled: Compiled) -> dict[int, str]:
    return {step.number: step.plan.title for step in compiled.program.steps}


def look(epochs: list[Epoch], context: Mapping[int, SafetyContext] | None, named: Mapping[int, str]) -> Record:
    """Epochs by grade; forms by what they are, with how many units, how many epochs, and the first place."""
    grades = grade_program(epochs, context)
    units: Counter[tuple[str, ...]] = Counter()
    places: dict[tuple[str, ...], list[int]] = {}
    first: dict[tuple[str, ...], str] = {}
    for found in grades:
        for form in found.forms:
            g = form.graded
            rests = str(g.strength) if g.strength.programs else ""
            key = (str(g.grade), g.argument, g.feature.name, g.feature.role, str(g.feature.value), g.seen, rests)
            units[key] += 1
            first.setdefault(key, f"epoch {found.number} {form.unit} ({named.get(found.number, '')})")
            if places.setdefault(key, [])[-1:] != [found.number]:
                places[key].append(found.number)
    forms = [[*key, units[key], len(places[key]), first[key]] for key in sorted(units)]
    return {
        "epochs": len(grades),
        "grades": counts(grades),
        "strength": strength(grades),
        "by_argument": by_argument(grades),
        "forms": forms,
    }


def by_argument(grades: Iterable[EpochGrade]) -> Counter[str]:
    """Epochs that rest on each argument."""
    return Counter(name for found in grades for name in {form.graded.argument for form in found.forms} if name)


def strength(grades: Iterable[EpochGrade]) -> dict[str, int]:
    """Epochs by the weakest of their forms."""
    found: Counter[str] = Counter()
    for epoch in grades:
        found["a form of one program"] += any(form.graded.grade == Grade.ONCE for form in epoch.forms)
        found["every form of two owners"] += epoch.weakest.owners > 1
        found["every form shipped by ST"] += epoch.weakest.shipped > 0
    return dict(found)


def merged(records: Mapping[str, Record]) -> list[list[Any]]:
    """Forms over all models: values of numbers that lie outside are put together as least..most."""
    groups: dict[tuple[str, ...], list[Any]] = {}
    for model, record in records.items():
        for grade, carried, name, role, value, seen, rests, units, epochs, place in record.get("forms", ()):
            number = value.removeprefix("-").isdigit()
            key = (grade, carried, name, role, "" if number else value, seen, rests)
            group = groups.setdefault(key, [0, 0, set(), [], f"{model}, {place}"])
            group[0] += units
            group[1] += epochs
            group[2].add(model)
            if number:
                group[3].append(int(value))
    rows = []
    for (grade, carried, name, role, word, seen, rests), (units, epochs, models, numbers, place) in groups.items():
        value = word or (f"{min(numbers)}..{max(numbers)}" if min(numbers) < max(numbers) else str(numbers[0]))
        rows.append([grade, carried, name, role, value, seen, rests, units, epochs, len(models), place])
    return sorted(rows, key=lambda row: (-Grade(row[0]).rank, -row[7], row[2], row[3], row[4]))


def form_lines(records: Mapping[str, Record]) -> Iterator[str]:
    yield "| grade | argument | form | in role | value | seen | behind it | units | epochs | models | first |"
    yield "|---|---|---|---|---|---|---|---:|---:|---:|---|"
    for row in merged(records):
        yield tables.row(str(cell).replace("|", "\\|") for cell in row)


def price_lines(records: Mapping[str, Record], before: Mapping[str, Record]) -> Iterator[str]:
    """Latency with the steps on the CPU, so that a step that moves there shows; cycles of the NPU alone."""
    yield f"| model | ms before | ms | ratio | cycles before | cycles | moved | {' | '.join(Grade)} |"
    yield f"|---|{'---:|' * (6 + len(Grade))}"
    ratios = []
    for model, record in sorted(records.items()):
        if "refused" in record:
            yield f"| {model} | | refused: {record['refused'][:120]} |"
            continue
        old = before.get(model, {})
        was, now = old.get("latency_ms", 0), record["latency_ms"]
        if was and now and record["epochs"]:
            ratios.append(now / was)
        ratio = f"{now / was:.3f}" if was and now else ""
        cells = [f"{was:.3f}", f"{now:.3f}", ratio, old.get("npu_cycles", ""), record["npu_cycles"]]
        cells += [len(record["moved"]), *record["grades"].values()]
        yield f"| {model} | " + " | ".join(map(str, cells)) + " |"
    if ratios:
        mean = tables.geometric_mean(ratios)
        yield f"\nGeometric mean of the ratio over {len(ratios)} models: {mean:.4f}; worst {max(ratios):.3f}."


def strength_lines(records: Mapping[str, Record]) -> Iterator[str]:
    """How much stands behind the epochs: those of all models together, by the weakest of their forms."""
    found: Counter[str] = Counter()
    for record in records.values():
        found.update(record.get("strength", {}))
    epochs = sum(record.get("epochs", 0) for record in records.values())
    yield f"Behind them: {behind()}. Of {epochs} epochs have\n"
    yield from (f"- {what}: {count}" for what, count in found.items())


def moved_lines(records: Mapping[str, Record]) -> Iterator[str]:
    """Operators on the CPU for want of evidence: one by one where they are few, else by the argument that they need."""
    lines = [f"- {model}: {what}" for model, record in records.items() for what in record.get("moved", ())]
    if len(lines) > FEW_MOVED:
        needed = Counter(found[0] if (found := ARGUMENT.findall(line)) else "an unseen form" for line in lines)
        lines = [f"- {count} operators would need {what}" for what, count in needed.most_common()]
    yield from lines


def totals(records: Iterable[Record]) -> str:
    found: Counter[str] = Counter()
    for record in records:
        found.update(record.get("grades", {}))
    return ", ".join(f"{count} {grade}" for grade, count in found.items())


def gated(arguments: argparse.Namespace, gate: str) -> dict[str, Record]:
    """One record a model, made here or kept from before; other shards fill in the rest."""
    options, folder = Options(verify=False, **CHANGES[gate]), arguments.keep / gate
    for model in chosen(arguments):
        found = kept.in_folder(folder, model.name, partial(judge, model, options), arguments.fresh)
        print(model.name, totals([found]), file=sys.stderr, flush=True)
    everything = argparse.Namespace(**vars(arguments) | {"shard": "0/1"})
    records = {model.name: found for model in chosen(everything) if (found := kept.read(folder / f"{model.name}.json"))}
    kept.write(arguments.keep / f"{gate}.json", records, indent=0)
    return records


def random_records(count: int) -> dict[str, Record]:
    networks = [(seed, plain) for seed in range((count + 1) // 2) for plain in (True, False)][:count]
    graphs = {f"{'plain' if plain else 'steep'} {seed}": random_graph(seed, plain) for seed, plain in networks}
    return {name: judge(graph, Options(verify=False)) for name, graph in graphs.items()}


def random_section(records: Mapping[str, Record]) -> Iterator[str]:
    yield f"## {len(records)} random networks, as by default\n"
    refused = [f"{name}: {record['refused']}" for name, record in records.items() if "refused" in record]
    yield f"Epochs: {totals(records.values())}. Refused: {len(refused)}.\n"
    yield from refused
    carried = Counter(form[1] for record in records.values() for form in record.get("forms", ()) if form[1])
    yield "Arguments: " + ", ".join(f"{name} in {count} forms" for name, count in sorted(carried.items())) + ".\n"
    yield from (*moved_lines(records), "")


def section(gate: str, records: Mapping[str, Record], before: Mapping[str, Record], forms: bool) -> Iterator[str]:
    yield f"## {TITLES[gate]}\n"
    yield f"Epochs: {totals(records.values())}.\n"
    yield from (*strength_lines(records), "")
    yield from price_lines(records, before)
    if forms:
        yield from ("", *form_lines(records), "", *moved_lines(records))
    yield ""


def run(arguments: argparse.Namespace) -> Report:
    before = kept.read(arguments.before)
    found = {gate: gated(arguments, gate) for gate in arguments.silicon}
    forms = arguments.list or arguments.write
    lines = [line for gate, records in found.items() for line in section(gate, records, before, forms)]
    found["random"] = random_records(arguments.random)
    lines += random_section(found["random"]) if arguments.random else []
    judged = (record for gate, records in found.items() if gate not in UNSEEN_ALLOWED for record in records.values())
    page = "\n".join(["# Forms of our programs against published ones", "", *lines])
    return Report(page, failed=any(record.get("grades", {}).get("unseen") for record in judged))
