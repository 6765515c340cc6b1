/* SPDX-License-Identifier: Apache-2.0
 * USART1 on PE5 and PE6, the virtual COM port of the debugger on the STM32N6570-DK and the NUCLEO-N657X0-Q; clocked by
 * the internal oscillator of 64 MHz whatever the other clocks are.
 */
#include "uart_usart1.h"

#include "atonc_wire.h"

#define WORD(address) (*(volatile uint32_t *)(address))
#define RCC 0x56028000u
#define RCC_USART1_CLOCK WORD(RCC + 0x174u)
#define RCC_USART1_FROM_HSI 6u
#define RCC_GPIO_ON WORD(RCC + 0x800u + 0x25Cu)
#define RCC_APB2_ON WORD(RCC + 0x800u + 0x26Cu)
#define GPIOE 0x56021000u
#define FUNCTION 7u
#define USART1 0x52001000u
#define CONTROL WORD(USART1)
#define DIVIDER WORD(USART1 + 0x0Cu)
#define STATUS WORD(USART1 + 0x1Cu)
#define CLEAR WORD(USART1 + 0x20u)
#define RECEIVED WORD(USART1 + 0x24u)
#define SEND WORD(USART1 + 0x28u)
#define OVERRUN (1u << 3)
#define CAME (1u << 5)
#define FREE (1u << 7)
#define HSI_HZ 64000000u

static void connect(uint32_t pin) {
    WORD(GPIOE + 0x20u) = (WORD(GPIOE + 0x20u) & ~(0xFu << 4 * pin)) | FUNCTION << 4 * pin;
    WORD(GPIOE) = (WORD(GPIOE) & ~(3u << 2 * pin)) | 2u << 2 * pin; /* alternate function */
}

void uart_usart1_open(uint32_t baud) {
    RCC_USART1_CLOCK = (RCC_USART1_CLOCK & ~7u) | RCC_USART1_FROM_HSI;
    RCC_GPIO_ON = 1u << 4; /* GPIOE */
    RCC_APB2_ON = 1u << 4; /* USART1 */
    __asm volatile("dsb" ::: "memory");
    connect(5);
    connect(6);
    CONTROL = 0;
    DIVIDER = (HSI_HZ + baud / 2u) / baud;
    CONTROL = 1u << 3 | 1u << 2 | 1u; /* transmitter, receiver, on */
}

bool atonc_uart_receive(uint8_t *byte) {
    const uint32_t status = STATUS;
    if (status & OVERRUN)
        CLEAR = OVERRUN; /* a byte is lost; the client asks again */
    if (!(status & CAME))
        return false;
    *byte = (uint8_t)RECEIVED;
    return true;
}

void atonc_uart_send(uint8_t byte) {
    while (!(STATUS & FREE)) {
    }
    SEND = byte;
}
