"""Text in other languages (C, Rust, CMake, README) stands in files of `atonc/machine/templates`; this fills them in.

`@name@` is replaced by the word of that name. Lines between `@begin name@` and `@end name@` are a block: it is written
once for each row of words that is given under its name, or kept or left out by a truth value. Words of the rows count
before those of the whole. A line that begins with `@--` is a remark for who reads the template. What is filled in is
never looked at again, so names from a model can say nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from atonc.machine.base.about import package_folder

Words = Mapping[str, object]
_PART = re.compile(r"^ *@begin (\w+)@\n(.*?)^ *@end \1@\n|@(\w+)@", re.MULTILINE | re.DOTALL)
_REMARK = re.compile(r"^@--.*\n", re.MULTILINE)
_LEFT = re.compile(r"@(?:begin|end) \w+@")
_NONE: Words = MappingProxyType({})


def render(name: str, shared: Words = _NONE, /, **words: object) -> str:
    """The template with its words. `shared` may hold more than it wants; each of `words` must be wanted."""
    text, wanted = _template(name)
    strange = words.keys() - wanted
    if strange:
        raise LookupError(f"template {name} has no @{min(strange)}@")
    return _filled(name, text, {**shared, **words})


def render_folder(name: str, words: Words) -> dict[str, bytes]:
    """All templates of a folder with the same words, by path; paths have words too, and may end in `.in` here."""
    root = _folder(name)
    paths = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    texts = {_filled(name, path, words).removesuffix(".in"): render(f"{name}/{path}", words) for path in paths}
    return {path: text.encode() for path, text in texts.items()}


def _filled(name: str, text: str, words: Words) -> str:
    def value(key: str) -> object:
        if key not in words:
            raise LookupError(f"template {name} wants @{key}@")
        return words[key]

    def part(match: re.Match[str]) -> str:
        block, inner, word = match.groups()
        if word:
            return str(value(word))
        rows = value(block)
        if isinstance(rows, bool):
            rows = [_NONE] if rows else []
        assert isinstance(rows, (list, tuple)), f"template {name}: @begin {block}@ takes rows"
        return "".join(_filled(name, inner, {**words, **row}) for row in rows)

    return _PART.sub(part, text)


def _folder(name: str) -> Path:
    return package_folder().joinpath("machine", "templates", name)


@cache
def _template(name: str) -> tuple[str, frozenset[str]]:
    """The text and all names in it."""
    text = _REMARK.sub("", _folder(name).read_text(encoding="utf-8"))
    wanted, left = set[str](), [text]
    while left:
        for block, inner, word in _PART.findall(left.pop()):
            wanted.add(block or word)
            left += [inner] if block else []
    odd = _LEFT.search(_filled(name, text, {key: [{}] if f"@begin {key}@" in text else "" for key in wanted}))
    assert odd is None, f"template {name}: {odd[0]} has no other end"
    return text, frozenset(wanted)
