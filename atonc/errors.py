"""What can go wrong, each with the sentence that the user reads.

Every error says what happened, where (node, epoch, file offset), which rule decided and what to do. The command line
prints it as one paragraph and ends with `exit_code`; a traceback is always a bug of ours.
"""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # names come from files: nothing in them may act on a terminal


class AtoncError(Exception):
    """Base of all user-facing errors."""

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", rule: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.rule, self.remedy = what, where, rule, remedy

    def __str__(self) -> str:
        parts = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.rule:
            parts.append(f"Rule: {self.rule}.")
        if self.remedy:
            parts.append(f"What to do: {self.remedy}.")
        return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", " ".join(part.rstrip() for part in parts))


class InputError(AtoncError):
    """A file or an option of the user cannot be read or does not fit the rest."""


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
