"""What every error on standard error looks like: where and what, then `cause:` and `fix:`, in short lines."""

from __future__ import annotations

WIDEST = 120


def readable(said: str) -> str:
    """The text without its line breaks, once its shape is checked."""
    first, *rest = said.splitlines()
    assert first.startswith("atonc: ") and said.endswith("\n"), said
    for line in (first, *rest):
        whole = " " not in line.strip() or line.startswith("  fix: atonc ")  # a command that can be pasted
        assert len(line) <= WIDEST or whole, f"{len(line)} columns: {line}"
        assert line.isprintable(), repr(line)
    assert all(line.startswith("  ") for line in rest), said
    assert any(line.startswith("  fix: ") for line in rest), f"no fix: {said}"
    return " ".join(said.split())


def unwrapped(said: str) -> str:
    """Whatever was said, in one line: for words that may stand on two."""
    return " ".join(said.split())
