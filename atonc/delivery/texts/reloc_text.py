"""Relocatable images as text: sizes and pools as ST's driver prints them, and everything else on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from atonc.delivery.reloc import format as fmt
from atonc.delivery.reloc.checks import Check
from atonc.delivery.reloc.format import offset, segment
from atonc.delivery.reloc.image import Image, Slot
from atonc.delivery.reloc.options import RelocOptions
from atonc.insight.report.document import Mark, SummaryRow, files_row, next_row, summary_lines
from atonc.machine.base.words import count, size_text

_SHOWN = 20


def size_lines(image: Image) -> list[str]:
    rows = (
        ("XIP size", image.xip_bytes, " data+got+bss sections"),
        ("COPY size", image.copy_bytes, " +ro sections"),
        ("PARAMS offset", image.params_offset, ""),
        ("PARAMS size", image.params_bytes, ""),
    )
    return [f"{name:<14}= {value:<10,}({value:#x}){note}" for name, value, note in rows]


def pool_lines(image: Image) -> list[str]:
    rows = [
        (
            f"{pool.name or '<undefined>'} ({pool.name_address:08x})",
            f"{pool.flags:08x} {pool.label()}",
            str(pool.file_offset),
            f"{pool.destination:08x}",
            str(pool.size_bytes),
        )
        for pool in image.pools
    ]
    place = image.sections["params_start"]
    entries = count(len(rows), "entry", "entries")
    title = f"mempool c-descriptors (off={place:08x}, {entries}, from {segment(place).name})"
    return table(("name (addr)", "flags", "foff", "dst", "size"), rows, title)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> list[str]:
    widths = [max(len(row[k]) for row in (head, *rows)) for k in range(len(head))]

    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * (width + 2) for width in widths) + right

    def line(row: Sequence[str]) -> str:
        return "│" + "│".join(f" {cell:<{width}} " for cell, width in zip(row, widths, strict=True)) + "│"

    body = [line(row) for row in rows]
    return [rule("┌", "┬", "┐"), line(head), rule("├", "┼", "┤"), *body, rule("└", "┴", "┘"), f" Table: {title}"]


def context_lines(image: Image) -> list[str]:
    context = image.context
    number = ".".join(map(str, context.number))
    return [
        f'rt_ctx: c_name="{context.c_name}", acts_sz={context.activations_bytes:,}, '
        f"params_sz={context.params_bytes:,}, ext_ram_sz={context.ext_ram_bytes:,}",
        f'rt_ctx: rt_version_desc="{context.runtime}", rt_version={number}-{context.dev}',
        f"rt_ctx: params_bin_sz={context.params_file_bytes:,}, params_bin_crc32={context.params_crc32:#010x}, "
        f"c_struct_sizes={context.buffer_info_bytes},{context.epoch_item_bytes}",
    ]


def header_lines(image: Image) -> list[str]:
    flags = image.flags
    remarks = {
        "flags": f"v{flags.major}.{flags.minor}, F.dbg={flags.debug_info}, F.async={flags.asynchronous}, "
        f"F.sec={flags.secure}, {fmt.COMPILERS.get(flags.compiler, flags.compiler)}, cpuid={flags.cpu:03X}, "
        f"fpu={flags.fpu}, float-abi={flags.float_abi}",
        "data_start": f"data size = {image.size_of('data')}",
        "data_data": f"- RO size = {image.ro_bytes}",
        "bss_start": f"bss size = {image.size_of('bss')}",
        "bss_end": f"- RW size = {image.rw_bytes}",
        "got_start": f"got size = {image.size_of('got')} - {image.size_of('got') // 4} items",
        "rel_start": f"rel size = {image.size_of('rel')} - {image.size_of('rel') // 4} items",
    }
    values = [*image.sections.items(), *((f"ne.{name}", value) for name, value in image.entries.items())]
    rows = [(str(k), name, f"{value:08x}", remarks.get(name, "")) for k, (name, value) in enumerate(values)]
    kind = "split" if image.split else "with parameters"
    title = f"header of {image.header_bytes} bytes, file of {len(image.data):,} bytes ({kind})"
    return table(("idx", "key", "value", "description"), rows, title)


def slot_lines(title: str, slots: Sequence[Slot], verbose: bool) -> Iterator[str]:
    shown = slots if verbose else slots[:_SHOWN]
    yield f"{title}: {len(slots)}"
    for slot in shown:
        target = f"{segment(slot.value).name} + {offset(slot.value):#x}" if slot.value else "nothing"
        yield f"  {slot.where:08x}: {slot.value:08x} -> {target}"
    if len(shown) < len(slots):
        yield f"  ... and {len(slots) - len(shown)} more (-v shows all)"


def check_lines(found: Sequence[Check]) -> list[str]:
    words = {True: "ok", False: "WRONG", None: "not known"}
    return ["checks:", *(f"  {words[check.good]:9} {check.what}: {check.seen}" for check in found)]


def note_lines(image: Image) -> list[str]:
    if image.note is None:
        return []
    return [f"model: {image.note.model_hash.hex()} (generated C, programs and constants)"]


def inspect_lines(image: Image, found: Sequence[Check], verbose: bool) -> list[str]:
    return [
        *header_lines(image),
        "",
        *size_lines(image),
        "",
        *pool_lines(image),
        "",
        *context_lines(image),
        *note_lines(image),
        "",
        *slot_lines("relocations (words in the data that get an address)", image.relocations, verbose),
        *slot_lines("GOT", image.got, verbose),
        "",
        *check_lines(found),
        *summary(image, found),
    ]


def summary(image: Image, found: Sequence[Check], files: Sequence[Path] = ()) -> list[str]:
    """Sizes, what a loader would say, where it is, what to do with it."""
    bad = [check.what for check in found if check.good is False]
    unknown = sum(check.good is None for check in found)
    good = f"{count(len(found) - unknown, 'check')} passed" + (f", {unknown} cannot be known" if unknown else "")
    first = next((str(path) for path in files if path.suffix == ".bin"), "IMAGE")
    apart = ", in a file of their own" if image.split else ""
    again = "build it again with the release of atonc that made the network"
    ram = f"{size_text(image.xip_bytes)} run in place, {size_text(image.copy_bytes)} as a copy"
    return summary_lines(
        (
            SummaryRow("RAM", ram),
            SummaryRow("constants", f"{size_text(image.params_bytes)}{apart}"),
            SummaryRow("runtime", f"{image.context.runtime} {'.'.join(map(str, image.context.number))}"),
            SummaryRow("checks", f"WRONG: {', '.join(bad)}" if bad else good, Mark.ALARM if bad else Mark.GOOD),
            files_row([str(path) for path in files]),
            next_row(again if bad else _use_of(image, first)),
        )
    )


def _use_of(image: Image, file: str) -> str:
    cpu = fmt.CPUS.get(image.flags.cpu, "")
    if cpu.lower() != RelocOptions().cpu:
        return f"a firmware for the {cpu or 'same processor'} loads it; the virtual board takes {RelocOptions().cpu}"
    return f"atonc load-and-run {file}: on the virtual board"


def as_json(image: Image, found: Sequence[Check]) -> dict[str, object]:
    context, note = image.context, image.note
    return {
        "header": {name: f"{value:#010x}" for name, value in image.sections.items()},
        "entries": {name: f"{value:#010x}" for name, value in image.entries.items()},
        "flags": vars(image.flags),
        "context": vars(context),
        "pools": [vars(pool) | {"label": pool.label()} for pool in image.pools[:-1]],
        "xip_bytes": image.xip_bytes,
        "copy_bytes": image.copy_bytes,
        "params_offset": image.params_offset,
        "params_bytes": image.params_bytes,
        "split": image.split,
        "model_hash": note.model_hash.hex() if note else None,
        "relocations": len(image.relocations),
        "got": len(image.got),
        "checks": [vars(check) for check in found],
    }
