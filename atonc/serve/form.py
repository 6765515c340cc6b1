"""The options of `atonc generate` that a visitor may set: shown with their help, checked by the command line itself.

Options that name files of the machine, or that change what the server writes and where, are not among them.
"""

from __future__ import annotations

import argparse
import functools
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from atonc.errors import InputError
from atonc.hw.board_file import board_names

# what may be set, by the words of the command line
GROUPS: dict[str, tuple[str, ...]] = {
    "Target": ("board", "prefer", "npu-mhz", "cpu-mhz", "flash-mbps"),
    "Numbers": ("numerics", "seed", "no-verify", "allow-float", "allow-coarse"),
    "Inputs and outputs": (
        *("input-data-type", "output-data-type", "inputs-ch-position", "outputs-ch-position"),
        *("no-inputs-allocation", "no-outputs-allocation"),
    ),
    "Model": ("fix-parametric-shapes", "cut-input-tensors", "cut-output-tensors", "on"),
    "Program": ("name", "silicon", "allow-unproven", "no-epoch-controller", "hex", "stai"),
    "Gates": ("max-ram", "max-activations", "max-latency", "no-cpu", "no-spill"),
}
_CHOICES = {"board": board_names()}  # the command line also takes files
_PAIRS = {"on": ("cpu", "npu")}  # options that take a place and a name, any number of times
LONG_VALUE = 2000


def schema() -> list[dict[str, Any]]:
    """For the form and for the description of the interface."""
    return [
        {"group": group, "options": [_described(name) for name in names]}
        for group, names in GROUPS.items()
    ]


def parsed(options: Mapping[str, Any]) -> argparse.Namespace:
    """As if they stood on the command line; errors are the command line's."""
    found: argparse.Namespace = _parser().parse_args(["generate", "MODEL", *_words(options)])
    return found


def command(title: str, options: Mapping[str, Any]) -> str:
    return shlex.join(["atonc", "generate", title, *_words(options)])


def _words(options: Mapping[str, Any]) -> Iterator[str]:
    """A value is joined to its option, so that it cannot become one itself."""
    for name, value in options.items():
        action = _allowed().get(name)
        if action is None:
            known = ", ".join(sorted(_allowed()))
            raise InputError(f"there is no option {name[:60]!r}", rule=f"the options are {known}")
        flag = f"--{name}"
        if name in _PAIRS:
            yield from _pairs(flag, name, value)
        elif action.nargs == 0:
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


def _pairs(flag: str, name: str, value: Any) -> Iterator[str]:
    pairs = value if isinstance(value, list) else [value]
    for pair in pairs:
        sound = isinstance(pair, list) and len(pair) == 2 and pair[0] in _PAIRS[name]
        if not sound or not isinstance(pair[1], str) or pair[1].startswith("-") or not 0 < len(pair[1]) <= LONG_VALUE:
            raise InputError(f"is {_shown(value)}", where=name, remedy='give a list of pairs: [["cpu", "NODE"], ...]')
        yield from (flag, pair[0], pair[1])


def _shown(value: Any) -> str:
    return repr(value)[:60]


@functools.cache
def _parser() -> argparse.ArgumentParser:
    from atonc.verbs import generate
    from atonc.verbs.parser import Parser

    found: argparse.ArgumentParser = Parser(prog="atonc")
    generate.add(found.add_subparsers(required=True, metavar="VERB"))
    return found


@functools.cache
def _actions() -> dict[str, argparse.Action]:
    verbs = next(a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    known = verbs.choices["generate"]._option_string_actions
    return {flag.removeprefix("--"): action for flag, action in known.items()}


@functools.cache
def _allowed() -> dict[str, argparse.Action]:
    return {name: _actions()[name] for names in GROUPS.values() for name in names}


def _described(name: str) -> dict[str, Any]:
    action = _actions()[name]
    choices = _CHOICES.get(name) or (tuple(map(str, action.choices)) if action.choices else ())
    kind = "pairs" if name in _PAIRS else "switch" if action.nargs == 0 else "choice" if choices else "text"
    default = action.default if isinstance(action.default, str | int | float | bool) else None
    return {
        "name": name,
        "kind": kind,
        "choices": list(choices),
        "default": None if kind == "switch" else default or None,
        "hint": action.metavar if isinstance(action.metavar, str) else "",
        "help": (action.help or "").replace("%%", "%"),
    }
