"""Profile files of ST's compiler (`neural_art.json`): a memory pool and a string of compiler options per profile.

The profiles that its installation brings are here by name; their memories are those of the user's board.
"""

from __future__ import annotations

import os
from pathlib import Path

from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.board import DEFAULT_SET, split_choice
from atonc.machine.hw.machine import JsonNode, read_json

DEFAULT = "default"
_KEYS = ("memory_pool", "options", "machine_desc", "memory_desc")
# built-in profiles: which of the board's pool sets each takes, and its options that mean something here
_BUILT_IN = {
    "profile-default": ("default", ""),
    "profile-minimal": ("default", ""),
    "profile-allmems--O3": ("allmems", ""),
    "profile_O3": ("allmems", ""),
    "profile_auto": ("allmems", ""),
    "profile_O3_force8bits": ("allmems", "--force-8bits-scale-offset"),
    "profile_O3_intRam35MB": ("intram35mb", ""),
    "n6-allmems-O1": ("allmems", ""),
    "n6-allmems-O2": ("allmems", ""),
    "n6-allmems-O3": ("allmems", ""),
    "n6-allmems-Oauto": ("allmems", ""),
    "n6-noextmem": ("noextmem", ""),
    "n6-extram": ("extram", ""),
    "n6-extflash": ("extflash", ""),
    "n6-nointmem": ("nointmem", ""),
}
_CONTROLLER = "--enable-epoch-controller"
_ENCRYPT, _PLAIN_CONSTANTS = "--encrypt-weights", "--no-encrypt-acc-confs"
_POOL = ("--load-mpool", "--load-mpool-file")
# What these ask for holds here in any case, or concerns only how the other compiler searches and what it prints.
_SETTLED_NAMES = """
--all-buffers-info --cache-maintenance --continue-on-errors --convert --csv-file --disable-decomp-bus
--dont-remove-deadlocks --emit-validation-info --enable-epoch-controller --enable-virtual-mem-pools
--enable-virtual-mem-pools-only --experimental-hw-lowering --force-cache-use --generate-stai --GELU-recognition
--help --help-full --initializers-infofile --load-cdesc --load-mdesc --load-mdesc-file --mapping-recap
--mapping-recap-file --mvei --native-float --no-hw-sw-parallelism --num-ops-info --onnx-extra-opts --onnx-omit-opt
--onnx-optimizations --onnx-optimizations-file --optimization --optimization-rounds --output-info-file --save-all
--save-json-quant-file --save-mdesc-file --save-mpool-file --sched-stats --skip-version-generation --sw-fallback
--SWISH-recognition --verbose --version --vq-max-iter -M -O -v -x
--Oalt-sched --Oauto --Oauto-O --Oauto-pipe --Oauto-sched --Oauto-th --Oauto-x --Ocache-opt --Oclone-dma
--Oconv-split-cw --Oconv-split-kw --Oconv-split-stripe --Oconv-split-stripe-full --Oconv-split-th
--Omax-ca-pipe --Ono-clone-dma --Os --Oshuffle-dma --Ox
"""
_SETTLED = frozenset(_SETTLED_NAMES.split())
_PRINTING = ("--d-", "--dot", "--gnuplot-")
# The other compiler knows them and they change what comes out, but we have nothing like it.
_MISSING_NAMES = """
--convert-scaleoffset-to-qmn --def-sym --disable-orlando-opt --ec-single-epoch --expand-softmax
--f-bits --fake-Qmn --force-8bits-scale-offset --force-all-in-out-to-mem --json-quant-file --max-ram-size
--no-emit-pools-init --onnx-out-format --Opreserve-inputs --quant-file --simulate-qmn-format --w-bits -D
"""
_MISSING = frozenset(_MISSING_NAMES.split())


@dataclass(frozen=True)
class Profile:
    name: str
    memory_pool: Path | None
    ignored: tuple[str, ...] = ()  # options that nobody knows, by name, each once
    missing: tuple[str, ...] = ()  # options of the other compiler that change its output and have no effect here
    no_cpu: bool = False  # --disable-sw-fallback: an operator on the CPU is an error
    unknown_keys: tuple[str, ...] = ()
    pool_set: str = ""  # of the board, for profiles that ST's installation brings
    epoch_controller: bool = True  # False: a file that does not ask for it; ST's scripts then copy no file of programs
    encrypt_weights: bool = False
    encrypt_acc_confs: bool = True

    def board(self, chosen: str) -> str:
        """The board that the user named, with the profile's pool set unless the user named one too."""
        named, board = split_choice(chosen)
        own = self.pool_set not in ("", DEFAULT_SET) and named == DEFAULT_SET
        return f"{self.pool_set}@{board}" if own else chosen


def read_profile(text: str) -> Profile:
    """`FILE.json`, `PROFILE@FILE.json`, or a built-in name; paths inside count from the folder of the file."""
    name, at, rest = text.partition("@")
    if not at and text in ("", DEFAULT):
        return Profile(DEFAULT, None)
    if not at and text in _BUILT_IN and not os.path.isfile(text):
        pool_set, options = _BUILT_IN[text]
        return Profile(text, None, missing=tuple(options.split()), pool_set=pool_set)
    path = Path(rest if at else text)
    name = name if at else DEFAULT
    if not os.path.isfile(path):
        near = "" if at else did_you_mean(text, _BUILT_IN)
        raise InputError(
            "there is no such profile file",
            where=str(path),
            remedy=near or f"write --st-neural-art PROFILE@FILE.json, or one of {', '.join((DEFAULT, *_BUILT_IN))}",
        )
    profiles = JsonNode(read_json(path), str(path)).child("Profiles")
    if name not in profiles.data:
        known = ", ".join(map(str, list(profiles.data)[:20]))
        raise InputError(f"no profile {name[:60]!r}", where=str(path), remedy=f"choose from {known}")
    return _profile(name, profiles.child(name), path)


def _profile(name: str, profile: JsonNode, path: Path) -> Profile:
    words = profile.string("options").split()
    named = list(dict.fromkeys(_option(word) for word in words if word.startswith("-") and not word[1:2].isdigit()))
    pool = profile.string("memory_pool") or _value_of(_POOL, words)
    return Profile(
        name,
        _find(pool, path.parent) if pool else None,
        tuple(word for word in named if not _known(word)),
        tuple(word for word in named if word in _MISSING),
        "--disable-sw-fallback" in named,
        tuple(str(key)[:60] for key in profile.data if key not in _KEYS),
        epoch_controller=_CONTROLLER in named,
        encrypt_weights=_ENCRYPT in named,
        encrypt_acc_confs=_PLAIN_CONSTANTS not in named,
    )


def _find(pool: str, folder: Path) -> Path:
    """Relative to the file, or else to where the user is, as the other tool takes it."""
    given = Path(pool.replace("\\", "/"))
    return given if not os.path.isfile(folder / given) and os.path.isfile(given) else folder / given


def _option(word: str) -> str:
    """`--Oauto-th=0.5` and `-O3` by name."""
    name = word.partition("=")[0]
    return name if name.startswith("--") else name[:2]


def _known(word: str) -> bool:
    settled = word in _SETTLED or word.startswith(_PRINTING)
    heeded = ("--disable-sw-fallback", _ENCRYPT, _PLAIN_CONSTANTS, *_POOL)
    return settled or word in _MISSING or word in heeded


def _value_of(options: tuple[str, ...], words: list[str]) -> str:
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in options:
            return value if equals else next(iter(words[at + 1 : at + 2]), "")
    return ""
