"""Called by the name of ST's tool: what scripts parse, copy and grep is there, and nothing changes its meaning."""

from __future__ import annotations

import ctypes
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compile import compile_view, pipeline
from atonc.compiler.compile.pipeline import Watch, no_watch
from atonc.doors.cli.cli import main, parse
from atonc.doors.verbs.stedgeai import RELEASE, meant, release_of
from tests.st_lines_files import write_files

ROOT = Path(__file__).parent.parent
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
LINES = Path(__file__).with_name("st_public_lines.txt")
NPU = ("--target", "stm32n6", "--st-neural-art")
Called = Callable[..., tuple[int, str, str]]


@pytest.fixture
def stedgeai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    """A call by ST's name in a folder of its own: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        try:
            code = main(list(words), "/opt/st/Utilities/linux/stedgeai")
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_what_scripts_read_from_the_version(stedgeai: Called) -> None:
    code, text, _ = stedgeai("--version")
    first = text.splitlines()[0]
    assert code == 0 and "atonc" in first and "not by ST" in first
    assert re.findall(r"STM32CubeAI (\d+\.\d+\.\d+)", "".join(text.splitlines())) == ["12.0.1"]  # zoo, stm_ai_tools
    assert text.split("v")[-1].split("-")[0] == "4.0.1"  # zoo, common_benchmark
    assert re.search(r"ST Edge AI Core v[0-9]+\.[0-9]+", text)  # generate-n6-model scripts
    found = re.search(r"(v[\d\.\-]+\s*\d+)", first)  # packagers
    assert found and found[1] == "v4.0.1-20581"
    assert stedgeai("--tools-version")[1].startswith(first)


def test_the_release_is_chosen(stedgeai: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RELEASE, "2.0.0")
    assert "STM32CubeAI 10.0.0" in stedgeai("--version")[1]
    monkeypatch.setenv(RELEASE, "2.9")
    code, _, said = stedgeai("--version")
    assert code == 2 and "2.2.0" in said and RELEASE in said


@pytest.mark.parametrize(("release", "new"), [("2.2.0", False), ("3.0.0", True), ("", True)])
def test_the_interface_is_that_of_the_release(
    release: str, new: bool, stedgeai: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RELEASE, release)
    assert stedgeai("generate", "-m", str(DIGITS), *NPU, "--no-verify")[0] == 0
    assert Path("st_ai_output/stai_network.c").exists() == new


def test_analyze_leaves_the_files_of_the_network(stedgeai: Called) -> None:
    code, text, _ = stedgeai("-m", str(DIGITS), *NPU, "--no-verify")
    assert code == 0 and text.splitlines()[0] == release_of("").banner
    for name in ("network.c", "network.h", "network_atonbuf.xSPI2.raw", "network_c_info.json"):
        assert Path("st_ai_output", name).is_file()
    report = Path("st_ai_output/network_analyze_report.txt").read_text()
    assert report.splitlines()[0] == release_of("").banner
    assert not Path("st_ai_output/network_generate_report.txt").exists()
    assert re.search(r"pure software \(SW\) epochs +1$", report, re.MULTILINE)
    assert re.search(r"pure hardware \(HW or EC\) epochs +\d+$", report, re.MULTILINE)
    assert report.splitlines()[5:20] == text.splitlines()[5:20]
    work = Path("st_ai_ws/neural_art__network")
    assert (work / "c_info.json").is_file() and (work / "atonbuf.xSPI2.raw").is_file()


def test_the_report_that_the_model_zoo_reads(stedgeai: Called) -> None:
    words = ("generate", "-m", str(DIGITS), "--target", "stm32", "--output", "f", "--workspace", "f", "--no-verify")
    assert stedgeai(*words)[0] == 0
    found = json.loads(Path("f/network_report.json").read_text())
    assert found["ram_size"] > 0 and found["rom_n_macc"] > 0
    assert found["rom_size"] > 7000, "weights of layers on the CPU are in the code"
    tool = json.loads(Path("f/network_c_info.json").read_text())["environment"]["tools"][0]
    assert tool["name"] == "ST.EdgeAI.Core" and "atonc" in tool["version"]


def test_what_the_deployment_of_the_zoo_takes_from_the_files(stedgeai: Called) -> None:
    """Its c_info reader, and the glob by which it moves C files and images."""
    words = ("--output", "out", "--workspace", "out", *NPU, "--input-data-type", "uint8", "--quiet", "--no-verify")
    assert stedgeai("generate", "-m", str(DIGITS), *words)[0] == 0
    info = json.loads(Path("out/network_c_info.json").read_text())
    assert info["json_schema_version"] == "2.0" and info["environment"]["tools"][0]["input_model"]["type"] == "tflite"
    assert all({"name", "id", "macc"} <= set(node) for node in info["graphs"][0]["nodes"])
    assert all({"id", "used_size_bytes"} <= set(pool) for pool in info["memory_pools"])
    assert all({"id", "size_bytes"} <= set(buffer) for buffer in info["buffers"])
    assert {"weights", "activations", "io", "series", "kernel_ram", "kernel_flash"} <= set(info["memory_footprint"])
    name = info["environment"]["generated_model"]["name"]
    assert not list(Path("out").glob(f"{name}*.[ch]")), "then it moves all C files, and the images with them"
    assert {"network.c", "network.h"} <= {path.name for path in Path("out").glob("*.[ch]")}
    assert list(Path("out").glob("*.raw"))


@pytest.mark.parametrize(("asked", "blobs"), [((), False), (("--enable-epoch-controller",), True)])
def test_the_controller_is_used_where_it_is_asked_for(asked: tuple[str, ...], blobs: bool, stedgeai: Called) -> None:
    """Scripts copy network_ecblobs.h exactly where their profile asks for it: elsewhere network.c must not want it."""
    assert stedgeai("generate", "-m", str(DIGITS), *NPU, *asked, "--no-verify")[0] == 0
    assert Path("st_ai_output/network_ecblobs.h").is_file() == blobs
    text = Path("st_ai_output/network.c").read_text()
    assert ('#include "network_ecblobs.h"' in text) == blobs
    assert ("LL_ATON_EC_Network_Init_Default(void)\n{" in text) != blobs
    assert main(["run", "st_ai_output", "--json"]) == 0, "a folder like any other"


def test_no_npu_and_a_node_on_it_contradict(stedgeai: Called) -> None:
    words = ("generate", "-m", str(DIGITS), "--target", "stm32n6", "--on", "npu", "conv1")
    code, _, said = stedgeai(*words)
    assert code == 2 and "--no-npu leaves out" in said


def test_without_the_npu_nothing_runs_on_it(stedgeai: Called) -> None:
    code, text, said = stedgeai("generate", "-m", str(DIGITS), "--target", "stm32n6", "--no-verify")
    assert code == 0 and "--no-npu" in said and "add --st-neural-art" in said
    assert re.search(r"pure hardware \(HW or EC\) epochs +0$", text, re.MULTILINE) and " ms predicted" in text
    _, _, said = stedgeai("generate", "-m", str(DIGITS), *NPU, "--no-verify")
    assert "no-npu" not in said
    options = parse(["validate", "-m", "x.tflite", "--target", "stm32n6", "--mode", "target"], release_of(""))
    assert not options.no_npu, "what is on the board was built before"


@pytest.mark.parametrize("target", ["stm32h7", "stm32u5", "stellar-e", "mlc", "stm32mp25"])
def test_other_targets_are_refused_by_name(target: str, stedgeai: Called) -> None:
    code, text, said = stedgeai("generate", "-m", str(DIGITS), "--target", target)
    assert code == 2 and f"--target {target} is not offered" in said and "Cortex-M55" in said
    assert text == release_of("").banner + "\n" and not Path("st_ai_output").exists()


@pytest.mark.parametrize("words", ["--series stm32n6", "--series=STM32N6", "--target STM32N6"])
def test_a_target_has_several_spellings(words: str) -> None:
    found = meant(("generate", "-m", "x.tflite", *words.split(), "--st-neural-art"), release_of(""))
    assert found.words == ("generate", "-m", "x.tflite", "--st-neural-art", "--c-api", "st-ai") and not found.notes


def test_a_series_is_refused_like_a_target(stedgeai: Called) -> None:
    words = ("generate", "-m", str(DIGITS), "--series", "stm32h7")
    assert "--series stm32h7 is not offered: atonc compiles for the STM32N6" in stedgeai(*words)[2]
    code, _, said = stedgeai(*words, *NPU)
    assert code == 2 and "two targets are given" in said and "--target and --series" in said
    assert main([*words]) == 2, "by our own name too"


def test_a_target_must_be_named_and_suit_the_npu(stedgeai: Called) -> None:
    assert "no target" in stedgeai("analyze", "-m", str(DIGITS))[2]
    assert "write --target stm32n6" in stedgeai("analyze", "-m", str(DIGITS), "--target", "stm32", "--st-neural-art")[2]


def test_json_stays_json(stedgeai: Called) -> None:
    code, text, said = stedgeai("analyze", "-m", str(DIGITS), *NPU, "--no-verify", "--json")
    assert code == 0 and json.loads(text) and said.startswith(release_of("").banner)


def test_options_of_other_verbs_change_nothing() -> None:
    words = ["generate", "-m", "m", *NPU, "-vi", "a", "b", "--mode", "target", "--range", "-1", "5", "--save-csv"]
    words += ["--memory_pool", "x"]
    found = meant(words, release_of("2.2.0"))
    assert found.words == ("generate", "-m", "m", "--st-neural-art", "--memory-pool", "x", "--c-api", "legacy")


def test_validate_leaves_its_files(stedgeai: Called) -> None:
    assert stedgeai("validate", "-m", str(DIGITS), *NPU, "-b", "2")[0] == 0
    found = json.loads(Path("st_ai_output/network_c_info_valid.json").read_text())
    assert found["validation"]["val_metrics"][0]["cos"] > 0.99 and found["json_schema_version"] == "2.0"
    assert Path("st_ai_output/network_validate_report.txt").read_text().startswith(release_of("").banner)
    assert Path("st_ai_output/network_val_io.npz").is_file()


# ------------------------------------------------------------------------------------------------- the installation


def test_an_installation_answers_by_its_name(tmp_path: Path) -> None:
    assert main(["stedgeai", "--install", str(tmp_path), "-q"]) == 0
    launcher = tmp_path / "Utilities" / "linux" / "stedgeai"
    done = subprocess.run([str(launcher), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == release_of("").banner
    for script in ("npu_driver.py", "st_load_and_run.py"):
        words = [sys.executable, str(tmp_path / "scripts" / "N6_reloc" / script), "--help"]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        for option in SEED_OPTIONS[script]:
            assert option in told, f"{script} has no {option}"


SEED_OPTIONS = {
    "npu_driver.py": ("--input", "--output", "--name", "--no-secure", "--split", "--pack-dir", "--gen-c-file",
                      "--parse-only", "--no-clean", "--log", "--verbosity", "--debug"),
    "st_load_and_run.py": ("--input", "--board", "--address", "--mode", "--cube-ide-dir", "--log", "--verbosity"),
}  # fmt: skip


def test_what_users_keep_in_an_installation_stays(tmp_path: Path) -> None:
    profiles = tmp_path / "scripts" / "N6_scripts" / "user_neuralart.json"
    profiles.parent.mkdir(parents=True)
    profiles.write_text("mine")
    runtime = tmp_path / "runtime"
    assert main(["stedgeai", "--install", str(tmp_path), "--runtime", str(runtime), "-q"]) == 2
    for part in ("Inc", "Lib", "Npu"):
        (runtime / part).mkdir(parents=True)
    for _ in range(2):
        assert main(["stedgeai", "--install", str(tmp_path), "--runtime", str(runtime), "-q"]) == 0
    assert profiles.read_text() == "mine" and (tmp_path / "Middlewares/ST/AI/Npu").is_dir()
    assert (tmp_path / "Utilities/scripts/N6_scripts/my_mpools/stm32n6.mpool").is_file()


# ------------------------------------------------------------------------------------------- a library of this computer


@pytest.mark.skipif(not sys.platform.startswith("linux") or shutil.which("gcc") is None, reason="needs gcc on Linux")
def test_the_library_computes_what_the_emulator_does(stedgeai: Called) -> None:
    import atonc

    assert stedgeai("generate", "-m", str(DIGITS), "--target", "stm32", "--dll", "--no-verify")[0] == 0
    library = ctypes.CDLL(str(Path("st_ai_ws/inspector_network/workspace/lib/libai_network.so").absolute()))
    codes = np.random.default_rng(3).integers(-128, 128, (8, 8, 1)).astype(np.int8)
    assert library.stai_network_init(None) == 0
    place, count = (ctypes.c_void_p * 8)(), ctypes.c_int32(8)
    assert library.stai_network_get_inputs(None, place, ctypes.byref(count)) == 0 and count.value == 1
    ctypes.memmove(place[0], codes.ctypes.data, codes.nbytes)
    assert library.stai_network_run(None, 1) == 0
    library.stai_network_get_outputs(None, place, ctypes.byref(count))
    got = np.frombuffer(ctypes.string_at(place[0], 10), np.int8)
    compiled = atonc.compile(DIGITS, verify=False, no_npu=True)
    assert np.array_equal(got, atonc.run(compiled, {"image": codes[None]})["probabilities"].reshape(-1))


# ------------------------------------------------------------------------------------------------ public command lines


def _public() -> list[tuple[int, str, list[str]]]:
    rows = [line.split("|") for line in LINES.read_text().splitlines() if line[:1].isdigit()]
    return [(int(code), line.strip(), files.split()) for code, _, line, files in rows]


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal compilations are done once: the lines are about the command line."""
    kept: dict[str, object] = {}
    really = pipeline.compile_file

    def compile_once(path: Path, options: object = None, watch: Watch = no_watch) -> object:
        key = repr((path.name, options))
        if key not in kept:
            kept[key] = really(path, options, watch)  # type: ignore[arg-type]
        return kept[key]

    monkeypatch.setattr(pipeline, "compile_file", compile_once)
    monkeypatch.setattr(compile_view, "compile_file", compile_once)


def test_public_command_lines_end_as_they_must(stedgeai: Called, once: None, tmp_path: Path) -> None:
    lines = _public()
    assert len(lines) >= 40
    write_files(tmp_path, DIGITS)
    written = ("st_ai_output", "st_ai_ws")
    for expected, line, files in lines:
        for folder in written:
            shutil.rmtree(tmp_path / folder, ignore_errors=True)
        words = shlex.split(line.replace("@M", "m.tflite").replace("@O", "o.onnx"))
        words += ["--no-verify"] if {"generate", "analyze", "-m"} & {words[0]} else []
        words += ["--fix-parametric-shapes", "B=1"] if "o.onnx" in words else []
        code, _, said = stedgeai(*words)
        assert code == expected, f"{line}: {code}, not {expected}: {said}"
        missing = [file for file in files if not (tmp_path / file).is_file()]
        assert not missing, f"{line}: no {', '.join(missing)}"
        assert code == 0 or any(row.startswith("atonc: ") for row in said.splitlines()), line
