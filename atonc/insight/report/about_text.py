"""`atonc explain --terms`: what the terms mean. `glossary.toml` has them, for the terminal and for docs/glossary.md."""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from atonc.insight.explain.operators import OperatorInfo
from atonc.insight.report.document import Chapter, Document, Mark, Marked, SummaryRow, head, next_row
from atonc.machine.base.about import __version__
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

_FILE = Path(__file__).with_name("glossary.toml")


@dataclass(frozen=True)
class Term:
    word: str
    means: str
    elsewhere: str  # what the field calls the same thing


@cache
def glossary() -> dict[str, tuple[Term, ...]]:
    """Title -> its words."""
    found = tomllib.loads(_FILE.read_text(encoding="utf-8"))["section"]
    return {section["title"]: tuple(Term(*row) for row in section["terms"]) for section in found}


PAGES = ("Results", "Pages and tables")  # whose terms pages explain


@cache
def meanings(*sections: str) -> dict[str, str]:
    """What a term means, by each name that it has, in small letters: of some sections, or of all."""
    chosen = [term for title, terms in glossary().items() if not sections or title in sections for term in terms]
    return {name.lower(): term.means for term in chosen for name in (term.word, *term.word.split(", "))}


def term_document() -> Document:
    def line(term: Term) -> str:
        elsewhere = f" (also: {term.elsewhere})" if term.elsewhere else ""
        return Marked.of((f"  {term.word}", Mark.RULE), (f": {term.means}{elsewhere}", None), hang=4)

    rows = [{"section": title} | asdict(term) for title, terms in glossary().items() for term in terms]
    sections = [Chapter(head(title), list(map(line, terms))) for title, terms in glossary().items()]
    return Document(sections=sections, data=lambda: {"terms": rows})


def term_page() -> list[str]:
    """docs/glossary.md."""
    out = ["# Glossary", "", "The terms that reports, messages and these pages use, and what other tools (or the code"]
    out += ["of this project) call the same thing. `atonc explain --terms` prints them. [Style guide](wording.md)."]
    for title, terms in glossary().items():
        out += ["", f"## {title}", "", "| term | meaning | also called |", "|---|---|---|"]
        out += [f"| {term.word} | {term.means} | {term.elsewhere} |" for term in terms]
    return out


PACKAGES = (
    *("numpy", "tree-sitter", "tree-sitter-c", "rich", "onnx", "flatbuffers", "tflite", "onnxruntime"),
    *("ai-edge-litert", "ortools", "pillow", "unicorn"),
)
COMPILER = "arm-none-eabi-gcc"


def version_lines() -> list[str]:
    found = [f"atonc {__version__}", f"Python {platform.python_version()} on {platform.platform(terse=True)}"]
    found += [f"{name} {_version(name)}" for name in PACKAGES]
    return [*found, f"{COMPILER} {shutil.which(COMPILER) or 'is not installed'}"]


def used_versions(*packages: str) -> dict[str, str]:
    """For a page that says how it was made: the date, and the versions of what computed its figures."""
    stamp = os.environ.get("SOURCE_DATE_EPOCH", "")  # reproducible-builds.org: whoever wants the same bytes sets it
    moment = datetime.fromtimestamp(int(stamp), UTC) if stamp.isdecimal() else datetime.now(UTC)
    found = {name: _version(name) for name in packages}
    return {"date": f"{moment:%Y-%m-%d}", "atonc": __version__, "Python": platform.python_version(), **found}


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # takes time to import, and pages have no versions

    try:
        return version(name)
    except PackageNotFoundError:
        return "is not installed"


def operator_document(table: Sequence[OperatorInfo], verbose: bool) -> Document:
    """Where each operator runs; `verbose`: with every rule that may send it to the CPU."""
    groups: dict[str, list[str]] = {}
    for info in table:
        groups.setdefault(info.where, []).append(info.kind)
    rest = "what may send one to the CPU: atonc ops OP; all of them: -v"
    summary = (SummaryRow("in all", count(len(table), "operator")), next_row(rest))
    sections = [
        Chapter(head(where, f": {len(kinds)}"), [f"  {', '.join(kinds)}"], close=True)
        for where, kinds in groups.items()
    ]
    return Document(
        sections=[Chapter("", list(_rules(table)))] if verbose else sections,
        summary=() if verbose else summary,
        data=lambda: {"operators": operator_data(table)},
    )


def _rules(table: Sequence[OperatorInfo]) -> Iterator[str]:
    for info in table:
        yield f"{info.kind}: {info.where}" + (f"; {info.note}" if info.note else "")
        for rule in info.rules:
            yield f"    {rule.id}: {rule.sentence}"
            yield f"        limit: {rule.limit}. Fix: {rule.remedy}."


def operator_markdown(table: Sequence[OperatorInfo]) -> list[str]:
    rows = [f"| {i.kind} | {i.where} | {', '.join(r.id for r in i.rules)} | {i.note} |" for i in table]
    return [f"# {len(table)} operators", "", "| operator | runs on | rules | note |", "|---|---|---|---|", *rows, ""]


def operator_data(table: Sequence[OperatorInfo]) -> list[dict[str, Any]]:
    return [
        {"op": info.kind, "where": info.where, "note": info.note, "rules": [rule.as_dict() for rule in info.rules]}
        for info in table
    ]


FILES = ("FILE", "DIR", "MODEL", "REF", "FIRMWARE")  # metavars of these kinds are paths


@dataclass(frozen=True)
class Verb:
    """A verb, or a verb behind it (`board run`)."""

    words: tuple[str, ...]
    help: str
    flags: tuple[str, ...]
    values: dict[str, tuple[str, ...]]  # flag -> what may stand behind it; nothing listed: a path
    free: tuple[str, ...]  # flags whose value is anything else
    inner: tuple[str, ...]  # verbs behind this one


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    verbs = list(_verbs(parser, ()))
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](verbs)


def _verbs(parser: argparse.ArgumentParser, words: tuple[str, ...], help: str = "") -> Iterator[Verb]:
    flags, values, free = list[str](), dict[str, tuple[str, ...]](), list[str]()
    subparsers = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    choices = subparsers[0].choices if subparsers else {}
    for action in parser._actions:
        flags += action.option_strings
        for flag in action.option_strings if action.nargs != 0 else ():
            if action.choices:
                values[flag] = tuple(map(str, action.choices))
            elif _is_path(action):
                values[flag] = ()
            else:
                free.append(flag)
        if action.choices and not action.option_strings and action not in subparsers:
            choices = dict.fromkeys(map(str, action.choices), None) if not subparsers else choices
    yield Verb(words, help, tuple(flags), values, tuple(free), tuple(choices))
    helps = {a.dest: a.help or "" for a in subparsers[0]._choices_actions} if subparsers else {}
    for name, inner in choices.items():
        if inner is not None:
            yield from _verbs(inner, (*words, name), helps.get(name, ""))


def _is_path(action: argparse.Action) -> bool:
    return isinstance(action.metavar, str) and any(kind in action.metavar for kind in FILES)


def _bash(verbs: list[Verb]) -> str:
    return "\n".join([*_function(verbs), "complete -o filenames -F _atonc atonc", ""])


def _zsh(verbs: list[Verb]) -> str:
    """zsh runs scripts of bash for this."""
    head = ["autoload -U +X compinit && compinit", "autoload -U +X bashcompinit && bashcompinit"]
    return "\n".join([*head, *_function(verbs), "complete -o filenames -F _atonc atonc", ""])


def _function(verbs: list[Verb]) -> Iterator[str]:
    yield "_atonc() {"
    yield '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" verb="" k'
    yield "  for ((k = 1; k < COMP_CWORD; k++)); do"
    yield '    case "$verb ${COMP_WORDS[k]}" in'
    known = "|".join(_quoted(" ".join(("", *verb.words))) for verb in verbs if len(verb.words) == 1)
    deeper = "|".join(_quoted(" ".join(verb.words)) for verb in verbs if len(verb.words) > 1)
    yield f'      {known}) verb="${{COMP_WORDS[k]}}" ;;'
    if deeper:
        yield f'      {deeper}) verb="$verb ${{COMP_WORDS[k]}}" ;;'
    yield "    esac"
    yield "  done"
    yield "  COMPREPLY=()"
    yield '  case "$verb $before" in'
    for verb in verbs:
        name = " ".join(verb.words)
        for flag, values in verb.values.items():
            found = f'-W "{" ".join(values)}"' if values else "-f"
            yield f'    {_quoted(f"{name} {flag}")}) COMPREPLY=($(compgen {found} -- "$word")); return ;;'
        if verb.free:
            yield f"    {'|'.join(_quoted(f'{name} {flag}') for flag in verb.free)}) return ;;"
    yield "  esac"
    yield '  case "$verb" in'
    for verb in verbs:
        words = " ".join((*verb.inner, *verb.flags))
        yield f'    {_quoted(" ".join(verb.words))}) COMPREPLY=($(compgen -W "{words}" -- "$word")) ;;'
    yield "  esac"
    yield '  [[ $word == -* ]] || COMPREPLY+=($(compgen -f -- "$word"))'
    yield "}"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _fish(verbs: list[Verb]) -> str:
    lines = list[str]()
    for verb in verbs:
        if verb.words:
            seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in verb.words)
        else:
            seen = "not __fish_seen_subcommand_from " + " ".join(v.words[0] for v in verbs if len(v.words) == 1)
        start = f"complete -c atonc -n {shlex.quote(seen)}"
        helps = {v.words[-1]: v.help for v in verbs if v.words[:-1] == verb.words and v.words}
        lines += [f"{start} -a {name} -d {shlex.quote(helps.get(name, ''))}" for name in verb.inner]
        for flag in verb.flags:
            kind = "-l" if flag.startswith("--") else "-s" if len(flag) == 2 else "-o"
            spelled = f"{kind} {flag.lstrip('-')}"
            value = f" -x -a {shlex.quote(' '.join(verb.values[flag]))}" if verb.values.get(flag) else ""
            value = value or (" -r -F" if flag in verb.values else " -x" if flag in verb.free else "")
            lines.append(f"{start} {spelled}{value}")
    return "\n".join([*lines, ""])
