"""A whole application on the virtual board: one firmware, all networks in turns in random order, every byte compared.

What each inference should give comes from the network alone: its files on the emulator, in memory of its own. Between
any two inferences all RAM of all networks is filled with noise, but for what must stay: weights in RAM, and inputs and
outputs that survive what runs next. A survivor is looked at again behind every run that it must survive."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from atonc.delivery.application.building import BuiltApplication, build
from atonc.delivery.application.relocatable import ImagePlace, places
from atonc.delivery.application.types import Application, AppOptions, AppUpdateOptions
from atonc.delivery.application.updating import BuiltUpdate, update
from atonc.delivery.firmware import image as firmware
from atonc.delivery.reloc.format import MAX_IMAGE_BYTES
from atonc.delivery.trials import loading
from atonc.delivery.trials.boarding import INSTALL, FirmwareError, Rig
from atonc.machine.base.disk import read_file, write_files
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.progress import stage
from atonc.machine.base.spans import Span, gaps
from atonc.machine.base.words import count
from atonc.machine.emu.bus import Bytes
from atonc.machine.emu.network import EmulatedNetwork, load
from atonc.machine.hw.board import Board, find_board

_INPUTS, _OUTPUTS = "inputs", "outputs"


@dataclass(frozen=True)
class ApplicationTrial:
    """How the networks of one firmware behaved beside each other."""

    order: tuple[str, ...]  # which ran, one after the other
    bytes_compared: int
    bytes_different: int
    survivors_checked: int  # inputs and outputs that were looked at again behind a run of another network
    poisoned_bytes: int  # of RAM, between two inferences
    first_difference: str = ""

    @property
    def equal(self) -> bool:
        return self.bytes_different == 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"equal": self.equal, "inferences": len(self.order)}


def sentence(found: ApplicationTrial) -> str:
    verdict = "every byte as each network alone" if found.equal else f"{found.bytes_different:,} bytes differ"
    first = f", first {found.first_difference}" if found.first_difference else ""
    return f"{count(len(found.order), 'inference')} on the virtual board, RAM poisoned between them: {verdict}{first}"


def build_and_try(application: Application, folder: Path | None, options: AppOptions) -> BuiltApplication:
    """Builds; and runs what was built, if that is asked for and every gate holds."""
    built = build(application, folder, options)
    if not options.trial or not all(gate.holds for gate in built.gates):
        return built
    found = try_application(built, options.trial)
    return replace(built, trial=found.as_dict() | {"says": sentence(found)})


def try_application(built: BuiltApplication, each: int, seed: int = 0) -> ApplicationTrial:
    """`each`: inferences of every network. The files are those of the build, in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="atonc_") as temporary:
        folder = Path(temporary) / "application"
        write_files(folder, built.output.all_files)
        rig = make_rig(built, folder, Path(temporary) / "build")
        return run_in_turns(built, folder, rig, each, seed)


def make_rig(built: BuiltApplication, folder: Path, work: Path, common: Sequence[Path] | None = None) -> Rig:
    """The board with the firmware of the application, waiting."""
    found = built.plan
    images = {place: built.output.images[place.network].data for place in places(found)}
    fixed = [one.name for one in found.networks if one.network.relocatable is None]
    return rig_of(folder, work, find_board(found.application.board), fixed, images, found.ram, common)


def rig_of(
    folder: Path,
    work: Path,
    board: Board,
    fixed: Sequence[str],
    images: Mapping[ImagePlace, bytes],
    ram: Sequence[Span],
    common: Sequence[Path] | None = None,
) -> Rig:
    """The same from the files of a build, with the images in their slots."""
    stage("building the firmware")
    networks = [firmware.network_in(folder, name) for name in fixed]
    runtime = loading.loader_runtime() if images else firmware.our_runtime()
    sources = (*firmware.APPLICATION.sources, folder.absolute() / "app_networks.c")
    harness = firmware.Harness(sources, taken=(*ram, *(place.exec_ram for place in images)))
    elf = firmware.build_firmware(networks, runtime, work, common, harness, board)
    rig = Rig(elf, networks, described=board, start=False)
    for place, data in images.items():
        rig.put(place.slot.start, data)
    rig.start()
    return rig


def run_in_turns(built: BuiltApplication, folder: Path, rig: Rig, each: int, seed: int) -> ApplicationTrial:
    turns = Turns(built.plan.application, built.plan.ram, rig, np.random.default_rng(seed))
    return turns.run({one.name: load(folder, one.name) for one in built.plan.networks}, each)


@dataclass(frozen=True)
class _Held:
    """Inputs or outputs of one network that runs of others must leave as they are."""

    network: str
    side: str
    values: tuple[Bytes, ...]
    survives: tuple[str, ...]


class Turns:
    """Inferences one after the other, and what must still be there from those before."""

    def __init__(self, application: Application, ram: Sequence[Span], rig: Rig, random: np.random.Generator) -> None:
        self.application, self.ram, self.rig, self.random = application, ram, rig, random
        self.number = {one.name: k for k, one in enumerate(application.networks)}
        self.alone: Mapping[str, EmulatedNetwork] = {}
        self.stays: list[Span] = []  # what networks keep for themselves: weights in RAM, states
        self.held: list[_Held] = []
        self.order: list[str] = []
        self.compared = self.different = self.survivors = self.poisoned = 0
        self.first_difference = ""

    def run(self, alone: Mapping[str, EmulatedNetwork], each: int) -> ApplicationTrial:
        """So many inferences of each of these networks; what was seen so far."""
        self.alone = alone
        networks = [net.network for net in alone.values()]
        self.stays = [(copy.address, copy.address + copy.size_bytes) for net in networks for copy in net.residents]
        self.stays += [(one.address, one.address + len(one.first)) for net in networks for one in net.states]
        names = list(alone)
        order = [names[k] for k in self.random.permutation(np.repeat(np.arange(len(names)), each))]
        for number, name in enumerate(order):
            stage("running on the virtual board", number, len(order))
            self.take(name)
        self.order += order
        seen = (self.compared, self.different, self.survivors, self.poisoned)
        return ApplicationTrial(tuple(self.order), *seen, self.first_difference)

    def take(self, name: str) -> None:
        """One inference of a network, and everything that is to be seen around it."""
        waiting = next((one for one in self.held if one.network == name and one.side == _INPUTS), None)
        values = waiting.values if waiting else self._made_inputs(name)
        self.held = [one for one in self.held if name in one.survives]
        self._fill_ahead(name)
        stay = [*self.held, *([waiting] if waiting else [])]
        self._poison([span for one in stay for span in self._spans(one)])
        expected = self._alone(name, values)
        found = self.rig.run(list(values), self.number[name]).outputs
        for index, (got, right) in enumerate(zip(found, expected, strict=True)):
            self.compared += got.size
            self._compare(got, right, f"output {index} of {name}")
        for one in self.held:
            self.survivors += len(one.values)
            for index, ((start, end), value) in enumerate(zip(self._spans(one), one.values, strict=True)):
                got = self.rig.board.memory.read(start, end - start)
                self._compare(got, value, f"{one.side} {index} of {one.network} behind a run of {name}")
        if survives := self.application.network(name).outputs_survive:
            self.held.append(_Held(name, _OUTPUTS, expected, survives))

    def _fill_ahead(self, running: str) -> None:
        """What the application fills while this network runs."""
        for other in self.application.networks:
            filled = any(one.network == other.name and one.side == _INPUTS for one in self.held)
            if running in other.inputs_survive and other.name in self.alone and not filled:
                one = _Held(other.name, _INPUTS, self._made_inputs(other.name), other.inputs_survive)
                for (start, _), value in zip(self._spans(one), one.values, strict=True):
                    self.rig.board.poke(start, value)
                self.held.append(one)

    def _spans(self, one: _Held) -> list[Span]:
        side = self.rig.inputs if one.side == _INPUTS else self.rig.outputs
        return [(b.address, b.address + b.size_bytes) for b in side.get(self.number[one.network], [])]

    def _poison(self, stay: Sequence[Span]) -> None:
        self.poisoned = 0
        for span in self.ram:
            for start, end in gaps(span, sorted([*stay, *self.stays])):
                noise = self.random.integers(0, 256, end - start, np.uint8)
                self.rig.board.poke(start, noise)
                self.poisoned += noise.size

    def _made_inputs(self, name: str) -> tuple[Bytes, ...]:
        return tuple(
            self.random.uniform(-1, 1, one.size_bytes // 4).astype("<f4").view(np.uint8)
            if one.type == "FLOAT"
            else self.random.integers(0, 256, one.size_bytes, np.uint8)
            for one in self.alone[name].inputs
        )

    def _alone(self, name: str, values: Sequence[Bytes]) -> tuple[Bytes, ...]:
        """What the network gives when there is no other."""
        net = self.alone[name]
        for buffer, value in zip(net.inputs, values, strict=True):
            net.memory.write(buffer.address, value)
        for _ in net.run():
            pass
        return tuple(net.memory.read(one.address, one.size_bytes).copy() for one in net.outputs)

    def _compare(self, got: Bytes, right: Bytes, what: str) -> None:
        wrong = np.flatnonzero(got != right)
        self.different += wrong.size
        if wrong.size and not self.first_difference:
            self.first_difference = f"{what}, byte {wrong[0]}: {got[wrong[0]]} not {right[wrong[0]]}"


def update_and_try(application: Application, name: str, folder: Path | None, options: AppUpdateOptions) -> BuiltUpdate:
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
