"""Nothing here builds sources that came from elsewhere: no benchmark, tool or test compiles a tree that was fetched.

Whoever builds is found by what it names: programs that build, and our own functions that start a compiler. Those that
build our own sources are listed with what they build; all others, and tests that look at fetched files, build nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILDERS = r"g?make|cmake|ninja|meson|cargo|west|idf\.py|bazel|docker|podman|npm|pip3?|deploy"  # `atonc deploy` builds
PROGRAMS = rf"{BUILDERS}|(?:[a-z][\w-]*-)?(?:gcc|g\+\+|clang|cc)|[a-z][\w-]*-(?:ld|as)"
FUNCTIONS = (
    "GCC", "find_toolchain", "compile_units", "compile_runtime", "build_firmware", "build_loader", "build_image",
    "vendor_runtime", "vendor_loader", "choose_runtime", "host_library",
)  # fmt: skip
FOREIGN = re.compile(r"fetched|checkout|repositor|vendor|mirror|unpack", re.IGNORECASE)
OF_FETCHED = "ATONC_FETCHED"  # tests read fetched files by this name
OURS = {  # who builds, with what, and what of ours that is
    "benchmarks/board.py": (
        {"compile_runtime", "compile_units", "find_toolchain", "build_firmware"},
        "generated networks",
    ),
    "benchmarks/cpu_kernels.py": ({"arm-none-eabi-gcc"}, "our kernels"),
    "benchmarks/instructions.py": ({"arm-none-eabi-gcc", "arm-none-eabi-ld"}, "single instructions"),
    "benchmarks/layouts.py": ({"cargo"}, "the crate that generate --layout rust writes"),
    "benchmarks/post_processing.py": ({"compile_units", "find_toolchain"}, "the C of generate --post"),
    "benchmarks/reloc_models.py": ({"build_loader", "find_toolchain"}, "our loader, images of our networks"),
    "benchmarks/st_reloc_firmware.py": ({"find_toolchain"}, "images of our networks"),
    "benchmarks/wire_clients.py": ({"build_firmware", "compile_runtime"}, "firmware of our networks"),
    "tools/cross_compiler.sh": ({"arm-none-eabi-gcc"}, "two lines, to see whether the compiler is whole"),
    "tools/guides.py": ({"arm-none-eabi-gcc", "cmake"}, "examples of this repository: which words a guide needs"),
    "tools/make_venv.sh": ({"pip"}, "this package"),
    "tools/release.py": ({"pip"}, "this package"),
}


def scripts() -> list[Path]:
    found = (path for folder in ("benchmarks", "tools") for path in (ROOT / folder).rglob("*"))
    return sorted(path for path in found if path.suffix in (".py", ".sh") and "results" not in path.parts)


def means_of(text: str, suffix: str = ".py") -> set[str]:
    """What a script could build with."""
    if suffix != ".py":
        code = re.sub(r"(?m)^\s*(?:#|say\b).*", "", text)
        return set(re.findall(rf"(?:^|[|;&]|-m) *({PROGRAMS})(?= )", code, re.M))
    tree = ast.parse(text)
    return {*_programs(tree), *_functions(tree)}


def _programs(tree: ast.AST) -> Iterator[str]:
    """As the first word of a text, or quoted inside one: a script that a script writes."""
    said = {id(node.body[0].value) for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node)}  # type: ignore[attr-defined]  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            first = re.match(rf"({PROGRAMS})(?= |$)", node.value)
            yield from [first[1]] if first else []
            yield from re.findall(rf"[\"']({PROGRAMS})[\"']", node.value)


def _functions(tree: ast.AST) -> Iterator[str]:
    names = (getattr(node, "id", None) or getattr(node, "attr", None) for node in ast.walk(tree))
    return (name for name in names if name in FUNCTIONS)


def calls_with_foreign(text: str) -> list[str]:
    """Calls that build something whose name says that it came from elsewhere."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and {*_programs(node), *_functions(node.func)}
        and any(FOREIGN.search(ast.unparse(part)) for part in (*node.args, *node.keywords))
    ]


def test_who_builds_builds_our_own() -> None:
    found = {str(path.relative_to(ROOT)): means_of(path.read_text(), path.suffix) for path in scripts()}
    builds = {name: means for name, means in found.items() if means}
    unknown = {name: sorted(means - OURS.get(name, (set(), ""))[0]) for name, means in builds.items()}
    assert {name: means for name, means in unknown.items() if means} == {}, (
        "no committed script builds sources of others; one that builds ours is listed in OURS with what it builds"
    )
    assert sorted(set(OURS) - set(builds)) == [], "builds nothing any more"


@pytest.mark.parametrize("path", [path for path in scripts() if path.suffix == ".py"], ids=lambda path: path.stem)
def test_nothing_that_was_fetched_is_built(path: Path) -> None:
    assert calls_with_foreign(path.read_text()) == []


def test_tests_that_look_at_fetched_files_build_nothing() -> None:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text()
        if OF_FETCHED in text and path != Path(__file__):
            assert means_of(text) == set(), f"{path.name} reads {OF_FETCHED} and compiles"


def test_pages_and_workflows_clone_nothing() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"), ROOT / "README.md"]
    for path in (*pages, ROOT / "Makefile", *(ROOT / ".github").rglob("*.yml")):
        assert "git clone" not in path.read_text(), f"{path.name}: a recipe for somebody else's sources"


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ('run(["make", "-j2"], cwd=folder)', {"make"}),
        ('"""make a table"""\nword = "made"', set()),
        ('TEXT = """\nrun(["nice", "cmake", "."])\n"""', {"cmake"}),
        ('command = ["arm-none-eabi-gcc", *flags]', {"arm-none-eabi-gcc"}),
        ("firmware.build_firmware([network], runtime, work)", {"build_firmware"}),
        ('run([sys.executable, "-m", "pip", "install", tree])', {"pip"}),
    ],
)
def test_what_counts_as_building(text: str, means: set[str]) -> None:
    assert means_of(text) == means


def test_a_shell_script_is_read_too() -> None:
    assert means_of("cd tree && make -j2\n# make nothing\n", ".sh") == {"make"}


def test_a_foreign_tree_is_known_by_its_name() -> None:
    assert calls_with_foreign("loading.vendor_loader(arguments.fetched / name)")
    assert calls_with_foreign('run(["make"], cwd=unpacked / "app")')
    assert not calls_with_foreign("build_firmware([network], our_runtime(), work)")
