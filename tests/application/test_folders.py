"""Folders, slots and names of applications that somebody else could have: refused, with the way out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from atonc.compiler.compile.pipeline import memories
from atonc.compiler.request.options import Options
from atonc.delivery.application import building, planning, updating
from atonc.delivery.application.memory import flash_of
from atonc.delivery.application.planning import figures
from atonc.delivery.application.types import Application, AppOptions, Reservation
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import CapacityError, InputError
from tests.application.made import DIGITS, TFLITE, alone, application, plan, plan_of, with_image
from tests.errors_said import unwrapped


def _named(name: str, other: str) -> Application:
    found = alone(application())
    first, second = found.networks
    return replace(found, networks=(replace(first, name=name), replace(second, name=other, after="")))


def test_no_other_build_goes_to_an_application(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """D2: `generate -n second` replaced that network's files, `app update` those of the released firmware."""
    folder = tmp_path / "app"
    building.build(with_image(), folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    words = ["generate", str(DIGITS / "digits.onnx"), "--no-verify", "-o", str(folder), "-n"]
    for name in ("second", "first", "app", "new"):
        assert main([*words, name]) == 2
        said = unwrapped(capsys.readouterr().err)
        assert "belongs to application 'app' (app_manifest.json)" in said and "name another folder with -o" in said
    with pytest.raises(InputError, match="belongs to application 'app'"):
        updating.update(with_image(), "second", folder, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_mixed_folder_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As an older version left it: files of one network replaced, with a manifest of their own."""
    made, other = tmp_path / "app", tmp_path / "other"
    building.build(application(), made)
    assert main(["generate", str(TFLITE), "--no-verify", "-q", "-n", "first", "-o", str(other)]) == 0
    for path in other.glob("first*"):
        (made / path.name).write_bytes(path.read_bytes())
    for words in (["run"], ["explain"], ["compare", str(other)]):
        assert main([words[0], str(made / "first.c"), *words[1:]]) == 2
        assert "is not the file that was generated with the others" in unwrapped(capsys.readouterr().err)


@pytest.mark.parametrize(("name", "other", "file"), [("a", "stai_a", "stai_a.c"), ("a", "A_memories", "_memories.h")])
def test_two_networks_want_one_file(name: str, other: str, file: str) -> None:
    found = planning.plan(asked := _named(name, other), planning.read_all(asked))
    with pytest.raises(InputError, match=rf"network '{name}' and network '{other}' both have a file (?s:.*){file}"):
        building.files_of_application(found, figures(found), AppOptions(stai=True))


def test_a_network_may_be_called_like_an_interface() -> None:
    """`stai_a.c` beside `a.c` is a network where it defines one."""
    found = plan_of(_named("a", "stai_a"))
    building.require_sound(found, building.files_of_application(found, figures(found), AppOptions()))


def test_a_slot_larger_than_the_flash() -> None:
    first, second = application().networks
    with pytest.raises(CapacityError, match=r"a slot of 107,374,182,400 bytes, (?s:.*) of the flash are left"):
        plan_of(replace(application(), networks=(replace(first, slot_bytes=100 << 30), second)))


@pytest.mark.parametrize("place", ["start", "middle", "end"])
def test_slots_leave_what_is_reserved_alone(place: str) -> None:
    """At the start of the flash the first slot lay in it."""
    pool = flash_of(memories(Options(board=application().board)))
    start = {"start": pool.base, "middle": pool.base + (1 << 16), "end": pool.base + pool.size_bytes - (1 << 20)}[place]
    mine = Reservation("mine", start, start + (1 << 20))
    found = plan_of(replace(application(), reserved=(mine,)))
    assert all(one.slot.end <= mine.start or one.slot.start >= mine.end for one in found.networks)
    building.require_sound(found, building.files_of_application(found, figures(found), AppOptions()))


def test_more_than_all_of_the_time_is_said() -> None:
    found = plan()
    often = replace(
        found.networks[0],
        network=replace(found.networks[0].network, per_second=100_000, places={"per_second": "line 9"}),
    )
    for networks, notes in ((found.networks, 0), ((often, *found.networks[1:]), 1)):
        busy = replace(found, networks=networks, application=found.application.with_network(networks[0].network))
        built = building.BuiltApplication(busy, figures(busy), building.ApplicationFiles({}, ()))
        assert len(built.notes) == notes and all("line 9: the networks would" in note for note in built.notes)
