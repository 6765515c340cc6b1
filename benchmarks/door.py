"""The one door to the benchmarks.

    python -m benchmarks --list                  what there is, by group
    python -m benchmarks NAME [options]          one of them; NAME --help says what it takes
    python -m benchmarks NAME --write            and keeps its page in benchmarks/results
    python -m benchmarks --stale                 pages that are older than the code they speak of
    python -m benchmarks --tree DIR NAME         measures the atonc of another checkout
    python -m benchmarks --readme                writes benchmarks/README.md anew
"""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from benchmarks.shared import pages, tables
from benchmarks.shared.corpus import ROOT
from benchmarks.shared.declare import Argument, Report
from benchmarks.shared.stale import stale_pages

HERE = ROOT / "benchmarks"
GROUPS = {
    "speed": "How fast and how large our programs are",
    "st": "Beside ST's figures and ST's compiler",
    "time": "Is the prediction of time right",
    "truth": "Are the numbers right",
    "silicon": "What published programs show of the chip",
    "board": "On the virtual board, as an application, as a relocatable image",
    "deployment": "Into applications that ST publishes",
    "quantising": "Quantising and judging models",
    "tools": "The tools themselves: time, memory, damaged input",
}
RECORDS = (
    "What was tried once: with compiled sources of others, which nothing in this repository compiles, or to settle a",
    "question. No command makes these pages again; each says which commits it is of.",
)
NO_BENCHMARKS = ("__init__", "__main__", "door")


@dataclass(frozen=True)
class Entry:
    """What a file says of itself, read without importing what it imports."""

    name: str
    group: str
    sentence: str
    details: str

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(f"benchmarks.{self.name}")


def entries(folder: Path = HERE) -> list[Entry]:
    return [entry_of(path) for path in sorted(folder.glob("*.py")) if path.stem not in NO_BENCHMARKS]


def entry_of(path: Path) -> Entry:
    tree = ast.parse(path.read_text())
    said = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    text = ast.get_docstring(tree) or ""
    sentence = re.match(r".*?[.?!](?=\s|$)", " ".join(text.split()))
    return Entry(path.stem, str(said.get("GROUP", "")), sentence[0] if sentence else "", text)


def listed(found: Sequence[Entry]) -> str:
    wide = max(len(entry.name) for entry in found)
    lines = []
    for group, title in GROUPS.items():
        lines += ["", title]
        lines += [f"  {entry.name:{wide}}  {entry.sentence}" for entry in found if entry.group == group]
    return "\n".join(lines[1:])


def readme(found: Sequence[Entry]) -> str:
    """benchmarks/README.md."""
    lines = [(HERE / "shared" / "README_head.md").read_text().rstrip()]
    for group, title in GROUPS.items():
        lines += ["", f"## {title}", "", *tables.head("name", "what it asks", "page")]
        lines += [tables.row((f"`{e.name}`", e.sentence, _link(e.name))) for e in found if e.group == group]
    lines += ["", "## Records", "", *RECORDS, "", *tables.head("what was done", "page")]
    lines += [tables.row((title, _link(name))) for name, title in _records()]
    return "\n".join(lines) + "\n"


def _records() -> Iterator[tuple[str, str]]:
    for path in sorted(pages.RESULTS.glob("*.md")):
        text = path.read_text()
        if pages.is_record(text):
            yield path.stem, text.partition("\n")[0].removeprefix("# ")


def _link(name: str) -> str:
    return f"[{name}.md](results/{name}.md)" if pages.result(name).is_file() else ""


def parser_of(entry: Entry, arguments: Sequence[Argument]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {entry.name}",
        description=entry.details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for argument in arguments:
        argument.add_to(parser)
    return parser


def run(entry: Entry, words: Sequence[str], other_tree: bool = False) -> int:
    module = entry.module
    parser = parser_of(entry, module.ARGUMENTS)
    given = parser.parse_args(words)
    keep_page = getattr(given, "write", False)
    if keep_page and other_tree:
        parser.error("a page is of this checkout: --write does not go with --tree")
    report: Report = module.run(given)
    if report.page:
        print(report.page)
    if keep_page:
        said = (argument.spelled(getattr(given, argument.attribute)) for argument in module.ARGUMENTS)
        pages.write(entry.name, report, " ".join(["python -m benchmarks", entry.name, *filter(None, said)]))
    return int(report.failed)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="names and what they ask, by group")
    parser.add_argument("--stale", action="store_true", help="pages older than their code; exit code 1 if any")
    parser.add_argument("--readme", action="store_true", help="write README.md from the declarations")
    parser.add_argument("--tree", type=Path, metavar="DIR", help="measure the atonc of that checkout")
    parser.add_argument("name", nargs="?", help="one of --list")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="its own options")
    given = parser.parse_args(words)
    found = {entry.name: entry for entry in entries()}
    if given.readme:
        (HERE / "README.md").write_text(readme(list(found.values())))
        return 0
    if given.stale:
        late = list(stale_pages(ROOT))
        print("\n".join(f"{page}: {why}" for page, why in late) or "every page is of this code")
        return int(bool(late))
    if given.list or not given.name:
        print(listed(list(found.values())))
        return 0
    if given.name not in found:
        parser.error(f"there is no benchmark {given.name!r}; --list names {len(found)}")
    if given.tree:
        sys.path.insert(0, str(given.tree.resolve()))
    return run(found[given.name], given.rest, other_tree=bool(given.tree))
