"""The file of a sweep, read strictly, and the rows that it asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import product
from pathlib import Path
from typing import Any

from atonc.compiler.request.options import Options, whole
from atonc.machine.base.declare import check, declared, did_you_mean, option
from atonc.machine.base.disk import read_text
from atonc.machine.base.errors import ConflictError, InputError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.board import MAX_BYTES, TomlTable, parse_toml

MOST_ROWS = 10_000
KEYS = ("models", "applications", "boards", "sizes", "options", "accuracy", "float", "inputs", "samples", "verify",
        "estimate")  # fmt: skip
MODELS = (".onnx", ".tflite")
APPLICATIONS = (".toml",)
# keys that say nothing about applications
OF_MODELS = ("models", "sizes", "accuracy", "float", "inputs", "samples", "estimate")
SHARE = "share_constants"  # of a whole application, beside the options of the compiler
OWN_KEYS = ("board", "fixed_shapes", "verify", "calibration")  # with a key of their own, or files of one model


@dataclass(frozen=True)
class SweepRow:
    """One compilation, or one plan of an application."""

    model: Path  # or the application file
    board: str  # empty: the one that the application file names
    size: str  # free dimensions, as --fix-parametric-shapes takes them
    options: Mapping[str, Any]


@dataclass(frozen=True)
class SweepPlan:
    file: str
    rows: tuple[SweepRow, ...]
    verify: bool = False
    accuracy: bool = False  # also the signal to noise of the outputs
    float_model: Path | None = None
    inputs: Path | None = None
    samples: int = 0
    varied: tuple[str, ...] = field(default_factory=tuple)  # options that differ between rows
    applications: bool = False  # what the rows are of
    estimate: bool = False  # figures without a search, also of float models


def read_plan(path: Path) -> SweepPlan:
    table = parse_toml(read_text(path, MAX_BYTES), str(path))
    _require_known(table, table.data, KEYS)
    folder = path.absolute().parent
    applications = table.has("applications")
    key, suffixes = ("applications", APPLICATIONS) if applications else ("models", MODELS)
    if applications:
        _require_no_models(table)
    options = table.table("options") if table.has("options") else None
    combinations = list(_combinations(options, (SHARE,) if applications else ()))
    boards = [_board(folder, name) for name in _texts(table, "boards")] or ["" if applications else Options().board]
    sizes = [_size(table, one) for one in _list(table, "sizes")] or [""]
    files = list(_files(table, folder, key, suffixes))
    rows = tuple(SweepRow(*cells) for cells in product(files, boards, sizes, combinations))
    if len(rows) > MOST_ROWS:
        raise table.wrong(key, f"{len(rows):,} rows", rule=f"at most {MOST_ROWS:,}", remedy="split the sweep")
    for row in rows:
        _require_options(row, table)
    first = combinations[0] if combinations else {}
    varied = [name for name in first if any(one[name] != first[name] for one in combinations)]
    return SweepPlan(
        str(path),
        rows,
        verify=table.flag("verify") if table.has("verify") else False,
        accuracy=table.flag("accuracy") if table.has("accuracy") else False,
        float_model=folder / table.text("float") if table.has("float") else None,
        inputs=folder / table.text("inputs") if table.has("inputs") else None,
        samples=int(table.number("samples", 1, 1000)) if table.has("samples") else 0,
        varied=tuple(varied),
        applications=applications,
        estimate=_estimates(table),
    )


def _estimates(table: TomlTable) -> bool:
    if not (table.has("estimate") and table.flag("estimate")):
        return False
    if wrong := [key for key in ("verify", "accuracy", "options") if table.data.get(key)]:
        rule = "an estimate assumes weights: nothing of it can be verified, and no option changes what is assumed"
        raise table.wrong(wrong[0], f"{wrong[0]} beside estimate", rule=rule, remedy="leave one of both out")
    return True


def _require_no_models(table: TomlTable) -> None:
    for key in OF_MODELS:
        if table.has(key):
            rule = "a sweep is of models or of applications, and this key is of models"
            raise table.wrong(key, f"{key} beside applications", rule=rule, remedy="write a second file")


def _files(table: TomlTable, folder: Path, key: str, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Files, or patterns of files; each once."""
    seen: set[Path] = set()
    own = Path(table.file).resolve()  # a pattern of applications may find the file of the sweep
    patterns = _texts(table, key)
    if not patterns:
        example = f'write {key} = ["a{suffixes[-1]}", "folder/*{suffixes[0]}"]'
        raise table.wrong(key, f"no {key}", remedy=example)
    for pattern in patterns:
        place = Path(pattern)
        base, rest = (Path(place.anchor), pattern[len(place.anchor) :]) if place.is_absolute() else (folder, pattern)
        wild = any(sign in pattern for sign in "*?[")
        found = sorted(p for p in base.glob(rest) if p.suffix.lower() in suffixes) if wild else [base / rest]
        found = [p for p in found if not wild or p.resolve() != own]
        if not found:
            rule = f"{key} end in {' or '.join(suffixes)}"
            raise table.wrong(key, f"{pattern[:80]!r} finds no {key[:-1]}", rule=rule)
        for file in found:
            if not file.is_file():
                raise table.wrong(key, f"there is no file {pattern[:80]!r}")
            if file.resolve() not in seen:
                seen.add(file.resolve())
                yield file


def _board(folder: Path, name: str) -> str:
    """Files of boards are named from where the sweep is."""
    choice, at, place = name.rpartition("@")
    return f"{choice}{at}{folder / place}" if place.endswith(".toml") else name


def _size(table: TomlTable, value: Any) -> str:
    from atonc.compiler.frontends.limits import parse_fixed_shapes

    text = ",".join(f"{name}={size}" for name, size in value.items()) if isinstance(value, dict) else value
    try:
        sizes = parse_fixed_shapes(text) if isinstance(text, str) else None
    except InputError:
        sizes = None
    if not sizes or not all(isinstance(size, int) and size > 0 for size in sizes.values()):
        raise table.wrong("sizes", f"{str(value)[:60]!r} is no size", remedy='write "H=192,W=192"')
    return ",".join(f"{name}={size}" for name, size in sizes.items())


def _combinations(options: TomlTable | None, more: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """`more`: names that are no options of the compiler."""
    if options is None:
        yield {}
        return
    names = [member.name for member, _ in declared(Options) if member.name not in OWN_KEYS]
    _require_known(options, options.data, (*names, "on_cpu", "on_npu", *more))
    tuples = {member.name for member, _ in declared(Options) if member.default == ()} | {"on_cpu", "on_npu"}
    choices = [_choices(value, name in tuples) for name, value in options.data.items()]
    if nothing := [name for name, values in zip(options.data, choices, strict=True) if not values]:
        remedy = "name a value, or leave it out"
        raise options.wrong(nothing[0], "an empty list", rule="every value is a row", remedy=remedy)
    for values in product(*choices):
        yield dict(zip(options.data, values, strict=True))


def _choices(value: Any, is_list: bool) -> list[Any]:
    """One value, or a list of them; of options that are lists themselves, a list of lists."""
    many = isinstance(value, list) and (not is_list or all(isinstance(item, list) for item in value))
    return value if many else [value]


def compiler_options(row: SweepRow, verify: bool) -> Options:
    from atonc.compiler.frontends.limits import parse_fixed_shapes
    from atonc.machine.base.declare import arguments

    given = {name: value for name, value in row.options.items() if name != SHARE}
    given |= {"board": row.board or Options().board, "fixed_shapes": parse_fixed_shapes(row.size), "verify": verify}
    found: Options = arguments(Options, given)
    return found


def _require_options(row: SweepRow, table: TomlTable) -> None:
    """A wrong option is a mistake of the file, not a row; one that does not go with another refuses its rows."""
    from atonc.machine.hw.board import find_board

    if not isinstance(row.options.get(SHARE, False), bool):
        raise table.wrong(SHARE, f"{str(row.options[SHARE])[:40]!r} is not true or false")
    try:
        find_board(compiler_options(row, False).board)
    except ConflictError:
        return
    except InputError as error:
        where = f"{table.file}, {error.where}" if error.where else table.file
        raise InputError(error.what, where=where, rule=error.rule, remedy=error.remedy) from None


def _require_known(table: TomlTable, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            remedy = did_you_mean(key, known, f"known are {', '.join(known)}")
            raise table.wrong(key, f"{plain(key)[:60]!r} is not known", remedy=remedy)


def _list(table: TomlTable, key: str) -> list[Any]:
    if not table.has(key):
        return []
    value = table.data[key]
    return value if isinstance(value, list) else [value]


def _texts(table: TomlTable, key: str) -> list[str]:
    found = _list(table, key)
    if not all(isinstance(item, str) and item for item in found):
        raise table.wrong(key, "not a text or a list of texts")
    return found


WORK = "how the work is done"


@dataclass(frozen=True)
class SweepOptions:
    """Arguments of `atonc.sweep`; flags of the command line with their help; rows of the reference."""

    output: str = option("sweep_output", "-o --output", WORK, "sweep.json, .csv and .html go there", metavar="DIR")
    processes: int = option(
        0, "--processes", WORK, "processes of this machine; 0: one per core", metavar="N", parse=whole
    )
    scheduler: str = option(
        "", "--scheduler", WORK, "a Dask cluster instead: tcp://HOST:PORT, or local", metavar="ADDRESS"
    )
    cache: str = option("", "--cache", WORK, "where rows are kept (default: in the user's cache)", metavar="DIR")
    fresh: bool = option(False, "--fresh", WORK, "compute every row again")

    def __post_init__(self) -> None:
        check(self)
        if self.processes < 0:
            raise InputError(f"processes is {self.processes}", remedy="give 0 or more")
