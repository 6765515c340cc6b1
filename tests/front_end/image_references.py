"""What packages make of an image, beside the front end that names them: bytes or floats, height x width x colours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
WIDTH, HEIGHT = 224, 192
_SIZE: Mapping[str, Any] = {"width": WIDTH, "height": HEIGHT}


def _pillow(how: str, image: Array) -> Array:
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize((WIDTH, HEIGHT), Image.Resampling[how]))


def _imagenet(image: Array) -> Array:
    from PIL import Image

    given = Image.fromarray(image)
    short = min(given.size)
    width, height = (256 * side // short for side in given.size)
    left, top = round((width - 224) / 2), round((height - 224) / 2)
    return np.asarray(given.resize((width, height), Image.Resampling.BILINEAR).crop((left, top, left + 224, top + 224)))


def _ultralytics(image: Array) -> Array:
    import cv2

    (h, w), scale = image.shape[:2], min(640 / image.shape[0], 640 / image.shape[1])
    size = round(w * scale), round(h * scale)
    dw, dh = (640 - size[0]) / 2, (640 - size[1]) / 2
    sides = round(dh - 0.1), round(dh + 0.1), round(dw - 0.1), round(dw + 0.1)
    resized = cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)
    return cv2.copyMakeBorder(resized, *sides, cv2.BORDER_CONSTANT, value=(114, 114, 114))


def _opencv(how: str, image: Array) -> Array:
    import cv2

    return cv2.resize(image, (WIDTH, HEIGHT), interpolation=getattr(cv2, how))


def _torch(image: Array, **options: Any) -> Array:
    import torch

    given = torch.from_numpy(image.transpose(2, 0, 1)[None].astype(np.float32))
    found = torch.nn.functional.interpolate(given, size=(HEIGHT, WIDTH), **options)
    return found.numpy()[0].transpose(1, 2, 0)


def _onnx(at: str, image: Array) -> Array:
    """ONNX's Resize, whose conventions are named as TFLite's are: align_corners, asymmetric, half_pixel."""
    import onnxruntime
    from onnx import TensorProto, helper

    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear", coordinate_transformation_mode=at)
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [4], [1, 3, HEIGHT, WIDTH])
    edges = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    graph = helper.make_graph([node], "resize", edges[:1], edges[1:], [sizes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": image.transpose(2, 0, 1)[None].astype(np.float32)})
    return np.asarray(found)[0].transpose(1, 2, 0)


def _grey(image: Array) -> Array:
    from PIL import Image

    return np.asarray(Image.fromarray(image).convert("L"))[..., None]


Made = tuple[str | Mapping[str, Any], Callable[[Array], Array]]
# name -> what is declared, what it is compared with; names begin with the package
REFERENCES: Mapping[str, Made] = {
    "PIL: preset imagenet_torchvision": ("imagenet_torchvision", _imagenet),
    "PIL: preset keras_mobilenet": (
        {"based_on": "keras_mobilenet", "resize": _SIZE}, lambda image: _pillow("NEAREST", image),
    ),
    "PIL: bilinear, antialias, stretched": (
        {"resize": {**_SIZE, "antialias": True}}, lambda image: _pillow("BILINEAR", image),
    ),
    "cv2: preset yolo_letterbox": ("yolo_letterbox", _ultralytics),
    "cv2: INTER_LINEAR": ({"resize": _SIZE}, lambda image: _opencv("INTER_LINEAR", image)),
    "cv2: INTER_NEAREST": (
        {"resize": {**_SIZE, "how": "nearest", "at": "asymmetric"}}, lambda image: _opencv("INTER_NEAREST", image),
    ),
    "torch: interpolate bilinear": ({"resize": _SIZE}, lambda image: _torch(image, mode="bilinear")),
    "torch: interpolate bilinear, align_corners": (
        {"resize": {**_SIZE, "at": "align_corners"}},
        lambda image: _torch(image, mode="bilinear", align_corners=True),
    ),
    "torch: interpolate bilinear, antialias": (
        {"resize": {**_SIZE, "antialias": True}}, lambda image: _torch(image, mode="bilinear", antialias=True),
    ),
    "torch: interpolate nearest": (
        {"resize": {**_SIZE, "how": "nearest", "at": "asymmetric"}}, lambda image: _torch(image, mode="nearest"),
    ),
    "torch: interpolate nearest-exact": (
        {"resize": {**_SIZE, "how": "nearest"}}, lambda image: _torch(image, mode="nearest-exact"),
    ),
    **{
        f"onnxruntime: Resize linear, {at}": ({"resize": {**_SIZE, "at": at}}, lambda image, at=at: _onnx(at, image))
        for at in ("half_pixel", "align_corners", "asymmetric")
    },
}  # fmt: skip
