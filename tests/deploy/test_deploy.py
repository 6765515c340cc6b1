"""The whole way: from a file and a model to a linked image, twice, and after any interruption."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atonc.delivery.deploy import journal, steps, tools
from atonc.delivery.deploy.app_config.header import meaning
from atonc.delivery.deploy.config import read_config
from atonc.delivery.deploy.deployment import Deployment, StepResult
from atonc.delivery.deploy.options import DeployOptions
from atonc.delivery.deploy.steps import FinishedStep, deploy
from atonc.delivery.texts import deploy_text
from atonc.doors.cli import cli
from atonc.insight.report.document import lines
from atonc.machine.base.errors import InputError, ToolError, UnsupportedError
from tests.deploy import test_h747
from tests.deploy.projects import BOARD, fake_tool, n6_project, tree
from tests.deploy.samples import SAMPLES

CLASSIFIER = next(sample for sample in SAMPLES if sample.name == "classification")
NETWORK = f"Model/{BOARD}"
FIRMWARE = f"firmware/{BOARD}"
needs_compiler = pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return CLASSIFIER.write(tmp_path, n6_project(tmp_path / "project"))


def run(config: Path, dry_run: bool = False, **wishes: Any) -> dict[str, FinishedStep]:
    wanted = DeployOptions(verify=False, jobs=1, **wishes)
    done = deploy(Deployment(read_config(config), wanted), dry_run, lambda step: None)
    return {step.step: step for step in done}


@needs_compiler
def test_from_a_model_to_an_image_and_again(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = config.parent / "project"
    assert cli.main(["deploy", str(config), "--no-verify", "-j", "1"]) == 0
    said = capsys.readouterr().out
    steps, _, last = said.partition("\n\n")
    assert [line.split()[0] for line in steps.splitlines() if line[0] != " "] == (
        ["generate", "header", "network", "initialisers", "build", "sign", "flash"]
    )
    labels = [line.split("  ")[0] for line in last.splitlines()]
    assert labels == ["done", "skipped", "skipped", "took", "next"], last
    after = tree(root)
    assert after[f"{FIRMWARE}/Project.elf"].startswith(b"\x7fELF")
    assert f"{FIRMWARE}/Project.elf".encode() in after[".vscode/launch.json"]
    assert b"network_data.hex" in after[".vscode/tasks.json"]
    header = after[f"Application/{BOARD}/Inc/app_config.h"]
    assert header.count(b"\r\n") == header.count(b"\n")
    assert meaning(header.decode())["NB_CLASSES"] == "( 2 )"
    assert b"OLD" in after[f"Application/{BOARD}/Inc/app_config.h{journal.BACKUP}"]
    assert b"of another model" not in after[f"{NETWORK}/network.c"]
    assert after[f"{NETWORK}/network.c"] == after["Model/st_ai_output/network.c"]
    times = {p: p.stat().st_mtime_ns for p in root.rglob("*") if p.is_file() and "build" not in p.name}
    assert cli.main(["deploy", str(config), "--no-verify", "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert not any(step.get("changed") for step in steps)
    assert tree(root) == after
    assert {p: p.stat().st_mtime_ns for p in times} == times


def test_a_dry_run_changes_nothing(config: Path) -> None:
    before = tree(config.parent / "project")
    done = run(config, dry_run=True)
    assert "-#define OLD 1" in done["header"].result.diff
    assert done["generate"].result.note.startswith("would compile classification.tflite")
    assert tree(config.parent / "project") == before
    said = lines(deploy_text.document(list(done.values()), True))
    assert said[-1].endswith("the same without --dry-run") and any("would change header" in line for line in said)


@pytest.mark.parametrize(
    ("result", "dry_run", "said"),
    [
        (StepResult(), False, ["unchanged"]),
        (StepResult(), True, ["nothing changes"]),
        (StepResult(note="as it was"), False, ["as it was"]),
        (StepResult(skipped="no board"), False, ["skipped: no board"]),
        (StepResult(("a.c", "b.c"), note="look"), True, ["would change 2 files:", "a.c", "b.c", "note: look"]),
        (StepResult(("a.c",)), False, ["wrote: 1 file", "a.c"]),
        (StepResult(("a.c",), diff="-old\n+new\n"), True, ["would change 1 file:", "a.c", "-old", "+new"]),
        (StepResult(note="would run\nflasher -w"), True, ["would run", "flasher -w"]),
    ],
)
def test_a_step_says_what_it_did(result: StepResult, dry_run: bool, said: list[str]) -> None:
    told = list(deploy_text.lines(FinishedStep("copy", "wrote", 1.5, result), dry_run))
    assert [line.removeprefix("copy              1.5 s").strip() for line in told] == said


def test_weights_become_files_to_flash(config: Path) -> None:
    done = run(config, until="initialisers")
    root = config.parent / "project"
    raw = {p.name: p.read_bytes() for p in (root / "Model/st_ai_output").glob("*.raw") if p.stat().st_size}
    for name, data in raw.items():
        assert (root / NETWORK / f"network_data.{name.split('.')[1]}.bin").read_bytes() == data
    assert list(done) == ["generate", "header", "network", "initialisers"]


def test_a_changed_model_is_compiled_again(config: Path) -> None:
    assert run(config, until="generate")["generate"].result.changed
    assert run(config, until="generate")["generate"].result.skipped == "compiled before"
    path = config.parent / "project" / "Model/st_ai_output/network.c"
    path.write_bytes(path.read_bytes() + b"/* by hand */\n")
    assert run(config, until="generate")["generate"].result.changed == ("Model/st_ai_output/network.c",)


class Killed(BaseException):
    """As a signal that cannot be caught."""


def _dying(call: Callable[..., Any], left: list[int], before: bool) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and before:
            raise Killed
        found = call(*args, **kwargs)
        if left[0] == 0:
            raise Killed
        return found

    return wrapped


@needs_compiler
@pytest.mark.parametrize("before", [True, False])
def test_killed_between_and_in_all_steps(config: Path, before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every stage, list, renaming and tool: the next run ends with the bytes of a run that nobody disturbed."""
    root, clean = config.parent / "project", config.parent / "clean"
    shutil.copytree(root, clean)
    run(config)
    wanted = tree(root)
    deaths = 0
    for number in range(1, 80, 3):  # the network has many files: not every renaming
        shutil.rmtree(root)
        shutil.copytree(clean, root)
        left = [number]
        with monkeypatch.context() as patch:
            for owner, name in ((journal, "_stage"), (journal, "move"), (journal, "_finish"), (tools, "run")):
                patch.setattr(owner, name, _dying(getattr(owner, name), left, before))
            try:
                run(config)
            except Killed:
                deaths += 1
        if left[0] > 0:
            break
        run(config)
        assert tree(root) == wanted
    assert deaths >= 10


@needs_compiler
def test_a_half_build_is_begun_anew(config: Path) -> None:
    run(config)
    root = config.parent / "project"
    half = root / f"Application/{BOARD}/build-atonc/out/Project.elf"
    half.write_bytes(b"half")
    os.utime(half, (2**32, 2**32))
    (root / journal.FOLDER / "building").write_text("")
    before = tree(root)
    run(config)
    before.pop(f"{journal.FOLDER}/building")
    assert tree(root) == before


@needs_compiler
def test_a_failing_build_says_what_failed(config: Path) -> None:
    main = config.parent / "project" / f"Application/{BOARD}/Src/main.c"
    main.write_text(main.read_text() + "int broken = nothing_like_this;\n")
    with pytest.raises(ToolError, match="building the firmware failed") as error:
        run(config)
    assert any("nothing_like_this" in line for line in error.value.details)


def test_without_tools_the_steps_say_what_is_missing(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(config.parent / "empty"))
    done = run(config)
    assert "neither make" in done["build"].result.skipped
    assert "STM32CubeProgrammer" in done["sign"].result.skipped
    assert "STM32CubeProgrammer" in done["flash"].result.skipped


@needs_compiler
@pytest.mark.parametrize("align", [True, False])
def test_signed_and_flashed_where_the_tools_are(config: Path, align: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    bin_folder = config.parent / "bin"
    copies = (
        'while [ $# -gt 0 ]; do case "$1" in -bin) s="$2";; -o) t="$2";; esac; shift; done\n[ -z "$t" ] || cp "$s" "$t"'
    )
    fake_tool(bin_folder, "STM32_SigningTool_CLI", f'[ "$1" = --help ] && echo "{"-align" if align else ""}"\n{copies}')
    fake_tool(bin_folder, "STM32_Programmer_CLI", "exit 0")
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
    done = run(config)
    assert done["sign"].result.changed == (f"{FIRMWARE}/Project_signed.bin",)
    log = (bin_folder / "log").read_text().splitlines()
    assert ("-hv 2.3 -align -o" in log[1]) == align
    flashed = [line for line in log if line.startswith("STM32_Programmer_CLI")]
    assert [line.split(" -w ")[1] for line in flashed] == [
        "Binary/ai_fsbl.hex",
        *(
            [f"{NETWORK}/network_data.hex"]
            if (config.parent / "project" / NETWORK / "network_data.hex").exists()
            else []
        ),
        f"{FIRMWARE}/Project_signed.bin 0x70100000",
    ]
    assert "ExternalLoader/loader.stldr" in flashed[0]
    assert run(config)["sign"].result.skipped == "signed before"


def test_a_tool_that_fails_is_named(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bin_folder = config.parent / "bin"
    fake_tool(bin_folder, "STM32_Programmer_CLI", 'echo "Error: No debug probe detected"; exit 1')
    monkeypatch.setenv("PATH", f"{bin_folder}:/usr/bin:/bin")
    signed = config.parent / "project" / FIRMWARE / "Project_signed.bin"
    signed.parent.mkdir(parents=True)
    signed.write_bytes(b"x")
    monkeypatch.setattr(steps, "_builder", lambda deployment: None)
    with pytest.raises(ToolError, match=r"flashing (?s:.*) failed") as error:
        run(config)
    assert any("No debug probe" in line for line in error.value.details)


@needs_compiler
def test_cube_ide_without_its_window(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, bin_folder = config.parent / "project", config.parent / "bin"
    (root / f"Application/{BOARD}/Makefile").unlink()
    ide = root / f"Application/{BOARD}/STM32CubeIDE"
    ide.mkdir()
    (ide / ".project").write_text("<projectDescription/>")
    gcc = "arm-none-eabi-gcc -mcpu=cortex-m55 -nostdlib -Wl,-e,0 -x c /dev/null"
    compiles = f"mkdir -p {ide}/Debug && {gcc} -o {ide}/Debug/x.elf"
    fake_tool(bin_folder, "stm32cubeide", compiles)
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
    assert f"{FIRMWARE}/Project.elf" in run(config)["build"].result.changed
    assert "-cleanBuild Small/Debug" in (bin_folder / "log").read_text()


def test_an_stm32h7_application_is_patched(tmp_path: Path) -> None:
    root = tmp_path / "h7"
    root.mkdir()
    test_h747.project(root)
    conf = {
        "env": {"network_src_root": "${ProjectFolder}/Application/Network"},
        "templates": [["", "${ProjectFolder}/Application/STM32H747I-DISCO/Inc/CM7/ai_model_config.h", "copy"]],
    }
    (root / "stmaic_STM32H747I-DISCO.conf").write_text(json.dumps(conf))
    pools = {"memory": {"mempools": [{"name": "AXIRAM", "size": {"value": "415"}}]}}
    (root / "mempools_STM32H747I-DISCO.json").write_text(json.dumps(pools))
    network = tmp_path / "st_ai_output"
    network.mkdir()
    (network / "network.c").write_text("/* c */\n")
    (network / "network.h").write_text("/* h */\n")
    (network / "network_c_info.json").write_text(json.dumps({"memory_pools": test_h747.HEAP}))
    sample = next(sample for sample in SAMPLES if sample.name == "h7_classification")
    config = sample.write(tmp_path, root)
    with pytest.raises(InputError, match="no compiled network given"):
        run(config, until="patch")
    done = run(config, network=network, until="patch")
    assert set(done["patch"].result.changed) == {test_h747.MAIN_H, test_h747.MAIN_C, test_h747.INTERFACE_H}
    assert (root / "Application/Network/Src/network.c").is_file()
    assert "INPUT_HEIGHT" in (root / "Application/STM32H747I-DISCO/Inc/CM7/ai_model_config.h").read_text()
    assert not any(step.result.changed for step in run(config, network=network, until="patch").values())


def test_an_stm32h7_application_of_nothing_but_its_core(tmp_path: Path) -> None:
    """As ST's function takes it: no description, no memory pools, only Inc/CM7 and Src/CM7."""
    root = tmp_path / "h7"
    test_h747.project(root)
    network = tmp_path / "st_ai_output"
    network.mkdir()
    (network / "network.c").write_text("/* c */\n")
    (network / "network_c_info.json").write_text(json.dumps({"memory_pools": test_h747.HEAP}))
    sample = next(sample for sample in SAMPLES if sample.name == "h7_classification")
    done = run(sample.write(tmp_path, root), network=network, until="patch")
    assert set(done["patch"].result.changed) == {test_h747.MAIN_H, test_h747.MAIN_C, test_h747.INTERFACE_H}
    assert "415,000 bytes of AXIRAM" in done["patch"].result.note
    assert (root / "Application/Network/Src/network.c").is_file()
    assert "INPUT_HEIGHT" in (root / "Application/STM32H747I-DISCO/Inc/CM7/ai_model_config.h").read_text()


def test_a_board_that_is_written_otherwise(config: Path) -> None:
    config.write_text(config.read_text().replace(f"board: {BOARD}", "board: STM32N6570_DK"))
    with pytest.raises(InputError, match=f"is no application for the STM32N6570_DK(?s:.*)did you mean {BOARD}"):
        run(config)


@pytest.mark.parametrize(
    ("old", "new", "wishes", "said"),
    [
        ("serie: STM32N6", "serie: STM32MP2", {}, "runs Linux"),
        ("serie: STM32N6", "serie: STM32F4", {}, "write --until header"),
        ("", "", {"until": "bild"}, "there is no step 'bild'"),
    ],
)
def test_what_cannot_be_deployed(config: Path, old: str, new: str, wishes: dict[str, str], said: str) -> None:
    config.write_text(config.read_text().replace(old, new))
    with pytest.raises((InputError, UnsupportedError)) as error:
        run(config, **wishes)
    assert said in str(error.value)


def test_a_description_that_leads_out_of_the_project(config: Path) -> None:
    conf = config.parent / "project" / f"stmaic_{BOARD}.conf"
    conf.write_text(conf.read_text().replace("${ProjectFolder}/Model/STM32N6570-DK", "${ProjectFolder}/../elsewhere"))
    with pytest.raises(InputError, match="leads out of the project"):
        run(config)


def test_a_folder_that_is_no_application(config: Path) -> None:
    (config.parent / "project" / f"stmaic_{BOARD}.conf").unlink()
    shutil.rmtree(config.parent / "project" / "Application")
    with pytest.raises(InputError, match="is no application for the STM32N6570-DK"):
        run(config)


def test_boards_that_are_not_built_get_their_header(tmp_path: Path) -> None:
    root = tmp_path / "f4"
    (root / "Inc").mkdir(parents=True)
    conf = {"templates": [["", "${ProjectFolder}/Inc/ai_model_config.h", "copy"]]}
    (root / "stmaic_c_project.conf").write_text(json.dumps(conf))
    sample = next(sample for sample in SAMPLES if sample.name == "hand")
    assert run(sample.write(tmp_path, root), until="header")["header"].result.changed == ("Inc/ai_model_config.h",)


def test_tables_of_sounds_are_mentioned(tmp_path: Path) -> None:
    root = tmp_path / "u5"
    (root / "Inc").mkdir(parents=True)
    conf = {"templates": [["", "${ProjectFolder}/Inc/ai_model_config.h", "copy"]]}
    (root / "aed_stmaic_c_project.conf").write_text(json.dumps(conf))
    sample = replace(next(s for s in SAMPLES if s.name == "audio"), board=("STM32U5", "B-U585I-IOT02A"))
    assert "mel tables" in run(sample.write(tmp_path, root), until="header")["header"].result.note
