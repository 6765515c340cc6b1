"""Relocatable networks of an application on the virtual board: beside fixed ones, exchanged, and refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atonc.delivery.application import building
from atonc.delivery.application.relocatable import places
from atonc.delivery.application.types import LoadMode, Reservation
from atonc.delivery.firmware import building as toolchain
from atonc.delivery.reloc.image import Image
from atonc.delivery.trials import applications
from atonc.delivery.trials.applications import Turns, install
from atonc.delivery.trials.boarding import FirmwareError, Rig
from atonc.machine.base.disk import write_files
from atonc.machine.emu.network import load
from tests.application.made import built, with_image

pytestmark = pytest.mark.skipif(shutil.which(toolchain.GCC) is None, reason="no cross compiler")
pytest.importorskip("unicorn", reason="the virtual board needs unicorn")

SECOND = 1  # its number
INVALID, NOT_SUPPORTED = 1, 3  # results of the loader, without their sign
Made = tuple[building.BuiltApplication, Path, Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Code that is copied, weights in RAM, inputs and outputs that survive."""
    found, folder = built(with_image(LoadMode.COPY, resident="all")), tmp_path_factory.mktemp("application")
    write_files(folder, found.output.all_files)
    return found, folder, tmp_path_factory.mktemp("build")


@pytest.fixture(scope="module")
def rig(made: Made) -> Rig:
    return applications.make_rig(*made)


def turns(made: Made, rig: Rig) -> applications.ApplicationTrial:
    return applications.run_in_turns(made[0], made[1], rig, 2, seed=3)


def image_with_other_inputs() -> Image:
    found = with_image(LoadMode.COPY, resident="all")
    first, second = found.networks
    codes = replace(second, options=replace(second.options, input_type="int8"))
    return built(replace(found, networks=(first, codes))).output.images["second"]


def image_elsewhere() -> Image:
    """The firmware that it is for keeps the start of the NPU's RAM for itself."""
    camera = Reservation("camera", 0x3420_0000, 0x3421_0000)
    return built(replace(with_image(LoadMode.COPY, resident="all"), reserved=(camera,))).output.images["second"]


def test_both_run_in_turns(made: Made, rig: Rig) -> None:
    found = turns(made, rig)
    assert found.equal and found.survivors_checked, found.first_difference


def test_a_new_image_takes_its_place_while_the_firmware_runs(made: Made, tmp_path: Path) -> None:
    """The update rounds otherwise, with other constants; its firmware is that of the build."""
    found = with_image(LoadMode.COPY, resident="all")
    first, second = found.networks
    rounded = replace(second, options=replace(second.options, numerics="2.x"))
    asked = replace(found, networks=(first, rounded))
    write_files(tmp_path, made[0].output.files)
    new = applications.update(asked, "second", tmp_path, None)
    assert new.image.data != made[0].output.images["second"].data
    tried = applications.try_update(new, 2)
    assert tried.equal and tried.order.count("second") == 2 and tried.order.count("first") == 4, tried.first_difference


@pytest.mark.parametrize("kind", ["damaged", "in RAM of others", "with other inputs"])
def test_an_image_that_does_not_suit_is_refused_and_the_others_go_on(kind: str, made: Made, rig: Rig) -> None:
    right, slot = made[0].output.images["second"].data, places(made[0].plan)[0].slot.start
    spare = slot + (1 << 20)
    if kind == "damaged":
        middle = len(right) // 2
        wrong, code = right[:middle] + bytes([right[middle] ^ 1]) + right[middle + 1 :], INVALID
    else:
        image = image_elsewhere() if kind == "in RAM of others" else image_with_other_inputs()
        wrong, code = image.data, NOT_SUPPORTED
    with pytest.raises(FirmwareError, match=f"INSTALL {code}"):
        install(rig, SECOND, spare, wrong)
    seen = Turns(made[0].plan.application, made[0].plan.ram, rig, np.random.default_rng(5))
    assert seen.run({"first": load(made[1], "first")}, 1).equal
    install(rig, SECOND, spare, right)  # at another address: the same image
    assert turns(made, rig).equal


def test_a_slot_without_its_image_is_noticed_at_the_start(made: Made, rig: Rig) -> None:
    assert rig.said
    fresh = Rig(made[2] / "firmware.elf", [], start=False)
    fresh.put(made[0].output.contents[0].slot.start, made[0].output.contents[0].data)
    with pytest.raises(FirmwareError, match="what belongs to second is not in flash"):
        fresh.start()
