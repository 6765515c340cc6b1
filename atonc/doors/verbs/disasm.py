"""`atonc disasm` and `atonc asm`: epoch-controller programs to text and back."""

from __future__ import annotations

import argparse
from pathlib import Path

from atonc.doors.verbs.documents import print_document
from atonc.machine.base.disk import write_file
from atonc.machine.base.errors import InputError
from atonc.machine.base.words import count


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add_disasm(verbs)
    _add_asm(verbs)


def _add_disasm(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    disasm = verbs.add_parser("disasm", help="epoch-controller programs to text")
    disasm.set_defaults(verb=_disasm)
    disasm.add_argument("file", type=Path, metavar="FILE", help="*_ecblobs.h, a raw blob, a container or a listing")
    disasm.add_argument("--blob", metavar="NAME", help="only this program of the file")
    disasm.add_argument("--epochs", action="store_true", help="decoded units, links and buffers per epoch")
    disasm.add_argument("--check", action="store_true", help="the safety rules; exit 1 on a violation")
    disasm.add_argument("--json", action="store_true", help="decoded epochs as data")


def _disasm(options: argparse.Namespace) -> int:
    from atonc.insight.report import run_text
    from atonc.insight.runs import programs, safety

    found = programs.read_programs(options.file)
    chosen = [p for p in found if options.blob in (None, p.name)]
    if not chosen:
        names = ", ".join(p.name for p in found)
        raise InputError(f"no program is called {options.blob}", where=str(options.file), remedy=f"choose from {names}")
    violations = safety.check_programs(chosen) if options.check else []
    if options.json:
        document = [{"name": p.name, "epochs": [run_text.epoch_data(e) for e in p.epochs()]} for p in chosen]
        checked = {"violations": [run_text.violation_data(v) for v in violations]} if options.check else {}
        print_document("disasm", {"file": options.file.name, "programs": document} | checked)
    elif options.epochs:
        for program in chosen:
            print(f"program {program.name}")
            for epoch in program.epochs():
                print("\n".join(run_text.epoch_lines(epoch)))
    elif not options.check:
        for program in chosen:
            header = f";; {program.name}\n" if len(chosen) > 1 else ""
            print(header + program.text(), end="")
    if options.check and not options.json:
        run_text.print_violations(violations, sum(len(p.epochs()) for p in chosen))
    return 1 if any(v.severity == "violation" for v in violations) else 0


def _add_asm(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    asm = verbs.add_parser("asm", help="assembly text to epoch-controller programs")
    asm.set_defaults(verb=_asm)
    asm.add_argument("file", type=Path, metavar="FILE", help="assembly text")
    asm.add_argument("-o", "--output", type=Path, metavar="FILE", help=".bin (default) or .h")
    asm.add_argument("-n", "--name", default="_ec_blob_1", help="array name in a header")


def _asm(options: argparse.Namespace) -> int:
    from atonc.insight.runs import programs

    container = programs.assemble_file(options.file)
    target = options.output or options.file.with_suffix(".bin")
    if not options.name.isidentifier():
        raise InputError(f"{options.name!r} is not a C identifier", remedy="name the array with letters and digits")
    as_header = target.suffix == ".h"
    text = programs.to_header(container, options.name).encode()
    write_file(target, text if as_header else programs.to_binary(container))
    print(f"{target}: {count(len(container.blob.program), 'word')}")
    return 0
