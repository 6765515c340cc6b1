"""YAML with line numbers and limits: every value is known by its dotted key and the line that it stands in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.frozen import dataclass

MOST_BYTES, MOST_VALUES, MOST_DEPTH = 1 << 18, 20_000, 24
_FLOAT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")  # YAML 1.1 takes 1e-3 for a word, Hydra does not


@dataclass(frozen=True)
class YamlSettings:
    """What a file says: leaves by dotted key; `lines` also has the sections."""

    path: Path
    values: Mapping[str, Any]
    lines: Mapping[str, int]

    def get(self, key: str, default: Any = None) -> Any:
        found = self.values.get(key)
        return default if found is None else found

    def where(self, key: str) -> str:
        """File, line and key; of the nearest section that exists if the key itself does not."""
        parts = key.split(".")
        known = next((k for n in range(len(parts), 0, -1) if (k := ".".join(parts[:n])) in self.lines), "")
        line = f":{self.lines[known]}" if known else ""
        return f"{self.path}{line}: {key}"

    def error(self, key: str, what: str, remedy: str = "", rule: str = "") -> InputError:
        return InputError(what, where=self.where(key), remedy=remedy, rule=rule)

    def require(self, key: str) -> Any:
        found = self.get(key)
        if found is None or found == "":
            raise self.error(key, "is missing", remedy=f"add {key.split('.')[-1]}: to the file")
        return found


def read_yaml(path: Path) -> YamlSettings:
    try:
        import yaml
    except ImportError:
        raise ToolError("PyYAML is not installed", remedy="pip install 'atonc[deploy]'") from None

    text = _text(path)
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(f"is no YAML: {said}", where=f"{path}{line}") from None
    except RecursionError:
        raise InputError("is nested too deeply", where=str(path)) from None
    if not isinstance(tree, yaml.MappingNode):
        raise InputError("has no sections", where=str(path), remedy="give a deployment file of the model zoo")
    reader = _YamlReader(path, yaml)
    reader.mapping(tree, "", 0)
    return YamlSettings(path, reader.values, reader.lines)


def _text(path: Path) -> str:
    data = read_file(path, MOST_BYTES)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("is not UTF-8", where=f"{path}:{line}") from None


class _YamlReader:
    """Follows the nodes, so that aliases cost what they stand for."""

    def __init__(self, path: Path, yaml: Any) -> None:
        self.path, self.yaml, self.count = path, yaml, 0
        self.values: dict[str, Any] = {}
        self.lines: dict[str, int] = {}
        self.scalars = yaml.SafeLoader("")

    def mapping(self, node: Any, prefix: str, depth: int) -> None:
        for key, value in self.pairs(node, depth):
            dotted = f"{prefix}{key}"
            if dotted in self.lines:
                what = f"is there twice, first in line {self.lines[dotted]}"
                raise InputError(what, where=self.at(value, dotted))
            self.lines[dotted] = value.start_mark.line + 1
            if isinstance(value, self.yaml.MappingNode):
                self.mapping(value, f"{dotted}.", depth + 1)
            else:
                self.values[dotted] = self.plain(value, depth + 1)

    def pairs(self, node: Any, depth: int) -> Iterator[tuple[str, Any]]:
        self.limit(node, depth)
        for key, value in node.value:
            if not isinstance(key, self.yaml.ScalarNode):
                raise InputError("a key must be a word", where=self.at(key))
            yield str(key.value), value

    def plain(self, node: Any, depth: int) -> Any:
        self.limit(node, depth)
        if isinstance(node, self.yaml.SequenceNode):
            return [self.plain(item, depth + 1) for item in node.value]
        if isinstance(node, self.yaml.MappingNode):
            return {key: self.plain(value, depth + 1) for key, value in self.pairs(node, depth)}
        if node.tag == "tag:yaml.org,2002:str" and node.style is None and _FLOAT.fullmatch(node.value):
            return float(node.value)
        try:
            return self.scalars.construct_object(node)
        except (self.yaml.YAMLError, ValueError, OverflowError):
            raise InputError(f"cannot be read as {node.tag.rpartition(':')[2]}", where=self.at(node)) from None

    def limit(self, node: Any, depth: int) -> None:
        self.count += 1
        if depth > MOST_DEPTH or self.count > MOST_VALUES:
            what = f"more than {MOST_DEPTH} levels" if depth > MOST_DEPTH else f"more than {MOST_VALUES:,} values"
            raise InputError(what, where=self.at(node), rule="aliases count with all that they stand for")

    def at(self, node: Any, key: str = "") -> str:
        return f"{self.path}:{node.start_mark.line + 1}" + (f": {key}" if key else "")
