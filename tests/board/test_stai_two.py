"""`atonc app build --stai`: both networks of an application link with the ST.AI interface, and run in turns on it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from atonc.delivery.application import building
from atonc.delivery.application.figures import figures
from atonc.delivery.application.options import AppOptions
from atonc.delivery.firmware import image as firmware
from atonc.insight.runs import runs
from atonc.machine.base.disk import write_files
from atonc.machine.emu.files.intel_hex import read_hex
from atonc.machine.emu.files.network_c import read_network
from benchmarks.shared.elf_network import ElfNetwork
from tests.application.made import plan
from tests.board.programs import needs_compiler

pytest.importorskip("unicorn")
HERE = Path(__file__).parent
STAI = HERE.parent / "emit" / "stubs" / "stai.h"  # the published types, in our words


@needs_compiler
def test_two_networks_behind_the_st_interface(tmp_path: Path) -> None:
    found, folder = plan(), tmp_path / "application"
    write_files(folder, building.files_of_application(found, figures(found), AppOptions(stai=True))[0])
    for file in (STAI, HERE / "stai_two.c"):
        shutil.copy(file, folder)
    names = [one.name for one in found.networks]
    harness = [folder / "stai_two.c", *(folder / f"stai_{name}.c" for name in names)]
    networks = [firmware.network_in(folder, name) for name in names]
    image = firmware.build_firmware(networks, firmware.our_runtime(), tmp_path / "build", harness=harness)
    host, random = ElfNetwork(image, list(read_hex(folder / "app_flash.hex"))), np.random.default_rng(1)
    for turn in range(2):
        for name in names:
            for start, end in found.ram:
                host.poison(start, end, random)
            options = runs.RunOptions(folder, name=name, seed=turn)
            net = runs.load(options)
            chosen = runs.choose_inputs(net, options)
            wanted = runs.execute(net, chosen, options).outputs
            given = [chosen[info.name].tobytes() for info in net.inputs]
            assert host.run(read_network(folder, name), given) == [wanted[info.name].tobytes() for info in net.outputs]
