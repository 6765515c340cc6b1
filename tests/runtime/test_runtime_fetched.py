"""Published networks with this runtime: they compile as they are, and their driver calls write the proven registers.

Needs ATONC_FETCHED, a folder of networks compiled by ST's tool.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from pathlib import Path

import pytest

from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.files.initialisers import load_initialisers
from atonc.machine.emu.files.network_c import read_network
from atonc.machine.emu.files.types import CompiledNetwork
from atonc.machine.emu.network import memory_of
from atonc.machine.hw import ll, regs
from tests.runtime import host
from tests.runtime.test_runtime_build import arm_tool
from tests.runtime.test_runtime_drivers import cpu_stores

FETCHED = os.environ.get("ATONC_FETCHED", "")
VERSION = re.compile(r"LL_ATON_VERSION_MICRO != (\d+).*LL_ATON_VERSION_DEV != (\d+)")
MAP_FLAGS = 0x100022  # private, anonymous, at this place if it is free
pytestmark = pytest.mark.skipif(not FETCHED, reason="ATONC_FETCHED names no folder of published networks")


def complete_networks() -> list[Path]:
    """C files whose blobs are there too, and that nobody has filled with other text."""
    result = []
    for path in sorted(Path(FETCHED).rglob("*.c")):
        text = path.read_text(errors="replace") if path.stat().st_size < 1 << 25 else ""
        includes = re.findall(r'#include "(\w+_ecblobs\.h)"', text)
        if "LL_ATON_EpochBlockItems_" in text and "##" not in text and VERSION.search(text):
            result += [path] if all((path.parent / name).exists() for name in includes) else []
    return result


def version_defines(path: Path) -> list[str]:
    found = VERSION.search(path.read_text(errors="replace"))
    assert found is not None
    return [f"LL_ATON_VERSION_MICRO={found[1]}", f"LL_ATON_VERSION_DEV={found[2]}"]


def test_networks_compile_unchanged(tmp_path: Path) -> None:
    networks = complete_networks()
    compiler = arm_tool("gcc")
    for path in networks:
        # generated code leaves parameters and tables unused; two headers of tables mention another release
        quiet = ["-Wno-unused-parameter", "-Wno-unused-variable", "-Wno-cpp", "-Wno-strict-aliasing"]
        flags = ["-std=gnu11", "-mcpu=cortex-m55", "-O1", *host.WARNINGS, *quiet]
        defines = [f"-D{d}" for d in version_defines(path)]
        command = [compiler, *flags, *defines, f"-I{host.RUNTIME / 'include'}", "-c", str(path), "-o"]
        done = subprocess.run([*command, str(tmp_path / "network.o")], capture_output=True, text=True, check=False)
        if "LL_ATON_LIB_Pad" in done.stderr:
            continue  # a float network; its padding is not part of this runtime
        assert done.returncode == 0, (path, done.stderr[:2000])
    assert networks


RUN = """
#include "ll_aton_runtime.h"
LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(@NET@)
int run_network(void);
int run_network(void) {
    LL_ATON_RT_RuntimeInit();
    LL_ATON_RT_Init_Network(&NN_Instance_@NET@);
    while (LL_ATON_RT_RunEpochBlock(&NN_Instance_@NET@) != LL_ATON_RT_DONE) {
    }
    return (int)atonc_rt_status(&NN_Instance_@NET@).code;
}
"""


def map_memory(network: CompiledNetwork) -> bool:
    """The network's memories at their true addresses in this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    memory = memory_of(network)
    for segment in load_initialisers(network, None):
        memory.view(segment.address, len(segment.data))[:] = bytearray(segment.data)
    for region in memory.regions:
        size = (region.data.size + 4095) // 4096 * 4096
        if libc.mmap(region.base, size, 3, MAP_FLAGS, -1, 0) != region.base:
            return False
        ctypes.memmove(region.base, region.data.ctypes.data, region.data.size)
    return True


def run_and_compare(path: Path, folder: Path) -> int:
    network = read_network(path.parent, path.stem)
    if not map_memory(network):
        pytest.skip("the addresses of the chip's memories are taken in this process")
    source = folder / "run.c"
    source.write_text(RUN.replace("@NET@", network.name))
    flags = ["LL_ATON_RT_MODE=LL_ATON_RT_POLLING", *version_defines(path)]
    library = host.build(folder, [source, path], flags, strict=False)
    assert library.run_network() == 0
    calls = [c for block in network.blocks for c in (*block.start_calls, *block.end_calls) if ll.is_driver_call(c.name)]
    memory = memory_of(network)
    for segment in load_initialisers(network, None):
        memory.view(segment.address, len(segment.data))[:] = bytearray(segment.data)
    program = ll.driver_program(
        calls, lambda address, size: memory.view(address, size).tobytes(), ll.generation_of(network.atonn_version)
    )
    runtime = {regs.UNIT_BY_NAME[name].id for name in ("INTCTRL0", "BUSIF0", "BUSIF1", "EPOCHCTRL0")}
    found = [store for store in host.stores(library) if store[0] not in runtime][5:]  # clocks at the start
    assert found == cpu_stores(program)
    return len(found)


def test_driver_calls_of_networks_without_controller(tmp_path: Path) -> None:
    """Each network in a process of its own: they share addresses."""
    compared = 0
    for number, path in enumerate(complete_networks()):
        if "LL_Convacc_Init(" not in path.read_text(errors="replace") or "trace" in path.name:
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        child = os.fork()
        if child == 0:
            try:
                code = 0 if run_and_compare(path, folder) > 1000 else 2
            except AtoncError:
                code = 3  # initialisers are missing
            except BaseException as error:
                (folder / "error.txt").write_text(f"{path}: {error}"[:4000])
                code = 1
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 3), (path, code, (folder / "error.txt").read_text() if code == 1 else "")
        compared += code == 0
    assert compared > 0
