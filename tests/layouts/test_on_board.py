"""An image of the layout `openmv` on the virtual board, where OpenMV's firmware puts small files: on the chip, with
what the processor wrote still in its cache."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.delivery.layouts.every import layout_files, with_layout
from atonc.delivery.layouts.openmv import LAYOUT
from atonc.delivery.reloc.build import RelocOptions, build
from atonc.delivery.reloc.image import Image, read_image
from atonc.delivery.trials import boarding
from atonc.delivery.trials.loading import XIP, InstallError, LoaderRig, Spot
from atonc.insight.validating import validating
from atonc.machine.base.errors import InputError
from tests.emit.generated import DIGITS, needs_compiler
from tests.reloc import images

pytestmark = needs_compiler
AXISRAM2 = 0x3410_0040
ON_CHIP = Spot(XIP, file=AXISRAM2)


class UncleanRig(LoaderRig):
    """Files get there by the hand of the processor: its cache has them, the memory behind has not."""

    def put(self, address: int, data: bytes) -> None:
        super().put(address, data)
        assert self.board.cache is not None
        for part in self.board.cache.parts:
            if part.base <= address < part.end:
                cut = slice(address - part.base, address - part.base + len(data))
                part.memory[cut] = 0
                part.clean[cut] = 0


@cache
def _view(board: str = "") -> CompileView:
    options = Options(verify=False, **({"board": board} if board else {}))
    return generating.analyze(DIGITS, with_layout(options, LAYOUT))


@cache
def _image() -> Image:
    return read_image(layout_files(LAYOUT, _view())["network.bin"], "network.bin")


def _equal(rig: LoaderRig, image: Image) -> bool:
    rig.install(image, spot=ON_CHIP)
    view = _view()
    return boarding.compare(view, validating.synthetic_samples(view.compiled.source, 2, 7), rig).equal


def test_a_small_image_runs_from_the_chips_memory() -> None:
    assert _equal(UncleanRig(images.loader()), _image())


def test_without_cleaning_the_npu_reads_something_else() -> None:
    """So the test above can fail."""
    folder = images.FOLDER / "openmv_plain"
    generating.generate(_view(), folder)
    plain = images.image(folder, RelocOptions()).image
    assert not _equal(UncleanRig(images.loader()), plain)


def test_an_image_for_the_cache_is_refused_on_the_chip() -> None:
    cached = read_image(layout_files(LAYOUT, _view("romfs@openmv-n6"))["network.bin"], "network.bin")
    with pytest.raises(InstallError, match=r"PARAMS|EXT_RAM"):
        images.rig().install(cached, spot=ON_CHIP)


def test_a_split_image_cannot_clean_the_other_file() -> None:
    folder = images.FOLDER / "openmv_plain"
    generating.generate(_view(), folder)
    with pytest.raises(InputError, match="--split"):
        build(images.building.find_toolchain(), folder, RelocOptions(split=True, cleans=True), images.FOLDER)


def test_zeros_are_an_input_too() -> None:
    rig = UncleanRig(images.loader())
    rig.install(_image(), spot=ON_CHIP)
    first = rig.run([np.zeros(64, np.uint8)]).outputs[0]
    assert (rig.run([np.zeros(64, np.uint8)]).outputs[0] == first).all()
