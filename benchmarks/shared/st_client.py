"""ST's own client against a board: runs in a Python of its own, since its generated protobuf code wants protobuf below
3.21 and NumPy 1.

PYTHON benchmarks/shared/st_client.py RUNNER_DIR CONNECTION INPUTS.npz OUTPUTS.npz [--minor N]

RUNNER_DIR holds the package stm_ai_runner. Inputs are x0, x1, ... with a first dimension that counts samples; outputs
are written as y0, y1, ... with `seconds` and the durations that the board reports. Nothing of atonc is imported here.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runner", type=Path)
    parser.add_argument("connection")
    parser.add_argument("inputs", type=Path)
    parser.add_argument("outputs", type=Path)
    parser.add_argument("--minor", type=int, help="minor version of the protocol that the client shall say it knows")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    sys.path.insert(0, str(options.runner))
    import stm_ai_runner.stm32msg_pb2 as messages  # type: ignore[import-not-found]
    from stm_ai_runner import AiRunner

    if options.minor is not None:
        messages.P_VERSION_MINOR = options.minor
    runner = AiRunner()
    if not runner.connect(options.connection):
        print(f"not connected: {runner.get_error()}")
        return 1
    runner.summary(level=2)
    found = run(runner, AiRunner.Mode.IO_ONLY, options.inputs)
    runner.disconnect()
    np.savez(options.outputs, **found)
    return 0


def run(runner: Any, mode: Any, path: Path) -> dict[str, Any]:
    info = runner.get_info()
    stored = np.load(path)
    arrays = [stored[f"x{k}"] for k in range(len(info["inputs"]))]
    inputs = [
        array.reshape(len(array), *tensor["shape"][1:]) for array, tensor in zip(arrays, info["inputs"], strict=True)
    ]
    began = time.time()
    outputs, profile = runner.invoke(inputs, mode=mode, disable_pb=True)
    found: dict[str, Any] = {f"y{k}": output for k, output in enumerate(outputs)}
    found["seconds"] = time.time() - began
    found["durations_ms"] = np.array(profile["c_durations"])
    return found


if __name__ == "__main__":
    sys.exit(main())
