"""C that users call: one table of the networks, the runtime initialised once, and loops that run them in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from atonc.delivery.application import c_relocatable
from atonc.delivery.application.planning import ApplicationPlan, Kept, SharedConstants
from atonc.delivery.application.read import SHARED, SLOT
from atonc.delivery.application.relocatable import places
from atonc.delivery.application.types import AppNetwork, SlotContents
from atonc.machine.base.about import __version__

_HEADER = """/* app_networks.h: the networks of this firmware in one table, written by atonc {version}. Do not edit.
 *
 *     app_networks_init();                               once: contents of the flash, the runtime, every network
 *     fill what app_network_input(APP_NETWORK_..., 0) points to
 *     app_network_run(APP_NETWORK_...);                  one inference, to its end
 *     read what app_network_output(APP_NETWORK_..., 0) points to
 *
 * Networks take turns on the NPU and work in the same RAM: a run overwrites what other networks left there. These
 * inputs and outputs have a place of their own, and stay:
{kept} * So from filling the inputs of any other to reading its outputs nobody else may run: one lock (app_loop.c).
 */

#ifndef APP_NETWORKS_H
#define APP_NETWORKS_H

#include <stdint.h>

#include "ll_aton_runtime.h"

#ifdef __cplusplus
extern "C" {{
#endif

enum {{
{numbers}  APP_NETWORKS = {count}
}};

typedef struct {{
  const char *name;
  NN_Instance_TypeDef *instance;
  float per_second; /* as the application file says */
  int after;        /* the network whose results it works on, or -1 */
  uint32_t flash_address;
  uint32_t flash_bytes; /* constants, from the start of the slot; 0: an image, which its loader checks */
  uint32_t flash_crc32;
}} app_network_t;

extern const app_network_t app_networks[APP_NETWORKS];

/* The first network whose constants are not in flash as they were built, or -1. */
int app_networks_check(void);

/* Checks, initialises the runtime once and every network; -1, or the network whose constants or image are wrong: then
 * nothing was initialised. */
int app_networks_init(void);
void app_networks_deinit(void);

void *app_network_input(int network, uint32_t index);
void *app_network_output(int network, uint32_t index);
uint32_t app_network_input_bytes(int network, uint32_t index);
uint32_t app_network_output_bytes(int network, uint32_t index);

/* Lists of all inputs and outputs: names, shapes, scales, zero points; the last has no name. */
const LL_Buffer_InfoTypeDef *app_network_inputs(int network);
const LL_Buffer_InfoTypeDef *app_network_outputs(int network);

/* Memory of the application, for networks that were compiled without memory for inputs or outputs. */
LL_ATON_User_IO_Result_t app_network_set_input(int network, uint32_t index, void *buffer, uint32_t bytes);
LL_ATON_User_IO_Result_t app_network_set_output(int network, uint32_t index, void *buffer, uint32_t bytes);

/* One inference; the network is then ready for the next. */
void app_network_run(int network);
{install}
#ifdef __cplusplus
}}
#endif

#endif
"""

_SOURCE = """/* app_networks.c: written by atonc {version}. Do not edit. */

#include "app_networks.h"

#include <stddef.h>{includes}

{declared}
const app_network_t app_networks[APP_NETWORKS] = {{
{rows}}};
{images}
static uint32_t crc32(const volatile uint8_t *data, uint32_t size)
{{
  static const uint32_t nibbles[16] = {{
    0x00000000U, 0x1db71064U, 0x3b6e20c8U, 0x26d930acU, 0x76dc4190U, 0x6b6b51f4U, 0x4db26158U, 0x5005713cU,
    0xedb88320U, 0xf00f9344U, 0xd6d6a3e8U, 0xcb61b38cU, 0x9b64c2b0U, 0x86d3d2d4U, 0xa00ae278U, 0xbdbdf21cU,
  }};
  uint32_t crc = 0xffffffffU;
  for (uint32_t at = 0; at < size; at++) {{
    crc ^= data[at];
    crc = (crc >> 4) ^ nibbles[crc & 15U];
    crc = (crc >> 4) ^ nibbles[crc & 15U];
  }}
  return ~crc;
}}

{shared}int app_networks_check(void)
{{
  for (int k = 0; k < APP_NETWORKS; k++) {{
    const app_network_t *one = &app_networks[k];
    if (crc32((const volatile uint8_t *)(uintptr_t)one->flash_address, one->flash_bytes) != one->flash_crc32) {{
      return k;
    }}
  }}
{check_shared}  return -1;
}}

int app_networks_init(void)
{{
  const int wrong = app_networks_check();
  if (wrong >= 0) {{
    return wrong;
  }}
{install_all}  LL_ATON_RT_RuntimeInit();
  for (int k = 0; k < APP_NETWORKS; k++) {{
    LL_ATON_RT_Init_Network(app_networks[k].instance);
  }}
{begun}  return -1;
}}

void app_networks_deinit(void)
{{
{ended}  for (int k = 0; k < APP_NETWORKS; k++) {{
{if_installed}    LL_ATON_RT_DeInit_Network(app_networks[k].instance);
  }}
  LL_ATON_RT_RuntimeDeInit();
}}

/* Constants may be listed among the inputs. */
static const LL_Buffer_InfoTypeDef *buffer_at(const LL_Buffer_InfoTypeDef *list, uint32_t index)
{{
  for (; list != NULL && list->name != NULL; list++) {{
    if (!list->is_param && index-- == 0U) {{
      return list;
    }}
  }}
  return NULL;
}}

static void *address_of(const LL_Buffer_InfoTypeDef *found)
{{
  return found == NULL ? NULL : (void *)LL_Buffer_addr_start(found);
}}

static uint32_t bytes_of(const LL_Buffer_InfoTypeDef *found)
{{
  return found == NULL ? 0U : LL_Buffer_len(found);
}}

{edges}void *app_network_input(int network, uint32_t index)
{{
  return address_of(buffer_at(app_network_inputs(network), index));
}}

void *app_network_output(int network, uint32_t index)
{{
  return address_of(buffer_at(app_network_outputs(network), index));
}}

uint32_t app_network_input_bytes(int network, uint32_t index)
{{
  return bytes_of(buffer_at(app_network_inputs(network), index));
}}

uint32_t app_network_output_bytes(int network, uint32_t index)
{{
  return bytes_of(buffer_at(app_network_outputs(network), index));
}}

void app_network_run(int network)
{{
  NN_Instance_TypeDef *instance = app_networks[network].instance;
  LL_ATON_RT_RetValues_t state;
{nothing}  do {{
    state = LL_ATON_RT_RunEpochBlock(instance);
    if (state == LL_ATON_RT_WFE) {{
      LL_ATON_OSAL_WFE();
    }}
  }} while (state != LL_ATON_RT_DONE);
  LL_ATON_RT_Reset_Network(instance);
}}
"""


_EDGES = """const LL_Buffer_InfoTypeDef *app_network_{name}s(int network)
{{
  return app_networks[network].instance->network->{name}_buffers_info();
}}

LL_ATON_User_IO_Result_t app_network_set_{name}(int network, uint32_t index, void *buffer, uint32_t bytes)
{{
  return app_networks[network].instance->network->{name}_setter(index, buffer, bytes);
}}

"""

_SHARED_TABLE = """/* Constants that several networks read; the first of them, address, bytes, CRC-32. */
static const uint32_t shared_constants[][4] = {{
{rows}}};

"""

_SHARED_CHECK = """  for (uint32_t k = 0; k < sizeof shared_constants / sizeof shared_constants[0]; k++) {
    const uint32_t *one = shared_constants[k];
    if (crc32((const volatile uint8_t *)(uintptr_t)one[1], one[2]) != one[3]) {
      return (int)one[0];
    }
  }
"""


def header(found: ApplicationPlan) -> str:
    networks = found.application.networks
    numbers = "".join(f"  {number_of(one)} = {k},\n" for k, one in enumerate(networks))
    return _HEADER.format(
        version=__version__,
        kept=_kept_text(found.kept),
        numbers=numbers,
        count=len(networks),
        install=c_relocatable.declared(places(found)),
    )


def _kept_text(kept: Sequence[Kept]) -> str:
    lines = [f" *   {_plain(one.tensor)} of {one.network} while {', '.join(one.survives)} runs\n" for one in kept]
    return "".join(lines) or " *   none\n"


def _plain(name: str) -> str:
    """Nothing in it may end a comment."""
    return "".join(sign if sign.isalnum() or sign in "_./:-" else "_" for sign in name)[:80].replace("*/", "__")


def number_of(network: AppNetwork) -> str:
    return f"APP_NETWORK_{network.name.upper()}"


def source(found: ApplicationPlan, contents: Sequence[SlotContents]) -> str:
    networks = found.application.networks
    fixed = [one for one in networks if one.relocatable is None]
    declared = "".join(f"LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE({one.name})\n" for one in fixed)
    by_name = {one.slot.network: one for one in contents}
    rows = "".join(_row(one, by_name[one.name]) for one in networks)
    shared = [one for one in contents if one.slot.network.startswith(SHARED)]
    parts = "".join(_shared_row(one, part) for one, part in zip(shared, found.shared, strict=True))
    table = _SHARED_TABLE.format(rows=parts) if shared else ""
    check = _SHARED_CHECK if shared else ""
    images = places(found)
    edges = "".join(_EDGES.format(name=name) for name in ("input", "output"))
    return _SOURCE.format(
        version=__version__,
        includes=c_relocatable.INCLUDES if images else "",
        declared=declared + c_relocatable.instances(images),
        rows=rows,
        images=c_relocatable.table(images) if images else "",
        shared=table,
        check_shared=check,
        install_all=c_relocatable.INSTALL_ALL if images else "",
        begun="  initialised = true;\n" if images else "",
        ended="  initialised = false;\n" if images else "",
        if_installed=c_relocatable.IF_INSTALLED if images else "",
        edges=c_relocatable.functions() if images else edges,
        nothing=c_relocatable.NOTHING_INSTALLED if images else "",
    )


def _shared_row(contents: SlotContents, part: SharedConstants) -> str:
    return (
        f"  {{APP_NETWORK_{part.networks[0].upper()}, {contents.slot.start:#010x}U, {len(contents.data)}U, "
        f"{contents.crc32:#010x}U}}, /* {', '.join(part.networks)} */\n"
    )


def _row(network: AppNetwork, contents: SlotContents) -> str:
    """The loader checks an image by itself, so that another one may take its place."""
    checked = contents if network.relocatable is None else SlotContents(contents.slot, b"")
    after = f"APP_NETWORK_{network.after.upper()}" if network.after else "-1"
    return (
        f'  {{"{network.name}", &NN_Instance_{network.name}, {float(network.per_second)!r}F, {after},\n'
        f"   {contents.slot.start:#010x}U, {len(checked.data)}U, {checked.crc32:#010x}U}},\n"
    )


def _macro(name: str) -> str:
    return "".join(sign if sign.isascii() and sign.isalnum() else "_" for sign in name.upper())[:60]


def addresses(found: ApplicationPlan, contents: Sequence[SlotContents]) -> str:
    return "\n".join(_address_lines(found, contents)) + "\n"


def _address_lines(found: ApplicationPlan, contents: Sequence[SlotContents]) -> Iterator[str]:
    yield f"/* app_addresses.h: where the networks lie, written by atonc {__version__}. Do not edit. */"
    yield ""
    yield "#ifndef APP_ADDRESSES_H"
    yield "#define APP_ADDRESSES_H"
    yield ""
    for one in contents:
        name = f"APP_FLASH_{one.slot.network.upper()}"
        yield f"#define {name}_ADDRESS {one.slot.start:#010x}UL"
        yield f"#define {name}{SLOT.upper()}_BYTES {one.slot.end - one.slot.start}UL"
        yield f"#define {name}_BYTES {len(one.data)}UL"
        yield f"#define {name}_CRC32 {one.crc32:#010x}UL"
    known: list[str] = []
    for number, taken in enumerate(found.application.reserved, 1):
        name = _macro(taken.name)
        known.append(f"{name}_{number}" if name in known else name)
        yield f"#define APP_RESERVED_{known[-1]}_ADDRESS {taken.start:#010x}UL"
        yield f"#define APP_RESERVED_{known[-1]}_BYTES {taken.end - taken.start}UL"
    yield ""
    yield "/* RAM of all networks: X(address, bytes) for every range */"
    rows = " ".join(f"X({start:#010x}UL, {end - start}UL)" for start, end in found.ram)
    yield f"#define APP_RAM(X) {rows}"
    yield ""
    yield "#endif"
