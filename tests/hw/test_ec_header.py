"""Generated headers: stored arrays, names, bindings of relocation symbols, and damaged files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from atonc.machine.base.errors import InputError
from atonc.machine.hw.ec.blob import Blob, Container
from atonc.machine.hw.ec.header import read_header, read_header_file
from atonc.machine.hw.ec.text import container_of
from tests.hw.ec_programs import sample_program
from tests.patience import growth, no_hang

RELOCATED = container_of(sample_program(), 0x20)
BARE = Container(Blob((0x3DD, 0xC)))


def array(name: str, container: Container, size: str = "") -> str:
    numbers = np.frombuffer(container.to_bytes(), dtype="<u8")
    body = ",\n  ".join(f"{number:#018x}UL" for number in numbers.tolist())
    return f"SECTION\nstatic const uint64_t {name} [{size}] =\n{{\n  {body}\n}};\n"


def binding(blob: str, index: int, symbol: str, expression: str) -> str:
    return (
        f"#define {blob}_{symbol}_RELOC_IDX {index}    // index\n"
        f"#define {blob}_{symbol}_BASE_SYMBOL {expression}    // base\n"
    )


def bindings(blob: str) -> str:
    return binding(blob, 0, "_user_io_input_0", "((unsigned char *)_mem_pool_in)") + binding(
        blob, 1, "_user_io_output_0", "((unsigned char *)(0x34200000UL))"
    )


def test_older_headers() -> None:
    text = array("_ec_blob_1_reloc", RELOCATED) + "static uint64_t _ec_blob_1[99];\n" + bindings("_ec_blob_1")
    header = read_header(text + array("_ec_blob_7", BARE))
    first, second = header.blobs
    assert (first.name, first.array, first.container) == ("_ec_blob_1", "_ec_blob_1_reloc", RELOCATED)
    assert (second.name, second.container) == ("_ec_blob_7", BARE)
    assert [(b.symbol, b.variable, b.address) for b in first.bindings] == [
        ("_user_io_input_0", "_mem_pool_in", None),
        ("_user_io_output_0", None, 0x3420_0000),
    ]
    assert header.find("_ec_blob_1") is first
    assert header.find("_ec_blob_1_reloc") is first


def test_newer_headers() -> None:
    text = (
        array("_ec_blob_net_1", RELOCATED)
        + "static uint64_t _ec_blob_net_1_ptr[99];\n#define _ec_blob_net_1_address _ec_blob_net_1_ptr\n"
        + bindings("_ec_blob_net_1")
        + array("_ec_blob_net_2", BARE, "8")
        + "#define _ec_blob_net_2_address _ec_blob_net_2\n#define LL_ATON_EC_MustDecryptBlob_net__ec_blob_net_2 false\n"
    )
    header = read_header(text)
    assert header.find("_ec_blob_net_1_address").container == RELOCATED
    assert header.find("_ec_blob_net_2_address").container.blob == BARE.blob
    assert len(header.find("_ec_blob_net_2").container.words()) == 16
    assert len(header.blobs[0].bindings) == 2


def test_names_of_version_0x30() -> None:
    header = read_header(array("_ec_blob_n_1_binary", RELOCATED) + "static uint64_t _ec_blob_n_1[9];\n")
    assert header.find("_ec_blob_n_1").bindings == ()


def test_comments_and_strings_hide_nothing() -> None:
    noise = '/* static const uint64_t _ec_blob_0[] = { 1 }; */ // uint64_t x[] = {\nconst char *s = "/*";\n'
    assert [blob.name for blob in read_header(noise + array("_ec_blob_1", BARE) + noise).blobs] == ["_ec_blob_1"]


def test_decimal_and_mixed_numbers() -> None:
    text = "static const uint64_t b[2u] = { 4261766778, 0X0000000C000003ddull, };"
    assert read_header(text.replace("4261766778", str(0x2_CA05_7A7A))).blobs[0].container.blob == BARE.blob


def test_headers_without_blobs(tmp_path: Path) -> None:
    path = tmp_path / "network_ecblobs.h"
    path.write_bytes(b"\xef\xbb\xbf#pragma once\n")
    assert read_header_file(path).blobs == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("static const uint64_t b[] = { 0x00000002ca057a7aUL,", "no closing brace"),
        ("static const uint64_t b[] = { };", "number 0 of the array is 'nothing'"),
        ("static const uint64_t b[] = { 1, , 2 };", "number 1 of the array is 'nothing'"),
        ("static const uint64_t b[] = { 1, 0x####UL };", "number 1 of the array is '0x####UL'"),
        ("static const uint64_t b[] = { 1, {2} };", "number 1"),
        ("static const uint64_t b[] = { 0x10000000000000000 };", "number 0"),
        ("static const uint64_t b[] = { 99999999999999999999 };", "more than 64 bits"),
        ("static const uint64_t b[] = { -1 };", "number 0"),
        ("static const uint64_t b[] = { 1_0 };", "number 0"),
        ("static const uint64_t b[1] = { 1, 2 };", "2 numbers in an array of 1"),
        ("static const uint64_t b[N] = { 1, 2 };", "array size N"),
        ("static const uint64_t b[99999999] = { 1 };", "array size 99999999"),
        ("static const uint64_t b[] = { 1 };", "neither a blob nor a container"),
        (array("b", BARE) * 2, "defined twice"),
        (array("_ec_blob_1", BARE) + "#define EC_DECRYPT__ec_blob_1 true\n", "encrypted"),
        (array("_ec_blob_n_1", BARE) + "#define LL_ATON_EC_MustDecryptBlob_n__ec_blob_n_1 true\n", "encrypted"),
        (array("b", RELOCATED) + binding("b", 1, "_user_io_input_0", "x"), "is relocation 0, but the header says 1"),
    ],
)
def test_damaged_headers(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_header(text)


def test_missing_names_and_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no blob is called x"):
        read_header(array("_ec_blob_1", BARE) + "#define x y\n#define y x\n").find("x")
    with pytest.raises(InputError, match="there is no such file"):
        read_header_file(tmp_path / "none.h")
    with pytest.raises(InputError, match="is a folder"):
        read_header_file(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "/*" * 300_000,
        '"\\' * 300_000,
        "uint64_t " * 100_000,
        "uint64_t a [" + " " * 300_000 + "x",
        "#define a b" + " " * 300_000 + "c",
        "uint64_t a[]={" + "1 " * 300_000 + "}",
    ],
)
def test_hostile_headers_cost_no_quadratic_time(text: str) -> None:
    try:
        with no_hang(20):  # a moment; each position times each position takes minutes
            read_header(text)
    except InputError as error:
        assert error.what


def test_large_headers_are_read_in_one_walk() -> None:
    def reading(words: int) -> Callable[[], object]:
        big = Container(Blob(tuple([0x3DD] * words)))
        text = array("_ec_blob_1", big)
        assert read_header(text).blobs[0].container == big
        return lambda: read_header(text)

    assert growth(reading, 2000) < 2.2
    with no_hang(20):
        reading(120_000)
