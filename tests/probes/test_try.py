"""`atonc board try` on the virtual board: the same bytes as over the UART, also when it is killed again and again;
chips that stop, fault or answer nonsense; and a firmware that touches no fuse."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.delivery.probes.log import BEGIN, LOG_FORMAT, MARK, checksum, parse_log, signed
from atonc.delivery.recordings import store
from atonc.delivery.texts import try_text
from atonc.delivery.trials import mailbox
from atonc.delivery.trying import try_board
from atonc.delivery.trying.asking import LOG, Trial, TrialLog
from atonc.delivery.trying.probe_image import ProbeImage, read_image
from atonc.delivery.trying.try_board import EVIDENCE, RECORDING, SUMMARY, TryOptions
from atonc.delivery.trying.virtual_target import VirtualStop, VirtualTarget
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.emu.board import VirtualBoard
from atonc.machine.emu.board.chip import ChipSetup, faults
from atonc.machine.emu.board.gdb_server import GdbListening, GdbServer
from atonc.machine.emu.board.peripherals import WordRegisters
from tests.board.programs import needs_compiler
from tests.probes.virtual import Chip, board_with, log_of

pytestmark = [needs_compiler, pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")]

ROOT = Path(__file__).parent.parent.parent
FUSES = 0x5600_9000
HARD_FAULT = 3
EVERYTHING = mailbox.EMULATED | mailbox.ON_CHIP


class Unplugged(Exception):
    """The cable, the power or the process."""


class FragileTarget(VirtualTarget):
    """Ends for good at one of its operations."""

    def __init__(self, make: Callable[[], VirtualBoard], operations: int = 1 << 60) -> None:
        super().__init__(make)
        self.operations = self.given = operations

    def _use(self) -> None:
        self.operations -= 1
        if not self.operations:
            raise Unplugged

    def read(self, address: int, size: int) -> bytes:
        self._use()
        return super().read(address, size)

    def write(self, address: int, data: bytes) -> None:
        self._use()
        super().write(address, data)

    def go(self) -> None:
        self._use()
        super().go()

    def wait(self, seconds: float) -> VirtualStop | None:
        self._use()
        return super().wait(seconds)

    @property
    def used(self) -> int:
        return self.given - self.operations


@pytest.fixture(scope="module")
def image(some_probes: Path) -> ProbeImage:
    return read_image(some_probes)


def quiet(*_: object) -> None:
    pass


def tried(image: ProbeImage, folder: Path, target: VirtualTarget) -> None:
    trial = Trial(image, target, TrialLog(folder), EVERYTHING, quiet)
    trial.run()
    try_board.written(TryOptions(image.board, folder, virtual=True), trial, "the virtual board")


def boards(image: ProbeImage, chip: Chip | None = None) -> Callable[[], VirtualBoard]:
    return lambda: board_with(image.firmware.path, chip or Chip())


@pytest.fixture(scope="module")
def undisturbed(image: ProbeImage, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    folder = tmp_path_factory.mktemp("undisturbed")
    target = FragileTarget(boards(image))
    tried(image, folder, target)
    return folder, target.used


def test_the_same_evidence_as_over_the_uart(
    some_probes: Path, undisturbed: tuple[Path, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = log_of(some_probes)
    assert lines == (undisturbed[0] / LOG).read_text().splitlines()
    (tmp_path / "uart.log").write_text("\r\n".join(lines))
    assert main(["probe", "read", str(tmp_path / "uart.log"), "-o", str(tmp_path / "evidence.json")]) == 0
    assert "emulated: proves nothing about silicon" in capsys.readouterr().out
    assert (tmp_path / "evidence.json").read_bytes() == (undisturbed[0] / EVIDENCE).read_bytes()


def test_the_same_evidence_through_a_gdb_server(
    image: ProbeImage, undisturbed: tuple[Path, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    over = threading.Event()
    server = GdbServer(boards(image), GdbListening("127.0.0.1", 0), over.is_set)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        words = ["board", "try", "--board", "stm32n6570-dk", "--firmware", str(image.firmware.path), "--on-chip"]
        assert main([*words, "-o", str(tmp_path), "--gdb", f"127.0.0.1:{server.port}"]) == 0
    finally:
        over.set()
        thread.join()
    assert "stm32n6570-dk through virtual board at 127.0.0.1" in capsys.readouterr().out
    for name in (LOG, EVIDENCE, RECORDING):
        assert (tmp_path / name).read_bytes() == (undisturbed[0] / name).read_bytes(), name


def test_the_recording_is_sound(image: ProbeImage, undisturbed: tuple[Path, int]) -> None:
    found = store.read(undisturbed[0] / RECORDING)
    assert not store.faults(found) and [gap.seen for gap in store.gaps(found)] == ["no licence"]
    assert found.virtual and found.different == 0 and found.samples == 1
    probe = next(probe for probe in image.probes if probe.name == try_board.RECORDED)
    assert found.array(store.INPUTS, 0).tobytes() == probe.stimulus
    log = parse_log((undisturbed[0] / LOG).read_text())
    assert found.milliseconds == (log.replies[probe.name].cycles / 1e6,)


@pytest.mark.parametrize("seed", range(20))
def test_unplugged_anywhere_it_goes_on(
    seed: int, image: ProbeImage, undisturbed: tuple[Path, int], tmp_path: Path
) -> None:
    """Several times each, until it gets through; sometimes a line was half written."""
    folder, operations = undisturbed
    dice = random.Random(seed)
    ends = 0
    while True:
        try:
            tried(image, tmp_path, FragileTarget(boards(image), dice.randrange(1, operations)))
            break
        except Unplugged:
            ends += 1
            if dice.random() < 0.5 and (tmp_path / LOG).exists():
                with open(tmp_path / LOG, "ab") as file:
                    file.write(f"{MARK} 1 control-ras".encode())
    for name in (LOG, EVIDENCE, RECORDING):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name
    assert ends or seed  # the first one is known to be unplugged


def trying(elf: Path, folder: Path) -> list[str]:
    return [sys.executable, "-m", "atonc", "board", "try", "--virtual", "--firmware", str(elf), "-o", str(folder)]


@pytest.fixture(scope="module")
def whole(some_probes: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("whole")
    done = subprocess.run(trying(some_probes, folder), capture_output=True, text=True, cwd=ROOT, check=True)
    return folder, done.stdout.splitlines(keepends=True)


@pytest.mark.parametrize("lines", [1, 9, 30])
def test_a_killed_process_goes_on(lines: int, some_probes: Path, whole: tuple[Path, list[str]], tmp_path: Path) -> None:
    """SIGKILL behind so many answers; the second call asks what is missing and no more."""
    words = trying(some_probes, tmp_path)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(lines)]
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert told == whole[1][:lines]
    again = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=True)
    asked = [line for line in again.stdout.splitlines() if line.endswith(": pass")]
    assert len(asked) <= len(read_image(some_probes).probes) - lines
    for name in (LOG, EVIDENCE, RECORDING):
        assert (tmp_path / name).read_bytes() == (whole[0] / name).read_bytes(), name
    assert "emulated: proves nothing about silicon" in (tmp_path / SUMMARY).read_text()


# ------------------------------------------------------------------------------------------------- chips that misbehave


class StuckTarget(VirtualTarget):
    """The core does not come back from one probe."""

    def __init__(self, make: Callable[[], VirtualBoard], image: ProbeImage, name: str) -> None:
        super().__init__(make)
        self.image, self.name, self.stuck = image, name, False

    def wait(self, seconds: float) -> VirtualStop | None:
        if self.stuck:
            return super().wait(seconds)
        before = self.read(self.image.mailbox, mailbox.HEAD_BYTES)
        number = next(k for k, probe in enumerate(self.image.probes) if probe.name == self.name)
        if before[:4] == b"ATNM" and mailbox.parse(before, "").asked == self.image.probes[number - 1].name:
            self.stuck = True
            return None
        return super().wait(seconds)


def test_a_probe_that_stops_the_chip_gets_its_answer(image: ProbeImage, tmp_path: Path) -> None:
    stopped = "control-affine"
    target = StuckTarget(boards(image), image, stopped)
    tried(image, tmp_path, target)
    log = parse_log((tmp_path / LOG).read_text())
    assert target.stuck and log.complete and not log.damaged
    reply = log.replies[stopped]
    assert reply.verdict == "hang" and reply.why.startswith("the_chip_stopped_at_0x34")
    assert {name for name, one in log.replies.items() if one.verdict != "pass"} == {stopped}
    assert list(log.replies) == [probe.name for probe in image.probes]


class FaultingTarget(VirtualTarget):
    """A fault while the third answer is worked out."""

    def reset(self) -> None:
        self.waits = 0
        super().reset()

    faulted = False

    def wait(self, seconds: float) -> VirtualStop | None:
        self.waits += 1
        if self.waits == 4 and not self.faulted:
            self.faulted = True
            assert self.board.go_on(3000) is None
            self.board.nvic.pending.add(HARD_FAULT)
        return super().wait(seconds)


def test_a_fault_is_told_with_its_place(image: ProbeImage, tmp_path: Path) -> None:
    target = FaultingTarget(boards(image))
    tried(image, tmp_path, target)
    log = parse_log((tmp_path / LOG).read_text())
    bad = [one for one in log.replies.values() if one.verdict != "pass"]
    assert target.faulted and log.complete and len(bad) == 1 and bad[0].verdict == "hang"
    words = dict(word.split("=") for word in bad[0].why.split()[1:])
    assert bad[0].why.startswith("fault ") and set(words) == {"pc", "cfsr", "bfar"}
    assert int(words["pc"], 16) >> 20 == 0x340 and image.firmware.function_at(int(words["pc"], 16)) != "?"


def test_clocks_that_do_not_start_are_told(image: ProbeImage, tmp_path: Path) -> None:
    """PLL2 never locks: everything runs from the oscillator, and no cycles are believed."""

    def make() -> VirtualBoard:
        board = VirtualBoard(image.firmware, clocks={}, chip=ChipSetup())
        clocks = board.peripherals.clocks
        usual = clocks.read
        clocks.read = lambda offset: usual(offset) & ~(1 << 9) if offset == 4 else usual(offset)  # type: ignore[method-assign]
        return board

    tried(image, tmp_path, VirtualTarget(make))
    log = parse_log((tmp_path / LOG).read_text())
    assert log.head.clocks == "PLL2_did_not_lock" and log.head.cpu_hz == log.head.npu_hz == 64_000_000
    assert log.replies["control-raster"].verdict == "pass"
    assert json.loads((tmp_path / EVIDENCE).read_bytes())["constants"] == []


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("axisram4_shutdown", "RAM_SHUTDOWN"),
        ("npu_sleep_clock_off", "NPU_SLEEP"),
        ("rimc_not_set", "NPU_MASTER"),
        ("xspi1_sleep_clock_off", "XSPI_SLEEP"),
    ],
)
def test_a_set_up_that_is_not_sound_is_named_first(fault: str, name: str, image: ProbeImage, tmp_path: Path) -> None:
    """Whatever the probes answer then: the cause stands above it, with register and fix."""
    target = VirtualTarget(lambda: VirtualBoard(image.firmware, clocks={}, chip=faults(fault)))
    trial = Trial(image, target, TrialLog(tmp_path), mailbox.EMULATED, quiet)
    trial.run()
    assert {one.split()[1] for one in trial.log.findings()} == {name}
    found = try_board.written(TryOptions(image.board, tmp_path, virtual=True), trial, "the virtual board")
    said = try_text.summary_text(found)
    assert "the set-up is not sound" in said and "  fix: " in said
    assert said.index("self-test: ") < said.index("answered  ")
    assert not (tmp_path / EVIDENCE).exists()  # nothing may be refused for it


def test_external_memories_are_mapped_by_the_firmware(image: ProbeImage, tmp_path: Path) -> None:
    """Slowly: their probes answer, their speeds are not taken."""
    asked: Any = TryOptions(image.board, tmp_path, image.firmware.path, virtual=True)
    found = try_board.try_board(asked, quiet)
    assert found.settled.log.head.external == "slow" and not found.findings
    assert {one.verdict for one in found.settled.log.replies.values()} == {"pass"}
    assert "hyperram_mb_per_s" not in dict(found.settled.evidence.constants)
    assert any("far below the board's speed" in one.refused for one in found.settled.outcomes)


# ------------------------------------------------------------------------------------------------------ hostile answers


class LyingTarget(VirtualTarget):
    """Changes what is read from the mailbox once the firmware runs."""

    def __init__(self, image: ProbeImage, make: Callable[[], VirtualBoard], lie: Callable[[bytes], bytes]) -> None:
        super().__init__(make)
        self.image, self.lie, self.ran = image, lie, False

    def wait(self, seconds: float) -> VirtualStop | None:
        self.ran = True
        return super().wait(seconds)

    def read(self, address: int, size: int) -> bytes:
        data = super().read(address, size)
        inside = self.image.mailbox <= address < self.image.mailbox + mailbox.HEAD_BYTES + 0xE000
        return self.lie(data)[:size] if self.ran and inside else data


def _word(number: int, value: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        head = len(data) == mailbox.HEAD_BYTES
        return data[: 4 * number] + value.to_bytes(4, "little") + data[4 * number + 4 :] if head else data

    return change


def _text(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(old, new)


def _signed_anew(old: str, new: str) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        lines = data.decode("latin1").split("\n")
        return "\n".join(
            signed(line.rpartition(" *")[0].replace(old, new)) if line.startswith(MARK) else line for line in lines
        ).encode("latin1")

    return change


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (_word(0, 0x1234), "the firmware has not started"),
        (_word(1, 7), "its version is 7, this atonc reads 1"),
        (_word(2, 9), "no state 9"),
        (_word(7, 0xFFFF_FFFF), "4294967295 bytes of log in a buffer of"),
        (_word(8, 0xFFFF_FFFF), "bytes of log in a buffer of 4294967295"),
        (_word(9, 3), "3 lines did not fit"),
        (_text(b"stm32n6570-dk\0", b"nucleo-n657x0\0"), "the firmware that runs is for nucleo-n657x0"),
        (_text(b"stm32n6570-dk\0", b"\x01\x02\x03" + bytes(11)), "a name in it is not text"),
        (_text(b"begin", b"begun"), "a damaged line in the mailbox"),
        (_text(b"ATONC", b"\xff\xfe\x00\x1b["), "a damaged line in the mailbox"),
        (_text(b"\n", b" "), "a damaged line in the mailbox"),
        (_signed_anew(" control-raster ", " control-other "), "control-other answered, control-raster was asked"),
        (_signed_anew(f" {BEGIN} ", " end "), "at a place where the log does not have it"),
    ],
)
def test_nonsense_in_the_mailbox_is_an_error(
    lie: Callable[[bytes], bytes], said: str, image: ProbeImage, tmp_path: Path
) -> None:
    target = LyingTarget(image, boards(image), lie)
    with pytest.raises(InputError) as caught:
        Trial(image, target, TrialLog(tmp_path), EVERYTHING, quiet).run()
    assert said in caught.value.what
    assert "control-raster" not in TrialLog(tmp_path).text()


class ClosedTarget(VirtualTarget):
    """RAM is closed after a reset until the boot ROM has run, or for ever."""

    def __init__(self, make: Callable[[], VirtualBoard], opens: bool) -> None:
        super().__init__(make)
        self.opens, self.closed, self.orders = opens, False, list[str]()

    def reset(self) -> None:
        super().reset()
        self.closed = True

    def read(self, address: int, size: int) -> bytes:
        return bytes(size) if self.closed else super().read(address, size)

    def wait(self, seconds: float) -> VirtualStop | None:
        if not self.closed:
            return super().wait(seconds)
        self.orders.append("wait")
        return None

    def interrupt(self) -> None:
        self.closed = not self.opens


def test_the_boot_rom_may_have_to_run_first(image: ProbeImage, undisturbed: tuple[Path, int], tmp_path: Path) -> None:
    target = ClosedTarget(boards(image), opens=True)
    tried(image, tmp_path, target)
    assert target.orders and (tmp_path / EVIDENCE).read_bytes() == (undisturbed[0] / EVIDENCE).read_bytes()
    with pytest.raises(ToolError, match="does not keep what is written"):
        tried(image, tmp_path / "closed", ClosedTarget(boards(image), opens=False))


def test_a_core_that_never_starts_is_an_error(image: ProbeImage, tmp_path: Path) -> None:
    class DeadTarget(VirtualTarget):
        def wait(self, seconds: float) -> VirtualStop | None:
            return None

    with pytest.raises(ToolError, match="says nothing within"):
        Trial(image, DeadTarget(boards(image)), TrialLog(tmp_path), EVERYTHING, quiet).run()


def test_answers_of_another_firmware_are_not_mixed(
    image: ProbeImage, undisturbed: tuple[Path, int], tmp_path: Path
) -> None:
    (tmp_path / LOG).write_bytes((undisturbed[0] / LOG).read_bytes())
    with pytest.raises(InputError, match="the folder has answers of"):
        Trial(replace(image, version="9.9"), VirtualTarget(boards(image)), TrialLog(tmp_path), 0, quiet).run()
    with pytest.raises(InputError, match="the board has started otherwise than before"):
        other = "\n".join(
            signed(line.rpartition(" *")[0].replace("clocks=board", "clocks=PLL1_did_not_lock"))
            for line in (tmp_path / LOG).read_text().splitlines()[:4]
        )
        (tmp_path / LOG).write_text(f"{other}\n")
        Trial(image, VirtualTarget(boards(image)), TrialLog(tmp_path), EVERYTHING, quiet).run()


def test_firmware_of_others_is_refused(some_probes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["board", "try", "--virtual", "-o", str(tmp_path / "out")]
    assert main([*words, "--firmware", str(some_probes), "--board", "nucleo-n657x0-q"]) != 0
    assert "the firmware was built for stm32n6570-dk" in " ".join(capsys.readouterr().err.split())
    other = some_probes.read_bytes().replace(b"atonc_mailbox\0", b"their_mailbox\0")
    (tmp_path / "other.elf").write_bytes(other)
    assert main([*words, "--firmware", str(tmp_path / "other.elf")]) != 0
    assert "not a probe firmware of atonc" in " ".join(capsys.readouterr().err.split())


def test_without_a_server_the_error_names_them_all(
    some_probes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("STM32_CUBE_IDE_DIR", raising=False)
    words = ["board", "try", "--firmware", str(some_probes), "-o", str(tmp_path / "out")]
    assert main([*words, "--board", "stm32n6570-dk"]) != 0
    said = capsys.readouterr().err
    for wanted in ("no GDB server was found", "ST-LINK_gdbserver", "openocd", "pyocd", "JLinkGDBServer", "--virtual"):
        assert wanted in said


def test_answers_of_a_chip_are_not_those_of_the_virtual_board(
    image: ProbeImage, undisturbed: tuple[Path, int], tmp_path: Path
) -> None:
    lines = (undisturbed[0] / LOG).read_text().splitlines()
    first = signed(lines[0].rpartition(" *")[0].replace("on=emulator", "on=chip"))
    (tmp_path / LOG).write_text("\n".join([first, *lines[1:]]) + "\n")
    with pytest.raises(InputError, match="this is the virtual stm32n6570-dk"):
        tried(image, tmp_path, VirtualTarget(boards(image)))


@pytest.mark.parametrize("name", [LOG, EVIDENCE, SUMMARY])
def test_links_out_of_the_folder_are_refused(name: str, some_probes: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(tmp_path / "precious")
    words = ["board", "try", "--virtual", "--firmware", str(some_probes), "-o", str(tmp_path / "out")]
    assert main(words) != 0 and (tmp_path / "precious").read_text() == "kept"


def test_ctrl_c_on_the_virtual_board_is_heard(
    some_probes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where Python has to drop the exception, as in a callback of C code."""
    told: list[int] = []
    wait = VirtualTarget.wait

    def interrupted(self: VirtualTarget, seconds: float) -> VirtualStop | None:
        if not told:
            told.append(1)
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        return wait(self, seconds)

    monkeypatch.setattr(VirtualTarget, "wait", interrupted)
    words = ["board", "try", "--virtual", "--firmware", str(some_probes), "-o", str(tmp_path / "out")]
    assert main(words) == 130 and told
    assert 0 < (tmp_path / "out" / LOG).read_text().count("\n") < 10


def test_the_board_is_named(some_probes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another board has another pin where this one has that of its core regulator."""
    words = ["board", "try", "--firmware", str(some_probes), "-o", str(tmp_path / "out"), "--gdb", "localhost:1"]
    assert main(words) != 0
    said = capsys.readouterr().err
    assert "which board is it?" in said and "--board nucleo-n657x0-q" in said
    assert not (tmp_path / "out").exists()


def test_damaged_images_are_one_error(some_probes: Path, tmp_path: Path) -> None:
    """Bytes of the headers and of the table of probes, at random."""
    whole, dice = some_probes.read_bytes(), random.Random(7)
    image = read_image(some_probes)
    part = next(one for one in image.firmware.segments if one.address <= image.firmware.symbols["probes"])
    table = whole.index(part.data) + image.firmware.symbols["probes"] - part.address
    refused = 0
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            start = dice.choice((0, 52, table, table + 40, len(whole) - 2000))
            data[start + dice.randrange(40)] = dice.randrange(256)
        (tmp_path / "damaged.elf").write_bytes(data)
        try:
            read_image(tmp_path / "damaged.elf")
        except InputError:
            refused += 1
    assert refused > 30


# --------------------------------------------------------------------------------------------------------- the firmware


def test_no_fuse_is_touched(image: ProbeImage) -> None:
    """Neither in the sources and the image, nor on the bus."""
    runtime = ROOT / "atonc" / "machine" / "runtime"
    folders = ("probe", "bare_metal", "selftest", "include", "src", "wire")
    texts = [path.read_text().lower() for folder in folders for path in (runtime / folder).rglob("*.[ch]")]
    assert len(texts) > 60 and not any("56009" in text or "46009" in text or "bsec" in text for text in texts)
    for part in image.firmware.segments:
        words = np.frombuffer(part.data[: len(part.data) & ~3], "<u4")
        assert not np.isin(words & 0xEFFF_F000, [FUSES & 0xEFFF_F000]).any()

    class Untouchable(WordRegisters):
        def read(self, offset: int) -> int:
            raise AssertionError(f"fuses read at {offset:#x}")

        def write(self, offset: int, value: int) -> None:
            raise AssertionError(f"fuses written at {offset:#x}")

    board = VirtualBoard(image.firmware, clocks={}, chip=ChipSetup())
    board.peripherals.devices.add("BSEC", Untouchable(), 0x1000)
    board.run()
    assert "fuses=untouched" in board.serial.lines[0]


def test_limits_of_the_boot_roms_stacks_are_cleared_first(image: ProbeImage) -> None:
    """MSR MSPLIM and PSPLIM stand before anything that pushes."""
    start = image.firmware.symbols["Reset_Handler"] & ~1
    part = next(one for one in image.firmware.segments if one.address <= start < one.address + len(one.data))
    code = part.data[start - part.address :][:12]
    assert code == bytes.fromhex("72b6 0020 80f3 0a88 80f3 0b88")  # cpsid i; movs r0, #0; msr msplim; msr psplim


def test_semihosting_only_on_request(image: ProbeImage) -> None:
    board = board_with(image.firmware.path, Chip())
    offset, asked = mailbox.request(len(image.probes), EVERYTHING | mailbox.SEMIHOSTING)
    board.poke(image.mailbox + offset, np.frombuffer(asked, np.uint8))
    texts = []
    while (stop := board.run()).number == 0xAB:
        assert board.core.register("R0") == 4
        start = board.core.register("R1")
        texts.append(bytes(board.memory.read(start, 512)).split(b"\0")[0].decode())
    assert "".join(texts).splitlines() == board.serial.lines and len(texts) == 2 * len(board.serial.lines)
    assert stop.number == 2
    assert board_with(image.firmware.path, Chip()).run().number == 2


def test_the_checksum_is_the_firmwares() -> None:
    line = f"{MARK} {LOG_FORMAT} end answered=31"
    assert checksum(line) == "E954"
