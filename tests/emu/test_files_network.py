"""`read_network`: every fact of a generated file arrives, and a wrong folder gets a clear answer."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.emu.files.network_c import find_networks, read_network
from atonc.machine.emu.files.types import EpochFlags, Symbol
from atonc.machine.emu.tensors import io_shape
from atonc.machine.hw.ec.instructions import decode
from tests.emu.files_samples import blob_words, driver_text, ecblobs_text, network_text, write_network
from tests.patience import no_hang


def test_the_whole_network(tmp_path: Path) -> None:
    write_network(tmp_path)
    network = read_network(tmp_path)
    assert (network.name, network.stem, network.atonn_version) == ("Default", "network", "atonn-v1.1.0-31-g00000000")
    assert network.tool_branch == "STAI-2.1"
    assert network.options == {"onnx-input": "some/model.onnx", "optimization": "3", "Os": "true"}
    assert not network.weights_encrypted
    assert [b.flags for b in network.blocks] == [
        EpochFlags.EPOCH_START | EpochFlags.EPOCH_END | kind
        for kind in (EpochFlags.BLOB, EpochFlags.HYBRID, EpochFlags.PURE_SW)
    ]
    assert [b.blob for b in network.blocks] == ["_ec_blob_1", None, None]
    first = network.blocks[0]
    assert (first.start, first.end, first.epoch_num, first.last_epoch_num) == ("blob_start", None, 1, 3)
    assert (first.estimated_npu_cycles, first.estimated_tot_cycles) == (1234, None)
    assert [(c.name, c.args) for c in first.start_calls] == [("LL_ATON_Cache_MCU_Invalidate_Range", (0x342E0080, 64))]


def test_cpu_calls_have_evaluated_arguments(tmp_path: Path) -> None:
    write_network(tmp_path)
    concat, dequantise = (block.end_calls[0] for block in read_network(tmp_path).blocks[1:])
    assert concat.name == "LL_ATON_LIB_Concat"
    tensors = concat.args[0]
    assert isinstance(tensors, list) and isinstance(tensors[0], dict)
    assert tensors[0]["addr_base"] == 0x342E0000
    assert tensors[0]["shape"] == [1, 4, 4, 4]
    assert tensors[0]["type"] == Symbol("DataType_INT8")
    assert concat.args[1:] == (1, tensors, 1, 2, 3)
    info = dequantise.args[0]
    assert info == {
        "general": {
            "input": {"dim": {"tensor_b": 1, "num_elem": 64}, "mem": {"start_offset": 0x342E0080}},
            "type": Symbol("LL_SW_DEQUANTIZELINEAR"),
        },
        "is": {"mem": {"start_offset": 0x70380010}},
    }


def test_buffer_tables(tmp_path: Path) -> None:
    write_network(tmp_path)
    network = read_network(tmp_path)
    (image,), (weights,), (answer,) = network.inputs, network.params, network.outputs
    assert network.internals == ()
    assert (image.name, image.size_bytes, image.limit_bytes, image.is_user_allocated) == ("image", 64, 128, True)
    assert (image.scales, image.offsets, image.chpos, image.type) == ((0.00392156885936856,), (-128,), "First", "UINT8")
    assert (image.qm, image.qn, image.q_unsigned) == (7, -1, True)
    assert (weights.address, weights.size_bytes, weights.per_channel) == (0x70380010, 16, True)
    assert weights.scales == (0.5, 1.25e-07, 3.0, 0.25)
    assert (answer.type, answer.nbits, answer.shape, answer.scales) == ("FLOAT", 32, (1, 4, 4, 4), ())


def test_pools_come_from_the_comments(tmp_path: Path) -> None:
    write_network(tmp_path)
    flash, ram, both = read_network(tmp_path).pools
    assert (flash.postfix, flash.name, flash.base, flash.size_bytes) == ("xSPI2", "octoFlash", 0x70380000, 4088)
    assert (flash.used, flash.writable, flash.cacheable, flash.holds_initialisers) == ("1.00 KB", False, True, True)
    assert (ram.byte_width, ram.freq_ratio, ram.throughput, ram.latency) == (8, 1.25, "HIGH", "LOW")
    assert (ram.virtual, both.virtual, both.index) == (False, True, 11)


def test_user_buffers_get_an_address(tmp_path: Path) -> None:
    write_network(tmp_path)
    network = read_network(tmp_path)
    (user,) = network.user_buffers
    assert (user.reloc_id, user.direction, user.index, user.size_bytes) == ("_user_io_input_0", "input", 0, 64)
    assert network.inputs[0].address == user.address == network.relocation_bases()["_user_io_input_0"]
    moved = read_network(tmp_path, user_addresses={"_user_io_input_0": 0x3400_0000})
    assert moved.inputs[0].address == 0x3400_0000
    assert network.relocation_bases()["xSPI2"] == 0x70380000


def test_blobs_are_mapped(tmp_path: Path) -> None:
    write_network(tmp_path)
    network = read_network(tmp_path)
    program = network.block_program(network.blocks[0])
    assert list(program) == blob_words()[2 : 2 + len(program)]
    assert len(decode(program)) == 3
    with pytest.raises(InputError, match="no epoch-controller program"):
        network.block_program(network.blocks[1])


def test_aliases_of_newer_headers(tmp_path: Path) -> None:
    c_file = tmp_path / "face.c"
    c_file.write_text(network_text(stem="face").replace("(_ec_blob_1)", "(_ec_blob_face_1_address)"))
    alias = "#define _ec_blob_face_1_address _ec_blob_face_1\n"
    (tmp_path / "face_ecblobs.h").write_text(ecblobs_text("_ec_blob_face_1") + alias)
    network = read_network(tmp_path)
    assert network.block_program(network.blocks[0])


def test_several_networks_in_one_folder(tmp_path: Path) -> None:
    write_network(tmp_path, "detector", "face_detector")
    write_network(tmp_path, "landmark", "face_landmark")
    (tmp_path / "stai_face_detector.c").write_text("LL_ATON_EpochBlockItems_detector();")
    (tmp_path / "face_detector_blob_trace.c").write_text("/* LL_ATON_EpochBlockItems_x */")
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    assert [p.stem for p in find_networks(tmp_path)] == ["face_detector", "face_landmark"]
    assert read_network(tmp_path, "face_landmark").name == "landmark"
    assert read_network(tmp_path, "detector").stem == "face_detector"
    assert read_network(tmp_path / "face_landmark.c").name == "landmark"
    with pytest.raises(InputError, match="face_detector, face_landmark"):
        read_network(tmp_path)
    with pytest.raises(InputError, match="no network is called hand"):
        read_network(tmp_path, "hand")


def test_wrong_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        read_network(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no compiled network"):
        read_network(tmp_path)
    deeper = tmp_path / "Model" / "board"
    deeper.mkdir(parents=True)
    write_network(deeper)
    with pytest.raises(InputError, match="board may hold one"):
        read_network(tmp_path)


def test_missing_or_foreign_blob_header(tmp_path: Path) -> None:
    write_network(tmp_path)
    header = tmp_path / "network_ecblobs.h"
    header.write_text(ecblobs_text("_ec_blob_77"))
    with pytest.raises(InputError, match="_ec_blob_1"):
        read_network(tmp_path)
    header.unlink()
    with pytest.raises(InputError, match=r"network_ecblobs\.h: there is no such file"):
        read_network(tmp_path)
    other = tmp_path / "elsewhere.h"
    other.write_text(ecblobs_text())
    assert read_network(tmp_path, blob_file=other).blob_file == other


def test_driver_flavour(tmp_path: Path) -> None:
    (tmp_path / "network.c").write_text(driver_text())
    network = read_network(tmp_path)
    (block,) = network.blocks
    assert block.wait_mask == 0x40
    assert [c.name for c in block.start_calls] == [
        "LL_Arithacc_Init",
        "LL_Streng_TensorInit",
        "LL_Streng_TensorInit",
        "LL_Switch_Init",
        "LL_ATON_EnableUnits_Init",
    ]
    assert [c.name for c in block.end_calls] == ["LL_Switch_Deinit", "LL_ATON_DisableUnits_Init"]
    assert not network.blobs


def test_newer_struct_names_and_parameters(tmp_path: Path) -> None:
    text = network_text().replace("EpochBlock_ItemTypeDef", "LL_ATON_RT_EpochBlockItem_t")
    text = text.replace(
        "const void *epoch_block", "const LL_ATON_RT_EpochBlockItem_t *epoch_block, const NN *nn_instance"
    )
    text = text.replace("EpochBlock_Flags_blob,", "EpochBlock_Flags_blob | (LL_ATON_EC_MustDecryptBlob_x ? 256 : 0),")
    (tmp_path / "network.c").write_text(text.replace("info_in[0], 1, 2, 3)", "info_in[0], 1, 2, 3, nn_instance)"))
    (tmp_path / "network_ecblobs.h").write_text(ecblobs_text())
    network = read_network(tmp_path)
    assert network.blocks[1].end_calls[0].args[-1] == Symbol("nn_instance")
    assert EpochFlags.BLOB in network.blocks[0].flags


def test_encrypted_weights_are_noticed(tmp_path: Path) -> None:
    info = "const E *LL_ATON_WeightEncryption_Info_Default() { static const E e = { .enable = 1, }; return &e; }\n"
    (tmp_path / "network.c").write_text(driver_text() + info)
    assert read_network(tmp_path).weights_encrypted


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (".flags = EpochBlock_Flags_last_eb,", ".flags = 0,", "no end mark"),
        (".blob_address = (uintptr_t)(_ec_blob_1),", "", "names no blob"),
        ("blob_start,", "other_start,", "not defined"),
        ("return list;", "return NULL;", "not an array"),
        (".offset_start = 16, .offset_end = 32", ".offset_start = 32, .offset_end = 16", "impossible"),
        (".ndims = 4, .shape = weights_shape", ".ndims = 9, .shape = weights_shape", "does not hold 9"),
        (".offset = offsets", ".offset = scales", "not an integer"),
        ("if (size < 64)", "if (bytes < 64)", "size of user input 0"),
        ("{ .name = NULL, }\n  };\n  return buff_info;", "{ .name = 5, }\n  };\n  return buff_info;", "no name"),
        ("LL_ATON_EpochBlockItems_Default", "LL_ATON_EpochBlockItem_Default", "no compiled network"),
    ],
)
def test_damaged_files(tmp_path: Path, old: str, new: str, message: str) -> None:
    c_file = write_network(tmp_path)
    text = network_text()
    assert old in text
    c_file.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message):
        read_network(tmp_path)


def test_fetched_networks_are_read() -> None:
    folder = os.environ.get("ATONC_FETCHED")
    if not folder:
        pytest.skip("ATONC_FETCHED does not name a folder of fetched networks")
    files = [p for p in Path(folder).rglob("*.c") if b"LL_ATON_EpochBlockItems_" in p.read_bytes()]
    read = 0
    for path in (p for p in files if not p.name.endswith("_blob_trace.c")):
        try:
            with no_hang():
                network = read_network(path)
        except AtoncError as error:
            assert "ecblobs.h" in str(error), error
            continue
        read += 1
        assert network.blocks and network.inputs and network.outputs and network.pools
    assert read


def test_a_buffer_without_an_order_of_its_own_has_that_of_its_tensor(tmp_path: Path) -> None:
    write_network(tmp_path)
    info = read_network(tmp_path).inputs[0]
    shapes = [io_shape(replace(info, shape=(1, 2, 3), mem_shape=order)) for order in ((), (2, 3, 1))]
    assert shapes == [(1, 2, 3), (2, 3, 1)]
