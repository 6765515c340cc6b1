"""Does `atonc reloc --inspect` read of an image what ST's own reader does, field by field?

The reader is binary_mgr.py of the N6_reloc package; the images are the two that are public, and some of ours.

DIR holds SeongMin1000+N6_cusotm_validation/scripts/N6_reloc, harryhua-ai+ne301/bin/ne301_Model_pkg.bin and
rishi-latchmepersad+embedded-gauge-reading-tinyml/firmware/stm32/n657/Appli/Src/obb_*_rel_bin.inc. Needs
`pip install colorama tabulate`.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from atonc.compiler.request.options import Options
from atonc.delivery.firmware import building
from atonc.delivery.generate import generating
from atonc.delivery.reloc.build import RelocOptions, build
from atonc.delivery.reloc.image import Image, read_image
from atonc.delivery.trials import relocating
from benchmarks.shared.declare import ONE_FETCHED, WRITE, Report
from benchmarks.shared.tables import head

GROUP = "board"
ARGUMENTS = (ONE_FETCHED, WRITE)

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits" / "digits.tflite"
READER = "SeongMin1000+N6_cusotm_validation/scripts/N6_reloc"
PACKAGE = "harryhua-ai+ne301/bin/ne301_Model_pkg.bin"
ARRAY = (
    "rishi-latchmepersad+embedded-gauge-reading-tinyml/firmware/stm32/n657/Appli/Src/"
    "obb_box_board_bbox_deploy_candidate_rel_bin.inc"
)
INTRODUCTION = """# Images as we read them and as ST does

Every field that ST's `binary_mgr.py` (N6_reloc 1.3) takes from an
image, against the same field of `atonc reloc --inspect`.
"""


def run(arguments: argparse.Namespace) -> Report:
    sys.path.insert(0, str(arguments.fetched / READER))
    theirs = importlib.import_module("binary_mgr").RelocBinaryImage
    lines, bad = [], 0
    for label, image in _images(arguments.fetched):
        pairs = list(_fields(theirs(image.data), image))
        wrong = [f"{name}: ST {one!r}, here {other!r}" for name, one, other in pairs if one != other]
        bad += len(wrong)
        lines.append(f"| {label} | {len(image.data):,} | {len(pairs)} | {len(wrong)} | {'; '.join(wrong[:5])} |")
        print(lines[-1], flush=True)
    page = [INTRODUCTION, *head("image", ">bytes", ">fields", ">different", "which"), *lines, ""]
    return Report("\n".join(page), failed=bool(bad))


def _images(fetched: Path) -> Iterator[tuple[str, Image]]:
    image, start = relocating.read_image_file(fetched / PACKAGE)
    yield f"ne301 model package, at {start:#x}", image
    numbers = re.findall(r"0x([0-9a-fA-F]{1,2})U", (fetched / ARRAY).read_text())
    yield "embedded-gauge-reading, C array", read_image(bytes(int(number, 16) for number in numbers))
    with tempfile.TemporaryDirectory() as temporary:
        view = generating.analyze(DIGITS, Options(verify=False, relocatable=True))
        folder = Path(temporary) / "digits"
        generating.generate(view, folder)
        for runtime in ("1.1.0", "1.1.1"):  # later ones have two entries more, which that reader does not know
            for split in (False, True):
                options = RelocOptions(runtime=runtime, split=split)
                built = build(building.find_toolchain(), folder, options, Path(temporary))
                yield f"ours, digits, {runtime}{', split' if split else ''}", built.image


def _fields(theirs: Any, ours: Image) -> Iterator[tuple[str, object, object]]:
    for name, value in ours.sections.items():
        yield name, theirs[name], value
    names = ("ec_init", "ec_inference", "input_set", "input_get", "output_set", "output_get", "epochs")
    names += ("output_buffers", "input_buffers", "internal_buffers", "ctx")
    for name, value in zip(names, ours.entries.values(), strict=True):
        yield f"ne.{name}", theirs[f"ne.{name}"], value
    said = theirs.decode_flags()
    flags = ours.flags
    yield "version", (said["vers_major"], said["vers_minor"]), (flags.major, flags.minor)
    yield "secure", said["secure"], flags.secure
    yield "dbg_info", said["dbg_info"], flags.debug_info
    yield "async_mode", said["async_mode"], flags.asynchronous
    yield "toolchain", said["toolchain"].value, flags.compiler
    yield "float-abi", said["float-abi"], flags.float_abi
    yield "fpu", said["fpu"], flags.fpu
    yield "cpuid", said["cpuid"], f"{flags.cpu:03X}"
    sizes = (theirs.header_size(), theirs.RO_size(), theirs.RW_size(), theirs.XIP_size(), theirs.COPY_size())
    yield "sizes", sizes, (ours.header_bytes, ours.ro_bytes, ours.rw_bytes, ours.xip_bytes, ours.copy_bytes)
    yield "params_offset", theirs.PARAMS_offset(), ours.params_offset
    context = theirs.get_rt_context()
    yield "c_name", context["c_name"], ours.context.c_name
    yield "acts_sz", context["acts_sz"], ours.context.activations_bytes
    yield "params_sz", context["params_sz"], ours.context.params_bytes
    yield "ext_ram_sz", context["ext_ram_sz"], ours.context.ext_ram_bytes
    yield "rt_version_desc", context["rt_version_desc"], ours.context.runtime
    pools = theirs.get_mempool_c_descriptors()
    yield "number of pools", len(pools), len(ours.pools)
    for k, (one, other) in enumerate(zip(pools, ours.pools, strict=True)):
        found = [other.name or "<undefined>", other.name_address, other.flags, other.label()]
        yield f"pool {k}", one, [*found, other.file_offset, other.destination, other.size_bytes]
