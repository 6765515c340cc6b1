/* SPDX-License-Identifier: Apache-2.0
 * Barriers, events and interrupt lines of an Armv8-M core, without CMSIS. On another machine (unit tests) they do
 * nothing.
 */
#ifndef ATONC_CPU_H
#define ATONC_CPU_H

#include <stdint.h>

#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#define ATONC_IS_CORTEX_M 1
#endif

#define ATONC_SYST_CSR 0xE000E010UL
#define ATONC_SYST_RUNS 3u             /* enabled, with interrupt */
#define ATONC_SYST_COUNTED (1UL << 16) /* reached zero since the last look */
#define ATONC_NVIC_ISER 0xE000E100UL
#define ATONC_NVIC_ICER 0xE000E180UL
#define ATONC_NVIC_IPR 0xE000E400UL
#define ATONC_SCB_CCR 0xE000ED14UL
#define ATONC_SCB_CCR_DC (1UL << 16)
#define ATONC_CORE_WORD(address) (*(volatile uint32_t *)(uintptr_t)(address))

static inline void atonc_cpu_dsb(void) {
#ifdef ATONC_IS_CORTEX_M
    __asm volatile("dsb 0xF" ::: "memory");
#endif
}

static inline void atonc_cpu_isb(void) {
#ifdef ATONC_IS_CORTEX_M
    __asm volatile("isb 0xF" ::: "memory");
#endif
}

static inline void atonc_cpu_wfe(void) {
#ifdef ATONC_IS_CORTEX_M
    __asm volatile("wfe" ::: "memory");
#endif
}

static inline void atonc_cpu_sev(void) {
#ifdef ATONC_IS_CORTEX_M
    __asm volatile("sev" ::: "memory");
#endif
}

static inline void atonc_irq_enable(unsigned line) {
#ifdef ATONC_IS_CORTEX_M
    atonc_cpu_dsb();
    ATONC_CORE_WORD(ATONC_NVIC_ISER + 4u * (line / 32u)) = 1UL << (line % 32u);
#else
    (void)line;
#endif
}

static inline void atonc_irq_disable(unsigned line) {
#ifdef ATONC_IS_CORTEX_M
    ATONC_CORE_WORD(ATONC_NVIC_ICER + 4u * (line / 32u)) = 1UL << (line % 32u);
    atonc_cpu_dsb();
    atonc_cpu_isb();
#else
    (void)line;
#endif
}

/* The priority in the bits that the core has: 0 is the most urgent of 16 levels. */
static inline void atonc_irq_priority(unsigned line, unsigned priority) {
#ifdef ATONC_IS_CORTEX_M
    *(volatile uint8_t *)(uintptr_t)(ATONC_NVIC_IPR + line) = (uint8_t)(priority << 4);
#else
    (void)line;
    (void)priority;
#endif
}

#endif
