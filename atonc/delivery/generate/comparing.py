"""Two builds side by side, each a folder (ours or ST's) or a model that is compiled: what `atonc compare` and
`atonc.compare` do."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from atonc.compiler.request.options import Options
from atonc.machine.base.disk import missing
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

if TYPE_CHECKING:
    from atonc.insight.explain.compare import Comparison, OutputAgreement
    from atonc.insight.explain.types import NetworkView

BOARD = Options().board


@dataclass(frozen=True)
class CompareInputs:
    """What both are run on, if on anything."""

    files: tuple[Path, ...] = ()
    seed: int | None = None  # a photo-like input is made from it


def compare_builds(a: Path, b: Path, board: str = BOARD, inputs: CompareInputs | None = None) -> Comparison:
    from atonc.insight.explain.compare import compare

    inputs = inputs or CompareInputs()
    outputs = _outputs(a, b, board, inputs) if inputs.files or inputs.seed is not None else ()
    return compare(network(a, board), network(b, board), outputs)


def _outputs(a: Path, b: Path, board: str, inputs: CompareInputs) -> tuple[OutputAgreement, ...]:
    """Both builds on the emulator; models are compiled into a folder for that."""
    from atonc.insight.explain.compare import agreement
    from atonc.machine.emu.network import load

    with TemporaryDirectory() as work:
        folders = [_built(place, board, Path(work) / side) for side, place in (("a", a), ("b", b))]
        return agreement(load(folders[0]), load(folders[1]), inputs.files, inputs.seed or 0)


def _built(place: Path, board: str, folder: Path) -> Path:
    if is_build(place):
        return place
    from atonc.delivery.generate import generating

    generating.generate(generating.analyze(existing(place), Options(board=board, verify=False)), folder)
    return folder


def is_build(place: Path) -> bool:
    """A folder, or the C file of one network where a folder holds several."""
    return place.is_dir() or (place.suffix == ".c" and place.is_file())


def existing(place: Path) -> Path:
    if not place.is_file():
        raise missing(place, "file or folder")
    if place.suffix == ".json":
        remedy = f"atonc compare {place} --against BASELINE.json"
        raise InputError("is a document, which is compared with another document", where=str(place), remedy=remedy)
    return place


def network(place: Path, board: str = BOARD) -> NetworkView:
    """The picture of a folder or of a model."""
    if is_build(place):
        from atonc.insight.explain.folder import folder_view

        return folder_view(place)
    from atonc.delivery.generate import generating
    from atonc.insight.explain.ours import network_view

    return network_view(generating.analyze(existing(place), Options(board=board, verify=False)))
