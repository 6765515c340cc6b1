"""The options of `atonc generate` that a visitor may set: shown with their help, checked by the command line itself.

They are those that the verb declares, without the `local` ones: options that name files of the machine, or that change
what the server writes and where.
"""

from __future__ import annotations

import argparse
import functools
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from atonc.machine.base.declare import PAIRS, Option, declared
from atonc.machine.base.errors import InputError
from atonc.machine.hw.board_file import board_names

_CHOICES = {"board": board_names()}  # the command line also takes files
LONG_VALUE = 2000


def schema() -> list[dict[str, Any]]:
    """Describes the options for the form and for the description of the interface."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, known in _allowed().items():
        title = known.group.split(":")[0].capitalize()
        groups.setdefault(title, []).append(_described(name, known))
    return [{"group": title, "options": found} for title, found in groups.items()]


def parsed(options: Mapping[str, Any]) -> argparse.Namespace:
    """Parses options as if they stood on the command line; errors are the command line's."""
    found: argparse.Namespace = _parser().parse_args(["generate", "MODEL", *_words(options)])
    return found


def command(title: str, options: Mapping[str, Any]) -> str:
    return shlex.join(["atonc", "generate", title, *_words(options)])


def _words(options: Mapping[str, Any]) -> Iterator[str]:
    """A value is joined to its option, so that it cannot become one itself."""
    for name, value in options.items():
        known = _allowed().get(name)
        if known is None:
            names = ", ".join(sorted(_allowed()))
            raise InputError(f"there is no option {name[:60]!r}", rule=f"the options are {names}")
        flag = f"--{name}"
        if known.many == PAIRS:
            yield from _pairs(flag, known, value)
        elif known.bare is not None and value is True:
            yield flag
        elif _actions()[name].nargs == 0:
            if not isinstance(value, bool):
                raise InputError(f"is {_shown(value)}, not true or false", where=name)
            if value:
                yield flag
        else:
            yield f"{flag}={_text(name, value)}"


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"is {_shown(value)}, neither text nor a number", where=name)
    if name in _CHOICES and value not in _CHOICES[name]:
        raise InputError(f"is {_shown(value)}", where=name, rule=f"one of {', '.join(_CHOICES[name])}")
    if len(str(value)) > LONG_VALUE:
        raise InputError(f"has {len(str(value)):,} characters, at most {LONG_VALUE:,}", where=name)
    return str(value)


def _pairs(flag: str, known: Option, value: Any) -> Iterator[str]:
    pairs = value if isinstance(value, list) else [value]
    for pair in pairs:
        sound = isinstance(pair, list) and len(pair) == 2 and pair[0] in _places(known)
        if not sound or not isinstance(pair[1], str) or pair[1].startswith("-") or not 0 < len(pair[1]) <= LONG_VALUE:
            raise InputError(f"is {_shown(value)}", where=flag, remedy='give a list of pairs: [["cpu", "NODE"], ...]')
        yield from (flag, pair[0], pair[1])


def _places(known: Option) -> list[str]:
    """The first words of pairs."""
    return known.metavar.split()[0].split("|") if known.many == PAIRS else []


def _shown(value: Any) -> str:
    return repr(value)[:60]


@functools.cache
def _parser() -> argparse.ArgumentParser:
    from atonc.doors.verbs import generate
    from atonc.doors.verbs.parser import Parser

    found: argparse.ArgumentParser = Parser(prog="atonc")
    generate.add(found.add_subparsers(required=True, metavar="VERB"))
    return found


@functools.cache
def _actions() -> dict[str, argparse.Action]:
    verbs = next(a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    known = verbs.choices["generate"]._option_string_actions
    return {flag.removeprefix("--"): action for flag, action in known.items()}


@functools.cache
def _allowed() -> dict[str, Option]:
    from atonc.doors.verbs.generate import DECLARED

    found = (known for kind in DECLARED for _, known in declared(kind) if not known.local)
    return {next(flag for flag in known.flags if flag.startswith("--"))[2:]: known for known in found}


def _described(name: str, known: Option) -> dict[str, Any]:
    action = _actions()[name]
    choices = _CHOICES.get(name) or known.choices or tuple(_places(known))
    kind = "pairs" if known.many == PAIRS else "switch" if action.nargs == 0 else "choice" if choices else "text"
    default = action.default if isinstance(action.default, str | int | float | bool) else None
    return {
        "name": name,
        "kind": kind,
        "choices": list(choices),
        "default": None if kind == "switch" else default or None,
        "bare": known.bare is not None,  # it may be given without a value: true
        "hint": "" if kind == "pairs" else known.metavar,
        "help": known.help,
    }
