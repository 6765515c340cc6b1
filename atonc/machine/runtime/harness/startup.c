/* SPDX-License-Identifier: Apache-2.0
 * From reset to main: vector table, FPU, data, a millisecond tick. No vendor code is needed.
 */
#include <stdint.h>

#include "board_io.h"

#define WORD(address) (*(volatile uint32_t *)(address))
#define NPU0_LINE 53
#define LAST_LINE 200
#ifndef BOARD_CPU_KHZ
#define BOARD_CPU_KHZ 800000u
#endif
#define TICK_CYCLES (BOARD_CPU_KHZ - 1u) /* one millisecond */

extern uint32_t _estack, _data_load, _data_start, _data_end, _bss_start, _bss_end;
int main(void);
void Reset_Handler(void);
static void unexpected(void);
void SysTick_Handler(void);
__attribute__((weak)) void NPU0_IRQHandler(void);
__attribute__((weak)) void NPU1_IRQHandler(void);
__attribute__((weak)) void NPU2_IRQHandler(void);
__attribute__((weak)) void NPU3_IRQHandler(void);

void NPU0_IRQHandler(void) { unexpected(); }
void NPU1_IRQHandler(void) { unexpected(); }
void NPU2_IRQHandler(void) { unexpected(); }
void NPU3_IRQHandler(void) { unexpected(); }

typedef void (*handler_t)(void);

__attribute__((section(".isr_vector"), used)) static const handler_t vectors[16 + LAST_LINE] = {
    (handler_t)(uintptr_t)&_estack,
    Reset_Handler,
    [2] = unexpected,
    [3] = unexpected,
    [4] = unexpected,
    [5] = unexpected,
    [6] = unexpected,
    [7] = unexpected,
    [11] = unexpected,
    [14] = unexpected,
    [15] = SysTick_Handler,
    [16 + NPU0_LINE] = NPU0_IRQHandler,
    [17 + NPU0_LINE] = NPU1_IRQHandler,
    [18 + NPU0_LINE] = NPU2_IRQHandler,
    [19 + NPU0_LINE] = NPU3_IRQHandler,
};

static volatile uint32_t milliseconds;

void SysTick_Handler(void) { milliseconds++; }

uint32_t board_milliseconds(void) { return milliseconds; }

uint32_t board_cycles(void) { return WORD(0xE0001004u); }

static void unexpected(void) {
    uint32_t number;
    __asm volatile("mrs %0, ipsr" : "=r"(number));
    board_print("ATONC ERROR exception ");
    board_print_number(number);
    board_print("\n");
    board_stop(BOARD_FAILED);
}

void Reset_Handler(void) {
    WORD(0xE000ED88u) |= 0xFu << 20; /* FPU on */
    __asm volatile("dsb\n\tisb" ::: "memory");
    uint32_t *from = &_data_load;
    for (uint32_t *to = &_data_start; to < &_data_end; to++)
        *to = *from++;
    for (uint32_t *to = &_bss_start; to < &_bss_end; to++)
        *to = 0;
    WORD(0xE000ED08u) = (uint32_t)(uintptr_t)vectors;
    WORD(0xE000EDFCu) |= 1u << 24; /* trace on, for the cycle counter */
    WORD(0xE0001000u) |= 1u;
    WORD(0xE000E014u) = TICK_CYCLES;
    WORD(0xE000E018u) = 0;
    WORD(0xE000E010u) = 7u;
    __asm volatile("cpsie i" ::: "memory");
    main();
    board_stop(BOARD_ENDED);
}
