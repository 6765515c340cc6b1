"""CMSIS: a pack with the network and the runtime as components, and a csolution project that uses it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from xml.sax.saxutils import escape, quoteattr

from atonc.compiler.emit.c.names import word
from atonc.delivery.layouts import layout as ways
from atonc.delivery.layouts.layout import FolderLayout, LayoutNetwork, LayoutRefusal
from atonc.machine.base.templates import Words, render_folder
from atonc.machine.base.words import listed

VENDOR, VERSION = "atonc", "1.0.0"
SCHEMA = "1.7.28"  # of the pack description: what CMSIS-Toolbox 2.x and the IDEs of its time read
DEVICE = "STMicroelectronics::STM32N657X0HxQ"
_CLASS = "Machine Learning"


def _files(given: LayoutNetwork) -> Mapping[str, bytes]:
    name = word(given.name)
    runtime = ways.runtime_files("runtime")
    sources = {f"network/{file}": data for file, data in given.sources.items()}
    weights = {f"weights/{word(file.rpartition('.')[0])}.bin": data for file, data in given.memory_images.items()}
    places = [f"`{path}` at {given.base_of(file):#x}" for path, file in zip(weights, given.memory_images, strict=True)]
    defines = ["LL_ATON_RT_MODE: LL_ATON_RT_ASYNC"] + (["ATONC_EC_ONLY"] if given.network.epoch_controller else [])
    words = {
        **ways.words_of(given),
        **{"name": name, "pack": f"{name}_npu", "vendor": VENDOR, "version": VERSION, "schema": SCHEMA},
        **{"device": DEVICE, "component": _CLASS},
        "description": escape(f"The network {given.name} for the NPU of the STM32N6"),
        "runtime": list(_file_rows("runtime/include/", runtime)),
        "network": list(_file_rows("network/", (*sources, *weights))),
        "defines": [{"define": one} for one in defines],
        "weights": listed(places) or "there are none",
    }
    main = ways.sample_main(given, "#include <stdio.h>\n", "printf").encode()
    return {**render_folder("layouts/cmsis", words), "sample/main.c": main, **sources, **runtime, **weights}


_CATEGORIES = {".c": "source", ".h": "header"}


def _file_rows(include: str, paths: Iterable[str]) -> Iterator[Words]:
    yield {"category": "include", "path": quoteattr(include)}
    for path in paths:
        yield {"category": _CATEGORIES.get(path[path.rfind(".") :], "other"), "path": quoteattr(path)}


def _refuses(given: LayoutNetwork) -> Iterator[LayoutRefusal]:
    yield from ways.refuse_ram_constants(given, "the sample copies no constants to RAM")
    yield from ways.refuse_open_places(given, "the project is linked with every address known")


LAYOUT = FolderLayout(
    name="cmsis",
    title="a CMSIS pack and a csolution project",
    page="cmsis-pack.md",
    files=_files,
    refuses=_refuses,
)
