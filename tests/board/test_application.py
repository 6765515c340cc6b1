"""A whole application as one firmware on the virtual board: in turns, in any order, beside poisoned memory."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atonc.delivery.application import building
from atonc.delivery.application.planning import figures
from atonc.delivery.application.types import AppOptions
from atonc.delivery.firmware import image as firmware
from atonc.delivery.trials import applications
from atonc.delivery.trials.boarding import FirmwareError, Rig
from atonc.insight.runs import runs
from atonc.machine.base.disk import write_files
from atonc.machine.emu.files.intel_hex import read_hex
from atonc.machine.emu.files.network_c import read_network
from tests.application.made import application, plan, plan_of
from tests.application.test_sharing import built as shared_constants
from tests.board.elf_network import ElfNetwork
from tests.board.programs import needs_compiler

pytestmark = needs_compiler
HERE = Path(__file__).parent
STAI = HERE.parent / "emit" / "stubs" / "stai.h"  # the published types, in our words
Made = tuple[building.BuiltApplication, Path, Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    found, folder = plan("all"), tmp_path_factory.mktemp("application")
    built = building.BuiltApplication(
        found, figures(found), building.files_of_application(found, figures(found), AppOptions())
    )
    write_files(folder, built.output.files)
    return built, folder, tmp_path_factory.mktemp("build")


@pytest.fixture(scope="module")
def rig(made: Made) -> Rig:
    return applications.make_rig(*made)


def runtime_of(rig: Rig, work: Path) -> list[Path]:
    """Objects that the rig was built of."""
    return [path for path in (work / "runtime").glob("*.o") if rig.said]


def test_networks_in_turns_give_the_bytes_of_each_alone(made: Made, rig: Rig) -> None:
    built, folder, _ = made
    found = applications.run_in_turns(built, folder, rig, 4, seed=1)
    assert found.equal, found.first_difference
    assert sorted(found.order) == ["first"] * 4 + ["second"] * 4 and found.order != tuple(sorted(found.order))
    assert found.bytes_compared == 200 and found.survivors_checked >= 4 and found.poisoned_bytes > 1000


def test_memory_that_the_application_brings(made: Made, rig: Rig, tmp_path: Path) -> None:
    """As in ST's applications of two networks: the inputs of the first and the outputs of the second are buffers of the
    firmware."""
    built, _, work = made
    first, second = application().networks
    first = replace(first, options=replace(first.options, inputs_allocation=False))
    second = replace(second, options=replace(second.options, outputs_allocation=False))
    found = plan_of(replace(built.plan.application, networks=(first, second)))
    assert {(one.network, one.tensor) for one in found.kept} == {("first", "probabilities"), ("second", "image")}
    output = building.files_of_application(found, figures(found), AppOptions())
    building.require_sound(found, output)
    brought = building.BuiltApplication(found, figures(found), output)
    write_files(tmp_path / "application", output.files)
    other = applications.make_rig(brought, tmp_path / "application", tmp_path / "build", runtime_of(rig, work))
    tried = applications.run_in_turns(brought, tmp_path / "application", other, 2, seed=3)
    assert tried.equal, tried.first_difference


@pytest.mark.parametrize("what", ["residents", "kept"])
def test_memory_that_should_have_stayed_is_noticed(
    made: Made, rig: Rig, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The same turns, but the noise does not stop at weights in RAM, or at survivors."""
    built, folder, _ = made
    usual = applications.gaps

    def further(span: tuple[int, int], stay: list[tuple[int, int]]) -> list[tuple[int, int]]:
        left = [one for one in stay if one in copies] if what == "kept" else [one for one in stay if one not in copies]
        return list(usual(span, left))

    networks = [applications.load(folder, name).network for name in ("first", "second")]
    copies = [(one.address, one.address + one.size_bytes) for network in networks for one in network.residents]
    before = {start: rig.board.memory.read(start, end - start).copy() for start, end in copies}
    monkeypatch.setattr(applications, "gaps", further)
    found = applications.run_in_turns(built, folder, rig, 3, seed=2)
    assert not found.equal
    for address, value in before.items():
        rig.board.poke(address, value)


def test_flash_that_was_not_programmed_is_noticed_at_the_start(made: Made, rig: Rig) -> None:
    built, _, work = made
    assert (work / "firmware.elf").is_file() and rig.said
    rig = Rig(work / "firmware.elf", [], start=False)
    for one in built.output.contents:
        rig.board.poke(one.slot.start, np.frombuffer(one.data, np.uint8))
    rig.board.poke(built.output.contents[1].slot.start + 7, np.array([built.output.contents[1].data[7] ^ 1], np.uint8))
    with pytest.raises(FirmwareError, match="what belongs to second is not in flash"):
        rig.start()


def test_networks_that_share_constants(made: Made, rig: Rig, tmp_path: Path) -> None:
    """Weights in RAM are copied from there too; and a shared part that was not programmed is noticed."""
    built = shared_constants(resident="all")
    assert built.figures.saved_constants_bytes > 6_000 and built.figures.resident_bytes > 6_000
    write_files(tmp_path / "application", built.output.files)
    other = applications.make_rig(built, tmp_path / "application", tmp_path / "build", runtime_of(rig, made[2]))
    tried = applications.run_in_turns(built, tmp_path / "application", other, 2, seed=4)
    assert tried.equal, tried.first_difference
    other = Rig(tmp_path / "build" / "firmware.elf", [], start=False)
    for one in built.output.contents[:3]:
        other.board.poke(one.slot.start, np.frombuffer(one.data, np.uint8))
    with pytest.raises(FirmwareError, match="what belongs to codes is not in flash"):
        other.start()


def test_two_networks_behind_the_st_interface(made: Made, rig: Rig, tmp_path: Path) -> None:
    """`--stai`: both link with the interface and run in turns on it."""
    found, folder = plan(), tmp_path / "application"
    write_files(folder, building.files_of_application(found, figures(found), AppOptions(stai=True)).files)
    for file in (STAI, HERE / "stai_two.c"):
        shutil.copy(file, folder)
    names = [one.name for one in found.networks]
    harness = firmware.Harness((folder / "stai_two.c", *(folder / f"stai_{name}.c" for name in names)))
    networks = [firmware.network_in(folder, name) for name in names]
    common = runtime_of(rig, made[2])
    image = firmware.build_firmware(networks, firmware.our_runtime(), tmp_path / "build", common, harness=harness)
    host, random = ElfNetwork(image, list(read_hex(folder / "app_flash.hex"))), np.random.default_rng(1)
    for turn in range(2):
        for name in names:
            for start, end in found.ram:
                host.poison(start, end, random)
            options = runs.RunOptions(folder, name=name, seed=turn)
            net = runs.load(options)
            chosen = runs.choose_inputs(net, options)
            wanted = runs.execute(net, chosen, options).outputs
            given = [chosen[info.name].tobytes() for info in net.inputs]
            assert host.run(read_network(folder, name), given) == [wanted[info.name].tobytes() for info in net.outputs]
