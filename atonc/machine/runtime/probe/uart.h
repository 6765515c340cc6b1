/* SPDX-License-Identifier: Apache-2.0
 * Text on USART1, the virtual COM port of the debugger on the STM32N6570-DK and the NUCLEO-N657X0-Q.
 */
#ifndef UART_H
#define UART_H

#include <stdint.h>

void uart_open(void);
void uart_print(const char *text);

#endif
