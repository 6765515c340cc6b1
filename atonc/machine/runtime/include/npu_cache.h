/* SPDX-License-Identifier: Apache-2.0
 * Cache between the NPU and external memory (CACHEAXI). Weak functions: an application that has its own keeps them.
 * Its clock and reset belong to the application. Maintenance does nothing while the cache is off. Ranges are
 * [start, end).
 */
#ifndef ATONC_NPU_CACHE_H
#define ATONC_NPU_CACHE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void npu_cache_enable_clocks_and_reset(void);
void npu_cache_disable_clocks_and_reset(void);
void npu_cache_init(void);
void npu_cache_enable(void);
void npu_cache_disable(void);
void npu_cache_invalidate(void);
void npu_cache_clean_range(uint32_t start_addr, uint32_t end_addr);
void npu_cache_clean_invalidate_range(uint32_t start_addr, uint32_t end_addr);

#ifdef __cplusplus
}
#endif

#endif
