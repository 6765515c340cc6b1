"""Do the folders for Zephyr, OpenMV, Rust and CMSIS fit the projects that they are for?

Names in the folders are held against the projects' own files, from copies of the repositories (read, not built). What
somebody built of a folder is looked at where it is given: a firmware around OpenMV's backend installs images on the
virtual board, a Zephyr firmware must contain network, runtime and driver.

LOADER answers the commands of `runtime/harness/loader_main.c` by calling OpenMV's `ml_backend_init_model` and
`ml_backend_run_inference`; its words `omv_size` and `omv_from_file` say how long the file is, and whether the processor
copies it to the first heap (AXISRAM2, then external RAM) or leaves it where it is, as in the ROM file system.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.delivery.layouts import rust, zephyr
from atonc.delivery.layouts.every import LAYOUTS, layout_files, with_layout, write_folder
from atonc.delivery.reloc.image import read_image
from atonc.delivery.trials import boarding
from atonc.delivery.trials.loading import LoaderRig
from atonc.insight.validating import validating
from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.board import read_firmware
from benchmarks.shared import bare_git
from benchmarks.shared.corpus import ON_THE_BOARD, chosen
from benchmarks.shared.declare import MODEL_FILES, ONE_FETCHED, WRITE, Report, argument
from benchmarks.shared.tables import head, in_a_cell, row, short

GROUP = "board"
ARGUMENTS = (
    ONE_FETCHED,
    MODEL_FILES,
    argument("--loader", type=Path, metavar="ELF", help="a firmware around OpenMV's backend, for the virtual board"),
    argument("--zephyr-elf", type=Path, metavar="ELF", help="what Zephyr built of the module's sample"),
    WRITE,
)

ZEPHYR, OPENMV, EMBASSY = "zephyrproject-rtos+zephyr", "openmv+openmv", "embassy-rs+embassy"
PACK, TOOLBOX = "Open-CMSIS-Pack+Open-CMSIS-Pack-Spec", "Open-CMSIS-Pack+devtools"
DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.tflite"
NO_CPU = ("dense",)  # the last tensor of the example before its softmax
INPUTS = 2
INTRODUCTION = """# Folders for other projects

`generate --layout` for the example network, held against the projects that the folders are for. "Read": names and
places compared with the files of the commit. "Built": what a compiler made of the folder with the sources of that
commit; those builds are made by hand, this page looks at what came out. Nothing here has run on a board.

By hand, 2026-11-17: every source of the pack compiled for the Cortex-M55 without a warning, with CMSIS and device
headers; no command of this repository does that again. `cargo check` of the crate `embassy` in the folder for Rust
passed without a warning against the driver's own `npu` sources of the commit below, with stand-ins for the rest of
embassy, on an ordinary computer.
"""
IMAGES = """
## Images under OpenMV's backend, on the virtual board

OpenMV's own backend and loader (sources of the commit above, unchanged) installed each image in place and ran it, with
a data cache that writes nothing back by itself. From a file: the processor copied it to the first heap, AXISRAM2, where
there is room for it, else to external RAM. In flash: it stays there, as in the ROM file system. Every output byte is
compared with the emulator's. The last column but one: the same network with its weights marked for the NPU cache, as
other images have them, loaded from a file.
"""
COLUMNS = ("model", ">bytes", "file at", ">different from it", ">different in flash", "cached, from a file", "")


@dataclass(frozen=True)
class Finding:
    """One line of the table: what was held against what."""

    layout: str
    what: str
    good: bool
    said: str


def run(arguments: argparse.Namespace) -> Report:
    fetched = arguments.fetched
    commits = {name: bare_git.commit_of(fetched, name) for name in (ZEPHYR, OPENMV, EMBASSY, PACK, TOOLBOX)}
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        folders = {name: _folder(name, work) for name in LAYOUTS}
        found = [
            *_zephyr(fetched, folders["zephyr"], arguments.zephyr_elf, work),
            *_rust(fetched, folders["rust"], work),
            *_cmsis(fetched, folders["cmsis"], work),
        ]
    rows = [row((one.layout, one.what, "yes" if one.good else "**no**", in_a_cell(one.said))) for one in found]
    versions = [row((name.replace("+", "/"), f"`{commit}`")) for name, commit in commits.items()]
    page = [INTRODUCTION, *head("repository", "commit"), *versions, "", *head("layout", "what", "holds", ""), *rows]
    failed = not all(one.good for one in found)
    if arguments.loader is not None:
        images = list(_images(arguments))
        page += [IMAGES, *head(*COLUMNS)]
        page += [text for text, _ in images]
        failed = failed or not all(good for _, good in images)
    return Report("\n".join([*page, ""]), failed=failed)


def _view(name: str, model: Path = DIGITS, **options: Any) -> CompileView:
    return generating.analyze(model, with_layout(Options(verify=False, **options), LAYOUTS[name]))


def _folder(name: str, work: Path) -> Path:
    layout = LAYOUTS[name]
    folder = work / layout.folder("network")
    write_folder(folder, layout_files(layout, _view(name, cut_outputs=NO_CPU)))
    return folder


# -------------------------------------------------------------------------------------------------------------- zephyr


def _zephyr(fetched: Path, folder: Path, elf: Path | None, work: Path) -> Iterator[Finding]:
    places = ("dts/arm/st/n6", "dts/bindings/misc", "boards/st/stm32n6570_dk", "soc/st/stm32/stm32n6x/npu")
    tree = bare_git.unpack(fetched, ZEPHYR, work / "zephyr", places)
    chip = (tree / "dts/arm/st/n6/stm32n6.dtsi").read_text()
    for base, node in zephyr.NODES.items():
        yield Finding("zephyr", f"read: node {node}", f"{node}: memory@{base:x}" in chip, f"at {base:#x}")
    binding = (tree / "dts/bindings/misc/st,stm32-npu.yaml").read_text()
    npu = re.search(r"npu: npu@[0-9a-f]+ \{\s+compatible = \"(.*?)\"", chip)
    good = npu is not None and f'compatible: "{npu[1]}"' in binding
    yield Finding("zephyr", "read: node npu and its binding", good, npu[1] if npu else "no node")
    switch = "config STM32N6_NPU\n" in (tree / "soc/st/stm32/stm32n6x/npu/Kconfig").read_text()
    yield Finding("zephyr", "read: STM32N6_NPU, on which the network depends", switch, "")
    board = (tree / "boards/st/stm32n6570_dk/stm32n6570_dk_common.dtsi").read_text()
    ends = [int(start, 16) + int(size) * 1024 for start, size in
            re.findall(r"partition@[0-9a-f]+ \{[^}]*?reg = <(0x[0-9a-f]+) DT_SIZE_K\((\d+)\)>", board)]  # fmt: skip
    ours = re.search(r"partition@([0-9a-f]+)", (folder / "npu.overlay").read_text())
    free = bool(ends) and ours is not None and int(ours[1], 16) >= max(ends)
    yield Finding("zephyr", "read: weights lie behind the board's partitions", free, f"those end at {max(ends):#x}")
    if elf is not None:
        names = read_firmware(elf).symbols.keys()
        wanted = ("LL_ATON_RT_RunEpochBlock", "NPU0_IRQHandler", "npu_stm32_init", "atonc_npu_event", "z_arm_reset")
        missing = [name for name in wanted if name not in names]
        yield Finding("zephyr", "built: the sample's firmware", not missing, f"{', '.join(missing or wanted)}")


# ---------------------------------------------------------------------------------------------------------------- rust


def _rust(fetched: Path, folder: Path, work: Path) -> Iterator[Finding]:
    commit = bare_git.commit_of(fetched, EMBASSY)
    yield Finding("rust", "read: the revision in Cargo.toml", commit == rust.EMBASSY_REVISION, rust.EMBASSY_REVISION)
    tree = bare_git.unpack(fetched, EMBASSY, work / "embassy", ("embassy-stm32/src/npu/",)) / "embassy-stm32/src/npu"
    driver, caches = (tree / "mod.rs").read_text(), (tree / "cache.rs").read_text()
    names = {
        "pub async fn run_network(&mut self, epochs: &[EpochBlock<'_>]) -> Result<(), Error>": driver,
        "pub const fn hw(blob: &'a [u64]) -> Self": driver,
        "pub fn mcu_clean_range(start: u32, len: u32)": caches,
        "pub fn mcu_invalidate_range(start: u32, len: u32)": caches,
    }
    for name, text in names.items():
        yield Finding("rust", "read: " + name.partition("(")[0].rpartition(" ")[2], name in text, name)
    magic = re.search(r"BLOB_MAGIC: u32 = (0x[0-9A-F_]+)", (tree / "ecloader.rs").read_text())
    first = struct.unpack("<I", sorted((folder / "blobs").iterdir())[0].read_bytes()[:4])[0]
    yield Finding("rust", "read: the magic of our blobs", magic is not None and int(magic[1], 16) == first, hex(first))
    if shutil.which("cargo") is None:
        return
    for features in ((), ("--no-default-features",)):
        yield _cargo(folder, features, "on this computer")


def _cargo(folder: Path, features: tuple[str, ...], said: str) -> Finding:
    done = subprocess.run(
        ["cargo", "check", "--offline", *features], cwd=folder, capture_output=True, text=True, errors="replace"
    )
    good = done.returncode == 0 and "warning" not in done.stderr
    words = " ".join(("cargo check of", folder.name, *features))
    return Finding("rust", f"built: {words}", good, said if good else done.stderr[-300:])


# --------------------------------------------------------------------------------------------------------------- cmsis


def _cmsis(fetched: Path, folder: Path, work: Path) -> Iterator[Finding]:
    (pack,) = folder.glob("*.pdsc")
    schema = bare_git.unpack(fetched, PACK, work / "pack", ("schema/PACK.xsd",)) / "schema/PACK.xsd"
    try:
        import xmlschema  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        yield Finding("cmsis", "read: the pack by PACK.xsd", False, "not looked at: pip install xmlschema")
    else:
        errors = [str(error.reason) for error in xmlschema.XMLSchema(str(schema)).iter_errors(str(pack))]
        yield Finding("cmsis", "read: the pack by PACK.xsd", not errors, "; ".join(errors[:3]))
    places = "tools/projmgr/schemas/"
    yield from _project_files(bare_git.unpack(fetched, TOOLBOX, work / "toolbox", (places,)) / places, folder)


def _project_files(schemas: Path, folder: Path) -> Iterator[Finding]:
    try:
        import yaml
        from jsonschema import Draft7Validator  # type: ignore[import-untyped, unused-ignore]
        from referencing import Registry, Resource  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        yield Finding("cmsis", "read: project files by their schemas", False, "not looked at: pip install jsonschema")
        return
    documents: dict[str, Any] = {path.name: json.loads(path.read_text()) for path in sorted(schemas.glob("*.json"))}
    registry = Registry()
    for name, document in documents.items():
        resource = Resource.from_contents(document)
        for known in (name, document.get("$id", name), f"{document.get('$id', '').rpartition('/')[0]}/{name}"):
            registry = registry.with_resource(known, resource)
    for path in sorted(folder.rglob("*.yml")):
        kind = path.name.split(".")[-2]
        judge = Draft7Validator(documents[f"{kind}.schema.json"], registry=registry)
        errors = [error.message for error in judge.iter_errors(yaml.safe_load(path.read_text()))]
        yield Finding("cmsis", f"read: {path.name} by {kind}.schema.json", not errors, "; ".join(errors[:3]))


# -------------------------------------------------------------------------------------------------------------- openmv


def _images(arguments: argparse.Namespace) -> Iterator[tuple[str, bool]]:
    models = [DIGITS, *chosen(arguments, ON_THE_BOARD)]
    for model in models:
        try:
            yield _image_row(model, arguments.loader)
        except AtoncError as error:
            yield row((short(model.stem), "", "", "", "", "", f"not made: {in_a_cell(error)}")), True


def _image_row(model: Path, loader: Path) -> tuple[str, bool]:
    view = _view("openmv", model)
    data = layout_files(LAYOUTS["openmv"], view)["network.bin"]
    file, rom = (_installed(loader, view, data, from_file) for from_file in (True, False))
    cached = _view("openmv", model, board="romfs@openmv-n6")
    other = _installed(loader, cached, layout_files(LAYOUTS["openmv"], cached)["network.bin"], True)
    good = file.get("different") == rom.get("different") == 0
    print(model.stem, len(data), file, rom, other, flush=True)
    told = [found.get("error") or f"{found['different']} of {found['compared']}" for found in (file, rom, other)]
    return row((short(model.stem), f"{len(data):,}", file.get("at", ""), *told, "")), good


def _installed(loader: Path, view: CompileView, data: bytes, from_file: bool) -> Mapping[str, Any]:
    """Where the file lay, and how many output bytes differ from the emulator's; or the backend's words."""
    rig = LoaderRig(loader)
    for name, value in (("omv_size", len(data)), ("omv_from_file", int(from_file))):
        rig.board.poke(rig.board.firmware.symbols[name], np.frombuffer(struct.pack("<I", value), np.uint8))
    try:
        rig.install(read_image(data, "network.bin"))
    except AtoncError:
        said = next((line for line in rig.said if line.startswith("OMV RAISE")), "refused")
        return {"error": said.removeprefix("OMV RAISE ")}
    (at,) = [line.split()[-1] for line in rig.said if line.startswith("OMV DATA")]
    found = boarding.compare(view, validating.synthetic_samples(view.compiled.source, INPUTS, 7), rig)
    return {"at": at, "different": found.bytes_different, "compared": found.bytes_compared}
