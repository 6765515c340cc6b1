/* SPDX-License-Identifier: Apache-2.0
 * Data cache of the core. Weak functions: an application that has its own keeps them. Ranges are [start, end).
 */
#ifndef ATONC_MCU_CACHE_H
#define ATONC_MCU_CACHE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

int mcu_cache_enabled(void);
int mcu_cache_invalidate_range(uint32_t first, uint32_t behind);
int mcu_cache_clean_range(uint32_t first, uint32_t behind);
int mcu_cache_clean_invalidate_range(uint32_t first, uint32_t behind);

#ifdef __cplusplus
}
#endif

#endif
