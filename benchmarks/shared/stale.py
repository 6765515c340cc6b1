"""Which pages are older than the code that they speak of: their commit, and what their benchmark imports since."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from subprocess import CalledProcessError

from benchmarks.shared.pages import git, is_record, stamp_of

ROOMS = ("atonc", "benchmarks", "tests")
DATA = (".py", ".md")  # every other file beside a module counts as its data


@dataclass
class Checkout:
    """One folder: what its modules import, and what changed since a commit."""

    root: Path
    _imports: dict[str, frozenset[str]] = field(default_factory=dict)
    _changed: dict[str, frozenset[str]] = field(default_factory=dict)

    def needs(self, module: str) -> frozenset[str]:
        """Paths of all modules that this one imports, directly or through others, itself included."""
        seen, waiting = set[str](), [module]
        while waiting:
            path = waiting.pop()
            if path not in seen:
                seen.add(path)
                waiting.extend(self.imports(path))
        return frozenset(seen)

    def imports(self, path: str) -> frozenset[str]:
        if path not in self._imports:
            tree = ast.parse((self.root / path).read_text())
            self._imports[path] = frozenset(found for name in _names(tree, path) if (found := self._file(name)))
        return self._imports[path]

    def _file(self, name: str) -> str:
        """The module of a dotted name, or the one that has it as an attribute; the rooms of this checkout only."""
        parts = name.split(".")
        for end in (len(parts), len(parts) - 1) if parts[0] in ROOMS else ():
            stem = "/".join(parts[:end])
            for path in (f"{stem}.py", f"{stem}/__init__.py"):
                if end and (self.root / path).is_file():
                    return path
        return ""

    def changed(self, commit: str) -> frozenset[str]:
        """Since that commit, uncommitted changes included."""
        if commit not in self._changed:
            self._changed[commit] = frozenset(git("diff", "--name-only", commit, root=self.root).splitlines())
        return self._changed[commit]

    def newer(self, module: str, commit: str) -> list[str]:
        """What changed since the commit of what the module needs, data files beside its modules included."""
        needed = self.needs(module)
        folders = {str(PurePosixPath(path).parent) for path in needed if path.startswith("atonc/")}
        return sorted(p for p in self.changed(commit) if p in needed or _data_in(p, folders))


def _data_in(path: str, folders: set[str]) -> bool:
    place = PurePosixPath(path)
    return place.suffix not in DATA and str(place.parent) in folders


def _names(tree: ast.AST, path: str) -> Iterator[str]:
    package = PurePosixPath(path).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            whole = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{whole}.{alias.name}" for alias in node.names)


def stale_pages(root: Path) -> Iterator[tuple[str, str]]:
    """Page and why, of all pages of a checkout that are not of its code."""
    checkout = Checkout(root)
    for page in sorted((root / "benchmarks" / "results").glob("*.md")):
        why = _why(page, checkout)
        if why:
            yield page.name, why


def _why(page: Path, checkout: Checkout) -> str:
    module, stamp = f"benchmarks/{page.stem}.py", stamp_of(page.read_text())
    if not (checkout.root / module).is_file():
        if is_record(page.read_text()):
            return ""
        return f"no benchmark writes it: there is no {module}"
    if stamp is None:
        return "no stamp: it says neither commit nor machine"
    if stamp.changed:
        return f"made {stamp.date} from changes that are in no commit, on top of {stamp.commit}"
    try:
        newer = checkout.newer(module, stamp.commit)
    except CalledProcessError:
        return f"made {stamp.date} at {stamp.commit}, which is no commit of this checkout"
    more = f" and {len(newer) - 1} more" if len(newer) > 1 else ""
    return f"made {stamp.date} at {stamp.commit}; since then changed {newer[0]}{more}" if newer else ""
