"""Generated `*_ecblobs.h` headers: the stored blobs, and which C variable each relocation symbol is bound to.

Only a fixed shape of C occurs in these files, so they are tokenised directly: megabytes of numbers are no work for a
general parser. An array that holds anything but numbers, or no blob, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from atonc.machine.base.disk import read_text
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.ec.blob import Container, read_container

MAX_HEADER_BYTES = 1 << 26
MAX_BLOBS = 4096
_MAX_ARRAY = 1 << 22

# Possessive throughout: a hostile file must not cost quadratic time. What is not closed ends with the line or file.
_COMMENT_OR_STRING = re.compile(r'/\*.*?(?:\*/|\Z)|//[^\n]*+|"(?:\\.|[^"\\\n])*+"?', re.DOTALL)
_ARRAY = re.compile(r"\buint64_t\s++([A-Za-z_]\w*+)\s*+\[\s*+(\w*+)\s*+\]\s*+(=\s*+\{|;)")
_DEFINE = re.compile(r"^[ \t]*+#[ \t]*+define[ \t]++([A-Za-z_]\w*+)[ \t]++(\S[^\n]*+)", re.MULTILINE)
_NUMBER = r"(?:0[xX][0-9a-fA-F]{1,16}|[1-9][0-9]{0,19}|0)"
_NUMBERS = re.compile(_NUMBER)
_NUMBER_LIST = re.compile(rf"\s*+(?:{_NUMBER}[uUlL]{{0,3}}+\s*+(?:,\s*+|$))++")
_IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*")
_STORED_SUFFIXES = ("_reloc", "_binary")


@dataclass(frozen=True)
class Binding:
    """A relocation symbol and the C expression of its base address."""

    symbol: str
    expression: str
    variable: str | None
    address: int | None


@dataclass(frozen=True)
class HeaderBlob:
    """One stored blob; `name` is what the network calls it, `array` the C array that holds it."""

    name: str
    array: str
    container: Container
    bindings: tuple[Binding, ...]


@dataclass(frozen=True)
class BlobHeader:
    """All blobs of a header, in file order, and the other names under which the network finds them."""

    blobs: tuple[HeaderBlob, ...]
    aliases: Mapping[str, str]
    defines: Mapping[str, str]

    def find(self, name: str) -> HeaderBlob:
        """The blob behind a C name such as `_ec_blob_1` or `_ec_blob_net_1_address`."""
        for _ in range(4):  # an alias may name an alias; more than that is a loop
            for blob in self.blobs:
                if blob.name == name:
                    return blob
            name = self.aliases.get(name, name)
        raise InputError(f"no blob is called {name}", remedy="check that header and network are one compilation")


def read_header_file(path: Path) -> BlobHeader:
    """Read a header from disk."""
    return read_header(read_text(path, MAX_HEADER_BYTES), str(path))


def read_header(text: str, where: str = "header") -> BlobHeader:
    """All blobs that the header's text holds; none is fine (a network without epoch controller)."""
    text = _COMMENT_OR_STRING.sub(" ", text)
    defines = {match[1]: match[2].rstrip() for match in _DEFINE.finditer(text)}
    stored, runtime = _arrays(text, where)
    if len(stored) > MAX_BLOBS:
        raise InputError(f"{len(stored)} blobs are more than any network has", where=where)
    blobs = tuple(_blob(array, words, runtime, defines, where) for array, words in stored.items())
    return BlobHeader(blobs, _aliases(blobs, runtime, defines), defines)


def _arrays(text: str, where: str) -> tuple[dict[str, list[int]], set[str]]:
    """32-bit words of the initialised arrays, and the names of the arrays filled at run time."""
    stored: dict[str, list[int]] = {}
    runtime: set[str] = set()
    position = 0
    while match := _ARRAY.search(text, position):
        name, size, opening = match.groups()
        position = match.end()
        if name in stored or name in runtime:
            raise InputError(f"array {name} is defined twice", where=where)
        if opening == ";":
            runtime.add(name)
            continue
        end = text.find("}", position)
        if end < 0:
            raise InputError(f"array {name} has no closing brace", where=where, remedy="the file is truncated")
        stored[name] = _array_words(text[position:end], size, f"{where}, array {name}")
        position = end
    return stored, runtime


def _array_words(body: str, size: str, where: str) -> list[int]:
    if not _NUMBER_LIST.fullmatch(body):
        raise _not_numbers(body, where)
    numbers = [int(number, 0) for number in _NUMBERS.findall(body)]
    if max(numbers) >> 64:
        raise InputError(f"{max(numbers)} is more than 64 bits", where=where)
    declared = _declared_size(size, where)
    if declared is not None:
        if len(numbers) > declared:
            raise InputError(f"{len(numbers)} numbers in an array of {declared}", where=where)
        numbers += [0] * (declared - len(numbers))  # as C does
    words: list[int] = np.array(numbers, dtype="<u8").view("<u4").tolist()
    return words


def _not_numbers(body: str, where: str) -> InputError:
    one = re.compile(rf"\s*{_NUMBER}[uUlL]{{0,3}}\s*")
    texts = body.split(",")
    index, text = next(((i, t) for i, t in enumerate(texts) if not one.fullmatch(t)), (len(texts), ""))
    shown = text.strip()[:40] or "nothing"
    return InputError(f"number {index} of the array is {shown!r}", where=where, remedy="get an undamaged copy")


def _declared_size(size: str, where: str) -> int | None:
    if not size:
        return None
    digits = size.rstrip("uUlL")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10 and int(digits) <= _MAX_ARRAY):
        raise InputError(f"array size {size} is not a number below {_MAX_ARRAY}", where=where)
    return int(digits)


def _blob(array: str, words: list[int], runtime: set[str], defines: Mapping[str, str], where: str) -> HeaderBlob:
    name = _network_name(array, runtime)
    where = f"{where}, array {array}"
    if _is_encrypted(name, defines):
        raise InputError("the blob is encrypted", where=where, remedy="compile the network without encryption")
    container = read_container(words, where)
    bindings = [_binding(name, i, r.symbol, defines, where) for i, r in enumerate(container.relocations)]
    return HeaderBlob(name, array, container, tuple(binding for binding in bindings if binding))


def _is_encrypted(name: str, defines: Mapping[str, str]) -> bool:
    network = name.removeprefix("_ec_blob_").rpartition("_")[0]
    keys = (f"EC_DECRYPT_{name}", f"LL_ATON_EC_MustDecryptBlob_{network}_{name}")
    return any(defines.get(key, "false") not in ("false", "0") for key in keys)


def _network_name(array: str, runtime: set[str]) -> str:
    """Blobs to be relocated are stored under another name than the copy that runs."""
    for suffix in _STORED_SUFFIXES:
        if array.endswith(suffix) and array.removesuffix(suffix) in runtime:
            return array.removesuffix(suffix)
    return array


def _binding(blob: str, index: int, symbol: str, defines: Mapping[str, str], where: str) -> Binding | None:
    key = f"{blob}_{symbol}"
    number = defines.get(f"{key}_RELOC_IDX", str(index))
    if number != str(index):
        raise InputError(f"{symbol} is relocation {index}, but the header says {number}", where=where)
    expression = defines.get(f"{key}_BASE_SYMBOL")
    if expression is None:
        return None
    names = [n for n in _IDENTIFIER.findall(expression) if n not in ("unsigned", "char", "uintptr_t", "uint8_t")]
    numbers = re.findall(rf"\b({_NUMBER})[uUlL]*\b", expression)
    address = int(numbers[0], 0) if len(numbers) == 1 and not names else None
    return Binding(symbol, expression, names[0] if len(names) == 1 else None, address)


def _aliases(blobs: tuple[HeaderBlob, ...], runtime: set[str], defines: Mapping[str, str]) -> dict[str, str]:
    names = {blob.name for blob in blobs}
    aliases = {blob.array: blob.name for blob in blobs if blob.array != blob.name}
    aliases |= {name: name.removesuffix("_ptr") for name in runtime if name.removesuffix("_ptr") in names - {name}}
    known = names | set(aliases)
    return aliases | {key: value for key, value in defines.items() if value in known}
