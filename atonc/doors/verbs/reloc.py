"""`atonc reloc`: a compiled network as an image that an application loads at run time. Options as in npu_driver.py."""

from __future__ import annotations

import argparse
from pathlib import Path

from atonc.delivery.reloc.options import RelocOptions
from atonc.doors.verbs.common import add_output_options, note
from atonc.doors.verbs.documents import print_document
from atonc.doors.verbs.flags import add_declared, declared_values
from atonc.insight.report.document import Mark, SummaryRow, next_row, summary_lines
from atonc.insight.report.terminal import show
from atonc.machine.base.disk import write_file
from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.base.words import shell

_CLANG = ("llvm", "st_clang", "compatible_mode", "custom")
LOG_FILE = "atonc_reloc.log"


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    reloc = verbs.add_parser(
        "reloc",
        help="a compiled network as a relocatable image",
        description="Makes a relocatable image of the network in a folder that `atonc generate -r` or ST's tool wrote: "
        "NAME_rel.bin, with --split also NAME_rel_params.bin. With --inspect it shows what is in an image.",
    )
    reloc.set_defaults(verb=_reloc)
    reloc.add_argument("positional", nargs="?", type=Path, metavar="DIR", help="folder of generated files")
    reloc.add_argument("-i", "--input", type=Path, metavar="DIR", help="the same as an option (or its network.c)")
    reloc.add_argument("-o", "--output", type=Path, default=Path("build"), metavar="DIR", help="default build")
    reloc.add_argument("--inspect", type=Path, metavar="FILE", help="header, sections, relocations, pools, checks")
    reloc.add_argument("--at", type=lambda text: int(text, 0), metavar="OFFSET", help="with --inspect: where it begins")
    add_declared(reloc, RelocOptions)
    reloc.add_argument("--gen-c-file", action="store_true", help="also NAME_rel.c and .h: the image as an array")
    reloc.add_argument("--parse-only", action="store_true", help="read and check the generated files, build nothing")
    reloc.add_argument("--no-clean", action="store_true", help="keep the intermediate files in the output folder")
    reloc.add_argument("--pack-dir", type=Path, metavar="DIR", help="ST Edge AI Core, to read that release from")
    reloc.add_argument("--cross-compile", default="", metavar="PREFIX", help="of the compiler, as arm-none-eabi-")
    reloc.add_argument("--log", nargs="?", const=LOG_FILE, metavar="FILE", help=f"also write the text ({LOG_FILE})")
    reloc.add_argument("--verbosity", type=int, choices=range(3), default=1, help="0: only errors, 2: more")
    reloc.add_argument("--debug", action="store_true", help="the same as --verbosity 2 --no-clean")
    reloc.add_argument("--no-color", action="store_true", help=argparse.SUPPRESS)  # nothing here is coloured
    for name in ("--llvm", "--st-clang", "--compatible-mode"):
        reloc.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    reloc.add_argument("--custom", nargs="?", const="custom.json", help=argparse.SUPPRESS)
    add_output_options(reloc)


def _reloc(options: argparse.Namespace) -> int:
    options.quiet = options.quiet or options.verbosity == 0
    options.verbose = options.verbose or options.debug or options.verbosity == 2
    clang = [f"--{name.replace('_', '-')}" for name in _CLANG if getattr(options, name)]
    if clang:
        raise UnsupportedError(f"{', '.join(clang)}: images are built with GCC only", remedy="leave it out")
    if options.inspect is not None:
        return _inspect(options)
    if options.parse_only:
        return _parse_only(options)
    from atonc.delivery.generate import preflight

    preflight.check_folder(options.output)
    return _build(options)


def _folder(options: argparse.Namespace) -> Path:
    found = options.positional or options.input or Path("st_ai_output")
    if options.positional and options.input and options.positional != options.input:
        raise InputError("two folders given", remedy="name one, as an argument or with -i")
    return Path(found)


def _wanted(options: argparse.Namespace) -> RelocOptions:
    from atonc.delivery.trials import relocating

    return relocating.with_pack(declared_values(RelocOptions, options), options.pack_dir)


def _build(options: argparse.Namespace) -> int:
    from atonc.delivery.reloc.checks import checks
    from atonc.delivery.texts import reloc_text
    from atonc.delivery.trials import relocating

    keep = options.output if options.no_clean or options.debug else None
    done = relocating.relocate(
        *(_folder(options), options.output, _wanted(options)),
        gen_c_file=options.gen_c_file,
        keep_in=keep,
        prefix=options.cross_compile,
    )
    image = done.built.image
    found = checks(image, done.built.params or None)
    if options.json:
        print_document("reloc", reloc_text.as_json(image, found) | {"files": list(map(str, done.files))})
        return 0
    detail = [*reloc_text.header_lines(image), ""] if options.verbose else []
    lines = [*detail, *reloc_text.size_lines(image), "", *reloc_text.pool_lines(image), "", "Generating files..."]
    lines += [f' creating "{path}" (size={path.stat().st_size:,})' for path in done.files]
    _say([*lines, *reloc_text.summary(image, found, done.files)], options)
    return 0


def _parse_only(options: argparse.Namespace) -> int:
    from atonc.delivery.reloc.build import prepare
    from atonc.delivery.reloc.format import PoolEntry

    ready = prepare(_folder(options), _wanted(options))

    def line(entry: PoolEntry) -> str:
        place = f"dst={entry.destination:08x}" if entry.destination else "found at run time"
        return f"  {entry.name:16} {entry.label():26} size={entry.size_bytes:,} {place}"

    runtime = f"LL_ATON {ready.abi.number}-{ready.dev} (Core {ready.abi.core})"
    found = (
        SummaryRow("runtime", runtime),
        SummaryRow("pools", f"{len(ready.pools.entries)}; the files can be made into an image", Mark.GOOD),
        next_row(shell("reloc", _folder(options))),
    )
    _say([f"{ready.network.c_file}: {runtime}", *map(line, ready.pools.entries), *summary_lines(found)], options)
    return 0


def _inspect(options: argparse.Namespace) -> int:
    from atonc.delivery.reloc.checks import checks
    from atonc.delivery.texts import reloc_text
    from atonc.delivery.trials import relocating

    image, start = relocating.read_image_file(options.inspect, options.at)
    found = checks(image, relocating.params_beside(options.inspect, image))
    if options.json:
        print_document("reloc-inspect", reloc_text.as_json(image, found) | {"offset": start})
    else:
        if start and options.at is None:
            note(f"the image begins at {start:#x} of the file", options)
        _say(reloc_text.inspect_lines(image, found, options.verbose), options)
    return 1 if any(check.good is False for check in found) else 0


def _say(lines: list[str], options: argparse.Namespace) -> None:
    if not options.quiet:
        show(lines)
    if options.log:
        write_file(Path(options.log), ("\n".join(lines) + "\n").encode())
