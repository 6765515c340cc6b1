"""The vector branches of the C kernels on Cortex-M55s that are emulated: the same bytes as the plain branches.

QEMU takes all cases where it is installed, the virtual board some of them.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from atonc.compiler.emit.c.kernels import HEADER, SOURCE, unpacking
from atonc.delivery.firmware import building
from tests.kernels import qemu
from tests.kernels.three_ways import kernels_folder

HERE = Path(__file__).parent
needs_compiler = pytest.mark.skipif(shutil.which(building.GCC) is None, reason="no arm-none-eabi-gcc")


def compile_both(folder: Path, units: list[building.CompileUnit], main: Path, every: int) -> list[Path]:
    """Both branches in one firmware: the plain one under names of its own."""
    kernels, harness = kernels_folder(), building.runtime_folder("harness")
    names = set(re.findall(r"void (atonc_\w+)\(", (kernels / HEADER).read_text()))
    renamed = {name: name.replace("atonc", "plain") for name in names}
    plain = folder / "plain.c"
    plain.write_text(f'#include "{kernels / SOURCE}"\n')
    (folder / "unpack_both.h").write_text(
        f"{unpacking()}#undef ATONC_VECTORS\n#define ATONC_NO_VECTORS\n#define atonc_unpack plain_unpack\n"
        f"{unpacking()}#undef atonc_unpack\n"
    )
    units = [
        *units,
        building.CompileUnit((main,), (harness, kernels, folder), {"EVERY": str(every)}, strict=True),
        building.CompileUnit((kernels / SOURCE,), (kernels,), strict=True),
        building.CompileUnit((plain,), (kernels,), {"ATONC_NO_VECTORS": "", **renamed}, strict=True),
    ]
    return building.compile_units(building.find_toolchain(), units, folder, cpu="cortex-m55")


@needs_compiler
def test_on_the_virtual_board(tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed: pip install 'atonc[board]'")
    from atonc.machine.emu.board import VirtualBoard, read_firmware

    harness = building.runtime_folder("harness")
    frame = building.CompileUnit((harness / "startup.c", harness / "board_io.c"), (harness,), strict=True)
    objects = compile_both(tmp_path, [frame], HERE / "vectors_main.c", every=24)
    elf = building.link(building.find_toolchain(), objects, tmp_path / "program.elf", cpu="cortex-m55")
    board = VirtualBoard(read_firmware(elf))
    assert board.run().number == 2
    assert board.serial.lines == ["57 cases, 0 wrong"]
    assert board.core.vectors.executed > 2000


@needs_compiler
@pytest.mark.skipif(not qemu.is_there(), reason="no qemu-system-arm")
def test_on_qemu(tmp_path: Path) -> None:
    frame = building.CompileUnit((qemu.FRAME,), strict=True)
    objects = compile_both(tmp_path, [frame], HERE / "vectors_main.c", every=1)
    assert qemu.run(qemu.linked(objects, tmp_path)) == ["1247 cases, 0 wrong"]
