"""The drawing at the top of docs/architecture.md: the wings of the package, their rooms, and who may import whom.
Rooms and order are read from the first lines of each wing; `tools/gen_reference.py` writes the picture."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "atonc"
MEANS = {
    "doors": "how users come in",
    "delivery": "the way to a board",
    "insight": "what is known about a network",
    "compiler": "from a model to a verified program",
    "machine": "what the chip is, does and costs",
}
WIDTH, BOX, GAP, LINE = 760, 84, 26, 86  # pixels; the last: letters of a line of rooms
STYLE = """\
<style>
  .wing { fill: #eef4fb; stroke: #4a7ab5; } .name { font: bold 17px sans-serif; }
  .means { font: italic 14px sans-serif; }
  .rooms { font: 13px ui-monospace, monospace; } text { fill: #1c2733; } .arrow { stroke: #4a7ab5; fill: none; }
  .beside { font: 12px sans-serif; fill: #4a7ab5; }
  @media (prefers-color-scheme: dark) {
    .wing { fill: #1d2733; stroke: #7aa7dd; } text { fill: #e6edf5; } .arrow { stroke: #7aa7dd; }
    .beside { fill: #7aa7dd; }
  }
</style>"""


def rooms(wing: str) -> str:
    """`a, b, c`: what stands behind the title in the first lines of the wing."""
    text = ast.get_docstring(ast.parse((PACKAGE / wing / "__init__.py").read_text())) or ""
    _, _, rest = text.partition("Rooms, from the ground up: ")
    return " ".join(rest.partition(".")[0].split())


def drawing() -> str:
    height = len(MEANS) * (BOX + GAP) - GAP + 2
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="The five wings, each above those that it may import">',
        STYLE,
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 L8 4 L0 8" class="arrow"/></marker></defs>',
    ]
    for place, (wing, means) in enumerate(MEANS.items()):
        lines += _box(wing, means, 1 + place * (BOX + GAP))
        if place:
            lines += _arrow(place * (BOX + GAP) - GAP + 3)
    return "\n".join([*lines, "</svg>", ""])


def _box(wing: str, means: str, top: int) -> list[str]:
    words = textwrap.wrap(rooms(wing), LINE)
    return [
        f'<rect x="1" y="{top}" width="{WIDTH - 2}" height="{BOX}" rx="8" class="wing"/>',
        f'<text x="18" y="{top + 26}" class="name">{wing}</text>',
        f'<text x="120" y="{top + 26}" class="means">{means}</text>',
        *(f'<text x="18" y="{top + 50 + 18 * n}" class="rooms">{line}</text>' for n, line in enumerate(words)),
    ]


def _arrow(top: int) -> list[str]:
    middle = WIDTH // 2
    return [
        f'<path d="M{middle} {top} V{top + GAP - 6}" class="arrow" marker-end="url(#head)"/>',
        f'<text x="{middle + 12}" y="{top + 14}" class="beside">may import</text>',
    ]
