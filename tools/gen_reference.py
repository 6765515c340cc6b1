"""Writes docs/reference: operators, rules, options and errors, from the objects that the compiler uses; and the figures
in README.md and docs, from the results of benchmarks (`tools/figures.py`).

    python tools/gen_reference.py          writes the pages
    python tools/gen_reference.py --check  exit code 1 if a page is not what would be written
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from atonc.compiler.request.options import Options
from atonc.compiler.select import rules as mapping
from atonc.delivery.application.types import AppOptions
from atonc.delivery.recordings import store
from atonc.delivery.reloc.options import RelocOptions
from atonc.delivery.texts import selftest_text
from atonc.delivery.yolo.options import YoloOptions
from atonc.doors.cli import cli
from atonc.doors.verbs.parser import HELP_ALL, ST_ONLY, default_text
from atonc.doors.verbs.stedgeai import COMMON, GENERATE, OPS, VALIDATE, Foreign
from atonc.insight.evaluating.options import EvaluateOptions
from atonc.insight.explain import rules as shaping
from atonc.insight.explain.operators import operator_table, source_operators
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.insight.report import about_text
from atonc.insight.sweeping.plan import SweepOptions
from atonc.machine.base import errors
from atonc.machine.base.declare import declared
from atonc.machine.base.reasons import Rule
from atonc.machine.hw.safety import all_rules
from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS
from atonc.machine.hw.safety.evidence.grades import Strength
from atonc.machine.hw.safety.evidence.table import SeenNumbers, Table, behind, evidence, words
from atonc.machine.hw.safety.evidence.unit_features import any_value

sys.path.insert(0, str(Path(__file__).parent))
import figures
import wings

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
# verb -> what it declares besides the options of the compiler
_OWN_OPTIONS = {
    "app build": (AppOptions,),
    "evaluate": (EvaluateOptions,), "quantize": (QuantizeOptions,), "reloc": (RelocOptions,), "sweep": (SweepOptions,),
    "yolo": (YoloOptions,),
}  # fmt: skip
SKILL = Path(__file__).parent.parent / "atonc" / "doors" / "agents" / "SKILL.md"  # what `atonc mcp` serves
HEAD = "<!-- written by tools/gen_reference.py; change the code, not this page -->\n\n"


def pages() -> dict[str, str]:
    return {
        "ops.md": HEAD + "\n".join(_ops()) + "\n",
        "rules.md": HEAD + "\n".join(_rules()) + "\n",
        "options.md": HEAD + "\n".join(_options()) + "\n",
        "st-options.md": HEAD + "\n".join(_st_options()) + "\n",
        "errors.md": HEAD + "\n".join(_errors()) + "\n",
        "skill.md": HEAD + SKILL.read_text("utf-8").split("---\n", 2)[2].lstrip(),
        "../images/wings.svg": wings.drawing(),
        "../glossary.md": HEAD + "\n".join(about_text.term_page()) + "\n",
        "../silicon.md": HEAD + "\n".join(_silicon()) + "\n",
        "../selftest.md": _selftest(),
    }


def _selftest() -> str:
    """The page as it is, with the table of findings between its marks."""
    first, last = "<!-- findings -->", "<!-- end of findings -->"
    before, _, rest = (FOLDER.parent / "selftest.md").read_text().partition(first)
    return "\n".join([before + first, *selftest_text.page_table(), last + rest.partition(last)[2]])


def _ops() -> Iterator[str]:
    yield "# Operators\n"
    yield "Where each operator runs, and the [rules](rules.md) that may send it to the CPU. `atonc ops OP` shows one"
    yield "with all its rules; `atonc explain MODEL` says which of them applied.\n"
    yield "| operator | runs on | rules | note |\n|---|---|---|---|"
    for info in operator_table():
        links = ", ".join(f"[{rule.id}](rules.md#{rule.id.lower()})" for rule in info.rules)
        yield f"| {info.kind} | {info.where} | {links} | {info.note} |"
    yield "\nThese operators are read, others refused by name (`--cut-output-tensors` ends the model before them):\n"
    for source, names in source_operators().items():
        yield f"- {source}: {', '.join(names)}"


def _rules() -> Iterator[str]:
    yield "# Rules\n"
    yield "Every decision and every error names one of these.\n"
    yield from _section("What sends an operator to the CPU", mapping.RULES.values())
    yield from _section("Bottlenecks and properties of a layer", shaping.RULES)
    yield from _section("Hardware rules that every epoch is checked against", all_rules())


def _section(title: str, found: Iterable[Rule]) -> Iterator[str]:
    yield f"## {title}\n"
    for rule in sorted(found, key=lambda rule: rule.id):
        yield f"### {rule.id}\n"
        yield f"{rule.sentence[0].upper()}{rule.sentence[1:]}.\n"
        if rule.limit:
            yield f"- Limit: {rule.limit}"
        if rule.remedy:
            yield f"- Fix: {rule.remedy}"
        yield f"- Source: {rule.evidence}\n"


def _options() -> Iterator[str]:
    yield "# Verbs and options\n"
    yield "Without a verb: `analyze`. `-v` may have a level behind it, as in ST's tool. Options of the compiler are"
    yield "arguments of `atonc.compile` in [Python](../python.md) too, under the name in the last column. Which of"
    yield "ST's options have no effect, and why, is [a page of its own](st-options.md).\n"
    for name, verb in _each_verb(cli.parser()):
        kinds = (Options, *_OWN_OPTIONS.get(name, ()))
        arguments = {flag: member.name for kind in kinds for member, known in declared(kind) for flag in known.flags}
        yield f"## atonc {name}\n"
        for group in verb._action_groups:
            actions = [a for a in group._group_actions if _worth_a_row(a)]
            if group.title == ST_ONLY or not actions:
                continue
            if group.title not in ("options", "positional arguments"):
                yield f"**{group.title}**\n"
            yield "| option | meaning | default | Python |\n|---|---|---|---|"
            for action in actions:
                python = next((arguments[f] for f in action.option_strings if f in arguments), "")
                yield f"| `{_spelled(action)}` | {_help(action)} | {default_text(action)} | {python} |"
            yield ""
        if verb.epilog:
            yield "```\n" + "\n".join(line.strip() for line in verb.epilog.splitlines()[1:]) + "\n```\n"


def _worth_a_row(action: argparse.Action) -> bool:
    inner = isinstance(action, argparse._SubParsersAction)
    return not inner and action.help != argparse.SUPPRESS and not {"--help", HELP_ALL} & {*action.option_strings}


def _each_verb(parser: argparse.ArgumentParser, before: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every verb once, with the verbs behind it."""
    seen: set[int] = set()
    for name, verb in cli.verbs_of(parser).items():
        if id(verb) not in seen:
            seen.add(id(verb))
            yield before + name, verb
            yield from _each_verb(verb, f"{before}{name} ")


def _st_options() -> Iterator[str]:
    yield "# Options of ST's command line\n"
    yield "Scripts for ST's tool need only another program name: its verbs `analyze`, `generate`, `validate` and"
    yield "`supported-ops` take all options of version 4.0.1. Those below change nothing here and say so in one line;"
    yield "all others are in [the list of options](options.md).\n"
    tables = {"all verbs": COMMON, "generate": GENERATE, "validate": VALIDATE, "supported-ops": OPS}
    for title, table in tables.items():
        yield f"## {title}\n\n| option | why it has no effect |\n|---|---|"
        for known in table:
            yield f"| `{' '.join(filter(None, (', '.join(known.names), known.value)))}` | {_why(known)} |"
        yield ""


def _why(known: Foreign) -> str:
    return f"refused: {known.why}; {known.instead}" if known.refused else known.why


def _spelled(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        return metavar
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    values = "|".join(map(str, action.choices)) if action.choices else " ".join(_metavars(action))
    return f"{names} {values}".replace("|", "\\|")


def _metavars(action: argparse.Action) -> tuple[str, ...]:
    return action.metavar if isinstance(action.metavar, tuple) else (action.metavar or action.dest.upper(),)


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("|", "\\|").replace("%%", "%")


def _silicon() -> Iterator[str]:
    features = evidence()
    yield "# Hardware confidence\n"
    ran = store.ran_on_a_board(figures.RECORDINGS)
    begins = "Boards ran few of our programs (see below)" if ran else "No board has run our programs"
    yield f"{begins}. Each [NPU configuration](glossary.md#hardware) is therefore compared with"
    yield "*ST programs*: networks that ST's compiler"
    yield f"made and their owners published ([terms](glossary.md#hardware-confidence)): {behind()}"
    yield "as working demos. `tools/gen_evidence.py` collects the values of every register field of every unit in"
    yield "each role (`atonc/machine/hw/safety/data/evidence.json`). Files that were edited by hand"
    yield "(`tools/not_evidence.toml`) or that break a safety rule are left out.\n"
    yield "| confidence, best first | in JSON | meaning |\n|---|---|---|"
    yield "| seen in ST programs | `seen` | ST programs have this value or combination |"
    yield "| seen in one ST program | `once` | only one program has it |"
    yield "| within the range of ST programs | `within` | a number between those of ST programs in the same role |"
    yield "| subset of an epoch in ST programs | `part` | its parallel chains are some of those in an epoch of ST |"
    yield "| new combination of known parts | `composed` | ST programs have every part; an argument below allows it |"
    yield "| not seen in ST programs | `unseen` | goes to the CPU; `--allow-unproven` keeps it on the NPU |\n"
    yield "An epoch has the lowest confidence of its configurations. `atonc analyze` counts epochs by confidence; `-v`"
    yield "and `--json` list every configuration below *seen in ST programs*, with the number of programs, of owners of"
    yield "repositories, and of programs that ST ships. `--silicon seen` allows `seen`, `once` and `within`."
    yield "`--evidence FILE` adds the results of your own board ([the first hour with a board](first_hour.md)).\n"
    yield "## Recorded on boards\n"
    yield "From the folder `recordings` ([how to give one](recordings.md)). A byte that differs from the emulator's"
    yield "means a fault of the program, the emulator or the board.\n"
    yield f"{store.evidence_table(figures.RECORDINGS)}\n"
    yield from _looks()
    yield "## Arguments\n"
    for argument in ARGUMENTS:
        yield f"### {argument.id} {argument.title}\n"
        yield f"Allows {argument.allows}.\n\n{argument.why}\n"
        yield f"- ST programs: {argument.seen}"
        yield from _price(argument.id)
        yield f"- Disproved by: {argument.disproof}."
        yield f"- Test on a board: `atonc probe {' '.join(argument.probes)} -o DIR`\n"
    yield "## What is judged\n"
    yield "For each role of the unit: a *number* by the range of its values, a *word* by equality with one of them.\n"
    yield "| configuration | judged as | roles | times seen |\n|---|---|---:|---:|"
    for name, roles in features.items():
        kind = "number" if all(isinstance(table, SeenNumbers) for table in roles.values()) else "word"
        yield f"| {name} | {kind} | {len(roles)} | {sum(table.count for table in roles.values()):,} |"
    yield "\n## What may have any value\n"
    yield "| field | why |\n|---|---|"
    for unit, fields in any_value().items():
        yield from (f"| {unit} {field} | {why} |" for field, why in fields.items())


def _looks() -> Iterator[str]:
    """What is looked at beside registers."""
    yield "## Beyond registers\n"
    yield "- **Memory** that a stream engine in its role reads or writes. Kernels in ST programs, for example, are in"
    yield f"  {_strengths('STRENG memory', 'to CONVACC:1')}."
    yield "- **Copies**, by source and target memory and by what runs in the same epoch. With a convolution:"
    yield f"  {_strengths('copy', 'beside a convolution')}. Copies from flash in such an epoch are not seen;"
    yield "  `--schedule-with prefetch` allows them."
    yield "- **Bus interfaces**: how many engines of an epoch use each, and whether features and kernels of a CONVACC"
    yield "  come over the same one."
    yield "- **Interleaved writers**: several engines of one epoch that write one buffer alternately, by their number,"
    yield "  the length of their runs and the bytes between. Pairs as in ST programs are seen or within the range;"
    yield "  other pairs rely on S10, and so do three or more, which no board has run and only"
    yield "  `--schedule-with many-writers` makes."
    yield f"  In ST programs: {_strengths('two writers', '', 'interleaved')}."
    yield "- **Parallel chains**: seen as a whole, as a subset of an epoch, or each chain alone (S1).\n"
    yield from _thin()


def _strengths(name: str, role: str, begin: str = "") -> str:
    found = sorted(words(name, role).items(), key=lambda row: (-row[1].times, row[0]))
    return "; ".join(f"{word} ({strength})" for word, strength in found if word.startswith(begin))


def _thin() -> Iterator[str]:
    yield "## Seen in one program only\n"
    yield "Values of a word, or roles of a number ([what these are](#what-is-judged)), that only one program has.\n"
    yield "| configuration | values or roles | in one program only | of these shipped by ST |\n|---|---:|---:|---:|"
    for name, roles in evidence().items():
        found = [s for table in roles.values() for s in _known(table)]
        single = [strength for strength in found if strength.single]
        if single:
            yield f"| {name} | {len(found)} | {len(single)} | {sum(strength.shipped for strength in single)} |"
    yield ""


def _known(table: Table) -> Iterable[Strength]:
    return (table.known,) if isinstance(table, SeenNumbers) else table.seen.values()


def _price(argument: str) -> Iterator[str]:
    """What benchmarks/arguments.py found."""
    results = json.loads((figures.RESULTS / "arguments.json").read_text())
    for row in results["rows"]:
        if row["argument"] == argument:
            yield (
                f"- Used by no epoch of {results['models']} int8 models."
                if not row["epochs"]
                else f"- Used by {row['epochs']:,} epochs of {row['models']} of {results['models']} int8 models. Cost "
                f"of `--distrust {argument}`: {row['price']:.3f}x the predicted cycles (geometric mean), at worst "
                f"{row['worst']:.3f}x; {row['to_cpu']:,} operators move to the CPU."
            )


def _errors() -> Iterator[str]:
    yield "# Errors and exit codes\n"
    yield "An error is a few lines on standard error. The first says where (file, node) and what; `cause:` says why,"
    yield "`fix:` what to do. Lines are as wide as the terminal, or 100 columns.\n"
    yield (
        'With `--json`, standard output holds `{"error": {...}}` with `kind`, `exit_code`, `what`, `where`, `rule`, '
        "`remedy`, and `details`\n(a list of lines) where there is more to say.\n"
    )
    yield "| exit code | error | meaning |\n|---|---|---|"
    yield "| 0 | | done |"
    yield "| 1 | | a gate or a validation failed |"
    found = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.AtoncError)]
    for kind in sorted(found, key=lambda k: (k.exit_code, k.__name__)):
        if kind is not errors.AtoncError:
            meaning = " ".join((kind.__doc__ or "").split())
            yield f"| {kind.exit_code} | {kind.__name__} | {meaning} |"
    yield f"| {errors.CANNOT_JUDGE} | | `validate` cannot judge: a package that decides the verdict is not installed |"
    yield "| 130 | | interrupted |"


def main() -> int:
    found = {FOLDER / name: text for name, text in pages().items()} | figures.documents()
    stale = [path for path, text in found.items() if not _same(path, text)]
    if "--check" in sys.argv[1:]:
        for path in stale:
            name = path.resolve().relative_to(FOLDER.parents[1])
            print(f"{name} is stale: run tools/gen_reference.py", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in found.items():
        path.write_text(text)
    return 0


def _same(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
