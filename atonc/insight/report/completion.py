"""Shell scripts that complete the command line, made from the parser."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

from atonc.machine.base.frozen import dataclass

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
    yield '  COMPREPLY=()'
    yield '  case "$verb $before" in'
    for verb in verbs:
        name = " ".join(verb.words)
        for flag, values in verb.values.items():
            found = f'-W "{" ".join(values)}"' if values else "-f"
            yield f'    {_quoted(f"{name} {flag}")}) COMPREPLY=($(compgen {found} -- "$word")); return ;;'
        if verb.free:
            yield f'    {"|".join(_quoted(f"{name} {flag}") for flag in verb.free)}) return ;;'
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
