"""The files of an application: flash image, C, map; written whole, and one network replaced without the others."""

from __future__ import annotations

import json
import shutil
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atonc.compiler.request.options import Options
from atonc.delivery.application import building
from atonc.delivery.application.planning import figures
from atonc.delivery.application.types import AppOptions, SlotContents
from atonc.delivery.firmware import building as toolchain
from atonc.delivery.texts import app_text
from atonc.doors.cli.cli import main
from atonc.machine.base.disk import write_files
from atonc.machine.base.errors import ModelError
from atonc.machine.base.words import size_text
from atonc.machine.emu.files.initialisers import read_hex
from tests.application.made import ONNX, TFLITE, alone, application, plan, plan_of

needs_compiler = pytest.mark.skipif(shutil.which(toolchain.GCC) is None, reason="no cross compiler")


@pytest.fixture(scope="module")
def made() -> building.BuiltApplication:
    found = plan()
    return building.BuiltApplication(
        found, figures(found), building.files_of_application(found, figures(found), AppOptions())
    )


def test_the_image_has_every_network_in_its_slot(made: building.BuiltApplication) -> None:
    base, image = building.flash_image(made.output.contents)
    assert image == made.output.files["app_flash.bin"] and base == made.output.contents[0].slot.start
    for one in made.output.contents:
        raw = made.output.files[f"{one.slot.network}_atonbuf.xSPI2.raw"]
        start = one.slot.start - base
        assert image[start : start + len(raw)] == raw == one.data
    gap = image[len(made.output.contents[0].data) : made.output.contents[1].slot.start - base]
    assert gap and set(gap) == {0xFF}


def test_text_and_map_count_the_same_constants(made: building.BuiltApplication) -> None:
    """Those of the slots, and those of CPU layers, which lie in the C files."""
    told = json.loads(made.output.files["app.json"])["networks"]
    in_code, in_slots = sum(one["code_constants_bytes"] for one in told), sum(map(_size, made.output.contents))
    assert sum(one["constants_bytes"] for one in told) == in_code + in_slots and in_code > 0
    said = app_text._slots(made)
    assert f"{size_text(in_slots)} of constants" in said and f"{size_text(in_code)} more in C files" in said


def _size(one: SlotContents) -> int:
    return len(one.data)


def test_the_map_knows_the_image(made: building.BuiltApplication) -> None:
    told = json.loads(made.output.files["app.json"])
    assert [one["network"] for one in told["slots"]] == ["first", "second"]
    header = made.output.files["app_addresses.h"].decode()
    script = made.output.files["app_flash.ld"].decode()
    for one in made.output.contents:
        assert f"APP_FLASH_{one.slot.network.upper()}_CRC32 {zlib.crc32(one.data):#010x}UL" in header
        assert f"_app_flash_{one.slot.network}_start = {one.slot.start:#010x}" in script


def test_the_hex_file_is_the_same(made: building.BuiltApplication, tmp_path: Path) -> None:
    file = tmp_path / "app_flash.hex"
    file.write_bytes(made.output.files["app_flash.hex"])
    assert dict(read_hex(file)) == {one.slot.start: one.data for one in made.output.contents}


def test_one_network_is_replaced_and_the_others_bytes_stay(made: building.BuiltApplication, tmp_path: Path) -> None:
    """The second becomes another network; the first one's slot is the same to the byte, and so is where both begin."""
    (tmp_path / "app.json").write_bytes(made.output.files["app.json"])
    second = application().networks[1]
    other = replace(second, options=replace(second.options, numerics="2.x"))  # other roundings, other constants
    changed = replace(application(), networks=(application().networks[0], other))
    found = plan_of(building.with_slots_of(changed, tmp_path / "app.json"))
    contents = building.files_of_application(found, figures(found), AppOptions()).contents
    assert contents[0] == made.output.contents[0]
    assert contents[1].slot == made.output.contents[1].slot and contents[1].data != made.output.contents[1].data


def test_files_that_touch_anothers_memory_are_not_written(made: building.BuiltApplication) -> None:
    """The first network compiled without regard for the second."""
    first, second = made.plan.networks
    lone = plan_of(replace(application(), networks=(replace(first.network, inputs_survive=(), outputs_survive=()),)))
    spoiled = replace(made.plan, networks=(replace(first, compiled=lone.networks[0].compiled), second))
    output = building.files_of_application(spoiled, figures(made.plan), AppOptions())
    with pytest.raises(ModelError, match="findings"):
        building.require_sound(spoiled, output)


_FREERTOS = {
    "FreeRTOS.h": "#include <stdint.h>\n#include <stddef.h>\ntypedef uint32_t TickType_t; typedef int BaseType_t;\n"
    "#define pdPASS 1\n#define portMAX_DELAY 0xffffffffU\n#define pdMS_TO_TICKS(ms) ((TickType_t)(ms))\n",
    "semphr.h": "typedef void *SemaphoreHandle_t;\nSemaphoreHandle_t xSemaphoreCreateMutex(void);\n"
    "BaseType_t xSemaphoreTake(SemaphoreHandle_t, TickType_t); BaseType_t xSemaphoreGive(SemaphoreHandle_t);\n",
    "task.h": "TickType_t xTaskGetTickCount(void); void vTaskDelayUntil(TickType_t *, TickType_t);\n"
    "BaseType_t xTaskCreate(void (*)(void *), const char *, uint32_t, void *, uint32_t, void *);\n",
}
_THREADX = {
    "tx_api.h": "typedef unsigned long ULONG; typedef long LONG; typedef unsigned UINT;\n"
    "typedef struct { int x; } TX_MUTEX; typedef struct { int x; } TX_THREAD;\n"
    "#define TX_WAIT_FOREVER 0xffffffffUL\n#define TX_INHERIT 1\n#define TX_SUCCESS 0\n#define TX_NO_TIME_SLICE 0\n"
    "#define TX_AUTO_START 1\n#define TX_TIMER_TICKS_PER_SECOND 100\n"
    "UINT tx_mutex_create(TX_MUTEX *, char *, UINT); UINT tx_mutex_get(TX_MUTEX *, ULONG);\n"
    "UINT tx_mutex_put(TX_MUTEX *);\n"
    "UINT tx_thread_create(TX_THREAD *, char *, void (*)(ULONG), ULONG, void *, ULONG, UINT, UINT, ULONG, UINT);\n"
    "UINT tx_thread_sleep(ULONG); void tx_thread_relinquish(void); ULONG tx_time_get(void);\n"
}


@needs_compiler
@pytest.mark.parametrize(
    ("kind", "headers"), [("BARE_METAL", {}), ("FREERTOS", _FREERTOS), ("THREADX", _THREADX), ("", {})]
)
def test_loops_compile_without_a_warning(
    made: building.BuiltApplication, tmp_path: Path, kind: str, headers: dict[str, str]
) -> None:
    """Against the declarations of each system that the loop uses, written from its manual."""
    write_files(tmp_path, made.output.files)
    write_files(tmp_path, {name: text.encode() for name, text in headers.items()})
    unit = toolchain.CompileUnit(
        (tmp_path / "app_loop.c", tmp_path / "app_networks.c"),
        (tmp_path, toolchain.runtime_folder("include")),
        {f"APP_LOOP_{kind}": ""} if kind else {},
        strict=True,
    )
    objects = toolchain.compile_units(toolchain.find_toolchain(), [unit], tmp_path)
    symbols = subprocess.run(["arm-none-eabi-nm", str(objects[0])], capture_output=True, text=True, check=True).stdout
    assert ("app_" in symbols) == bool(kind)


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_verb_writes_everything_or_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = [str(TFLITE), str(ONNX)]
    (tmp_path / "busy.toml").write_text(f'[[network]]\nname = "one"\nmodel = "{TFLITE}"\nper_second = 99_000\n')
    code, refused = said(["app", "build", str(tmp_path / "busy.toml"), "-o", str(tmp_path / "a")], capsys)
    assert code == 1 and not (tmp_path / "a").exists()
    assert "--max-load allows 100 %" in refused["gates"][0] and "would run 3" in refused["notes"][0]
    code, told = said(["app", "build", *models, "-o", str(tmp_path / "b")], capsys)
    assert code == 0 and told["document"] == "app-build" and not told["gates"]
    assert {Path(name).name for name in told["files"]} == {path.name for path in (tmp_path / "b").iterdir()}
    assert {"app_networks.h", "app_manifest.json", "digits.c", "digits_2.c"} <= {
        path.name for path in (tmp_path / "b").iterdir()
    }


def test_what_stays_says_why_and_what_does_not_stay_is_noted(made: building.BuiltApplication) -> None:
    assert {(one.network, one.because) for one in made.plan.kept} == {
        ("first", "inputs_survive"),
        ("first", "second is after first"),
        ("second", "inputs_survive"),
    }
    assert not made.notes and [one["because"] for one in made.as_dict()["kept"]] == [
        one.because for one in made.plan.kept
    ]
    lost = replace(made.plan.application, networks=tuple(alone(made.plan.application).networks))
    (note,) = replace(made, plan=replace(made.plan, application=lost)).notes
    assert "outputs of first do not stay while second runs" in note


def test_what_does_not_go_together_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "app.toml"
    file.write_text(f'[[network]]\nname = "one"\nmodel = "{TFLITE}"\n')
    for words in ([str(file), str(TFLITE)], [str(file), "--resident"], [str(tmp_path / "model.h5")]):
        code, told = said(["app", "build", *words], capsys)
        assert code and told["document"] == "error"
    assert AppOptions(max_load=5.0) != AppOptions() and not Options().resident


def test_the_page_has_every_network_and_nothing_from_elsewhere(made: building.BuiltApplication) -> None:
    page = made.output.files["app_report.html"].decode()
    assert page.count("<svg") == 3 and 'href="first_report.html"' in page and "src=" not in page
    assert "second runs behind runs of first, 10 times a second" in page and "stays while second runs" in page
