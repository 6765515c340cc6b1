"""Releases of ST's tool that atonc answers for when it is called by ST's name: what each prints and does by default."""

from __future__ import annotations

from atonc.machine.base.about import __version__
from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

RELEASE = "ATONC_ST_RELEASE"
DEFAULT = "4.0.1"
# release of the core -> its build, and the release of the part for STM32, as `--version` printed them in public logs
_KNOWN = {
    "2.0.0": ("20049", "10.0.0"),
    "2.1.0": ("20194", "10.1.0"),
    "2.2.0": ("20266", "10.2.0"),
    "3.0.0": ("20426", "11.0.0"),
    "4.0.0": ("20500", "12.0.0"),
    "4.0.1": ("20581", "12.0.1"),
}
_STAI = (3, 0)  # from here on the interface of stai_NAME.c is what `generate` writes


@dataclass(frozen=True)
class StRelease:
    core: str
    build: str
    cube: str

    @property
    def banner(self) -> str:
        """The first line of every output. Scripts look for the words and the number in front; the letter v must not
        come again, because one of them splits at the last one."""
        return f"ST Edge AI Core v{self.core}-{self.build} answered by atonc {__version__}, not by ST"

    @property
    def tool(self) -> tuple[str, str]:
        """The same in JSON files: a name and a version."""
        return "ST.EdgeAI.Core", f"{self.core}-{self.build} answered by atonc {__version__}"

    @property
    def version_lines(self) -> tuple[str, ...]:
        return self.banner, f"   STM32CubeAI {self.cube}"

    @property
    def c_api(self) -> str:
        major, minor, _ = map(int, self.core.split("."))
        return "st-ai" if (major, minor) >= _STAI else "legacy"


def release_of(text: str) -> StRelease:
    """`4.0.1`; empty means the newest that is known."""
    wanted = text or DEFAULT
    if wanted not in _KNOWN:
        raise InputError(
            f"{wanted[:40]!r} is no known release of ST's tool",
            where=RELEASE,
            remedy=did_you_mean(wanted, _KNOWN, f"set it to one of {', '.join(_KNOWN)}"),
        )
    return StRelease(wanted, *_KNOWN[wanted])
