"""What changed in the driver between the releases that published networks were made with."""

from __future__ import annotations

import re

from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Generation:
    """How one release of the driver programs the machine."""

    name: str
    resets_switch_first: bool  # clears the stream switch before linking, not when unlinking
    writes_kfilt_always: bool
    combines_scalar: bool  # with `combinebc`, B comes from C also when C is no vector
    overflow_event: bool = True  # the CPU listens to the frame overflow of writers; no such event in traced programs

    def traced(self) -> Generation:
        """The same, as compiled into epoch-controller programs."""
        return Generation(
            self.name, self.resets_switch_first, self.writes_kfilt_always, self.combines_scalar, overflow_event=False
        )


FIRST = Generation("1.1.0", resets_switch_first=True, writes_kfilt_always=False, combines_scalar=True)
SECOND = Generation("1.1.3-8", resets_switch_first=True, writes_kfilt_always=True, combines_scalar=False)
THIRD = Generation("1.1.3-262", resets_switch_first=False, writes_kfilt_always=True, combines_scalar=False)
GENERATIONS = (FIRST, SECOND, THIRD)
_LINE = re.compile(r"(atonn-v|STAI-)(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:-(\d{1,6}))?")
_SECOND_COMMITS = 100  # 1.1.3 with fewer commits on top is Core 3.0, with more it is Core 4.0


def generation_of(atonn_version: str) -> Generation:
    """From a compiler description such as `atonn-v1.1.0-31-g27f5d5bc` or `STAI-3.0.0-254-g7cc65410`."""
    match = _LINE.search(atonn_version)
    if match is None:
        return THIRD
    major, minor, micro, commits = (int(part or 0) for part in match.groups()[1:])
    if (major, minor, micro) < ((1, 1, 3) if match[1] == "atonn-v" else (3, 0, 0)):
        return FIRST
    return SECOND if commits < _SECOND_COMMITS else THIRD
