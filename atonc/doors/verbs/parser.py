"""The parser that every door uses: errors are one paragraph, and no option may be abbreviated."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from atonc.doors.verbs.flags import Formatter
from atonc.machine.base.errors import InputError


class Parser(argparse.ArgumentParser):
    """Errors as one paragraph, like all others; no abbreviations, so that scripts go on working when options come."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**{"formatter_class": Formatter, "allow_abbrev": False, **more})

    def error(self, message: str) -> NoReturn:
        raise InputError(message, remedy=f"see {self.prog} --help")
