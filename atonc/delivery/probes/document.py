"""The evidence file of a board as bytes: replies as read, and what follows from them. The same log, the same bytes."""

from __future__ import annotations

import json
from typing import Any

from atonc.delivery.probes.settle import Settled
from atonc.machine.base.about import __version__
from atonc.machine.hw.safety.evidence.board_file import FORMAT, VERSION, evidence_row


def document(settled: Settled) -> dict[str, Any]:
    head = settled.log.head
    return {
        "format": FORMAT,
        "version": VERSION,
        "atonc": __version__,
        "firmware": head.version,
        "clocks_hz": {"cpu": head.cpu_hz, "npu": head.npu_hz, "npu_ram": head.ram_hz},
        "complete": settled.log.complete and not settled.log.lost,
        "damaged_lines": settled.log.damaged,
        "answers": [reply.as_dict() for reply in settled.log.replies.values()],
        **evidence_row(settled.evidence),
    }


def evidence_bytes(settled: Settled) -> bytes:
    """A line for every answer, form and constant, so that two files can be compared."""
    rows = [f"{json.dumps(key)}: {_value(value)}" for key, value in document(settled).items()]
    return ("{\n" + ",\n".join(rows) + "\n}\n").encode("ascii")


def _value(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f" {json.dumps(entry)}" for entry in value) + "\n]"
    return json.dumps(value)
