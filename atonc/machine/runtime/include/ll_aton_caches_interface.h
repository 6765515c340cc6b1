/* SPDX-License-Identifier: Apache-2.0
 * Cache maintenance as generated networks call it: an address and a size in bytes.
 */
#ifndef LL_ATON_CACHES_INTERFACE_H
#define LL_ATON_CACHES_INTERFACE_H

#include <stdint.h>

#include "ll_aton_attributes.h"
#include "ll_aton_osal.h"
#include "ll_aton_platform.h"
#include "mcu_cache.h"
#include "npu_cache.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline void LL_ATON_Cache_MCU_Clean_Range(uintptr_t virtual_addr, uint32_t size) {
    LL_ATON_OSAL_LOCK_MCU_CACHE();
    mcu_cache_clean_range((uint32_t)virtual_addr, (uint32_t)virtual_addr + size);
    LL_ATON_OSAL_UNLOCK_MCU_CACHE();
}

static inline void LL_ATON_Cache_MCU_Invalidate_Range(uintptr_t virtual_addr, uint32_t size) {
    LL_ATON_OSAL_LOCK_MCU_CACHE();
    mcu_cache_invalidate_range((uint32_t)virtual_addr, (uint32_t)virtual_addr + size);
    LL_ATON_OSAL_UNLOCK_MCU_CACHE();
}

static inline void LL_ATON_Cache_MCU_Clean_Invalidate_Range(uintptr_t virtual_addr, uint32_t size) {
    LL_ATON_OSAL_LOCK_MCU_CACHE();
    mcu_cache_clean_invalidate_range((uint32_t)virtual_addr, (uint32_t)virtual_addr + size);
    LL_ATON_OSAL_UNLOCK_MCU_CACHE();
}

static inline void LL_ATON_Cache_NPU_Clean_Range(uintptr_t virtual_addr, uint32_t size) {
    uint32_t start = (uint32_t)ATON_LIB_VIRTUAL_TO_PHYSICAL_ADDR(virtual_addr);
    LL_ATON_OSAL_LOCK_NPU_CACHE();
    npu_cache_clean_range(start, start + size);
    LL_ATON_OSAL_UNLOCK_NPU_CACHE();
}

static inline void LL_ATON_Cache_NPU_Clean_Invalidate_Range(uintptr_t virtual_addr, uint32_t size) {
    uint32_t start = (uint32_t)ATON_LIB_VIRTUAL_TO_PHYSICAL_ADDR(virtual_addr);
    LL_ATON_OSAL_LOCK_NPU_CACHE();
    npu_cache_clean_invalidate_range(start, start + size);
    LL_ATON_OSAL_UNLOCK_NPU_CACHE();
}

#ifdef __cplusplus
}
#endif

#endif
