"""What can go wrong, each with the lines that the user reads.

The first line of an error says where (file, node, epoch, offset) and what; `cause:` lines say why, `fix:` lines what to
do. The command line prints them and ends with `exit_code`; a traceback is always a bug of ours.
"""

from __future__ import annotations

import re
from typing import Any

CANNOT_JUDGE = 5  # exit code: nothing failed, but what decides a verdict is not installed
WIDTH = 100  # columns of an error where the width of the terminal is not known
_SHORT, _FIRST = 24, 80  # characters of what a first line says; where it is longer it ends with a clause
_PLACE, _LONG = 84, 700  # characters of a place and of a line; of longer ones the middle is left out


def plain(text: str) -> str:
    """Names come from files: nothing in them may act on a terminal, neither as a command nor by turning the text."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _bounded(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 4]}...{text[3 - most * 3 // 4 :]}"


def sentence(text: str) -> str:
    """Ends a text with a full stop, unless it ends in one or in a question."""
    text = text.rstrip()
    return text if text.endswith((".", "?", "!", ":")) else f"{text}."


def _first_clause(what: str) -> tuple[str, str]:
    """What can be read at a glance, and the rest of a longer text."""
    for mark in ("; ", ". ", ": ") if len(what) > _FIRST else ():
        cut = what.rfind(mark, _SHORT, _FIRST)
        if cut > 0 and what.count("(", 0, cut) == what.count(")", 0, cut):
            return what[:cut], what[cut + 2 :]
    return what, ""


class AtoncError(Exception):
    """Base of all user-facing errors."""

    exit_code = 2
    usual_fix = ""  # for errors that name none
    details: tuple[str, ...] = ()  # more lines for who wants to know

    def __init__(self, what: str, *, where: str = "", rule: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.rule, self.remedy = what, where, rule, remedy

    @property
    def fix(self) -> str:
        return self.remedy or self.usual_fix

    def lines(self) -> list[str]:
        """Where and what; then each cause and each fix."""
        what, rest = _first_clause(self.what)
        causes = [f"  cause: {one}" for one in (rest, self.rule) if one]
        fixes = [f"  fix: {one.removeprefix('or ')}" for one in re.split("; (?!then )", self.fix) if one]
        first = f"{_bounded(self.where, _PLACE)}: {what}" if self.where else what
        return [_bounded(plain(line.rstrip()), _LONG) for line in (first, *causes, *fixes)]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def one_line(self) -> str:
        """For tables and sentences of other texts."""
        return "; ".join(line.strip() for line in self.lines())

    def as_dict(self) -> dict[str, Any]:
        """Gives the error as `--json` prints it."""
        words = {"what": self.what, "where": self.where, "rule": self.rule, "remedy": self.fix}
        details = {"details": list(self.details)} if self.details else {}
        return {"kind": type(self).__name__, "exit_code": self.exit_code, **words, **details}


class InputError(AtoncError):
    """A file or an option of the user cannot be read or does not fit the rest."""


class ConflictError(InputError):
    """Options that are right by themselves and do not go together."""


class ModelError(InputError):
    """The model itself is broken."""

    usual_fix = "export the model again; if other tools read it, report it"


class UnsupportedError(AtoncError):
    """Well formed, but outside what we support."""

    usual_fix = "replace it in the model; or end the model before it: --cut-output-tensors TENSOR"


class NotModelledError(UnsupportedError):
    """A hardware mode whose effect is not known: the emulator never guesses."""

    usual_fix = "report the register and its value"


class VerificationError(AtoncError):
    """The compiled program does not compute what the model says."""

    exit_code = 1
    usual_fix = "report the model; nothing was written"


class CapacityError(AtoncError):
    """It does not fit the memories."""

    exit_code = 3


class ToolError(AtoncError):
    """The environment lacks something: a package, a compiler, a board."""

    exit_code = 4


def not_loaded(error: ImportError, package: str, install: str) -> ToolError:
    """A package that is not there; or that is there and cannot be loaded, with the words of its own import."""
    if isinstance(error, ModuleNotFoundError):
        return ToolError(f"{package} is not installed", remedy=f"pip install {install}")
    broken = f"{package} is installed, but cannot be loaded"
    return ToolError(broken, rule=str(error)[:200], remedy=f"pip install --force-reinstall {install}")


class InternalError(ToolError):
    """A mistake of ours: atonc itself failed."""

    usual_fix = "report it together with the input"


def interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is what ends it: Python 3.11 hides it in a RuntimeError while a class is being made."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
