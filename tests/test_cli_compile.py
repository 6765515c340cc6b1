"""generate, analyze and validate on the bundled digits: what they print, write and return."""

from __future__ import annotations

import dataclasses
import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import atonc
from atonc.compiler import ir
from atonc.compiler.compile.pipeline import memories
from atonc.compiler.inputs.inputs import as_input, in_order_of
from atonc.compiler.request.options import Options
from atonc.compiler.verify import verify
from atonc.delivery.generate.profiles import read_profile
from atonc.doors.cli.cli import main
from atonc.insight.runs.programs import read_programs
from atonc.insight.validating import validating
from atonc.machine.base import errors
from atonc.machine.hw import safety
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec.instructions import decode
from tests.errors_said import unwrapped

EXAMPLES = Path(__file__).parent.parent / "examples"
DIGITS = str(EXAMPLES / "digits" / "digits.tflite")
TEST = str(EXAMPLES / "digits" / "test.npz")


POOLS = """{ "memory": { "mem_file_prefix": "atonbuf", "mempools": [ // by hand
 { "fname": "AXISRAM5", "name": "npuRAM5", "fformat": "FORMAT_RAW",
   "prop": { "rights": "ACC_WRITE", "throughput": "HIGH", "latency": "LOW", "byteWidth": 8, "freqRatio": 1.25, },
   "offset": { "value": "0x342e0000", "magnitude": "BYTES" }, "size": { "value": "448", "magnitude": "KBYTES" } },
 { "fname": "AXISRAM6", "name": "npuRAM6", "fformat": "FORMAT_RAW",
   "prop": { "rights": "ACC_WRITE", "byteWidth": 8, "freqRatio": 1.25 },
   "offset": { "value": "0x34350000", "magnitude": "BYTES" }, "size": { "value": "0", "magnitude": "KBYTES" } },
 { "fname": "xSPI2", "name": "octoFlash", "fformat": "FORMAT_RAW",
   "prop": { "rights": "ACC_READ", "byteWidth": 1, "freqRatio": 6.0, "constants_preferred": "true" },
   "offset": { "value": "0x70380000", "magnitude": "BYTES" }, "size": { "value": "16", "magnitude": "MBYTES" } },
] } }"""
SAVED_POOLS = POOLS.replace("mem_file_prefix", "memFilePrefix").replace("constants_preferred", "constantsPreferred")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generate") / "out"
    assert main(["generate", DIGITS, "-n", "digits", "-o", str(folder), "-q"]) == 0
    return folder


def test_analyze_names_what_runs_where_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", DIGITS, "-v"]) == 0
    text = capsys.readouterr().out
    for expected in ("on the NPU", "activations", "ST's estimate", "latency", "Possible action", "verification"):
        assert expected in text


def test_json_has_the_keys_that_tools_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "-m", DIGITS, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    keys = {"model", "macs", "epochs", "cycles", "latency_ms", "bound_by", "memory", "cpu_ops", "unproven", "verify"}
    assert set(document) >= keys | {"files", "seconds", "silicon"}
    edge = {"name", "shape", "dtype", "scale", "zero_point"}
    assert [set(e) for e in (*document["inputs"], *document["outputs"])] == [edge, edge]
    assert document["inputs"][0]["shape"] == [1, 8, 8, 1] and document["inputs"][0]["zero_point"] == -128
    assert set(document["epochs"]) == {"total", "npu", "cpu", "hybrid"}
    memory = document["memory"]
    sizes = {"activations_bytes", "weights_bytes", "resident_bytes", "prefetched_bytes", "states_bytes"}
    sizes |= {"lower_bound_bytes", "spilled_bytes", "ram_bytes", "relocatable_bytes"}
    sizes |= {"code_constants_bytes", "flash_bytes"}
    assert set(memory) == {"pools", "uses", *sizes}
    assert set(memory["pools"][0]) == {"name", "base", "size_bytes", "used_bytes"}
    assert [set(op) for op in document["cpu_ops"]] == [
        {"node", "op", "rule", "seen", "limit", "remedy", "cycles"} for _ in document["cpu_ops"]
    ]
    assert [op["op"] for op in document["cpu_ops"]] == ["softmax"]
    assert document["macs"] == 64 * 9 * 16 + 64 * 144 * 16 + 16 * 144 * 32 + 320


def test_the_files_are_one_program(written: Path) -> None:
    names = {path.name for path in written.iterdir()}
    assert names == {
        "digits_program.s",
        "digits_ecblobs.h",
        "digits_atonbuf.xSPI2.raw",
        "digits_program.json",
        "digits_report.txt",
        "digits_report.html",
        "digits.c",
        "digits.h",
        "digits_memories.h",
        "digits_generate_report.txt",
        "digits_c_info.json",
        "digits_manifest.json",
    }
    described = json.loads((written / "digits_program.json").read_text())
    programs = read_programs(written / "digits_ecblobs.h")
    assert {s["blob"] for s in described["steps"] if s["kind"] == "npu"} == {p.name for p in programs}
    epochs = [e for p in programs for e in decode_epochs(decode(p.container.blob.program)) if not e.empty]
    assert [e.number for e in epochs] == [s["number"] for s in described["steps"] if s["kind"] == "npu"]
    assert not [v for v in safety.check_program(epochs) if v.severity != "note"]
    assert main(["asm", str(written / "digits_program.s"), "-o", str(written.parent / "again.bin")]) == 0


def test_the_flash_image_starts_at_its_base(written: Path) -> None:
    described = json.loads((written / "digits_program.json").read_text())
    image = (written / "digits_atonbuf.xSPI2.raw").read_bytes()
    constants = [b for b in described["buffers"] if b["kind"] == "constant"]
    assert max(b["address"] + b["size_bytes"] for b in constants) - 0x7038_0000 == len(image)


def test_the_same_model_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "atonc", "compile", DIGITS, "-n", "digits", "-o", str(tmp_path / "b"), "-q"]
    environment = {"PYTHONHASHSEED": "17", "LC_ALL": "C", "PYTHONPATH": str(EXAMPLES.parent)}
    subprocess.run(command, check=True, cwd=tmp_path, env=environment)
    for path in written.iterdir():
        assert (tmp_path / "b" / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.parametrize("sides", [["inputs"], ["outputs"], ["inputs", "outputs"]])
def test_memory_of_the_application_is_a_symbol_in_the_files(sides: list[str], tmp_path: Path) -> None:
    options = [f"--no-{side}-allocation" for side in sides]
    command = ["generate", DIGITS, "-n", "own", "-o", str(tmp_path), "-q", "--cut-output-tensors", "pool", *options]
    assert main(command) == 0
    text = (tmp_path / "own_program.s").read_text()
    for side in ("inputs", "outputs"):
        assert (f"_user_io_{side[:-1]}_0(0x0)" in text) == (side in sides)
    report = (tmp_path / "own_report.txt").read_text()
    assert ("supplies input 0 (image): 64 bytes, at" in report) == ("inputs" in sides)
    assert ("supplies output 0 (pool): 256 bytes in NPU RAM" in report) == ("outputs" in sides)
    (program,) = read_programs(tmp_path / "own_ecblobs.h")
    assert [r.symbol for r in program.container.relocations] == [f"_user_io_{side[:-1]}_0" for side in sides]


@pytest.mark.parametrize(
    "gate",
    [["--max-ram", "1k"], ["--max-latency", "0.001"], ["--max-energy", "0.1"], ["--no-cpu"]],
    ids=["ram", "latency", "energy", "cpu"],
)
def test_a_broken_gate_ends_with_1_and_writes_nothing(
    gate: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", DIGITS, "-o", str(tmp_path / "out"), "-q", "--no-verify", *gate]) == 1
    assert gate[0] in unwrapped(capsys.readouterr().err)
    assert not list(tmp_path.iterdir())


def test_gates_that_hold_end_with_0() -> None:
    assert main(["analyze", DIGITS, "-q", "--no-verify", "--max-ram", "1.5M", "--max-latency", "5", "--no-spill"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze"],
        ["analyze", "no.tflite"],
        ["analyze", DIGITS, "-n", "../x"],
        ["analyze", DIGITS, "--board", "x"],
        ["analyze", DIGITS, "--relocatable", "wrong"],
    ],
)
def test_bad_arguments_are_one_paragraph(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("atonc: ")


def test_a_memory_that_is_too_small_ends_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = tmp_path / "small.toml"
    pools = '[pools.default]\nuse = [{ of = "npuRAM3", size = 1024 }, { of = "weights", size = "64K" }]\n'
    board.write_text(f'name = "small"\nbased_on = "stm32n6570-dk"\n{pools}')
    assert main(["analyze", DIGITS, "--board", str(board)]) == 3
    assert main(["analyze", DIGITS, "--mpool", str(board)]) == 3
    assert capsys.readouterr().err.startswith("atonc: ")


def test_validate_counts_labels_and_layers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", DIGITS, "--input", TEST, "--samples", "20", "--per-layer", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["samples"] == 20 and document["accuracy"]["program"] >= 19
    (output,) = document["outputs"]
    assert set(output) >= {"name", "cos", "rmse", "max_lsb", "exact_pct", "within1_pct", "acc", "mae", "l2r", "nse"}
    assert output["cos"] > 0.999 and document["first_bad_layer"] is None and len(document["layers"]) == 8


def test_validate_text_shows_the_metrics_of_st(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", DIGITS, "--samples", "2", "-v"]) == 0
    text = capsys.readouterr().out
    for word in ("acc", "rmse", "mae", "l2r", "mean", "std", "nse", "cos", "exact %", "+-1 LSB %"):
        assert word in text


def test_a_cut_model_is_compared_where_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ai_edge_litert")
    for tensor in ("pool", "dense"):  # dense has the shape of the model's output
        assert main(["validate", DIGITS, "--samples", "2", "--cut-output-tensors", tensor, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert [o["name"] for o in document["outputs"]] == [tensor] and document["passed"]


def test_a_bad_layer_is_named() -> None:
    compiled = atonc.compile(DIGITS, verify=False)
    emulation = validating.Emulation(compiled.program, compiled.graph)
    weights = next(h for h in compiled.program.placed.values() if h.buffer.name.startswith("kernels"))
    damaged = bytes(weights.buffer.size_bytes)
    emulation.memory.write(weights.address, np.frombuffer(damaged, np.uint8))
    (sample,) = validating.synthetic_samples(compiled.source, 1)
    layers = verify.check_program(compiled, emulation, validating.program_inputs(compiled, sample))
    bad = [layer.tensor for layer in layers if layer.bad]
    assert bad == ["conv1"]


def test_inputs_of_other_types_and_shapes() -> None:
    source = atonc.compile(DIGITS, verify=False).source
    tensor = source.tensors["image"]
    reals = np.linspace(0, 1, 64, dtype=np.float32).reshape(tensor.shape)
    codes = as_input(tensor, reals)
    assert codes.dtype == np.int8 and codes.min() == -128 and codes.max() == 127
    for pixel in (200, 100):  # a dark picture is no picture of codes
        with pytest.raises(errors.InputError, match="takes int8, the data is uint8"):
            as_input(tensor, np.full(tensor.shape, pixel, np.uint8))
    assert as_input(tensor, np.full(tensor.shape, 100)).dtype == np.int8


def test_edges_that_are_turned_are_known_even_as_cubes() -> None:
    compiled = atonc.compile(DIGITS, verify=False, inputs_channel_position="chfirst")
    cube = np.arange(27).reshape(1, 3, 3, 3)
    graph = dataclasses.replace(compiled.graph, tensors={"image": ir.Tensor("image", cube.shape, "int8")})
    assert compiled.graph.turned == {"image": (0, 3, 1, 2)}
    assert np.array_equal(in_order_of(graph, "image", cube), cube.transpose(0, 3, 1, 2))


def test_float_edges_give_the_same_classes() -> None:
    plain = atonc.compile(DIGITS, verify=False)
    floats = atonc.compile(DIGITS, verify=False, input_type="float32", output_type="float32")
    assert floats.graph.tensors["image"].dtype == "float32"
    for sample in validating.synthetic_samples(plain.source, 2):
        codes = atonc.run(plain, sample)["probabilities"]
        reals = atonc.run(floats, validating.program_inputs(floats, sample))["probabilities"]
        assert np.allclose(reals, validating.real(plain.graph.tensors["probabilities"], codes))


def test_load_and_run_take_networks_in_folders() -> None:
    network = atonc.load(EXAMPLES / "first")
    inputs = {i.name: np.zeros(i.mem_shape or i.shape, np.int8) for i in network.inputs}
    assert set(atonc.run(network, inputs)) == {i.name for i in network.outputs}


def test_profiles_name_pools_and_unknown_options(tmp_path: Path) -> None:
    file = tmp_path / "neural_art.json"
    words = "--z --z --y=3 -O3 --optimization 3 --Oauto-th=-0.5 --native-float --encrypt-weights --w-bits 4"
    words += " --d-lower 50 -k -k2"
    text = '{"Profiles": {"fast": {"memory_pool": "a.mpool", "options": "OPTIONS", "key": 1},}} // end'
    file.write_text(text.replace("OPTIONS", words))
    profile = read_profile(f"fast@{file}")
    assert profile.memory_pool == tmp_path / "a.mpool" and profile.ignored == ("--z", "--y", "-k")
    assert profile.encrypt_weights and profile.encrypt_acc_confs
    assert profile.missing == ("--w-bits",) and profile.unknown_keys == ("key",) and not profile.no_cpu
    with pytest.raises(errors.InputError, match="choose from fast"):
        read_profile(str(file))
    with pytest.raises(errors.InputError, match=r"no such profile file(?s:.*)profile-allmems--O3"):
        read_profile("something-else")
    with pytest.raises(errors.InputError, match="did you mean profile-minimal"):
        read_profile("profile-minimall")


@pytest.mark.parametrize(
    "name, board, bases",
    [
        ("profile-allmems--O3", "stm32n6570-dk", {3, 7, 9}),
        ("profile-minimal", "stm32n6570-dk", {3, 7, 9}),
        ("n6-allmems-Oauto", "nucleo-n657x0-q", {3, 7}),
        ("n6-noextmem", "stm32n6570-dk", {3}),
        ("n6-extram", "stm32n6570-dk", {3, 9}),
        ("n6-extflash", "stm32n6570-dk", {3, 7}),
        ("n6-nointmem", "stm32n6570-dk", {7, 9}),
        ("profile_O3_intRam35MB", "stm32n6570-dk", {3, 7, 9}),
    ],
)
def test_built_in_profiles_take_the_memories_of_the_board(name: str, board: str, bases: set[int]) -> None:
    profile = read_profile(name)
    pools = memories(Options(board=profile.board(board))).pools
    assert {pool.base >> 28 for pool in pools} == bases
    assert (sum(p.size_bytes for p in pools if p.base >> 28 == 3) > 3 << 20) == (name == "profile_O3_intRam35MB")
    assert profile.board("vision@dk") == "vision@dk"  # what the user says wins
    assert read_profile("profile_O3_force8bits").missing == ("--force-8bits-scale-offset",)


def test_a_profile_may_forbid_the_cpu_and_name_pools_in_its_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools" / "own.mpool").write_text(POOLS)
    file = tmp_path / "neural_art.json"
    options = "--load-mpool pools/own.mpool --disable-sw-fallback --strange"
    file.write_text(json.dumps({"Profiles": {"default": {"options": options}}}))
    assert main(["analyze", DIGITS, "--st-neural-art", str(file), "--no-verify"]) == 1
    seen = capsys.readouterr()
    assert "memory of own" in seen.out and "--no-cpu" in seen.err and seen.err.count("--strange") == 1
    assert main(["analyze", DIGITS, "--no-verify", "-q", "--st-neural-art"]) == 0


@pytest.mark.parametrize("dialect", ["written", "saved"])
def test_memory_pools_in_both_dialects(dialect: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "own.mpool"
    file.write_text(POOLS if dialect == "written" else SAVED_POOLS)
    assert main(["analyze", DIGITS, "--mpool", str(file), "--json"]) == 0
    pools = {pool["name"]: pool for pool in json.loads(capsys.readouterr().out)["memory"]["pools"]}
    assert set(pools) == {"npuRAM5", "octoFlash"} and pools["npuRAM5"]["base"] == 0x342E_0000
    assert pools["npuRAM5"]["used_bytes"] and pools["octoFlash"]["used_bytes"]


def test_a_board_without_npu_ram_gets_forms_that_any_memory_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No published program pools what lies in hyperRAM, so that goes to the CPU beside the softmax; all else stays."""
    file = tmp_path / "outside.mpool"
    file.write_text(POOLS.replace("0x342e0000", "0x90000000"))
    assert main(["analyze", DIGITS, "--mpool", str(file), "-v"]) == 0
    text = capsys.readouterr().out
    on_cpu = text.split("CPU:")[1].splitlines()[0]
    assert "cosine 0.999" in text and "0 unproven configurations" in text and "2 operators" in on_cpu


def test_activations_that_leave_the_chip_are_counted_and_gated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.mpool"
    outside = POOLS.replace('"448"', '"2"').replace('"value": "0", "magnitude": "KBYTES"', '"value": "4096"')
    file.write_text(outside.replace("0x34350000", "0x90000000"))
    assert main(["analyze", DIGITS, "--mpool", str(file), "--json", "--no-verify"]) == 0
    memory = json.loads(capsys.readouterr().out)["memory"]
    assert 0 < memory["spilled_bytes"] < memory["activations_bytes"]
    assert main(["analyze", DIGITS, "--mpool", str(file), "-q", "--no-verify", "--no-spill"]) == 1
    assert "--no-spill" in unwrapped(capsys.readouterr().err)


def test_types_of_the_edges(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["analyze", DIGITS, "--no-verify"]
    assert main([*command, "--input-data-type", "uint8", "--output-data-type", "float32"]) == 0
    text = capsys.readouterr().out
    assert "input  image 1x8x8x1 uint8" in text and "output probabilities 1x10 float32" in text
    for wrong in ("int4", "int8,int8"):
        assert main([*command, "--input-data-type", wrong]) == 2
        assert capsys.readouterr().err.startswith("atonc: ")


def test_channels_first_at_the_edges(capsys: pytest.CaptureFixture[str]) -> None:
    first = ["--inputs-ch-position", "chfirst", "--outputs-ch-position", "chfirst"]
    assert main(["analyze", DIGITS, "--cut-output-tensors", "pool", *first]) == 0
    text = capsys.readouterr().out
    assert "input  image 1x1x8x8 int8" in text and "output pool 1x16x4x4 int8" in text
    assert main(["analyze", DIGITS, "--no-verify", "--inputs-ch-position", "chlast"]) == 0
    assert "input  image 1x8x8x1" in capsys.readouterr().out


def test_cuts_at_unknown_tensors_name_near_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", DIGITS, "--cut-output-tensors", "poool"]) == 2
    assert "did you mean 'pool'" in unwrapped(capsys.readouterr().err)


def test_sizes_where_all_are_fixed_have_no_effect(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", DIGITS, "--no-verify", "--fix-parametric-shapes", "{'B': 1}"]) == 0
    assert "note: --fix-parametric-shapes has no effect: all sizes of the inputs are fixed" in capsys.readouterr().out


def test_lines_of_existing_scripts_are_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = f"generate --model {DIGITS} --target stm32n6 --st-neural-art --name net --workspace {tmp_path}/ws"
    script += (
        f" --output {tmp_path}/out --input-data-type uint8 --verbosity 1 --no-report -O balanced --c-api st-ai -v 0"
    )
    assert main([*script.split(), "-v", "0"]) == 0
    seen = capsys.readouterr()
    assert seen.err == "atonc: --workspace has no effect: no intermediate files are written\n"
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"net_program.json", "stai_net.c"} <= names and not (tmp_path / "ws").exists()
    assert not [name for name in names if name.endswith((".txt", ".html"))]
    assert main(["validate", "-v", "1", DIGITS, "--batch-size", "1", "--cut-output-layers", "MAX_POOL_2D_3"]) == 0
    assert "pool" in capsys.readouterr().out


def test_wrong_options_are_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", DIGITS, "--numerics", "3.x"]) == 2
    text = unwrapped(capsys.readouterr().err)
    assert text.startswith("atonc: ") and text.count("atonc: ") == 1 and "2.x" in text


def test_memory_before_speed(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {}
    for wish in ("speed", "memory"):
        assert main(["analyze", DIGITS, "--no-verify", "--prefer", wish, "--json"]) == 0
        sizes[wish] = json.loads(capsys.readouterr().out)["memory"]["activations_bytes"]
    assert sizes["memory"] <= sizes["speed"]


def test_stages_can_be_looked_at(tmp_path: Path) -> None:
    assert main(["analyze", DIGITS, "--stop-after", "lower", "--dump", str(tmp_path / "stages")]) == 0
    found = {path.name: path.read_text() for path in (tmp_path / "stages").iterdir()}
    assert set(found) == {"1_read.txt", "2_passes.txt", "3_lower.txt"}
    assert "op conv" in found["2_passes.txt"] and "cpu softmax" in found["3_lower.txt"]
    assert main(["analyze", DIGITS, "--dump", str(tmp_path / "all"), "-q", "--no-verify"]) == 0
    assert "octoFlash" in (tmp_path / "all" / "5_place.txt").read_text()
    assert "-> STRENG" in (tmp_path / "all" / "4_schedule.txt").read_text()


def test_importing_is_quick() -> None:
    code = "import sys, atonc; assert not {'numpy', 'onnx'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=EXAMPLES.parent)


@pytest.mark.parametrize(
    ("profile", "more", "programs"),
    [
        ("-O3", [], False),
        ("-O3 --enable-epoch-controller", [], True),
        ("-O3", ["--enable-epoch-controller"], True),
        ("--enable-epoch-controller", ["--no-epoch-controller"], False),
    ],
)
def test_a_profile_without_the_controller_means_no_programs(
    profile: str, more: list[str], programs: bool, tmp_path: Path
) -> None:
    """A script for such a profile copies no file of programs."""
    file = tmp_path / "user.json"
    file.write_text(json.dumps({"Profiles": {"default": {"options": profile}}}))
    command = ["generate", DIGITS, "--st-neural-art", f"default@{file}", "-o", str(tmp_path), "-q", "--no-verify"]
    assert main([*command, *more]) == 0
    assert ("_ec_blob_" in (tmp_path / "network.c").read_text()) == programs


def test_what_comes_next_stays_within_the_gates(capsys: pytest.CaptureFixture[str]) -> None:
    """Weights in RAM are offered, unless the user has no RAM for them."""
    for gate, offered in (([], True), (["--max-ram", "4k"], False)):
        assert main(["analyze", DIGITS, *gate]) == 0
        assert ("--resident" in capsys.readouterr().out.splitlines()[-1]) == offered


def test_a_model_without_outputs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx")
    net = onnx.helper
    x = net.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 4))
    graph = net.make_graph([net.make_node("Relu", ["x"], ["y"])], "g", [x], [])
    onnx.save(net.make_model(graph, opset_imports=[net.make_opsetid("", 17)]), tmp_path / "none.onnx")
    assert main(["analyze", str(tmp_path / "none.onnx")]) == 2
    assert "none.onnx: the model has no output" in capsys.readouterr().err


def test_the_report_says_the_whole_command(tmp_path: Path) -> None:
    words = ["-n", "x", "--resident", "all", "--prefetch", "dma"]
    assert main(["generate", "-m", DIGITS, "-o", str(tmp_path / "out"), "-q", *words]) == 0
    said = (tmp_path / "out" / "x_generate_report.txt").read_text().splitlines()[1]
    assert said.partition(" : ")[2].split()[:7] == shlex.split(
        "generate --model digits.tflite --name x --board stm32n6570-dk"
    )
    command = json.loads((tmp_path / "out" / "x_program.json").read_text())["reproduce"]["command"]
    assert said.endswith(command.partition(" -n x ")[2]) and "--resident all --prefetch dma" in said
