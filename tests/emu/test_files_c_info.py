"""`c_info.json` of the compiler and of its front end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from atonc.machine.base.errors import InputError
from atonc.machine.emu.files.c_info import find_c_info, mismatch, read_c_info
from atonc.machine.emu.files.network_c import read_network
from tests.emu.files_samples import write_network


def node(number: int, name: str, mapping: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "mapping": mapping, "original_nodes": [], "subgraph_nodes": [], **more}


def sample() -> dict[str, Any]:
    return {
        "json_schema_version": "2.0",
        "environment": {"tools": [{"name": "ATONN Compiler", "version": "1.1.0-31"}]},
        "memory_pools": [
            {
                "id": 1, "name": "npuRAM6", "fname": "atonbuf.AXISRAM6.raw", "address": "875888640",
                "size_bytes": 458744, "used_size_bytes": 100, "cacheable": "CACHEABLE_UNDEF", "subpools": [],
                "attributes": {"byte_width": 8, "freq_ratio": 1.25},
            },
            {"id": 6, "name": "user", "address": "", "size_bytes": 4, "cacheable": "CACHEABLE_ON", "subpools": [1]},
        ],
        "buffers": [
            {"id": 4, "name": "w", "mpool_id": 1, "offset_start": 16, "size_bytes": 512, "is_param": True,
             "epochs": {"start": 0, "end": 68}},
        ],
        "graphs": [
            {
                "original_inputs": {},
                "nodes": [
                    node(1, "epoch_0", "NODE_HW"),
                    node(
                        93, "epoch_1", "NODE_EC", description="Epoch Controller _ec_blob_1", macc=7,
                        original_nodes=["CONV_2D_0"],
                        subgraph_nodes=[node(94, "Conv2D_9", "NODE_HW", description="Node kind=Conv")],
                    ),
                ],
            }
        ],
        "power_estimates": [{"node_id": 93, "ops": 5, "compute_cycles": 100, "max_cycles": 250}],
        "memory_accesses": [
            {"node_id": 93, "mpool_id": 1, "reads": 10, "writes": 20, "read_cycles": 30, "write_cycles": 40},
            {"node_id": 93, "mpool_id": 6, "reads": 0, "writes": 0, "read_cycles": 0, "write_cycles": 0},
        ],
    }  # fmt: skip


def write(folder: Path, value: Any, name: str = "c_info.json") -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_all_of_it(tmp_path: Path) -> None:
    info = read_c_info(write(tmp_path, sample()))
    assert info.tools == {"ATONN Compiler": "1.1.0-31"}
    ram, user = info.pools
    assert (ram.postfix, ram.address, ram.byte_width, ram.freq_ratio) == ("AXISRAM6", 875888640, 8, 1.25)
    assert (user.address, user.cacheable, user.subpools) == (None, True, (1,))
    epoch = info.by_epoch[1]
    assert (epoch.mapping, epoch.blob, epoch.original_nodes, epoch.macc) == ("EC", "_ec_blob_1", ("CONV_2D_0",), 7)
    assert (epoch.ops, epoch.compute_cycles, epoch.max_cycles) == (5, 100, 250)
    assert [(part.name, part.kind) for part in epoch.parts] == [("Conv2D_9", "Conv")]
    (access,) = epoch.accesses
    assert (access.pool, access.reads, access.writes, access.read_cycles, access.write_cycles) == (1, 10, 20, 30, 40)
    (buffer,) = info.buffers
    assert (buffer.name, buffer.pool, buffer.offset, buffer.is_param, buffer.last_epoch) == ("w", 1, 16, True, 68)


def test_newer_files_nest_epochs_in_blobs(tmp_path: Path) -> None:
    value = sample()
    part = node(196, "Quantize_5", "NODE_HW", type="Add", attributes={"HWUnit": "ARITH_ACC_V2 0"})
    inner = [node(93, "epoch_1", "NODE_NO_X"), node(195, "epoch_2", "NODE_HW", subgraph_nodes=[part])]
    value["graphs"][0]["nodes"][1] = node(192, "_ec_blob_net_1", "NODE_EC", type="Blob", subgraph_nodes=inner)
    info = read_c_info(write(tmp_path, value))
    assert [(n.epoch, n.mapping, n.blob) for n in info.nodes] == [
        (0, "HW", None), (1, "EC", "_ec_blob_net_1"), (2, "EC", "_ec_blob_net_1"),
    ]  # fmt: skip
    assert info.by_epoch[1].max_cycles == 250
    assert (info.by_epoch[2].parts[0].kind, info.by_epoch[2].parts[0].unit) == ("Add", "ARITH_ACC_V2 0")


def test_what_is_absent_has_a_default(tmp_path: Path) -> None:
    info = read_c_info(write(tmp_path, {}))
    assert (info.pools, info.nodes, info.buffers, info.tools) == ((), (), (), {})


def test_it_is_found_beside_the_network(tmp_path: Path) -> None:
    write_network(tmp_path)
    network = read_network(tmp_path)
    assert find_c_info(network) is None
    plain = write(tmp_path, sample())
    assert find_c_info(network) == plain
    assert find_c_info(network) != write(tmp_path, sample(), "network_c_info.json")  # more specific from now on
    found = find_c_info(network)
    assert found is not None and found.name == "network_c_info.json"


def pair(folder: Path) -> dict[str, Any]:
    """A JSON that belongs to the sample network: its constant, its last epoch, its blob."""
    write_network(folder)
    value = sample()
    value["memory_pools"][0]["address"] = str(0x70380000)
    value["buffers"][0] |= {"name": "weights", "offset_start": 16}
    value["graphs"][0]["nodes"].append(node(99, "epoch_3", "NODE_SW"))
    return value


def test_one_compilation(tmp_path: Path) -> None:
    value = pair(tmp_path)
    network = read_network(tmp_path)
    assert mismatch(read_c_info(write(tmp_path, value)), network) is None
    value["buffers"][0]["offset_start"] = 48
    assert "weights lies at 0x70380010" in str(mismatch(read_c_info(write(tmp_path, value)), network))
    value["buffers"][0]["name"] = "other"
    assert mismatch(read_c_info(write(tmp_path, value)), network) == "they name no constant in common"


def test_other_epochs_are_another_compilation(tmp_path: Path) -> None:
    value = pair(tmp_path)
    network = read_network(tmp_path)
    value["graphs"][0]["nodes"].append(node(100, "epoch_9", "NODE_SW"))
    assert "ends with epoch 3, the JSON with 9" in str(mismatch(read_c_info(write(tmp_path, value)), network))
    value["graphs"][0]["nodes"].pop()
    value["graphs"][0]["nodes"][1]["description"] = ""
    assert "epoch 1 is part of a blob" in str(mismatch(read_c_info(write(tmp_path, value)), network))


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", "nonsense", '{"graphs": 5}', '{"graphs": [3]}', '{"graphs": [{"nodes": [{"id": "one"}]}]}',
        '{"memory_pools": [{"attributes": {"freq_ratio": "fast"}}]}', '{"memory_pools": [{"name": 3}]}',
        '{"power_estimates": [{"node_id": 1.5}]}', '{"environment": []}', '{"buffers": [{"epochs": 3}]}',
        "[" * 100_000, '{"a": "\\ud800', json.dumps(sample())[:-30],
    ],
)  # fmt: skip
def test_damaged_files(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError):
        read_c_info(write(tmp_path, text))
    with pytest.raises(InputError, match="there is no such file"):
        read_c_info(tmp_path / "absent.json")
