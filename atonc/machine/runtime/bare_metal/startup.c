/* SPDX-License-Identifier: Apache-2.0
 * From reset to main. The image is loaded into RAM as a whole, so there is no data to copy.
 */
#include <stdint.h>

#define WORD(address) (*(volatile uint32_t *)(address))
#define NPU0_LINE 53
#define FAULT_STATUS WORD(0xE000ED28u)
#define BUS_FAULT_ADDRESS WORD(0xE000ED38u)
#define FRAME_PC 6u

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

/* Of code that tells somebody about a fault, if there is any. */
void atonc_fault(uint32_t pc, uint32_t cause, uint32_t address);
__attribute__((weak)) void atonc_fault(uint32_t pc, uint32_t cause, uint32_t address) {
    (void)pc;
    (void)cause;
    (void)address;
}

__attribute__((used)) static void fault(const uint32_t *frame) {
    atonc_fault(frame[FRAME_PC], FAULT_STATUS, BUS_FAULT_ADDRESS);
    stay_here();
}

/* Nothing here runs on the process stack: the frame lies where the main stack points. */
__attribute__((naked)) static void fault_handler(void) { __asm volatile("mrs r0, msp\n\tb fault"); }

typedef void (*handler_t)(void);

__attribute__((section(".isr_vector"), used)) static const handler_t vectors[16 + 200] = {
    (handler_t)(uintptr_t)&_estack,
    Reset_Handler,
    [2 ... 7] = fault_handler,
    [8 ... 14] = stay_here,
    [15] = SysTick_Handler,
    [16 + NPU0_LINE] = NPU0_IRQHandler,
};

__attribute__((used)) static void start(void) {
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

/* The boot ROM leaves limits of its own stacks, and a debugger may start this in the middle of anything. */
__attribute__((naked)) void Reset_Handler(void) {
    __asm volatile("cpsid i\n\t"
                   "movs r0, #0\n\t"
                   "msr msplim, r0\n\t"
                   "msr psplim, r0\n\t"
                   "msr control, r0\n\t"
                   "msr basepri, r0\n\t"
                   "msr faultmask, r0\n\t"
                   "isb\n\t"
                   "ldr r0, =_estack\n\t"
                   "msr msp, r0\n\t"
                   "b start");
}
