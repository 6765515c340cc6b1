"""What can go wrong, each with the sentence that the user reads.

Every error says what happened, where (node, epoch, file offset), which rule decided and what to do. The command line
prints it as one paragraph and ends with `exit_code`; a traceback is always a bug of ours.
"""

from __future__ import annotations

from typing import Any

CANNOT_JUDGE = 5  # exit code: nothing failed, but what decides a verdict is not installed
_LONG, _START, _END = 2000, 1400, 400  # characters of a paragraph, and what is left of a longer one


def plain(text: str) -> str:
    """Names come from files: nothing in them may act on a terminal, neither as a command nor by turning the text."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def sentence(text: str) -> str:
    """Ends a text with a full stop, unless it ends in one or in a question."""
    text = text.rstrip()
    return text if text.endswith((".", "?", "!", ":")) else f"{text}."


class AtoncError(Exception):
    """Base of all user-facing errors."""

    exit_code = 2
    details: tuple[str, ...] = ()  # more lines for who wants to know

    def __init__(self, what: str, *, where: str = "", rule: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.rule, self.remedy = what, where, rule, remedy

    def __str__(self) -> str:
        parts = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.rule:
            parts.append(f"Rule: {self.rule}")
        if self.remedy:
            parts.append(f"What to do: {self.remedy}")
        said = plain(" ".join(map(sentence, parts)) if len(parts) > 1 else parts[0].rstrip())
        return said if len(said) <= _LONG else f"{said[:_START]} ... {said[-_END:]}"

    def as_dict(self) -> dict[str, Any]:
        """Gives the error as `--json` prints it."""
        words = {"what": self.what, "where": self.where, "rule": self.rule, "remedy": self.remedy}
        details = {"details": list(self.details)} if self.details else {}
        return {"kind": type(self).__name__, "exit_code": self.exit_code, **words, **details}


class InputError(AtoncError):
    """A file or an option of the user cannot be read or does not fit the rest."""


class ConflictError(InputError):
    """Options that are right by themselves and do not go together."""


class ModelError(InputError):
    """The model itself is broken."""


class UnsupportedError(AtoncError):
    """Well formed, but outside what we support."""


class NotModelledError(UnsupportedError):
    """A hardware mode whose effect is not known: the emulator never guesses."""


class VerificationError(AtoncError):
    """The compiled program does not compute what the model says."""

    exit_code = 1


class CapacityError(AtoncError):
    """It does not fit the memories."""

    exit_code = 3


class ToolError(AtoncError):
    """The environment lacks something: a package, a compiler, a board."""

    exit_code = 4


class InternalError(ToolError):
    """A mistake of ours: atonc itself failed."""
