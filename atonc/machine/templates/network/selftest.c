/* @name@_selftest.c: the memories and constants of the network, and one inference whose output is known; written by
 * @tool@. Do not edit. The known output is that of the emulator.
 */
#include "@name@_selftest.h"

#ifndef ATONC_NO_SELFTEST

#include <stddef.h>

#include "ll_aton_caches_interface.h"
#include "ll_aton_runtime.h"

#if defined(__has_include)
#  if __has_include("atonc_runtime.h")
#    include "atonc_runtime.h"
#    define ATONC_SELFTEST_STATUS 1
#  endif
#endif

LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(@net@)

@begin weights@
static const uint32_t crcs_@k@[@count@] = {
@crcs@};

@end weights@
@begin has_weights@
static const atonc_selftest_weights_t weights[] = {
@end has_weights@
@begin weights@
  {@start@, @size@U, @piece@U, crcs_@k@, {@first@}, @end@}, /* @pool@ */
@end weights@
@begin has_weights@
};
@end has_weights@

@begin own_work@
/* The network has no working memory that is large enough: this has to lie where the NPU reads and writes. */
static uint8_t work[ATONC_SELFTEST_WORK] __attribute__((aligned(32)));
@end own_work@

static void clean(uint32_t address, uint32_t size) { LL_ATON_Cache_MCU_Clean_Range(address, size); }
static void invalidate(uint32_t address, uint32_t size) { LL_ATON_Cache_MCU_Invalidate_Range(address, size); }

@begin known@
/* Byte k of the known input. */
static uint8_t known_byte(uint32_t k) {
  k *= 0x9E3779B1U;
  k = (k ^ k >> 15) * 0x85EBCA6BU;
  return (uint8_t)(k >> 24);
}

static void fill(const LL_Buffer_InfoTypeDef *input, uint32_t *next) {
  uint8_t *bytes = (uint8_t *)LL_Buffer_addr_start(input);
  const uint32_t size = LL_Buffer_len(input);
  if (input->type == DataType_FLOAT) {
    for (uint32_t k = 0; k < size / 4U; k++) {
      ((float *)(void *)bytes)[k] = (float)(int8_t)known_byte((*next)++) / 32.0F;
    }
  } else {
    for (uint32_t k = 0; k < size; k++) {
      bytes[k] = known_byte((*next)++);
    }
  }
  clean((uint32_t)(uintptr_t)bytes, size);
}

static const uint32_t output_crcs[] = {@outputs@};

static uint32_t is_known(const LL_Buffer_InfoTypeDef *output, uint32_t number, atonc_finding_t *finding) {
  const uint32_t start = (uint32_t)(uintptr_t)LL_Buffer_addr_start(output), size = LL_Buffer_len(output);
  invalidate(start, size);
  const uint32_t crc = atonc_selftest_crc32(0, LL_Buffer_addr_start(output), size);
  if (crc == output_crcs[number]) {
    return 1;
  }
  *finding = (atonc_finding_t){ATONC_SELFTEST_NETWORK_OUTPUT, (uint16_t)number, start, crc, output_crcs[number]};
  return 0;
}

static uint32_t went_wrong(atonc_finding_t *finding) {
#ifdef ATONC_SELFTEST_STATUS
  atonc_status_t status = atonc_rt_status(NULL);
  status = status.code == ATONC_OK ? atonc_rt_status(&NN_Instance_@net@) : status;
  *finding = (atonc_finding_t){ATONC_SELFTEST_NETWORK_RUN, (uint16_t)status.epoch, 0, (uint32_t)status.code, 0};
  return status.code != ATONC_OK;
#else
  (void)finding;
  return 0;
#endif
}

@begin has_states@
void @name@_reset(void);

@end has_states@
static uint32_t known_run(atonc_finding_t *finding) {
  uint32_t wrong, next = 0, number = 0;
  LL_ATON_RT_RetValues_t state;
  LL_ATON_RT_RuntimeInit();
  LL_ATON_RT_Init_Network(&NN_Instance_@net@);
@begin has_states@
  @name@_reset(); /* the known output is that of a first frame, and the tests have written into RAM */
@end has_states@
  for (const LL_Buffer_InfoTypeDef *one = LL_ATON_Input_Buffers_Info_@net@(); one->name != NULL; one++) {
    if (!one->is_param) {
      fill(one, &next);
    }
  }
  do {
    state = LL_ATON_RT_RunEpochBlock(&NN_Instance_@net@);
    if (state == LL_ATON_RT_WFE) {
      LL_ATON_OSAL_WFE();
    }
  } while (state != LL_ATON_RT_DONE);
  wrong = went_wrong(finding);
  for (const LL_Buffer_InfoTypeDef *one = LL_ATON_Output_Buffers_Info_@net@(); one->name != NULL && !wrong; one++) {
    if (!one->is_param) {
      wrong = !is_known(one, number++, finding);
    }
  }
@begin has_states@
  @name@_reset();
@end has_states@
  LL_ATON_RT_DeInit_Network(&NN_Instance_@net@);
  LL_ATON_RT_RuntimeDeInit();
  return wrong;
}

@end known@
uint32_t @name@_selftest(atonc_finding_t *findings, uint32_t most) {
  atonc_selftest_memory_t memories[] = {
@begin memories@
    {@start@, @size@U, @uses@}, /* @pool@ */
@end memories@
@begin own_work@
    {(uint32_t)(uintptr_t)work, sizeof work, ATONC_SELFTEST_NPU_READS | ATONC_SELFTEST_NPU_WRITES},
@end own_work@
@begin blobs@
    {0, 0, ATONC_SELFTEST_NPU_READS}, /* programs of the epoch controller, wherever they were linked */
@end blobs@
  };
  const uint32_t memory_count = sizeof memories / sizeof memories[0];
@begin blobs@
  uint32_t low = UINT32_MAX, high = 0;
  const EpochBlock_ItemTypeDef *block = LL_ATON_EpochBlockItems_@net@();
  for (; !EpochBlock_IsLastEpochBlock(block); block++) {
    const uint32_t start = (uint32_t)block->blob_address;
    if (start != 0) {
      low = start < low ? start : low;
      high = start + 8U > high ? start + 8U : high;
    }
  }
  if (high != 0) {
    memories[memory_count - 1U].base = low;
    memories[memory_count - 1U].size = high - low;
  }
@end blobs@
  const atonc_selftest_map_t map = {
    .memories = memories,
    .memory_count = memory_count,
@begin has_weights@
    .weights = weights,
    .weights_count = sizeof weights / sizeof weights[0],
@end has_weights@
    .work = @work@,
    .cpu_hz = @cpu_hz@U,
    .npu_hz = @npu_hz@U,
    .npu_ram_hz = @npu_ram_hz@U,
    .npu_base = (uint32_t)ATON_BASE,
    .clean = clean,
    .invalidate = invalidate,
@begin known@
    .known_run = known_run,
@end known@
  };
  return atonc_selftest(&map, findings, most);
}

#endif
