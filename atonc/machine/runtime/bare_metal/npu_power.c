/* SPDX-License-Identifier: Apache-2.0
 * The NPU and its memories, switched on without vendor code.
 */
#include "npu_power.h"

#include <stdint.h>

#define WORD(address) (*(volatile uint32_t *)(address))

/* Registers at their secure addresses. Every RCC register has a twin at +0x800 that only sets bits. */
#define RCC 0x56028000u
#define RCC_SET 0x800u
#define RCC_RESET_AHB5 0x220u
#define RCC_CLEAR 0x1000u
#define RCC_MEMORIES 0x24Cu
#define RCC_AHB2 0x254u
#define RCC_AHB3 0x258u
#define RCC_AHB5 0x260u
#define RCC_SLEEP_MEMORIES 0x28Cu
#define RCC_SLEEP_AHB5 0x2A0u
#define NPU_BIT (1u << 31)
#define NPU_RAMS 0xFu /* AXISRAM3 to AXISRAM6 */
/* What the NPU may be at work with while the processor sleeps. A bit counts only where the clock itself is on, so that
 * memories which nobody uses may be named too. */
#define SLEEP_RAMS (NPU_RAMS | 1u << 7 | 1u << 8 | 1u << 9 | 1u << 10) /* AXISRAM1, AXISRAM2, FLEXRAM, the NPU cache's */
#define SLEEP_BLOCKS (NPU_BIT | 1u << 30 | 1u << 12 | 1u << 5)         /* NPU, its cache, XSPI2, XSPI1 */
#define RAMCFG_CONTROL(bank) (0x52023000u + 0x80u * ((bank) - 1u))
#define RAMCFG_SHUTDOWN (1u << 20)
#define RIFSC 0x54024000u

void npu_power_on(void) {
    WORD(RCC + RCC_SET + RCC_AHB5) = NPU_BIT;
    WORD(RCC + RCC_SET + RCC_RESET_AHB5) = NPU_BIT;
    WORD(RCC + RCC_CLEAR + RCC_RESET_AHB5) = NPU_BIT;
    WORD(RCC + RCC_SET + RCC_MEMORIES) = NPU_RAMS;
    WORD(RCC + RCC_SET + RCC_AHB2) = 1u << 12; /* RAMCFG */
    WORD(RCC + RCC_SET + RCC_AHB3) = 1u << 9;  /* RIFSC */
    (void)WORD(RCC + RCC_AHB3);
    for (unsigned bank = 3; bank <= 6; bank++)
        WORD(RAMCFG_CONTROL(bank)) &= ~RAMCFG_SHUTDOWN;
    WORD(RCC + RCC_SET + RCC_SLEEP_AHB5) = SLEEP_BLOCKS;
    WORD(RCC + RCC_SET + RCC_SLEEP_MEMORIES) = SLEEP_RAMS;
    WORD(RIFSC + 0xC10u + 4u) = 1u << 9 | 1u << 8 | 1u << 4; /* master NPU: privileged, secure, compartment 1 */
    WORD(RIFSC + 0x010u + 4u * 3u) |= 1u << 10;              /* its registers: secure */
    WORD(RIFSC + 0x030u + 4u * 3u) |= 1u << 10;              /* and privileged */
    __asm volatile("dsb" ::: "memory");
}
