"""States: what a network keeps from one inference to the next.

In the model a state is an input and an output; the user or a variable of the model says so. In the canonical graph both
have one format and one order of axes, so the program can leave the output where the next run reads the input.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from atonc.compiler.ir import Array, CarriedState, Graph, Op, Tensor, check
from atonc.compiler.ops.values import to_codes
from atonc.compiler.passes.edit import renamed
from atonc.compiler.passes.layout import permuted
from atonc.machine.base.errors import InputError, ModelError
from atonc.machine.base.words import count, instead
from atonc.machine.hw.limits import ALIGNED, CPU_CACHE_LINE

AUTO, NONE = "auto", "none"
_RULE = "a state is an output that the next inference gets as an input: --state OUT=IN"


# ------------------------------------------------------------------------------------------------- who says so


def declare_states(graph: Graph, wanted: Sequence[str]) -> Graph:
    """The graph with the states that its own variables and the user name. `wanted`: pairs OUT=IN, `auto` or `none`."""
    graph = _without_cut_states(graph)
    if NONE in wanted:
        if len(wanted) > 1:
            raise InputError("--state none goes with nothing else", rule=_RULE, remedy="leave out one of them")
        states = tuple(replace(one, kept=False) for one in graph.states)
        return replace(graph, states=states, notes=(*graph.notes, *map(_to_carry, states)))
    pairs = [pair for text in wanted for pair in (_matching(graph) if text == AUTO else [_pair(graph, text)])]
    if AUTO in wanted and not pairs and not graph.states:
        what = f"no input and output of the model have names that match ({_edges(graph)})"
        raise InputError(what, where="--state auto", rule=_RULE, remedy=_by_shape(graph))
    for state in graph.states:
        require_same_scale(graph.tensors[state.input], graph.tensors[state.output], state.input)
    found = [*graph.states, *(_declared(graph, *pair) for pair in pairs)]
    for name in ("input", "output"):
        _require_once(name, [getattr(one, name) for one in found])
    graph = replace(graph, states=tuple(found), notes=(*graph.notes, *_notes(graph, found)))
    if found and not graph.frame_outputs:
        raise InputError("every output is a state: nothing is left for the application", rule=_RULE,
                         remedy="leave out the pair whose output the application reads")  # fmt: skip
    return graph


def _to_carry(state: CarriedState) -> str:
    values = np.unique(state.first)
    start = f"all {values[0]}" if values.size == 1 else "the values in the model"
    return (
        f"a variable of the model is input {state.input!r} and output {state.output!r}: before each run copy the "
        f"output of the run before to the input; the first run begins with {start}"
    )


def _notes(graph: Graph, states: Sequence[CarriedState]) -> list[str]:
    if not states:
        return list(filter(None, [_suggestion(graph)]))
    what = count(len(states), "state")  # their bytes stand where RAM is counted: real values may be kept as codes
    return [f"the program keeps {what} in RAM from one inference to the next; NAME_reset() sets their initial values"]


def _without_cut_states(graph: Graph) -> Graph:
    """What the user cut off is carried by nobody."""
    left = (one for one in graph.states if one.input in graph.inputs and one.output in graph.outputs)
    return replace(graph, states=tuple(left))


def _edges(graph: Graph) -> str:
    return f"inputs {', '.join(graph.inputs)}; outputs {', '.join(graph.outputs)}"[:300]


def _pair(graph: Graph, text: str) -> tuple[str, str]:
    """A name may hold a `=` itself: the pair is cut where both ends are known."""
    cuts = [match.start() for match in re.finditer("=", text)]
    if not cuts:
        raise InputError(f"{text[:100]!r} is no pair", where="--state", rule=_RULE, remedy="write OUTPUT=INPUT")
    for cut in cuts:
        output, given = _named(graph, text[:cut], graph.outputs), _named(graph, text[cut + 1 :], graph.inputs)
        if output and given:
            return output, given
    left, right = text.split("=", 1)
    if _named(graph, left, graph.inputs) and _named(graph, right, graph.outputs):
        raise InputError(f"{left!r} is an input and {right!r} an output", where="--state", rule=_RULE,
                         remedy=f"write --state {right}={left}")  # fmt: skip
    for end, name, known in (("output", left, graph.outputs), ("input", right, graph.inputs)):
        if not _named(graph, name, known):
            raise InputError(f"the model has no {end} {name[:100]!r}", where="--state", rule=_RULE,
                             remedy=instead(name, list(known)))  # fmt: skip
    raise AssertionError("both ends are known")


def _named(graph: Graph, name: str, known: Sequence[str]) -> str:
    """The edge of this name or number, "" if there is none."""
    name = name.strip()
    if name in known:
        return name
    if graph.aliases.get(name, name) in known:
        return graph.aliases[name]
    if f"{name}:real" in known:  # the model has this name for real values, the graph for their codes
        return f"{name}:real"
    return known[int(name)] if name.isdigit() and int(name) < len(known) else ""


_MARKS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+|(?<=[a-z])(?=[0-9])|(?<=[0-9])(?=[a-z])")
_IN = ("in", "input", "old", "prev", "previous", "before", "past")
_OUT = ("out", "output", "new", "next", "n", "after", "present")


def _stem(name: str, marks: Sequence[str]) -> tuple[str, ...]:
    """The words of a name without those that say at which end it is."""
    words = [word.lower() for word in _MARKS.split(name) if word]
    return tuple(word for word in words if word not in marks)


def _matching(graph: Graph) -> list[tuple[str, str]]:
    """Inputs and outputs whose names differ in a word such as in/out, old/new, or a last n, and whose values fit."""
    taken = {one.input for one in graph.states}
    found = []
    for given in (name for name in graph.inputs if name not in taken):
        stem, words = _stem(given, _IN), _stem(given, ())
        marked = stem != words
        fits = [name for name in graph.outputs if _alike(graph.tensors[given], graph.tensors[name])]
        ends = [name for name in fits if stem and _stem(name, _OUT) == stem and (marked or _stem(name, ()) != stem)]
        if len(ends) > 1:
            what = f"input {given!r} matches several outputs: {', '.join(ends[:5])}"
            raise InputError(what, where="--state auto", rule=_RULE, remedy="name the pairs: --state OUT=IN")
        found += [(ends[0], given)] if ends else []
    return found


def _by_shape(graph: Graph) -> str:
    """What to write where names say nothing: as many inputs as outputs of one format may belong together, in order."""
    pairs = list[str]()
    for given in graph.inputs:
        ends, inputs = ([name for name in edges if _alike(graph.tensors[given], graph.tensors[name])]
                        for edges in (graph.outputs, graph.inputs))  # fmt: skip
        pairs += [f"{ends[inputs.index(given)]}={given}"] if len(ends) == len(inputs) else []
    if not 0 < len(pairs) < len(graph.outputs):  # something is left for the application
        return "name the pairs: --state OUT=IN"
    return f"name the pairs; by shape and order these may be: --state {','.join(pairs)}"


def _suggestion(graph: Graph) -> str:
    """For who has not declared what looks like a state; "" if nothing does."""
    try:
        pairs = _matching(graph)
    except InputError:
        return ""
    if not pairs:
        return ""
    shown = ", ".join(f"{output}={given}" for output, given in pairs[:3]) + (", ..." if len(pairs) > 3 else "")
    return f"by their names these outputs are inputs of the next inference: {shown}; --state auto keeps them in RAM"


def _alike(one: Tensor, other: Tensor) -> bool:
    return (one.shape, one.dtype) == (other.shape, other.dtype)


def _declared(graph: Graph, output: str, given: str) -> CarriedState:
    read, written = graph.tensors[given], graph.tensors[output]
    where = f"--state {output}={given}"
    for what, here, there in (("shape", written.shape, read.shape), ("type", written.dtype, read.dtype)):
        if here != there:
            raise InputError(f"the output has {what} {here}, the input {there}", where=where, rule=_RULE,
                             remedy="name the input that belongs to this output")  # fmt: skip
    require_same_scale(read, written, where)
    return CarriedState(given, output, np.full(read.shape, read.zero_point, read.dtype))


def require_same_scale(read: Tensor, written: Tensor, where: str) -> None:
    """Codes of two scales mean different values: carried as they are, they would be wrong by the ratio of both."""
    if read.quant is None or written.quant is None or read.quant.same_as(written.quant):
        return
    ends = [f"scale {one.scale:.6g}, zero point {one.zero_point}" for one in (written, read)]
    raise ModelError(
        f"the state's output has {ends[0]}, its input {ends[1]}",
        where=where,
        rule="codes of a state mean the same value at both ends",
        remedy="quantise both ends with one scale (atonc quantize --state does), or give the model float inputs and "
        "outputs: then values are carried and quantised again",
    )


def _require_once(end: str, names: Sequence[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice and end == "input":
        raise InputError(f"{twice!r} is the {end} of two states", where="--state", rule=_RULE,
                         remedy="name every input once")  # fmt: skip


# ------------------------------------------------------------------------------------------------- one format


_TO_CODES, _TO_REAL = ("quantize", "uint8_to_int8"), ("dequantize", "int8_to_uint8")
_MOVING = ("reshape", "squeeze", "expand_dims", "flatten", "transpose", "slice", "identity")


def carry_codes(graph: Graph) -> Graph:
    """A state that is real at both ends and codes inside is carried as codes; they are requantised where its two ends
    have different scales."""
    for number, state in enumerate(graph.states):
        if state.kept:
            graph = _carry_codes(graph, number, state)
    return graph


def _carry_codes(graph: Graph, number: int, state: CarriedState) -> Graph:
    readers = graph.consumers.get(state.input, [])
    codes = [graph.tensors[op.outputs[0]] for op in readers if op.kind in _TO_CODES]
    alone = state.input not in graph.outputs and not graph.consumers.get(state.output) and not state.shown
    if not alone or not codes or len(codes) < len(readers) or any(not _same_codes(codes[0], one) for one in codes):
        return graph
    tensors, made = dict(graph.tensors), list[Op]()
    written = _codes_of(graph, state.output, tensors, made)
    if not written:
        return graph
    kept = replace(codes[0], name=state.input)
    kind = "identity" if _same_codes(kept, tensors[written]) else "requantize"
    made.append(Op(kind, f"{state.output}:state", (written,), (state.output,)))
    tensors |= {state.input: kept, state.output: replace(kept, name=state.output)}
    gone = {one.name: state.input for one in codes}
    ops = (op for op in graph.ops if op not in readers and state.output not in op.outputs)
    left = {name: tensor for name, tensor in tensors.items() if name not in gone}
    states = list(graph.states)
    states[number] = replace(state, first=_first_codes(state.first, kept))
    return check(replace(graph, tensors=left, ops=renamed((*ops, *made), gone), states=tuple(states)))


def _same_codes(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.quant is not None and one.quant.same_as(other.quant)


def _first_codes(first: Array, kept: Tensor) -> Array:
    if first.dtype == np.uint8:  # codes already, of the other kind
        return (first.astype(np.int16) - 128).astype(kept.dtype)
    return to_codes(first.astype(np.float64) / kept.scale, kept)


def _codes_of(graph: Graph, name: str, tensors: dict[str, Tensor], made: list[Op]) -> str:
    """The tensor that holds these real values as codes, "" if there is none; operators that only move them are made
    again for codes (`made`)."""
    op = graph.producers.get(name)
    if op is None:
        return ""
    if op.kind in _TO_REAL:
        return op.inputs[0]
    if op.kind not in _MOVING:
        return ""
    inner = _codes_of(graph, op.inputs[0], tensors, made)
    if not inner:
        return ""
    moved = replace(tensors[inner], name=f"{name}:codes", shape=tensors[name].shape)
    tensors[moved.name] = moved
    made.append(replace(op, name=f"{op.name}:codes", inputs=(inner, *op.inputs[1:]), outputs=(moved.name,)))
    return moved.name


# ------------------------------------------------------------------------------------------------- one order of axes


def turn_states(graph: Graph) -> Graph:
    """A state that is read in another order of its axes is kept in that order."""
    for number, state in enumerate(graph.states):
        readers = graph.consumers.get(state.input, [])
        orders = {tuple(op.attrs["perm"]) if op.kind == "transpose" else () for op in readers}
        alone = state.input not in graph.outputs and not graph.consumers.get(state.output)
        if state.kept and not state.shown and alone and len(orders) == 1 and orders != {()}:
            graph = _turned(graph, number, state, orders.pop())
    return graph


def _turned(graph: Graph, number: int, state: CarriedState, order: tuple[int, ...]) -> Graph:
    """Transposes in front of the input are gone; one behind the output undoes what is there, or moves it."""
    tensors, inner = dict(graph.tensors), f"{state.output}:turned"
    readers = graph.consumers[state.input]
    gone = {op.outputs[0]: state.input for op in readers}
    tensors[inner] = replace(tensors[state.output], name=inner)
    for name in (state.input, state.output):
        tensors[name] = replace(tensors[name], shape=permuted(tensors[name].shape, order))
    ops = [*renamed((op for op in graph.ops if op not in readers), {state.output: inner})]
    ops.append(Op("transpose", inner, (inner,), (state.output,), {"perm": order}))
    before = graph.producers[state.output]
    if before.kind == "transpose":
        whole = tuple(before.attrs["perm"][axis] for axis in order)
        kind, attrs = ("identity", {}) if whole == tuple(sorted(whole)) else ("transpose", {"perm": whole})
        ops = [op for op in ops if inner not in (*op.inputs, *op.outputs)]
        ops.append(Op(kind, inner, before.inputs, (state.output,), attrs, before.origin))
        del tensors[inner]
    states = list(graph.states)
    states[number] = replace(state, first=np.ascontiguousarray(state.first.transpose(order)))
    turned = {**graph.turned, state.input: order, state.output: order}
    left = {name: tensor for name, tensor in tensors.items() if name not in gone}
    return check(replace(graph, tensors=left, ops=renamed(ops, gone), states=tuple(states), turned=turned))


# ------------------------------------------------------------------------------------------------- one memory


VIEWS = ("reshape", "squeeze", "expand_dims", "flatten", "identity", "uint8_to_int8", "int8_to_uint8")


def own_states(graph: Graph) -> Graph:
    """Every state's output is written by an operator behind all that reads its input: then both may be one memory.
    Where the network has another order, and where somebody else gets the output too, a copy at the end does it."""
    copied = [number for number, state in enumerate(graph.states) if state.kept and not _owns(graph, number, state)]
    counted = Counter(state.output for state in graph.states)
    copies: dict[int, str] = {}  # by number of the state, what is copied
    for number in copied:
        state = graph.states[number]
        graph, copies[number] = _with_own_output(graph, number, state.shown or counted[state.output] > 1)
    return _in_order(graph, copies) if copies else graph


def _owns(graph: Graph, number: int, state: CarriedState) -> bool:
    writer = graph.producers.get(state.output)
    if writer is None or writer.kind in VIEWS or state.shown:
        return False
    if any(other.output == state.output for other in graph.states[:number]):
        return False
    views, before = _views(graph, state.input), _ancestors(graph, writer)
    readers = [op for name in views for op in graph.consumers.get(name, ()) if op.kind not in VIEWS]
    return not views & set(graph.outputs) and all(id(op) in before for op in readers)


def _views(graph: Graph, name: str) -> set[str]:
    """All tensors that may lie in the memory of this one."""
    found, waiting = set[str](), [name]
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting += [op.outputs[0] for op in graph.consumers.get(name, ()) if op.kind in VIEWS]
    return found


def _ancestors(graph: Graph, op: Op) -> set[int]:
    """Operators that have run before this one can begin."""
    found, waiting = set[int](), [op]
    while waiting:
        for name in waiting.pop().inputs:
            before = graph.producers.get(name)
            if before is not None and id(before) not in found:
                found.add(id(before))
                waiting.append(before)
    return found


def _with_own_output(graph: Graph, number: int, shared: bool) -> tuple[Graph, str]:
    """The graph in which nobody but the state has its output, which is still to be written; and the tensor that is to
    be copied there. `shared`: somebody else has that tensor, too."""
    state, states = graph.states[number], list(graph.states)
    if state.output in _views(graph, state.input):
        what, remedy = "the state never changes: its output is its input", "leave it out, and make the input a constant"
        raise ModelError(what, where=state.input, rule=_RULE, remedy=remedy)
    if state.input in graph.outputs:
        what, remedy = "the input of a state is an output of the model", "leave that output out: it is the state before"
        raise ModelError(what, where=state.input, rule=_RULE, remedy=remedy)
    if shared or state.output in graph.inputs:
        own, source, ops = f"{state.output}:state {number}", state.output, graph.ops
        needed = state.shown or any(one.output == source for k, one in enumerate(states) if k != number)
        outputs = (*(name for name in graph.outputs if name != source or needed), own)
    else:
        own, source, outputs = state.output, f"{state.output}:value", graph.outputs
        ops = renamed(graph.ops, {own: source})
    tensor = graph.tensors[state.output]
    tensors = {**graph.tensors, source: replace(tensor, name=source), own: replace(tensor, name=own, data=None)}
    states[number] = replace(state, output=own, shown=False)
    return replace(graph, tensors=tensors, ops=ops, outputs=outputs, states=tuple(states)), source


def _in_order(graph: Graph, copies: Mapping[int, str]) -> Graph:
    """The graph with the copies: what is read from the memory of another state is read before that is written."""
    tensors, ops = dict(graph.tensors), list(graph.ops)
    waiting, views = dict(copies), {number: _views(graph, graph.states[number].input) for number in copies}

    def copy(source: str, target: str) -> None:
        before = graph.producers.get(source)
        origin = before.origin if before else ()
        ops.append(Op("identity", f"{target}:copy", (source,), (target,), {"copy": True}, origin))

    while waiting:
        late = {number: [k for k in waiting if k != number and waiting[k] in views[number]] for number in waiting}
        number = min(waiting, key=lambda number: (bool(late[number]), number))
        for reader in late[number]:  # they change places: one waits in a memory of its own
            aside = f"{graph.states[reader].output}:aside"
            tensors[aside] = replace(tensors[waiting[reader]], name=aside)
            copy(waiting[reader], aside)
            waiting[reader] = aside
        copy(waiting.pop(number), graph.states[number].output)
    return check(replace(graph, tensors=tensors, ops=tuple(ops)))


# ------------------------------------------------------------------------------------------------- windows


def keep_windows(graph: Graph) -> Graph:
    """A window over time may stay where it is (`in_place`): its rows move down, and new ones are written behind them. A
    state that lies at the head of a window moves down when all have read that, beside the layers that follow (without
    any, an epoch of its own would cost more); one that is the window, before whoever makes its new rows."""
    for number in range(len(graph.states)):
        graph = _moved_late(graph, number)
    early, last, frames = list[tuple[Op, Op]](), list[Op](), dict[str, tuple[str, int]]()
    for state in graph.states:
        readers, writer = graph.consumers.get(state.input, []), graph.producers.get(state.output)
        if not state.kept or state.shown or len(readers) != 1 or writer is None:
            continue
        (reader,), read = readers, bool(graph.consumers.get(state.output))
        if writer.inputs == reader.outputs and not read:
            if _is_window(graph, reader, writer) and _is_read_early(graph, writer):
                last.append(writer)
                frames |= _frame(graph, reader)
        elif reader.outputs[0] == writer.inputs[0] and graph.consumers[reader.outputs[0]] == [writer]:
            early += [(reader, writer)] if _is_window(graph, writer, reader) else []
    moved = {op.name: replace(op, attrs={**op.attrs, "in_place": True}) for op in (*(one for one, _ in early), *last)}
    rest = [op for op in graph.ops if op.name not in moved]
    rest = [replace(op, attrs={**op.attrs, "frame": frames[op.name]}) if op.name in frames else op for op in rest]
    for move, join in early:
        makers = {join.name, *(op.name for name in join.inputs[1:] if (op := _maker(graph, name)) is not None)}
        rest.insert(next(at for at, op in enumerate(rest) if op.name in makers), moved[move.name])
    return replace(graph, ops=(*rest, *(moved[op.name] for op in last))) if moved else graph


def _maker(graph: Graph, name: str) -> Op | None:
    """The operator that computes it."""
    found = graph.producers.get(name)
    while found is not None and found.kind in VIEWS:
        found = graph.producers.get(found.inputs[0])
    return found


def _moved_late(graph: Graph, number: int) -> Graph:
    """A state that is a window and ends with the application's frame, whose oldest rows nobody reads: the rest of it is
    a state too, and moves down when all have read the window, so that the next frame may be written before a run."""
    state, tensors = graph.states[number], dict(graph.tensors)
    readers, join = graph.consumers.get(state.input, []), graph.producers.get(state.output)
    if not state.kept or state.shown or len(readers) != 1 or join is None or not graph.consumers.get(state.output):
        return graph
    (cut,), kept = readers, f"{state.output}:kept"
    rows = cut.outputs[0]
    if join.inputs[:1] != (rows,) or graph.consumers[rows] != [join] or not _is_window(graph, join, cut):
        return graph
    move = replace(cut, inputs=(state.output,), outputs=(kept,))
    tensors[kept] = replace(tensors.pop(rows), name=kept)
    tensors[state.input] = replace(tensors[kept], name=state.input)
    ops = (*renamed((op for op in graph.ops if op is not cut), {rows: state.input}), move)
    outputs = tuple(kept if name == state.output else name for name in graph.outputs)
    sizes, whole = tensors[kept].shape, graph.tensors[state.output].shape
    index = tuple(slice(size - left, None) for size, left in zip(whole, sizes, strict=True))
    states = list(graph.states)
    starts = tuple(part.start for part in index)
    states[number] = replace(state, output=kept, first=np.ascontiguousarray(state.first[index]), unread=starts)
    later = check(replace(graph, tensors=tensors, ops=ops, outputs=outputs, states=tuple(states)))
    joined = later.producers[state.output]
    return later if _is_read_early(later, move) and _frame(later, joined) else graph


def _frame(graph: Graph, join: Op) -> dict[str, tuple[str, int]]:
    """By join: the application's input that comes behind the state as it is, and how many bytes in front of both make
    it begin a line of the CPU's cache."""
    (state, *rest), whole = join.inputs, graph.tensors[join.outputs[0]]
    name, lead = rest[-1], -graph.tensors[state].elements % CPU_CACHE_LINE
    while len(rest) == 1 and len(graph.consumers[name]) == 1 and _same_codes(graph.tensors[name], whole):
        if name in graph.inputs:
            return {join.name: (name, lead)} if name in graph.frame_inputs and lead % ALIGNED == 0 else {}
        before = graph.producers.get(name)
        if before is None or before.kind not in VIEWS or "clip" in before.attrs:
            break
        name = before.inputs[0]
    return {}


def memory_bytes(graph: Graph, state: CarriedState) -> int:
    """All that shares the memory of a state: the window that it lies in, and what is in front of that."""
    found = [state.first.nbytes]
    for join in graph.consumers.get(state.input, ()):
        moves = [op for op in graph.consumers.get(join.outputs[0], ()) if op.attrs.get("in_place")]
        found += [graph.tensors[join.outputs[0]].elements + join.attrs.get("frame", ("", 0))[1]] if moves else []
    return max(found)


def _is_read_early(graph: Graph, move: Op) -> bool:
    """Whether other work is left when all have read the window, which nobody wants from the application's side."""
    views = _views(graph, move.inputs[0])
    work = [op for op in graph.ops if op is not move and op.kind not in VIEWS]
    return not views & set(graph.outputs) and not views & set(work[-1].inputs)


def _is_window(graph: Graph, join: Op, move: Op) -> bool:
    """Bytes of one scale, and rows that lie in a row: one copy moves them all."""
    if (join.kind, move.kind) != ("concat", "slice") or "clip" in {*join.attrs, *move.attrs}:
        return False
    whole, kept = (graph.tensors[name] for name in (*move.inputs, *move.outputs))
    ends = whole, kept, graph.tensors[join.inputs[0]], graph.tensors[join.outputs[0]]
    same = all(one.dtype == "int8" and _same_codes(one, whole) for one in ends)
    parts = zip(whole.shape, *(move.attrs[key] for key in ("starts", "stops", "steps")), strict=True)
    rows = [range(size)[slice(*part)] for size, *part in parts]
    wanted = [range(size - left, size) for size, left in zip(whole.shape, kept.shape, strict=True)]
    once = join.inputs.count(join.inputs[0]) == 1
    return same and once and rows == wanted and prod(whole.shape[: join.attrs["axis"] % len(whole.shape)]) == 1
