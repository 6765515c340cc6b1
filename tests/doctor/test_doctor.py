"""`atonc doctor` with tools that are there, absent, too old, or broken: fakes on a search path of their own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from atonc.delivery.doctor import diagnosis
from atonc.delivery.doctor.diagnosis import STEPS, DoctorItem, DoctorState, below, examine, numbers
from atonc.delivery.texts import doctor_text
from atonc.doors.cli.cli import main
from atonc.insight.report.document import lines

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="fakes are shell scripts")
LOADER = "MX66UW1G45G_STM32N6570-DK.stldr"
GOOD = {
    "arm-none-eabi-gcc": "arm-none-eabi-gcc (15:12.2.rel1-1) 12.2.1 20221205",
    "arm-none-eabi-objcopy": "GNU objcopy (2.40-2+18+b1) 2.40",
    "make": "GNU Make 4.3",
    "STM32_Programmer_CLI": "STM32CubeProgrammer version: 2.20.0",
    "STM32_SigningTool_CLI": "STM32 Signing Tool v2.21.0",
    "ST-LINK_gdbserver": "STMicroelectronics ST-LINK GDB server. Version 7.10.0",
    "arm-none-eabi-gdb": "GNU gdb (Debian 13.1-3) 13.1",
    "stedgeai": "ST Edge AI Core v4.0.1-20581",
}


def fake(folder: Path, name: str, said: str, code: int = 0) -> None:
    specs = folder / "nano.specs"
    script = folder / name
    script.write_text(
        f'#!/bin/sh\ncase "$1" in -print-file-name=*) echo "{specs}";; *) echo "{said}";; esac\nexit {code}\n'
    )
    script.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty search path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("STM32_CUBE_IDE_DIR", raising=False)
    return folder


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A machine with a probe and its serial port."""
    device = tmp_path / "root/sys/bus/usb/devices/1-1"
    device.mkdir(parents=True)
    for name, text in (("idVendor", "0483"), ("idProduct", "3754"), ("busnum", "1"), ("devnum", "7")):
        (device / name).write_text(f"{text}\n")
    (device / "product").write_text("STLINK-V3\x1b[31m\n")
    for node in ("dev/bus/usb/001/007", "dev/serial/by-id/usb-STMicroelectronics_STLINK-V3_0001-if02"):
        path = tmp_path / "root" / node
        path.parent.mkdir(parents=True)
        path.write_text("")
    return tmp_path / "root"


def everything(tools: Path) -> None:
    for name, said in GOOD.items():
        fake(tools, name, said)
    (tools / "nano.specs").write_text("")
    (tools / "ExternalLoader").mkdir()
    (tools / "ExternalLoader" / LOADER).write_text("")


def states(board: str, root: Path) -> dict[str, bool]:
    return {step.key: step.ready for step in examine(board, root).steps}


def test_with_everything_there_every_step_is_ready(tools: Path, system: Path) -> None:
    everything(tools)
    found = examine("stm32n6570-dk", system)
    lacking = {step.key: step.lacks for step in found.steps if not step.ready}
    assert set(lacking) <= {"measure"}, lacking  # pyserial may not be installed here
    assert tuple(step.key for step in found.steps) == STEPS
    programmer = next(i for s in found.steps for i in s.needs if i.name == "STM32_Programmer_CLI")
    assert programmer.version == "2.20.0" and programmer.where == str(tools / "STM32_Programmer_CLI")
    probe = next(i for s in found.steps for i in s.needs if i.name == diagnosis.PROBE)
    assert probe.version == "STLINK-V3\\x1b[31m"  # what a device calls itself does not act on the terminal


def test_with_nothing_there_each_step_says_what_and_how(tools: Path, tmp_path: Path) -> None:
    found = examine("stm32n6570-dk", tmp_path)
    lacks = {step.key: {item.name for item in step.lacks} for step in found.steps}
    assert lacks["compile"] == set()  # compiling needs no tools
    assert lacks["virtual-board"] == {"arm-none-eabi-gcc", "newlib for Arm"}
    assert lacks["build"] == {"arm-none-eabi-gcc", "newlib for Arm", "arm-none-eabi-objcopy", "make", "cmake"}
    assert lacks["sign"] == {"STM32_SigningTool_CLI"}
    assert lacks["flash"] == {"STM32_Programmer_CLI", LOADER, diagnosis.PROBE}
    assert all(item.remedy for step in found.steps for item in step.lacks)
    said = "\n".join(lines(doctor_text.document(found)))
    assert "one of make, cmake is enough" in said and "apt install gcc-arm-none-eabi" in said


@pytest.mark.parametrize(
    "name, said, step",
    [
        ("arm-none-eabi-gcc", "arm-none-eabi-gcc (GNU Tools) 9.2.1", "build"),
        ("STM32_Programmer_CLI", "STM32CubeProgrammer version: 2.14.0", "flash"),
        ("STM32_SigningTool_CLI", "STM32 Signing Tool v2.9", "sign"),
        ("stedgeai", "ST Edge AI Core v1.0.0-19894", "st"),
    ],
)
def test_old_tools_are_named_with_what_is_wanted(name: str, said: str, step: str, tools: Path, system: Path) -> None:
    everything(tools)
    fake(tools, name, said)
    found = next(s for s in examine("stm32n6570-dk", system).steps if s.key == step)
    (old,) = [item for item in found.lacks if item.name == name]
    assert old.state == DoctorState.OLD and "or later" in old.wanted and old.remedy and not found.ready


def test_broken_tools_do_not_count(tools: Path, system: Path) -> None:
    everything(tools)
    fake(tools, "make", "cannot load library", 1)
    (tools / "STM32_SigningTool_CLI").write_text("not a program")
    found = {item.name: item for step in examine("dk", system).steps for item in (*step.needs, *step.one_of)}
    assert found["make"].state == DoctorState.BROKEN and found["STM32_SigningTool_CLI"].state == DoctorState.BROKEN
    fake(tools, "STM32_Programmer_CLI", "STM32CubeProgrammer version: 2.20.0", 1)  # ST's end so after their version
    assert diagnosis.look_for(diagnosis.PROGRAMMER).good


def test_one_build_tool_is_enough(tools: Path, system: Path) -> None:
    everything(tools)
    (tools / "make").unlink()
    assert not states("dk", system)["build"]
    fake(tools, "cmake", "cmake version 3.25.1")
    assert states("dk", system)["build"]


def test_a_compiler_without_its_library(tools: Path, system: Path) -> None:
    everything(tools)
    (tools / "nano.specs").unlink()
    found = next(s for s in examine("dk", system).steps if s.key == "build")
    assert [item.name for item in found.lacks] == ["newlib for Arm"]


def test_tools_inside_the_ide(tools: Path, system: Path, tmp_path: Path) -> None:
    inside = tmp_path / "ide/plugins/com.st.cubeprogrammer_2.2/tools/bin"
    inside.mkdir(parents=True)
    everything(inside)
    found = next(s for s in examine("dk", system, tmp_path / "ide").steps if s.key == "flash")
    assert found.ready and found.needs[0].where.startswith(str(inside))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_permissions_are_told_from_absence(tools: Path, system: Path) -> None:
    for path in (*system.glob("dev/bus/usb/*/*"), *system.glob("dev/serial/by-id/*")):
        path.chmod(0)
    assert diagnosis.probe(system).state == diagnosis.port(system).state == DoctorState.BARRED


def test_permissions_as_the_system_tells_them(
    system: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    probe, port = diagnosis.probe(system), diagnosis.port(system)
    assert probe.state == port.state == DoctorState.BARRED
    assert "udev" in probe.remedy and "dialout" in port.remedy


def test_boards_are_looked_at_too(tools: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"\nbased_on = "dk"\ncolour = 1\n')
    found = next(s for s in examine(str(tmp_path / "mine.toml"), tmp_path).steps if s.key == "compile")
    (board,) = found.lacks
    assert board.state == DoctorState.BROKEN and "colour: unknown key" in board.remedy


def test_packages_too_old_too_new_and_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"numpy": "1.20.0", "rich": "16.0.1", "tree-sitter": "0.25.2"}

    def version(name: str) -> str:
        if name not in versions:
            raise diagnosis.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(diagnosis.metadata, "version", version)
    found = {item.name: item.state for item in diagnosis.packages()}
    assert found["numpy"] == DoctorState.OLD and found["rich"] == DoctorState.NEW
    assert found["tree-sitter"] == DoctorState.FOUND and found["tree-sitter-c"] == DoctorState.MISSING
    assert diagnosis.packages("no-such-extra")[0].state == DoctorState.BROKEN


def test_versions_compare_as_numbers() -> None:
    assert below("2.9", "2.18") and not below("2.21.0", "2.21") and below("9.2.1", "11.0")
    assert numbers("12.2.rel1") == (12, 2) and numbers("4.0.1-20581") == (4, 0, 1) and numbers("x") == ()
    assert not DoctorItem("x", DoctorState.OLD).good


def test_the_command_says_what_the_exit_code_means(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0 and "LACKING  build firmware (build)" in capsys.readouterr().out
    assert main(["doctor", "--for", "build", "-q"]) == 4
    assert main(["doctor", "--for", "lunch"]) == 2
    capsys.readouterr()
    assert main(["doctor", "--json", "-v"]) == 0
    steps = {step["key"]: step for step in json.loads(capsys.readouterr().out)["steps"]}
    assert steps["compile"]["ready"] and not steps["build"]["ready"]
    assert main(["doctor", "-v"]) == 0 and "numpy: found" in capsys.readouterr().out
