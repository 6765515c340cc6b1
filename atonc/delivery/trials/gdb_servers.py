"""GDB servers: how each wants a reset to be ordered, and how each is started for an STM32N6. One table; nothing else of
the client depends on the server.

What was run: the virtual board's own server, OpenOCD 0.12 of Debian with the virtual board behind a JTAG port, pyOCD
0.46 of PyPI on a fake probe. The others are written from their manuals and from public logs. None was tried on an
STM32N6 with this package yet; the arguments for that chip are from documents.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from atonc.delivery.trials.real_board import cube_ide, find_tools
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.frozen import dataclass

SWD_KHZ = 2000
_START_S = 20.0
_PAUSE_S = 0.2
_MOST_SAID = 4000


@dataclass(frozen=True)
class GdbDialect:
    """`words`: what it says to `monitor version`; `feature`: what gives it away in its list of features."""

    name: str
    words: str
    reset: tuple[tuple[str, ...], ...]  # monitor commands that reset the chip and leave it halted; the first that work
    fix: str = ""  # where it refuses something
    feature: str = ""


_TOGETHER, _APART = ("reset halt",), ("reset", "halt")
OURS = GdbDialect("virtual board", "atonc virtual board", (_TOGETHER,), feature=r"\batonc\.board")
OPENOCD = GdbDialect(
    "OpenOCD", "Open On-Chip Debugger", (_TOGETHER,), "look at OpenOCD's own output: it names the cause"
)
PYOCD = GdbDialect(  # it has no such command
    "pyOCD", "pyocd|unrecognized command", (_TOGETHER,), "look at pyOCD's own output: it names the cause", "QNonStop"
)
JLINK = GdbDialect(
    "J-Link GDB Server", "SEGGER|J-Link", (_APART,), "look at the window or the log of the J-Link GDB Server"
)
STLINK = GdbDialect(
    "ST-LINK GDB server", "ST-?LINK|STMicroelectronics", (_APART,), "look at the output of ST-LINK_gdbserver"
)
# reset alone lets some chips run on; those that do not know the two words together stop by themselves
UNKNOWN = GdbDialect("GDB server", "(?!)", (_TOGETHER, _APART), "look at what the server itself prints")
# what a monitor command prints that failed: some servers call it a success all the same
FAILURE = re.compile(
    r"^\s*(?:error|failed|transfer failed|unexpected error|unknown|unsupported|invalid)\b", re.IGNORECASE | re.MULTILINE
)
DIALECTS = (OURS, OPENOCD, JLINK, STLINK, PYOCD)


@dataclass(frozen=True)
class GdbServerProgram:
    """How to start one. In the arguments {port}, {khz} and {programmer} (the folder of STM32_Programmer_CLI) are filled
    in."""

    name: str
    dialect: GdbDialect
    executables: tuple[str, ...]
    arguments: tuple[str, ...]
    source: str  # where it comes from
    hints: tuple[tuple[str, str], ...] = ()  # what it prints -> what to do
    scripts: str = ""  # beside the folder of the program, where it has them
    chip: str = ""  # the file among them without which it does not know the STM32N6

    def knows_chip(self, path: Path) -> bool:
        scripts = path.resolve().parent.parent / self.scripts
        return not self.chip or not scripts.is_dir() or (scripts / self.chip).is_file()


_NO_PROBE = "connect the board by its STLINK-V3 port; close other programs that hold the probe"
PROGRAMS = (
    GdbServerProgram(
        "stlink", STLINK, ("ST-LINK_gdbserver",),
        ("-d", "--frequency", "{khz}", "--apid", "1", "-e", "-p", "{port}", "-cp", "{programmer}"),
        "install STM32CubeIDE or STM32CubeCLT, which have it; put it on PATH, or set STM32_CUBE_IDE_DIR",
        (
            ("No ST-LINK", _NO_PROBE), ("ST-LINK detected", _NO_PROBE), ("in use", _NO_PROBE),
            ("CubeProgrammer", "it needs STM32CubeProgrammer beside it: install it or name STM32CubeIDE's folder"),
            ("init target", "the probe is there, the chip does not answer: power, and BOOT1 in development mode"),
        ),
    ),
    GdbServerProgram(
        "openocd", OPENOCD, ("openocd",),
        (
            "-c", "gdb_port {port}", "-c", "tcl_port disabled", "-c", "telnet_port disabled",
            "-f", "interface/stlink-dap.cfg", "-c", "transport select dapdirect_swd", "-c", "adapter speed {khz}",
            "-f", "target/stm32n6x.cfg",
        ),
        "a release newer than 0.12 (Debian's 0.12 has no STM32N6), or the one inside STM32CubeIDE",
        (
            ("Can't find target/stm32n6x.cfg", "this OpenOCD is too old for the STM32N6: take one newer than 0.12, or "
             "the one inside STM32CubeIDE; or use ST-LINK_gdbserver"),
            ("open failed", _NO_PROBE), ("LIBUSB_ERROR_ACCESS", "install OpenOCD's udev rules: no right to the probe"),
        ),
        "share/openocd/scripts", "target/stm32n6x.cfg",
    ),
    GdbServerProgram(
        "pyocd", PYOCD, ("pyocd",),
        ("gdbserver", "--port", "{port}", "--persist", "--frequency", "{khz}000", "--target", "stm32n657x0hxq"),
        "pip install pyocd, then pyocd pack install stm32n657",
        (
            ("not recognized", "install the chip's description: pyocd pack install stm32n657"),
            ("No available debug probes", _NO_PROBE), ("no connected", _NO_PROBE),
        ),
    ),
    GdbServerProgram(
        "jlink", JLINK, ("JLinkGDBServerCLExe", "JLinkGDBServerCL", "JLinkGDBServer"),
        ("-device", "STM32N657X0", "-if", "SWD", "-speed", "{khz}", "-port", "{port}", "-nogui", "-vd", "-noir"),
        "it comes with SEGGER's J-Link software",
        (("Connecting to J-Link failed", "connect the J-Link; close other programs that hold it"),),
    ),
)  # fmt: skip
NAMES = tuple(program.name for program in PROGRAMS)


@dataclass(frozen=True)
class FoundServer:
    program: GdbServerProgram
    path: Path
    programmer: Path  # the folder of ST's programmer, which ST's server wants

    def command(self, port: int) -> tuple[str, ...]:
        words = {"port": port, "khz": SWD_KHZ, "programmer": self.programmer}
        return (str(self.path), *(word.format(**words) for word in self.program.arguments))


def find_server(name: str = "", ide: Path | None = None) -> FoundServer:
    """The server of that name, or the first of the table that is installed and knows the chip."""
    if name and name not in NAMES:
        raise InputError(f"{name[:40]!r} is no GDB server", rule=f"known are: {', '.join(NAMES)}")
    wanted = [program for program in PROGRAMS if name in ("", program.name)]
    tools = find_tools(cube_ide(ide))[0]
    for program in wanted:
        inside = tools.gdb_server if program.dialect is STLINK and tools.gdb_server.is_absolute() else None
        plain = next(filter(None, map(shutil.which, program.executables)), None)
        path = inside or (Path(plain) if plain else None)
        if path is not None and (name or program.knows_chip(path)):
            return FoundServer(program, path, tools.programmer.parent)
    raise ToolError(
        "no GDB server was found" if not name else f"{wanted[0].executables[0]} was not found",
        rule="; ".join(f"{program.executables[0]}: {program.source}" for program in wanted),
        remedy="install one of them, or start one yourself and give its address with --gdb HOST:PORT",
    )


class RunningServer:
    """A server that was started here; what it prints is kept for messages."""

    def __init__(self, found: FoundServer, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        self.found, self._process, self._output = found, process, output

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def said(self) -> str:
        self._output.seek(0)
        return self._output.read()[-_MOST_SAID:].decode("utf-8", "replace")

    def failure(self, what: str) -> ToolError:
        said = self.said()
        hint = next((fix for word, fix in self.found.program.hints if word.lower() in said.lower()), "")
        last = [line.strip() for line in said.splitlines() if line.strip()][-3:]
        rule = f"it printed: {' / '.join(last)[:300]}" if last else ""
        fix = hint or "run the command by hand to see all that it prints"
        return ToolError(what, where=str(self.found.path), rule=rule, remedy=fix)

    def stop(self) -> None:
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
            return
        self._process.kill()


@contextlib.contextmanager
def started(found: FoundServer, port: int) -> Iterator[RunningServer]:
    """The server while the block runs; it may not listen yet: `retries`."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                found.command(port), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        except OSError as error:
            raise ToolError(f"cannot be started: {error.strerror or error}", where=str(found.path)) from error
        server = RunningServer(found, process, output)
        try:
            yield server
        finally:
            server.stop()


def retries(server: RunningServer, wait_s: float = _START_S) -> Iterator[None]:
    """One turn for each attempt to connect to a server that is starting; raises what it printed when it ends or never
    listens. Not by a connection of its own: some servers end with their first client."""
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        if server.ended:
            raise server.failure("the GDB server ended by itself")
        yield
        time.sleep(_PAUSE_S)
    raise server.failure(f"the GDB server does not listen after {wait_s:g} s")
