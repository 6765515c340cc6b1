"""A front end that was found in a model: what it stands for, and the same as a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from atonc.delivery.front_end.image import ImagePipeline
from atonc.delivery.front_end.pipeline import SECTIONS, Pipeline
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

MOST_STEP = 1  # codes: a resize to bytes is up to half a byte from one of floats; a sum is rounded in some order
IMAGE = ("image", "crop", "resize", "colour", "normalise", "codes")


@dataclass(frozen=True)
class OwnFrontEnd:
    """What the model's first operators are, and how near C and twin come to them."""

    pipeline: Pipeline | ImagePipeline
    tensor: str  # where the network begins instead
    operators: tuple[str, ...]  # that it stands for
    values: int  # codes that were compared
    differ: int
    worst: int  # codes

    @property
    def data(self) -> dict[str, Any]:
        return {
            **{"operators": list(self.operators), "begins_at": self.tensor, "codes_compared": self.values},
            **{"codes_differ": self.differ, "worst_step": self.worst},
        }

    @property
    def said(self) -> str:
        image = isinstance(self.pipeline, ImagePipeline)
        made = "synthetic images" if image else "synthetic sound"
        resized = "it resizes to bytes, they to floats; on photographs it may be twice as many"
        why = resized if image else "sums and logarithms are rounded in another order"
        if not self.differ:
            return f"{count(len(self.operators), 'operator')} of the model; the same codes on {made}"
        return (
            f"{count(len(self.operators), 'operator')} of the model; {self.differ:,} of {self.values:,} codes "
            f"of {made} differ from theirs, by {self.worst} at most: {why}"
        )


def as_toml(pipeline: Pipeline | ImagePipeline) -> str:
    """The same as a file, for whoever has another camera or microphone."""
    lines = [f'name = "{pipeline.name}"']
    lines += [f"rate = {pipeline.rate}"] if isinstance(pipeline, Pipeline) else []
    for section in IMAGE if isinstance(pipeline, ImagePipeline) else SECTIONS:
        items = [f"{key} = {_toml(value)}" for key, value in _items(getattr(pipeline, section))]
        lines += ["", f"[{section}]", *items] if items else []
    return "\n".join(lines) + "\n"


def _items(section: Any) -> Iterator[tuple[str, Any]]:
    plain: Mapping[str, Any] = vars(type(section)())
    for key, value in vars(section).items():
        if value != plain[key] or key in ("format", "width", "height", "type", "length", "n_fft"):
            yield key, value


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)
