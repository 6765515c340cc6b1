/* SPDX-License-Identifier: Apache-2.0
 * Recognises one handwritten digit on the NPU. The answer is in `answer`, an error code of the runtime in `error`.
 */
#include <stdint.h>
#include <string.h>

#include "digits.h"
#include "digits_memories.h"
#include "ll_aton_runtime.h"
#include "npu_power.h"

ATONC_DIGITS_KEEPS_CLEAR(0x34000000, 0x34100000); /* where axisram.ld puts this firmware */

LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(digits)

/* A seven of the test set, 8x8 int8 codes. */
static const int8_t image[LL_ATON_DIGITS_IN_1_SIZE_BYTES] = {
#include "image.inc"
};

volatile int answer = -1;
volatile uint32_t error;

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
    npu_power_on();
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
