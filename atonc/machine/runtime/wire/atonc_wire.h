/* SPDX-License-Identifier: Apache-2.0
 * Networks of an application behind ST's validation protocol: `atonc validate --mode target` and ST's own client run
 * and measure them over a serial line.
 *
 * A board gives two functions; everything else is the same on all of them. The application sets up clocks, memories,
 * NPU and the UART (8 bits, no parity), initialises the runtime, and calls atonc_wire_serve().
 */
#ifndef ATONC_WIRE_H
#define ATONC_WIRE_H

#include <stdbool.h>
#include <stdint.h>

/* From the board. A byte that has come: false when there is none yet. A byte to send: returns when it may have the
 * next one. */
bool atonc_uart_receive(uint8_t *byte);
void atonc_uart_send(uint8_t byte);

/* Initialises the networks of this image; false when one is refused, `atonc_wire_complaint` says which and why. */
bool atonc_wire_start(void);
const char *atonc_wire_complaint(void);

/* Answers clients for ever. Nothing else may use the line meanwhile. */
void atonc_wire_serve(void);

#endif
