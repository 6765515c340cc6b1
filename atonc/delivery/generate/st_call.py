"""How ST's tool was called, where atonc answers by its name. Imports nothing heavy: the command line begins with it."""

from __future__ import annotations

from pathlib import Path

from atonc.machine.base.frozen import dataclass

OUTPUT, WORKSPACE = Path("st_ai_output"), Path("st_ai_ws")


@dataclass(frozen=True)
class StCall:
    """How the tool was called and by which release it answers."""

    verb: str
    words: tuple[str, ...]
    banner: str  # the first line of reports
    core: str  # 4.0.1-20581
    tool: tuple[str, str]  # name and version in JSON files
    workspace: Path | None = WORKSPACE
    reports: bool = True
    dll: bool = False  # also a library of this computer

    @property
    def arguments(self) -> str:
        return " ".join((self.verb, *self.words))

    def report_name(self, name: str) -> str:
        return f"{name}_{self.verb}_report.txt"
