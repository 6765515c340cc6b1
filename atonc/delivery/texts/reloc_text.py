"""Relocatable images as text: sizes and pools as ST's driver prints them, and everything else on request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.delivery.reloc import format as fmt
from atonc.delivery.reloc.format import PoolEntry, offset, segment
from atonc.delivery.reloc.image import Check, Image, Slot
from atonc.delivery.reloc.options import RelocOptions
from atonc.insight.report import document as doc
from atonc.machine.base.words import count, shell, size_text

if TYPE_CHECKING:
    from atonc.delivery.reloc.build import Prepared

_SHOWN = 20


POOLS = (
    doc.Column[PoolEntry](
        "name (addr)", lambda one: f"{one.name or '<undefined>'} ({one.name_address:08x})", left=True
    ),
    doc.Column[PoolEntry]("flags", lambda one: f"{one.flags:08x} {one.label()}", left=True),
    doc.Column[PoolEntry]("foff", lambda one: one.file_offset, left=True),
    doc.Column[PoolEntry]("dst", lambda one: one.destination, "{:08x}", left=True),
    doc.Column[PoolEntry]("size", lambda one: one.size_bytes, left=True),
)
HeaderRow = tuple[int, str, int, str]  # number, name, value, remark
HEADER = (
    doc.Column[HeaderRow]("idx", lambda row: row[0], left=True),
    doc.Column[HeaderRow]("key", lambda row: row[1], left=True),
    doc.Column[HeaderRow]("value", lambda row: row[2], "{:08x}", left=True),
    doc.Column[HeaderRow]("description", lambda row: row[3], left=True),
)


def _sizes(image: Image) -> list[str]:
    rows = (
        ("XIP size", image.xip_bytes, " data+got+bss sections"),
        ("COPY size", image.copy_bytes, " +ro sections"),
        ("PARAMS offset", image.params_offset, ""),
        ("PARAMS size", image.params_bytes, ""),
    )
    return [f"{name:<14}= {value:<10,}({value:#x}){note}" for name, value, note in rows]


def _pools(image: Image) -> doc.Table[PoolEntry]:
    place = image.sections["params_start"]
    entries = count(len(image.pools), "entry", "entries")
    title = f"mempool c-descriptors (off={place:08x}, {entries}, from {segment(place).name})"
    return doc.Table(POOLS, image.pools, title, framed=True)


def _context(image: Image) -> list[str]:
    context = image.context
    number = ".".join(map(str, context.number))
    return [
        f'rt_ctx: c_name="{context.c_name}", acts_sz={context.activations_bytes:,}, '
        f"params_sz={context.params_bytes:,}, ext_ram_sz={context.ext_ram_bytes:,}",
        f'rt_ctx: rt_version_desc="{context.runtime}", rt_version={number}-{context.dev}',
        f"rt_ctx: params_bin_sz={context.params_file_bytes:,}, params_bin_crc32={context.params_crc32:#010x}, "
        f"c_struct_sizes={context.buffer_info_bytes},{context.epoch_item_bytes}",
    ]


def _header(image: Image) -> doc.Table[HeaderRow]:
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
    rows = [(k, name, value, remarks.get(name, "")) for k, (name, value) in enumerate(values)]
    kind = "split" if image.split else "with parameters"
    title = f"header of {image.header_bytes} bytes, file of {len(image.data):,} bytes ({kind})"
    return doc.Table(HEADER, rows, title, framed=True)


def _slots(title: str, slots: Sequence[Slot], verbose: bool) -> list[str]:
    rows = []
    for slot in slots:
        target = f"{segment(slot.value).name} + {offset(slot.value):#x}" if slot.value else "nothing"
        rows.append(f"  {slot.where:08x}: {slot.value:08x} -> {target}")
    shown = doc.at_most(len(rows) if verbose else _SHOWN, rows, "  ... and {} more (-v shows all)")
    return [f"{title}: {len(slots)}", *shown]


def inspected(image: Image, found: Sequence[Check], start: int, verbose: bool) -> doc.Document:
    """`start`: where it begins in its file."""
    words = {True: "ok", False: "WRONG", None: "not known"}
    told = _context(image)
    if image.note is not None:
        told.append(f"model: {image.note.model_hash.hex()} (generated C, programs and constants)")
    title = "relocations (words in the data that get an address)"
    slots = [*_slots(title, image.relocations, verbose), *_slots("GOT", image.got, verbose)]
    checks = ["checks:", *(f"  {words[check.good]:9} {check.what}: {check.seen}" for check in found)]
    blocks: tuple[Sequence[doc.Block], ...] = ([_header(image)], _sizes(image), [_pools(image)], told, slots, checks)
    return doc.Document(
        sections=[doc.Chapter("", one) for one in blocks],
        summary=_summary(image, found),
        data=lambda: as_json(image, found) | {"offset": start},
    )


def document(image: Image, found: Sequence[Check], files: Sequence[Path] = (), verbose: bool = False) -> doc.Document:
    """An image that was made, in these files."""
    made = [f' creating "{path}" (size={path.stat().st_size:,})' for path in files]
    detail = [doc.Chapter("", [_header(image)])] if verbose else []
    blocks: tuple[Sequence[doc.Block], ...] = (_sizes(image), [_pools(image)], ["Generating files...", *made])
    return doc.Document(
        sections=[*detail, *(doc.Chapter("", one) for one in blocks)],
        summary=_summary(image, found, files),
        data=lambda: as_json(image, found) | {"files": list(map(str, files))},
    )


def parsed(folder: Path, ready: Prepared) -> doc.Document:
    """Generated files that were read and checked only."""
    runtime = f"LL_ATON {ready.abi.number}-{ready.dev} (Core {ready.abi.core})"
    said = [f"{ready.network.c_file}: {runtime}"]
    for entry in ready.pools.entries:
        place = f"dst={entry.destination:08x}" if entry.destination else "found at run time"
        said.append(f"  {entry.name:16} {entry.label():26} size={entry.size_bytes:,} {place}")
    rows = (
        doc.SummaryRow("runtime", runtime),
        doc.SummaryRow("pools", f"{len(ready.pools.entries)}; the files can be made into an image", doc.Mark.GOOD),
        doc.next_row(shell("reloc", folder)),
    )
    return doc.Document(sections=[doc.Chapter("", said)], summary=rows)


def _summary(image: Image, found: Sequence[Check], files: Sequence[Path] = ()) -> list[doc.SummaryRow | None]:
    """Sizes, what a loader would say, where it is, what to do with it."""
    bad = [check.what for check in found if check.good is False]
    unknown = sum(check.good is None for check in found)
    good = f"{count(len(found) - unknown, 'check')} passed" + (f", {unknown} cannot be known" if unknown else "")
    first = next((str(path) for path in files if path.suffix == ".bin"), "IMAGE")
    apart = ", in a file of their own" if image.split else ""
    again = "build it again with the release of atonc that made the network"
    ram = f"{size_text(image.xip_bytes)} run in place, {size_text(image.copy_bytes)} as a copy"
    return [
        doc.SummaryRow("RAM", ram),
        doc.SummaryRow("constants", f"{size_text(image.params_bytes)}{apart}"),
        doc.SummaryRow("runtime", f"{image.context.runtime} {'.'.join(map(str, image.context.number))}"),
        doc.SummaryRow("checks", f"WRONG: {', '.join(bad)}" if bad else good, doc.Mark.ALARM if bad else doc.Mark.GOOD),
        doc.files_row([str(path) for path in files]),
        doc.next_row(again if bad else _use_of(image, first)),
    ]


def _use_of(image: Image, file: str) -> str:
    cpu = fmt.CPUS.get(image.flags.cpu, "")
    if cpu.lower() != RelocOptions().cpu:
        return f"a firmware for the {cpu or 'same CPU'} loads it; the virtual board takes {RelocOptions().cpu}"
    return f"atonc load-and-run {file}: on the virtual board"


def as_json(image: Image, found: Sequence[Check]) -> dict[str, object]:
    context, note = image.context, image.note
    return {
        "header": {name: f"{value:#010x}" for name, value in image.sections.items()},
        "entries": {name: f"{value:#010x}" for name, value in image.entries.items()},
        "flags": vars(image.flags),
        "context": vars(context),
        "pools": [vars(pool) | {"label": pool.label()} for pool in image.pools[:-1]],
        **doc.fields_of(image, "xip_bytes", "copy_bytes", "params_offset", "params_bytes", "split"),
        "model_hash": note.model_hash.hex() if note else None,
        "relocations": len(image.relocations),
        "got": len(image.got),
        "checks": [vars(check) for check in found],
    }
