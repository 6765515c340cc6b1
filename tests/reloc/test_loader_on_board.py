"""Images of ours, installed by our loader as Arm code on the virtual board, give the emulator's bytes."""

from __future__ import annotations

import re
import shutil
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compile.compile_view import CompileView
from atonc.delivery.reloc.build import BuiltImage
from atonc.delivery.reloc.image import code_crc32, read_image
from atonc.delivery.trials import boarding, loading
from atonc.delivery.trials.boarding import FirmwareError
from atonc.delivery.trials.loading import CLEAR, COPY, XIP, InstallError, LoaderRig, Spot
from atonc.insight.validating import validating
from tests.board.programs import needs_compiler
from tests.reloc import images
from tests.reloc.images import FOR_BOARD

pytestmark = needs_compiler

# file, parameters, RAM: as ST's firmware has them; odd ones; everything in external RAM
SPOTS = (
    Spot(),
    Spot(file=0x7123_4560, params=0x7200_0040, exec_ram=0x3408_0020),
    Spot(file=0x9080_0000, params=0x90C0_0000, exec_ram=0x91C0_0000),
)


def equals_emulator(rig: LoaderRig, view: CompileView, slot: int = 0) -> bool:
    samples = validating.synthetic_samples(view.compiled.source, 1, 7)
    found = boarding.compare(view, samples, rig, number=slot)
    assert found.bytes_compared > 0
    return found.equal


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("mode", [XIP, COPY | CLEAR])
def test_three_places(split: bool, mode: int) -> None:
    built = images.image(images.folder(), replace(FOR_BOARD, split=split))
    assert bool(built.params) == split
    rig = images.rig()
    for spot in SPOTS:
        line = rig.install(built.image, built.params, replace(spot, mode=mode))
        sizes = built.image.xip_bytes, built.image.copy_bytes, built.image.params_offset, 0
        assert line.split()[2:] == ["network", *map(str, sizes)]
        assert equals_emulator(rig, images.view())


@pytest.mark.parametrize("memories", ["ram", "inside"])
@pytest.mark.parametrize("blobs_in_params", [False, True])
def test_constants_that_are_copied(memories: str, blobs_in_params: bool) -> None:
    """Into external RAM that the application gives, or to fixed addresses."""
    built = images.image(images.folder(memories), replace(FOR_BOARD, blobs_in_params=blobs_in_params))
    label = {"ram": "RELOC.MIXED.1.WCACHED", "inside": "COPY.MIXED.WRITE"}[memories]
    assert label in [pool.label() for pool in built.image.pools]
    rig = images.rig()
    for mode in (XIP, COPY):
        rig.install(built.image, spot=Spot(mode=mode))
        assert equals_emulator(rig, images.view(memories))


def test_programs_beside_the_parameters() -> None:
    built = images.image(images.folder(), replace(FOR_BOARD, split=True, blobs_in_params=True))
    plain = images.image(images.folder(), replace(FOR_BOARD, split=True))
    assert len(built.params) > len(plain.params) and built.image.copy_bytes < plain.image.copy_bytes
    images.rig().install(built.image, built.params, Spot(mode=COPY))
    assert equals_emulator(images.rig(), images.view())


def test_driver_calls_instead_of_programs() -> None:
    built = images.image(images.folder(epoch_controller=False))
    images.rig().install(built.image, spot=Spot(mode=COPY))
    assert equals_emulator(images.rig(), images.view(epoch_controller=False))


def test_buffers_of_the_application() -> None:
    built = images.image(images.folder(user_io=True))
    rig = images.rig()
    rig.install(built.image, spot=Spot())
    assert all(buffer.user for buffer in (*rig.inputs[0], *rig.outputs[0]))
    assert equals_emulator(rig, images.view(user_io=True))


@pytest.mark.parametrize("runtime", ["1.1.1-14", "1.1.3-8", "1.1.3-262"])
def test_images_for_every_release(runtime: str) -> None:
    built = images.image(images.folder(), replace(FOR_BOARD, runtime=runtime))
    assert built.image.abi is not None and built.image.abi.evidence == runtime
    images.rig().install(built.image)
    assert equals_emulator(images.rig(), images.view())


def test_two_images_side_by_side() -> None:
    """They take turns in the same working memory; constants and code are apart."""
    first, second = images.image(images.folder()), images.image(images.folder("ram"))
    rig = images.rig()
    rig.install(first.image, spot=Spot(mode=COPY), slot=0)
    rig.install(second.image, spot=Spot(COPY, file=0x7200_0000, exec_ram=0x340A_0000), slot=1)
    for _ in range(2):
        assert equals_emulator(rig, images.view(), 0)
        assert equals_emulator(rig, images.view("ram"), 1)


# ------------------------------------------------------------------------------------------------------------ refusals


def mended(data: bytes, note: int) -> bytes:
    """With the checksum of the code right again."""
    out = bytearray(data)
    size = struct.unpack_from("<I", out, note + 8)[0]
    struct.pack_into("<I", out, note + 12, code_crc32(bytes(out[:size]), note))
    return bytes(out)


def changed(built: BuiltImage, at: int, word: int, mend: bool = True) -> BuiltImage:
    """One word of the file, the checksum of the code mended."""
    out = bytearray(built.image.data)
    struct.pack_into("<I", out, at, word)
    assert built.image.note is not None
    data = mended(bytes(out), built.image.note.offset) if mend else bytes(out)
    return replace(built, image=replace(built.image, data=data))


def header(name: int, value: Callable[[int], int]) -> Callable[[BuiltImage], BuiltImage]:
    def change(built: BuiltImage) -> BuiltImage:
        return changed(built, 4 * name, value(struct.unpack_from("<I", built.image.data, 4 * name)[0]))

    return change


def context(word: int, value: int) -> Callable[[BuiltImage], BuiltImage]:
    def change(built: BuiltImage) -> BuiltImage:
        at = built.image.ro_bytes + (built.image.entries["ctx"] & 0x0FFF_FFFF) + 4 * word
        return changed(built, at, value)

    return change


def note_word(word: int, value: int) -> Callable[[BuiltImage], BuiltImage]:
    def change(built: BuiltImage) -> BuiltImage:
        assert built.image.note is not None
        return changed(built, built.image.note.offset + 4 * word, value)

    return change


def flipped(at: int, mend: bool) -> Callable[[BuiltImage], BuiltImage]:
    def change(built: BuiltImage) -> BuiltImage:
        place = at if at >= 0 else len(built.image.data) + at
        old = struct.unpack_from("<I", built.image.data, place // 4 * 4)[0]
        return changed(built, place // 4 * 4, old ^ 0x100, mend)

    return change


REFUSALS = {
    "MAGIC": header(0, lambda w: w ^ 1),
    "FORMAT": header(1, lambda w: w + (1 << 28)),
    "CPU": header(1, lambda w: w + 1),
    "FPU": header(1, lambda w: w & ~(3 << 13)),
    "SECURE": header(1, lambda w: w & ~(1 << 20)),
    "BUILD": header(1, lambda w: w & ~(1 << 21)),
    "SECTIONS": header(10, lambda w: w | 0x0FFF_FFFC),
    "VERSION": context(10, 0x0101_0000),
    "STRUCTS": context(14, 57 | 48 << 8),
    "CALLBACKS": note_word(4, 8 | 2 << 8),
    "CODE_CRC": flipped(0x200, mend=False),
    "PARAMS_CRC": flipped(-8, mend=False),
    "PARAMS": context(12, 0x1000_0000),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_the_loader_refuses(reason: str) -> None:
    built = REFUSALS[reason](images.image(images.folder()))
    with pytest.raises(InstallError) as found:
        images.rig().install(built.image)
    assert found.value.reason == reason


def test_a_pool_where_nobody_may_write() -> None:
    built = images.image(images.folder("inside"))
    image = built.image
    table = image.ro_bytes + (image.sections["params_start"] & 0x0FFF_FFFF)
    for place in (0x3400_0400, 0x2400_0400, 0x5600_0000, 0x7100_0000, loading.EXEC_RAM, 0xFFFF_FF00):
        with pytest.raises(InstallError) as found:
            images.rig().install(changed(built, table + 12, place).image, spot=Spot(mode=COPY))
        assert found.value.reason == "POOL_MEMORY"


def test_memory_that_does_not_suffice() -> None:
    built, external = images.image(images.folder()), images.image(images.folder("ram"))
    for image, spot, reason in (
        (built.image, Spot(exec_ram_bytes=built.image.xip_bytes - 8), "EXEC_RAM"),
        (built.image, Spot(COPY, exec_ram_bytes=built.image.copy_bytes - 8), "EXEC_RAM"),
        (built.image, Spot(exec_ram=0x3406_0004), "EXEC_RAM"),
        (built.image, Spot(COPY, exec_ram=loading.FLASH + 64), "EXEC_RAM"),
        (external.image, Spot(ext_ram=0), "EXT_RAM"),
        (external.image, Spot(ext_ram_bytes=external.image.context.ext_ram_bytes - 1), "EXT_RAM"),
        (built.image, Spot(mode=0), "ARGUMENT"),
        (built.image, Spot(mode=XIP | COPY), "ARGUMENT"),
    ):
        with pytest.raises(InstallError) as found:
            images.rig().install(image, spot=spot)
        assert found.value.reason == reason, spot
    exact = Spot(COPY, exec_ram_bytes=built.image.copy_bytes)
    images.rig().install(built.image, spot=exact)
    assert equals_emulator(images.rig(), images.view())


def test_only_the_expected_model() -> None:
    built = images.image(images.folder())
    assert built.image.note is not None
    right = built.image.note.model_hash
    images.rig().install(built.image, model=right)
    with pytest.raises(InstallError) as found:
        images.rig().install(built.image, model=bytes([right[0] ^ 1]) + right[1:])
    assert found.value.reason == "MODEL"


def test_parameters_of_another_model() -> None:
    built = images.image(images.folder(), replace(FOR_BOARD, split=True))
    other = bytearray(built.params)
    other[5] ^= 1
    with pytest.raises(InstallError) as found:
        images.rig().install(built.image, bytes(other))
    assert found.value.reason == "PARAMS_CRC"
    with pytest.raises(InstallError) as found:
        images.rig().install(built.image)
    assert found.value.reason == "PARAMS"


def test_the_note_says_what_the_file_holds() -> None:
    built = images.image(images.folder())
    image, note = built.image, built.image.note
    assert note is not None and note.code_bytes == image.params_offset
    assert zlib.crc32(image.data[image.params_offset :]) == image.context.params_crc32
    assert read_image(image.data).note == note


def test_an_assertion_in_an_image_ends_the_inference(tmp_path: Path) -> None:
    """Code of ST's images waits for ever behind one; the runtime leaves it there and reports an error."""
    folder = tmp_path / "network"
    shutil.copytree(images.folder(), folder)
    (folder / "network_manifest.json").unlink()
    source = folder / "network.c"
    pattern = r"(static void LL_ATON_End_EpochBlock_\d+\([^)]*\)\n\{\n)"
    text, count = re.subn(pattern, lambda found: f"{found[1]}  broken();\n", source.read_text())
    assert count
    broken = (
        '\n#include "image.h"\nstatic void broken(void)\n{\n'
        '  atonc_image_context.cbs->assert_func("file", 7, "function", "claim");\n  for (;;) { }\n}\n'
    )
    source.write_text(f"static void broken(void);\n{text}{broken}")
    rig = LoaderRig(images.loader())
    rig.install(images.image(folder, FOR_BOARD).image)
    with pytest.raises(FirmwareError, match=r"ATONC ERROR 25 (?s:.*) detail 0x00000007 UNSUPPORTED"):
        rig.run([np.zeros(buffer.size_bytes, np.uint8) for buffer in rig.inputs[0]])
    rig.install(images.image(images.folder()).image, spot=Spot(COPY))
    assert equals_emulator(rig, images.view()), "the next image runs"
