/* SPDX-License-Identifier: Apache-2.0
 * Recognises one handwritten digit on the NPU. The answer is in `answer`, an error code of the runtime in `error`.
 */
#include <stdint.h>
#include <string.h>

#include "digits.h"
#include "digits_memories.h"
#include "ll_aton_runtime.h"

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
#define RAMCFG_CONTROL(bank) (0x52023000u + 0x80u * ((bank) - 1u))
#define RAMCFG_SHUTDOWN (1u << 20)
#define RIFSC 0x54024000u

ATONC_DIGITS_KEEPS_CLEAR(0x34000000, 0x34100000); /* where axisram.ld puts this firmware */

LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(digits)

/* A seven of the test set, 8x8 int8 codes. */
static const int8_t image[LL_ATON_DIGITS_IN_1_SIZE_BYTES] = {
#include "image.inc"
};

volatile int answer = -1;
volatile uint32_t error;

/* Clock and power for the NPU and its memories, also while the processor sleeps; the NPU as a secure bus master. */
static void switch_npu_on(void) {
    WORD(RCC + RCC_SET + RCC_AHB5) = NPU_BIT;
    WORD(RCC + RCC_SET + RCC_RESET_AHB5) = NPU_BIT;
    WORD(RCC + RCC_CLEAR + RCC_RESET_AHB5) = NPU_BIT;
    WORD(RCC + RCC_SET + RCC_MEMORIES) = NPU_RAMS;
    WORD(RCC + RCC_SET + RCC_AHB2) = 1u << 12; /* RAMCFG */
    WORD(RCC + RCC_SET + RCC_AHB3) = 1u << 9;  /* RIFSC */
    (void)WORD(RCC + RCC_AHB3);
    for (unsigned bank = 3; bank <= 6; bank++)
        WORD(RAMCFG_CONTROL(bank)) &= ~RAMCFG_SHUTDOWN;
    WORD(RCC + RCC_SET + RCC_SLEEP_AHB5) = NPU_BIT;
    WORD(RCC + RCC_SET + RCC_SLEEP_MEMORIES) = NPU_RAMS | 1u << 7;
    WORD(RIFSC + 0xC10u + 4u) = 1u << 9 | 1u << 8 | 1u << 4; /* master NPU: privileged, secure, compartment 1 */
    WORD(RIFSC + 0x010u + 4u * 3u) |= 1u << 10;              /* its registers: secure */
    WORD(RIFSC + 0x030u + 4u * 3u) |= 1u << 10;              /* and privileged */
    __asm volatile("dsb" ::: "memory");
}

static int strongest(const int8_t *scores) {
    int best = 0;
    for (int k = 1; k < 10; k++)
        best = scores[k] > scores[best] ? k : best;
    return best;
}

static void infer(void) {
    const LL_Buffer_InfoTypeDef *input = LL_ATON_Input_Buffers_Info_digits();
    const LL_Buffer_InfoTypeDef *output = LL_ATON_Output_Buffers_Info_digits();
    memcpy(LL_Buffer_addr_start(input), image, sizeof image);
    LL_ATON_RT_RetValues_t state;
    do {
        state = LL_ATON_RT_RunEpochBlock(&NN_Instance_digits);
        if (state == LL_ATON_RT_WFE)
            LL_ATON_OSAL_WFE();
    } while (state != LL_ATON_RT_DONE);
    error = atonc_rt_status(&NN_Instance_digits).code;
    if (!error)
        answer = strongest((const int8_t *)LL_Buffer_addr_start(output));
}

int main(void) {
    switch_npu_on();
    ATONC_Load_Constants_digits();
    LL_ATON_RT_RuntimeInit();
    LL_ATON_RT_Init_Network(&NN_Instance_digits);
    error = atonc_rt_status(&NN_Instance_digits).code;
    if (!error)
        infer();
    LL_ATON_RT_DeInit_Network(&NN_Instance_digits);
    LL_ATON_RT_RuntimeDeInit();
    return 0;
}
