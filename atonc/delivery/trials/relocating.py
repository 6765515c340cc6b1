"""`atonc reloc` and `atonc generate -r`: relocatable images from generated files, and what is in an image."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.delivery.firmware import building
from atonc.delivery.firmware.building import Toolchain
from atonc.delivery.reloc.build import BuiltImage, RelocOptions, build
from atonc.delivery.reloc.format import MAGIC, MAX_IMAGE_BYTES
from atonc.delivery.reloc.image import Image, c_files, read_image
from atonc.delivery.reloc.pools import PoolMode, check_modes
from atonc.machine.base.build_folder import BuildKind, Owner, write_whole
from atonc.machine.base.disk import read_file, write_files
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import brief, dataclass
from atonc.machine.base.progress import stage

if TYPE_CHECKING:
    from atonc.compiler.compile.compile_view import CompileView

WORDS = ("split", "no-secure", "gen-c-file")  # behind `generate -r`
_DEFINE = re.compile(r"#define\s+LL_ATON_VERSION_(MAJOR|MINOR|MICRO|DEV)\s+\(?(\d{1,6})\)?")
_MAGIC = MAGIC.to_bytes(4, "little")
_VERSION_FILES = ("Middlewares/ST/AI/Npu/ll_aton/ll_aton_version.h", "ll_aton_version.h")


@dataclass(frozen=True)
class RelocatableImage:
    """An image on disk."""

    built: BuiltImage
    files: tuple[Path, ...]
    __repr__ = brief


def words(text: str) -> frozenset[str]:
    """What stands behind `-r`, separated by commas."""
    found = frozenset(filter(None, (word.strip().replace("gen-c-files", "gen-c-file") for word in text.split(","))))
    unknown = sorted(found - set(WORDS))
    if unknown:
        raise InputError(f"{', '.join(unknown)[:80]!r}", where="-r", rule=f"possible are: {', '.join(WORDS)}")
    return found


def relocate(
    folder: Path,
    output: Path,
    options: RelocOptions,
    *,
    gen_c_file: bool = False,
    keep_in: Path | None = None,
    prefix: str = "",
) -> RelocatableImage:
    """Builds the image of a folder's network and writes it; intermediate files stay in `keep_in` if it is given."""
    toolchain = _toolchain(prefix)
    stage("building the image")
    with tempfile.TemporaryDirectory(prefix="atonc_") as temporary:
        built = build(toolchain, folder, options, Path(temporary))
        if keep_in is not None:
            shutil.copytree(temporary, keep_in, dirs_exist_ok=True)
    files = _written(built, options, gen_c_file)
    return RelocatableImage(built, tuple(write_whole(output, files, Owner(BuildKind.IMAGE, built.name))))


def _written(built: BuiltImage, options: RelocOptions, gen_c_file: bool) -> dict[str, bytes]:
    files = {f"{built.name}_rel.bin": built.image.data}
    if options.split:
        files[f"{built.name}_rel_params.bin"] = built.params
    return files | (c_files(built.image, built.name) if gen_c_file else {})


def check_pools(view: CompileView) -> None:
    """Before anything is written: the memories of a compiled model suit an image."""
    placed = [
        home for home in view.compiled.program.placed.values() if home.buffer.size_bytes and not home.user_allocated
    ]
    used = [p for p in view.board.pools if any(p.base <= home.address < p.base + p.size_bytes for home in placed)]
    modes = [PoolMode(pool.symbol, pool.base, pool.absolute) for pool in used]
    check_modes(modes, view.options.mpool or view.board.name, no_secure=not view.options.secure)


def image_files(files: Mapping[str, bytes], name: str, asked: frozenset[str], runtime: str = "") -> dict[str, bytes]:
    """The image of files that `generate` is about to write."""
    options = RelocOptions(name=name, secure="no-secure" not in asked, split="split" in asked, runtime=runtime)
    stage("building the image")
    with tempfile.TemporaryDirectory(prefix="atonc_") as temporary:
        folder, work = Path(temporary, "generated"), Path(temporary, "work")
        work.mkdir()
        write_files(folder, files)
        built = build(building.find_toolchain(), folder, options, work)
    return _written(built, options, "gen-c-file" in asked)


def _toolchain(prefix: str) -> Toolchain:
    """`prefix` as in CROSS_COMPILE: what stands before `gcc`."""
    if not prefix:
        return building.find_toolchain()
    found = shutil.which(f"{prefix}gcc")
    if found is None:
        raise InputError(f"there is no {prefix}gcc", where="--cross-compile", remedy="give it with its last dash")
    return Toolchain(Path(found))


def runtime_of(pack: Path) -> str:
    """The release of LL_ATON in an installation of ST Edge AI Core, or in any folder with its sources."""
    paths = [pack / name for name in _VERSION_FILES if (pack / name).is_file()]
    paths = paths or sorted(pack.glob("**/ll_aton_version.h"))[:1]
    if not paths:
        raise InputError("no ll_aton_version.h below it", where=str(pack), remedy="or give the release with --runtime")
    found = dict(_DEFINE.findall(paths[0].read_text(errors="replace")))
    if not {"MAJOR", "MINOR", "MICRO"} <= found.keys():
        raise InputError("it names no release", where=str(paths[0]))
    return f"{found['MAJOR']}.{found['MINOR']}.{found['MICRO']}-{found.get('DEV', '0')}"


# ---------------------------------------------------------------------------------------------------------- inspection


def read_image_file(path: Path, at: int | None = None) -> tuple[Image, int]:
    """An image in a file, and where it begins: at `at`, at the start, or where the first NBIN stands."""
    data = read_file(path, MAX_IMAGE_BYTES)
    start = at if at is not None else _first(data)
    return read_image(data[start:], str(path) if not start else f"{path} at {start:#x}"), start


def _first(data: bytes) -> int:
    """Packages have the image somewhere inside, at a multiple of eight."""
    start = data.find(_MAGIC)
    while start >= 0 and start % 8:
        start = data.find(_MAGIC, start + 1)
    return max(start, 0)


def params_beside(path: Path, image: Image) -> bytes | None:
    """The second file of a split image, by its name."""
    other = path.with_name(f"{path.stem}_params{path.suffix}")
    return read_file(other, MAX_IMAGE_BYTES) if image.split and other.is_file() else None


def with_pack(options: RelocOptions, pack: Path | None) -> RelocOptions:
    return replace(options, runtime=runtime_of(pack)) if pack is not None and not options.runtime else options
