"""An option is declared once, where its value lives: flags, Python arguments, help, reference, completion follow.

`option(...)` is the default of a dataclass field and carries what the field means to people. `arguments(...)` turns
keyword arguments of a Python call into values of such a dataclass, with the same checks as the command line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, field, fields, replace
from difflib import get_close_matches
from typing import Any

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import listed

KEY = "option"
PLAIN = "options"  # the group of flags that belong to no other: argparse's own
# a list: the flag once for every value, all values behind one flag, or the flag once for every pair of words
AGAIN, SEVERAL, PAIRS = "append", "+", "pairs"


@dataclass(frozen=True)
class Option:
    """What people see of a field."""

    flags: tuple[str, ...]
    group: str
    help: str
    choices: tuple[str, ...] = ()
    metavar: str = ""
    parse: Callable[[str], Any] | None = None  # text of the command line -> value
    bare: str | None = None  # what the flag alone means; None: it takes a value
    many: str = ""  # AGAIN, SEVERAL or PAIRS, where the field is a tuple of parsed values
    local: bool = False  # names files of this machine, or says what is written where: nothing for visitors of a service
    rare: bool = False  # `--help-all` shows it, `--help` does not
    offered: tuple[str, ...] = ()  # all that visitors of a service may choose from, where the command line takes more
    once: bool = False  # a second one that says something else is a mistake, not a correction

    @property
    def inverted(self) -> bool:
        """The flag switches off what is on by default."""
        return self.flags[0].startswith("--no-")


@dataclass(frozen=True)
class Takes:
    """What may stand behind a flag, where that is not just one value of any kind, and for whom."""

    choices: tuple[str, ...] = ()
    once: bool = False  # not given twice with different values
    bare: str | None = None  # what the flag alone means
    many: str = ""  # AGAIN, SEVERAL or PAIRS
    local: bool = False  # of this machine: nothing for visitors of a service
    rare: bool = False  # for few: only in the full help
    offered: tuple[str, ...] = ()  # to visitors of a service, where the command line takes more than they may say


ONE_VALUE, RARE = Takes(), Takes(rare=True)


def option(
    default: Any,
    flags: str,
    group: str,
    help: str,
    *,
    metavar: str = "",
    parse: Callable[[str], Any] | None = None,
    takes: Takes = ONE_VALUE,
) -> Any:
    """A field with its flags, separated by spaces; a default that is a type (dict) is made anew for every object."""
    behind = takes.choices, metavar, parse, takes.bare, takes.many, takes.local, takes.rare, takes.offered, takes.once
    metadata = {KEY: Option(tuple(flags.split()), group, help, *behind)}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def again(kind: type[Any], name: str, group: str) -> Any:
    """The option that another dataclass has, in a group of its own, and for few."""
    (member,) = (member for member in fields(kind) if member.name == name)
    return field(default=member.default, metadata={KEY: replace(member.metadata[KEY], group=group, rare=True)})


def declared(kind: type[Any]) -> list[tuple[Field[Any], Option]]:
    return [(member, member.metadata[KEY]) for member in fields(kind) if KEY in member.metadata]


def default_of(member: Field[Any]) -> Any:
    if member.default_factory is not MISSING:
        return member.default_factory()
    return member.default


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A remedy for a wrong name."""
    near = get_close_matches(name, [one for one in dict.fromkeys(known) if one != name], n=3, cutoff=0.6)
    return f"did you mean {listed(near, 'or')}?" if near else otherwise


# ------------------------------------------------------------------------------------------------------------- checks


def check(values: Any) -> None:
    """The values of a dataclass with options are of their types and among their choices."""
    for member in fields(values):
        value, default = getattr(values, member.name), default_of(member)
        known: Option | None = member.metadata.get(KEY)
        if not _same_kind(value, default):
            meaning = f"; it means: {known.help}" if known is not None else ""
            remedy = f"give {_kind(default)}{meaning}"
            raise InputError(f"{member.name} is {str(value)[:60]!r}, not {_kind(default)}", remedy=remedy)
        if known is not None and known.choices and value != default and value not in known.choices:
            raise InputError(
                f"{member.name} is {str(value)[:60]!r}",
                rule=f"allowed are {', '.join(map(repr, known.choices))}",
                remedy=did_you_mean(str(value), known.choices, f"leave it out for {default!r}"),
            )


def _same_kind(value: object, default: object) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, tuple):
        return isinstance(value, tuple) and all(isinstance(word, str) for word in value)
    return isinstance(value, (int, float) if isinstance(default, float) else type(default))


def _kind(default: object) -> str:
    if isinstance(default, bool):
        return "True or False"
    names = {str: "text", int: "a whole number", float: "a number", tuple: "a list of names", dict: "a dictionary"}
    return names.get(type(default), type(default).__name__)


def arguments(kind: type[Any], given: Mapping[str, Any]) -> Any:
    """An object of the dataclass from keyword arguments: by field, or spelled like the flag of the command line."""
    members = {member.name: member for member in fields(kind)}
    by_flag = {spelled(flag): member.name for member, known in declared(kind) for flag in known.flags}
    found: dict[str, Any] = {}
    for word, value in given.items():
        name = word if word in members else by_flag.get(word, "")
        if not name:
            raise InputError(
                f"there is no option {word[:60]!r}",
                remedy=did_you_mean(word, [*members, *by_flag], f"the options are {', '.join(members)}"),
            )
        if name in found:
            raise InputError(f"the option {name} is given twice")
        inverted = name != word and members[name].metadata[KEY].inverted and isinstance(value, bool)
        found[name] = (not value) if inverted else _as_field(value, members[name])
    return kind(**found)


def spelled(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _as_field(value: Any, member: Field[Any]) -> Any:
    """Lists, paths and text as the command line has it, in the type of the field."""
    default, known = default_of(member), member.metadata.get(KEY)
    if isinstance(value, bool) and known is not None and known.bare is not None:
        value = known.bare if value else default  # as the flag alone, or as without it
    if isinstance(value, os.PathLike) and isinstance(default, str):
        return os.fspath(value)
    if isinstance(value, list) and isinstance(default, tuple):
        return tuple(value)
    if isinstance(value, str) and not isinstance(default, str) and known is not None and known.parse is not None:
        return known.parse(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and default == "" and known is not None:
        return f"{value:g}" if known.parse is not None else value
    return value
