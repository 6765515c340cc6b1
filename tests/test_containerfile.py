"""The container file, as far as it can be read without building it: what it copies is there, what it asks pip for is an
extra of ours, and what it starts is the command."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
INSTRUCTIONS = ("FROM", "RUN", "COPY", "WORKDIR", "ENTRYPOINT")


def test_it_installs_and_starts_what_there_is() -> None:
    text = re.sub(r"\\\n\s*", "", (ROOT / "Containerfile").read_text())
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    assert {word for word, _ in lines} <= set(INSTRUCTIONS) and lines[0][0] == "FROM"
    copied = [name for word, rest in lines if word == "COPY" for name in rest.split()[:-1]]
    assert copied and all((ROOT / name).exists() for name in copied)
    described = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, wheel = described["project"], described["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*wheel["packages"], *wheel["force-include"], project["readme"]} <= set(copied)
    extras = re.findall(r"/source\[(\w+)\]", text)
    assert extras and set(extras) <= set(project["optional-dependencies"])
    (entry,) = (json.loads(rest) for word, rest in lines if word == "ENTRYPOINT")
    assert entry == ["/opt/atonc/bin/atonc"] and "atonc" in project["scripts"]
