"""`read_network`: a folder with a compiled network becomes a `CompiledNetwork`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from atonc.machine.base.disk import missing
from atonc.machine.base.errors import InputError, plain
from atonc.machine.emu.files.c_text import TranslationUnit, bounded_depth, number, read_source
from atonc.machine.emu.files.c_values import FunctionReader, parse_unit
from atonc.machine.emu.files.types import (
    ApplicationBuffer,
    BufferInfo,
    CompiledNetwork,
    CValue,
    DeclaredPool,
    EpochBlock,
    EpochFlags,
    KeptState,
    Resident,
    Symbol,
)
from atonc.machine.hw.dma import DmaCopy
from atonc.machine.hw.ec.blob import Container
from atonc.machine.hw.ec.header import BlobHeader, read_header_file
from atonc.machine.hw.ll import Members

_GIT = re.compile(r'\bGIT_(BRANCH|DESCRIPTION)\s+"([^"\n]{0,200})"')
_OPTION = re.compile(r'^[ *]*--([\w-]+) = (?:"([^"\n]*)"|(\S+))\s*$', re.MULTILINE)
_USED = re.compile(r"/\* global pool (\d+) is (.*?) \*/")
_POOL = re.compile(
    r"index=(?P<index>\d+) file postfix=(?P<postfix>\S*) name=(?P<name>.*?) offset=(?P<offset>0x[0-9a-fA-F]+|\S+)\s+"
    r"(?P<mode>absolute|relative)_mode size=(?P<size>\d+)(?P<rest>[^\n]*)"
)
_ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{1,16}|\d{1,20}")
MAX_POOLS = 256
_MAX_POOL_COMMENT = 4000


def versions(comments: Iterable[str]) -> tuple[str, str]:
    """(atonn description, tool branch); empty where the file does not say."""
    found: dict[str, str] = {}
    for comment in comments:
        for match in _GIT.finditer(comment):
            found.setdefault(match[1], plain(match[2]))
        if len(found) == 2:
            break
    return found.get("DESCRIPTION", ""), found.get("BRANCH", "")


def command_line(comments: Iterable[str]) -> dict[str, str]:
    """The compiler's options by name."""
    for comment in comments:
        if "Command Line options" in comment:
            return {m[1]: plain(m[2] if m[2] is not None else m[3]) for m in _OPTION.finditer(comment)}
    return {}


def declared_pools(comments: Iterable[str]) -> tuple[DeclaredPool, ...]:
    """All memory declared_pools, in file order."""
    result: list[DeclaredPool] = []
    used = "?"
    for comment in comments:
        if len(comment) > _MAX_POOL_COMMENT:
            continue
        match = _USED.match(comment)
        if match:
            used = match[2]
        match = _POOL.search(comment)
        if match and len(result) < MAX_POOLS:
            result.append(_pool(match, used))
            used = "?"
    return tuple(result)


def _pool(match: re.Match[str], used: str) -> DeclaredPool:
    rest = match["rest"]

    def value(key: str, default: str) -> str:
        found = re.search(rf"{key}=(\S+)", rest)
        return plain(found[1]) if found else default

    return DeclaredPool(
        index=int(match["index"]),
        postfix=plain(match["postfix"]),
        name=plain(match["name"]),
        base=int(match["offset"], 0) if _ADDRESS.fullmatch(match["offset"]) else 0,
        size_bytes=int(match["size"]),
        absolute=match["mode"] == "absolute",
        virtual=" vpool " in rest,
        writable="READ_WRITE" in rest,
        cacheable=value("cacheable", "OFF") == "ON",
        byte_width=max(1, int(_number(value("byte width", "1")))),
        freq_ratio=_number(value("freq ratio", "1")),
        throughput=value("THROUGHPUT", ""),
        latency=value("LATENCY", ""),
        holds_initialisers=value("use4initializers", "NO") == "YES",
        used=used,
    )


def _number(text: str) -> float:
    return float(text) if re.fullmatch(r"\d{1,12}(?:\.\d{1,12})?", text) else 0.0


MAX_BUFFER_BYTES = 1 << 30
_LARGEST = 3.5e38  # scales are 32-bit floats; a release wrote 1.3e36 for a constant


def buffer_table(value: CValue, where: str) -> tuple[BufferInfo, ...]:
    """Entries up to the terminator (the entry without a name)."""
    if not isinstance(value, list):
        raise InputError("a buffer table is not an array", where=where)
    result: list[BufferInfo] = []
    for entry in value:
        if not isinstance(entry, dict):
            raise InputError("a buffer table holds something that is not a buffer", where=where)
        name = entry.get("name")
        if name is None:
            break
        if not isinstance(name, str):
            raise InputError("a buffer has no name", where=where)
        name = plain(name)
        result.append(_buffer(name, entry, f"{where}, buffer {name}"))
    return tuple(result)


def _buffer(name: str, entry: dict[str, CValue], where: str) -> BufferInfo:
    m = Members(entry, where)
    base, start = m["addr_base"], m["offset_start"]
    size, limit = m["offset_end"] - start, m["offset_limit"] - start
    if not (0 <= base < 1 << 32 and 0 <= start < 1 << 32 and 0 <= size <= MAX_BUFFER_BYTES):
        raise InputError(f"impossible address or size ({size} bytes at {base:#x} + {start})", where=where)
    return BufferInfo(
        name=name,
        address=base + start,
        size_bytes=size,
        limit_bytes=max(limit, size),
        shape=_integers(m, "shape", m["ndims"]),
        mem_shape=_integers(m, "mem_shape", m["mem_ndims"]),
        chpos=_enum(entry, "chpos", "CHPos_"),
        batch=m["batch"],
        type=_enum(entry, "type", "DataType_"),
        nbits=m["nbits"],
        scales=tuple(float(v) for v in _numbers(m, "scale")),
        offsets=tuple(_only_integers(_numbers(m, "offset"), "offset", where)),
        per_channel=bool(m["per_channel"]),
        epoch=m["epoch"],
        is_user_allocated=bool(m["is_user_allocated"]),
        is_param=bool(m["is_param"]),
        qm=m["Qm"],
        qn=m["Qn"],
        q_unsigned=bool(m["Qunsigned"]),
    )


def _numbers(m: Members, key: str) -> list[int | float]:
    value = m.values.get(key)
    if value is None or value == 0:
        return []
    numbers = [v for v in value if isinstance(v, (int, float))] if isinstance(value, list) else []
    if not isinstance(value, list) or len(numbers) != len(value) or any(abs(number) > _LARGEST for number in numbers):
        raise InputError(f"member {key} is not an array of numbers", where=m.where)
    return numbers


def _integers(m: Members, key: str, count: int) -> tuple[int, ...]:
    numbers = _numbers(m, key)
    if not 0 <= count <= len(numbers):
        raise InputError(f"member {key} does not hold {count} integers", where=m.where)
    return tuple(_only_integers(numbers[:count], key, m.where))


def _only_integers(numbers: list[int | float], key: str, where: str) -> list[int]:
    integers = [v for v in numbers if isinstance(v, int)]
    if len(integers) != len(numbers):
        raise InputError(f"member {key} holds something that is not an integer", where=where)
    return integers


def _enum(entry: dict[str, CValue], key: str, prefix: str) -> str:
    value = entry.get(key)
    return value.name.removeprefix(prefix) if isinstance(value, Symbol) else ""


EPOCH_LIST = "LL_ATON_EpochBlockItems_"
RESIDENT_LIST, STATE_LIST, COPY_LIST = "ATONC_Resident_", "ATONC_States_", "ATONC_Copies_"
AWAIT_COPIES, START_COPIES = "ATONC_Await_Copies", "ATONC_Start_Copies"  # and the name of the network
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
        raise missing(directory, "folder")
    return [path for path in sorted(directory.glob("*.c")) if _defines_network(path)]


def _defines_network(path: Path) -> bool:
    """By its contents: `stai_a.c` and `a_selftest.c` may be files about the network `a`, or networks of that name."""
    if not path.is_file() or path.name.endswith("_blob_trace.c"):
        return False
    return _DEFINED.search(read_source(path)) is not None


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
    atonn, branch = versions(comments)
    return CompiledNetwork(
        name=suffix,
        stem=chosen.stem,
        c_file=chosen,
        atonn_version=atonn,
        tool_branch=branch,
        options=command_line(comments),
        pools=declared_pools(comments),
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
        states=_states(reader, suffix),
        copies=_copies(reader, suffix),
    )


def _choose(candidates: list[Path], name: str | None, directory: Path) -> Path:
    if name:
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
    for pool in declared_pools(unit.source.comments):
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
        flags = EpochFlags(Members(item, f"{where}, item {index}")["flags"] & 0xFFFF)
        if EpochFlags.LAST in flags:
            return tuple(blocks)
        blocks.append(_block(index, flags, item, reader, f"{where}, item {index}"))
    raise InputError("the epoch block list has no end mark", where=where)


def _block(index: int, flags: EpochFlags, item: dict[str, CValue], reader: FunctionReader, where: str) -> EpochBlock:
    m = Members(item, where)
    start, end = _function(item, "start_epoch_block", where), _function(item, "end_epoch_block", where)
    blob = item.get("blob_address")
    if EpochFlags.BLOB in flags and not isinstance(blob, Symbol):
        raise InputError("the block names no blob", where=where)

    def optional(key: str) -> int | None:
        return m[key] if key in item else None

    return EpochBlock(
        index=index,
        flags=flags,
        start=start,
        end=end,
        start_calls=reader.calls(start) if start else (),
        end_calls=reader.calls(end) if end else (),
        wait_mask=m["wait_mask"],
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
    return isinstance(value, dict) and bool(Members(value, reader.unit.path)["enable"])


def _residents(reader: FunctionReader, suffix: str) -> tuple[Resident, ...]:
    """The list of copies that the file makes at initialisation; networks of ST's tool have none."""
    where, found = f"{reader.unit.path}, {RESIDENT_LIST}{suffix}", []
    for row, size in _own_list(reader, f"{RESIDENT_LIST}{suffix}", "resident weights", "copy"):
        m = Members(row, where)
        bits = m["bits"] if "bits" in row else 8
        if bits not in (4, 8):
            raise InputError(f"resident weights of {bits} bits", where=where, rule="values have 4 or 8 bits")
        found.append(Resident(m["from"], m["to"], size, bits))
    return tuple(found)


def _copies(reader: FunctionReader, suffix: str) -> tuple[DmaCopy, ...]:
    """What the DMA copies beside the program; networks of ST's tool have no such list."""
    where, found = f"{reader.unit.path}, {COPY_LIST}{suffix}", []
    for row, size in _own_list(reader, f"{COPY_LIST}{suffix}", "copies ahead", "copy"):
        m = Members(row, where)
        found.append(DmaCopy(m["from"], m["to"], size))
    return tuple(found)


def _own_list(reader: FunctionReader, name: str, what: str, kind: str) -> Iterator[tuple[dict[str, CValue], int]]:
    """Lines of a list that our networks have, and how many bytes each is about; the last one, of none, ends it."""
    rows = reader.returned(name) if name in reader.unit.functions else []
    where = f"{reader.unit.path}, {name}"
    if not isinstance(rows, list) or len(rows) > MAX_BLOCKS:
        raise InputError(f"the list of {what} is not an array", where=where)
    for row in rows:
        if not isinstance(row, dict) or not 0 <= (size := Members(row, where)["bytes"]) <= MAX_USER_BYTES:
            raise InputError(f"a line of the {what} is not a {kind}", where=where)
        if size:
            yield row, size


def _states(reader: FunctionReader, suffix: str) -> tuple[KeptState, ...]:
    """What the network keeps from one inference to the next; networks of ST's tool do not say it."""
    where, found = f"{reader.unit.path}, {STATE_LIST}{suffix}", []
    for row, size in _own_list(reader, f"{STATE_LIST}{suffix}", "states", "memory"):
        first = row.get("first")
        listed = first if isinstance(first, list) else [Members(row, where)["fill"]] * size
        values = [one for one in listed if isinstance(one, int) and 0 <= one < 256]
        if not len(values) == len(listed) == size:
            raise InputError("the first value of a state has another size", where=where)
        found.append(KeptState(Members(row, where)["to"], bytes(values)))
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
