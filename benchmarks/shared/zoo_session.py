"""Runs a script of ST's model zoo services, unmodified, with stand-ins for heavy packages that it imports.

    python zoo_session.py ZOO SCRIPT WORDS...

What TensorFlow would read of a model file comes from LiteRT; everything else of these packages is an object that takes
any call and gives nothing, so whatever needs one of them to compute fails or stays empty.
"""

from __future__ import annotations

import abc
import importlib.abc
import importlib.machinery
import os
import runpy
import sys
import types
from typing import Any, ClassVar

STAND_IN_NAMES = """
    tensorflow keras tensorflow_addons tensorflow_datasets tensorflow_model_optimization tf2onnx onnx_tf
    onnxmltools torch torchvision torchaudio torchinfo torchmetrics timm pytorchcv super_gradients ultralytics
    brevitas einops thop ptflops fvcore transformers datasets huggingface_hub safetensors neural_compressor
    onnxsim onnxslim onnxscript mlflow clearml wandb tensorboard tensorboardX loguru texttable sklearn
    matplotlib seaborn skimage scipy cv2 librosa soundfile resampy pesq pystoi numba albumentations imgaug
    pycocotools pyvww fiftyone lmdb boto3 dask joblib psutil statsmodels larq gdown wget typeguard optuna
    evaluate openpyxl
"""
STAND_INS = frozenset(STAND_IN_NAMES.split())


class Anything(abc.ABCMeta):
    """The class of stand-ins: they have every attribute, may be called, entered, indexed and inherited from."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(name)

    def __call__(cls, *given: Any, **named: Any) -> Any:
        decorated = len(given) == 1 and not named and isinstance(given[0], types.FunctionType)
        return given[0] if decorated else type.__call__(cls)

    def __getitem__(cls, _: Any) -> Any:
        return cls

    def __iter__(cls) -> Any:
        return iter(())

    def __or__(cls, _: Any) -> Any:
        return cls

    __ror__ = __or__


def stand_in(name: str) -> Any:
    def attribute(self: Any, wanted: str) -> Any:
        if wanted.startswith("__"):
            raise AttributeError(wanted)
        return stand_in(wanted)

    def call(self: Any, *given: Any, **_: Any) -> Any:
        return given[0] if len(given) == 1 and isinstance(given[0], types.FunctionType) else self

    methods = {
        "__init__": lambda self, *_, **__: None,
        "__getattr__": attribute,
        "__call__": call,
        "__iter__": lambda self: iter(()),
        "__enter__": lambda self: self,
        "__exit__": lambda self, *_: None,
        "__getitem__": lambda self, _: self,
        "__len__": lambda self: 0,
    }
    return Anything(name, (), methods)


class StandInModule(types.ModuleType):
    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return "9.9.9"
        if name.startswith("__"):
            raise AttributeError(name)
        return sys.modules.get(f"{self.__name__}.{name}") or stand_in(name)


class StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".")[0] in STAND_INS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return StandInModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def prepare() -> None:
    """From here on the packages are there."""
    from ai_edge_litert.interpreter import Interpreter

    sys.meta_path.insert(0, StandInFinder())
    tensorflow: Any = importlib.import_module("tensorflow")
    tensorflow.lite = types.SimpleNamespace(Interpreter=Interpreter)
    tensorflow.__version__ = "2.18.0"


def main(zoo: str, script: str, *words: str) -> None:
    prepare()
    place = os.path.join(zoo, script)
    os.chdir(os.path.dirname(place))
    sys.argv = [place, *words]
    sys.path[0] = os.path.dirname(place)
    runpy.run_path(place, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
