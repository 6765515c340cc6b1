"""A server as users start it, and requests as scripts make them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.frontends.tflite_models import O, T, build, conv_model
from tests.patience import PATIENCE, until


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Running:
    process: subprocess.Popen[str]
    address: str  # as printed, with the token if there is one
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body or None, names)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def upload(self, name: str, content: bytes, samples: bytes = b"", verb: str = "", /, **options: Any) -> Reply:
        fields = [("model", name, content), ("options", "", json.dumps(options).encode()), ("verb", "", verb.encode())]
        fields += [("samples", "inputs.npz", samples)] if samples else []
        return self.ask("POST", "/api/jobs", form(fields), Content_Type="multipart/form-data; boundary=XX")

    def job(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/api/jobs/{name}").data
        return found

    def until(self, test: Callable[[], Any]) -> Any:
        return until(test, pause=lambda: time.sleep(0.2))

    def ended(self, name: str) -> dict[str, Any]:
        self.until(lambda: self.job(name)["state"] in ("done", "failed", "cancelled"))
        return self.job(name)


def form(fields: list[tuple[str, str, bytes]]) -> bytes:
    parts = []
    for name, file, content in fields:
        escaped = file.replace('"', "%22")
        shown = f'; filename="{escaped}"\r\nContent-Type: application/octet-stream' if file else ""
        parts.append(f'--XX\r\nContent-Disposition: form-data; name="{name}"{shown}\r\n\r\n'.encode() + content)
    return b"\r\n".join(parts) + b"\r\n--XX--\r\n"


@contextlib.contextmanager
def server(folder: Path, *words: str, **environment: str) -> Iterator[Running]:
    command = [sys.executable, "-m", "atonc", "serve", "--port", "0", "--folder", str(folder), *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        yield Running(process, address, int(address.split(":")[-1].split("/")[0]))
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(30)


def small_model(seed: int = 0) -> bytes:
    return conv_model(seed=seed)


def endless_model() -> bytes:
    """Sound, not large, and the work of minutes."""
    return chain_model(4000)


def chain_model(count: int) -> bytes:
    """So many convolutions, one behind the other."""
    shape = (1, 16, 16, 16)
    weights = np.ones((16, 3, 3, 16), np.int8)
    tensors = [T(f"t{k}", shape, scale=0.02) for k in range(count + 1)]
    tensors += [T("w", weights.shape, scale=0.01, data=weights), T("b", (16,), "int32", scale=0.0002, data=[0] * 16)]
    same: dict[int, tuple[str, Any]] = {0: ("b", 0), 1: ("i", 1), 2: ("i", 1), 4: ("i", 1), 5: ("i", 1)}
    ops = [O("CONV_2D", [f"t{k}", "w", "b"], [f"t{k + 1}"], "Conv2DOptions", same) for k in range(count)]
    return build(tensors, ops, ["t0"], [f"t{count}"])
