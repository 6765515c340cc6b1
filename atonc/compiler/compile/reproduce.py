"""How to get the same result again: the command, the versions, the hashes, the clocks."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from atonc.compiler.frontends.limits import model_bytes
from atonc.compiler.request.options import EDGES, MODEL, Options
from atonc.machine.base.about import __version__
from atonc.machine.base.declare import declared, default_of
from atonc.machine.base.errors import plain
from atonc.machine.cost.network import NetworkCost
from atonc.machine.hw.board import split_choice

MODEL_HASH, BOARD_HASH, POOLS_HASH = "model sha256", "board sha256", "pools sha256"
EVIDENCE_HASH = "evidence sha256"


def command(model: str, options: Options, name: str = "network") -> str:
    """The command line that asks for the same; files are named without their folders."""
    return shlex.join(["atonc", "generate", model, *_flags(options, name)])


def parameters(model: str, options: Options, name: str, board: str) -> str:
    """The same with name and board also where they are the default, as reports in ST's layout say it."""
    flags = {"--board": ("--board", board)} | _words(options, folders=False)
    words = [word for one in flags.values() for word in one]
    return shlex.join(["generate", "--model", model, "--name", name, *words])


def again(verb: str, model: Path, options: Options, *more: str, name: str = "network") -> str:
    """Another verb on the same model with the same options, to be pasted: files are named as they were given."""
    flags = _flags(replace(options, relocatable=False), name, folders=True)
    return shlex.join(["atonc", verb, str(model), *flags, *more])


def changes(before: Options, after: Options) -> str:
    """The flags that make one of the other, or that have to be left out."""
    old, new = _words(before), _words(after)
    given = [word for flag, words in new.items() if old.get(flag) != words for word in words]
    return shlex.join(given) if given else f"without {', '.join(flag for flag in old if flag not in new)}"


def asking(words: Sequence[str], model: Path, before: Options, name: str, after: Options) -> str:
    """The command that was given, with other options of the compiler; without one, that of `generate`."""
    return (_edited(words, before, after) if words else "") or again("generate", model, after, name=name)


def _edited(words: Sequence[str], before: Options, after: Options) -> str:
    """Nothing where what has to go is not among the words, because a profile or another word asked for it."""
    old, new, left = _words(before), _words(after), list(words)
    spelled = {known.flags[0]: known.flags for _, known in declared(Options)}
    for flag in [flag for flag in old if new.get(flag) != old[flag]]:
        found = next((k for k, word in enumerate(left) if word.partition("=")[0] in spelled.get(flag, ())), None)
        if found is None:
            return ""
        behind = left[found + 1 : found + 2] if len(old[flag]) > 1 and "=" not in left[found] else []
        del left[found : found + 1 + (not behind[0].startswith("-") if behind else 0)]
    return shlex.join(["atonc", *left, *(word for flag in new if old.get(flag) != new[flag] for word in new[flag])])


def _flags(options: Options, name: str = "network", folders: bool = False) -> Iterator[str]:
    if name != "network":
        yield from ("-n", name)
    for words in _words(options, folders).values():
        yield from words


def _words(options: Options, folders: bool = True) -> dict[str, tuple[str, ...]]:
    """Options that are not at their default, each as the words of a command line."""
    found: dict[str, tuple[str, ...]] = {}
    for flag, text in _declared(options, folders).items():
        found[flag] = (flag, text) if text else (flag,)
    if options.relocatable:
        found["-r"] = ("-r", *(() if options.secure else ("no-secure",)))
    for place, nodes in (("cpu", options.on_cpu), ("npu", options.on_npu)):
        if nodes:
            found[f"--on {place}"] = tuple(word for node in nodes for word in ("--on", place, node))
    return found


def _declared(options: Options, folders: bool = False) -> dict[str, str]:
    """Options that are not at their default: flag -> value as text, empty for switches."""
    found = {}
    for member, known in declared(Options):
        value, default = getattr(options, member.name), default_of(member)
        if value != default and member.name not in ("verify", "seed", "cache"):  # they change no file
            found[known.flags[0]] = "" if isinstance(value, bool) else _text(member.name, value, known.local, folders)
    return found


def asked(options: Options) -> dict[str, str]:
    """Everything that was asked of the compiler, to be compared with what was asked of another build."""
    found = _declared(options)
    if options.relocatable:
        found["-r"] = "" if options.secure else "no-secure"
    on = {"--on cpu": options.on_cpu, "--on npu": options.on_npu}
    return found | {flag: ", ".join(nodes) for flag, nodes in on.items() if nodes}


def edges_of(asked: Mapping[str, str]) -> Options:
    """What a build was asked for as far as it decides where the model begins and ends, and in which formats."""
    return options_of(asked, (MODEL, EDGES))


def options_of(asked: Mapping[str, str], groups: Collection[str] = ()) -> Options:
    """The options of a build, as it saved them; of these groups, if some are named. Never `--custom`: C that a folder
    names runs only where the user names it, too."""
    given: dict[str, Any] = {}
    for member, known in declared(Options):
        text = asked.get(known.flags[0])
        if text is not None and member.name != "custom" and (not groups or known.group in groups):
            default = default_of(member)
            given[member.name] = not default if isinstance(default, bool) else (known.parse or str)(text)
    places = {} if groups else {"on_cpu": asked.get("--on cpu"), "on_npu": asked.get("--on npu")}
    given |= {name: tuple(nodes.split(", ")) for name, nodes in places.items() if nodes}
    if "-r" in asked and not groups:
        given |= {"relocatable": True, "secure": asked["-r"] != "no-secure"}
    return Options(**given)


def _text(name: str, value: object, is_file: bool, folders: bool) -> str:
    """As the command line takes it; files are named with or without their folders."""
    if isinstance(value, dict):
        return ",".join(f"{key}={size}" for key, size in value.items())
    if isinstance(value, tuple):
        return ",".join(Path(one).name if is_file and not folders else one for one in value)
    if name == "board":
        return str(value) if folders else _without_folder(str(value))
    if is_file:
        return str(value) if folders else Path(str(value)).name
    return f"{value:g}" if isinstance(value, float) else str(value)


def _board_file(board: str) -> Path | None:
    """The file of a board that the user brings."""
    name = split_choice(board)[1]
    return Path(name) if name.endswith(".toml") else None


def _without_folder(board: str) -> str:
    own = _board_file(board)
    return board if own is None else board.removesuffix(split_choice(board)[1]) + own.name


def block(model: Path, options: Options, name: str, cost: NetworkCost) -> dict[str, str]:
    found = {
        "command": command(plain(model.name), options, name),
        "atonc": __version__,
        MODEL_HASH: hashlib.sha256(model_bytes(model)).hexdigest(),
        "clocks": f"NPU {cost.npu_mhz:g} MHz, CPU {cost.cpu_mhz:g} MHz",
        "latency": "predicted by the hardware model; not measured on a board",
    }
    if own := _board_file(options.board):
        found[BOARD_HASH] = hashlib.sha256(own.read_bytes()).hexdigest()
    if options.mpool:
        found[POOLS_HASH] = hashlib.sha256(Path(options.mpool).read_bytes()).hexdigest()
    if options.evidence:
        found[EVIDENCE_HASH] = hashlib.sha256(Path(options.evidence).read_bytes()).hexdigest()
    return found
