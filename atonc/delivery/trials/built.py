"""What was built before: the folders where `validate` looks for the network that a board holds, or that a model became.

The hash on the board decides, or where there is none what the build was asked for; never a folder's name alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from atonc.compiler.compile.reproduce import MODEL_HASH
from atonc.compiler.frontends.limits import model_bytes
from atonc.delivery.firmware import image as firmware
from atonc.delivery.wire.messages import ModelInfo
from atonc.insight.explain.saved import BuildRequest, read_asked
from atonc.insight.validating.validate_options import FOLDER
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.files.network_c import find_networks

_DESCRIBED = "_c_info.json"


@dataclass(frozen=True)
class BuiltNetwork:
    """A network in a folder; what it was made from where the folder tells (ours do)."""

    c_file: Path
    signature: str
    asked: BuildRequest | None

    def __str__(self) -> str:
        return f"{self.c_file} (hash {self.signature})"

    def is_of(self, model: Path) -> bool | None:
        """None: nobody knows."""
        told = self.asked.reproduce.get(MODEL_HASH) if self.asked else None
        return None if told is None else told == hashlib.sha256(model_bytes(model)).hexdigest()

    def suits(self, given: Mapping[str, str]) -> bool:
        """Whether all that is asked for now was asked for then; who validates need not repeat everything."""
        return self.asked is not None and all(self.asked.options.get(flag) == text for flag, text in given.items())


@dataclass(frozen=True)
class Looked:
    """What was found where; `named`: the user said which folder, and nothing else will do."""

    found: tuple[BuiltNetwork, ...]
    unreadable: tuple[str, ...]  # folders with the reason
    empty: tuple[str, ...]  # folders without a network
    named: bool

    @property
    def lines(self) -> tuple[str, ...]:
        none = [f"no compiled network in {', '.join(self.empty)}"] if self.empty else []
        return *map(str, self.found), *self.unreadable, *none


def look(model: Path, val_json: Path | None, output: Path | None) -> Looked:
    """`--val-json` says where; else the folder of -o, those that `generate` writes by default here and beside the
    model, the model's own, and this one."""
    if val_json is not None:
        return _named(val_json)
    found, unreadable, empty = list[BuiltNetwork](), list[str](), list[str]()
    beside = model.absolute().parent
    for folder in _once([*([output] if output else []), FOLDER, beside / FOLDER, beside, Path()]):
        try:
            networks = list(_networks(folder)) if folder.is_dir() else []
        except AtoncError as error:
            unreadable.append(f"{folder}: {error}")
            continue
        found += networks
        empty += [] if networks else [str(folder)]
    return Looked(tuple(found), tuple(unreadable), tuple(empty), named=False)


def _named(val_json: Path) -> Looked:
    if not val_json.exists():
        raise InputError(
            "there is no such file",
            where=f"--val-json {val_json}",
            remedy="name NAME_c_info.json of the folder that `generate` wrote",
        )
    folder = val_json if val_json.is_dir() else val_json.parent
    stem = val_json.name.removesuffix(_DESCRIBED)
    networks = list(_networks(folder, stem if (folder / f"{stem}.c").is_file() else None))
    if not networks:
        raise InputError(
            "no compiled network lies beside it",
            where=f"--val-json {val_json}",
            remedy="name NAME_c_info.json of the folder that `generate` wrote",
        )
    return Looked(tuple(networks), (), (), named=True)


def _networks(folder: Path, stem: str | None = None) -> Iterator[BuiltNetwork]:
    for c_file in find_networks(folder):
        if stem in (None, c_file.stem):
            network = firmware.network_in(folder, c_file.stem)
            yield BuiltNetwork(c_file, firmware.signature(network), read_asked(folder, c_file.stem))


def _once(folders: Sequence[Path]) -> list[Path]:
    return list({folder.resolve(): folder for folder in reversed(folders)}.values())[::-1]


# ------------------------------------------------------------------------------------------------------------- choosing


def on_board(looked: Looked, models: Sequence[ModelInfo], model: Path) -> BuiltNetwork | None:
    """The one whose hash the board tells. A board that tells none leaves it to `of_model`."""
    told = {one.signature for one in models if one.signature}
    same = next((built for built in looked.found if built.signature in told), None)
    if same is not None and same.is_of(model) is False:
        raise InputError(
            f"the board holds what was built as {same}, from another model ({_title(same)})",
            where=str(model),
            rule="outputs are compared with the model that they came from",
            remedy="name that model, or flash what was built from this one",
        )
    return same


def of_model(looked: Looked, model: Path, given: Mapping[str, str]) -> BuiltNetwork | None:
    """The first that was made from this model and that has all that is asked for; any that the user named."""
    for built in looked.found:
        if looked.named and built.is_of(model) is not False:
            return built
        if built.is_of(model) and built.suits(given):
            return built
    if looked.named:
        raise InputError(
            f"what was built as {looked.found[0]} comes from another model ({_title(looked.found[0])})",
            where=str(model),
            remedy="name the model that it was built from",
        )
    return None


def _title(built: BuiltNetwork) -> str:
    return built.asked.model if built.asked else "unknown"
