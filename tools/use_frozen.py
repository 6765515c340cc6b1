"""Takes `dataclass` from atonc/machine/base/frozen.py in every module of the package: `python tools/use_frozen.py`,
then ruff for the order of imports (`ruff check --select I --fix atonc`)."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "atonc"
OURS = "from atonc.machine.base.frozen import dataclass\n"


def swapped(line: re.Match[str]) -> str:
    names = [name.strip() for name in line[1].split(",")]
    if "dataclass" not in names:
        return line[0]
    others = ", ".join(name for name in names if name != "dataclass")
    return (f"from dataclasses import {others}\n" if others else "") + OURS


def main() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        new = re.sub(r"^from dataclasses import ([^(\n]+)\n", swapped, text, flags=re.MULTILINE)
        if "@dataclasses.dataclass(" in new:
            new = new.replace("@dataclasses.dataclass(", "@dataclass(")
            new = new.replace("\nfrom atonc.", f"\n{OURS}from atonc.", 1)
        if path.name != "frozen.py" and new != text:
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
