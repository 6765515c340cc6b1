"""Do ST's own loaders install and run images of ours?

Their published sources of four releases, compiled as firmware for the virtual board, install the example network and
run it; every output byte against the emulator.

DIR holds the LL_ATON sources with CMSIS and HAL headers of the repositories below, as owner+name/path, and the network
of 76EHwan+ANN_GMPPT with what a board answered: as an image of ours, under our loader, it gives the same.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from atonc.delivery.trials import boarding, loading
from atonc.delivery.trials.loading import CLEAR, COPY, XIP, InstallError, LoaderRig, Spot
from atonc.insight.validating import validating
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.declare import ONE_FETCHED, WRITE, Report
from benchmarks.shared.tables import head
from tests.reloc import images
from tests.reloc.images import FOR_BOARD

GROUP = "board"
ARGUMENTS = (ONE_FETCHED, WRITE)

LOADERS = {
    "1.1.0-31": "STMicroelectronics+STM32N6-GettingStarted-ObjectDetection",
    "1.1.1-14": "harryhua-ai+ne301",
    "1.1.3-8": "STMicroelectronics+STM32N6-GettingStarted-ReID",
    "1.1.3-262": "openmv+openmv",
}
RECORDED = "76EHwan+ANN_GMPPT/.ai/run/run-1/.ai/st_ai_output"
INPUTS = 500
MODES = {"XIP": XIP, "COPY": COPY, "COPY, CLEAR": COPY | CLEAR}
INTRODUCTION = """# Images of ours under ST's loaders

ST's published loader and runtime of each release as a firmware for
the virtual board (no data cache), images of the example network built for that release. Constants in flash, in
external RAM and in the chip's own RAM; split and not; code in place, copied, copied with cleared memories; programs
among the parameters. Every output byte compared with the emulator.

The second table: images for one release under the loader of another. ST's loaders compare three numbers of the release;
the two that call themselves 1.1.3 have different tables of functions. An image of ours calls only functions that both
have at the same place.

The last line: a network that ST's compiler made (Core 4.0), as an image of ours under our loader, on inputs whose
outputs were recorded on a board (NUCLEO-N657X0-Q).
"""


def run(arguments: argparse.Namespace) -> Report:
    with tempfile.TemporaryDirectory() as temporary:
        rigs = {}
        for release, repository in LOADERS.items():
            runtime = loading.vendor_loader(arguments.fetched / repository)
            rigs[release] = LoaderRig(loading.build_loader(runtime, Path(temporary) / release), data_cache=False)
        rows = list(_own(rigs))
        others = list(_others(rigs))
        recorded = _recorded(arguments.fetched / RECORDED)
    own = (*head("loader", "images", ">installed", ">bytes compared", ">different", ">refused"), *rows)
    cross = (*head("loader", "image for", "result"), *others)
    page = "\n".join([INTRODUCTION, *own, "", *cross, "", recorded, ""])
    return Report(page, failed=any("| 0 | 0 |" not in row for row in rows))


def _own(rigs: dict[str, LoaderRig]) -> Iterator[str]:
    for release, rig in rigs.items():
        for memories in images.MEMORIES:
            count = compared = different = refused = 0
            for split in (False, True):
                for inside in (False, True):
                    options = replace(FOR_BOARD, runtime=release, split=split, blobs_in_params=inside)
                    built = images.image(images.folder(memories), options)
                    for mode in MODES.values():
                        count += 1
                        try:
                            rig.install(built.image, built.params, Spot(mode))
                            found = _compare(rig, memories)
                        except AtoncError as error:
                            print(release, memories, split, inside, mode, error)
                            refused += 1
                            continue
                        compared += found.bytes_compared
                        different += found.bytes_different
            yield f"| {release} | {memories} | {count} | {compared} | {different} | {refused} |"
            print(release, memories, count, compared, different, refused, flush=True)


def _recorded(folder: Path) -> str:
    data = np.load(folder / "network_val_io.npz")
    rig = images.rig()
    rig.install(images.image(folder, FOR_BOARD).image, spot=Spot(COPY))
    equal = 0
    for given, answer in zip(data["c_inputs_1"][:INPUTS], data["c_outputs_1"][:INPUTS], strict=True):
        found = rig.run([given.reshape(-1).view(np.uint8)])
        equal += bool((found.outputs[0] == answer.reshape(-1).view(np.uint8)).all())
    print(f"recorded: {equal} of {INPUTS}", flush=True)
    return f"Recorded on hardware: {equal} of {INPUTS} outputs are equal."


def _compare(rig: LoaderRig, memories: str) -> boarding.BoardValidation:
    view = images.view(memories)
    return boarding.compare(view, validating.synthetic_samples(view.compiled.source, 1, 7), rig)


def _others(rigs: dict[str, LoaderRig]) -> Iterator[str]:
    for release, rig in rigs.items():
        for other in LOADERS:
            if other == release:
                continue
            built = images.image(images.folder(), replace(FOR_BOARD, runtime=other))
            try:
                rig.install(built.image)
                result = "runs, equal" if _compare(rig, "flash").equal else "runs, DIFFERENT"
            except InstallError:
                result = "refused"
            yield f"| {release} | {other} | {result} |"
            print(release, other, result, flush=True)
