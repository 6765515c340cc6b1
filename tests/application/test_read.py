"""The application file: what it says, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.compiler.request.options import Options
from atonc.delivery.application.read import of_models, read_application, with_slots_of
from atonc.delivery.application.types import WholeFile
from atonc.machine.base.errors import InputError
from atonc.machine.base.words import ALL_RAM

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


@pytest.mark.parametrize(
    ("old", "new", "said", "line"),
    [
        ('name = "reid"', 'name = "od"', "networks called", "line 11, network 'od', name"),
        ('name = "reid"', 'name = "OD"', "networks called", "line 11, network 'od', name"),
        ('name = "reid"', 'name = "Od_slot"', "networks called", "line 11, network 'od', name"),
        ('name = "reid"', 'name = "a b"', "cannot be a name", "line 16"),
        ('name = "reid"', 'name = "int"', "cannot be a name", "line 16"),
        ('name = "reid"', "name = 3", "is not a text", "line 16"),
        ('model = "models/reid.onnx"\n', "", "lacks model", "line 15"),
        ('name = "reid"', 'name = "app"', "is reserved", "line 16"),
        ('name = "reid"', 'name = "app_networks"', "is reserved", "line 16"),
        ('name = "reid"', 'name = "app_loop"', "is reserved", "line 16"),
        ('name = "reid"', 'name = "App_Flash"', "is reserved", "line 16"),
        ("per_second = 30", "per_second = 0", "never runs", "line 13"),
        ('after = "od"', 'after = "oh"', "no other network", "line 18, network 'reid', after"),
        ('after = "od"', 'after = "reid"', "no other network", "line 18"),
        ("per_second = 30", "per_second = -1", "out of range", "line 13"),
        ("per_second = 30", "per_secnd = 30", "unknown key", "line 13"),
        ("per_second = 30", "per_second = nan", "out of range", "line 13"),
        ('"models/reid.onnx"', '"../reid.onnx"', "leaves the folder", "line 17"),
        ('memory = "npuRAM6"', 'memory = "npuRAM9"', "not known", "line 7"),
        ('size = "100K"', 'size = "900K"', "bytes, npuRAM6 has", "line 8"),
        ('size = "100K"', "size = 0", "nothing is reserved", "line 8"),
        ('memory = "npuRAM6"', "address = 0x343bf000", "no memory of", "line 7"),
        ('prefer = "memory"', 'prefer = "luck"', "prefer is", "line 23, network.options, prefer"),
        ('prefer = "memory"', 'prefr = "memory"', "no option 'prefr'", "line 23"),
        ('prefer = "memory"', 'seed = "x"', "not a whole number", "line 23, network.options, seed"),
        ('[network.options]\nprefer = "memory"', 'options.prefer = "luck"', "prefer is", "line 22"),
        ('prefer = "memory"', 'resident = "all"', "whole application", "line 23"),
        ('resident = "all"', 'resident = "lots"', "not a size", "line 3, resident"),
        ('prefer = "memory"', "encrypt_weights = true", "encrypted weights", "line 23"),
        ('prefer = "memory"', 'calibration = ["../secret.npz"]', "leaves the folder", "line 23"),
        ('inputs_survive = "all"', "inputs_survive = 3", "not a list of networks", "line 19"),
        ('board = "stm32n6570-dk"', 'board = "stm32h747i-disco"', "no NPU", "line 2, board"),
        ("[[network]]", "[[netwrk]]", "unknown key", "line 10"),
        ('board = "stm32n6570-dk"', "board = ", "not TOML", "line 2"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, old: str, new: str, said: str, line: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        read_application(written(tmp_path, GOOD.replace(old, new)))
    assert line in str(error.value)


def test_what_the_file_lets_survive_is_added_to_what_followers_need(tmp_path: Path) -> None:
    """D22: it took their place, so a follower read what another network had overwritten."""
    third = '[[network]]\nname = "extra"\nmodel = "extra.onnx"\n'
    said = "per_second = 30\noutputs_survive = {}"
    for text, survives in (('["extra"]', ("reid", "extra")), ("[]", ())):
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
    many = "".join(f'[[network]]\nname = "n{k}"\nmodel = "m.onnx"\n' for k in range(17))
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
