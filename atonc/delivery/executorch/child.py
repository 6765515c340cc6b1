"""ExecuTorch's runtime in a process of its own (`trials/pte_running.py`)."""

from __future__ import annotations

import sys

import numpy as np

from atonc.compiler.compare.reference_process import pack, unpack
from atonc.machine.base import child
from atonc.machine.base.errors import AtoncError


def main() -> None:
    answers = child.answers()
    import torch
    from executorch.runtime import Method, Runtime

    from atonc.delivery.executorch.runtime import register

    methods = dict[str, Method | None]()
    while True:
        try:
            asked, content = child.receive(sys.stdin.buffer)
        except EOFError:
            return
        inputs = unpack(asked["arrays"], content).values()
        try:
            register()
            if asked["path"] not in methods:
                methods[asked["path"]] = Runtime.get().load_program(asked["path"]).load_method("forward")
            method = methods[asked["path"]]
            if method is None:
                raise RuntimeError("it has no method forward")
            found = method.execute([torch.from_numpy(value.copy()) for value in inputs])
        except AtoncError as error:
            child.send(answers, {"error": error.what, "remedy": error.remedy})
            continue
        except Exception as error:  # theirs have no class of their own
            child.send(answers, {"error": f"ExecuTorch's runtime: {str(error)[:200]}", "remedy": ""})
            continue
        listed, contents = pack({str(k): np.asarray(value) for k, value in enumerate(found)})
        child.send(answers, {"arrays": listed}, *contents)
