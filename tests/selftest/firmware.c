/* SPDX-License-Identifier: Apache-2.0
 * A firmware that sets everything up as it should be, then asks the self-test: with a map of all memories, and with the
 * one of a generated network. What the host wants to be wrong in the firmware itself stands in `planted`.
 */
#include <stddef.h>
#include <stdint.h>

#include "atonc_runtime.h"
#include "atonc_selftest.h"
#include "digits_selftest.h"
#include "mcu_cache.h"

#define WORD(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define RCC 0x56028000u
#define SET 0x800u
#define MOST 16u

enum {
    CLEAN_NOTHING = 1,
    CLEAN_SIZE_AS_END = 2,
    CLEAN_FIRST_LINE = 4,
    INVALIDATE_NOTHING = 8,
    WITH_CACHE_RAM = 16,
    WITH_DTCM = 32,
    NPU_STARTED = 64,
    NEVER_SLEEPS = 128,
    OTHER_ADDRESS = 256,
};

volatile uint32_t planted __attribute__((section(".noinit")));
atonc_finding_t findings[MOST];
volatile uint32_t found;
volatile uint32_t changed; /* registers and memory that the self-test did not leave as they were */

/* ---- as it should be ---- */

static void risaf_open(uint32_t number) { /* as ST's firmware does: a secure and a non-secure region over everything */
    const uint32_t base = 0x54025000u + 0x1000u * number;
    for (uint32_t k = 0; k < 2; k++) {
        WORD(base + 0x40u * (k + 1u) + 4u) = 0;
        WORD(base + 0x40u * (k + 1u) + 8u) = 0xFFFFFFFFu;
        WORD(base + 0x40u * (k + 1u) + 12u) = 0x00FF00FFu;
        WORD(base + 0x40u * (k + 1u)) = 1u | (k == 0 ? 1u << 8 : 0);
    }
}

static void set_up(void) {
    WORD(RCC + SET + 0x24Cu) = 0xFFFu;             /* memories */
    WORD(RCC + SET + 0x28Cu) = 0xFFFu;             /* in sleep too */
    WORD(RCC + SET + 0x254u) = 1u << 12;           /* RAMCFG */
    WORD(RCC + SET + 0x258u) = 1u << 9 | 1u << 14; /* RIFSC, RISAF */
    WORD(RCC + SET + 0x260u) = 3u << 30 | 1u << 5 | 1u << 12;
    WORD(RCC + SET + 0x2A0u) = 3u << 30 | 1u << 5 | 1u << 12;
    for (uint32_t bank = 2; bank <= 6; bank++)
        WORD(0x52023000u + 0x80u * (bank - 1u)) &= ~(1u << 20);
    WORD(0x54024C14u) = 0x310u; /* NPU: privileged, secure, compartment 1 */
    WORD(0x5402401Cu) |= 1u << 10;
    WORD(0x5402403Cu) |= 1u << 10;
    risaf_open(4);
    risaf_open(5);
    if (!(planted & WITH_CACHE_RAM))
        WORD(0x580DFC00u) |= 1u; /* CACHEAXI_CR1 */
    WORD(0x58025000u) = 3u << 28 | 1u; /* XSPI1, XSPI2: mapped */
    WORD(0x5802A000u) = 3u << 28 | 1u;
    if (planted & WITH_CACHE_RAM)
        WORD(0x580DFC00u) |= 1u;
    if (planted & NPU_STARTED)
        WORD(0x580E0000u) = 1u;
}

/* ---- functions of an application: the runtime's are weak ---- */

static void lines(uintptr_t command, uint32_t start, uint32_t end) {
    __asm volatile("dsb" ::: "memory");
    for (uint32_t line = start & ~31u; line < end; line += 32u)
        WORD(command) = line;
    __asm volatile("dsb" ::: "memory");
}

int mcu_cache_clean_range(uint32_t start, uint32_t end) {
    if (planted & CLEAN_NOTHING)
        return 0;
    end = planted & CLEAN_SIZE_AS_END ? end - start : planted & CLEAN_FIRST_LINE ? start + 1u : end;
    lines(0xE000EF68u, start, end);
    return 0;
}

int mcu_cache_invalidate_range(uint32_t start, uint32_t end) {
    if (!(planted & INVALIDATE_NOTHING))
        lines(0xE000EF5Cu, start, end);
    return 0;
}

static void clean(uint32_t address, uint32_t size) { mcu_cache_clean_range(address, address + size); }
static void invalidate(uint32_t address, uint32_t size) { mcu_cache_invalidate_range(address, address + size); }

uint32_t atonc_tick_ms(void);
uint32_t board_milliseconds(void);
uint32_t atonc_tick_ms(void) { return board_milliseconds(); }

/* ---- what the self-test must not change ---- */

static const uint32_t watched[] = {
    RCC + 0x24Cu, RCC + 0x254u, RCC + 0x258u, RCC + 0x25Cu, RCC + 0x260u, RCC + 0x2A0u, 0x580E0000u, 0x580E0008u, 0x580E000Cu,
    0x580E0010u, 0x580E1000u, 0x580E1014u, 0x580E1024u, 0x580E2000u, 0x580FE000u, 0x54024C14u, 0x34200100u, 0x34270000u,
    0x3427003Cu, 0x3427007Cu, 0x342E0040u, 0x340F0000u, 0xE0001000u, 0xE000EDFCu,
};
#define WATCHED (sizeof watched / sizeof watched[0])

static void look(uint32_t *values) {
    for (uint32_t k = 0; k < WATCHED; k++)
        values[k] = WORD(watched[k]);
}

int main(void);
int main(void) {
    enum { RW = ATONC_SELFTEST_NPU_READS | ATONC_SELFTEST_NPU_WRITES };
    const atonc_selftest_memory_t memories[] = {
        {0x340F0000u, 0x8000u, RW},                                                                /* AXISRAM1 */
        {0x341E0000u, 0x8000u, RW},                                                                /* AXISRAM2 */
        {0x34200100u, 0x1C0000u - 0x100u, RW},                                                     /* AXISRAM3 to 6 */
        {0x34400000u, 0x20000u, RW},                                                               /* VENCRAM */
        {0x90000000u, 0x100000u, RW},                                                              /* hyperRAM */
        {0x70380000u, 0x10000u, ATONC_SELFTEST_NPU_READS | (planted & WITH_CACHE_RAM ? 0u : ATONC_SELFTEST_NPU_CACHED)},
        {planted & WITH_DTCM ? 0x30000000u : planted & WITH_CACHE_RAM ? 0x343C0000u : 0x34160000u, 0x1000u, RW},
    };
    const atonc_selftest_map_t map = {
        .memories = memories,
        .memory_count = sizeof memories / sizeof memories[0],
        .work = 0x34380000u,
        .flags = planted & NEVER_SLEEPS ? ATONC_SELFTEST_NEVER_SLEEPS : 0u,
        .cpu_hz = 800000000u,
        .npu_hz = 1000000000u,
        .npu_ram_hz = 900000000u,
        .npu_base = planted & OTHER_ADDRESS ? 0x480E0000u : 0x580E0000u,
        .clean = clean,
        .invalidate = invalidate,
    };
    uint32_t before[WATCHED], after[WATCHED];
    set_up();
    atonc_set_watchdog(0, 200);
    look(before);
    found = atonc_selftest(&map, findings, MOST);
    look(after);
    for (uint32_t k = 0; k < WATCHED; k++)
        changed += before[k] != after[k];
    if (found == 0 && !(planted & NEVER_SLEEPS))
        found = digits_selftest(findings, MOST);
    lines(0xE000EF68u, (uint32_t)(uintptr_t)findings, (uint32_t)(uintptr_t)(findings + MOST));
    lines(0xE000EF68u, (uint32_t)(uintptr_t)&found, (uint32_t)(uintptr_t)&found + 4u);
    lines(0xE000EF68u, (uint32_t)(uintptr_t)&changed, (uint32_t)(uintptr_t)&changed + 4u);
    return 0;
}
