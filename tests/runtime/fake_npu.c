/* SPDX-License-Identifier: Apache-2.0
 * Stands in for the NPU when the runtime is compiled for the machine that runs the tests: registers in an array, a log
 * of all stores, and just enough behaviour for the runtime to believe in it.
 */
#include <stdbool.h>
#include <stdint.h>

#include "atonc_npu_regs.h"

#define UNITS 32
#define REGISTERS 2048
#define LOG 200000

typedef struct {
    uint32_t unit, reg, value;
} store_t;

static uint32_t registers[UNITS][REGISTERS];
store_t fake_log[LOG];
uint32_t fake_count;
int fake_mode;       /* what the NPU does with work: 0 finishes it, 1 never ends, 2 reports an error */
int fake_stuck = -1; /* a unit whose reset never ends */
int fake_asleep;     /* so many reads give 0 before a unit answers after its clock was switched on */
uint32_t fake_label; /* where a hanging controller stands */

void NPU0_IRQHandler(void);

void fake_reset(void) {
    for (unsigned u = 0; u < UNITS; u++) {
        for (unsigned r = 0; r < REGISTERS; r++) {
            registers[u][r] = 0;
        }
    }
    fake_count = 0;
    fake_mode = 0;
    fake_stuck = -1;
    fake_asleep = 0;
    fake_label = 0;
}

void fake_set(uint32_t unit, uint32_t reg, uint32_t value) { registers[unit][reg] = value; }
uint32_t fake_get(uint32_t unit, uint32_t reg) { return registers[unit][reg]; }

static void raise(uint32_t lines) { registers[ATONC_INTCTRL0][ATONC_INTCTRL_INTREG] |= lines; }

static void start_controller(void) {
    uint32_t *unit = registers[ATONC_EPOCHCTRL0];
    unit[ATONC_EPOCHCTRL_LABEL] = fake_label;
    if (fake_mode == 1) {
        return;
    }
    unit[ATONC_EPOCHCTRL_IRQ] = fake_mode == 2 ? 0x20u : 1u;
    raise(fake_mode == 2 ? 0x40000000u : 0x10000000u);
}

static void start_engine(unsigned unit) {
    if (fake_mode == 1) {
        registers[unit][0] |= 0x80000000u;
        return;
    }
    raise(fake_mode == 2 ? 1u << (unit - ATONC_STRENG0 + 10u) : 1u << (unit - ATONC_STRENG0));
}

static void store_control(unsigned unit, uint32_t value) {
    if ((int)unit != fake_stuck) {
        value &= ~0x40000002u; /* resets end at once */
    }
    registers[unit][0] = value;
    if (value & 1u) {
        if (unit == ATONC_EPOCHCTRL0) {
            start_controller();
        } else if (unit >= ATONC_STRENG0 && unit < ATONC_STRENG0 + ATONC_STRENG_NUM) {
            start_engine(unit);
        }
    }
}

void atonc_write(unsigned unit, unsigned reg, uint32_t value) {
    if (fake_count < LOG) {
        fake_log[fake_count++] = (store_t){unit, reg, value};
    }
    if (reg == 0) {
        store_control(unit, value);
    } else if (unit == ATONC_INTCTRL0 && reg == ATONC_INTCTRL_INTCLR) {
        registers[unit][ATONC_INTCTRL_INTREG] &= ~value;
    } else if (unit == ATONC_EPOCHCTRL0 && reg == ATONC_EPOCHCTRL_IRQ) {
        registers[unit][reg] &= ~value;
    } else {
        registers[unit][reg] = value;
    }
}

uint32_t atonc_read(unsigned unit, unsigned reg) {
    if (fake_asleep > 0) {
        fake_asleep--;
        return 0;
    }
    return registers[unit][reg];
}

/* The interrupt line: calls the handler if a visible line is raised. */
bool fake_interrupt(void) {
    uint32_t lines = registers[ATONC_INTCTRL0][ATONC_INTCTRL_INTREG];
    uint32_t any = ~registers[ATONC_INTCTRL0][ATONC_INTCTRL_INTORMSK0];
    uint32_t all = ~registers[ATONC_INTCTRL0][ATONC_INTCTRL_INTANDMSK0];
    if ((lines & any) != 0 || (all != 0 && (lines & all) == all)) {
        NPU0_IRQHandler();
        return true;
    }
    return false;
}
