"""`atonc load-and-run`: a relocatable image on the virtual board, with our loader and runtime under it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from atonc.delivery.reloc.format import CPUS
from atonc.delivery.reloc.image import Image
from atonc.delivery.trials import loading
from atonc.delivery.trials.loading import EXEC_RAM_BYTES, EXT_RAM_BYTES, EpochTime, LoaderRig, Spot
from atonc.delivery.trials.relocating import params_beside, read_image_file
from atonc.machine.base.errors import CapacityError, InputError, UnsupportedError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.bus import Bytes
from atonc.machine.hw.machine import stm32n6

WORDS = ("copy", "xip", "ext", "no-flash", "no-run", "usbc", "max-speed")
EXT_EXEC_RAM, EXT_EXEC_RAM_BYTES = 0x91C0_0000, 4 << 20
INFERENCES = 2
VIRTUAL = "virtual"
_FLOAT = 1  # DataType_FLOAT


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
    outputs: tuple[str, ...]  # SHA-256 of each, after the last inference
    board: str = VIRTUAL


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


def run_virtual(wanted: LoadPlan, seed: int = 0) -> Loaded:
    """Builds the loader's firmware, installs the image, runs it with random inputs."""
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
    types = _types(rig.said)
    rng = np.random.default_rng(seed)
    for _ in range(INFERENCES):
        inputs = [_random(rng, b.size_bytes, kind) for b, kind in zip(rig.inputs[0], types, strict=True)]
        found, epochs = rig.profile(inputs)
    outputs = tuple(hashlib.sha256(output.tobytes()).hexdigest() for output in found.outputs)
    return Loaded(wanted, line, found.cycles, stm32n6().clocks.cpu_mhz, tuple(epochs), outputs)


def _spot(wanted: LoadPlan) -> Spot:
    mode = loading.COPY if wanted.copy else loading.XIP
    spot = Spot(mode, wanted.address, wanted.params_address)
    if not wanted.external:
        return spot
    return Spot(mode, wanted.address, wanted.params_address, EXT_EXEC_RAM, EXT_EXEC_RAM_BYTES)


def _types(lines: Sequence[str]) -> list[int]:
    return [int(line.split()[3]) for line in lines if line.startswith("ATONC TYPE IN")]


def _random(rng: np.random.Generator, size: int, kind: int) -> Bytes:
    if kind == _FLOAT:
        return rng.uniform(0.0, 1.0, size // 4).astype("<f4").view(np.uint8)
    return rng.integers(0, 256, size, dtype=np.uint8)
