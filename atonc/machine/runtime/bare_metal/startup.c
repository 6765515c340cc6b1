/* SPDX-License-Identifier: Apache-2.0
 * From reset to main. The image is loaded into RAM as a whole, so there is no data to copy.
 */
#include <stdint.h>

#define WORD(address) (*(volatile uint32_t *)(address))
#define NPU0_LINE 53

extern uint32_t _estack, _bss_start, _bss_end;
int main(void);
void Reset_Handler(void);
void NPU0_IRQHandler(void); /* in the runtime */

static void stay_here(void) {
    for (;;)
        __asm volatile("bkpt 3");
}

void SysTick_Handler(void);
__attribute__((weak)) void SysTick_Handler(void) { stay_here(); } /* of code that starts the timer, if there is any */

typedef void (*handler_t)(void);

__attribute__((section(".isr_vector"), used)) static const handler_t vectors[16 + 200] = {
    (handler_t)(uintptr_t)&_estack, Reset_Handler, [2 ... 14] = stay_here, [15] = SysTick_Handler,
    [16 + NPU0_LINE] = NPU0_IRQHandler,
};

void Reset_Handler(void) {
    WORD(0xE000ED88u) |= 0xFu << 20; /* FPU on */
    WORD(0xE000ED08u) = (uint32_t)(uintptr_t)vectors;
    __asm volatile("dsb\n\tisb" ::: "memory");
    for (uint32_t *word = &_bss_start; word < &_bss_end; word++)
        *word = 0;
    __asm volatile("cpsie i" ::: "memory");
    main();
    for (;;)
        __asm volatile("bkpt 2");
}
