"""The network inside a linked application, on the virtual board: nothing of the image is replaced but the first
instruction of `main`, where the host takes over. Start-up code has run then; the host calls the image's own functions,
as the application would: runtime, network, epochs, and interrupts between them.

An application itself would look for cameras and displays, which the board does not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from atonc.machine.base.errors import InputError
from atonc.machine.emu.board.board import VirtualBoard, read_firmware
from atonc.machine.emu.files.types import ApplicationBuffer, CompiledNetwork

_BREAK, _SLEEP = b"\x00\xbe", b"\x20\xbf\x00\xbe"  # bkpt; wfe and bkpt
_CODE = 0x2001_F000  # data TCM: none of the applications uses its end
_USER = 0x91C0_0000  # external RAM for buffers that the application brings
_LINE = 64
_WAIT, _DONE = 1, 2  # what LL_ATON_RT_RunEpochBlock answers
_SYNC = 1  # STAI_MODE_SYNC
_BEFORE = ("npu_cache_init", "npu_cache_enable")  # what `main` calls first: code behind asserts that it did
_NESTING = "ulCriticalNesting"  # FreeRTOS masks interrupts until its scheduler starts, which sets this to 0
_MOST_BLOCKS = 100_000


class ElfNetwork:
    """A board that has come to `main` of an image."""

    def __init__(self, elf: Path, flash: Sequence[tuple[int, bytes]]) -> None:
        self.board = VirtualBoard(read_firmware(elf))
        self.symbols = self.board.firmware.symbols
        for address, data in flash:
            self._poke(address, data)
        self._poke(self.symbols["main"] & ~1, _BREAK)
        self.board.run()
        self._stack = self.board.core.register("SP")
        self._poke(_CODE, _SLEEP)
        self._free = _USER
        self._users: dict[tuple[str, str, int], int] = {}
        self._ready: set[str] = set()  # networks that an application initialises once
        if _NESTING in self.symbols:
            self._poke(self.symbols[_NESTING], bytes(4))
        for name in _BEFORE:
            if name in self.symbols:
                self.call(name)

    def run(self, network: CompiledNetwork, inputs: Sequence[bytes]) -> list[bytes]:
        """The outputs of one inference; networks of an image may take turns."""
        run = self._start(network)
        users = {(user.direction, user.index): self._set(network.name, user) for user in network.user_buffers}
        for index, (info, data) in enumerate(zip(network.inputs, inputs, strict=True)):
            self._poke(users.get(("input", index), info.address), data)
        run()
        places = [users.get(("output", k), info.address) for k, info in enumerate(network.outputs)]
        infos = zip(places, network.outputs, strict=True)
        return [self.board.memory.read(place, info.size_bytes).tobytes() for place, info in infos]

    def call(self, name: str, *arguments: int) -> int:
        """What a function of the image returns."""
        core = self.board.core
        core.set_register("SP", self._stack)
        for number, value in enumerate(arguments):
            core.set_register(f"R{number}", value)
        core.set_register("LR", _CODE + 2 | 1)  # to the breakpoint
        core.pc = self.symbols[name] & ~1
        self.board.run()
        return core.register("R0")

    def poison(self, start: int, end: int, random: np.random.Generator) -> None:
        """Fills RAM with noise."""
        self.board.poke(start, random.integers(0, 256, end - start, np.uint8))

    def _poke(self, address: int, data: bytes) -> None:
        self.board.poke(address, np.frombuffer(data, np.uint8))

    def _start(self, network: CompiledNetwork) -> Callable[[], None]:
        """Initialises runtime and network by the interface that the application calls; what runs one inference."""
        stem = network.stem
        if f"stai_{stem}_run" in self.symbols:
            context = self._symbol(rf"(network_)?{stem}_(ctx|context)")
            if not self._ready:
                self.call("stai_runtime_init")
            prepare = f"stai_ext_{stem}_new_inference" if stem in self._ready else f"stai_{stem}_init"
            self._expect_zero(self.call(prepare, context), prepare)
            self._ready.add(stem)
            return lambda: self._expect_zero(self.call(f"stai_{stem}_run", context, _SYNC), "stai run")
        instance = self._symbol(rf"NN_Instance_{network.name}(\.\d+)?")
        self.call("LL_ATON_RT_RuntimeInit")
        self.call("LL_ATON_RT_Init_Network", instance)
        return lambda: self._blocks(instance)

    def _symbol(self, pattern: str) -> int:
        """The address of a variable of the application, which it may name with some freedom."""
        found = [place for name, place in self.symbols.items() if re.fullmatch(pattern, name)]
        if len(found) != 1:
            raise InputError(f"{len(found)} symbols are called {pattern}", where=str(self.board.firmware.path))
        return found[0]

    def _blocks(self, instance: int) -> None:
        for _ in range(_MOST_BLOCKS):
            answer = self.call("LL_ATON_RT_RunEpochBlock", instance)
            if answer == _DONE:
                for name, *words in (("LL_ATON_RT_DeInit_Network", instance), ("LL_ATON_RT_RuntimeDeInit",)):
                    if name in self.symbols:  # as LL_ATON_RT_Main does; images that never end lack them
                        self.call(name, *words)
                return
            if answer == _WAIT:
                self.board.core.pc = _CODE
                self.board.run()
        raise InputError("the network does not end", where=str(self.board.firmware.path))

    def _set(self, name: str, user: ApplicationBuffer) -> int:
        """Memory for a buffer that the application brings."""
        key = name, user.direction, user.index
        if key not in self._users:
            self._users[key], self._free = self._free, self._free + -(-user.size_bytes // _LINE) * _LINE
        place = self._users[key]
        setter = f"LL_ATON_Set_User_{user.direction.capitalize()}_Buffer_{name}"
        self._expect_zero(self.call(setter, user.index, place, user.size_bytes), setter)
        return place

    def _expect_zero(self, answer: int, what: str) -> None:
        if answer:
            raise InputError(f"{what} answers {answer:#x}", where=str(self.board.firmware.path))
