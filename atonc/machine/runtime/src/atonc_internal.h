/* SPDX-License-Identifier: Apache-2.0
 * Shared inside the runtime: access to NPU registers, and what the files tell each other.
 */
#ifndef ATONC_INTERNAL_H
#define ATONC_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "atonc_npu_regs.h"
#include "atonc_runtime.h"
#include "ll_aton_platform.h"

/* A register field is `lsb, width` (atonc_npu_regs.h). */
#define ATONC_MASK_(lsb, width) ((0xFFFFFFFFUL >> (32 - (width))) << (lsb))
#define ATONC_MASK(field) ATONC_MASK_(field)
#define ATONC_PUT(word, field, value) atonc_put_field(word, field, (uint32_t)(value))

static inline uint32_t atonc_put_field(uint32_t word, unsigned lsb, unsigned width, uint32_t value) {
    uint32_t mask = 0xFFFFFFFFUL >> (32u - width);
    return (word & ~(mask << lsb)) | (value & mask) << lsb;
}

#ifdef ATONC_HOST
/* Unit tests on another machine stand in for the NPU. */
void atonc_write(unsigned unit, unsigned reg, uint32_t value);
uint32_t atonc_read(unsigned unit, unsigned reg);
#else
static inline volatile uint32_t *atonc_register(unsigned unit, unsigned reg) {
    return (volatile uint32_t *)(uintptr_t)(ATON_BASE + unit * ATONC_UNIT_STRIDE + 4u * reg);
}
static inline void atonc_write(unsigned unit, unsigned reg, uint32_t value) { *atonc_register(unit, reg) = value; }
static inline uint32_t atonc_read(unsigned unit, unsigned reg) { return *atonc_register(unit, reg); }
#endif

/* Control register, reset and enable bits are at the same place in every unit. */
#define ATONC_CTRL 0u
#define ATONC_CTRL_EN 0x1UL
#define ATONC_CTRL_CLR 0x2UL
#define ATONC_CTRL_CONFCLR 0x40000000UL
#define ATONC_CTRL_RUNNING 0x80000000UL
#define ATONC_VERSION 1u

/* The drivers: a driver call refuses impossible arguments by its result and by the status of the network. */
int atonc_refuse(int result);
/* The n-th unit of a kind with its clock on, or false. */
static inline bool atonc_has_unit(int number, unsigned count) { return number >= 0 && (unsigned)number < count; }

/* Empties a unit and brings its configuration back to reset; `reset` is its control word after reset. */
bool atonc_clear_unit(unsigned unit, uint32_t reset);
void atonc_clock(unsigned bit, bool on);
/* Masks of the interrupt controller: wait for all these stream engines (0: none), or for any other line. */
void atonc_interrupts_setup(void);
void atonc_interrupts_wait_for(uint32_t engines);
void atonc_interrupts_off(void);
/* Everything off and on again, after an error. */
void atonc_reset_npu(void);

/* Lines of the NPU's interrupt controller. */
#define ATONC_LINES_ENGINES 0x000003FFUL
#define ATONC_LINE_CONTROLLER 0x10000000UL
#define ATONC_LINE_CONTROLLER_ERROR 0x40000000UL
#define ATONC_LINES_ERRORS 0xEFFFFC00UL

#define ATONC_CONTROLLER_ERRORS 0xFEUL /* in EPOCHCTRL.IRQ */

/* The watchdog of one wait. */
void atonc_watchdog_start(void);
bool atonc_watchdog_expired(void);

#endif
