"""ST's packager for relocatable images, `npu_driver.py`, on our files; the image then runs under ST's loader.

An installation is laid out from public parts: scripts and LL_ATON of one repository, the library that the packager
links of another, ST's name in `Utilities`. The loader is that of an application with the same release of LL_ATON.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from atonc.delivery.reloc.image import read_image
from atonc.delivery.trials import loading
from atonc.insight.runs import runs
from atonc.machine.base.errors import AtoncError
from benchmarks.shared import git_files
from benchmarks.shared.corpus import corpus_dir
from benchmarks.shared.st_script_row import Row

SCRIPTS = "SeongMin1000+N6_cusotm_validation"
LIBRARY = "Guguitino+STM32N6-Audio-Low-Latency"
LOADER = "STMicroelectronics+x-cube-n6-ai-face-landmarks"
SCRIPT = "scripts/N6_reloc/npu_driver.py"
RELEASE = "2.2"  # of all three
MODELS = (
    "ad01_int8.tflite",
    "kws_ref_model.tflite",
    "mobilenet_v1_0.25_96_tfs_int8.tflite",
)  # without CPU layers, with
_MIDDLEWARE = "Middlewares/ST/AI"
_MODES = {"in place": loading.XIP, "copied": loading.COPY}
_LAUNCHER = f'#!/bin/sh\necho "ST Edge AI Core v{RELEASE}.0-20266 answered by atonc"\n'
# modules that print in colours and tables: any that are not installed
_PLAIN = {
    "colorama": "class _None:\n    def __getattr__(self, name): return ''\nFore = Style = Back = _None()\n"
    "def init(*a, **k): pass\ndef deinit(*a, **k): pass\n",
    "tabulate": "def tabulate(rows, headers=(), **k):\n"
    "    return '\\n'.join(' | '.join(map(str, row)) for row in [headers, *rows])\n",
}


def row(fetched: Path, work: Path) -> Row:
    repository = fetched / SCRIPTS / "repo"
    result, passed = [], True
    try:
        pack = _installation(fetched, work)
        loader = _loader(fetched, work)
        result = [_same_outputs(pack, loader, name, work) for name in MODELS]
    except (AtoncError, subprocess.CalledProcessError) as error:
        said = error.stdout if isinstance(error, subprocess.CalledProcessError) else ""
        result, passed = [f"{error} {said[-200:]}"], False
    called = f"generate -r --runtime {RELEASE}, then npu_driver.py -i network.c"
    name, commit = SCRIPTS.replace("+", "/"), git_files.commit(repository)[:7]
    return Row(name, commit, SCRIPT, called, "; ".join(result), passed)


def _installation(fetched: Path, work: Path) -> Path:
    pack, library = work / "packager", work / LIBRARY
    git_files.unpack(fetched / SCRIPTS / "repo", pack)
    git_files.unpack(fetched / LIBRARY / "repo", library)
    source = next(library.rglob("NetworkRuntime*_CM55_GCC_PIC.a")).parents[3]
    for part in ("Inc", "Lib/GCC/ARMCortexM55"):
        shutil.copytree(source / part, pack / _MIDDLEWARE / part, dirs_exist_ok=True)
    launcher = pack / "Utilities/linux/stedgeai"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(_LAUNCHER)
    launcher.chmod(0o755)
    (work / "plain").mkdir(exist_ok=True)
    for module, text in _PLAIN.items():
        (work / "plain" / f"{module}.py").write_text(text)
    return pack


def _loader(fetched: Path, work: Path) -> Path:
    sources = work / LOADER.partition("+")[2]
    git_files.unpack(fetched / LOADER / "repo", sources)
    folder = work / "loader"
    folder.mkdir(exist_ok=True)
    return loading.build_loader(loading.vendor_loader(sources), folder)


def _same_outputs(pack: Path, loader: Path, model: str, work: Path) -> str:
    folder = work / f"packaged_{Path(model).stem}"
    command = [sys.executable, "-m", "atonc", "generate", str(corpus_dir() / "models" / model), "-o", str(folder)]
    subprocess.run(
        [*command, "-r", "--runtime", RELEASE, "--no-verify", "-q"], check=True, capture_output=True, text=True
    )
    environment = os.environ | {"PYTHONPATH": str(work / "plain"), "STEDGEAI_CORE_DIR": str(pack)}
    command = [sys.executable, str(pack / SCRIPT), "-i", str(folder / "network.c"), "-o", str(folder / "build")]
    subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    options = runs.RunOptions(folder, seed=1)
    net = runs.load(options)
    inputs = runs.choose_inputs(net, options)
    wanted = runs.execute(net, inputs, options)
    image = read_image((folder / "build" / "network_rel.bin").read_bytes())
    for how, mode in _MODES.items():
        rig = loading.LoaderRig(loader)
        rig.install(image, spot=loading.Spot(mode))
        found = rig.run([np.frombuffer(inputs[info.name].tobytes(), np.uint8) for info in net.inputs])
        for info, data in zip(net.outputs, found.outputs, strict=True):
            if bytes(data) != wanted.outputs[info.name].tobytes():
                raise AtoncError(f"{model} {how}: {info.name} of the image differs")
    return f"{model}: packaged, and under ST's loader ({', '.join(_MODES)}) its outputs are those of `atonc run`"
