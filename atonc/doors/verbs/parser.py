"""Commands, and the parser that every door uses: a command says what it is called, what it takes and who answers;
errors are short, no option may be abbreviated, the usual help is short."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import Field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from atonc.compiler.request.options import OUTPUT as OUTPUT
from atonc.compiler.request.options import Options
from atonc.machine.base.declare import AGAIN, PAIRS, PLAIN, SEVERAL, Option, Takes, declared, default_of, option
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

if TYPE_CHECKING:
    from atonc.doors.verbs.reply import CommandReply

T = TypeVar("T")
EXAMPLES = "examples:"
HELP_ALL = "--help-all"
ST_ONLY = "accepted for scripts of ST's tool, without effect here"
_MANY: dict[str, dict[str, Any]] = {
    AGAIN: {"action": "append"},
    SEVERAL: {"nargs": "+"},
    PAIRS: {"action": "append", "nargs": 2},
}
_HELP_COLUMN = 28
MANY = 6  # more flags than this are not in the first line of the help
Adds = Callable[[argparse.ArgumentParser], object]  # an argument, or the flags of a dataclass
Verbs = argparse._SubParsersAction  # its type argument is known to checkers only


@dataclass(frozen=True)
class Command:
    """A verb: `run` answers, `options` are added in their order; or the verbs behind it, as in `board list`."""

    name: str
    help: str
    run: Callable[[argparse.Namespace], CommandReply] | None = None
    options: tuple[Adds, ...] = ()
    examples: tuple[str, ...] = ()  # command lines; what stands behind # says what they do. The tests parse every one
    description: str | None = None
    aliases: tuple[str, ...] = ()
    kinds: tuple[Command, ...] = ()

    def add(self, verbs: Verbs[Any]) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = verbs.add_parser(
            self.name, help=self.help, description=self.description, aliases=self.aliases
        )
        if self.kinds:
            inner = parser.add_subparsers(required=True, metavar="WHAT")
            for kind in self.kinds:
                kind.add(inner)
        else:
            parser.set_defaults(run=self.run)
        for adds in self.options:
            adds(parser)
        parser.epilog = examples_text(self.examples)
        return parser


def examples_text(lines: Sequence[str]) -> str | None:
    return "\n".join([EXAMPLES, *(f"  {line}" for line in lines)]) if lines else None


# ------------------------------------------------------------------------------------------- what a command may take


def arg(*names: str, title: str = PLAIN, **how: Any) -> Adds:
    """An argument of this command alone; `title`: the group of the help where it stands."""
    return lambda parser: (parser if title == PLAIN else group(parser, title)).add_argument(*names, **how)


def flags(kind: type[Any] = Options, without: Sequence[str] = (), rare: bool = False) -> Adds:
    """A flag for every option of a dataclass; `rare`: few who use this verb need any of them."""
    return lambda parser: add_declared(parser, kind, without, rare)


def single(*names: str, **helps: str) -> Adds:
    """Options of the compiler that a verb takes without the others; with a help where they mean something special."""

    def add(parser: argparse.ArgumentParser) -> None:
        for member, known in declared(Options):
            if member.name in (*names, *helps):
                _add(group(parser, PLAIN), member, replace(known, help=helps.get(member.name, known.help)))

    return add


def defaults(**values: Any) -> Adds:
    return lambda parser: parser.set_defaults(**values)


def group(parser: argparse.ArgumentParser, title: str) -> argparse._ArgumentGroup:
    """The group of this title; made when it is asked for the first time."""
    for found in parser._action_groups:
        if found.title == title:
            return found
    return parser.add_argument_group(title)


def add_declared(
    parser: argparse.ArgumentParser, kind: type[Any] = Options, without: Sequence[str] = (), rare: bool = False
) -> None:
    for member, known in declared(kind):
        if member.name not in without:
            _add(group(parser, known.group), member, replace(known, rare=known.rare or rare))


def _add(target: argparse._ArgumentGroup, member: Field[Any], known: Option) -> None:
    default = default_of(member)
    shape: dict[str, Any]
    if isinstance(default, bool):
        shape = {"action": "store_false" if default else "store_true"}
    else:
        shape = {} if known.bare is None else {"nargs": "?", "const": known.bare}
        if known.once:
            shape["action"] = Once
        elif default == ():
            shape["action"] = Added
        if known.many:
            shape, default = _MANY[known.many], list(default)
        metavar = tuple(known.metavar.split()) if known.many == PAIRS else known.metavar or None
        shape = {"default": default, "choices": known.choices or None, "metavar": metavar, **shape}
        shape["type"] = known.parse or str
    mark_rare(target.add_argument(*known.flags, dest=member.name, help=known.help, **shape), known.rare)


def mark_rare(added: argparse.Action, rare: bool = True) -> None:
    """Only the full help shows it."""
    added.rare = rare  # type: ignore[attr-defined]


def is_rare(action: argparse.Action) -> bool:
    return getattr(action, "rare", False)


def declared_values(kind: type[T], given: argparse.Namespace, **more: Any) -> T:
    """What the user said for the options of a dataclass; `more` are its fields that are no flags."""
    said = {member.name: getattr(given, member.name) for member, _ in declared(kind)}
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}, **more)


_LOCAL = Takes(local=True)


@dataclass(frozen=True)
class ShownOptions:
    """What nearly every verb is asked for."""

    json: bool = option(False, "--json", OUTPUT, "one JSON document, errors included", takes=_LOCAL)
    verbose: bool = option(False, "-v --verbose", OUTPUT, "every epoch, every layer", takes=_LOCAL)
    quiet: bool = option(False, "-q --quiet", OUTPUT, "only errors; no progress", takes=_LOCAL)


SHOWN = flags(ShownOptions)
JSON = arg("--json", action="store_true", help="one JSON document on standard output")


class Once(argparse.Action):
    """The last of two would win without a word."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        before = getattr(namespace, self.dest, self.default)
        if before not in (self.default, values):
            raise InputError(f"{option} {values}, and before {before}", rule=f"{option} is given once")
        setattr(namespace, self.dest, values)


class Added(argparse.Action):
    """A list that is given twice is one list: the first would be lost without a word."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        before = getattr(namespace, self.dest, self.default)
        setattr(namespace, self.dest, values if before == self.default else (*before, *values))


# ------------------------------------------------------------------------------------------------------ parser and help


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
        if text.startswith(EXAMPLES):
            return super()._fill_text(text, width, indent)
        return "\n".join(indent + line for line in self._split_lines(text, width - len(indent)))

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Names of options stay whole."""
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        return f"{text} (default {default_text(action)})" if default_text(action) and "default" not in text else text


def default_text(action: argparse.Action) -> str:
    """Empty for what is off, empty or unset by default."""
    value = action.default
    if action.nargs == 0 or value is None or value is argparse.SUPPRESS or isinstance(value, list | tuple | dict):
        return ""
    return "" if value in ("", 0.0) and not isinstance(value, int) else str(value).replace("%", "%%")


def _is_flag(word: str, flag: str) -> bool:
    """Whether somebody wrote this flag there, with its value behind it or not."""
    return word.split("=")[0] == flag or (not flag.startswith("--") and word.startswith(flag))


class Parser(argparse.ArgumentParser):
    """Errors as all others are; no abbreviations, so that scripts go on working when options come."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**{"formatter_class": Formatter, "allow_abbrev": False, **more})  # type: ignore[arg-type]
        self.words: list[str] = []  # as they were typed
        self._negative_number_matcher = re.compile(r"-\.?\d")  # a value, also with a unit: no flag begins so

    def error(self, message: str) -> NoReturn:
        raise InputError(message, remedy=f"see {self.prog} --help")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Values that are refused say of which option they are."""
        typed = [flag for flag in action.option_strings if any(_is_flag(word, flag) for word in self.words)]
        where = (typed or action.option_strings or [str(action.metavar)])[-1]
        if action.type is Path and not arg_string:
            raise InputError("the path is empty", where=where, remedy="write . for the folder that you are in")
        try:
            return super()._get_value(action, arg_string)
        except InputError as error:
            error.where = error.where or where
            raise

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.words = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def format_help(self, every: bool = False) -> str:
        """`every`: with the options that few need."""
        formatter = Formatter(self.prog, every)
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for found in self._action_groups:
            shown = [action for action in found._group_actions if every or not is_rare(action)]
            if shown:
                formatter.start_section(found.title)
                formatter.add_text(found.description)
                formatter.add_arguments(shown)
                formatter.end_section()
        hidden = 0 if every else sum(map(is_rare, self._actions))
        if hidden:
            formatter.add_text(f"and {hidden} options that few need: {self.prog} {HELP_ALL}")
        formatter.add_text(self.epilog)
        return formatter.format_help()


class HelpAll(argparse.Action):
    """`--help-all`: the help with every option."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        assert isinstance(parser, Parser)
        print(parser.format_help(every=True), end="")
        parser.exit()


def add_full_help(parser: argparse.ArgumentParser) -> None:
    """Gives `--help-all` to the verbs that have rare options, and to those behind them."""
    if any(map(is_rare, parser._actions)):
        every = "this help with the options that few need"
        mark_rare(parser.add_argument(HELP_ALL, action=HelpAll, nargs=0, default=argparse.SUPPRESS, help=every))
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in {id(one): one for one in action.choices.values()}.values():
                add_full_help(inner)
