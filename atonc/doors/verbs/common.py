"""What several verbs share: the model, the options of the compiler, notes, progress."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.compiler.request.options import MODEL, Options
from atonc.compiler.request.options import positive as positive
from atonc.doors.verbs.compile_options import OPTIMISE, ModelOptions, PictureOptions
from atonc.doors.verbs.flags import LEVELS, add_declared, group
from atonc.doors.verbs.flags import add_output_options as add_output_options
from atonc.doors.verbs.st_options import COMMON, Foreign, add_foreign
from atonc.machine.base.declare import declared
from atonc.machine.base.disk import missing, write_file
from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.base.progress import stage

if TYPE_CHECKING:
    from atonc.delivery.generate.profiles import Profile
    from atonc.insight.explain.types import NetworkView

MODELS = (".tflite", ".onnx")
VERBOSITY, BARE_LEVEL = "--verbosity", "1"


def without_levels(arguments: Sequence[str]) -> list[str]:
    """ST's tool takes a number behind -v: 0 is the usual text, all others say more. Behind --verbosity its scripts may
    leave it out: then it is 1."""
    kept: list[str] = []
    for word in arguments:
        asked = bool(kept) and kept[-1] in ("-v", "--verbose", VERBOSITY)
        if asked and word.isdigit() and word not in LEVELS and not Path(word).exists():
            raise InputError(f"{kept[-1]} {word[:20]}", rule=f"levels are {', '.join(LEVELS)}")
        level = asked and kept[-1] != VERBOSITY and word in LEVELS
        if level and word == "0":
            kept.pop()
        if asked and kept[-1] == VERBOSITY and word not in LEVELS:
            kept.append(BARE_LEVEL)
        if not level:
            kept.append(word)
    return [*kept, BARE_LEVEL] if kept[-1:] == [VERBOSITY] else kept


def add_model_options(parser: argparse.ArgumentParser, *foreign: tuple[Foreign, ...], verify: bool = False) -> None:
    """What the compiler wants to know. `verify`: whether the user decides; other verbs compile on the way only."""
    group(parser, MODEL).add_argument(
        "positional", nargs="?", type=Path, metavar="MODEL", help="quantised .tflite or .onnx"
    )
    add_declared(parser, ModelOptions, rare=not verify)
    add_declared(parser, without=() if verify else ("verify",), rare=not verify)
    add_foreign(parser, COMMON, *foreign)
    parser.set_defaults(st=None)  # the command line tells when it was called by the name of ST's tool; a form never is


def add_picture_options(parser: argparse.ArgumentParser) -> None:
    add_declared(parser, PictureOptions)


def write_pictures(network: NetworkView, options: argparse.Namespace) -> None:
    from atonc.insight.report.exports import annotated, trace

    for path, make in ((options.trace, trace), (options.annotate, annotated)):
        if path is not None:
            write_file(path, make(network))


def model_path(options: argparse.Namespace) -> Path:
    found: Path | None = options.positional or options.model
    if found is None:
        taken = (("--st-neural-art", options.st_neural_art), ("-r", options.relocatable))
        hint = "".join(f"; {o} took {v}: write it behind the model" for o, v in taken if str(v).endswith(MODELS))
        raise InputError("no model given", remedy=f"name a .tflite or .onnx file{hint}")
    if options.positional and options.model and options.positional != options.model:
        raise InputError("two models given", remedy="name one, as an argument or with -m")
    if not found.exists():
        raise missing(found)
    if options.type:
        _check_type(found, options.type)
    return found


def _check_type(path: Path, wanted: str) -> None:
    from atonc.compiler.frontends.read import is_tflite

    if wanted == "keras":
        raise UnsupportedError("Keras models are not read", where="--type", remedy="export the model as TFLite")
    found = "tflite" if is_tflite(path, _start(path)) else "onnx"
    if path.is_file() and found != wanted:
        raise InputError(f"is {found}, not {wanted}", where=str(path), remedy=f"leave --type out, or say {found}")


def _start(path: Path) -> bytes:
    from atonc.machine.base.disk import read_start

    return read_start(path) if path.is_file() else b""


def _relocatable_words(given: str | None) -> frozenset[str]:
    if given is None:
        return frozenset()
    from atonc.delivery.trials.relocating import words

    return words(given)


def _asks_for_controller(profile: Profile, options: argparse.Namespace) -> bool:
    """A profile of a file may; those that ST's installation brings do not."""
    from_file = "@" in (options.st_neural_art or "") or (options.st_neural_art or "").endswith(".json")
    return options.enable_epoch_controller or (from_file and profile.epoch_controller)


def compiler_options(options: argparse.Namespace, verify: bool) -> Options:
    from atonc.delivery.generate.profiles import read_profile

    asked = _relocatable_words(options.relocatable)
    for where, node in options.on:
        if where not in ("cpu", "npu"):
            raise InputError(f"{where!r} is no place to run", where="--on", remedy=f"write --on cpu {node}")
    profile = read_profile(options.st_neural_art or "")
    if options.st and not _asks_for_controller(profile, options):
        options.epoch_controller = False  # ST's tool uses it where it is asked to, and scripts copy files accordingly
    _profile_notes(profile, options)
    options.no_cpu = getattr(options, "no_cpu", False) or profile.no_cpu
    given = {member.name: getattr(options, member.name) for member, _ in declared(Options) if member.name != "verify"}
    if options.optimization and options.prefer == "speed":
        given["prefer"] = OPTIMISE[options.optimization]
    return Options(
        **given
        | {
            "board": profile.board(options.board),
            "epoch_controller": options.epoch_controller and (profile.epoch_controller or _wants_controller(options)),
            "encrypt_weights": options.encrypt_weights or profile.encrypt_weights,
            "encrypt_acc_confs": options.encrypt_acc_confs and profile.encrypt_acc_confs,
            "mpool": str(options.mpool or profile.memory_pool or ""),
            "on_cpu": tuple(node for where, node in options.on if where == "cpu"),
            "on_npu": tuple(node for where, node in options.on if where == "npu"),
            "relocatable": options.relocatable is not None,
            "secure": "no-secure" not in asked,
            "verify": verify,
        }
    )


def _wants_controller(options: argparse.Namespace) -> bool:
    return getattr(options, "enable_epoch_controller", False)


def _profile_notes(profile: Profile, options: argparse.Namespace) -> None:
    """Each option once, by name."""
    if profile.ignored:
        note(f"unknown options in the profile are ignored: {', '.join(profile.ignored)}", options)
    if profile.missing:
        note(f"options of the profile that have no effect here: {', '.join(profile.missing)}", options)
    if not profile.epoch_controller and not _wants_controller(options):
        note("the profile has no --enable-epoch-controller: the processor starts every epoch, which is slower", options)
    if profile.unknown_keys:
        note(f"unknown keys in the profile are ignored: {', '.join(profile.unknown_keys)}", options)


def note(text: str, options: argparse.Namespace) -> None:
    if not options.quiet:
        print(f"atonc: {text}", file=sys.stderr)


@contextmanager
def progress(silent: bool, what: str = "epochs") -> Iterator[Callable[[int, int], None]]:
    """For a verb that counts something itself; `atonc.doors.cli.cli` decides whether anything is shown."""
    yield partial(stage, what) if not silent else lambda done, total: None
