"""`read_network`: a folder with a compiled network becomes a `CompiledNetwork`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from atonc.machine.base.errors import InputError
from atonc.machine.emu.files import header_comment
from atonc.machine.emu.files.buffers import buffer_table, integer
from atonc.machine.emu.files.c_calls import FunctionReader
from atonc.machine.emu.files.c_literals import number
from atonc.machine.emu.files.c_syntax import TranslationUnit, bounded_depth, read_source
from atonc.machine.emu.files.c_unit import parse_unit
from atonc.machine.emu.files.types import (
    ApplicationBuffer,
    BufferInfo,
    CompiledNetwork,
    CValue,
    EpochBlock,
    EpochFlags,
    Resident,
    Symbol,
)
from atonc.machine.hw.ec import BlobHeader, Container, read_header_file

EPOCH_LIST = "LL_ATON_EpochBlockItems_"
RESIDENT_LIST = "ATONC_Resident_"
KEYS_HOOK = "ATONC_Set_Keys_"
USER_IO_BASE = 0xA000_0000  # user buffers live here unless the caller says otherwise: no memory of the chip does
USER_IO_GAP = 0x1000
MAX_BLOCKS = 100_000
MAX_USER_BYTES = 1 << 28
_DEFINED = re.compile(EPOCH_LIST.encode() + rb"\w*\s*\([^)]{0,200}\)\s*\{")  # not only declared
_USER_SYMBOL = re.compile(r"_mem_pool_(_user_io_(input|output)_(\d{1,3}))_\w+")


def find_networks(directory: Path) -> list[Path]:
    """The C files of a folder that define an epoch block list."""
    if directory.is_file():
        return [directory]
    if not directory.is_dir():
        raise InputError("no such folder", where=str(directory))
    return [path for path in sorted(directory.glob("*.c")) if _defines_network(path)]


def _defines_network(path: Path) -> bool:
    """By its contents: `stai_a.c` may be the interface of the network `a`, or a network of that name."""
    if not path.is_file() or path.name.endswith("_blob_trace.c"):
        return False
    source = read_source(path)
    return EPOCH_LIST.encode() in source and (not path.name.startswith("stai_") or _DEFINED.search(source) is not None)


@bounded_depth
def read_network(
    directory: Path | str,
    name: str | None = None,
    *,
    blob_file: Path | None = None,
    user_addresses: Mapping[str, int] | None = None,
) -> CompiledNetwork:
    """Reads the network `name` (a file stem or the suffix of its symbols) of a folder, or a C file.

    `user_addresses` places user-allocated buffers by relocation id (`_user_io_input_0`).
    """
    candidates = find_networks(Path(directory))
    chosen = _choose(candidates, name, Path(directory))
    unit = parse_unit(read_source(chosen), str(chosen))
    suffix = _network_suffix(unit)
    users = _user_buffers(unit, user_addresses or {})
    reader = FunctionReader(unit, _externals(unit, users, suffix))
    blocks = _blocks(reader, suffix)
    header_path, blobs = _read_blobs(chosen, unit, blocks, blob_file)
    tables = {kind: _table(reader, kind, suffix) for kind in ("Input", "Output", "Internal")}
    comments = unit.source.comments
    atonn, branch = header_comment.versions(comments)
    return CompiledNetwork(
        name=suffix,
        stem=chosen.stem,
        c_file=chosen,
        atonn_version=atonn,
        tool_branch=branch,
        options=header_comment.command_line(comments),
        pools=header_comment.pools(comments),
        user_buffers=users,
        blocks=blocks,
        inputs=tuple(b for b in tables["Input"] if not b.is_param),
        params=tuple(b for b in tables["Input"] if b.is_param),
        outputs=tables["Output"],
        internals=tables["Internal"],
        blobs=blobs,
        blob_file=header_path,
        weights_encrypted=_encrypted(reader, suffix),
        residents=_residents(reader, suffix),
    )


def _choose(candidates: list[Path], name: str | None, directory: Path) -> Path:
    if name is not None:
        matching = [c for c in candidates if c.stem == name]
        matching = matching or [c for c in candidates if f"{EPOCH_LIST}{name}(".encode() in read_source(c)]
    else:
        matching = candidates
    if len(matching) == 1:
        return matching[0]
    stems = ", ".join(c.stem for c in candidates[:20])
    if not candidates:
        raise InputError(
            f"no compiled network in it{_hint(directory)}",
            where=str(directory),
            rule="a network is a C file that defines LL_ATON_EpochBlockItems_<name>",
        )
    if not matching:
        raise InputError(f"no network is called {name}; there are: {stems}", where=str(directory))
    raise InputError(f"several networks: {stems}", where=str(directory), remedy="name the C file of one instead")


def _hint(directory: Path) -> str:
    """Folders below that do hold networks."""
    if not directory.is_dir():
        return ""
    deeper = sorted({str(p.parent) for depth in ("*", "*/*") for p in directory.glob(f"{depth}/*_ecblobs.h")})
    return f" (but {', '.join(deeper[:4])} may hold one)" if deeper else ""


def _network_suffix(unit: TranslationUnit) -> str:
    names = [f[len(EPOCH_LIST) :] for f in unit.functions if f.startswith(EPOCH_LIST)]
    if len(names) == 1:
        return names[0]
    what = "defines no epoch block list" if not names else f"defines several networks: {', '.join(names[:20])}"
    raise InputError(what, where=unit.path, remedy="the file may be damaged or cut off; generate or fetch it again")


def _user_buffers(unit: TranslationUnit, addresses: Mapping[str, int]) -> tuple[ApplicationBuffer, ...]:
    """The buffers that the application passes, each with an address of ours."""
    result: list[ApplicationBuffer] = []
    place = USER_IO_BASE
    for symbol in unit.globals:
        match = _USER_SYMBOL.fullmatch(symbol)
        if match is None:
            continue
        direction, index = match[2], int(match[3])
        size = _user_size(unit, direction, index)
        address = addresses.get(match[1], place)
        result.append(ApplicationBuffer(symbol, match[1], direction, index, size, address))
        place += -(-size // USER_IO_GAP) * USER_IO_GAP + USER_IO_GAP
    return tuple(result)


def _user_size(unit: TranslationUnit, direction: str, index: int) -> int:
    """The size that the setter function demands for buffer `index`."""
    prefix = f"LL_ATON_Set_User_{direction.capitalize()}_Buffer_"
    setter = next((node for name, node in unit.functions.items() if name.startswith(prefix)), None)
    stack, current = [setter] if setter is not None else [], -1
    while stack:
        node = stack.pop()
        if node.type == "binary_expression":
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            limit = number(unit.slice(right)) if right is not None else None
            variable = unit.slice(left) if left is not None else ""
            if variable == "num" and isinstance(limit, int):
                current = limit
            elif variable == "size" and isinstance(limit, int) and current == index:
                if limit > MAX_USER_BYTES:
                    raise unit.error(f"a user buffer of {limit} bytes", node)
                return limit
        stack.extend(reversed(node.named_children))
    raise InputError(f"the size of user {direction} {index} is not told", where=unit.path)


def _externals(unit: TranslationUnit, users: tuple[ApplicationBuffer, ...], suffix: str) -> dict[str, CValue]:
    """Names that stand for addresses: user buffers, and pools of relative mode."""
    names: dict[str, CValue] = {user.symbol: user.address for user in users}
    for pool in header_comment.pools(unit.source.comments):
        names.setdefault(f"_mem_pool_{pool.postfix}_{suffix}", pool.base)
    return names


def _blocks(reader: FunctionReader, suffix: str) -> tuple[EpochBlock, ...]:
    where = f"{reader.unit.path}, epoch block list"
    items = reader.returned(EPOCH_LIST + suffix)
    if not isinstance(items, list) or len(items) > MAX_BLOCKS:
        raise InputError("the epoch block list is not an array", where=where)
    blocks: list[EpochBlock] = []
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise InputError(f"item {index} is not an epoch block", where=where)
        flags = EpochFlags(integer(item, "flags", f"{where}, item {index}") & 0xFFFF)
        if EpochFlags.LAST in flags:
            return tuple(blocks)
        blocks.append(_block(index, flags, item, reader, f"{where}, item {index}"))
    raise InputError("the epoch block list has no end mark", where=where)


def _block(index: int, flags: EpochFlags, item: dict[str, CValue], reader: FunctionReader, where: str) -> EpochBlock:
    start, end = _function(item, "start_epoch_block", where), _function(item, "end_epoch_block", where)
    blob = item.get("blob_address")
    if EpochFlags.BLOB in flags and not isinstance(blob, Symbol):
        raise InputError("the block names no blob", where=where)

    def optional(key: str) -> int | None:
        return integer(item, key, where) if key in item else None

    return EpochBlock(
        index=index,
        flags=flags,
        start=start,
        end=end,
        start_calls=reader.calls(start) if start else (),
        end_calls=reader.calls(end) if end else (),
        wait_mask=integer(item, "wait_mask", where),
        blob=blob.name if EpochFlags.BLOB in flags and isinstance(blob, Symbol) else None,
        epoch_num=optional("epoch_num"),
        last_epoch_num=optional("last_epoch_num"),
        in_streng_mask=optional("in_streng_mask"),
        out_streng_mask=optional("out_streng_mask"),
        estimated_npu_cycles=optional("estimated_npu_cycles"),
        estimated_tot_cycles=optional("estimated_tot_cycles"),
    )


def _function(item: dict[str, CValue], key: str, where: str) -> str | None:
    value = item.get(key)
    if value is None or value == 0:
        return None
    if isinstance(value, Symbol):
        return value.name
    raise InputError(f"{key} is not a function", where=where)


def _encrypted(reader: FunctionReader, suffix: str) -> bool:
    if f"{KEYS_HOOK}{suffix}" in reader.unit.functions:
        return True  # a file of ours: the other function is for runtimes from 1.1.3 on only
    name = f"LL_ATON_WeightEncryption_Info_{suffix}"
    value = reader.returned(name) if name in reader.unit.functions else None
    return isinstance(value, dict) and bool(integer(value, "enable", reader.unit.path))


def _residents(reader: FunctionReader, suffix: str) -> tuple[Resident, ...]:
    """The list of copies that the file makes at initialisation; networks of ST's tool have none."""
    name = f"{RESIDENT_LIST}{suffix}"
    rows = reader.returned(name) if name in reader.unit.functions else []
    where = f"{reader.unit.path}, {name}"
    if not isinstance(rows, list) or len(rows) > MAX_BLOCKS:
        raise InputError("the list of resident weights is not an array", where=where)
    found = []
    for row in rows:
        size = integer(row, "bytes", where) if isinstance(row, dict) else -1
        if not isinstance(row, dict) or not 0 <= size <= MAX_USER_BYTES:
            raise InputError("a line of the resident weights is not a copy", where=where)
        if size:
            bits = integer(row, "bits", where) if "bits" in row else 8
            if bits not in (4, 8):
                raise InputError(f"resident weights of {bits} bits", where=where, rule="values have 4 or 8 bits")
            found.append(Resident(integer(row, "from", where), integer(row, "to", where), size, bits))
    return tuple(found)


def _table(reader: FunctionReader, kind: str, suffix: str) -> tuple[BufferInfo, ...]:
    name = f"LL_ATON_{kind}_Buffers_Info_{suffix}"
    if kind == "Internal" and name not in reader.unit.functions:
        return ()
    value = reader.returned(name)
    return () if value is None else buffer_table(value, f"{reader.unit.path}, {name}")


def _read_blobs(
    c_file: Path, unit: TranslationUnit, blocks: tuple[EpochBlock, ...], chosen: Path | None
) -> tuple[Path | None, dict[str, Container]]:
    """The blobs that the blocks name, from the header that the C file includes."""
    needed = [block.blob for block in blocks if block.blob is not None]
    if not needed:
        return None, {}
    if chosen is None:
        included = [Path(i).name for i in unit.source.includes if i.endswith("_ecblobs.h")]
        options = [c_file.with_name(n) for n in included] + [c_file.with_name(f"{c_file.stem}_ecblobs.h")]
        chosen = next((p for p in options if p.is_file()), options[0])
    header = read_header_file(chosen)
    return chosen, {name: _find_blob(header, name, chosen) for name in needed}


def _find_blob(header: BlobHeader, name: str, path: Path) -> Container:
    try:
        return header.find(name).container
    except InputError as error:
        raise InputError(error.what, where=str(path), remedy=error.remedy) from None
