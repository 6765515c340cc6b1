"""Zephyr: a module with the network, the runtime on Zephyr's threads and interrupts, a devicetree overlay, a sample.

Zephyr's own NPU driver switches clocks and resets on where the node `npu` is enabled, and the driver of AXISRAM3 to 6
where those nodes are; the overlay enables what the network uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from atonc.compiler.emit.c.names import word
from atonc.delivery.layouts import layout as ways
from atonc.delivery.layouts.layout import LICENCE, TOOL, FolderLayout, LayoutNetwork, LayoutRefusal
from atonc.delivery.layouts.runtime import runtime_files
from atonc.delivery.layouts.sample_main import sample_main
from atonc.machine.base.words import listed
from atonc.machine.hw.machine import secure
from atonc.machine.hw.mpool import MemoryPool

BOARD = "zephyr@stm32n6570-dk"
# what Zephyr's devicetree of the STM32N6 calls the NPU's memories, by address
NODES = {0x3420_0000: "axisram3", 0x3427_0000: "axisram4", 0x342E_0000: "axisram5", 0x3435_0000: "axisram6"}
_APPLICATION = (0x3400_0000, 0x3420_0000)  # AXISRAM1 and 2
_FLASH, _PARTITIONS_END = 0x7000_0000, 0x7042_0000  # where Zephyr's partitions of the discovery kit end
_DISCOVERY_KIT = "stm32n6570-dk"

_MODULE = """# {licence}
# Written by {tool}. Do not edit.
name: {module}
build:
  cmake: .
  kconfig: Kconfig
"""

_KCONFIG = """# {licence}
# Written by {tool}. Do not edit.

config ATONC_NETWORK_{macro}
{tab}bool "Network {name} on the NPU"
{tab}depends on STM32N6_NPU
{tab}help
{tab}  The network {name}, compiled for the NPU of the STM32N6, and the runtime that runs it.

config ATONC_NPU_IRQ_PRIORITY
{tab}int "Priority of the NPU's interrupt"
{tab}default 3
{tab}depends on STM32N6_NPU

config ATONC_NPU_WAKE_MS
{tab}int "Milliseconds after which a thread that waits for the NPU looks at its watchdog"
{tab}default 10
{tab}depends on STM32N6_NPU
"""

_CMAKE = """# {licence}
# Written by {tool}. Do not edit.

if(CONFIG_ATONC_NETWORK_{macro})
  dt_nodelabel(npu_path NODELABEL "npu" REQUIRED)
  dt_reg_addr(npu_base PATH ${{npu_path}})
  zephyr_compile_definitions(LL_ATON_OSAL=LL_ATON_OSAL_USER_IMPL ATON_BASE=${{npu_base}}UL{only})
  zephyr_include_directories(include runtime/include network)

  # once, however many modules of networks there are
  if(NOT TARGET atonc_runtime)
    zephyr_library_named(atonc_runtime)
    zephyr_library_sources(
      src/npu_zephyr.c
{runtime}    )
  endif()

  zephyr_library_named({module})
  zephyr_library_sources(
{sources}  )
endif()
"""

_OSAL = """/* {licence}
 * What the runtime asks of Zephyr, written by {tool}. Do not edit.
 */
#ifndef LL_ATON_OSAL_USER_IMPL_H
#define LL_ATON_OSAL_USER_IMPL_H

#include <zephyr/irq.h>
#include <zephyr/kernel.h>

extern struct k_sem atonc_npu_event;
extern struct k_mutex atonc_npu_lock;

/* A thread sleeps until the NPU's interrupt, or until it is time to look at the watchdog. */
#define LL_ATON_OSAL_WFE() ((void)k_sem_take(&atonc_npu_event, K_MSEC(CONFIG_ATONC_NPU_WAKE_MS)))
#define LL_ATON_OSAL_SIGNAL_EVENT() k_sem_give(&atonc_npu_event)
#define LL_ATON_OSAL_ENABLE_IRQ(line) irq_enable(NPU0_IRQn + (line))
#define LL_ATON_OSAL_DISABLE_IRQ(line) irq_disable(NPU0_IRQn + (line))
#define LL_ATON_OSAL_SET_PRIORITY(line, priority) ((void)0) /* src/npu_zephyr.c connects it with one */
#define LL_ATON_OSAL_LOCK_ATON() ((void)k_mutex_lock(&atonc_npu_lock, K_FOREVER))
#define LL_ATON_OSAL_UNLOCK_ATON() ((void)k_mutex_unlock(&atonc_npu_lock))

#endif
"""

_GLUE = """/* {licence}
 * The NPU's interrupt and clock under Zephyr, written by {tool}. Do not edit.
 */
#include <zephyr/init.h>
#include <zephyr/irq.h>
#include <zephyr/kernel.h>

#include "atonc_runtime.h"
#include "ll_aton_osal.h"

K_SEM_DEFINE(atonc_npu_event, 0, 1);
K_MUTEX_DEFINE(atonc_npu_lock);

/* For the runtime's watchdog. */
uint32_t atonc_tick_ms(void) {{ return k_uptime_get_32(); }}

static void npu_isr(const void *unused) {{
    ARG_UNUSED(unused);
    ATON_STD_IRQHandler();
}}

static int npu_connect(void) {{
    IRQ_CONNECT(ATON_STD_IRQn, CONFIG_ATONC_NPU_IRQ_PRIORITY, npu_isr, NULL, 0);
    return 0;
}}

SYS_INIT(npu_connect, POST_KERNEL, CONFIG_KERNEL_INIT_PRIORITY_DEVICE);
"""

_OVERLAY = """/* {licence}
 * What the network {name} needs of the STM32N6, written by {tool}. Do not edit.
 */
&npu {{
    status = "okay";
}};
{nodes}{partition}"""

_NODE = """
&{node} {{
    status = "okay";
}};
"""

_PARTITION = """
/* {file}.bin goes here */
&ext_flash {{
    partitions {{
        {label}: partition@{offset:x} {{
            compatible = "zephyr,mapped-partition";
            label = "{label}";
            reg = <{offset:#x} {size:#x}>;
        }};
    }};
}};
"""

_SAMPLE_CMAKE = """# {licence}
cmake_minimum_required(VERSION 3.20.0)
list(APPEND ZEPHYR_EXTRA_MODULES ${{CMAKE_CURRENT_SOURCE_DIR}}/..)
find_package(Zephyr REQUIRED HINTS $ENV{{ZEPHYR_BASE}})
project({module}_sample)
target_sources(app PRIVATE src/main.c)
"""

_SAMPLE_CONF = """# {licence}
CONFIG_ATONC_NETWORK_{macro}=y
CONFIG_MAIN_STACK_SIZE=8192
CONFIG_FPU=y
{library}"""

_MATHS = "CONFIG_REQUIRES_FULL_LIBC=y\n"  # layers on the CPU include math.h

_README = """# {name} as a Zephyr module

Written by {tool}; `docs/zephyr.md` of atonc says more.

    west build -b stm32n6570_dk {folder}/sample
{flash}
You should see the time of an inference and the first bytes of each output. `BAD_INITIALISER` means that the weights are
not where the network expects them.
{encryption}"""


def _files(given: LayoutNetwork) -> Mapping[str, bytes]:
    name = word(given.name)
    words = {
        "name": given.name,
        "module": f"{name.lower()}_npu",
        "macro": name.upper(),
        "suffix": given.network.suffix,
        "tool": TOOL,
        "licence": LICENCE,
    }
    runtime = runtime_files("runtime")
    sources = {f"network/{file}": data for file, data in given.sources.items()}
    overlay = _OVERLAY.format(**words, nodes="".join(_nodes(given)), partition="".join(_partitions(given)))
    texts = {
        "zephyr/module.yml": _MODULE.format(**words),
        "Kconfig": _KCONFIG.format(**words, tab="\t"),
        "CMakeLists.txt": _CMAKE.format(
            **words,
            only=" ATONC_EC_ONLY" if given.network.epoch_controller else "",
            runtime=_listed_sources(runtime, 6),
            sources=_listed_sources(sources, 4),
        ),
        "npu.overlay": overlay,
        "include/ll_aton_osal_user_impl.h": _OSAL.format(**words),
        "src/npu_zephyr.c": _GLUE.format(**words),
        "sample/CMakeLists.txt": _SAMPLE_CMAKE.format(**words),
        "sample/prj.conf": _SAMPLE_CONF.format(**words, library=_MATHS if given.network.cpu_blocks else ""),
        "sample/app.overlay": f'/* {LICENCE} */\n#include "../npu.overlay"\n',
        "sample/src/main.c": sample_main(
            given, "#include <zephyr/kernel.h>\n", "printk", "(unsigned)k_cyc_to_us_floor32(k_cycle_get_32())"
        ),
        "README.md": _README.format(
            **words,
            folder=LAYOUT.folder(given.name),
            flash=_flash_lines(given),
            encryption=ways.encryption_note(given),
        ),
    }
    weights = {f"weights/{_stem(file)}.bin": data for file, data in given.memory_images.items()}
    return {**{path: text.encode() for path, text in texts.items()}, **sources, **runtime, **weights}


def _stem(file: str) -> str:
    return word(file.rpartition(".")[0])


def _listed_sources(files: Mapping[str, bytes], indent: int) -> str:
    return "".join(f"{' ' * indent}{path}\n" for path in files if path.endswith(".c"))


def _used(given: LayoutNetwork) -> list[MemoryPool]:
    return [pool for pool in given.network.pools if given.network.memory.by_pool.get(pool.name, 0)]


def _nodes(given: LayoutNetwork) -> Iterator[str]:
    for pool in _used(given):
        for base, node in NODES.items():
            if pool.base <= base < pool.base + pool.size_bytes or base == secure(pool.base):
                yield _NODE.format(node=node)


def _partitions(given: LayoutNetwork) -> Iterator[str]:
    """The discovery kit's flash has a node with partitions; on other boards the application says where weights lie."""
    if given.view.board.name.rpartition("@")[2] != _DISCOVERY_KIT:
        return
    for file, data in given.memory_images.items():
        offset = given.base_of(file) - _FLASH
        size = -(-len(data) // 4096) * 4096
        yield _PARTITION.format(file=_stem(file), label=f"{_stem(file).lower()}", offset=offset, size=size)


def _flash_lines(given: LayoutNetwork) -> str:
    program = "    STM32_Programmer_CLI -c port=SWD mode=HOTPLUG -el LOADER -w"
    lines = [f"{program} weights/{_stem(file)}.bin {given.base_of(file):#x}" for file in given.memory_images]
    return "\n".join(lines) + ("\n" if lines else "")


def _refuses(given: LayoutNetwork) -> Iterator[LayoutRefusal]:
    first, end = _APPLICATION
    taken = [pool.name for pool in _used(given) if pool.absolute and first <= secure(pool.base) < end]
    if taken:
        rule = "Zephyr's boards give AXISRAM1 and 2 to the application"
        yield LayoutRefusal(f"it uses {listed(taken)}", rule, f"--board {BOARD}, or pools without them")
    low = [file for file in given.memory_images if _FLASH <= given.base_of(file) < _PARTITIONS_END]
    if low:
        rule = f"Zephyr's partitions of the discovery kit end at {_PARTITIONS_END:#x}"
        yield LayoutRefusal(f"{listed(low)} would lie in them", rule, f"--board {BOARD}, or weights behind them")
    yield from ways.refuse_ram_constants(given, "the sample copies no constants to RAM")
    yield from ways.refuse_open_places(given, "the devicetree says where memories are before anything is built")


LAYOUT = FolderLayout(
    name="zephyr",
    title="a Zephyr module with a devicetree overlay and a sample",
    page="zephyr.md",
    files=_files,
    refuses=_refuses,
    board=BOARD,
)
