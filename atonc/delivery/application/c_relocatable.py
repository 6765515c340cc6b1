"""C of networks that are relocatable images: what each may use, how it is installed, and how its buffers are found."""

from __future__ import annotations

from collections.abc import Sequence

from atonc.delivery.application.relocatable import ImageEdge, ImagePlace

INCLUDES = """
#include <string.h>

#include "ll_aton_reloc_network.h" /* build the runtime and this file with LL_ATON_RT_RELOC */"""

DECLARED = """
/* Installs the image at an address for a network that is relocatable ({names}): 0, or what
 * ll_aton_reloc_install says. Its pools must lie in RAM of the plan that is nobody else's, and its inputs and outputs
 * must be as large as those of this build (else AI_RELOC_RT_ERR_NOT_SUPPORTED). Behind an error nothing is installed,
 * and runs do nothing, until another image is. app_networks_init installs what is in the slots for networks that have
 * nothing yet; later images are installed between two inferences. */
int app_network_install(int network, uintptr_t image);
"""

_TABLE = """
/* ---- relocatable images ---- */

typedef struct {
  uint32_t start, bytes;
} app_range_t;

typedef struct {
  int network;
  ll_aton_reloc_config config;
  const app_range_t *ram; /* for its pools; the last has no bytes */
  const uint32_t *inputs, *outputs; /* bytes of each; the last has none */
} app_image_t;

"""

_FUNCTIONS = """static const app_image_t *image_of(int network)
{
  for (uint32_t k = 0; k < sizeof images / sizeof images[0]; k++) {
    if (images[k].network == network) {
      return &images[k];
    }
  }
  return NULL;
}

static bool is_inside(const app_range_t *range, uint32_t start, uint32_t bytes)
{
  for (; range->bytes != 0U; range++) {
    if (start >= range->start && bytes <= range->bytes && start - range->start <= range->bytes - bytes) {
      return true;
    }
  }
  return false;
}

/* Pools at fixed addresses; the loader finds places for the others. */
static bool pools_fit(const app_image_t *image, uintptr_t address)
{
  const ll_aton_reloc_mem_pool_desc *pool;
  for (int k = 0; (pool = ll_aton_reloc_get_mem_pool_desc(address, k)) != NULL; k++) {
    if (!AI_RELOC_MPOOL_IS_RELOC(pool->flags) && !is_inside(image->ram, pool->dst, pool->size)) {
      return false;
    }
  }
  return true;
}

static bool edges_fit(const LL_Buffer_InfoTypeDef *list, const uint32_t *bytes)
{
  for (uint32_t k = 0; ; k++) {
    const uint32_t found = bytes_of(buffer_at(list, k));
    if (found != bytes[k]) {
      return false;
    }
    if (found == 0U) {
      return true;
    }
  }
}

int app_network_install(int network, uintptr_t image)
{
  const app_image_t *known = image_of(network);
  if (known == NULL) {
    return AI_RELOC_RT_ERR_ARG;
  }
  NN_Instance_TypeDef *instance = app_networks[network].instance;
  if (initialised && instance->network != NULL) {
    LL_ATON_RT_DeInit_Network(instance);
  }
  memset(instance, 0, sizeof *instance);
  if (!pools_fit(known, image)) {
    return AI_RELOC_RT_ERR_NOT_SUPPORTED;
  }
  const int result = ll_aton_reloc_install(image, &known->config, instance);
  if (result != AI_RELOC_RT_ERR_NONE) {
    memset(instance, 0, sizeof *instance);
    return result;
  }
  if (!edges_fit(app_network_inputs(network), known->inputs) ||
      !edges_fit(app_network_outputs(network), known->outputs)) {
    memset(instance, 0, sizeof *instance);
    return AI_RELOC_RT_ERR_NOT_SUPPORTED;
  }
  if (initialised) {
    LL_ATON_RT_Init_Network(instance);
  }
  return AI_RELOC_RT_ERR_NONE;
}
"""

_EDGES = """
const LL_Buffer_InfoTypeDef *app_network_{name}s(int network)
{{
  const NN_Instance_TypeDef *instance = app_networks[network].instance;
  return image_of(network) != NULL ? ll_aton_reloc_get_{name}_buffers_info(instance, -1)
                                   : instance->network->{name}_buffers_info();
}}

LL_ATON_User_IO_Result_t app_network_set_{name}(int network, uint32_t index, void *buffer, uint32_t bytes)
{{
  const NN_Instance_TypeDef *instance = app_networks[network].instance;
  return image_of(network) != NULL ? ll_aton_reloc_set_{name}(instance, index, buffer, bytes)
                                   : instance->network->{name}_setter(index, buffer, bytes);
}}
"""

INSTALL_ALL = """  for (int k = 0; k < APP_NETWORKS; k++) {
    if (app_networks[k].instance->network == NULL && app_network_install(k, app_networks[k].flash_address) != 0) {
      return k;
    }
  }
"""

IF_INSTALLED = """    if (app_networks[k].instance->network == NULL) {
      continue;
    }
"""

NOTHING_INSTALLED = """  if (instance->network == NULL) {
    return;
  }
"""


def declared(places: Sequence[ImagePlace]) -> str:
    return DECLARED.format(names=", ".join(one.network for one in places)) if places else ""


def instances(places: Sequence[ImagePlace]) -> str:
    """As fixed networks have them in their own files."""
    return "".join(f"static NN_Instance_TypeDef NN_Instance_{one.network};\n" for one in places)


def table(places: Sequence[ImagePlace]) -> str:
    lists, rows = "".join(map(_lists, places)), "".join(map(_row, places))
    return f"{_TABLE}{lists}static const app_image_t images[] = {{\n{rows}}};\nstatic bool initialised;\n"


def functions() -> str:
    return f"{_FUNCTIONS}{''.join(_EDGES.format(name=name) for name in ('input', 'output'))}\n"


def _lists(one: ImagePlace) -> str:
    ram = ", ".join(f"{{{start:#010x}U, {end - start}U}}" for start, end in one.ram)
    return (
        f"static const app_range_t ram_of_{one.network}[] = {{{ram}, {{0U, 0U}}}};\n"
        f"static const uint32_t inputs_of_{one.network}[] = {{{_bytes(one.inputs)}0U}};\n"
        f"static const uint32_t outputs_of_{one.network}[] = {{{_bytes(one.outputs)}0U}};\n"
    )


def _bytes(edges: Sequence[ImageEdge]) -> str:
    return "".join(f"{edge.size_bytes}U, " for edge in edges)


def _row(one: ImagePlace) -> str:
    ram, end = one.exec_ram
    start, stop = one.external
    return (
        f"  {{APP_NETWORK_{one.network.upper()},\n"
        f"   {{.exec_ram_addr = {ram:#010x}U, .exec_ram_size = {end - ram}U,\n"
        f"    .ext_ram_addr = {start:#010x}U, .ext_ram_size = {stop - start}U,\n"
        f"    .mode = AI_RELOC_RT_LOAD_MODE_{one.mode.name}}},\n"
        f"   ram_of_{one.network}, inputs_of_{one.network}, outputs_of_{one.network}}},\n"
    )
