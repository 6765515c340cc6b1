"""Initial memory contents: weights and constants, from raw, bin, hex files or C arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.files.c_values import c_array_bytes
from atonc.machine.emu.files.types import CompiledNetwork, DeclaredPool

MAX_HEX_BYTES = 1 << 29
_DATA, _END, _SEGMENT, _START_SEGMENT, _LINEAR, _START_LINEAR = range(6)
_ADDRESS_BYTES = {_END: 0, _SEGMENT: 2, _START_SEGMENT: 4, _LINEAR: 2, _START_LINEAR: 4}


def read_hex(path: Path) -> list[tuple[int, bytes]]:
    """(address, bytes) of every contiguous run, ascending."""
    return parse_hex(read_file(path, MAX_HEX_BYTES), str(path))


def parse_hex(text: bytes, where: str) -> list[tuple[int, bytes]]:
    runs: list[tuple[int, bytearray]] = []
    base = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        kind, offset, data = _record(line.strip(), f"{where}:{number}")
        if kind == _DATA:
            address = base + offset
            if runs and runs[-1][0] + len(runs[-1][1]) == address:
                runs[-1][1].extend(data)
            else:
                runs.append((address, bytearray(data)))
        elif kind == _END:
            return _sorted(runs, where)
        elif kind in (_SEGMENT, _LINEAR):
            base = int.from_bytes(data, "big") << (4 if kind == _SEGMENT else 16)
    raise InputError("the end record is missing", where=where, remedy="the file looks cut off; fetch it again")


def _record(line: bytes, where: str) -> tuple[int, int, bytes]:
    if line[:1] != b":":
        raise InputError("not a record of an Intel hex file", where=where)
    try:
        raw = bytes.fromhex(line[1:].decode("ascii"))
    except ValueError:
        raise InputError("not hexadecimal", where=where) from None
    if len(raw) < 5 or len(raw) != raw[0] + 5:
        raise InputError("the record has the wrong length", where=where)
    if sum(raw) & 0xFF:
        raise InputError("wrong checksum", where=where, remedy="the file is damaged; fetch it again")
    kind, data = raw[3], raw[4:-1]
    if kind != _DATA and _ADDRESS_BYTES.get(kind) != len(data):
        raise InputError(f"record type {kind} is unknown or malformed", where=where)
    return kind, int.from_bytes(raw[1:3], "big"), data


def _sorted(runs: list[tuple[int, bytearray]], where: str) -> list[tuple[int, bytes]]:
    """Ascending and joined; two records for one address are an error."""
    result: list[tuple[int, bytearray]] = []
    for address, data in sorted(runs, key=lambda run: run[0]):
        end = result[-1][0] + len(result[-1][1]) if result else -1
        if address < end:
            raise InputError(f"address {address:#x} is written twice", where=where)
        if address == end:
            result[-1][1].extend(data)
        else:
            result.append((address, data))
    return [(address, bytes(data)) for address, data in result]


MAX_FILE_BYTES = 1 << 29
_BARE = (".raw", ".bin")


@dataclass(frozen=True)
class InitialBytes:
    """Bytes that lie at an address before the first inference."""

    address: int
    data: bytes
    source: Path

    @property
    def end(self) -> int:
        return self.address + len(self.data)


@dataclass(frozen=True)
class Need:
    """The part of a pool that the network's constants occupy."""

    pool: DeclaredPool
    end: int  # first address behind the last constant
    constant: str  # name of that last constant


def needs(network: CompiledNetwork) -> tuple[Need, ...]:
    """Which pools must be initialised, and how far."""
    last: dict[int, Need] = {}
    for param in network.params:
        if param.size_bytes == 0:
            continue
        pool = pool_at(network, param.address)
        if pool is None:
            raise InputError(
                f"constant {param.name} lies at {param.address:#x}, in no memory pool",
                where=str(network.c_file),
                remedy="the file is damaged; generate or fetch it again",
            )
        end = param.address + param.size_bytes
        if pool.index not in last or end > last[pool.index].end:
            last[pool.index] = Need(pool, end, param.name)
    return tuple(last.values())


def pool_at(network: CompiledNetwork, address: int) -> DeclaredPool | None:
    """The pool that holds an address; a real one rather than a virtual one."""
    holders = [p for p in network.pools if p.base <= address < p.base + p.size_bytes]
    return min(holders, key=lambda p: (p.virtual, p.size_bytes), default=None)


def load_initialisers(
    network: CompiledNetwork, files: Sequence[Path] | None = None, *, search: Sequence[Path] = ()
) -> tuple[InitialBytes, ...]:
    """All initial contents; `files` names them, otherwise they are found beside the C file (or in `search`)."""
    if network.weights_encrypted:
        raise UnsupportedError(
            "the weights are encrypted, or are to be",
            where=str(network.c_file),
            rule="the cipher is not public, so nothing but the chip knows what engines read",
            remedy="compile without --encrypt-weights: the program is the same in plain",
        )
    required = needs(network)
    folders = [folder for folder in (network.directory, *search) if folder.is_dir()]
    segments: list[InitialBytes] = []
    for path in files if files is not None else []:
        segments += _load(path, network, required)
    if files is None:
        for need in required:
            if not any(s.address <= need.pool.base and s.end >= need.end for s in segments):
                segments += _find(need, network, folders, required)
    for need in required:
        _check_covered(segments, need, network)
    _check_disjoint(segments)
    return tuple(segments)


def _find(
    need: Need, network: CompiledNetwork, folders: Sequence[Path], required: tuple[Need, ...]
) -> list[InitialBytes]:
    for folder in folders:
        for name in candidate_names(network.stem, need.pool.postfix):
            path = folder / name
            if path.is_file():
                return _load(path, network, required, need.pool)
    same_size = _of_size(need.end - need.pool.base, folders)
    if len(same_size) == 1:
        return _load(same_size[0], network, required, need.pool)
    for folder in folders:
        for path in sorted(folder.glob("*.c"))[:64]:
            array = c_array_bytes(path, f"_mem_pool_{need.pool.postfix}_{network.name}")
            if array is not None:
                return [_segment(need.pool, array, path)]
    return []


def _of_size(size_bytes: int, folders: Sequence[Path]) -> list[Path]:
    """Bare files of exactly this size: the compiler writes no byte more than the constants need."""
    files = (path for folder in folders for path in sorted(folder.iterdir())[:1000])
    return [p for p in files if p.suffix.lower() in _BARE and p.is_file() and p.stat().st_size == size_bytes]


def candidate_names(stem: str, postfix: str) -> list[str]:
    """File names that ST's tools and example projects use for a pool's contents, the most specific first."""
    bare = [f"{stem}_atonbuf.{postfix}", f"{stem}_data.{postfix}", f"atonbuf.{postfix}", f"{stem}.{postfix}"]
    return [f"{name}{suffix}" for name in bare for suffix in (*_BARE, ".hex")] + [
        f"{stem}_data.hex",
        f"{stem}_data.bin",
        f"{stem}_atonbuf.hex",
    ]


def _check_length(segment: InitialBytes, need: Need | None) -> None:
    """Bytes behind the last constant may only be padding: a longer file is one of another compilation."""
    used = need.end - segment.address if need is not None else len(segment.data)
    extra = segment.data[used:]
    if extra.strip(b"\0") and extra.strip(b"\xff"):
        raise InputError(
            f"too long: {len(segment.data)} bytes, but the constants end at {used}",
            where=str(segment.source),
            remedy="check that file and network belong to the same compilation",
        )


def _load(
    path: Path, network: CompiledNetwork, required: Sequence[Need], pool: DeclaredPool | None = None
) -> list[InitialBytes]:
    if path.suffix.lower() in (".hex", ".ihex"):
        return [InitialBytes(address, data, path) for address, data in read_hex(path)]
    pool = pool or _pool_of_name(path, network, required)
    if path.suffix.lower() == ".c":
        array = c_array_bytes(path, f"_mem_pool_{pool.postfix}_{network.name}")
        if array is None:
            raise InputError(f"no array _mem_pool_{pool.postfix}_{network.name} in it", where=str(path))
        return [_segment(pool, array, path)]
    segment = _segment(pool, read_file(path, MAX_FILE_BYTES), path)
    _check_length(segment, next((n for n in required if n.pool == pool), None))
    return [segment]


def _pool_of_name(path: Path, network: CompiledNetwork, required: Sequence[Need]) -> DeclaredPool:
    """`x.xSPI2.raw` belongs to the pool xSPI2; without such a name, to the only pool that needs contents."""
    parts = path.name.split(".")
    named = network.pool(parts[-2]) if len(parts) >= 3 else None
    if named is not None:
        return named
    if len(required) == 1:
        return required[0].pool
    raise InputError(
        "the file name does not tell which memory pool it belongs to",
        where=str(path),
        remedy=f"name it like {network.stem}_atonbuf.{required[0].pool.postfix if required else 'POOL'}.raw",
    )


def _segment(pool: DeclaredPool, data: bytes, path: Path) -> InitialBytes:
    rounded = -(-pool.size_bytes // 64) * 64  # the compiler keeps the last 8 bytes of a pool free
    if len(data) > rounded:
        raise InputError(
            f"{len(data)} bytes do not fit pool {pool.postfix} of {pool.size_bytes} bytes",
            where=str(path),
            remedy="check that file and network belong to the same compilation",
        )
    return InitialBytes(pool.base, data, path)


def _check_covered(segments: list[InitialBytes], need: Need, network: CompiledNetwork) -> None:
    pool = need.pool
    inside = [s for s in segments if s.address < pool.base + pool.size_bytes and pool.base < s.end]
    if not inside:
        others = f" ({segments[0].source.name} starts at {segments[0].address:#x})" if segments else ""
        raise InputError(
            f"no initial contents for pool {pool.postfix} at {pool.base:#x}, which holds {need.constant}{others}",
            where=str(network.c_file),
            remedy=f"put {network.stem}_atonbuf.{pool.postfix}.raw into {network.directory} or name the file",
        )
    for param in network.params:
        start, end = param.address, param.address + param.size_bytes
        if pool.base <= start < need.end and not any(s.address <= start and end <= s.end for s in inside):
            held = max(s.end for s in inside) - pool.base
            raise InputError(
                f"too short for pool {pool.postfix}: {held} bytes, but {param.name} needs {start - pool.base} to "
                f"{end - pool.base}",
                where=str(inside[0].source),
                remedy="the file is cut off or belongs to another compilation",
            )


def _check_disjoint(segments: list[InitialBytes]) -> None:
    ordered = sorted(segments, key=lambda s: s.address)
    for left, right in pairwise(ordered):
        if right.address < left.end:
            raise InputError(
                f"{left.source.name} and {right.source.name} both initialise {right.address:#x}",
                where=str(right.source),
                remedy="keep only the files of this network, or name them",
            )
