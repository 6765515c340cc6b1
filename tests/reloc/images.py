"""Images of small networks and a board that loads them, each built once."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.request.options import Options
from atonc.delivery.firmware import building
from atonc.delivery.generate import generating
from atonc.delivery.reloc.build import BuiltImage, RelocOptions, build
from atonc.delivery.trials import loading
from atonc.delivery.trials.loading import LoaderRig
from tests.emit.generated import DIGITS

_FOLDER = tempfile.TemporaryDirectory(prefix="atonc-images-")
FOLDER = Path(_FOLDER.name)

_SPEED = {"rights": "ACC_WRITE", "throughput": "MID", "latency": "MID", "byteWidth": 8, "freqRatio": 1.25}


def pool(fname: str, base: int, kbytes: int, relative: bool = False, **prop: object) -> dict[str, object]:
    """An entry of a pool file."""
    found: dict[str, object] = {
        "fname": fname,
        "name": fname.lower(),
        "fformat": "FORMAT_RAW",
        "prop": _SPEED | prop,
        "offset": {"value": hex(base), "magnitude": "BYTES"},
        "size": {"value": str(kbytes), "magnitude": "KBYTES"},
    }
    return found | ({"mode": "USEMODE_RELATIVE"} if relative else {})


INSIDE = pool("AXISRAM3", 0x3420_0000, 448)
EXTERNAL_RAM = pool("xSPI1", 0x9000_0000, 16384, relative=True, cacheable="CACHEABLE_ON", constants_preferred="true")
FLASH = pool("xSPI2", 0x7040_0000, 16384, relative=True, rights="ACC_READ", cacheable="CACHEABLE_ON")
MEMORIES = {
    "flash": [INSIDE, FLASH],
    "ram": [INSIDE, EXTERNAL_RAM],  # constants go to external RAM
    "inside": [INSIDE],  # constants go to the chip's own RAM
}


def pool_file(pools: list[dict[str, object]], name: str) -> Path:
    path = FOLDER / f"{name}.mpool"
    path.write_text(json.dumps({"memory": {"mempools": pools}}))
    return path


@cache
def view(memories: str = "flash", epoch_controller: bool = True, user_io: bool = False) -> CompileView:
    mpool = str(pool_file(MEMORIES[memories], memories))
    edges = {"inputs_allocation": False, "outputs_allocation": False} if user_io else {}
    unproven = memories == "ram"  # no published program reads kernels from hyperRAM
    options = Options(
        mpool=mpool,
        relocatable=True,
        verify=False,
        epoch_controller=epoch_controller,
        allow_unproven=unproven,
        **edges,
    )
    return generating.analyze(DIGITS, options)


@cache
def folder(memories: str = "flash", epoch_controller: bool = True, user_io: bool = False) -> Path:
    """Generated files."""
    target = FOLDER / f"{memories}_{epoch_controller}_{user_io}"
    generating.generate(view(memories, epoch_controller, user_io), target)
    return target


FOR_BOARD = RelocOptions(cpu=loading.board_cpu())


@cache
def image(where: Path, options: RelocOptions = FOR_BOARD) -> BuiltImage:
    work = Path(tempfile.mkdtemp(dir=FOLDER))
    return build(building.find_toolchain(), where, options, work)


@cache
def loader() -> Path:
    return loading.build_loader(loading.loader_runtime(), FOLDER / "loader")


@cache
def rig() -> LoaderRig:
    return LoaderRig(loader())
