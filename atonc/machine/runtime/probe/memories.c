/* SPDX-License-Identifier: Apache-2.0
 * See the header. Nothing is read from a memory whose controller does not say that it maps it: that could stop the bus.
 */
#include "memories.h"

#include "npu_cache.h"

#define WORD(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define RCC 0x56028000u
#define RCC_SET 0x800u
#define RCC_CLEAR 0x1000u
#define RCC_RESET_AHB5 0x220u
#define RCC_MEMORIES 0x24Cu
#define RCC_AHB5 0x260u
#define RCC_SLEEP_MEMORIES 0x28Cu
#define RCC_SLEEP_AHB5 0x2A0u
#define CACHE_BIT (1u << 30)
#define CACHE_RAM (1u << 10)
#define CPU_RAMS (1u << 7 | 1u << 8) /* AXISRAM1 and 2 */
#define XSPI1 0x58025000u            /* hyperRAM */
#define XSPI1_BIT (1u << 5)
#define XSPI2 0x5802A000u /* flash */
#define XSPI2_BIT (1u << 12)
#define XSPI_ON 1u
#define XSPI_MODE (3u << 28)
#define XSPI_MAPPED (3u << 28)

/* Overrides the runtime's, which would ask ST's HAL. */
void npu_cache_enable_clocks_and_reset(void) {
    WORD(RCC + RCC_SET + RCC_MEMORIES) = CACHE_RAM;
    WORD(RCC + RCC_SET + RCC_AHB5) = CACHE_BIT;
    WORD(RCC + RCC_SET + RCC_RESET_AHB5) = CACHE_BIT;
    WORD(RCC + RCC_CLEAR + RCC_RESET_AHB5) = CACHE_BIT;
    (void)WORD(RCC + RCC_AHB5);
}

void memories_on(void) {
    WORD(RCC + RCC_SET + RCC_MEMORIES) = CPU_RAMS;
    WORD(RCC + RCC_SET + RCC_SLEEP_MEMORIES) = CPU_RAMS | CACHE_RAM;
    WORD(RCC + RCC_SET + RCC_SLEEP_AHB5) = CACHE_BIT | XSPI1_BIT | XSPI2_BIT; /* of those that have a clock at all */
    npu_cache_enable();
}

static bool mapped(uint32_t controller, uint32_t clock) {
    if (!(WORD(RCC + RCC_AHB5) & clock)) {
        return false;
    }
    const uint32_t control = WORD(controller);
    return (control & XSPI_ON) && (control & XSPI_MODE) == XSPI_MAPPED;
}

bool flash_is_mapped(void) { return mapped(XSPI2, XSPI2_BIT); }
bool hyperram_is_mapped(void) { return mapped(XSPI1, XSPI1_BIT); }

bool hyperram_answers(uint32_t address) {
    static const uint32_t patterns[] = {0x5AA53CC3u, 0xA55AC33Cu};
    for (unsigned k = 0; k < 2; k++) {
        WORD(address) = patterns[k];
        __asm volatile("dsb" ::: "memory");
        if (WORD(address) != patterns[k]) {
            return false;
        }
    }
    return true;
}
