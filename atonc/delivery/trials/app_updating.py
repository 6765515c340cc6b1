"""An update on the virtual board: firmware of an earlier build, and the new image of one network in its slot.

First all networks run as they were built. Then the image is exchanged while the firmware runs, and they go on.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from atonc.delivery.application.options import AppUpdateOptions
from atonc.delivery.application.types import Application
from atonc.delivery.application.updating import BuiltUpdate, update
from atonc.delivery.reloc.format import MAX_IMAGE_BYTES
from atonc.delivery.trials.app_running import ApplicationTrial, Turns, rig_of, sentence
from atonc.delivery.trials.boarding import INSTALL, FirmwareError, Rig
from atonc.machine.base.disk import read_file, write_files
from atonc.machine.emu.network import load
from atonc.machine.hw.board_file import find_board


def update_and_try(
    application: Application, name: str, folder: Path | None, options: AppUpdateOptions
) -> BuiltUpdate:
    """Updates; and runs the firmware of the build with it, if that is asked for."""
    made = update(application, name, options.built, folder)
    if not options.trial:
        return made
    found = try_update(made, options.trial)
    return replace(made, trial=found.as_dict() | {"says": sentence(found)})


def try_update(made: BuiltUpdate, each: int, seed: int = 0) -> ApplicationTrial:
    """`each`: inferences of every network that the firmware has in itself, and of the new one; as many before it."""
    built = made.built
    places = {place.network: place for place in built.places}
    fixed = [name for name in built.networks if name not in places]
    images = {one: read_file(built.folder / f"{one.network}_rel.bin", MAX_IMAGE_BYTES) for one in built.places}
    with tempfile.TemporaryDirectory(prefix="atonc_") as temporary:
        new = Path(temporary) / "update"
        write_files(new, {**made.told, **made.inside})
        board = find_board(made.application.board)
        rig = rig_of(built.folder, Path(temporary) / "build", board, fixed, images, built.ram)
        turns = Turns(made.application, built.ram, rig, np.random.default_rng(seed))
        alone = {name: load(built.folder, name) for name in fixed}
        turns.run(alone, each)
        install(rig, list(built.networks).index(made.name), made.place.slot.start, made.image.data)
        return turns.run({**alone, made.name: load(new, made.name)}, each)


def install(rig: Rig, number: int, address: int, image: bytes) -> None:
    """Puts an image to an address, and lets the firmware take it for one of its networks."""
    rig.put(address, image)
    lines = rig.command(INSTALL, number, 0, address)
    if "ATONC INSTALL 0" not in lines:
        raise FirmwareError(lines[-1] if lines else "nothing")
