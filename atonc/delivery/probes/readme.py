"""What the owner of a board does with the folder."""

from __future__ import annotations

from collections.abc import Sequence

from atonc.compiler.place import BoardMemory
from atonc.delivery.probes.build import FLASH, BuiltProbe

_TEXT = """# Probes for {board}

{count} small programs for the NPU. Each asks one question: does a form that no published program shows work as atonc's
emulator has it, and how many cycles does it take. Not yet run on a board: your run is the evidence.

## Build

```
make                                    # probes.elf; needs arm-none-eabi-gcc
make HOOK=../my_board.c EXTRA="-I..."   # with your board's own start-up, see below
```

## Run

The whole hour, and what to do when something is odd: `docs/first_hour.md` of atonc. In short:

1. Boot switches to development mode; load `probes.elf` with the debugger (it lives in AXISRAM1) and let it run.
2. Record the virtual COM port of the board's debugger into a file: 115200 baud, 8N1.
3. `atonc probe read LOG` says what the answers settle and writes an evidence file for `--evidence`.
4. Send the log to the project, with the marking on the chip.

A probe that hangs costs its own answer only. Should the whole chip stop, the line of that probe is missing: build again
with `EXTRA=-DFIRST_PROBE=n` (its number in the table below plus 1) and append the log.

| verdict | means |
|---|---|
| `pass` | the bytes are those of the emulator; `cycles` of the NPU clock, least of `runs` |
| `pass` with `why` | the emulator does not know this setting: which of several possible answers came |
| `wrong` | `first` byte that differs, what was there (`got`) and what was expected (`want`) |
| `hang` | `why` names the error; `TIMEOUT`: it never ended |
| `skipped` | `why` says what was missing; nothing was asked |

A probe whose control did not pass says nothing.

## Clocks and external memories

Without a hook the firmware changes no clock and no memory outside the chip. Straight after reset all runs at 64 MHz:
answers about function are good, cycles are those of that ratio of clocks (the first line of the log names them), and
what needs flash or external RAM is skipped. For cycles as in applications either

- start it after a first-stage loader that sets clocks and maps the memories (debugger: let the loader run, halt, load
  `probes.elf`, set PC and SP from its vector table, go), or
- write a C file with `void probe_board_init(void)` that calls your board support package (clocks, flash and external
  RAM memory mapped, their RIF settings) and give it to make as `HOOK`.

{flash}
## Questions

| number | probe | form | published programs | control | settles |
|---:|---|---|---|---|---|
{rows}
"""

_FLASH = """Probes that read flash want `{image}.hex` programmed ({size:,} bytes at {base:#010x}, the place of a
network's weights); the same bytes are in `{image}.raw`:

```
STM32_Programmer_CLI -c port=SWD mode=HOTPLUG -el LOADER.stldr -hardRst -w {image}.hex
```

`atonc board show {board}` names the loader. The firmware compares checksums first and skips what is not there.
"""


def readme(built: Sequence[BuiltProbe], target: BoardMemory, image: str) -> str:
    size = max((one.flash_used for one in built), default=0)
    base = next((pool.base for pool in target.pools if pool.name == FLASH), 0)
    flash = _FLASH.format(image=image, size=size, base=base, board=target.name) if size else ""
    rows = "\n".join(f"| {number} {_row(one)}" for number, one in enumerate(built))
    return _TEXT.format(board=target.name, count=len(built), flash=flash, rows=rows)


def _row(one: BuiltProbe) -> str:
    probe = one.probe
    settles = probe.argument or probe.measures or probe.rate or "-"
    return f"| {probe.name} | {probe.form} | {probe.known} | {probe.control or '-'} | {settles} |"
