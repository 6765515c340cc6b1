/* SPDX-License-Identifier: Apache-2.0
 * USART1 on PE5, 115200 8N1, clocked by the 64 MHz internal oscillator whatever the other clocks are.
 */
#ifdef UART
#include "uart.h"

#define WORD(address) (*(volatile uint32_t *)(address))
#define RCC 0x56028000u
#define RCC_USART1_CLOCK (RCC + 0x174u)
#define RCC_USART1_FROM_HSI 6u
#define RCC_GPIO_ON (RCC + 0x800u + 0x25Cu)
#define RCC_APB2_ON (RCC + 0x800u + 0x26Cu)
#define GPIOE 0x56021000u
#define PIN 5u
#define FUNCTION 7u
#define USART1 0x52001000u
#define HSI_HZ 64000000u
#define BAUD 115200u

void uart_open(void) {
    WORD(RCC_USART1_CLOCK) = (WORD(RCC_USART1_CLOCK) & ~7u) | RCC_USART1_FROM_HSI;
    WORD(RCC_GPIO_ON) = 1u << 4; /* GPIOE */
    WORD(RCC_APB2_ON) = 1u << 4; /* USART1 */
    __asm volatile("dsb" ::: "memory");
    WORD(GPIOE + 0x20u) = (WORD(GPIOE + 0x20u) & ~(0xFu << 4 * PIN)) | FUNCTION << 4 * PIN;
    WORD(GPIOE) = (WORD(GPIOE) & ~(3u << 2 * PIN)) | 2u << 2 * PIN; /* alternate function */
    WORD(USART1) = 0;
    WORD(USART1 + 0x0Cu) = (HSI_HZ + BAUD / 2u) / BAUD;
    WORD(USART1) = 1u << 3 | 1u; /* transmitter, on */
}

static void put(char one) {
    while (!(WORD(USART1 + 0x1Cu) & (1u << 7))) {
    }
    WORD(USART1 + 0x28u) = (uint8_t)one;
}

void uart_print(const char *text) {
    for (; *text; text++) {
        if (*text == '\n')
            put('\r');
        put(*text);
    }
}
#else
typedef int no_uart; /* a file must not be empty */
#endif
