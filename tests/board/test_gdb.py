"""gdb on the virtual board: a network is stopped, stepped, read and given another input; looking costs no cycle."""

from __future__ import annotations

import random
import re
import socket
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from atonc.delivery.firmware import building
from atonc.delivery.firmware import image as firmware
from atonc.delivery.generate import generating
from atonc.delivery.trials import boarding
from atonc.delivery.trials.gdb_target import GdbTarget
from atonc.doors.cli import cli
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.gdb_packets import frame
from atonc.machine.emu.board import VirtualBoard, read_firmware
from atonc.machine.emu.board.chip import mapped
from atonc.machine.emu.board.debugging import SIGINT, SIGSEGV, SIGTRAP, BoardDebugger, DebugStop
from atonc.machine.emu.board.gdb_server import listening_at
from tests.board.gdb_rig import gdb, needs_gdb, served
from tests.board.programs import PRELUDE, build, needs_compiler
from tests.emit.generated import digits
from tests.emit.test_network_c import outputs_of
from tests.patience import PATIENCE

pytestmark = needs_compiler
RUN = 1  # as board_io.h numbers the commands of the host


class NetworkImage(NamedTuple):
    elf: Path
    folder: Path
    network: firmware.ImageNetwork

    def board(self) -> VirtualBoard:
        board = VirtualBoard(read_firmware(self.elf), data_cache=True)
        for address, data in self.network.contents:
            board.poke(address, np.frombuffer(data, np.uint8))
        return board


@pytest.fixture(scope="module")
def digits_image(tmp_path_factory: pytest.TempPathFactory) -> NetworkImage:
    folder = tmp_path_factory.mktemp("digits")
    generating.generate(digits(), folder / "network", with_hex=True)
    network = firmware.network_in(folder / "network")
    return NetworkImage(firmware.build_firmware([network], firmware.our_runtime(), folder), folder / "network", network)


@needs_gdb
def test_a_network_is_stopped_stepped_read_and_given_another_input(digits_image: NetworkImage, tmp_path: Path) -> None:
    image, rig = digits_image, boarding.Rig(digits_image.elf, [digits_image.network])
    source, result = rig.inputs[0][0], rig.outputs[0][0]
    first, other = (np.roll(np.arange(64, dtype=np.int8), turn).reshape(1, 8, 8, 1) for turn in (0, 29))
    for name, data in (("first", first), ("other", other)):
        (tmp_path / name).write_bytes(data.tobytes())
    with served(image.board) as server:
        said = gdb(
            server, image.elf,
            "continue",  # to the breakpoint instruction where the firmware waits for its host
            f"restore {tmp_path}/first binary {source.address:#x}",
            f"set var board_host.command = {RUN}", "set var board_host.network = 0",
            "break board_run", "continue", "backtrace", "print network->network->network_name", "stepi", "step",
            f"output/d *(char(*)[8]){source.address:#x}",
            f"restore {tmp_path}/other binary {source.address:#x}",
            "continue",
            f"dump binary memory {tmp_path}/result {result.address:#x} {result.address + result.size_bytes:#x}",
            "monitor cycles",
        )  # fmt: skip
    assert "Breakpoint 1, board_run (network=" in said and "board_obey" in said and "in main ()" in said
    assert '"Default"' in said and "{0, 1, 2, 3, 4, 5, 6, 7}" in said, said
    (expected,) = outputs_of(image.folder, [other])
    assert (tmp_path / "result").read_bytes() == expected.tobytes()
    (of_first,) = outputs_of(image.folder, [first])
    assert expected.tobytes() != of_first.tobytes()  # or nothing was shown
    assert " cycles, " in said and " epochs" in said


@needs_gdb
def test_an_activation_is_what_the_emulator_has(digits_image: NetworkImage, tmp_path: Path) -> None:
    from atonc.compiler.verify.emulation import Emulation

    compiled = digits().compiled
    emulation = Emulation(compiled.program, compiled.graph)
    given = np.arange(64, dtype=np.int8).reshape(1, 8, 8, 1)
    name = compiled.graph.inputs[0]
    emulation.run({name: given})
    result = compiled.program.placed[compiled.graph.outputs[0]]  # its lines are written back over what is dead by then
    inside = [
        home for tensor, home in compiled.program.placed.items()
        if tensor not in compiled.graph.inputs and home.address >> 28 == 3
        and (home.end <= result.address & ~31 or home.address >= result.end + 31)
    ]  # fmt: skip
    home = max(inside, key=lambda home: home.end - home.address)
    (tmp_path / "input").write_bytes(given.tobytes())
    source = compiled.program.placed[name].address
    with served(digits_image.board) as server:
        gdb(
            server, digits_image.elf, "continue", f"restore {tmp_path}/input binary {source:#x}",
            f"set var board_host.command = {RUN}", "set var board_host.network = 0", "continue", "monitor see npu",
            f"dump binary memory {tmp_path}/found {home.address:#x} {home.end:#x}",
        )  # fmt: skip
    expected = emulation.memory.read(home.address, home.end - home.address).tobytes()
    assert (tmp_path / "found").read_bytes() == expected and any(expected)


@needs_gdb
def test_load_and_run_another_firmware(digits_image: NetworkImage, tmp_path: Path) -> None:
    other = build(tmp_path, 'int main(void) { board_print("loaded\\n"); return 0; }')
    with served(digits_image.board) as server:
        said = gdb(server, other, "load", "break main", "continue", "info breakpoints", "continue", "x/1i $pc")
        assert server.board.serial.text == "loaded\n"
    assert "Loading section .text" in said and "breakpoint already hit 1 time" in said and "bkpt\t0x0002" in said, said


# ------------------------------------------------------------------------------------------------ looking costs nothing

# ticks come often, some while interrupts are masked; loops, long shifts and vectors of a Cortex-M55 have replacements
TIMED = """
volatile uint32_t shared, ticks_seen;
uint32_t board_milliseconds(void);
static uint8_t from[64], to[64];
__attribute__((noinline)) void copy(void) { for (int k = 0; k < 64; k++) to[k] = (uint8_t)(from[k] + 3u); }
__attribute__((noinline)) void masked(void) {
    __asm volatile("cpsid i" ::: "memory");
    for (uint32_t k = 0; k < 50; k++) shared += k;
    __asm volatile("cpsie i" ::: "memory");
}
__attribute__((noinline)) uint64_t shifted(uint64_t value, int by) { return value << (by & 31) | value >> 7; }
int main(void) {
    WORD(0x5200100Cu) = 100; WORD(0x52001000u) = 0xD; /* a UART that would receive: who polls it waits */
    WORD(0xE000E010u) = 0; WORD(0xE000E014u) = 96; WORD(0xE000E018u) = 0; WORD(0xE000E010u) = 7;
    uint64_t sum = 1;
    for (int k = 0; k < 30; k++) {
        masked();
        copy();
        sum = shifted(sum + to[k], k);
        __asm volatile("wfi");
    }
    ticks_seen = board_milliseconds();
    WORD(0xE000E010u) = 0;
    board_print_hex((uint32_t)sum); board_print(" "); board_print_number(ticks_seen); board_print("\\n");
    return 0;
}
"""


def build_for_m55(folder: Path, text: str) -> Path:
    harness = building.runtime_folder("harness")
    (folder / "program.c").write_text(PRELUDE + text)
    units = [
        building.CompileUnit((folder / "program.c",), (harness,)),
        building.CompileUnit((harness / "startup.c", harness / "board_io.c"), (harness,), strict=True),
    ]
    toolchain = building.find_toolchain()
    objects = building.compile_units(toolchain, units, folder, "cortex-m55", "-O3")
    return building.link(toolchain, objects, folder / "program.elf", cpu="cortex-m55")


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_for_m55(tmp_path_factory.mktemp("timed"), TIMED)


def ended(board: VirtualBoard) -> tuple[int, int, str, list[int]]:
    registers = [board.core.register(f"R{number}") for number in range(13)]
    return board.clock.now, board.core.instructions, board.serial.text, registers


def undisturbed(elf: Path) -> tuple[int, int, str, list[int]]:
    board = VirtualBoard(read_firmware(elf), data_cache=True)
    board.run()
    return ended(board)


def look_around(debugger: BoardDebugger) -> None:
    for name in ("pc", "sp", "xpsr", "d3", "vpr", "control"):
        debugger.register(name)
    for address in (0x3400_0000, 0x7700_0000, 0x580E_0000, 0x5200_101C, 0xE000_E010):
        debugger.read(address, 16)


def test_single_steps_change_no_cycle(timed: Path) -> None:
    expected = undisturbed(timed)
    debugger = BoardDebugger(lambda: VirtualBoard(read_firmware(timed), data_cache=True), lambda text: None)
    steps = 0
    while (stopped := debugger.step()).signal == SIGTRAP and debugger.read(debugger.register("pc"), 2) != b"\x02\xbe":
        steps += 1
        assert debugger.board.core.blocks.stub_at(debugger.register("pc")) is None
        if steps % 50 == 0:
            look_around(debugger)
    assert stopped.signal == SIGTRAP and debugger.step().signal == SIGTRAP  # the breakpoint instruction itself
    assert ended(debugger.board) == expected
    assert expected[2].split()[1] != "0" and steps > 10_000
    assert sum(debugger.board.core.blocks.replaced.values()) > 3


@pytest.mark.parametrize("seed", range(4))
def test_breakpoints_and_stops_anywhere_change_no_cycle(
    timed: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, random_ = undisturbed(timed), random.Random(seed)
    debugger = BoardDebugger(lambda: VirtualBoard(read_firmware(timed), data_cache=True), lambda text: None)
    symbols = read_firmware(timed).symbols
    places = [symbols[name] & ~1 for name in ("copy", "masked", "shifted", "SysTick_Handler")]
    hits = dict.fromkeys(places, 0)
    for _ in range(100_000):
        monkeypatch.setattr("atonc.machine.emu.board.debugging.STRETCH", random_.choice((1, 5, 33, 700, 5000)))
        place = random_.choice(places)
        random_.choice((debugger.insert, debugger.remove))(random_.choice((0, 1)), place, 2)
        stopped = debugger.go()
        here = debugger.register("pc")
        if stopped is None:
            debugger.halt()
            look_around(debugger)
        elif here in hits:
            hits[here] += 1
            for kind in (0, 1):
                debugger.remove(kind, here, 2)
        else:
            break
    assert stopped is not None and debugger.read(here, 2) == b"\x02\xbe"
    assert ended(debugger.board) == expected
    assert sum(hits.values()) > 3


def test_every_call_stops_at_its_breakpoint(timed: Path) -> None:
    debugger = BoardDebugger(lambda: VirtualBoard(read_firmware(timed)), lambda text: None)
    place = read_firmware(timed).symbols["copy"] & ~1
    count = 0
    debugger.insert(1, place, 2)
    while True:
        stopped = debugger.go()
        if stopped is not None and debugger.register("pc") != place:
            break
        if stopped is not None:
            count += 1
            assert debugger.go() is not None and debugger.register("pc") == place  # before the instruction, not behind
            debugger.remove(1, place, 2)
            debugger.step()
            debugger.insert(1, place, 2)
    assert count == 30


def test_a_breakpoint_at_a_replaced_instruction_shows_its_own_address(timed: Path) -> None:
    board = VirtualBoard(read_firmware(timed))
    board.run()
    sites = sorted({stub.site for stub in board.core.blocks._by_site.values() if stub.site & 0xFF_FFFF})
    debugger = BoardDebugger(lambda: VirtualBoard(read_firmware(timed)), lambda text: None)
    seen = set()
    for site in sites:
        debugger.insert(0, site, 2)
    while (stopped := debugger.go()) is None or debugger.register("pc") in sites:
        if stopped is not None:
            site = debugger.register("pc")
            seen.add(site)
            debugger.remove(0, site, 2)
            assert debugger.step().signal == SIGTRAP
            assert debugger.register("pc") & 0xFF_FFFF < 0xFF_0000, "inside a replacement"
    assert seen == set(sites) and seen


# ----------------------------------------------------------------------------------------------------------- what stops

STOPS = """
volatile uint32_t watched[4], pair[2];
__attribute__((noinline)) void store(void) { watched[1] = 7; }
__attribute__((noinline)) uint32_t load(void) { return watched[2]; }
static void host(uint32_t call, const void *argument) {
    register uint32_t r0 __asm("r0") = call; register const void *r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}
int main(void) {
    WORD(0xE000E010u) = 0;
    host(4, "hello debugger\\n");
    const char c = '!'; host(3, &c);
    const uint32_t write[3] = {1, (uint32_t)(uintptr_t)"abc", 3}; host(5, write);
    host(1, "no files");
    host(4, (const void *)0x00FFFFF0u);
    __asm volatile("bkpt 7");
    store(); load();
    __asm volatile("wfi");
    WORD(0x0FF00000u) = 1;
    host(0x18, (const void *)0x20026u);
    return 0;
}
"""


@pytest.fixture(scope="module")
def stops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("stops"), STOPS)


def test_breakpoint_instructions_semihosting_watches_sleep_and_faults(stops: Path) -> None:
    said: list[str] = []
    debugger = BoardDebugger(lambda: VirtualBoard(read_firmware(stops)), said.append)
    symbols = read_firmware(stops).symbols
    stopped = debugger.go()
    assert stopped is not None and stopped.signal == SIGTRAP
    assert "".join(said) == "hello debugger\n!abc"
    assert debugger.read(debugger.register("pc"), 2) == b"\x07\xbe"  # it stands at the instruction, not behind it
    write, read = symbols["watched"] + 4, symbols["watched"] + 8
    debugger.insert(2, write, 4)
    stopped = debugger.go()
    assert stopped is not None and stopped.watch == ("watch", write)
    assert debugger.read(write, 4) == b"\x07\x00\x00\x00"  # behind the store
    debugger.remove(2, write, 4)
    debugger.insert(3, read, 4)
    stopped = debugger.go()
    assert stopped is not None and stopped.watch == ("rwatch", read)
    stopped = debugger.go()
    assert stopped is not None and stopped.signal == SIGINT and "nothing is left that could wake it" in stopped.text
    asleep = debugger.register("pc")
    assert debugger.read(asleep, 2) == b"\x30\xbf" and debugger.step().signal == SIGINT  # still asleep
    debugger.set_register("pc", asleep + 2)
    stopped = debugger.go()
    assert stopped is not None and stopped.signal == SIGSEGV and "0x0ff00000, where nothing is" in stopped.text
    at = debugger.register("pc")
    debugger.set_register("pc", at + (4 if debugger.read(at, 2)[1] >> 3 in (29, 30, 31) else 2))
    stopped = debugger.go()
    assert stopped is not None and stopped.exit_code == 0


@needs_gdb
def test_gdb_shows_what_a_firmware_says_and_that_it_ended(stops: Path) -> None:
    with served(lambda: VirtualBoard(read_firmware(stops))) as server:
        said = gdb(server, stops, "continue", "watch watched[1]", "continue", "info watchpoints", "p/x watched[1]",
                   "delete", "set var $pc = main", "until", "monitor help", "monitor nonsense")  # fmt: skip
    assert "hello debugger\n!abc" in said and "SIGTRAP" in said
    assert "Hardware watchpoint" in said and "= 0x7" in said
    assert "monitor cycles" in said and "unknown command 'nonsense'" in said


STANDS_AT = """
volatile uint32_t watched;
int main(void) {
    __asm volatile("str %0, [%1]\\n bkpt 0\\n nop\\n bkpt 5" : : "r"(7), "r"(&watched) : "memory");
    return 0;
}
"""


def test_a_breakpoint_instruction_that_the_core_already_stands_at(tmp_path: Path) -> None:
    elf = build(tmp_path, STANDS_AT)
    main, ends = read_firmware(elf).symbols["main"] & ~1, []
    for steps in (0, 1):  # one that meets the instruction changes neither the stop nor the time
        debugger = BoardDebugger(lambda: VirtualBoard(read_firmware(elf)), lambda text: None)
        first = main + debugger.read(main, 32).index(b"\x00\xbe")
        debugger.insert(1, first, 2)
        debugger.go()
        debugger.remove(1, first, 2)
        for _ in range(steps):
            assert debugger.step() == DebugStop(SIGTRAP) and debugger.register("pc") == first
        assert debugger.go() == DebugStop(SIGTRAP) and debugger.register("pc") == first
        assert debugger.go() == DebugStop(SIGTRAP) and debugger.register("pc") == first + 4
        ends.append(ended(debugger.board))
    assert ends[0] == ends[1]
    debugger.set_register("pc", first)
    debugger.step()
    debugger.step()
    assert debugger.register("pc") == first + 4  # steps go on behind it as well


@needs_gdb
def test_gdb_stops_at_a_breakpoint_instruction_behind_a_watched_store(tmp_path: Path) -> None:
    elf = build(tmp_path, STANDS_AT)
    with served(lambda: VirtualBoard(read_firmware(elf))) as server:
        said = gdb(server, elf, "break main", "continue", "delete", "watch watched", "continue", "x/i $pc",
                   "continue", "x/i $pc", "continue", "x/i $pc")  # fmt: skip
    seen = re.findall(r"New value = 7|SIGTRAP|bkpt\t0x000\d", said)
    assert seen == ["New value = 7", "bkpt\t0x0000", "SIGTRAP", "bkpt\t0x0000", "SIGTRAP", "bkpt\t0x0005"], said


def test_the_guide_has_the_number_of_breakpoints(stops: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "virtual_board.md").read_text()
    most = int(re.findall(r"\| breakpoints \| up to (\d+), watchpoints included", guide)[0])
    debugger = BoardDebugger(lambda: VirtualBoard(read_firmware(stops)), lambda text: None)
    for k in range(most):
        debugger.insert(k % 2, 0x7700_0000 + 2 * k, 2)
    with pytest.raises(InputError, match=f"more than {most} breakpoints"):
        debugger.insert(2, 0x3400_0000, 4)


def test_only_an_address_of_code_is_called_a_caller(stops: Path) -> None:
    debugger = BoardDebugger(lambda: VirtualBoard(read_firmware(stops)), lambda text: None)
    assert debugger.board.picture()[0].endswith("in Reset_Handler, lr 0xffffffff")
    debugger.insert(1, read_firmware(stops).symbols["store"] & ~1, 2)
    debugger.go()
    debugger.go()
    assert "in store, called from main (lr 0x" in debugger.board.picture()[0]


def test_exit_ends_the_program_for_the_client(stops: Path) -> None:
    said: list[str] = []
    with served(lambda: VirtualBoard(read_firmware(stops))) as server:
        target = GdbTarget(f":{server.port}", say=said.append, wait_s=PATIENCE)
        target.go()
        stopped = target.wait(PATIENCE)
        assert stopped is not None and stopped.kind == "breakpoint" and stopped.pc == target.register("pc")
        assert "".join(said) == "hello debugger\n!abc"
        symbols = read_firmware(stops).symbols
        target.set_register("r0", 0x18)
        target.set_register("r1", 0x20026)
        target.write(0x3410_0000, b"\xab\xbe")
        target.set_register("pc", 0x3410_0000)
        target.go()
        stopped = target.wait(PATIENCE)
        assert stopped is not None and (stopped.kind, stopped.pc) == ("exit", None)
        target.reset()
        assert target.register("pc") == symbols["Reset_Handler"] & ~1
        target.close()


# ----------------------------------------------------------------------------------------------------- memory and reset


def test_memory_is_what_the_cpu_sees_or_what_the_npu_sees(tmp_path: Path) -> None:
    elf = build(tmp_path, 'int main(void) { WORD(0x34200000u) = 0x12345678u; __asm volatile("bkpt 3"); return 0; }')
    debugger = BoardDebugger(lambda: VirtualBoard(read_firmware(elf), data_cache=True), lambda text: None)
    assert debugger.go() is not None
    assert debugger.read(0x3420_0000, 4) == debugger.read(0x2420_0000, 4) == b"\x78\x56\x34\x12"
    debugger.other_masters = True
    assert debugger.read(0x3420_0000, 4) == bytes(4)  # nobody has cleaned the line
    debugger.write(0x2420_0000, b"abcd")
    assert debugger.read(0x3420_0000, 4) == b"abcd"
    debugger.other_masters = False
    assert debugger.read(0x3420_0000, 4) == b"abcd"
    debugger.write(0x0000_0010, b"in ITCM")
    assert debugger.read(0x1000_0010, 7) == b"in ITCM"
    debugger.write(0x5602_8800, b"\x05\x00\x00\x00")  # a device: what the CPU would read there
    assert debugger.read(0x4602_8800, 4) == debugger.board.core.uc.mem_read(0x5602_8800, 4)
    for address, size in ((0x0FF0_0000, 4), (0xFFFF_FFFF, 8), (0xDFFF_2000, 1), (0x77FF_0000, 4 << 24)):
        with pytest.raises(InputError, match="where nothing is"):
            debugger.read(address, size)


def test_memories_that_are_off_take_nothing(timed: Path) -> None:
    debugger = BoardDebugger(lambda: VirtualBoard(read_firmware(timed), chip=mapped("XSPI2")), lambda text: None)
    debugger.write(0x3410_0000, b"AXISRAM2")
    debugger.write(0x3420_0000, b"AXISRAM3")
    assert debugger.read(0x3410_0000, 8) == b"AXISRAM2"
    assert debugger.read(0x3420_0000, 8) == bytes(8)
    with pytest.raises(InputError, match="where nothing is"):
        debugger.write(0x9000_0000, b"RAM that nobody has mapped")


def test_reset_keeps_memories_and_breakpoints(timed: Path) -> None:
    debugger = BoardDebugger(lambda: VirtualBoard(read_firmware(timed), data_cache=True), lambda text: None)
    start, place = debugger.register("pc"), read_firmware(timed).symbols["copy"] & ~1
    debugger.insert(1, place, 2)
    assert debugger.go() is not None and debugger.register("pc") == place
    debugger.write(0x3430_0000, b"kept")
    debugger.reset()
    assert debugger.register("pc") == start and debugger.board.clock.now == 0
    assert debugger.read(0x3430_0000, 4) == b"kept"
    assert debugger.go() is not None and debugger.register("pc") == place
    debugger.remove(1, place, 2)
    stopped = debugger.go()
    while stopped is None:
        stopped = debugger.go()
    assert ended(debugger.board) == undisturbed(timed)


# ----------------------------------------------------------------------------------------------------------- the server


class Line:
    """Packets as they are."""

    def __init__(self, port: int) -> None:
        self.line = socket.create_connection(("127.0.0.1", port))
        self.line.settimeout(PATIENCE)

    def send(self, data: bytes) -> None:
        self.line.sendall(data)

    def until(self, end: bytes) -> bytes:
        came = b""
        while end not in came:
            part = self.line.recv(1 << 16)
            if not part:
                raise ConnectionError(came)
            came += part
        return came

    def ask(self, payload: bytes) -> bytes:
        """The answer as it comes, with its checksum."""
        self.send(frame(payload))
        came = self.until(b"#")
        while not re.search(rb"#..$", came, re.DOTALL):
            came += self.line.recv(2)
        return came

    def close(self) -> None:
        self.line.close()


ANSWERS = {
    b"?": b"T05thread:1;", b"p99": b"E16", b"pxyz": b"E16", b"P0=00": b"E16", b"m0ff00000,4": b"E0e", b"m": b"E16",
    b"mffffffff,ffffffff": b"E0e", b"m1,2,3": b"E16", b"M34000000,4:00": b"E16", b"M34000000,1:0g": b"E16",
    b"X34000000,3:}": b"E16", b"X34000000,0:": b"OK", b"Z9,0,2": b"E16", b"Z1,100000000,2": b"E16",
    b"Z1,0ff00000,2": b"OK", b"z1,0ff00000,2": b"OK", b"vMustReplyEmpty": b"", b"vCont;x": b"E16", b"vRun;": b"",
    b"qRcmd,0": b"E16", b"qXfer:features:read:nothing.xml:0,10": b"", b"QNonStop:1": b"", b"G00": b"E16", b"": b"",
    b"qXfer:memory-map:read::fffffff,10": b"l", b"\xff\xfe": b"", b"j": b"", b"qC": b"QC1", b"qfThreadInfo": b"m1",
    b"qsThreadInfo": b"l", b"qAttached": b"1", b"Hg0": b"OK", b"c0ff0000f1": b"E16", b"vCont?": b"vCont;c;C;s;S",
    b"qSymbol::": b"OK", b"T1": b"OK", b"T2": b"E16", b"!": b"OK",
}  # fmt: skip


def test_packets_and_their_answers(stops: Path) -> None:
    with served(lambda: VirtualBoard(read_firmware(stops))) as server:
        line = Line(server.port)
        found = {packet: line.ask(packet) for packet in ANSWERS}
        line.close()
    assert found == {packet: b"+" + frame(answer) for packet, answer in ANSWERS.items()}


def test_checksums_acknowledgements_and_noise(stops: Path) -> None:
    with served(lambda: VirtualBoard(read_firmware(stops))) as server:
        line = Line(server.port)
        line.send(b"+noise$qC#00")
        assert line.until(b"-") == b"-"
        assert line.ask(b"qC") == b"+" + frame(b"QC1")
        line.send(b"-")  # once more
        assert line.until(b"#c5") == frame(b"QC1")
        assert line.ask(b"QStartNoAckMode") == b"+" + frame(b"OK")
        assert line.ask(b"qC") == frame(b"QC1")
        line.send(b"$qC#zz")
        assert line.until(frame(b"E16")) == frame(b"E16")
        line.close()


def test_attacks(stops: Path) -> None:
    """A thousand packets that are wrong in all ways; then the server still answers what is right."""
    chance = random.Random(1)
    letters = b"?gGpPmMXcCsSzZHTDkqQvR!\x00\xff"
    words = [
        b"qRcmd,",
        b"vCont;",
        b"qXfer:features:read:",
        b"m34000000,",
        b"X34000000,",
        b"Z1,",
        b"G",
        b"P",
        b"vKill;1",
    ]

    def noise(most: int) -> bytes:
        return bytes(
            chance.choice((chance.randrange(256), *b"0123456789abcdef,:;=}*#$")) for _ in range(chance.randrange(most))
        )

    with served(lambda: VirtualBoard(read_firmware(stops))) as server:
        line = Line(server.port)
        for turn in range(1000):
            start = bytes([chance.choice(letters)]) if chance.random() < 0.6 else chance.choice(words)
            payload = start + noise(60)
            packet = frame(payload) if chance.random() < 0.7 else b"$" + payload + b"#" + noise(4)
            try:
                line.send(packet + (b"\x03" if chance.random() < 0.3 else b""))
                if turn % 20 == 19:
                    line.send(b"\x03\x03")
            except OSError:
                line = Line(server.port)
        line.send(b"$" + b"m" * (3 << 20) + b"#00")  # longer than anybody sends
        line.close()
        for _ in range(3):  # somebody else may come as soon as the server has noticed
            try:
                target = GdbTarget(f":{server.port}", wait_s=PATIENCE)
                break
            except ToolError:
                continue
        target.reset()
        assert (
            target.read(0x7700_0000, 4) and target.register("pc") == read_firmware(stops).symbols["Reset_Handler"] & ~1
        )
        target.close()


def test_one_debugger_at_a_time_and_one_that_vanishes(tmp_path: Path) -> None:
    elf = build(tmp_path, "volatile uint32_t turns; int main(void) { for (;;) turns++; }")
    turns = read_firmware(elf).symbols["turns"]
    with served(lambda: VirtualBoard(read_firmware(elf))) as server:
        first = GdbTarget(f":{server.port}", wait_s=PATIENCE)
        first.break_at(read_firmware(elf).symbols["main"])
        with pytest.raises(ToolError, match="closed the connection"):
            GdbTarget(f":{server.port}", wait_s=PATIENCE)
        first.go()
        assert first.wait(PATIENCE) is not None
        first.go()
        assert first.wait(0.0) is None
        first.interrupt()
        stopped = first.wait(PATIENCE)
        assert stopped is not None and stopped.kind == "interrupt"
        first.go()
        first.close()  # while the core runs
        second = _again(server.port)
        seen = second.read(turns, 4)
        assert second.read(turns, 4) == seen and seen != bytes(4)  # halted, and no breakpoint left
        second.go()
        assert second.wait(0.0) is None
        second.close()


def _again(port: int) -> GdbTarget:
    """As soon as the server has noticed that the last one is gone."""
    while True:
        try:
            return GdbTarget(f":{port}", wait_s=PATIENCE)
        except ToolError as error:
            assert "closed the connection" in str(error)


def test_who_may_listen_where(capsys: pytest.CaptureFixture[str]) -> None:
    assert (listening_at(":3333").host, listening_at("3333").port) == ("127.0.0.1", 3333)
    assert listening_at("[::1]:0").host == "::1"
    assert listening_at("0.0.0.0:1", remote=True).host == "0.0.0.0"
    for text in ("0.0.0.0:3333", "192.168.1.2:3333", "example.org:1"):
        with pytest.raises(InputError, match="opens the board to other machines"):
            listening_at(text)
    for text in ("", ":", ":99999", "x:y", ":-1"):
        with pytest.raises(InputError, match=r"is not \[HOST\]:PORT"):
            listening_at(text)


def test_a_port_that_is_taken(stops: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert cli.main(["board", "run", str(stops), "--gdb", f":{other.getsockname()[1]}"]) == 2
    assert "cannot be served" in capsys.readouterr().err


def test_the_command_says_where_it_listens(stops: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["board", "run", str(stops), "--gdb", ":0", "--seconds", "0"]) == 0
    assert "gdb: target remote 127.0.0.1:" in capsys.readouterr().out
