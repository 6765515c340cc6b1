"""The application file, read strictly, and its short form, a list of models; and app.json, the map of a build."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from atonc.compiler.emit.write import check_name, is_reserved
from atonc.compiler.request.options import Options, room
from atonc.delivery.application.types import (
    AppChanges,
    Application,
    AppNetwork,
    FlashSlot,
    LoadMode,
    Reservation,
    WholeFile,
)
from atonc.machine.base.declare import arguments, declared, did_you_mean, spelled
from atonc.machine.base.disk import missing, read_text
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.words import NO_ROOM
from atonc.machine.hw.board import MAX_BYTES, Board, TomlTable, find_board, parse_toml, split_choice
from atonc.machine.hw.machine import FLASH

MAP = WholeFile.MAP.value
MAP_FORMAT = "atonc application 1"
_MOST_BYTES = 1 << 22
_T = TypeVar("_T")


def read_map(path: Path, parse: Callable[[Mapping[str, Any]], _T]) -> _T:
    """What `parse` makes of it; what it stumbles over is no map."""
    text = read_text(path, _MOST_BYTES)
    try:
        data = json.loads(text)
        if data["format"] != MAP_FORMAT:
            raise ValueError(data["format"])
        return parse(data)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError, OverflowError):
        raise InputError("is not the map of an application", where=str(path), rule=f"{MAP} of a build") from None


MOST_NETWORKS = 16
SHARED = "app_shared"  # parts of the flash that several networks read
SLOT = "_slot"  # of macros: where a network may grow
EVERYTHING = "all"  # a survivor of the runs of all other networks
NOBODY = "none"  # outputs that are given up, also to those that follow
_WORDS = ("network", "default", EVERYTHING, NOBODY)  # what C calls a network without a name; all of them; none
_KEYS = ("board", "resident", "share_constants", "reserve", "network")
_NETWORK_KEYS = (
    *("name", "model", "per_second", "after", "inputs_survive", "outputs_survive"),
    *("slot", "relocatable", "exec_ram", "options"),
)
_RESERVE_KEYS = ("name", "memory", "address", "size")
_IN_NETWORK = dict.fromkeys(_NETWORK_KEYS, "write it in [[network]], above its [network.options]")
_OF_WHOLE = {key: "write it above the first [[network]] and [[reserve]]" for key in _KEYS}
_MOST_PER_SECOND = 100_000
_LOAD_MODES = tuple(mode.value for mode in LoadMode)
_WHERE_SAID = {  # the application's own to say, and where it does
    "board": _OF_WHOLE["board"],
    "mpool": 'write board = "SET@BOARD", or a board file, above the first [[network]]',
    "resident": _OF_WHOLE["resident"],
    "keep_free": "reserve memory: [[reserve]]",
    "verify": "leave it out: networks of an application are always verified",
    "relocatable": 'write relocatable = "xip" above [network.options]',
}
OWN = tuple(_WHERE_SAID)
FILES = ("evidence", "decisions", "custom")
_NO_NAME = re.compile(r"\W", re.ASCII)


def read_application(path: Path, changes: AppChanges | None = None) -> Application:
    """Everything that the file says, with these changes; a mistake is told with its line and key."""
    changes = changes or AppChanges()
    table = parse_toml(read_text(path, MAX_BYTES), str(path))
    table.finish(_KEYS, _IN_NETWORK)
    folder = path.absolute().parent
    name = table.text("board") if table.has("board") else Options().board
    if (place := split_choice(name)[1]).endswith(".toml"):  # files of boards are named from where this file is
        name = name.removesuffix(place) + str(folder / place)
    board_name = changes.board or name
    with _said_at("--board" if changes.board else table.where("board")):
        board = find_board(board_name).require_npu()
        board.pool_set(split_choice(board_name)[0])
    reserved = _reserved(table.tables("reserve"), board)
    tables = table.tables("network")
    if not tables:
        raise table.wrong("network", "names no network", remedy='write [[network]] with name and model = "file.tflite"')
    if len(tables) > MOST_NETWORKS:
        remedy = "leave networks out, or build two applications"
        raise table.wrong("network", f"{len(tables)} networks", f"at most {MOST_NETWORKS}", remedy)
    networks = [_network(one, folder, board_name, changes) for one in tables]
    said = {one.name: one.per_second for one, own in zip(networks, tables, strict=True) if own.has("per_second")}
    after = {one.name: one.after for one in networks}
    networks = [replace(one, per_second=_rate(one.name, said, after)) for one in networks]
    networks = [_read_by_followers(one, own, networks) for one, own in zip(networks, tables, strict=True)]
    said_room = table.text("resident") if table.has("resident") else ""
    with _said_at(table.where("resident")):
        resident = room(str(said_room if changes.resident is None else changes.resident))
    share = table.has("share_constants") and table.flag("share_constants")
    share = share if changes.share_constants is None else changes.share_constants
    whole = Application(str(path), board_name, tuple(networks), reserved, resident, share_constants=share)
    return checked(whole, [one.where for one in tables])


@contextmanager
def _said_at(where: str) -> Iterator[None]:
    """What somebody else refuses stands here."""
    try:
        yield
    except InputError as error:
        error.where = f"{where}, {error.where}" if error.where else where
        raise


def of_models(models: Sequence[Path], options: Options | None = None) -> Application:
    """The short form: models that take turns, named after their files."""
    options = options or Options()
    names: list[str] = []
    for model in models:
        stem = _NO_NAME.sub("_", model.stem)[:40] or "network"
        stem = f"n{stem}" if stem[0].isdigit() else stem
        name, number = stem, 2
        while is_reserved(name) or name.lower() in (*_taken(), *(one.lower() for one in names)):
            name, number = f"{stem}_{number}", number + 1
        names.append(name)
    each = replace(options, resident=NO_ROOM, keep_free=0)
    networks = tuple(AppNetwork(name, model, each) for name, model in zip(names, models, strict=True))
    whole = Application("command line", options.board, networks, resident=options.room_for_weights)
    return checked(whole, [f"command line, network {name!r}".format for name in names])


Place = Callable[[str], str]  # where a network says what stands under a key


def checked(application: Application, places: Sequence[Place]) -> Application:
    """What cannot be is refused: names twice, runs after itself or nobody, survivors of unknown networks."""
    names, networks = [one.name for one in application.networks], application.networks
    if not 1 <= len(names) <= MOST_NETWORKS:
        raise InputError(f"{len(names)} networks", where=application.file, rule=f"1 to {MOST_NETWORKS}")
    for count, (one, place) in enumerate(zip(networks, places, strict=True)):
        with _said_at(place("name")):
            check_name(one.name)
            if one.name.lower().startswith(SHARED):
                raise InputError(f"a network called {one.name!r}", rule=f"{SHARED}... is ours")
            _require_own(one.name, names[:count])
        if one.options.encrypt_weights:
            raise InputError(
                "encrypted weights",
                where=place("options.encrypt_weights"),
                rule="the firmware checks the hash of every slot at start, and a board encrypts bytes after the build",
                remedy="leave out encrypt_weights, or generate this network by itself",
            )
    linked = [_linked(one, place, networks) for one, place in zip(networks, places, strict=True)]
    return replace(application, networks=tuple(linked))


def _require_own(name: str, before: Sequence[str]) -> None:
    """Files and macros are named after networks, macros in capitals: what `x` and `x_slot` are called would be one."""
    remedy = "give the network another name"
    if name.lower() in _taken():
        rule = f"names of the application's own files: {', '.join(_taken())}"
        raise InputError(f"the name {name!r} is reserved", rule=rule, remedy=remedy)
    same = (name.lower(), f"{name.lower()}{SLOT}", name.lower().removesuffix(SLOT))
    if other := next((one for one in before if one.lower() in same), ""):
        rule = f"names differ, capitals make no difference, and none is another one with {SLOT} behind it"
        raise InputError(f"networks called {other!r} and {name!r}", rule=rule, remedy=remedy)


def _taken() -> tuple[str, ...]:
    """Names that mean something else, or are those of files of the whole."""
    return (*_WORDS, *sorted({file.stem for file in WholeFile}))


def _linked(network: AppNetwork, place: Place, networks: Sequence[AppNetwork]) -> AppNetwork:
    after = {one.name: one.after for one in networks}
    others = [name for name in after if name != network.name]
    survivors = (("inputs_survive", network.inputs_survive), ("outputs_survive", network.outputs_survive))
    for key, words in (("after", (network.after or EVERYTHING,)), *survivors):
        for word in words:
            if word != EVERYTHING and word not in others:
                remedy = did_you_mean(word, others, f"the others are {', '.join(others) or 'none'}")
                raise InputError(f"{word[:60]!r} is no other network", where=place(key), remedy=remedy)
    seen, name = [network.name], network.after
    while name:
        if name in seen:
            remedy = f"leave out `after` of {' or '.join(seen)}"
            raise InputError(f"{' after '.join([*seen, name])}: a circle", where=place("after"), remedy=remedy)
        seen.append(name)
        name = after.get(name, "")
    inputs, outputs = (
        tuple(other for other in others if other in asked or EVERYTHING in asked)
        for asked in (network.inputs_survive, network.outputs_survive)
    )
    return replace(network, inputs_survive=inputs, outputs_survive=outputs)


# ------------------------------------------------------------------------------------------------------------ networks


def _slot(table: TomlTable, board: str) -> int:
    """Bytes of flash; 0: as the network needs."""
    if not table.has("slot"):
        return 0
    size, most = table.size("slot"), sum(one.size_bytes for one in find_board(board).of_kind(FLASH))
    if not 0 < size <= most:
        remedy = 'write slot = "4M", or leave it out: then it is what the network needs and an eighth more'
        raise table.wrong("slot", f"{size:,} bytes", f"above 0, and no more than the {most:,} of the flash", remedy)
    return size


def _network(table: TomlTable, folder: Path, board: str, changes: AppChanges) -> AppNetwork:
    table.finish(_NETWORK_KEYS, _OF_WHOLE)
    mode = LoadMode(table.text("relocatable", _LOAD_MODES)) if table.has("relocatable") else None
    if table.has("exec_ram") and mode is None:
        raise table.wrong("exec_ram", "only relocatable images need it", remedy='relocatable = "xip", or leave it out')
    options = replace(_options(table, folder, board, changes.options), relocatable=mode is not None)
    per_second = table.number("per_second", 0, _MOST_PER_SECOND) if table.has("per_second") else 1.0
    if not per_second:
        raise table.wrong(
            "per_second",
            "a network that never runs",
            rule="loads, and who gets RAM for weights, follow from how often a network runs",
            remedy="say how often it runs at most (0.01: once in 100 seconds), or leave the network out",
        )
    return AppNetwork(
        table.text("name"),
        _below(table, "model", table.text("model"), folder),
        options,
        per_second,
        table.text("after") if table.has("after") else "",
        _names(table, "inputs_survive"),
        _names(table, "outputs_survive"),
        _slot(table, board),
        relocatable=mode,
        exec_bytes=table.size("exec_ram") if table.has("exec_ram") else 0,
        places=_places(table),
    )


def _places(table: TomlTable) -> dict[str, str]:
    found = {key: table.where(key) for key in ("", "per_second", "slot", "exec_ram")}
    if not table.has("options"):
        return found
    inner = table.table("options")
    for member, known in declared(Options):
        for key in (member.name, *map(spelled, known.flags)):
            found |= dict.fromkeys(known.flags, inner.where(key)) if inner.has(key) else {}
    return found


def _rate(name: str, said: Mapping[str, float], after: Mapping[str, str]) -> float:
    """A follower of which nothing is said runs once behind every run of whom it follows."""
    for _ in after:  # no longer than a chain can be: circles are refused later
        if name in said or after.get(name, "") not in after:
            break
        name = after[name]
    return said.get(name, 1.0)


def _read_by_followers(network: AppNetwork, table: TomlTable, others: Sequence[AppNetwork]) -> AppNetwork:
    """Who runs after a network works on its results, often several times: they stay, besides what the file asks for.
    Only "none" gives their place away."""
    if NOBODY in network.outputs_survive:
        if len(network.outputs_survive) > 1:
            raise table.wrong("outputs_survive", "none, and others", remedy=f'write "{NOBODY}" or the others')
        return replace(network, outputs_survive=())
    followers = (one.name for one in others if one.after == network.name)
    return replace(network, outputs_survive=tuple(dict.fromkeys((*network.outputs_survive, *followers))))


def _options(table: TomlTable, folder: Path, board: str, instead: Mapping[str, Any]) -> Options:
    inner = table.table("options") if table.has("options") else None
    given: dict[str, Any] = dict(inner.data) if inner else {}
    for key in OWN:
        if key in given and inner is not None:
            raise inner.wrong(key, "is said for the whole application", remedy=_WHERE_SAID[key])
    if inner is not None and (wrong := next((key for key in given if key in _IN_NETWORK), "")):
        raise inner.wrong(wrong, "is no option of the compiler", remedy=_IN_NETWORK[wrong])
    for key in FILES:
        if key in given and inner is not None:
            given[key] = str(_below(inner, key, inner.text(key), folder))
    if inner is not None and isinstance(given.get("calibration"), list):
        named = [str(name) for name in given["calibration"]]
        given["calibration"] = [str(_below(inner, "calibration", name, folder)) for name in named]
    elif inner is not None and "calibration" in given:
        raise inner.wrong("calibration", "not a list of files", remedy='write calibration = ["samples.npz"]')
    with _said_at(inner.where(_culprit(given)) if inner else table.where()):
        found: Options = arguments(Options, {**given, **instead, "board": board})
    return found


def _culprit(given: Mapping[str, Any]) -> str:
    """The option that is wrong by itself; none where several do not go together."""
    for key, value in given.items():
        try:
            arguments(Options, {key: value})
        except InputError:
            return key
    return ""


def _below(table: TomlTable, key: str, text: str, folder: Path) -> Path:
    """A file that is there, beside the application file or below; absolute paths are taken as they are."""
    place = Path(text)
    if not place.is_absolute() and ".." in place.parts:
        raise table.wrong(
            key,
            f"{text[:80]!r} leaves the folder of the file",
            rule="a relative path stays below the folder of the application file",
            remedy="put the application file above the models, or write the whole path",
        )
    with _said_at(table.where(key)):
        if not (folder / place).is_file():
            raise missing(folder / place, "file")
    return folder / place


def _names(table: TomlTable, key: str) -> tuple[str, ...]:
    if not table.has(key):
        return ()
    value = table.data[key]
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or len(items) > MOST_NETWORKS or not all(isinstance(one, str) for one in items):
        raise table.wrong(key, "not a list of networks", remedy=f'write ["reid"], or "{EVERYTHING}"')
    return tuple(items)


# -------------------------------------------------------------------------------------------------------- reservations


def _reserved(tables: Sequence[TomlTable], board: Board) -> tuple[Reservation, ...]:
    found: list[Reservation] = []
    for table in tables:
        one = _reservation(table, board)
        for other in found:
            if one.name.lower() == other.name.lower():
                raise table.wrong("name", f"{one.name!r} is reserved twice", remedy="give each a name of its own")
            if one.start < other.end and other.start < one.end:
                key = "address" if table.has("address") else "memory"
                raise table.wrong(key, f"meets {other.name!r}", remedy="give one of them another place")
        found.append(one)
    return tuple(found)


def _reservation(table: TomlTable, board: Board) -> Reservation:
    table.finish(_RESERVE_KEYS)
    name, size = table.text("name"), table.size("size")
    if size == 0:
        raise table.wrong("size", "nothing is reserved", remedy='write size = "64K", or leave the table out')
    if table.has("address") == table.has("memory"):
        raise table.wrong("memory", "one of memory and address is wanted", remedy='memory = "hyperRAM" takes its end')
    if table.has("address"):
        start = table.size("address")
    else:
        memory = board.memory(table.text("memory", [one.name for one in board.memories]))
        assert memory is not None
        if size > memory.size_bytes:
            remedy = "reserve less, or in a larger memory"
            raise table.wrong("size", f"{size:,} bytes, {memory.name} has {memory.size_bytes:,}", remedy=remedy)
        start = memory.end - size
    found = board.memory_at(start)
    if found is None or not found.holds(start, start + size):
        remedy = f"`atonc board show {board.name}` lists them; a reservation lies in one memory"
        raise table.wrong("address", f"no memory of {board.title} holds it", remedy=remedy)
    return Reservation(plain(name), start, start + size)


# --------------------------------------------------------------------------------------------------------------- slots


def with_slots_of(application: Application, path: Path) -> Application:
    """`path`: app.json of an earlier build, whose slots stay; networks that it does not have get new ones."""

    def slot(row: Any) -> FlashSlot:
        found = FlashSlot(check_name(str(row["network"])), int(row["start"]), int(row["end"]))
        if not 0 <= found.start < found.end < 1 << 32:
            raise ValueError("slot")
        return found

    return replace(application, slots=read_map(path, lambda data: tuple(slot(row) for row in data["slots"])))


def slots_rows(slots: Sequence[FlashSlot]) -> Iterator[dict[str, Any]]:
    yield from ({"network": one.network, "start": one.start, "end": one.end} for one in slots)
