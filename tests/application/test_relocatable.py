"""Networks of an application that are relocatable images, and updates of one while the firmware stays."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atonc.compiler.plan.types import BufferKind
from atonc.delivery.application import building, check, planning, updating
from atonc.delivery.application.building import ways_out
from atonc.delivery.application.relocatable import place_of, places, read_place, require_fits
from atonc.delivery.application.types import Application, AppNetwork, Reservation
from atonc.delivery.firmware import building as toolchain
from atonc.doors.cli.cli import main
from atonc.machine.base.disk import write_files
from atonc.machine.base.errors import AtoncError, CapacityError, InputError, ModelError
from atonc.machine.hw.board import find_board
from tests.application.made import DIGITS, built, with_image

pytestmark = pytest.mark.skipif(shutil.which(toolchain.GCC) is None, reason="no cross compiler")

APP = """
[[network]]
name = "first"
model = "digits/digits.tflite"

[[network]]
name = "second"
model = "digits/digits.onnx"
after = "first"
{second}
"""


@pytest.fixture(scope="module")
def made() -> building.BuiltApplication:
    return built(with_image())


@pytest.fixture(scope="module")
def folder(made: building.BuiltApplication, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("build")
    write_files(found, made.output.files)
    return found


def changed(found: Application, **changes: Any) -> Application:
    """The second network otherwise."""
    first, second = found.networks
    return replace(found, networks=(first, replace(second, **changes)))


def test_the_image_is_in_the_slot_and_not_in_the_firmware(made: building.BuiltApplication) -> None:
    image = made.output.images["second"]
    assert made.output.contents[1].data == image.data == made.output.files["second_rel.bin"]
    assert "second.c" not in made.output.files and "second.c" in made.output.inside and "first.c" in made.output.files
    source = made.output.files["app_networks.c"].decode()
    assert "NN_INSTANCE_AND_INTERFACE(first)" in source and "NN_INSTANCE_AND_INTERFACE(second)" not in source
    assert f"{made.plan.networks[1].slot.start:#010x}U, 0U, 0x00000000U" in source  # another image may come


def test_its_ram_is_nobody_elses(made: building.BuiltApplication) -> None:
    place = places(made.plan)[0]
    start, end = place.exec_ram
    assert end - start >= made.output.images["second"].xip_bytes
    assert not any(low < end and start < high for low, high in made.plan.ram)
    kept = [one.span for one in made.plan.kept if one.network == "first"]
    assert kept and not any(low < high_r and low_r < high for low, high in kept for low_r, high_r in place.ram)


def test_weights_in_ram_are_among_its_pools() -> None:
    """So whoever installs it sees all RAM that it takes."""
    found = built(with_image(resident="all"))
    pools = [(pool.destination, pool.destination + pool.size_bytes) for pool in found.output.images["second"].pools]
    copies = found.plan.networks[1].spans(BufferKind.RESIDENT)
    assert copies and all(any(low <= start and end - 64 <= high for low, high in pools) for start, end in copies)


def test_what_the_firmware_grants_is_in_the_map(made: building.BuiltApplication) -> None:
    told = json.loads(made.output.files["app.json"])
    assert [read_place(row) for row in told["relocatable"]] == places(made.plan)


@pytest.mark.parametrize("planted", ["over what survives", "over what is reserved"])
def test_pools_of_the_image_that_meet_others_are_found(
    planted: str, made: building.BuiltApplication, tmp_path: Path
) -> None:
    """What the loader takes for the image's own counts as touched."""
    write_files(tmp_path, made.output.all_files)
    board, found = find_board(made.plan.application.board), made.plan
    touched = [check.touched_by(tmp_path, one.name, board, made.output.images.get(one.name)) for one in found.networks]
    slots = [one.slot for one in found.networks]
    assert touched[1].pools and not check.check(found.application, slots, touched, board)
    kept = next(one.span for one in found.kept if one.network == "first")
    ram = found.application.exec_ram("second")
    span = kept if planted == "over what survives" else (ram.start, ram.end)
    spoiled = [touched[0], replace(touched[1], pools=(("pool", span),))]
    assert check.check(found.application, slots, spoiled, board)


def test_an_image_that_does_not_fit_is_refused(made: building.BuiltApplication) -> None:
    with pytest.raises(CapacityError, match=r"network second: its image takes (?s:.*) 1,024 are kept for it"):
        built(changed(with_image(), exec_bytes=1024))
    image, one = made.output.images["second"], made.plan.networks[1]
    short = replace(one.slot, end=one.slot.start + len(image.data))  # nothing to read ahead
    with pytest.raises(CapacityError, match="network second: an image of"):
        require_fits(one.network, image, short, places(made.plan)[0].exec_ram)


def test_the_same_model_gives_the_same_image(made: building.BuiltApplication, folder: Path, tmp_path: Path) -> None:
    found = updating.update(with_image(), "second", folder, tmp_path)
    assert found.image.data == made.output.images["second"].data and not found.news
    assert (tmp_path / "second_rel.bin").read_bytes() == found.image.data
    assert not list(tmp_path.glob("*.c")) and (tmp_path / "second_rel.hex").is_file()


def test_an_update_that_touches_more_than_is_granted_is_found(made: building.BuiltApplication, tmp_path: Path) -> None:
    write_files(tmp_path, made.output.all_files)
    board, place = find_board(made.plan.application.board), places(made.plan)[0]
    touched = check.touched_by(tmp_path, "second", board, made.output.images["second"])
    granted = [*place.ram, (place.slot.start, place.slot.end)]
    assert not list(check.outside(touched, granted))
    for missing in granted:
        found = list(check.outside(touched, [span for span in granted if span != missing]))
        assert found and found[0].rule == "an update touches only what the firmware grants its network"
    with pytest.raises(ModelError, match="only what the firmware grants"):
        check.require_sound(found)


def test_inputs_of_another_size_are_refused(folder: Path) -> None:
    second: AppNetwork = with_image().networks[1]
    codes = changed(with_image(), options=replace(second.options, input_type="int8"))
    with pytest.raises(InputError, match="inputs of 64 bytes, the application knows 256"):
        updating.update(codes, "second", folder, None)


def test_the_firmware_says_how_it_is_loaded(made: building.BuiltApplication, folder: Path) -> None:
    """The file may have changed since: what is out counts."""
    second: AppNetwork = with_image().networks[1]
    plain = changed(with_image(), relocatable=None, options=replace(second.options, relocatable=False))
    assert updating.update(plain, "second", folder, None).image.data == made.output.images["second"].data


def test_other_networks_and_boards_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="relocatable there are: second"):
        updating.update(with_image(), "first", folder, None)
    with pytest.raises(InputError, match="not in the application"):
        updating.update(with_image(), "third", folder, None)
    with pytest.raises(InputError, match="firmware that is out"):
        updating.update(replace(with_image(), board="nucleo-n657x0-q"), "second", folder, None)


def spoiled(folder: Path, change: Callable[[dict[str, Any]], object], target: Path) -> Path:
    data = json.loads((folder / "app.json").read_text())
    change(data)
    (target / "app.json").write_text(json.dumps(data))
    return target


def test_less_ram_than_it_needs_is_said(folder: Path, tmp_path: Path) -> None:
    def halve(data: dict[str, Any]) -> None:
        span = data["relocatable"][0]["ram"][0]
        span["end"] -= (span["end"] - span["start"]) // 2

    with pytest.raises(AtoncError, match="the firmware grants it"):
        updating.update(with_image(), "second", spoiled(folder, halve, tmp_path), None)


def test_what_codes_mean_now_is_told(folder: Path, tmp_path: Path) -> None:
    there = spoiled(folder, lambda data: data["relocatable"][0]["outputs"][0].update(scale=0.5), tmp_path)
    assert updating.update(with_image(), "second", there, None).news == (
        "output 0 is now float32 with scale 1 and zero point 0, was float32 with scale 0.5 and zero point 0",
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("relocatable"),
        lambda data: data["relocatable"][0].update(mode="both"),
        lambda data: data["relocatable"][0]["slot"].update(end=1 << 40),
        lambda data: data["relocatable"][0]["ram"].append({"start": 5, "end": 1}),
        lambda data: data["relocatable"][0]["inputs"].append(7),
        lambda data: data.update(format="another"),
    ],
)
def test_damaged_maps_are_refused(change: Callable[[dict[str, Any]], object], folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not the map of an application"):
        updating.update(with_image(), "second", spoiled(folder, change, tmp_path), None)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(DIGITS, tmp_path / "digits")
    (tmp_path / "app.toml").write_text(APP.format(second='relocatable = "copy"'))
    app, there = str(tmp_path / "app.toml"), tmp_path / "build"
    assert main(["app", "build", app, "-o", str(there)]) == 0
    assert "image: second" in capsys.readouterr().out
    assert main(["app", "update", app, "second", "--built", str(there), "-o", str(tmp_path / "new"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["document"] == "app-update" and told["image_bytes"] == (there / "second_rel.bin").stat().st_size
    assert (tmp_path / "new" / "second_rel.bin").read_bytes() == (there / "second_rel.bin").read_bytes()


def test_its_ram_is_no_way_out(made: building.BuiltApplication) -> None:
    """An application that does not fit is not told to put the RAM of an image elsewhere."""
    camera = Reservation("camera", 0x3420_0000, 0x3420_0000 + (3 << 19))
    asked = replace(with_image(), reserved=(camera, *made.plan.application.reserved))
    told = [line for line in ways_out(asked, planning.read_all(asked)) if "elsewhere" in line]
    assert len(told) == 1 and "camera elsewhere" in told[0]


def test_shared_constants_leave_images_out() -> None:
    """An image has everything in itself, so nothing of it is shared."""
    found = building.planned(replace(with_image(), share_constants=True))
    assert not found.shared and place_of(found, found.networks[1]).slot == found.networks[1].slot
