"""Constants that CPU layers bring are flash: what the figure says is what a C compiler puts there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from atonc.doors.cli.cli import main
from tests.runtime.host import RUNTIME

ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("ATONC_CORPUS", ROOT.parent / "shared" / "corpus")) / "models"
NAMES = ("trained_lstm_int8", "micro_speech_quantized", "face_detection_front_128_weight_quant", "ad01_int8")
MODELS = [ROOT / "examples" / "digits" / "digits.tflite", *(CORPUS / f"{name}.tflite" for name in NAMES)]
CONSTANTS = re.compile(r"table_\d+")
EXPLAINED = (  # what else a network or its kernels hold: no weights
    r"_ec_blob_\w+",  # programs of the epoch controller, a figure of their own
    r"buff_info|blocks",  # tables of ST's runtime
    r"atonc_\w+",  # formats, shapes and scales of inputs and outputs, memories
    r"factors|powers",  # of the kernels, which are code
)


@pytest.mark.skipif(shutil.which("gcc") is None or shutil.which("nm") is None, reason="needs gcc and nm")
@pytest.mark.parametrize("model", [model for model in MODELS if model.is_file()], ids=lambda model: model.stem)
def test_flash_has_every_constant_of_the_c_file(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(model), "--no-verify", "--allow-float", "--json", "-o", str(tmp_path / "out")]) == 0
    memory = json.loads(capsys.readouterr().out)["memory"]
    held = read_only(tmp_path / "out")
    constants = sum(size for name, size in held.items() if CONSTANTS.fullmatch(name))
    assert constants == memory["code_constants_bytes"]
    assert constants > 0 or model.stem == "ad01_int8", "it has nothing on the CPU"
    other = [name for name in held if not CONSTANTS.fullmatch(name)]
    assert not [name for name in other if not any(re.fullmatch(known, name) for known in EXPLAINED)]
    in_images = sum(row["size_bytes"] for row in memory["uses"] if row["pool"] != "firmware" and not row["ram"])
    assert memory["flash_bytes"] == in_images + constants


def read_only(folder: Path) -> Counter[str]:
    """Bytes of every constant in the object file of a network, by name; those inside functions have a number behind."""
    made = folder / "network.o"
    includes = [f"-I{place}" for place in (RUNTIME / "include", RUNTIME / "src", folder)]
    flags = ["-std=c11", "-O0", "-w", "-DATONC_HOST", *includes]
    subprocess.run(["gcc", *flags, "-c", str(folder / "network.c"), "-o", str(made)], check=True)
    said = subprocess.run(["nm", "-S", str(made)], check=True, capture_output=True, text=True).stdout
    found = Counter[str]()
    for line in said.splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "rRdD":
            found[re.sub(r"\.\d+$", "", words[3])] += int(words[1], 16)
    return found
