/* SPDX-License-Identifier: Apache-2.0
 * The NPU as a whole: clocks, bus interfaces, interrupt masks, resets, versions.
 */
#include <limits.h>

#include "atonc_internal.h"
#include "ll_aton.h"

#define CLEAR_POLLS 100000u /* a unit clears within some cycles; this only ends a wait for a dead one */
#define CLOCK_POLLS 10000u  /* likewise for a unit whose clock was just switched on and that reads as 0 until it runs */

static bool cleared(unsigned unit, uint32_t bit) {
    for (unsigned i = 0; i < CLEAR_POLLS; i++) {
        if ((atonc_read(unit, ATONC_CTRL) & bit) == 0) {
            return true;
        }
    }
    atonc_rt_fail(ATONC_ERR_UNIT_STUCK, unit);
    return false;
}

bool atonc_clear_unit(unsigned unit, uint32_t reset) {
    atonc_write(unit, ATONC_CTRL, reset | ATONC_CTRL_CLR);
    if (!cleared(unit, ATONC_CTRL_CLR)) {
        return false;
    }
    atonc_write(unit, ATONC_CTRL, reset | ATONC_CTRL_CONFCLR);
    return cleared(unit, ATONC_CTRL_CONFCLR);
}

void atonc_clock(unsigned bit, bool on) {
#if LL_ATON_ENABLE_CLOCK_GATING
    uint32_t gates = atonc_read(ATONC_CLKCTRL0, ATONC_CLKCTRL_BGATES);
    gates = on ? gates | 1UL << bit : gates & ~(1UL << bit);
    atonc_write(ATONC_CLKCTRL0, ATONC_CLKCTRL_BGATES, gates);
#else
    (void)bit;
    (void)on;
#endif
}

void LL_ATON_EnableClock(unsigned int clock) { atonc_clock(clock, true); }
void LL_ATON_DisableClock(unsigned int clock) { atonc_clock(clock, false); }

static uint32_t version_of(unsigned unit) {
    uint32_t word = 0;
    for (unsigned i = 0; i < CLOCK_POLLS && word == 0; i++) {
        word = atonc_read(unit, ATONC_VERSION);
    }
    return word & 0xFFFFu;
}

/* Type and version of the first unit of each kind: a program is only right for the machine it was made for. */
static void check_versions(void) {
    static const struct {
        uint8_t unit;
        uint16_t version;
    } expected[] = {
        {ATONC_CLKCTRL0, ATONC_CLKCTRL_VERSION_RESET & 0xFFFFu},
        {ATONC_INTCTRL0, ATONC_INTCTRL_VERSION_RESET & 0xFFFFu},
        {ATONC_BUSIF0, ATONC_BUSIF_VERSION_RESET & 0xFFFFu},
        {ATONC_STRSWITCH0, ATONC_STRSWITCH_VERSION_RESET & 0xFFFFu},
        {ATONC_STRENG0, ATONC_STRENG_VERSION_RESET & 0xFFFFu},
        {ATONC_CONVACC0, ATONC_CONVACC_VERSION_RESET & 0xFFFFu},
        {ATONC_DECUN0, ATONC_DECUN_VERSION_RESET & 0xFFFFu},
        {ATONC_ACTIV0, ATONC_ACTIV_VERSION_RESET & 0xFFFFu},
        {ATONC_ARITH0, ATONC_ARITH_VERSION_RESET & 0xFFFFu},
        {ATONC_POOL0, ATONC_POOL_VERSION_RESET & 0xFFFFu},
        {ATONC_EPOCHCTRL0, ATONC_EPOCHCTRL_VERSION_RESET & 0xFFFFu},
    };
    for (unsigned i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        uint32_t found = version_of(expected[i].unit);
        if (found != expected[i].version) {
            atonc_rt_fail(ATONC_ERR_NPU_VERSION, (uint32_t)expected[i].unit << 16 | found);
            return;
        }
    }
}

static void bus_interfaces(uint32_t control) {
    for (unsigned i = 0; i < ATONC_BUSIF_NUM; i++) {
        atonc_write(ATONC_BUSIF0 + i, ATONC_BUSIF_CTRL, control);
    }
}

int LL_ATON_Init(void) {
    uint32_t control = atonc_read(ATONC_CLKCTRL0, ATONC_CTRL);
    atonc_write(ATONC_CLKCTRL0, ATONC_CTRL, control | ATONC_CTRL_CLR);
    atonc_write(ATONC_CLKCTRL0, ATONC_CTRL, ATONC_CTRL_EN);
    atonc_write(ATONC_CLKCTRL0, ATONC_CLKCTRL_AGATES0, 0xFFFFFFFFUL);
    atonc_write(ATONC_CLKCTRL0, ATONC_CLKCTRL_AGATES1, 0xFFFFFFFFUL);
    atonc_write(ATONC_CLKCTRL0, ATONC_CLKCTRL_BGATES, LL_ATON_ENABLE_CLOCK_GATING ? 0 : 0xFFFFFFFFUL);
    check_versions();
    bus_interfaces(ATONC_CTRL_EN);
    atonc_write(ATONC_INTCTRL0, ATONC_CTRL, ATONC_CTRL_EN);
    return LL_ATON_OK;
}

int LL_ATON_DeInit(void) {
    atonc_write(ATONC_INTCTRL0, ATONC_CTRL, 0);
    bus_interfaces(0);
    atonc_write(ATONC_CLKCTRL0, ATONC_CLKCTRL_AGATES0, 0);
    atonc_write(ATONC_CLKCTRL0, ATONC_CLKCTRL_AGATES1, 0);
    atonc_write(ATONC_CLKCTRL0, ATONC_CLKCTRL_BGATES, 0);
    atonc_write(ATONC_CLKCTRL0, ATONC_CTRL, 0);
    return LL_ATON_OK;
}

static void set_masks(uint32_t any, uint32_t all) {
    atonc_write(ATONC_INTCTRL0, ATONC_INTCTRL_INTORMSK0 + ATON_STD_IRQ_LINE, any);
    atonc_write(ATONC_INTCTRL0, ATONC_INTCTRL_INTANDMSK0 + ATON_STD_IRQ_LINE, all);
}

void atonc_interrupts_off(void) { set_masks(0xFFFFFFFFUL, 0xFFFFFFFFUL); }

/* A set bit hides a line. The OR mask lets errors and the controller through, the AND mask a set of engines. */
void atonc_interrupts_wait_for(uint32_t engines) {
#if LL_ATON_RT_MODE == LL_ATON_RT_ASYNC
    set_masks(ATONC_LINES_ENGINES, ~(engines & ATONC_LINES_ENGINES));
#else
    (void)engines;
#endif
}

void atonc_interrupts_setup(void) {
    atonc_clear_unit(ATONC_INTCTRL0, 0);
    atonc_write(ATONC_INTCTRL0, ATONC_INTCTRL_INTCLR, 0xFFFFFFFFUL); /* lines of an inference that failed */
    atonc_interrupts_off();
    atonc_interrupts_wait_for(0);
    atonc_write(ATONC_INTCTRL0, ATONC_CTRL, ATONC_CTRL_EN);
}

void atonc_reset_npu(void) {
    static const uint8_t kinds[][2] = {
        {ATONC_EPOCHCTRL0, ATONC_EPOCHCTRL_NUM},
        {ATONC_STRENG0, ATONC_STRENG_NUM},
        {ATONC_STRSWITCH0, ATONC_STRSWITCH_NUM},
    };
    atonc_interrupts_off();
    atonc_write(ATONC_CLKCTRL0, ATONC_CLKCTRL_BGATES, 0xFFFFFFFFUL);
    for (unsigned k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (unsigned i = 0; i < kinds[k][1]; i++) {
            atonc_clear_unit(kinds[k][0] + i, 0);
        }
    }
    LL_ATON_DeInit();
    LL_ATON_Init();
    atonc_interrupts_setup();
}

/* ---- keys of the bus interfaces: also for firmware that has the epoch controller only ---- */

int LL_Busif_SetKeys(int id, int key, uint64_t key_low, uint64_t key_hi) {
    if (!atonc_has_unit(id, ATONC_BUSIF_NUM) || (key != 0 && key != 1)) {
        return atonc_refuse(LL_ATON_INVALID_ID);
    }
    unsigned unit = ATONC_BUSIF0 + (unsigned)id, reg = key == 0 ? ATONC_BUSIF_KEY0_31_0 : ATONC_BUSIF_KEY1_31_0;
    atonc_write(unit, reg, (uint32_t)key_low);
    atonc_write(unit, reg + 1u, (uint32_t)(key_low >> 32));
    atonc_write(unit, reg + 2u, (uint32_t)key_hi);
    atonc_write(unit, reg + 3u, (uint32_t)(key_hi >> 32));
    return LL_ATON_OK;
}
