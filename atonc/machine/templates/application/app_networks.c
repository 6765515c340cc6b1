/* app_networks.c: written by atonc @version@. Do not edit. */

#include "app_networks.h"

#include <stddef.h>
@begin images@
#include <string.h>

#include "ll_aton_reloc_network.h" /* build the runtime and this file with LL_ATON_RT_RELOC */
@end images@

@begin fixed@
LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(@name@)
@end fixed@
@begin image_rows@
static NN_Instance_TypeDef NN_Instance_@network@;
@end image_rows@

const app_network_t app_networks[APP_NETWORKS] = {
@begin rows@
  {"@name@", &NN_Instance_@name@, @per_second@F, @after@,
   @start@U, @bytes@U, @crc32@U},
@end rows@
};
@begin images@

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

@begin image_rows@
static const app_range_t ram_of_@network@[] = {@ram@, {0U, 0U}};
static const uint32_t inputs_of_@network@[] = {@inputs@0U};
static const uint32_t outputs_of_@network@[] = {@outputs@0U};
@end image_rows@
static const app_image_t images[] = {
@begin image_rows@
  {@number@,
   {.exec_ram_addr = @exec_ram@U, .exec_ram_size = @exec_bytes@U,
    .ext_ram_addr = @ext_ram@U, .ext_ram_size = @ext_bytes@U,
    .mode = AI_RELOC_RT_LOAD_MODE_@mode@},
   ram_of_@network@, inputs_of_@network@, outputs_of_@network@},
@end image_rows@
};
static bool initialised;
@end images@

static uint32_t crc32(const volatile uint8_t *data, uint32_t size)
{
  static const uint32_t nibbles[16] = {
    0x00000000U, 0x1db71064U, 0x3b6e20c8U, 0x26d930acU, 0x76dc4190U, 0x6b6b51f4U, 0x4db26158U, 0x5005713cU,
    0xedb88320U, 0xf00f9344U, 0xd6d6a3e8U, 0xcb61b38cU, 0x9b64c2b0U, 0x86d3d2d4U, 0xa00ae278U, 0xbdbdf21cU,
  };
  uint32_t crc = 0xffffffffU;
  for (uint32_t at = 0; at < size; at++) {
    crc ^= data[at];
    crc = (crc >> 4) ^ nibbles[crc & 15U];
    crc = (crc >> 4) ^ nibbles[crc & 15U];
  }
  return ~crc;
}

@begin shares@
/* Constants that several networks read; the first of them, address, bytes, CRC-32. */
static const uint32_t shared_constants[][4] = {
@begin shared@
  {@first@, @start@U, @bytes@U, @crc32@U}, /* @networks@ */
@end shared@
};

@end shares@
int app_networks_check(void)
{
  for (int k = 0; k < APP_NETWORKS; k++) {
    const app_network_t *one = &app_networks[k];
    if (crc32((const volatile uint8_t *)(uintptr_t)one->flash_address, one->flash_bytes) != one->flash_crc32) {
      return k;
    }
  }
@begin shares@
  for (uint32_t k = 0; k < sizeof shared_constants / sizeof shared_constants[0]; k++) {
    const uint32_t *one = shared_constants[k];
    if (crc32((const volatile uint8_t *)(uintptr_t)one[1], one[2]) != one[3]) {
      return (int)one[0];
    }
  }
@end shares@
  return -1;
}

int app_networks_init(void)
{
  const int wrong = app_networks_check();
  if (wrong >= 0) {
    return wrong;
  }
@begin images@
  for (int k = 0; k < APP_NETWORKS; k++) {
    if (app_networks[k].instance->network == NULL && app_network_install(k, app_networks[k].flash_address) != 0) {
      return k;
    }
  }
@end images@
  LL_ATON_RT_RuntimeInit();
  for (int k = 0; k < APP_NETWORKS; k++) {
    LL_ATON_RT_Init_Network(app_networks[k].instance);
  }
@begin images@
  initialised = true;
@end images@
  return -1;
}

void app_networks_deinit(void)
{
@begin images@
  initialised = false;
@end images@
  for (int k = 0; k < APP_NETWORKS; k++) {
@begin images@
    if (app_networks[k].instance->network == NULL) {
      continue;
    }
@end images@
    LL_ATON_RT_DeInit_Network(app_networks[k].instance);
  }
  LL_ATON_RT_RuntimeDeInit();
}

/* Constants may be listed among the inputs. */
static const LL_Buffer_InfoTypeDef *buffer_at(const LL_Buffer_InfoTypeDef *list, uint32_t index)
{
  for (; list != NULL && list->name != NULL; list++) {
    if (!list->is_param && index-- == 0U) {
      return list;
    }
  }
  return NULL;
}

static void *address_of(const LL_Buffer_InfoTypeDef *found)
{
  return found == NULL ? NULL : (void *)LL_Buffer_addr_start(found);
}

static uint32_t bytes_of(const LL_Buffer_InfoTypeDef *found)
{
  return found == NULL ? 0U : LL_Buffer_len(found);
}

@begin images@
static const app_image_t *image_of(int network)
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
@begin edges@

const LL_Buffer_InfoTypeDef *app_network_@name@s(int network)
{
  const NN_Instance_TypeDef *instance = app_networks[network].instance;
  return image_of(network) != NULL ? ll_aton_reloc_get_@name@_buffers_info(instance, -1)
                                   : instance->network->@name@_buffers_info();
}

LL_ATON_User_IO_Result_t app_network_set_@name@(int network, uint32_t index, void *buffer, uint32_t bytes)
{
  const NN_Instance_TypeDef *instance = app_networks[network].instance;
  return image_of(network) != NULL ? ll_aton_reloc_set_@name@(instance, index, buffer, bytes)
                                   : instance->network->@name@_setter(index, buffer, bytes);
}
@end edges@

@end images@
@begin all_fixed@
@begin edges@
const LL_Buffer_InfoTypeDef *app_network_@name@s(int network)
{
  return app_networks[network].instance->network->@name@_buffers_info();
}

LL_ATON_User_IO_Result_t app_network_set_@name@(int network, uint32_t index, void *buffer, uint32_t bytes)
{
  return app_networks[network].instance->network->@name@_setter(index, buffer, bytes);
}

@end edges@
@end all_fixed@
void *app_network_input(int network, uint32_t index)
{
  return address_of(buffer_at(app_network_inputs(network), index));
}

void *app_network_output(int network, uint32_t index)
{
  return address_of(buffer_at(app_network_outputs(network), index));
}

uint32_t app_network_input_bytes(int network, uint32_t index)
{
  return bytes_of(buffer_at(app_network_inputs(network), index));
}

uint32_t app_network_output_bytes(int network, uint32_t index)
{
  return bytes_of(buffer_at(app_network_outputs(network), index));
}

void app_network_run(int network)
{
  NN_Instance_TypeDef *instance = app_networks[network].instance;
  LL_ATON_RT_RetValues_t state;
@begin images@
  if (instance->network == NULL) {
    return;
  }
@end images@
  do {
    state = LL_ATON_RT_RunEpochBlock(instance);
    if (state == LL_ATON_RT_WFE) {
      LL_ATON_OSAL_WFE();
    }
  } while (state != LL_ATON_RT_DONE);
  LL_ATON_RT_Reset_Network(instance);
}
