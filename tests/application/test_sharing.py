"""Equal constants of several networks: stored once, read by all, checked at start; and planted faults of it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from atonc.compiler.request.options import Options, room
from atonc.delivery.application import building, check
from atonc.delivery.application.planning import figures
from atonc.delivery.application.read import read_application
from atonc.delivery.application.types import Application, AppNetwork, AppOptions, FlashSlot, SharedSlot
from atonc.machine.base.disk import write_files
from atonc.machine.base.errors import InputError
from atonc.machine.emu.network import load
from atonc.machine.hw.board import find_board
from tests.application.made import ONNX, TFLITE, accepted


def application(share: bool = True, resident: str = "") -> Application:
    """One model with two kinds of inputs, and the same weights in another format."""
    options = Options(verify=False)
    networks = (
        AppNetwork("codes", TFLITE, replace(options, input_type="int8")),
        AppNetwork("pixels", TFLITE, replace(options, input_type="uint8")),
        AppNetwork("other", ONNX, options),
    )
    return accepted(Application("made", options.board, networks, resident=room(resident), share_constants=share))


@cache
def built(share: bool = True, resident: str = "") -> building.BuiltApplication:
    found = building.planned(application(share, resident))
    output = building.files_of_application(found, figures(found), AppOptions())
    building.require_sound(found, output)
    return building.BuiltApplication(found, figures(found), output)


def test_flash_is_saved_and_programs_stay() -> None:
    once, twice = built(), built(share=False)
    assert {name for one in once.plan.shared for name in one.networks} >= {"codes", "pixels"}
    saved = once.figures.saved_constants_bytes
    assert saved == sum(len(one.data) * (len(one.networks) - 1) for one in once.plan.shared)
    assert saved > 6_000 and twice.figures.saved_constants_bytes == 0
    sizes = [sum(len(one.data) for one in made.output.contents) for made in (once, twice)]
    assert sizes[1] - sizes[0] >= 0.9 * saved
    for mine, theirs in zip(once.plan.networks, twice.plan.networks, strict=True):
        assert mine.compiled.cost.cycles == theirs.compiled.cost.cycles
    told = json.loads(once.output.files["app.json"])
    assert told["shared_constants"][0]["saved"] == saved and told["flash_start"] == once.plan.shared[0].start


def test_both_read_the_same_bytes(tmp_path: Path) -> None:
    write_files(tmp_path, built().output.files)
    part = built().plan.shared[0]
    for name in part.networks:
        net = load(tmp_path, name)
        assert net.memory.read(part.start, len(part.data)).tobytes() == part.data
    base, image = building.flash_image(built().output.contents)
    assert image[part.start - base :][: len(part.data)] == part.data


def test_planted_faults_are_found(tmp_path: Path) -> None:
    plan, board = built().plan, find_board(built().plan.application.board)
    write_files(tmp_path, built().output.files)
    touched = [check.touched_by(tmp_path, one.name, board) for one in plan.networks]
    slots = [one.slot for one in plan.networks]
    shared = [SharedSlot(one.networks, one.start, one.end) for one in plan.shared]

    def rules(slots: list[FlashSlot], touched: list[check.TouchedMemory], shared: list[SharedSlot]) -> str:
        return "; ".join(one.rule for one in check.check(plan.application, slots, touched, board, shared))

    assert rules(slots, touched, shared) == ""
    assert "in the slot of their" in rules(slots, touched, [])
    assert "in the slot of their" in rules(slots, touched, [replace(shared[0], networks=("codes", "other"))])
    assert "a slot of its own" in rules(slots, touched, [replace(shared[0], end=slots[0].start + 1)])
    spoiled = [replace(one, images=tuple((at, data[::-1]) for at, data in one.images)) for one in touched[1:2]]
    assert "the same for all" in rules(slots, [touched[0], *spoiled, touched[2]], shared)


def test_what_does_not_go_together(tmp_path: Path) -> None:
    kept = replace(application(), slots=(FlashSlot("codes", 0x7100_0000, 0x7101_0000),))
    with pytest.raises(InputError, match="cannot be replaced without them"):
        building.planned(kept)
    file = tmp_path / "app.toml"
    file.write_text(f'share_constants = true\n[[network]]\nname = "app_shared_1"\nmodel = "{TFLITE}"\n')
    with pytest.raises(InputError, match="is ours"):
        read_application(file)
    file.write_text(file.read_text().replace("app_shared_1", "one"))
    assert read_application(file).share_constants
