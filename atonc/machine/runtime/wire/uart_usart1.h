/* SPDX-License-Identifier: Apache-2.0
 * The driver of USART1 that comes along: bytes go through the functions of atonc_wire.h.
 */
#ifndef UART_USART1_H
#define UART_USART1_H

#include <stdint.h>

void uart_usart1_open(uint32_t baud);

#endif
