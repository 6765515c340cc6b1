/* SPDX-License-Identifier: Apache-2.0
 * Data cache of the core and cache of the NPU, by address. All weak: an application's own functions win.
 */
#include <stddef.h>

#include "atonc_cpu.h"
#include "atonc_internal.h"
#include "ll_aton_attributes.h"
#include "mcu_cache.h"
#include "npu_cache.h"

#define MCU_LINE 32u
#define DCIMVAC 0xE000EF5CUL  /* invalidate the line of an address */
#define DCCMVAC 0xE000EF68UL  /* clean it */
#define DCCIMVAC 0xE000EF70UL /* clean and invalidate it */

LL_ATON_WEAK int mcu_cache_enabled(void) {
#ifdef ATONC_IS_CORTEX_M
    return (ATONC_CORE_WORD(ATONC_SCB_CCR) & ATONC_SCB_CCR_DC) != 0;
#else
    return 0;
#endif
}

static void mcu_operation(uintptr_t command, uint32_t start, uint32_t end) {
    if (!mcu_cache_enabled() || end <= start) {
        return;
    }
    atonc_cpu_dsb();
    for (uint32_t line = start & ~(MCU_LINE - 1u); line < end; line += MCU_LINE) {
        ATONC_CORE_WORD(command) = line;
    }
    atonc_cpu_dsb();
    atonc_cpu_isb();
}

LL_ATON_WEAK int mcu_cache_invalidate_range(uint32_t start_addr, uint32_t end_addr) {
    mcu_operation(DCIMVAC, start_addr, end_addr);
    return 0;
}

LL_ATON_WEAK int mcu_cache_clean_range(uint32_t start_addr, uint32_t end_addr) {
    mcu_operation(DCCMVAC, start_addr, end_addr);
    return 0;
}

LL_ATON_WEAK int mcu_cache_clean_invalidate_range(uint32_t start_addr, uint32_t end_addr) {
    mcu_operation(DCCIMVAC, start_addr, end_addr);
    return 0;
}

/* CACHEAXI, 0x400 below the NPU's registers */
#define CACHE_BASE (ATON_BASE - 0x400UL)
#define CACHE_WORD(offset) ATONC_CORE_WORD(CACHE_BASE + (offset))
#define CACHE_CR1 0x000u
#define CACHE_SR 0x004u
#define CACHE_FCR 0x00Cu
#define CACHE_CR2 0x100u
#define CACHE_FIRST 0x104u
#define CACHE_LAST 0x108u
#define CACHE_EN 1u
#define CACHE_INVALIDATE 2u
#define CACHE_BUSY 0x9u   /* a whole or a range operation runs */
#define CACHE_FLAGS 0x12u /* ended, for each */
#define CACHE_START 1u
#define CACHE_CLEAN (1u << 1)
#define CACHE_CLEAN_INVALIDATE (3u << 1)
#define CACHE_POLLS 10000000UL

#ifdef ATONC_IS_CORTEX_M
/* Applications made for ST's HAL switch the clock on here; the HAL's handle starts with the address of the unit. */
#ifdef STM32N6xx_HAL_CACHEAXI_H /* the HAL's header came with stm32n6xx.h and declares both */
typedef CACHEAXI_HandleTypeDef cache_handle_t;
#else
typedef void cache_handle_t;
#endif
LL_ATON_WEAK void HAL_CACHEAXI_MspInit(cache_handle_t *handle);
LL_ATON_WEAK void HAL_CACHEAXI_MspDeInit(cache_handle_t *handle);

LL_ATON_WEAK void npu_cache_enable_clocks_and_reset(void) {
    uintptr_t handle[16] = {CACHE_BASE};
    if (HAL_CACHEAXI_MspInit != NULL) {
        HAL_CACHEAXI_MspInit((void *)handle);
    }
}

LL_ATON_WEAK void npu_cache_disable_clocks_and_reset(void) {
    uintptr_t handle[16] = {CACHE_BASE};
    if (HAL_CACHEAXI_MspDeInit != NULL) {
        HAL_CACHEAXI_MspDeInit((void *)handle);
    }
}

static void npu_wait(void) {
    for (uint32_t i = 0; i < CACHE_POLLS && (CACHE_WORD(CACHE_SR) & CACHE_BUSY) != 0; i++) {
    }
}

static void npu_operation(uint32_t command, uint32_t start, uint32_t end) {
    if ((CACHE_WORD(CACHE_CR1) & CACHE_EN) == 0 || end <= start) {
        return;
    }
    npu_wait();
    CACHE_WORD(CACHE_FCR) = CACHE_FLAGS;
    CACHE_WORD(CACHE_FIRST) = start;
    CACHE_WORD(CACHE_LAST) = end - 1u;
    CACHE_WORD(CACHE_CR2) = command;
    CACHE_WORD(CACHE_CR2) = command | CACHE_START;
    npu_wait();
    CACHE_WORD(CACHE_FCR) = CACHE_FLAGS;
}

LL_ATON_WEAK void npu_cache_invalidate(void) {
    npu_wait();
    CACHE_WORD(CACHE_FCR) = CACHE_FLAGS;
    CACHE_WORD(CACHE_CR1) |= CACHE_INVALIDATE;
    npu_wait();
}

LL_ATON_WEAK void npu_cache_enable(void) {
    npu_cache_enable_clocks_and_reset();
    npu_wait(); /* it invalidates itself after reset */
    CACHE_WORD(CACHE_CR1) |= CACHE_EN;
}

LL_ATON_WEAK void npu_cache_disable(void) {
    npu_wait();
    CACHE_WORD(CACHE_CR1) &= ~CACHE_EN;
    npu_wait();
    npu_cache_disable_clocks_and_reset();
}
#else
LL_ATON_WEAK void npu_cache_enable_clocks_and_reset(void) {}
LL_ATON_WEAK void npu_cache_disable_clocks_and_reset(void) {}
static void npu_operation(uint32_t command, uint32_t start, uint32_t end) {
    (void)command;
    (void)start;
    (void)end;
}
LL_ATON_WEAK void npu_cache_invalidate(void) {}
LL_ATON_WEAK void npu_cache_enable(void) {}
LL_ATON_WEAK void npu_cache_disable(void) {}
#endif

LL_ATON_WEAK void npu_cache_init(void) { npu_cache_enable_clocks_and_reset(); }

LL_ATON_WEAK void npu_cache_clean_range(uint32_t start_addr, uint32_t end_addr) {
    npu_operation(CACHE_CLEAN, start_addr, end_addr);
}

LL_ATON_WEAK void npu_cache_clean_invalidate_range(uint32_t start_addr, uint32_t end_addr) {
    npu_operation(CACHE_CLEAN_INVALIDATE, start_addr, end_addr);
}
