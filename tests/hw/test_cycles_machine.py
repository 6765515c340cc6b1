"""The machine description, ST's machine files, and pool files in both dialects."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.machine.base.errors import InputError
from atonc.machine.hw.machine import parse_json, read_machine, read_mdesc, secure, stm32n6
from atonc.machine.hw.mpool import parse_mpool, read_mpool

BY_HAND = """
{
  // what a person writes
  "params": { "param": [ { "paramname": "max_onchip_sram_size", "value": "1024", "magnitude": "KBYTES" }, ] },
  "memory": {
    "mem_file_prefix": "atonbuf",
    "mempools": [
      { "fname": "AXISRAM5", "name": "npuRAM5", "fformat": "FORMAT_RAW",
        "prop": { "rights": "ACC_WRITE", "throughput": "HIGH", "latency": "LOW", "byteWidth": 8, "freqRatio": 1.25,
                  "read_power": 18.5, "write_power": 16.2 },
        "offset": { "value": "0x342e0000", "magnitude": "BYTES" },
        "size": { "value": "448", "magnitude": "KBYTES" }, },
      /* constants only */
      { "fname": "xSPI2", "name": "octoFlash", "fformat": "FORMAT_RAW", "mode": "USEMODE_RELATIVE",
        "prop": { "rights": "ACC_READ", "throughput": "MID", "latency": "HIGH", "byteWidth": 1, "freqRatio": 6.00,
                  "cacheable": "CACHEABLE_ON", "constants_preferred": "true" },
        "offset": { "value": "0x70380000" }, "size": { "value": "61", "magnitude": "MBYTES" } },
      { "fname": "AXISRAM1", "name": "cpu,]RAM1 // not a comment", "prop": { "byteWidth": 8, "freqRatio": 2.5 },
        "size": { "value": "0" } },
    ],
  },
}
"""
SAVED = """
{ "memory": { "memFilePrefix": "net", "mempools": [
  { "fname": "AXISRAM3", "name": "npuRAM3", "fformat": "FORMAT_RAW",
    "prop": { "rights": "ACC_WRITE", "throughput": "HIGH", "latency": "LOW", "byteWidth": 8, "freqRatio": 1.25,
              "burstMaxLength": 4294967295, "burstPenalty": 0, "pipelined": "PIPELINED_ON",
              "cacheable": "CACHEABLE_OFF", "readPower": 18.531, "writePower": 16.201, "constantsPreferred": true },
    "offset": { "value": "834", "magnitude": "MBYTES" }, "size": { "value": "448", "magnitude": "KBYTES" },
    "mode": "USEMODE_ABSOLUTE", "busNode": 0 },
  { "fname": "params", "name": "ec params pool", "fformat": "FORMAT_C", "mode": "USEMODE_RELATIVE",
    "prop": { "byteWidth": 2, "freqRatio": 1 }, "size": { "value": "9223372036854775776", "magnitude": "BYTES" } }
] } }
"""
MDESC = """
{ "externals": { "mpool_name": "m" },
  "machine": { "name": "little", "frequency": 800, "switches": [ { "num": 1, "type": "STRSWITCH" } ],
    "accelerators": [
      { "index": 0, "num": 2, "type": "CONVACC", "power": 30.1 },
      { "index": 0, "num": 3, "type": "STRENG", "params": [ { "name": "MEM_PORT", "val": 0 } ] },
      { "index": 3, "num": 2, "type": "STRENG", "params": [ { "name": "MEM_PORT", "val": 1 } ] }, ] } }
"""


def test_pools_as_written_by_hand() -> None:
    file = parse_mpool(BY_HAND)
    ram, flash, unused = file.pools
    assert (ram.name, ram.postfix, ram.base, ram.size_bytes) == ("npuRAM5", "AXISRAM5", 0x342E0000, 448 << 10)
    assert (ram.writable, ram.absolute, ram.cacheable, ram.constants_preferred) == (True, True, False, False)
    assert (flash.writable, flash.absolute, flash.cacheable, flash.constants_preferred) == (False, False, True, True)
    assert (flash.timing.cycles_per_byte, flash.size_bytes) == (6.0, 61 << 20)
    assert unused.name == "cpu,]RAM1 // not a comment"
    assert [pool.name for pool in file.timings()] == ["npuRAM5", "octoFlash"]


def test_pools_as_saved_by_the_compiler(tmp_path: Path) -> None:
    path = tmp_path / "saved.mpool"
    path.write_text(SAVED)
    file = read_mpool(path)
    assert (file.file_prefix, file.pools[0].base, file.pools[0].constants_preferred) == ("net", 0x3420_0000, True)
    assert (file.pools[0].read_power, file.pools[1].size_bytes) == (18.531, 2**63 - 32)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", '{"memory": 3}', '{"memory": {"mempools": {}}}', '{"memory": {"mempools": [7]}}',
        '{"memory": {"mempools": []}}', '{"memory": {"mempools": [{"name": "a", "prop": {"byteWidth": "x"}}]}}',
        '{"memory": {"mempools": [{"name": "a", "prop": {"byteWidth": 0}}]}}',
        '{"memory": {"mempools": [{"name": "a", "prop": {"freqRatio": 1e999}}]}}',
        '{"memory": {"mempools": [{"name": "a", "prop": {"freqRatio": NaN}}]}}',
        '{"memory": {"mempools": [{"name": "a", "size": {"value": "-1"}}]}}',
        '{"memory": {"mempools": [{"name": "a", "size": {"value": "1", "magnitude": "TBYTES"}}]}}',
        '{"memory": {"mempools": [{"name": "a", "size": {"value": "' + "9" * 5000 + '"}}]}}',
        "[" * 100_000, '{"a": ' * 100_000, '"' * 100_001, "/*" * 50_000, '{"a": ' + "9" * 10_000 + "}",
    ],
)  # fmt: skip
def test_broken_pool_files_give_one_sentence(text: str) -> None:
    with pytest.raises(InputError):
        parse_mpool(text)


def test_comments_and_trailing_commas_inside_texts_stay() -> None:
    assert parse_json('{"a": "x, ] // y /* z", /* , */ "b": [1, 2, /*,*/ ],}') == {
        "a": "x, ] // y /* z", "b": [1, 2],
    }  # fmt: skip


def test_the_machine_is_the_stm32n6() -> None:
    machine = stm32n6()
    assert (machine.units["STRENG"], machine.units["CONVACC"], machine.clocks.npu_mhz) == (10, 4, 1000)
    assert sorted(k for engines in machine.engine_ports.values() for k in engines) == list(range(10))
    for one in machine.memories:
        assert not any(o.base < one.end and one.base < o.end for o in machine.memories if o is not one)
    assert [machine.memory_at(a).name for a in (0x3420_0000, 0x2427_0000, 0x7038_0000)] == [  # type: ignore[union-attr]
        "npuRAM3", "npuRAM4", "octoFlash",
    ]  # fmt: skip
    assert machine.memory_at(0x1000) is None
    assert secure(0x2410_0000) == 0x3410_0000 and secure(0x7038_0000) == 0x7038_0000
    assert {pool.name for pool in machine.pool_timings()} >= {"npuRAM3", "octoFlash"}


def test_a_machine_file_by_st(tmp_path: Path) -> None:
    path = tmp_path / "little.mdesc"
    path.write_text(MDESC)
    machine = read_machine(path)
    assert (machine.name, machine.units) == ("little", {"STRSWITCH": 1, "CONVACC": 2, "STRENG": 5})
    assert machine.engine_ports == {0: (0, 1, 2), 1: (3, 4)}
    assert machine.clocks.npu_mhz == 800
    assert machine.timing.noc_beat == pytest.approx(2.0)


@pytest.mark.parametrize(
    "text",
    [
        "{}", '{"machine": {"accelerators": [{"num": 2}]}}',
        '{"machine": {"accelerators": [{"type": "STRENG", "num": 1e6}]}}',
        '{"machine": {"frequency": 0, "accelerators": [{"type": "STRENG"}]}}',
        '{"machine": {"accelerators": [{"type": "STRENG", "params": 5}]}}',
    ],
)  # fmt: skip
def test_broken_machine_files_give_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.mdesc"
    path.write_text(text)
    with pytest.raises(InputError):
        read_mdesc(path)


def test_missing_and_damaged_machine_descriptions(tmp_path: Path) -> None:
    for name, text in (("none.toml", None), ("bad.toml", "= 3"), ("short.toml", 'name = "x"'), ("gone.mdesc", None)):
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
        with pytest.raises(InputError):
            read_machine(path)
    with pytest.raises(InputError):
        stm32n6().with_clocks(noc_mhz=-1)
