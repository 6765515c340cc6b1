/* SPDX-License-Identifier: Apache-2.0
 * See the header.
 */
#include "wire_chip.h"

#define WORD(address) (*(volatile uint32_t *)(address))
#define DEBUG_CONTROL WORD(0xE000EDFCu)
#define TRACE_ON (1u << 24)
#define COUNTER_CONTROL WORD(0xE0001000u)
#define COUNTER WORD(0xE0001004u)

#ifndef ATONC_RCC
#define ATONC_RCC 0x56028000u /* the secure address */
#endif
#ifndef ATONC_HSE_HZ
#define ATONC_HSE_HZ 48000000u /* the crystal of both boards */
#endif
#define HSI_HZ 64000000u
#define MSI_HZ 4000000u
#define SWITCHES WORD(ATONC_RCC + 0x20u)
#define HSI_SETTINGS WORD(ATONC_RCC + 0x48u)
#define PLL_FIRST(number) WORD(ATONC_RCC + 0x80u + 0x10u * (number))
#define PLL_THIRD(number) WORD(ATONC_RCC + 0x88u + 0x10u * (number))
#define DIVIDER(number) WORD(ATONC_RCC + 0xC0u + 4u * (number))

void wire_chip_start(void) {
    DEBUG_CONTROL |= TRACE_ON;
    COUNTER_CONTROL |= 1u;
}

uint64_t wire_cycles(void) {
    static uint64_t total;
    static uint32_t last;
    const uint32_t now = COUNTER;
    total += (uint32_t)(now - last);
    last = now;
    return total;
}

static uint32_t source_hz(uint32_t source) {
    const uint32_t hsi = HSI_HZ >> (HSI_SETTINGS >> 7 & 3u);
    const uint32_t known[] = {hsi, MSI_HZ, ATONC_HSE_HZ, 0};
    return known[source & 3u];
}

static uint32_t at_least_one(uint32_t value) { return value ? value : 1u; }

static uint32_t pll_hz(uint32_t number) {
    const uint32_t first = PLL_FIRST(number), third = PLL_THIRD(number);
    const uint64_t in = source_hz(first >> 28);
    if (first >> 27 & 1u) /* bypassed */
        return (uint32_t)in;
    const uint32_t divided =
        at_least_one(first >> 20 & 0x3Fu) * at_least_one(third >> 27 & 7u) * at_least_one(third >> 24 & 7u);
    return (uint32_t)(in * (first >> 8 & 0xFFFu) / divided);
}

/* Behind a switch: an oscillator, or one of the dividers of the PLLs. */
static uint32_t switched_hz(uint32_t source, uint32_t divider) {
    const uint32_t word = DIVIDER(divider);
    return (source & 3u) == 3u ? pll_hz(word >> 28 & 3u) / ((word >> 16 & 0xFFu) + 1u) : source_hz(source);
}

uint32_t wire_cpu_hz(void) { return switched_hz(SWITCHES >> 20, 1); }
uint32_t wire_bus_hz(void) { return switched_hz(SWITCHES >> 28, 2); }
uint32_t wire_npu_hz(void) { return switched_hz(SWITCHES >> 28, 6); }
uint32_t wire_npu_ram_hz(void) { return switched_hz(SWITCHES >> 28, 11); }
