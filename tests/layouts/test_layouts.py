"""Folders for other projects: what is in them, what they refuse, and that they are the same every time."""

from __future__ import annotations

import json
import re
import struct
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.delivery.layouts import cmsis, openmv, rust, zephyr
from atonc.delivery.layouts.every import LAYOUTS, find_layout, layout_files, require_taken, with_layout
from atonc.delivery.layouts.layout import LICENCE, LayoutNetwork
from atonc.doors.verbs import compiling
from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.hw.safety.evidence import Grade
from tests.emit.generated import DIGITS, needs_compiler
from tests.reloc import images

NO_CPU = {"cut_outputs": ("dense",)}
_ONNX = DIGITS.with_suffix(".onnx")


def _options(name: str, **options: object) -> Options:
    return with_layout(Options(verify=False, **options), find_layout(name))  # type: ignore[arg-type]


@cache
def _view(name: str, cpu: bool = False) -> CompileView:
    return generating.analyze(DIGITS, _options(name, **({} if cpu else NO_CPU)))


@cache
def _files(name: str) -> Mapping[str, bytes]:
    return layout_files(LAYOUTS[name], _view(name))


def _refusal(name: str, model: Path = DIGITS, **options: object) -> UnsupportedError:
    view = generating.analyze(model, _options(name, **options))
    with pytest.raises(UnsupportedError) as caught:
        require_taken(LAYOUTS[name], view)
    assert caught.value.rule and caught.value.remedy
    return caught.value


def test_the_command_line_offers_every_layout() -> None:
    assert set(compiling.LAYOUTS) == set(LAYOUTS)
    assert all(layout.name == name for name, layout in LAYOUTS.items())


def test_an_unknown_layout_names_the_others() -> None:
    with pytest.raises(InputError, match="arduino") as caught:
        find_layout("arduino")
    assert all(name in caught.value.rule for name in LAYOUTS)


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_every_layout_has_its_page(name: str) -> None:
    page = Path(__file__).parents[2] / "docs" / LAYOUTS[name].page
    assert f"--layout {name}" in page.read_text()


@needs_compiler
@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_the_same_network_gives_the_same_bytes(name: str) -> None:
    again = generating.analyze(DIGITS, _options(name, **NO_CPU))
    assert layout_files(LAYOUTS[name], again) == _files(name)


@needs_compiler
@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_texts_have_their_licence(name: str) -> None:
    generated = generating.files_of(_view(name))
    for path, data in _files(name).items():
        if path.endswith((".bin", ".md", ".tflite")) or path.rpartition("/")[2] in generated:
            continue
        assert LICENCE in data.decode()[:400], path


# ---------------------------------------------------------------------------------------------------------------- rust


def test_blobs_of_the_crate_are_those_of_generate() -> None:
    header = generating.files_of(_view("rust"))["network_ecblobs.h"].decode()
    arrays = re.findall(r"static const uint64_t _ec_blob_network_(\d+)\[(\d+)\] = \{(.*?)\};", header, re.DOTALL)
    assert arrays
    files = {path: data for path, data in _files("rust").items() if path.startswith("blobs/")}
    assert len(files) == len(arrays)
    for first, count, text in arrays:
        words = [int(word, 16) for word in re.findall(r"0x([0-9a-f]{16})ULL", text)]
        (path,) = [path for path in files if path.startswith(f"blobs/epochs_{first}_to_")]
        assert files[path] == struct.pack(f"<{count}Q", *words)


def test_weights_of_the_crate_are_those_of_generate() -> None:
    raw = generating.files_of(_view("rust"))["network_atonbuf.xSPI2.raw"]
    assert _files("rust")["weights/network_atonbuf_xSPI2.bin"] == raw


def test_the_crate_is_whole() -> None:
    files = _files("rust")
    cargo = tomllib.loads(files["Cargo.toml"].decode())
    assert cargo["package"]["name"] == "network_npu"
    assert "dependencies" not in cargo
    glue = tomllib.loads(files["embassy/Cargo.toml"].decode())
    assert glue["dependencies"]["embassy-stm32"]["rev"] == rust.EMBASSY_REVISION
    assert glue["dependencies"]["network_npu"] == {"path": ".."}
    library = files["src/lib.rs"].decode()
    assert "#![no_std]" in library
    for path, size in re.findall(r'\[u8; (\d+)\]> = Aligned\(\*include_bytes!\("\.\./(.*?)"\)\)', library):
        assert len(files[size]) == int(path)
    assert len(re.findall("include_bytes!", library)) == sum(path.endswith(".bin") for path in files)


def test_the_crate_knows_its_edges() -> None:
    library = _files("rust")["src/lib.rs"].decode()
    given = LayoutNetwork(_view("rust"), {})
    for what, infos in (("input", given.inputs), ("output", given.outputs)):
        text = library.partition(f"pub mod {what}_0 {{")[2].partition("\n}\n")[0]
        (info,) = infos
        assert f"SHAPE: [usize; {len(info.mem_shape)}] = [{', '.join(map(str, info.mem_shape))}]" in text
        assert f"ADDRESS: usize = {given.address(info):#010x};" in text
        assert f"ZERO_POINT: i32 = {info.offsets[0]};" in text
        scale = re.search(r"SCALE: f32 = (\S+);", text)
        assert scale and struct.pack("<f", float(scale[1])) == struct.pack("<f", info.scales[0])
        assert "Element = i8;" in text


def test_the_crate_resets_states() -> None:
    view = generating.analyze(DIGITS.parent.parent / "streaming" / "stream.tflite", _options("rust"))
    files, (state,) = layout_files(LAYOUTS["rust"], view), view.compiled.program.states
    library = files["src/lib.rs"].decode()
    assert f'address: {state.address:#010x}, first: include_bytes!("../states/state_0.bin")' in library
    assert files["states/state_0.bin"] == state.first
    assert all("pub unsafe fn reset_states()" in files[path].decode() for path in ("src/lib.rs", "embassy/src/lib.rs"))
    assert "STATES" not in _files("rust")["src/lib.rs"].decode()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "softmax"),
        ({**NO_CPU, "epoch_controller": False}, "started by the CPU"),
        ({**NO_CPU, "inputs_allocation": False}, "known at run time only"),
        ({**NO_CPU, "relocatable": True}, "known at run time only"),
        ({**NO_CPU, "resident": "8k"}, "copied to RAM"),
    ],
)
def test_the_crate_refuses_what_embassy_cannot_run(options: dict[str, object], said: str) -> None:
    assert said in _refusal("rust", **options).what


# -------------------------------------------------------------------------------------------------------------- openmv


@needs_compiler
def test_the_image_may_lie_anywhere() -> None:
    from atonc.delivery.reloc.format import CACHED
    from atonc.delivery.reloc.image import read_image

    image = read_image(_files("openmv")["network.bin"], "network.bin")
    assert not image.split
    assert all(not pool.flags >> 8 & CACHED for pool in image.pools)
    engines = [c for epoch in _view("openmv").compiled.program.epochs for c in epoch.readers().values()]
    assert engines and not any(engine.cacheable for engine in engines)


def test_the_rom_file_system_may_use_the_cache() -> None:
    cached = generating.analyze(DIGITS, _options("openmv", board="romfs@openmv-n6"))
    assert any(c.cacheable for epoch in cached.compiled.program.epochs for c in epoch.readers().values())
    require_taken(openmv.LAYOUT, cached)


def test_past_the_cache_is_as_published() -> None:
    """41 readers of 4 published programs read flash so."""
    assert all(epoch.grade.rank <= Grade.COMPOSED.rank for epoch in _view("openmv").compiled.grades)


def test_the_layout_brings_its_board_unless_another_is_named() -> None:
    assert _options("openmv").board == "openmv-n6"
    assert _options("openmv").relocatable
    assert _options("openmv", board="nucleo-n657x0-q").board == "nucleo-n657x0-q"
    assert _options("rust").board == Options().board


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        (_ONNX, {}, "float"),
        (DIGITS, {"inputs_allocation": False}, "supply"),
        (DIGITS, {"secure": False}, "non-secure"),
        (DIGITS, {"resident": "8k"}, "copied to RAM"),
    ],
)
def test_openmv_refuses_what_its_firmware_cannot_run(model: Path, options: dict[str, object], said: str) -> None:
    assert said in _refusal("openmv", model, **options).what


_CPU_RAM = images.pool("AXISRAM2", 0x3410_0000, 1024)


@pytest.mark.parametrize("name", ["openmv", "zephyr"])
def test_memories_of_the_firmware_are_refused(name: str) -> None:
    pools = str(images.pool_file([_CPU_RAM, images.FLASH], f"cpu_ram_{name}"))
    assert "axisram2" in _refusal(name, mpool=pools, relocatable=True).what


def test_constants_that_the_firmware_would_overwrite_are_refused() -> None:
    pools = str(images.pool_file(images.MEMORIES["inside"], "inside_openmv"))
    assert "constants lie in axisram3" in _refusal("openmv", mpool=pools, relocatable=True).what
    assert "constants lie in axisram3" in _refusal("rust", mpool=pools, **NO_CPU).what


@needs_compiler
def test_the_image_is_for_the_release_that_was_named() -> None:
    from atonc.delivery.reloc.image import read_image

    files = layout_files(openmv.LAYOUT, _view("openmv"), "1.1.1-14")
    newest = read_image(_files("openmv")["network.bin"], "newest")
    assert read_image(files["network.bin"], "named").context.version != newest.context.version
    assert "LL_ATON\nthan 1.1.1:" in files["README.md"].decode()


# -------------------------------------------------------------------------------------------------------------- zephyr


def test_the_module_names_files_that_are_there() -> None:
    yaml = pytest.importorskip("yaml")
    files = _files("zephyr")
    module = yaml.safe_load(files["zephyr/module.yml"])
    assert module == {"name": "network_npu", "build": {"cmake": ".", "kconfig": "Kconfig"}}
    text = files["CMakeLists.txt"].decode()
    named = set(re.findall(r"^\s+(\S+\.c)$", text, re.MULTILINE))
    assert named == {path for path in files if path.endswith(".c") and not path.startswith("sample/")}
    switch = re.search(r"config (ATONC_NETWORK_\w+)", files["Kconfig"].decode())
    assert switch and f"CONFIG_{switch[1]}=y" in files["sample/prj.conf"].decode()
    assert f"if(CONFIG_{switch[1]})" in text


def test_the_overlay_enables_what_the_network_uses() -> None:
    overlay = _files("zephyr")["npu.overlay"].decode()
    enabled = set(re.findall(r"&(\w+) \{\n\s+status = \"okay\"", overlay))
    memory = _view("zephyr").memory.by_pool
    used = {pool.base for pool in _view("zephyr").board.pools if memory.get(pool.name, 0)}
    assert enabled == {"npu"} | {node for base, node in zephyr.NODES.items() if base in used}
    assert "axisram3" in enabled
    weights = _files("zephyr")["weights/network_atonbuf_xSPI2.bin"]
    place = re.search(r"partition@500000 \{.*?reg = <0x500000 (0x[0-9a-f]+)>", overlay, re.DOTALL)
    assert place and int(place[1], 16) >= len(weights)


def test_zephyr_keeps_its_own_partitions() -> None:
    view = generating.analyze(DIGITS, Options(verify=False))
    with pytest.raises(UnsupportedError, match="would lie in them"):
        require_taken(zephyr.LAYOUT, view)


@pytest.mark.parametrize("name", ["zephyr", "cmsis"])
def test_weights_that_must_be_encrypted_first_are_not_flashed_unwarned(name: str) -> None:
    view = generating.analyze(DIGITS, _options(name, encrypt_weights=True, **NO_CPU))
    said = "encrypt the region"
    assert said in layout_files(LAYOUTS[name], view)["README.md"].decode()
    assert said not in _files(name)["README.md"].decode()


# --------------------------------------------------------------------------------------------------------------- cmsis


def test_the_pack_names_every_file_and_no_other() -> None:
    files = _files("cmsis")
    root = ElementTree.fromstring(files["atonc.network_npu.pdsc"].decode())
    named = {one.attrib["name"] for one in root.iter("file") if one.attrib["category"] != "include"}
    folders = ("network/", "runtime/", "weights/")
    assert named == {path for path in files if path.startswith(folders)}
    includes = {one.attrib["name"] for one in root.iter("file") if one.attrib["category"] == "include"}
    assert includes == {"network/", "runtime/include/"}
    assert root.findtext("vendor") == cmsis.VENDOR


def test_the_solution_reaches_the_layer() -> None:
    yaml = pytest.importorskip("yaml")
    files = _files("cmsis")
    solution = yaml.safe_load(files["network_sample.csolution.yml"])["solution"]
    (project,) = [one["project"] for one in solution["projects"]]
    layers = yaml.safe_load(files[project])["project"]["layers"]
    assert f"sample/{layers[0]['layer']}" == "sample/../network.clayer.yml"
    layer = yaml.safe_load(files["network.clayer.yml"])["layer"]
    pack = ElementTree.fromstring(files["atonc.network_npu.pdsc"].decode())
    parts = [[one.get(key) for key in ("Cclass", "Cgroup", "Csub")] for one in pack.iter("component")]
    offered = {":".join(filter(None, names)) for names in parts}
    assert {one["component"] for one in layer["components"]} == offered


def test_a_layout_is_a_value() -> None:
    assert json.dumps({name: layout.title for name, layout in LAYOUTS.items()})
    with pytest.raises(AttributeError):
        openmv.LAYOUT.name = "other"  # type: ignore[misc]
