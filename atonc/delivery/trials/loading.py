"""`atonc load-and-run`: relocatable images on the virtual board, in a firmware of ours with the loader in it; and on a
real one, whose validation firmware has installed the image and runs it layer by layer. Inputs and outputs are made from
what the firmware tells of them; outputs are compared with nothing here: that is `atonc validate --mode target`."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.delivery.firmware import building
from atonc.delivery.firmware import image as firmware
from atonc.delivery.firmware.building import CompileUnit, Placement
from atonc.delivery.firmware.image import Runtime
from atonc.delivery.reloc.format import CPUS, MAGIC
from atonc.delivery.reloc.image import Image
from atonc.delivery.trials.boarding import INSTALL, FirmwareError, Inference, Rig
from atonc.delivery.trials.relocating import params_beside, read_image_file
from atonc.delivery.trials.targeting import contradiction, milliseconds
from atonc.delivery.wire import messages
from atonc.delivery.wire.client import Client, TargetError
from atonc.delivery.wire.links import ByteLink
from atonc.delivery.wire.messages import STM32N6, ModelInfo, TensorInfo
from atonc.insight.runs import runs
from atonc.insight.runs.runs import EdgeBuffers, digest
from atonc.machine.base.disk import read_start
from atonc.machine.base.errors import CapacityError, InputError, UnsupportedError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu import tensors
from atonc.machine.emu.board.system import Clock, Nvic, SystemControl
from atonc.machine.emu.bus import AddressSpace, Bytes
from atonc.machine.emu.files.types import BufferInfo, EpochFlags
from atonc.machine.hw.machine import stm32n6

XIP, COPY, CLEAR = 1, 2, 4
# the loader's own data and stack; images and their RAM go elsewhere
PLACEMENT = Placement(data=0x3400_0400, data_bytes=0x3_FC00)
FLASH, PARAMS, EXEC_RAM, EXT_RAM = 0x7100_0000, 0x7180_0000, 0x3406_0000, 0x9010_0000
EXEC_RAM_BYTES, EXT_RAM_BYTES = 640 << 10, 27 << 20
_PROFILE = 5
_CPUID = 0xED00
_LINE = 64


@dataclass(frozen=True)
class EpochTime:
    """One epoch block: cycles of the CPU before the NPU starts, while it works, and after."""

    first: int
    last: int
    flags: EpochFlags
    pre: int
    npu: int
    post: int

    @property
    def kind(self) -> str:
        if EpochFlags.BLOB in self.flags:
            return "EC"
        return "SW" if EpochFlags.PURE_SW in self.flags else "HYBRID" if EpochFlags.HYBRID in self.flags else "HW"


@dataclass(frozen=True)
class Spot:
    """Where an image and its memories are; the same as in ST's validation firmware unless said otherwise."""

    mode: int = XIP
    file: int = FLASH
    params: int = PARAMS  # of a split image
    exec_ram: int = EXEC_RAM
    exec_ram_bytes: int = EXEC_RAM_BYTES
    ext_ram: int = EXT_RAM
    ext_ram_bytes: int = EXT_RAM_BYTES


def board_cpu() -> str:
    """The processor that the virtual board says it is: images for another one are refused."""
    number = SystemControl(Nvic(), Clock()).read(_CPUID, 4) >> 4 & 0xFFF
    return CPUS[number].lower()


class InstallError(FirmwareError):
    """The loader refused; `reason` is its word for why."""

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.reason = line.split()[-1]


def loader_runtime(mode: str = firmware.ASYNC, secure: bool = True, debug_info: bool = True) -> Runtime:
    """Our runtime with the loader, for images that were built with the same three choices."""
    ours = firmware.our_runtime(mode)
    defines = ours.defines | {"LL_ATON_RT_RELOC": ""} | ({"LL_ATON_EB_DBG_INFO": ""} if debug_info else {})
    return replace(ours, defines=defines, options=("-mcmse",) if secure else ())


def build_loader(runtime: Runtime, folder: Path) -> Path:
    """The firmware, `folder/loader.elf`."""
    common = firmware.compile_runtime(runtime, folder / "runtime")
    harness = building.runtime_folder("harness")
    toolchain = building.find_toolchain()
    includes = (harness, *runtime.includes)
    unit = CompileUnit(
        (harness / "loader_main.c",), includes, runtime.defines, strict=runtime.ours, options=runtime.options
    )
    objects = building.compile_units(toolchain, [unit], folder)
    return building.link(toolchain, [*common, *objects], folder / "loader.elf", PLACEMENT)


@cache
def _loader(secure: bool, debug_info: bool) -> bytes:
    """The firmware for images of this kind: a file may hold several."""
    with tempfile.TemporaryDirectory(prefix="atonc_") as temporary:
        return build_loader(loader_runtime(secure=secure, debug_info=debug_info), Path(temporary)).read_bytes()


class LoaderRig(Rig):
    """A board whose firmware waits for images."""

    def __init__(self, elf: Path, data_cache: bool = True) -> None:
        super().__init__(elf, [], data_cache=data_cache)

    def install(
        self, image: Image, params: bytes = b"", spot: Spot | None = None, model: bytes = b"", slot: int = 0
    ) -> str:
        """Puts the files into memory and lets the firmware install them; the line that it prints about the image."""
        spot = spot or Spot()
        self.put(spot.file, image.data)
        if params:
            self.put(spot.params, params)
        words = (spot.exec_ram, spot.exec_ram_bytes, spot.ext_ram, spot.ext_ram_bytes, spot.params if params else 0)
        where = struct.pack(
            "<8I16sI", spot.file, *words, spot.mode, int(bool(model)), model, int(image.note is not None)
        )
        self.board.poke(self.board.firmware.symbols["board_image"], np.frombuffer(where, np.uint8))
        self.inputs.pop(slot, None)
        self.outputs.pop(slot, None)
        return self._installed(self.command(INSTALL, slot))

    def profile(self, inputs: Sequence[Bytes], slot: int = 0) -> tuple[Inference, list[EpochTime]]:
        """One inference, and what each of its blocks took."""
        found = self.run(inputs, slot, _PROFILE)
        times = [list(map(int, line.split()[2:])) for line in self.said if line.startswith("ATONC EPOCH")]
        return found, [EpochTime(t[0], t[1], EpochFlags(t[2]), *t[3:]) for t in times]

    def _installed(self, lines: Sequence[str]) -> str:
        result = next(line for line in lines if line.startswith("ATONC INSTALL"))
        if result.split()[2] != "0":
            raise InstallError(result)
        self._learn(lines)
        return next(line for line in lines if line.startswith("ATONC IMAGE"))


_FLOAT = 1  # DataType_FLOAT
_POSITIONS = ("", "First", "Last", "Mixed")
_WORDS = 7  # in front of the shape
_TOLD = "ATONC EDGE "


@dataclass(frozen=True)
class ImageEdges:
    inputs: EdgeBuffers
    outputs: tuple[BufferInfo, ...]

    def stored(self, files: Sequence[Path], seed: int) -> list[bytes]:
        """Inputs from files, or from the seed, as they lie in memory."""
        chosen = runs.choose_from(self.inputs, files, seed)
        stored = []
        for info in self.inputs.inputs:
            memory = AddressSpace()
            memory.add(info.name, 0, max(1, info.size_bytes))
            tensors.write_input(info, chosen[info.name], memory)
            stored.append(memory.read(0, info.size_bytes).tobytes())
        return stored

    def arrays(self, outputs: Sequence[bytes | Bytes]) -> Mapping[str, NDArray[Any]]:
        """Bytes of the outputs by name, in shape and type."""
        return {
            info.name: np.frombuffer(bytes(data), tensors.dtype_of(info)).reshape(tensors.io_shape(info))
            for info, data in zip(self.outputs, outputs, strict=True)
        }


def told(lines: Sequence[str]) -> ImageEdges:
    """From what our loader prints."""
    rows = [line.removeprefix(_TOLD).split() for line in lines if line.startswith(_TOLD)]
    sides = {side: tuple(_buffer(row[1:]) for row in rows if row[0] == side) for side in ("IN", "INNER", "OUT")}
    return ImageEdges(EdgeBuffers(sides["IN"], sides["INNER"]), sides["OUT"])


def _buffer(words: Sequence[str]) -> BufferInfo:
    numbers = [int(word) for word in words[:-1]]
    kind, bits, unsigned, position, scale, epoch, zero = numbers[:_WORDS]
    zero -= 1 << 32 if zero >= 1 << 31 else 0
    scales = struct.unpack("<f", struct.pack("<I", scale)) if scale else ()
    type_ = "FLOAT" if kind == _FLOAT else f"{'U' if unsigned else ''}INT{bits}"
    place = _POSITIONS[position] if position < len(_POSITIONS) else ""
    return buffer_info(words[-1], tuple(numbers[_WORDS:]), place, type_, bits, (scales, zero, epoch))


def from_wire(inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> ImageEdges:
    """From what a validation firmware says: it does not tell where channels are, nor the range of float inputs."""
    return ImageEdges(EdgeBuffers(tuple(map(_of_tensor, inputs))), tuple(map(_of_tensor, outputs)))


def _of_tensor(tensor: TensorInfo) -> BufferInfo:
    dtype = tensor.dtype
    kind = "FLOAT" if dtype.kind == "f" else dtype.name.upper()
    shape = tensor.shape if prod(tensor.shape) == tensor.elements else (tensor.elements,)
    quantised = (tensor.scale,) if tensor.scale else (), tensor.zero_point, 0
    return buffer_info(tensor.name, shape, "Last", kind, 8 * dtype.itemsize, quantised)


_Quantised = tuple[tuple[float, ...], int, int]  # scales, zero point, epoch


def buffer_info(
    name: str, shape: tuple[int, ...], position: str, kind: str, bits: int, quantised: _Quantised
) -> BufferInfo:
    scales, zero, epoch = quantised
    size = prod(shape) * bits // 8
    return BufferInfo(
        name=plain(name),
        address=0,
        size_bytes=size,
        limit_bytes=size,
        shape=shape,
        mem_shape=shape,
        chpos=position,
        batch=1,
        type=kind,
        nbits=bits,
        scales=scales,
        offsets=(zero,) if scales else (),
        per_channel=False,
        epoch=epoch,
        is_user_allocated=False,
        is_param=False,
    )


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
    return numbers[0], numbers[1] if len(numbers) > 1 else PARAMS


def installed(wanted: LoadPlan) -> tuple[LoaderRig, str]:
    """Builds the loader's firmware and installs the image; what the firmware says about it."""
    flags = wanted.image.flags
    cpu = CPUS.get(flags.cpu, f"part {flags.cpu:#x}").lower()
    if cpu != board_cpu():
        raise UnsupportedError(
            f"the image is for the {cpu}, the virtual board has a {board_cpu()}",
            where=str(wanted.file),
            remedy=f"build it with atonc reloc --cpu {board_cpu()}",
        )
    with tempfile.TemporaryDirectory(prefix="atonc_") as temporary:
        elf = Path(temporary, "loader.elf")
        elf.write_bytes(_loader(flags.secure, flags.debug_info))
        rig = LoaderRig(elf)
    spot = Spot(COPY if wanted.copy else XIP, wanted.address, wanted.params_address)
    if wanted.external:
        spot = replace(spot, exec_ram=EXT_EXEC_RAM, exec_ram_bytes=EXT_EXEC_RAM_BYTES)
    return rig, rig.install(wanted.image, wanted.params, spot)


def run_virtual(wanted: LoadPlan, seed: int = 0, files: Sequence[Path] = ()) -> Loaded:
    """Installs the image and runs it with the inputs of the files or of the seed."""
    rig, line = installed(wanted)
    edges, sizes = told(rig.said), [buffer.size_bytes for buffer in rig.inputs[0]]
    seen = [info.size_bytes for info in edges.inputs.inputs]
    if seen != sizes:  # a firmware may not know shapes that we can read
        raise InputError(
            f"its inputs are said to have {seen} bytes, their buffers have {sizes}", where=str(wanted.file)
        )
    inputs = edges.stored(files, seed)
    for _ in range(INFERENCES):
        found, epochs = rig.profile([np.frombuffer(value, np.uint8) for value in inputs])
    arrays = edges.arrays([output.tobytes() for output in found.outputs])
    return Loaded(wanted, line, found.cycles, stm32n6().clocks.cpu_mhz, tuple(epochs), arrays, edges, inputs)


_KINDS = {2: EpochFlags.PURE_SW, 3: EpochFlags.HYBRID, 4: EpochFlags.BLOB}  # what the firmware calls a block
_KIND_BITS = 0xF


def run_on_board(plan: LoadPlan, link: ByteLink, seed: int = 0, files: Sequence[Path] = ()) -> Loaded:
    """Two inferences with the inputs of the files or of the seed; the times of the last one."""
    client = Client(link)
    try:
        client.connect()
        client.resets = client.can(messages.CAN_RESET)  # both inferences are first frames, where states are kept
        system, model = client.system_info(), _model(client, plan)
        edges = from_wire(model.inputs, model.outputs)
        inputs = edges.stored(files, seed)
        for turn in range(INFERENCES):
            result = client.run(model, inputs, messages.IO_ONLY | messages.PER_LAYER, first=turn == 0)
        if contradiction(result, system.cpu_hz):
            raise TargetError("the board's times contradict its counters", where=link.description)
    finally:
        client.disconnect()
    mhz = system.cpu_hz / 1e6
    return Loaded(
        plan,
        f"{model.name}, {model.description}",
        round(1e3 * mhz * milliseconds(result, system.cpu_hz)),
        mhz,
        tuple(
            EpochTime(*one.epochs, _KINDS.get(one.operator.kind & _KIND_BITS, EpochFlags(0)), *one.cycles)
            for one in result.layers
        ),
        edges.arrays(result.outputs),
        edges=edges,
        inputs=inputs,
        board=f"board at {link.description}",
        device=system.device,
        npu_hz=system.npu_hz,
    )


def _model(client: Client, plan: LoadPlan) -> ModelInfo:
    """The firmware holds one network, the installed image: its sizes must be those of the file."""
    models = client.models()
    if not models:
        raise TargetError(
            "the firmware runs without a network",
            rule="it looks for an image at 0x71000000, and for parameters of a split one at 0x71800000",
            remedy="flash the image there; the text at the start of the firmware says why it refuses one",
        )
    sizes = sum(tensor.elements * tensor.dtype.itemsize for tensor in models[0].params)
    if models[0].params and sizes != plan.image.context.params_bytes:
        raise TargetError(f"the board's network has {sizes:,} bytes of parameters: it is not {plan.file.name}")
    return models[0]
