"""`atonc ops` (also `supported-ops`): where operators run and which rules decide."""

from __future__ import annotations

import argparse
import difflib
import json

from atonc.errors import InputError
from atonc.verbs.common import add_output_options


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("ops", aliases=["supported-ops"], help="the operator table, from the compiler's rules")
    parser.set_defaults(verb=_ops)
    parser.add_argument("op", nargs="?", metavar="OP", help="one operator with all its rules; conv, CONV_2D or Gemm")
    add_output_options(parser)


def _ops(options: argparse.Namespace) -> int:
    from atonc.insight.operators import composed, kind_named, operator_table
    from atonc.report import ops_text

    table = operator_table()
    if options.op:
        found = [info for info in table if info.kind == kind_named(options.op)]
        if not found and (several := composed(options.op)):
            found = [several]
        if not found:
            near = difflib.get_close_matches(options.op.lower(), [info.kind for info in table], 4)
            remedy = f"did you mean {', '.join(near)}?" if near else "`atonc ops` lists all"
            raise InputError(f"no operator is called {options.op[:60]!r}, or it is not supported", remedy=remedy)
        table = tuple(found)
    if options.json:
        print(json.dumps(ops_text.as_json(table), indent=1))
    elif not options.quiet:
        print("\n".join(ops_text.lines(table, options.verbose or bool(options.op))))
    return 0
