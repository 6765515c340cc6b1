"""The application file: what it says, and what is refused with its line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from atonc.compiler.request.options import Options
from atonc.delivery.application import planning
from atonc.delivery.application.read import of_models, read_application, with_slots_of
from atonc.delivery.application.types import WholeFile
from atonc.machine.base.errors import InputError
from atonc.machine.base.words import ALL_RAM
from tests.application.made import ONNX, TFLITE

GOOD = """
board = "stm32n6570-dk"
resident = "all"

[[reserve]]
name = "camera"
memory = "npuRAM6"
size = "100K"

[[network]]
name = "od"
model = "detector.tflite"
per_second = 30

[[network]]
name = "reid"
model = "models/reid.onnx"
after = "od"
inputs_survive = "all"
slot = "1M"

[network.options]
prefer = "memory"
"""


def written(folder: Path, text: str) -> Path:
    """Beside models that are there."""
    for source, name in ((TFLITE, "detector.tflite"), (ONNX, "models/reid.onnx"), (ONNX, "extra.onnx")):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(source, folder / name)
    file = folder / "app.toml"
    file.write_text(text)
    return file


def test_what_it_says(tmp_path: Path) -> None:
    found = read_application(written(tmp_path, GOOD))
    od, reid = found.networks
    assert (od.name, od.per_second, od.model) == ("od", 30, tmp_path / "detector.tflite")
    assert od.outputs_survive == ("reid",)  # who follows works on its results
    assert reid.inputs_survive == ("od",) and reid.slot_bytes == 1 << 20 and reid.options.prefer == "memory"
    assert [(one.name, one.start, one.end) for one in found.reserved] == [("camera", 0x343A_7000, 0x343C_0000)]
    assert found.resident == ALL_RAM


FIRST, SECOND, RATE, OPTION = '[[network]]\nname = "od"', 'name = "reid"', "per_second = 30", 'prefer = "memory"'
MODEL, AFTER, INPUTS, SLOT = 'model = "models/reid.onnx"', 'after = "od"', 'inputs_survive = "all"', 'slot = "1M"'
BOARD, WEIGHTS, MEMORY, SIZE = 'board = "stm32n6570-dk"', 'resident = "all"', 'memory = "npuRAM6"', 'size = "100K"'
NETWORKS, RESERVED = GOOD[GOOD.index(FIRST) :], GOOD[GOOD.index("[[reserve]]") : GOOD.index(FIRST)]
MANY = "".join(f'\n[[network]]\nname = "n{k}"\nmodel = "detector.tflite"' for k in range(17))

# what stands there instead: what is said, in which line, of which key
MISTAKES = [
    # no TOML
    (BOARD, "board =", "Invalid value", 2, "board"),
    (SECOND, "name = reid", "Invalid value", 16, "name"),
    (SECOND, 'name: "reid"', "Expected '='", 16, "name"),
    (SIZE, "size = 100K", "Expected newline", 8, "size"),
    (SECOND, 'name = "reid', "Illegal character", 16, "name"),
    (INPUTS, 'inputs_survive = ["od"', "Unclosed array", 19, "inputs_survive"),
    (WEIGHTS, f"{WEIGHTS}\n{WEIGHTS}", "Cannot overwrite", 4, "resident"),
    (OPTION, f"{OPTION}\n[network.options]", "Cannot declare", 24, "network.options"),
    (FIRST, '[[network]\nname = "od"', "Expected ']]'", 10, "network"),
    (FIRST, '[network]\nname = "od"', "Cannot overwrite", 15, "network"),
    (BOARD, "x = " + "[" * 3000 + "]" * 3000, "nested too deeply", 2, "x"),
    # keys
    (BOARD, 'bord = "stm32n6570-dk"', "unknown key", 2, "bord"),
    (RATE, "per_secnd = 30", "unknown key", 13, "per_secnd"),
    (MEMORY, 'memry = "npuRAM6"', "unknown key", 7, "memry"),
    (FIRST, '[[netwrk]]\nname = "od"', "unknown key", 10, "netwrk"),
    (OPTION, 'prefr = "memory"', "no option 'prefr'", 23, "prefr"),
    (OPTION, f"{OPTION}\n[options]", "unknown key", 24, "options"),
    (BOARD, f"{BOARD}\n{RATE}", "unknown key", 3, "per_second"),
    (OPTION, f"{OPTION}\nafter = 'od'", "no option of the compiler", 24, "after"),
    (RATE, "share_constants = true", "unknown key", 13, "share_constants"),
    (f"{SECOND}\n", "", "lacks name", 15, "name"),
    (f"{MODEL}\n", "", "lacks model", 15, "model"),
    (f"{SIZE}\n", "", "lacks size", 5, "size"),
    (NETWORKS, "", "names no network", 1, "network"),
    (OPTION, OPTION + MANY, "19 networks", 10, "network"),
    # types
    (SECOND, "name = 3", "is not a text", 16, "name"),
    (MODEL, "model = 3", "is not a text", 17, "model"),
    (RATE, 'per_second = "30"', "is not a number", 13, "per_second"),
    (RATE, "per_second = true", "is not a number", 13, "per_second"),
    (RATE, "per_second = 2026-01-01", "is not a number", 13, "per_second"),
    (AFTER, 'after = ["od"]', "is not a text", 18, "after"),
    (INPUTS, "inputs_survive = 3", "not a list of networks", 19, "inputs_survive"),
    (SLOT, "slot = 1.5", "is not a number or", 20, "slot"),
    (SLOT, "relocatable = true", "is not a text", 20, "relocatable"),
    (WEIGHTS, 'share_constants = "yes"', "is not true or false", 3, "share_constants"),
    (RESERVED, '[reserve]\nname = "x"\nsize = 3\n', "is not a list of at most", 5, "reserve"),
    (NETWORKS, '[network]\nname = "od"\n', "is not a list of at most", 10, "network"),
    (f"[network.options]\n{OPTION}", 'options = "x"', "is not a table", 22, "options"),
    (OPTION, 'seed = "x"', "not a whole number", 23, "seed"),
    (OPTION, "seed = nan", "not a whole number", 23, "seed"),
    (OPTION, 'calibration = "samples.npz"', "not a list of files", 23, "calibration"),
    # values
    (RATE, "per_second = 0", "never runs", 13, "per_second"),
    (RATE, "per_second = -1", "out of range", 13, "per_second"),
    (RATE, "per_second = nan", "out of range", 13, "per_second"),
    (RATE, "per_second = inf", "out of range", 13, "per_second"),
    (RATE, "per_second = 1" + "0" * 400, "out of range", 13, "per_second"),
    (SLOT, 'slot = "1X"', "is not a size", 20, "slot"),
    (SLOT, "slot = -1", "out of range", 20, "slot"),
    (SLOT, "slot = 0", "0 bytes", 20, "slot"),
    (SLOT, 'slot = "2G"', "2,147,483,648 bytes", 20, "slot"),
    (SLOT, 'slot = "999999999999G"', "out of range", 20, "slot"),
    (SLOT, 'relocatable = "ram"', "is not known", 20, "relocatable"),
    (SLOT, 'exec_ram = "1M"', "only relocatable images", 20, "exec_ram"),
    (WEIGHTS, 'resident = "lots"', "not a size", 3, "resident"),
    (OPTION, 'prefer = "luck"', "prefer is", 23, "prefer"),
    (f"[network.options]\n{OPTION}", 'options.prefer = "luck"', "prefer is", 22, "prefer"),
    (OPTION, 'input_type = "int9"', "element type 'int9'", 15, "--input-data-type"),
    (OPTION, 'resident = "all"', "whole application", 23, "resident"),
    (OPTION, "relocatable = true", "whole application", 23, "relocatable"),
    (OPTION, "encrypt_weights = true", "encrypted weights", 23, "encrypt_weights"),
    # memory
    (SIZE, "size = 0", "nothing is reserved", 8, "size"),
    (SIZE, 'size = "900K"', "bytes, npuRAM6 has", 8, "size"),
    (MEMORY, 'memory = "npuRAM9"', "not known", 7, "memory"),
    (MEMORY, "address = 0x343bf000", "no memory of", 7, "address"),
    (MEMORY, f"{MEMORY}\naddress = 0x34350000", "one of memory and address", 7, "memory"),
    (FIRST, f'[[reserve]]\nname = "b"\n{MEMORY}\nsize = 32\n{FIRST}', "meets 'camera'", 12, "memory"),
    (FIRST, f'[[reserve]]\nname = "Camera"\nmemory = "hyperRAM"\nsize = 32\n{FIRST}', "twice", 11, "name"),
    # networks
    (SECOND, 'name = "od"', "networks called", 16, "name"),
    (SECOND, 'name = "OD"', "networks called", 16, "name"),
    (SECOND, 'name = "Od_slot"', "networks called", 16, "name"),
    (SECOND, 'name = "a b"', "cannot be a name", 16, "name"),
    (SECOND, 'name = "int"', "cannot be a name", 16, "name"),
    (SECOND, 'name = ""', "not a printable text", 16, "name"),
    (SECOND, 'name = "app"', "is reserved", 16, "name"),
    (SECOND, 'name = "App_Flash"', "is reserved", 16, "name"),
    (AFTER, 'after = "oh"', "no other network", 18, "after"),
    (AFTER, 'after = "reid"', "no other network", 18, "after"),
    (RATE, 'after = "reid"', "a circle", 13, "after"),
    (INPUTS, 'inputs_survive = ["odd"]', "no other network", 19, "inputs_survive"),
    (INPUTS, 'outputs_survive = ["none", "od"]', "none, and others", 19, "outputs_survive"),
    # files and boards
    (MODEL, 'model = "../reid.onnx"', "leaves the folder", 17, "model"),
    (MODEL, 'model = "models/red.onnx"', "no such file", 17, "model"),
    (MODEL, 'model = "/nowhere/reid.onnx"', "no such file", 17, "model"),
    (MODEL, 'model = "models"', "is a folder", 17, "model"),
    (MODEL, 'model = "/dev/null"', "is a device, not a file", 17, "model"),
    (MODEL, 'model = "app.toml"', "not an ONNX file", 15, "network"),
    (OPTION, 'calibration = ["../secret.npz"]', "leaves the folder", 23, "calibration"),
    (OPTION, 'calibration = ["none.npz"]', "no such file", 23, "calibration"),
    (BOARD, 'board = "stm32n6570-dkk"', "no board", 2, "board"),
    (BOARD, 'board = "stm32h747i-disco"', "no NPU", 2, "board"),
    (BOARD, 'board = "mine.toml"', "no such file", 2, "board"),
    (BOARD, 'board = "nope@stm32n6570-dk"', "no pool set", 2, "board"),
]


@pytest.mark.parametrize(("old", "new", "said", "line", "key"), MISTAKES)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, old: str, new: str, said: str, line: int, key: str) -> None:
    """File, line, key, and what to write instead; those of a network and its model, where they are read together."""
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    with pytest.raises(InputError) as caught:
        planning.read_all(read_application(written(tmp_path, text)))
    error = caught.value
    assert said in error.what and f"{tmp_path / 'app.toml'}, line {line}" in error.where and key in error.where
    assert error.fix, str(error)


def test_what_the_file_lets_survive_is_added_to_what_followers_need(tmp_path: Path) -> None:
    """D22: it took their place, so a follower read what another network had overwritten."""
    third = '[[network]]\nname = "extra"\nmodel = "extra.onnx"\n'
    said = "per_second = 30\noutputs_survive = {}"
    for text, survives in (('["extra"]', ("reid", "extra")), ("[]", ("reid",)), ('"none"', ())):
        found = read_application(written(tmp_path, GOOD.replace("per_second = 30", said.format(text)) + third))
        assert found.networks[0].outputs_survive == survives


def test_no_network_is_called_as_a_file_of_the_whole(tmp_path: Path) -> None:
    """Read off the table that makes the files."""
    for file in WholeFile:
        with pytest.raises(InputError, match=r"is reserved|networks called"):
            read_application(written(tmp_path, GOOD.replace('name = "reid"', f'name = "{file.stem}"')))


def test_a_circle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 13, network 'od', after: (?s:.*) a circle"):
        read_application(written(tmp_path, GOOD.replace("per_second = 30", 'after = "reid"')))


def test_no_networks_and_too_many(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="names no network"):
        read_application(written(tmp_path, 'board = "stm32n6570-dk"'))
    many = "".join(f'[[network]]\nname = "n{k}"\nmodel = "extra.onnx"\n' for k in range(17))
    with pytest.raises(InputError, match="17 networks"):
        read_application(written(tmp_path, many))


def test_the_short_form_names_networks_after_their_files() -> None:
    models = [Path(name) for name in ("a-b.tflite", "x/a_b.onnx", "3d.onnx", "main.onnx")]
    found = of_models(models, Options(resident="all"))
    assert [one.name for one in found.networks] == ["a_b", "a_b_2", "n3d", "main_2"]
    assert found.resident == ALL_RAM and not any(one.options.resident for one in found.networks)


@pytest.mark.parametrize("text", ["", "[]", '{"format": "x"}', '{"format": "atonc application 1", "slots": [{}]}'])
def test_a_strange_map_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "app.json"
    file.write_text(text)
    with pytest.raises(InputError, match="is not the map of an application"):
        with_slots_of(of_models([Path("a.onnx")]), file)
