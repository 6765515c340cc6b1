"""`atonc validate --mode target --bisect`: the first layer whose bytes on the board are not the emulator's, and whether
CPU, NPU, memory or transfer is the likely cause.

What went in is looked at first: inputs as they lie in the board's memory, then constants by the board's own sums over
them. Then the tensors that the firmware shows behind every block it starts. A block of the epoch controller is many
epochs; a copy of its program in RAM that the network leaves free ends behind one of them, and the search halves what is
left. No step needs another firmware."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.inputs.inputs import Sample
from atonc.compiler.schedule.check_means import stream_of
from atonc.delivery.trials.targeting import ExpectedRun, find_network
from atonc.delivery.wire import messages
from atonc.delivery.wire.client import BoardRunResult, Client, ReportedLayer, TargetError, checksum
from atonc.delivery.wire.messages import ModelInfo, SystemInfo
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count
from atonc.machine.emu.bus import AddressSpace, MemoryRegion, canonical
from atonc.machine.emu.files.types import EpochBlock
from atonc.machine.emu.network import EmulatedNetwork, NetworkStep, initial_copy
from atonc.machine.hw.ec.blob import Blob
from atonc.machine.hw.ec.instructions import Irq, Label, decode, encode
from atonc.machine.hw.limits import CPU_CACHE_LINE, NPU_CACHE_LINE, PREFETCH_BYTES
from atonc.machine.hw.machine import NPU_RAM, stm32n6
from atonc.machine.hw.units.stream_engine import StrengConfig

REPEATS = 3  # runs of the input whose outputs differ
_CHUNK = 1 << 14  # bytes under one sum
_FINE = 64  # bytes that are read where the sums differ
_FILLINGS = (0x00, 0xFF, 0x3C)
_OTHER = 0x5A  # makes other bytes of the inputs
_NEAR = 64  # bytes between two parts of memory that are read as one
Bytes = NDArray[np.uint8]
Note = Callable[[str], None]


class Cause(StrEnum):
    NONE = "none"
    TRANSFER = "transfer"
    MEMORY = "memory"
    CPU = "cpu"
    NPU = "npu"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class BisectCheck:
    """One thing that was looked at; `good` is None where it could not be."""

    what: str
    found: str
    good: bool | None


@dataclass(frozen=True)
class DifferentConstant:
    """Bytes of a constant that are not those of the build."""

    address: int
    size_bytes: int  # from the first that differs to the last
    board: bytes
    built: bytes
    stable: bool
    epochs: tuple[int, ...]  # that read it


@dataclass(frozen=True)
class FirstDifference:
    """The first epoch, or the fewest epochs that could be told apart, with other bytes than the emulator's."""

    first: int
    last: int
    kind: str  # npu, cpu, hybrid
    different: int  # bytes
    compared: int
    whole_lines: bool = False  # what differs are whole lines of the CPU's cache

    @property
    def exact(self) -> bool:
        return self.first == self.last


@dataclass(frozen=True)
class Bisection:
    """What was found. `sample`: the first whose outputs differ; -1: none."""

    line: str
    protocol: str
    system: SystemInfo
    model: ModelInfo
    identity: str
    samples: int
    sample: int = -1
    runs: int = 0
    stable: bool = True  # every run gave the same bytes
    cause: Cause = Cause.NONE
    difference: FirstDifference | None = None
    constants: tuple[DifferentConstant, ...] = ()
    checks: tuple[BisectCheck, ...] = ()
    net: EmulatedNetwork | None = field(default=None, repr=False)
    faults: int = 0

    @property
    def equal(self) -> bool:
        return self.sample < 0


# -------------------------------------------------------------------------------------------------- the emulator's side


class _Emulated:
    """The network on the emulator with one input."""

    def __init__(self, net: EmulatedNetwork, inputs: Sequence[bytes]) -> None:
        self.net, self._inputs = net, inputs
        self._writes: dict[int, NDArray[np.int64]] = {}  # by steps of the CPU

    @property
    def memory(self) -> AddressSpace:
        return self.net.memory

    def start(self) -> None:
        self.net.reset()
        for info, data in zip(self.net.inputs, self._inputs, strict=True):
            self.memory.write(info.address, np.frombuffer(data, np.uint8))

    def steps(self) -> Iterator[NetworkStep]:
        self.start()
        yield from self.net.run()

    def behind(self, last: int) -> Bytes:
        """Memory of the chip behind this epoch."""
        self.start()
        for _ in self.net.run(until=last):
            pass
        return self._on_chip.data.copy()

    @property
    def _on_chip(self) -> MemoryRegion:
        return self.memory.regions[0]

    @property
    def base(self) -> int:
        return self._on_chip.base

    def kept(self, places: NDArray[np.int64], last: int) -> NDArray[np.int64]:
        """Those of them that layers of the CPU behind this epoch leave alone: they run whatever programs do."""
        later = [step for step in self.net.steps if step.number > last and not step.blob]
        written = [self._written_by(step) for step in later]
        return places[~np.isin(places, np.concatenate(written))] if written else places

    def constants(self, contents: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """What stays as it was before the first run: outside the chip all of it, inside what engines read and nobody
        writes."""
        steps = [step for step in self.net.steps if step.epoch is not None]
        read = self.touched(engine for step in steps if step.epoch for engine in step.epoch.readers().values())
        written = self.touched(engine for step in steps if step.epoch for engine in step.epoch.writers().values())
        given = [np.arange(info.address, info.address + info.size_bytes) for info in self.net.inputs]
        others = [self._written_by(step) for step in self.net.steps if step.calls]
        kept = np.setdiff1d(read, np.concatenate([written, *given, *others]))
        for address, data in contents:
            if not self.base <= address < self._on_chip.end:
                yield address, data
                continue
            inside = kept[(kept >= address) & (kept < address + len(data))]
            for part in np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1) if inside.size else ():
                yield int(part[0]), data[int(part[0]) - address : int(part[-1]) + 1 - address]

    def _written_by(self, step: NetworkStep) -> NDArray[np.int64]:
        """Bytes of the chip's RAM that a layer of the CPU writes, whatever it reads: what changes in any of several
        fillings."""
        if step.number not in self._writes:
            region, changed = self._on_chip, np.zeros(self._on_chip.data.size, bool)
            before = region.data.copy()
            for filling in _FILLINGS:
                region.data[:] = filling
                with suppress(AtoncError):  # it may not like what it reads
                    self.net.execute(step)
                changed |= region.data != filling
            region.data[:] = before
            self._writes[step.number] = np.flatnonzero(changed).astype(np.int64) + region.base
        return self._writes[step.number]

    def step(self, number: int) -> NetworkStep:
        return next(step for step in self.net.steps if step.number == number)

    def touched(self, engines: Iterable[StrengConfig]) -> NDArray[np.int64]:
        """Bytes of the chip's RAM that they read or write, in order."""
        found = [np.empty(0, np.int64)]
        for engine in engines:
            starts = stream_of(engine)
            found.append((starts[:, None] + np.arange(engine.element_bytes)).reshape(-1))
        every: NDArray[np.int64] = np.unique(np.concatenate(found))
        return every[(every >= self.base) & (every < self._on_chip.end)]


# ------------------------------------------------------------------------------------------ programs in the board's RAM


class ShortenedPrograms:
    """Programs of the epoch controller that end behind an epoch, in RAM of the board that the network leaves free."""

    def __init__(self, client: Client, model: ModelInfo, net: EmulatedNetwork, used: Iterable[tuple[int, int]]) -> None:
        self._client, self._model, self._net = client, model, net
        self._written = -1  # the block whose program is there
        self._room = 0
        self.refused = self._look(used)

    def _look(self, used: Iterable[tuple[int, int]]) -> str:
        """Why programs cannot be shortened; empty if they can."""
        if not self._client.can(messages.CAN_PROGRAMS) or not self._client.can(messages.CAN_MEMORY):
            return "the firmware takes no other programs"
        if any(not pool.absolute for pool in self._net.network.pools):
            return "the network lies where its loader put it"
        longest = max((len(self._words(block)) for block in self._blocks()), default=0)
        self._room = _free(4 * longest + 2 * NPU_CACHE_LINE, used)
        return "" if self._room else f"the network leaves no {4 * longest:,} bytes of the NPU's RAM free"

    def _blocks(self) -> list[EpochBlock]:
        return [block for block in self._net.network.blocks if block.blob is not None]

    def _words(self, block: EpochBlock) -> list[int]:
        return Blob(self._net.network.block_program(block)).words()

    @contextmanager
    def ended(self, last: int) -> Iterator[None]:
        """Every program ends behind this epoch; those that begin later end at once."""
        try:
            for block in self._blocks():
                cut = self._cut(block, last)
                if cut is not None:
                    self._client.exchange(
                        self._model, block.index, self._shortened(block, cut) if cut else self._nothing()
                    )
            yield
        finally:
            self._client.exchange(self._model, 0, 0)

    def _cut(self, block: EpochBlock, last: int) -> int | None:
        """Words of its program up to this epoch; None: all of them."""
        at = 0
        for instruction in decode(self._net.network.block_program(block)):
            if isinstance(instruction, Label) and instruction.value > last:
                return at
            at += instruction.size
        return None

    def _nothing(self) -> int:
        self._client.write_memory(self._room, _stored(Blob((_END,)).words()))
        return self._room

    def _shortened(self, block: EpochBlock, cut: int) -> int:
        """The whole program once, then its length and the word at which it ends."""
        start, words = self._room + NPU_CACHE_LINE, self._words(block)
        if self._written != block.index:
            self._client.write_memory(start, _stored(words))
            self._written, self._ends = block.index, _HEAD
        self._client.write_memory(start + 4 * self._ends, _stored(words[self._ends : self._ends + 1]))
        self._ends = _HEAD + cut
        self._client.write_memory(start + 4 * self._ends, _stored([_END]))
        self._client.write_memory(start + 4, _stored([cut + 1]))
        return start


_END, _HEAD = encode([Irq(0)])[0], 2  # the word that ends a program; magic and length in front of it


def _stored(words: Sequence[int]) -> bytes:
    return np.array(words, "<u4").tobytes()


def _free(size: int, used: Iterable[tuple[int, int]]) -> int:
    """So many bytes of the NPU's RAM in which nothing of the network lies, 0 if there are none."""
    banks = [bank for bank in stm32n6().memories if bank.kind == NPU_RAM]
    taken = sorted((canonical(start), canonical(start) + end - start) for start, end in used)
    for bank in banks:
        at = bank.base
        for start, end in [*taken, (bank.base + bank.size_bytes, 0)]:
            if start - at >= size and at >= bank.base:
                return at
            at = max(at, -(-end // NPU_CACHE_LINE) * NPU_CACHE_LINE)
    return 0


# ----------------------------------------------------------------------------------------------------------- the search


class _Search:
    """One input whose outputs differ, on the board and on the emulator."""

    def __init__(self, client: Client, model: ModelInfo, emulated: _Emulated, inputs: Sequence[bytes]) -> None:
        self.client, self.model, self.emulated, self.inputs = client, model, emulated, inputs
        self.checks: list[BisectCheck] = []

    def note(self, what: str, found: str, good: bool | None) -> None:
        self.checks.append(BisectCheck(what, found, good))

    # --------------------------------------------------------------------------------------------------- what went in

    def transfer(self) -> Cause:
        """Inputs as they lie in the board's memory."""
        what = "inputs in the board's memory"
        if not (self.client.can(messages.CAN_PROGRAMS) and self.client.can(messages.CAN_MEMORY)):
            self.note(what, "not checked: the firmware cannot stop before a run", None)
            return Cause.NONE
        size = sum(map(len, self.inputs))
        try:
            seen = [self.client.received(self.model, self.inputs) for _ in range(REPEATS)]
        except TargetError as error:
            self.note(what, error.one_line, good=False)
            return Cause.MEMORY
        wrong = [_distance(b"".join(one), b"".join(self.inputs)) for one in seen]
        if not any(wrong):
            self.note(what, f"{size:,} bytes, {REPEATS} times: equal", good=True)
            return Cause.NONE
        same = len(set(seen)) == 1
        self.note(
            what, f"{max(wrong):,} of {size:,} bytes differ, {'the same' if same else 'others'} each time", good=False
        )
        return self._into_memory()

    def _into_memory(self) -> Cause:
        """Whether the memory keeps what comes another way: the inputs, or other bytes if the line spoils these."""
        what, found = "memory of the inputs", ""
        for mask, words in ((0, "the inputs"), (_OTHER, "different bytes")):
            try:
                for tensor, data in zip(self.model.inputs, self.inputs, strict=True):
                    self.client.write_memory(tensor.address, bytes(byte ^ mask for byte in data))
            except TargetError as error:
                found = error.one_line
                continue
            self.note(what, f"keeps {words}", good=True)
            return Cause.TRANSFER
        self.note(what, found, good=False)
        return Cause.MEMORY

    def constants(self, contents: Iterable[tuple[int, bytes]]) -> list[DifferentConstant]:
        """Weights and other constants, by the board's sums over them."""
        what = "constants in the board's memory"
        if not self.client.can(messages.CAN_MEMORY):
            self.note(what, "not checked: the firmware does not read memory", None)
            return []
        parts = [(address, data) for address, data in contents if data]
        wrong = [one for address, data in parts for one in self._wrong_constants(address, data)]
        size = sum(len(data) for _, data in parts)
        good = f"{size:,} bytes in {count(len(parts), 'range')}: equal"
        self.note(what, f"{count(len(wrong), 'range')} of {size:,} bytes differ" if wrong else good, good=not wrong)
        return wrong

    def _wrong_constants(self, address: int, data: bytes) -> Iterator[DifferentConstant]:
        for at in range(0, len(data), _CHUNK):
            part = data[at : at + _CHUNK]
            if self._sum(address + at, len(part)) != checksum(part):
                yield self._wrong_constant(address + at, part)

    def _wrong_constant(self, address: int, data: bytes) -> DifferentConstant:
        """The first bytes that differ: halves by their sums, the last ones by reading them."""
        while len(data) > _FINE:
            half = len(data) // 2
            if self._sum(address, half) != checksum(data[:half]):
                data = data[:half]
            else:
                address, data = address + half, data[half:]
        reads = [self._read(address, len(data)) for _ in range(2)]
        places = [k for k, (a, b) in enumerate(zip(reads[-1], data, strict=False)) if a != b] or [0]
        first, end = places[0], places[-1] + 1
        epochs = tuple(step.number for step in self.emulated.net.steps if _reads(step, address + first))
        stable = reads[0] == reads[1] and reads[0] != data
        return DifferentConstant(address + first, end - first, reads[-1][first:end], data[first:end], stable, epochs)

    def _sum(self, address: int, size: int) -> int:
        try:
            return self.client.checksum_of(address, size)
        except TargetError:
            return -1  # something else each time: no sum of any bytes

    def _read(self, address: int, size: int) -> bytes:
        try:
            return self.client.read_memory(address, size)
        except TargetError:
            return b""

    # --------------------------------------------------------------------------------------------------------- layers

    def blocks(self, expected: Sequence[bytes]) -> tuple[FirstDifference | None, bool]:
        """The first block whose tensors differ, and whether each run says the same."""
        if not self.client.can(messages.CAN_OBSERVE):
            self.note("tensors after each block", "not checked: the firmware shows no layers", None)
            return self._whole(expected), True
        mode = messages.IO_ONLY | messages.PER_LAYER | messages.WITH_DATA
        runs = [self.client.run(self.model, self.inputs, mode, first=False) for _ in range(REPEATS)]
        found = [self._first_block(run, expected) for run in runs]
        same = len({run.outputs for run in runs}) == 1 and len({(one.first, one.last) for one in found if one}) <= 1
        seen = [one for one in found if one is not None]
        size = sum(tensor.data.size for layer in runs[0].layers for tensor in layer.tensors)
        words = "equal in every run" if same else "different in every run"
        self.note(
            "tensors after each block", f"{len(runs[0].layers)} blocks, {size:,} bytes, {REPEATS} runs: {words}", same
        )
        return min(seen, key=lambda one: (one.last, one.first), default=None), same

    def _whole(self, expected: Sequence[bytes]) -> FirstDifference:
        outputs = self.client.run(self.model, self.inputs, messages.IO_ONLY, first=False).outputs
        return self._of_outputs(outputs, expected, 0)

    def _first_block(self, run: BoardRunResult, expected: Sequence[bytes]) -> FirstDifference | None:
        layers = {layer.epochs[1]: layer for layer in run.layers}
        good = 0
        for step in self.emulated.steps():
            layer = layers.get(step.number)
            if layer is None or not layer.tensors:
                continue
            different, compared, lines = self._compared(layer)
            if different:
                return self._range(good, step.number, different, compared, lines)
            good = step.number
        different = sum(_distance(a, b) for a, b in zip(run.outputs, expected, strict=True))
        return self._of_outputs(run.outputs, expected, good) if different else None

    def _of_outputs(self, outputs: Sequence[bytes], expected: Sequence[bytes], good: int) -> FirstDifference:
        pairs = list(zip(outputs, expected, strict=True))
        last = self.emulated.net.steps[-1].number
        lines = all(_whole_lines(a, b) for a, b in pairs)
        return self._range(good, last, sum(_distance(a, b) for a, b in pairs), sum(map(len, expected)), lines)

    def _range(self, good: int, last: int, different: int, compared: int, lines: bool) -> FirstDifference:
        steps = [step for step in self.emulated.net.steps if good < step.number <= last and not step.empty]
        kinds = {step.kind for step in steps}
        kind = kinds.pop() if len(kinds) == 1 else "hybrid"
        return FirstDifference(min((s.number for s in steps), default=last), last, kind, different, compared, lines)

    def _compared(self, layer: ReportedLayer) -> tuple[int, int, bool]:
        """Bytes that differ, all bytes, and whether what differs are whole lines of the cache."""
        homes = {info.name: info.address for info in self.emulated.net.network.internals}
        different = compared = 0
        lines = True
        for tensor in layer.tensors:
            address = homes.get(tensor.info.name, tensor.info.address)
            mine, theirs = self.emulated.memory.read(address, tensor.data.size).tobytes(), tensor.data.data
            different += _distance(mine, theirs)
            compared += len(mine)
            lines = lines and _whole_lines(theirs, mine)
        return different, compared, lines

    # --------------------------------------------------------------------------------------------------- single epochs

    def narrowed(self, found: FirstDifference, programs: ShortenedPrograms) -> FirstDifference:
        """The first epoch of the block, by programs that end earlier."""
        what = "shortened command streams"
        candidates = self._epochs(found.first, found.last)
        if found.exact or not candidates:
            return found
        if programs.refused:
            self.note(what, f"not tried: {programs.refused}", None)
            return found
        runs, low, high = 0, 0, len(candidates) - 1
        while True:
            while low < high:
                middle = (low + high) // 2
                different, _ = self._wrong_after(programs, candidates[middle], self._writers(candidates[middle]))
                low, high, runs = (low, middle, runs + 1) if different else (middle + 1, high, runs + 1)
            number = candidates[high]
            earlier = self._wrong_input(programs, number)
            runs += 1
            if earlier is None:
                break
            candidates = self._epochs(0, earlier)  # its inputs were wrong already: what made them is to be found
            low, high = max(0, len(candidates) - 1 - len(self._block_of(earlier))), len(candidates) - 1
        different, compared = self._wrong_after(programs, number, self._writers(number))
        self.note(
            what, f"{runs + 1} runs: epoch {number} is the first with correct inputs and wrong results", bool(different)
        )
        return replace(found, first=number, last=number, kind="npu", different=different, compared=compared)

    def _epochs(self, first: int, last: int) -> list[int]:
        """Those of programs of the controller that write something."""
        steps = (step for step in self.emulated.net.steps if first <= step.number <= last)
        return [step.number for step in steps if step.blob and step.epoch is not None and step.epoch.writers()]

    def _block_of(self, number: int) -> list[int]:
        blob = self.emulated.step(number).blob
        return [step.number for step in self.emulated.net.steps if step.blob == blob and step.number <= number]

    def _writers(self, number: int) -> NDArray[np.int64]:
        epoch = self.emulated.step(number).epoch
        return self.emulated.touched(epoch.writers().values() if epoch is not None else ())

    def _wrong_input(self, programs: ShortenedPrograms, number: int) -> int | None:
        """The epoch that wrote what this one reads, where that is wrong already; the last such."""
        epoch = self.emulated.step(number).epoch
        read = self.emulated.touched(epoch.readers().values() if epoch is not None else ())
        makers = [step.number for step in self.emulated.net.steps if step.number < number and step.blob]
        written = {one: np.intersect1d(self._writers(one), read) for one in makers}
        places = [some for some in written.values() if some.size]
        if not places:
            return None
        before = makers[-1]
        wrong = self._differing(programs, before, np.unique(np.concatenate(places)))
        return max((one for one, some in written.items() if np.isin(wrong, some).any()), default=None)

    def _wrong_after(self, programs: ShortenedPrograms, last: int, places: NDArray[np.int64]) -> tuple[int, int]:
        """How many of these bytes are wrong when programs end behind an epoch, and how many there are."""
        places = self.emulated.kept(places, last)
        return int(self._differing(programs, last, places).size), int(places.size)

    def _differing(self, programs: ShortenedPrograms, last: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        places = self.emulated.kept(places, last)
        with programs.ended(last):
            self.client.run(self.model, self.inputs, messages.IO_ONLY, first=False)
            found = np.concatenate([np.empty(0, np.uint8), *(self._places(part) for part in _together(places))])
        expected = self.emulated.behind(last)[places - self.emulated.base]
        return places[found != expected]

    def _places(self, places: NDArray[np.int64]) -> Bytes:
        start, end = int(places[0]), int(places[-1]) + 1
        return np.frombuffer(self.client.read_memory(start, end - start), np.uint8)[places - start]


def _together(places: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Parts that lie near each other."""
    return np.split(places, np.flatnonzero(np.diff(places) > _NEAR) + 1) if places.size else []


def _reads(step: NetworkStep, address: int) -> bool:
    spans = (engine.span() for engine in step.epoch.readers().values()) if step.epoch is not None else ()
    return any(low <= address < high for low, high in spans)


def _distance(one: bytes, other: bytes) -> int:
    a, b = np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8)
    return int((a != b).sum()) if a.size == b.size else max(a.size, b.size)


def _whole_lines(board: bytes, mine: bytes) -> bool:
    """Whether bytes differ in some whole lines of the cache and in no other."""
    size = len(mine) - len(mine) % CPU_CACHE_LINE
    if len(board) != len(mine) or not size or board[size:] != mine[size:]:
        return False
    wrong = (np.frombuffer(board, np.uint8, size) != np.frombuffer(mine, np.uint8, size)).reshape(-1, CPU_CACHE_LINE)
    lines = wrong.any(axis=1)
    return bool(lines.any()) and not lines.all() and bool(wrong[lines].mean() > 0.5)


# ------------------------------------------------------------------------------------------------------ the whole of it


def bisect_target(
    client: Client, expected: ExpectedRun, samples: Sequence[Sample], note: Note = lambda _: None
) -> Bisection:
    """The first sample whose outputs differ, and where its bytes differ first."""
    if not samples:
        raise InputError("no samples to run", remedy="give inputs with at least one sample")
    sync, system = client.connect(), client.system_info()
    model, identity = find_network(expected.side, client.models())
    told = Bisection(client.link.description, sync.version_text, system, model, identity, len(samples))
    client.resets = expected.side.keeps  # each sample is then a first frame: so is what is run again and again
    for number, sample in enumerate(samples):
        expected.reset()
        inputs, outputs = expected.expect(sample)
        runs = [client.run(model, inputs, messages.IO_ONLY)]
        if runs[0].outputs == outputs:
            continue
        note(f"sample {number} differs: looking for the first layer")
        runs += [client.run(model, inputs, messages.IO_ONLY, first=False) for _ in range(REPEATS - 1)]
        stable = len({run.outputs for run in runs}) == 1
        net, contents = expected.emulated()
        search = _Search(client, model, _Emulated(net, inputs), inputs)
        found = replace(told, sample=number, runs=len(runs), stable=stable, net=net)
        return _explained(found, search, contents, outputs)
    return replace(told, faults=client.faults)


def _explained(
    told: Bisection, search: _Search, contents: Sequence[tuple[int, bytes]], outputs: Sequence[bytes]
) -> Bisection:
    words = "the same bytes each time" if told.stable else "different bytes each time"
    search.note("outputs", f"{told.runs} runs of sample {told.sample}: {words}", told.stable)
    cause = search.transfer()
    net = search.emulated.net
    copies = [(copy.address, initial_copy(copy, net.memory).tobytes()) for copy in net.network.residents]
    constants = search.constants(search.emulated.constants([*contents, *copies]))
    difference, same = search.blocks(outputs)
    stable = told.stable and same
    if stable and difference is not None and cause == Cause.NONE:
        used = [*_occupied(net), *((start, start + len(data)) for start, data in contents)]
        difference = search.narrowed(difference, ShortenedPrograms(search.client, told.model, net, used))
    if cause == Cause.NONE:
        cause = Cause.MEMORY if constants or not stable else _of_step(difference)
    found = replace(told, stable=stable, cause=cause, difference=difference, constants=tuple(constants))
    return replace(found, checks=tuple(search.checks), faults=search.client.faults)


def _occupied(net: EmulatedNetwork) -> Iterator[tuple[int, int]]:
    """Where the network reads and writes."""
    for step in net.steps:
        for engine in step.epoch.engines().values() if step.epoch is not None else ():
            low, high = engine.span()
            yield low, high + PREFETCH_BYTES
    network = net.network
    for info in (*network.inputs, *network.outputs, *network.internals, *network.params):
        yield info.address, info.address + max(info.size_bytes, info.limit_bytes)


def _of_step(difference: FirstDifference | None) -> Cause:
    kinds: Mapping[str, Cause] = {"npu": Cause.NPU, "cpu": Cause.CPU}
    return kinds.get(difference.kind, Cause.UNKNOWN) if difference is not None else Cause.UNKNOWN
