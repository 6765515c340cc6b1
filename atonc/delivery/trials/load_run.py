"""`atonc load-and-run`: a relocatable image on the virtual board, with our loader and runtime under it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.delivery.reloc.format import CPUS, MAGIC
from atonc.delivery.reloc.image import Image
from atonc.delivery.trials import image_edges, loading
from atonc.delivery.trials.image_edges import ImageEdges
from atonc.delivery.trials.loading import EXEC_RAM_BYTES, EXT_RAM_BYTES, EpochTime, LoaderRig, Spot
from atonc.delivery.trials.relocating import params_beside, read_image_file
from atonc.delivery.wire.messages import STM32N6
from atonc.insight.runs.runs import digest
from atonc.machine.base.disk import read_start
from atonc.machine.base.errors import CapacityError, InputError, UnsupportedError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.machine import stm32n6

WORDS = ("copy", "xip", "ext", "no-flash", "no-run", "usbc", "max-speed")
EXT_EXEC_RAM, EXT_EXEC_RAM_BYTES = 0x91C0_0000, 4 << 20
INFERENCES = 2
VIRTUAL = "virtual"
DEFAULT = Path("build/network_rel.bin")
_MAGIC = MAGIC.to_bytes(4, "little")


@dataclass(frozen=True)
class LoadPlan:
    """Which files go where, and how the image is installed."""

    file: Path
    image: Image
    params: bytes
    params_file: Path | None
    address: int
    params_address: int
    copy: bool
    external: bool  # code and data in external RAM
    words: frozenset[str]

    @property
    def install_mode(self) -> str:
        return f"{'copy' if self.copy else 'xip'}{'-ext' if self.external else ''}"

    @property
    def exec_bytes(self) -> int:
        return self.image.copy_bytes if self.copy else self.image.xip_bytes


@dataclass(frozen=True)
class Loaded:
    plan: LoadPlan
    line: str  # what the loader says about the image
    cycles: int  # of the last inference
    mhz: float
    epochs: tuple[EpochTime, ...]
    arrays: Mapping[str, NDArray[Any]] = field(repr=False)  # outputs by name
    edges: ImageEdges = field(repr=False)
    inputs: Sequence[bytes] = field(repr=False)  # as they lie in memory
    board: str = VIRTUAL
    device: int = STM32N6
    npu_hz: int = 0

    @property
    def virtual(self) -> bool:
        return self.board == VIRTUAL

    @property
    def outputs(self) -> tuple[str, ...]:
        """SHA-256 of each."""
        return tuple(digest(value) for value in self.arrays.values())


def sorted_files(image: Path | None, given: Sequence[Path]) -> tuple[Path, tuple[Path, ...]]:
    """ST's script calls the image its input: of files that are given so, the one that is an image is the image."""
    images = [path for path in given if path.suffix == ".bin" or read_start(path).startswith(_MAGIC)]
    named = [*([image] if image else []), *images]
    if len(named) > 1:
        raise InputError(f"two images: {named[0]} and {named[1]}", remedy="name one, as an argument or with -i")
    return named[0] if named else DEFAULT, tuple(path for path in given if path not in images)


def plan(file: Path, mode: str, address: str) -> LoadPlan:
    """Reads the files and decides as ST's script does; what does not fit the board is an error."""
    words = frozenset(filter(None, (word.strip() for word in mode.split(","))))
    unknown = sorted(words - set(WORDS))
    if unknown:
        raise InputError(f"{', '.join(unknown)[:80]!r}", where="--mode", rule=f"possible are: {', '.join(WORDS)}")
    image, start = read_image_file(file)
    if start:
        raise InputError(f"the image begins at {start:#x}", where=str(file), remedy="cut out the image first")
    params = params_beside(file, image)
    if image.split and params is None:
        other = file.with_name(f"{file.stem}_params{file.suffix}")
        raise InputError(f"its parameters are in another file, {other}, which is not there", where=str(file))
    net, parameters = _addresses(address)
    copy = "xip" not in words
    needed = image.copy_bytes if copy else image.xip_bytes
    external = "ext" in words or needed > EXEC_RAM_BYTES
    room = EXT_EXEC_RAM_BYTES if external else EXEC_RAM_BYTES
    for what, bytes_, limit in (("RAM to run", needed, room), ("RAM", image.context.ext_ram_bytes, EXT_RAM_BYTES)):
        if bytes_ > limit:
            raise CapacityError(f"the image wants {bytes_:,} bytes of external {what}, the board has {limit:,}")
    beside = file.with_name(f"{file.stem}_params{file.suffix}") if image.split else None
    return LoadPlan(
        file=file,
        image=image,
        params=params or b"",
        params_file=beside,
        address=net,
        params_address=parameters,
        copy=copy,
        external=external,
        words=words,
    )


def _addresses(text: str) -> tuple[int, int]:
    parts = text.split(",")
    try:
        numbers = [int(part, 0) for part in parts]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 2 or any(not 0 < number < 1 << 32 for number in numbers):
        raise InputError(f"{text[:60]!r} is not ADDRESS[,ADDRESS]", where="--address")
    return numbers[0], numbers[1] if len(numbers) > 1 else loading.PARAMS


def run_virtual(wanted: LoadPlan, seed: int = 0, files: Sequence[Path] = ()) -> Loaded:
    """Builds the loader's firmware, installs the image, runs it with the inputs of the files or of the seed."""
    flags = wanted.image.flags
    cpu = CPUS.get(flags.cpu, f"part {flags.cpu:#x}").lower()
    if cpu != loading.board_cpu():
        raise UnsupportedError(
            f"the image is for the {cpu}, the virtual board has a {loading.board_cpu()}",
            where=str(wanted.file),
            remedy=f"build it with atonc reloc --cpu {loading.board_cpu()}",
        )
    with tempfile.TemporaryDirectory(prefix="atonc_") as temporary:
        runtime = loading.loader_runtime(secure=flags.secure, debug_info=flags.debug_info)
        rig = LoaderRig(loading.build_loader(runtime, Path(temporary)))
    line = rig.install(wanted.image, wanted.params, _spot(wanted))
    edges = image_edges.told(rig.said)
    image_edges.require(edges, [buffer.size_bytes for buffer in rig.inputs[0]], str(wanted.file))
    inputs = edges.stored(files, seed)
    for _ in range(INFERENCES):
        found, epochs = rig.profile([np.frombuffer(value, np.uint8) for value in inputs])
    arrays = edges.arrays([output.tobytes() for output in found.outputs])
    return Loaded(wanted, line, found.cycles, stm32n6().clocks.cpu_mhz, tuple(epochs), arrays, edges, inputs)


def _spot(wanted: LoadPlan) -> Spot:
    mode = loading.COPY if wanted.copy else loading.XIP
    spot = Spot(mode, wanted.address, wanted.params_address)
    if not wanted.external:
        return spot
    return Spot(mode, wanted.address, wanted.params_address, EXT_EXEC_RAM, EXT_EXEC_RAM_BYTES)
