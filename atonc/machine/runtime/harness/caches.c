/* SPDX-License-Identifier: Apache-2.0
 * Cache maintenance for the vendor's runtime on the virtual board. The NPU's cache does nothing there; the processor's
 * data cache is maintained by address, line by line.
 */
#include <stdint.h>

#define LINE 32u
#define SYSTEM_CONTROL 0xE000E000u
#define INVALIDATE 0xF5Cu
#define CLEAN 0xF68u
#define CLEAN_INVALIDATE 0xF70u

#define NOTHING(name)                                                                                                  \
    void name(void);                                                                                                   \
    void name(void) {}
#define NOTHING_RANGE(name)                                                                                            \
    void name(uint32_t start, uint32_t end);                                                                           \
    void name(uint32_t start, uint32_t end) {                                                                          \
        (void)start;                                                                                                   \
        (void)end;                                                                                                     \
    }
#define LINES(name, command)                                                                                           \
    int name(uint32_t start, uint32_t end);                                                                            \
    int name(uint32_t start, uint32_t end) {                                                                           \
        for (uint32_t line = start & ~(LINE - 1u); line < end; line += LINE)                                           \
            *(volatile uint32_t *)(SYSTEM_CONTROL + (command)) = line;                                                 \
        return 0;                                                                                                      \
    }

NOTHING(npu_cache_init)
NOTHING(npu_cache_enable)
NOTHING(npu_cache_disable)
NOTHING(npu_cache_invalidate)
NOTHING_RANGE(npu_cache_clean_range)
NOTHING_RANGE(npu_cache_clean_invalidate_range)
LINES(mcu_cache_invalidate_range, INVALIDATE)
LINES(mcu_cache_clean_range, CLEAN)
LINES(mcu_cache_clean_invalidate_range, CLEAN_INVALIDATE)
