/* SPDX-License-Identifier: Apache-2.0
 * Every wait for the NPU is counted, in looks at its state and, where the application has a clock, in milliseconds.
 *
 * startWatchdog and checkWatchdog are names of LL_ATON; an application that replaces them decides alone.
 */
#include "atonc_internal.h"
#include "ll_aton.h"
#include "ll_aton_osal.h"

static uint32_t limit_polls = ATONC_WATCHDOG_POLLS;
static uint32_t limit_ms = ATONC_WATCHDOG_MS;
static volatile uint32_t polls;
static uint32_t started_ms;

LL_ATON_WEAK uint32_t atonc_tick_ms(void) { return 0; }

void atonc_set_watchdog(uint32_t max_polls, uint32_t milliseconds) {
    limit_polls = max_polls;
    limit_ms = milliseconds;
}

LL_ATON_WEAK int startWatchdog(uint32_t timeout) {
    (void)timeout;
    polls = 0;
    started_ms = atonc_tick_ms();
    return 0;
}

LL_ATON_WEAK int checkWatchdog(void) {
    uint32_t count = polls + 1u;
    polls = count;
    if (limit_polls != 0 && count >= limit_polls) {
        return 1;
    }
    return limit_ms != 0 && atonc_tick_ms() - started_ms >= limit_ms;
}

void atonc_watchdog_start(void) { startWatchdog(limit_ms); }
bool atonc_watchdog_expired(void) { return checkWatchdog() != 0; }

/* Without a running SysTick perhaps nothing but the NPU would wake the core, and the watchdog could not bark. With it,
 * its periods are counted, not the wakings, which may have other causes. */
LL_ATON_WEAK void atonc_wait_for_event(void) {
#ifdef ATONC_IS_CORTEX_M
    uint32_t before = ATONC_CORE_WORD(ATONC_SYST_CSR);
    if ((before & ATONC_SYST_RUNS) == ATONC_SYST_RUNS) {
        atonc_cpu_wfe();
        if ((before | ATONC_CORE_WORD(ATONC_SYST_CSR)) & ATONC_SYST_COUNTED) {
            polls += ATONC_WATCHDOG_TICK_POLLS;
        }
    }
#endif
}
