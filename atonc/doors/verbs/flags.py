"""Declared options as flags of argparse; groups of the help; what is known of ST's tool and has no effect here."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import Field, replace
from typing import Any, TypeVar

from atonc.compiler.request.options import OUTPUT as OUTPUT
from atonc.compiler.request.options import Options
from atonc.doors.verbs.examples import TITLE
from atonc.machine.base.declare import AGAIN, PAIRS, PLAIN, SEVERAL, Option, Takes, declared, default_of, option
from atonc.machine.base.frozen import dataclass

T = TypeVar("T")
ST_ONLY = "accepted for scripts of ST's tool, without effect here"
LEVELS = ("0", "1", "2", "3")
_MANY: dict[str, dict[str, Any]] = {
    AGAIN: {"action": "append"},
    SEVERAL: {"nargs": "+"},
    PAIRS: {"action": "append", "nargs": 2},
}
_HELP_COLUMN = 28
MANY = 6  # more flags than this are not in the first line of the help


def group(parser: argparse.ArgumentParser, title: str) -> argparse._ArgumentGroup:
    """The group of this title; made when it is asked for the first time."""
    for found in parser._action_groups:
        if found.title == title:
            return found
    return parser.add_argument_group(title)


def add_declared(
    parser: argparse.ArgumentParser, kind: type[Any] = Options, without: Sequence[str] = (), rare: bool = False
) -> None:
    """A flag for every option of a dataclass; `rare`: few who use this verb need any of them."""
    for member, known in declared(kind):
        if member.name not in without:
            _add(group(parser, known.group), member, replace(known, rare=known.rare or rare))


def add_single(parser: argparse.ArgumentParser, *names: str, **helps: str) -> None:
    """Options of the compiler that a verb takes without the others; with a help where they mean something special."""
    for member, known in declared(Options):
        if member.name in (*names, *helps):
            _add(group(parser, PLAIN), member, replace(known, help=helps.get(member.name, known.help)))


def _add(target: argparse._ArgumentGroup, member: Field[Any], known: Option) -> None:
    default = default_of(member)
    if isinstance(default, bool):
        action = "store_false" if default else "store_true"
        added = target.add_argument(*known.flags, dest=member.name, action=action, help=known.help)
        mark_rare(added, known.rare)
        return
    shape: dict[str, Any] = {} if known.bare is None else {"nargs": "?", "const": known.bare}
    metavar: str | tuple[str, ...] | None = known.metavar or None
    if known.once:
        shape["action"] = Once
    if known.many:
        shape, default = _MANY[known.many], list(default)
    if known.many == PAIRS:
        metavar = tuple(known.metavar.split())
    added = target.add_argument(
        *known.flags,
        dest=member.name,
        default=default,
        choices=known.choices or None,
        metavar=metavar,
        type=known.parse or str,
        help=known.help,
        **shape,
    )
    mark_rare(added, known.rare)


def mark_rare(added: argparse.Action, rare: bool = True) -> None:
    """Only the full help shows it."""
    added.rare = rare  # type: ignore[attr-defined]


def is_rare(action: argparse.Action) -> bool:
    return getattr(action, "rare", False)


def declared_values(kind: type[T], given: argparse.Namespace, **more: Any) -> T:
    """What the user said for the options of a dataclass; `more` are its fields that are no flags."""
    said = {member.name: getattr(given, member.name) for member, _ in declared(kind)}
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}, **more)


@dataclass(frozen=True)
class ShownOptions:
    """What nearly every verb is asked for."""

    json: bool = option(
        False,
        "--json",
        OUTPUT,
        "one JSON document, errors included",
        takes=Takes(local=True),
    )
    verbose: bool = option(False, "-v --verbose", OUTPUT, "every epoch, every layer", takes=Takes(local=True))
    quiet: bool = option(False, "-q --quiet", OUTPUT, "only errors; no progress", takes=Takes(local=True))


class NoEffect(argparse.Action):
    """Takes an option of ST's tool and remembers to say, in one line, why it does nothing."""

    def __init__(self, *args: Any, why: str, **more: Any) -> None:
        super().__init__(*args, **more)
        self.why = why

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        namespace.no_effect = [*getattr(namespace, "no_effect", []), f"{option} has no effect: {self.why}"]


class RefusedOption(NoEffect):
    """An option of ST's tool that asks for something we do not have: going on would give something else."""

    def __init__(self, *args: Any, instead: str, **more: Any) -> None:
        super().__init__(*args, **more)
        self.instead = instead

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        from atonc.machine.base.errors import UnsupportedError

        raise UnsupportedError(f"{option} is not supported: {self.why}", remedy=self.instead)


class Once(argparse.Action):
    """The last of two would win without a word."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        from atonc.machine.base.errors import InputError

        before = getattr(namespace, self.dest, self.default)
        if before not in (self.default, values):
            raise InputError(f"{option} {values}, and before {before}", rule=f"{option} is given once")
        setattr(namespace, self.dest, values)


class Verbosity(argparse.Action):
    """ST's levels: 0 is the usual text, the others say more."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        namespace.verbose = values != "0"


def add_output_options(parser: argparse.ArgumentParser, verbosity: bool = False) -> None:
    add_declared(parser, ShownOptions)
    if verbosity:
        level = "level of ST's tool: 0 is the usual text, 1 to 3 the same as -v"
        mark_rare(group(parser, OUTPUT).add_argument("--verbosity", action=Verbosity, choices=LEVELS, help=level))


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help with the defaults that mean something to people."""

    def __init__(self, prog: str, every: bool = True) -> None:
        super().__init__(prog, max_help_position=_HELP_COLUMN)
        self.every = every  # with other names of an option, and what is obvious

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """`-n, --name NAME`; the short help has one long name."""
        if not action.option_strings:
            return super()._format_action_invocation(action)
        short = [flag for flag in action.option_strings if not flag.startswith("--")]
        long = [flag for flag in action.option_strings if flag.startswith("--")]
        names = ", ".join([*short, *(long if self.every else long[:1])])
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return names if action.nargs == 0 else f"{names} {value}"

    def add_usage(self, usage: str | None, actions: Any, groups: Any, prefix: str | None = None) -> None:
        """A page of flags tells nobody how to begin; they are listed below."""
        actions = list(actions)
        if usage is None and len(actions) > MANY:
            words = [str(a.metavar or a.dest) for a in actions if not a.option_strings]
            usage = " ".join(["%(prog)s", *words, "[options]"])
        super().add_usage(usage, actions, groups, prefix)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(TITLE):
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        return f"{text} (default {default_text(action)})" if default_text(action) and "default" not in text else text


def default_text(action: argparse.Action) -> str:
    """Empty for what is off, empty or unset by default."""
    value = action.default
    if action.nargs == 0 or value is None or value is argparse.SUPPRESS or isinstance(value, list | tuple | dict):
        return ""
    return "" if value in ("", 0.0) and not isinstance(value, int) else str(value).replace("%", "%%")
