"""One session of ST's own validation client, run by wire_clients.py with a Python that has what that client needs:

    python wire_session.py CLIENT_FOLDER LINE MINOR INPUTS.npz OUTPUTS.npz

Nothing of atonc is imported. MINOR 2 tells the client that it may speak to a board of protocol 3.2, which it refuses
by itself.
"""

import json
import sys

import numpy as np

LAYERED = 2  # inputs that are also run layer by layer


def main() -> None:
    folder, line, minor, given, output = sys.argv[1:]
    sys.path.insert(0, folder)
    from stm_ai_runner import AiRunner, pb_mgr_drv

    if minor == "2":
        pb_mgr_drv.stm32msg.P_VERSION_MINOR = 2
    runner = AiRunner()
    runner.connect(line)
    if not runner.is_connected:
        raise SystemExit("no connection: " + str(runner.get_error()))
    summary = []
    runner.summary(print_fn=summary.append)
    with np.load(given) as arrays:
        inputs = [arrays[name] for name in arrays.files]
    outputs, _ = runner.invoke(inputs, mode=AiRunner.Mode.IO_ONLY)
    few = [value[:LAYERED] for value in inputs]
    layered, timed = runner.invoke(few, mode=AiRunner.Mode.PER_LAYER)
    shown, full = runner.invoke(few, mode=AiRunner.Mode.PER_LAYER_WITH_DATA)
    told = {
        "summary": summary,
        "nodes": len(timed["c_nodes"]),
        "tensors": sum(data.size > 0 for node in full["c_nodes"] for data in node["data"]),
        "layered_equal": all(
            (one[:LAYERED] == two).all() and (one[:LAYERED] == three).all()
            for one, two, three in zip(outputs, layered, shown)  # noqa: B905 (any Python)
        ),
        "ms": float(np.mean(timed["c_durations"])),
    }
    runner.disconnect()
    found = {"out_%d" % k: value for k, value in enumerate(outputs)}  # noqa: UP031
    np.savez(output, told=np.frombuffer(json.dumps(told).encode(), np.uint8), **found)


main()
