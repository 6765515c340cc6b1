"""All layouts, and how a compiled network becomes the files of one.

A folder is written with all of its files or none; what the user changed there is never replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.request.options import Options
from atonc.delivery.firmware.building import find_toolchain
from atonc.delivery.firmware.image import DEFAULT_BOARD
from atonc.delivery.generate.generating import files_of
from atonc.delivery.generate.preflight import check_packages
from atonc.delivery.layouts import cmsis, openmv, rust, tflite, zephyr
from atonc.delivery.layouts.layout import FolderLayout, LayoutNetwork, refuse_residents, refuse_states
from atonc.delivery.reloc.build import build
from atonc.delivery.reloc.options import RelocOptions
from atonc.machine.base.build_folder import Trees, write_trees
from atonc.machine.base.disk import read_file, write_files
from atonc.machine.base.errors import ConflictError, InputError, UnsupportedError
from atonc.machine.base.progress import stage

MANIFEST = "atonc_layout.json"
FORMAT = "atonc layout 1"
_MOST_BYTES, _MOST_HASHED, _MOST_FILES = 1 << 20, 1 << 29, 10_000


def write_folder(folder: Path, files: Mapping[str, bytes], leavings: Sequence[str] = ()) -> list[Path]:
    """Replaces the folder as a whole, if everything in it is as it was written, or only what tools leave behind."""
    require_own(folder, leavings)
    return write_trees(folder.parent, {folder.name: with_manifest(files)})


def with_manifest(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The files, and one that says what they were: so it can be seen later what the user changed."""
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in sorted(files.items())}
    return {**files, MANIFEST: (json.dumps({"format": FORMAT, "files": digests}, indent=1) + "\n").encode()}


def require_own(folder: Path, leavings: Sequence[str] = ()) -> None:
    """A folder that is there holds what a layout wrote and what tools write again (`leavings`), nothing else."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir() or folder.is_symlink():
        raise InputError("is there, and is not a folder of ours", where=str(folder), remedy="name another -o")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):  # a folder without that cannot be moved away either
        raise InputError("cannot be replaced: no permission", where=str(folder), remedy="name another -o")
    there = {path.relative_to(folder).as_posix() for path in _files(folder)}
    strange = sorted(path for path in _changed(folder, there) if not any(fnmatchcase(path, one) for one in leavings))
    if strange:
        more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
        raise InputError(
            f"has files that atonc did not write, or that were changed: {', '.join(strange[:3])}{more}",
            where=str(folder),
            rule="a layout replaces its folder as a whole",
            remedy="keep your files beside the folder, not in it; or move the folder away, or name another -o",
        )


def _files(folder: Path) -> list[Path]:
    found = []
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            found.append(path)
        if len(found) > _MOST_FILES:
            break
    return found


def _changed(folder: Path, there: set[str]) -> set[str]:
    if MANIFEST not in there:
        return there
    try:
        told = json.loads(read_file(folder / MANIFEST, _MOST_BYTES))
        digests = told["files"] if told["format"] == FORMAT else {}
        return {path for path in there - {MANIFEST} if _digest(folder / path) != digests.get(path)}
    except (InputError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {MANIFEST}


def _digest(path: Path) -> str:
    """Nothing for what cannot be read: then it is not as it was written."""
    try:
        return "" if path.is_symlink() else hashlib.sha256(read_file(path, _MOST_HASHED)).hexdigest()
    except InputError:
        return ""


LAYOUTS = {layout.name: layout for layout in (zephyr.LAYOUT, openmv.LAYOUT, rust.LAYOUT, cmsis.LAYOUT, tflite.LAYOUT)}


def find_layout(name: str) -> FolderLayout:
    if name not in LAYOUTS:
        raise InputError(f"there is no layout {name[:40]!r}", rule=f"layouts: {', '.join(LAYOUTS)}")
    layout = LAYOUTS[name]
    if layout.package is not None:
        check_packages(layout.package[0], extra=layout.package[1])
    return layout


def with_layout(options: Options, layout: FolderLayout) -> Options:
    """What a layout wants of the compiler: the memories of its board, unless the user named others; an image."""
    if layout.image is not None and options.prefetch:
        raise ConflictError(
            f"--prefetch dma does not go with --layout {layout.name}",
            rule="its folder has a relocatable image, and lists of the DMA are written for fixed addresses",
            remedy=f"leave out --prefetch dma or --layout {layout.name}",
        )
    board = layout.board if layout.board and options.board == DEFAULT_BOARD and not options.mpool else options.board
    return replace(options, board=board, relocatable=options.relocatable or layout.image is not None)


def require_taken(layout: FolderLayout, view: CompileView) -> None:
    """Stops at the first thing that the layout cannot take; names the others too."""
    given = LayoutNetwork(view, {})
    kept = (refuse_residents, *((refuse_states,) if layout.carries else ())) if layout.forgets else ()
    found = [*layout.refuses(given), *(one for refuse in kept for one in refuse(given, layout.forgets))]
    if found:
        first = found[0]
        error = UnsupportedError(
            first.seen, where=f"--layout {layout.name}, network {view.name}", rule=first.rule, remedy=first.remedy
        )
        error.details = tuple(f"also: {one.seen} ({one.rule}; {one.remedy})" for one in found[1:])
        raise error


def layout_files(layout: FolderLayout, view: CompileView, runtime: str = "") -> Mapping[str, bytes]:
    """Path inside the folder -> contents. `runtime`: the release of LL_ATON that an image is for."""
    require_taken(layout, view)
    generated = files_of(view, runtime=runtime)
    image = b"" if layout.image is None else _image(view.name, generated, replace(layout.image, runtime=runtime))
    return layout.files(LayoutNetwork(view, generated, image, runtime))


def layout_tree(layout: FolderLayout, view: CompileView, folder: Path, runtime: str = "") -> Trees:
    """`FOLDER/NAME_LAYOUT`, for whoever writes the build: both take their places in one step."""
    place = layout.folder(view.name)
    require_own(folder / place, layout.leavings)
    return {place: with_manifest(layout_files(layout, view, runtime))}


def advised(layout: FolderLayout, view: CompileView) -> CompileView:
    """The view whose next steps are those that the layout takes."""
    return replace(view, may_be_resident=not layout.forgets)


def _image(name: str, generated: Mapping[str, bytes], options: RelocOptions) -> bytes:
    stage("building the image")
    with tempfile.TemporaryDirectory(prefix="atonc_") as temporary:
        folder, work = Path(temporary, "generated"), Path(temporary, "work")
        work.mkdir()
        write_files(folder, generated)
        return build(find_toolchain(), folder, replace(options, name=name), work).image.data
