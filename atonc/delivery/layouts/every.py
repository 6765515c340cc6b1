"""All layouts, and how a compiled network becomes the files of one."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.request.options import Options
from atonc.delivery.firmware.building import find_toolchain
from atonc.delivery.firmware.image import DEFAULT_BOARD
from atonc.delivery.generate.generating import files_of
from atonc.delivery.layouts import cmsis, openmv, rust, zephyr
from atonc.delivery.layouts.folder import require_own, with_manifest
from atonc.delivery.layouts.layout import FolderLayout, LayoutNetwork, refuse_residents
from atonc.delivery.reloc.build import build
from atonc.delivery.reloc.options import RelocOptions
from atonc.machine.base.build_folder import Trees
from atonc.machine.base.disk import write_files
from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.base.progress import stage

LAYOUTS = {layout.name: layout for layout in (zephyr.LAYOUT, openmv.LAYOUT, rust.LAYOUT, cmsis.LAYOUT)}


def find_layout(name: str) -> FolderLayout:
    if name not in LAYOUTS:
        raise InputError(f"there is no layout {name[:40]!r}", rule=f"layouts: {', '.join(LAYOUTS)}")
    return LAYOUTS[name]


def with_layout(options: Options, layout: FolderLayout) -> Options:
    """What a layout wants of the compiler: the memories of its board, unless the user named others; an image."""
    board = layout.board if layout.board and options.board == DEFAULT_BOARD and not options.mpool else options.board
    return replace(options, board=board, relocatable=options.relocatable or layout.image is not None)


def require_taken(layout: FolderLayout, view: CompileView) -> None:
    """Stops at the first thing that the layout cannot take; names the others too."""
    given = LayoutNetwork(view, {})
    residents = refuse_residents(given, layout.forgets) if layout.forgets else ()
    found = [*layout.refuses(given), *residents]
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
