/* SPDX-License-Identifier: Apache-2.0
 * The virtual board has no caches: maintenance that the vendor's runtime and its networks call does nothing.
 */
#include <stdint.h>

#define NOTHING(name)                                                                                                  \
    void name(void);                                                                                                   \
    void name(void) {}
#define RANGE(type, name, value)                                                                                       \
    type name(uint32_t start, uint32_t end);                                                                           \
    type name(uint32_t start, uint32_t end) {                                                                          \
        (void)start;                                                                                                   \
        (void)end;                                                                                                     \
        return value;                                                                                                  \
    }

NOTHING(npu_cache_init)
NOTHING(npu_cache_enable)
NOTHING(npu_cache_disable)
NOTHING(npu_cache_invalidate)
RANGE(void, npu_cache_clean_range, )
RANGE(void, npu_cache_clean_invalidate_range, )
RANGE(int, mcu_cache_invalidate_range, 0)
RANGE(int, mcu_cache_clean_range, 0)
RANGE(int, mcu_cache_clean_invalidate_range, 0)
