"""Profile files of ST's compiler (`neural_art.json`): a memory pool and a string of compiler options per profile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from atonc.errors import InputError
from atonc.hw.tolerant_json import Node, read_json

DEFAULT = "default"
# what our programs do anyway, or what only concerns the other compiler's side files
_UNDERSTOOD = frozenset(
    (
        "--enable-epoch-controller",
        "--enable-virtual-mem-pools",
        "--native-float",
        "--cache-maintenance",
        "--all-buffers-info",
    )
)


@dataclass(frozen=True)
class Profile:
    name: str
    memory_pool: Path | None
    ignored: tuple[str, ...]  # options by name, each once


def read_profile(text: str) -> Profile:
    """`FILE.json` or `PROFILE@FILE.json`; paths inside count from the folder of the file."""
    name, at, rest = text.partition("@")
    path = Path(rest if at else text)
    name = name if at else DEFAULT
    profiles = Node(read_json(path), str(path)).child("Profiles")
    if name not in profiles.data:
        known = ", ".join(map(str, list(profiles.data)[:20]))
        raise InputError(f"no profile {name[:60]!r}", where=str(path), remedy=f"choose from {known}")
    profile = profiles.child(name)
    pool = profile.text("memory_pool")
    named = [word.partition("=")[0] for word in profile.text("options").split() if word.startswith("-")]
    ignored = tuple(dict.fromkeys(word for word in named if word not in _UNDERSTOOD))
    return Profile(name, path.parent / pool if pool else None, ignored)
