/* SPDX-License-Identifier: Apache-2.0
 * What the harness and the host that runs the virtual board say to each other.
 *
 * The firmware prints lines on USART1 and stops at breakpoint instructions; the host then reads and writes memory
 * (inputs, outputs, `board_host`) and lets it go on.
 */
#ifndef BOARD_IO_H
#define BOARD_IO_H

#include <stdint.h>

#define BOARD_READY 1 /* waits for a command in board_host */
#define BOARD_ENDED 2
#define BOARD_FAILED 3

enum { BOARD_QUIT = 0, BOARD_RUN = 1, BOARD_SET_INPUT = 2, BOARD_SET_OUTPUT = 3, BOARD_INSTALL = 4, BOARD_RESET = 6 };

typedef struct {
    uint32_t command;
    uint32_t network;
    uint32_t index;   /* of the input or output */
    uint32_t address; /* of its new buffer, or of an image */
    uint32_t size;
} board_host_t;
extern volatile board_host_t board_host;

void board_print(const char *text);
void board_print_number(uint32_t value);
void board_print_hex(uint32_t value);
uint32_t board_milliseconds(void);
uint32_t board_cycles(void);

#define board_stop(reason) __asm volatile("bkpt %0" ::"i"(reason) : "memory") /* one of the constants above */

#endif
