"""The parser that every door uses: errors are one paragraph, no option may be abbreviated, the usual help is short."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from atonc.doors.verbs.flags import Formatter, is_rare, mark_rare
from atonc.machine.base.errors import InputError

HELP_ALL = "--help-all"


class Parser(argparse.ArgumentParser):
    """Errors as one paragraph, like all others; no abbreviations, so that scripts go on working when options come."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**{"formatter_class": Formatter, "allow_abbrev": False, **more})  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        raise InputError(message, remedy=f"see {self.prog} --help")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Values that are refused say of which option they are."""
        try:
            return super()._get_value(action, arg_string)
        except InputError as error:
            error.where = error.where or (action.option_strings or [str(action.metavar)])[-1]
            raise

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
