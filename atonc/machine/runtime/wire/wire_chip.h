/* SPDX-License-Identifier: Apache-2.0
 * What the harness asks the chip itself, so that no board has to tell it: the time, and the clocks as they are set.
 */
#ifndef WIRE_CHIP_H
#define WIRE_CHIP_H

#include <stdint.h>

/* Switches the cycle counter on. */
void wire_chip_start(void);

/* Cycles of the CPU since then. The counter of the core has 32 bits: it must be asked once in every 2^32 cycles. */
uint64_t wire_cycles(void);

uint32_t wire_cpu_hz(void);
uint32_t wire_bus_hz(void);
uint32_t wire_npu_hz(void);
uint32_t wire_npu_ram_hz(void);

#endif
