"""The small files that command lines of ST's users name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PROFILES = (
    *("default", "test", "custom", "user_profile", "profile_O3", "n6-extflash", "n6-allmems-O3"),
    *("od", "reid", "face_landmark", "face_detector", "hand_landmark", "palm_detector"),
)
PROFILE_FILES = (
    *("user_neuralart.json", "user_neuralart_STM32N6570-DK.json", "user_neuralart_NUCLEO-N657X0-Q.json"),
    *("nucleo/user_neuralart.json", "examples/user_neuralart_STM32N6570-DK.json"),
)


def write_files(folder: Path, tflite: Path) -> None:
    (folder / "m.tflite").write_bytes(tflite.read_bytes())
    onnx.save(small_onnx(), folder / "o.onnx")
    (folder / "my.mpool").write_text(json.dumps(_pools()))
    usual = {"memory_pool": str(folder / "my.mpool"), "options": "-O3 --enable-epoch-controller"}
    profiles = dict.fromkeys(PROFILES, usual) | {"odd": {"options": "--strange --Os"}}
    for place in PROFILE_FILES:
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_text(json.dumps({"Profiles": profiles}))
    rng = np.random.default_rng(1)
    codes = rng.integers(-128, 128, (2, 1, 8, 8, 1)).astype(np.int8)
    np.savez(folder / "in.npz", image=codes)
    lines = "\n".join(",".join(map(str, sample.reshape(-1))) for sample in codes)
    (folder / "v.csv").write_text(f"# int8\n{lines}\n")
    (folder / "network_c_info.json").write_text("{}")
    np.savez(folder / "out.npz", m_outputs_1=_outputs(folder, codes))


def _outputs(folder: Path, codes: np.ndarray) -> np.ndarray:
    """What the compiled network gives, so that comparing with it passes."""
    import atonc

    compiled = atonc.compile(folder / "m.tflite", verify=False)
    return np.stack([atonc.run(compiled, {"image": sample})["probabilities"] for sample in codes])


def small_onnx() -> onnx.ModelProto:
    """A quantised convolution whose batch is free."""
    scales = {"s": np.float32(0.05), "ws": np.float32(0.02)}
    constants = [numpy_helper.from_array(np.array(value), name) for name, value in scales.items()]
    constants += [numpy_helper.from_array(np.array(0, np.int8), name) for name in ("z", "wz")]
    weights = np.random.default_rng(0).integers(-9, 9, (4, 3, 3, 3)).astype(np.int8)
    constants.append(numpy_helper.from_array(weights, "w"))
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]),
        helper.make_node("Conv", ["xd", "wd"], ["c"], pads=[1, 1, 1, 1], name="conv"),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "s", "z"], ["y"]),
    ]
    edges = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", channels, 8, 8])
             for name, channels in (("x", 3), ("y", 4))]  # fmt: skip
    graph = helper.make_graph(nodes, "small", edges[:1], edges[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _pools() -> dict[str, object]:
    def pool(name: str, base: int, kilobytes: int, rights: str, ratio: float, width: int) -> dict[str, object]:
        prop = {"rights": rights, "byteWidth": width, "freqRatio": ratio}
        return {
            "fname": name, "name": name, "fformat": "FORMAT_RAW", "prop": prop,
            "offset": {"value": hex(base), "magnitude": "BYTES"},
            "size": {"value": str(kilobytes), "magnitude": "KBYTES"},
        }  # fmt: skip

    ram = pool("AXISRAM5", 0x342E_0000, 448, "ACC_WRITE", 1.25, 8)
    return {"memory": {"mempools": [ram, pool("xSPI2", 0x7038_0000, 16384, "ACC_READ", 6.0, 1)]}}
