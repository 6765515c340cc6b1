/* SPDX-License-Identifier: Apache-2.0
 * One inference on the NPU: the strongest class is in `answer`, an error code of the runtime in `error`.
 */
#include <stdint.h>
#include <string.h>

#include "model.h"
#include "model_memories.h"
#include "ll_aton_runtime.h"
#include "npu_power.h"

ATONC_MODEL_KEEPS_CLEAR(0x34000000, 0x34100000); /* where axisram.ld puts this firmware */

LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(model)

/* int8 codes of the first input; what ATONC_IMAGE does not give is 0. */
static const int8_t image[LL_ATON_MODEL_IN_1_SIZE_BYTES] = {
#include ATONC_IMAGE
};

volatile int answer = -1;
volatile uint32_t error;

/* int8 where the model has codes at its end, float where it has not */
static float score(const LL_Buffer_InfoTypeDef *output, int k) {
    const void *scores = LL_Buffer_addr_start(output);
    return output->type == DataType_FLOAT ? ((const float *)scores)[k] : (float)((const int8_t *)scores)[k];
}

static int strongest(const LL_Buffer_InfoTypeDef *output) {
    int classes = (int)(LL_Buffer_len(output) * 8u / output->nbits), best = 0;
    for (int k = 1; k < classes; k++)
        best = score(output, k) > score(output, best) ? k : best;
    return best;
}

static void infer(void) {
    const LL_Buffer_InfoTypeDef *input = LL_ATON_Input_Buffers_Info_model();
    const LL_Buffer_InfoTypeDef *output = LL_ATON_Output_Buffers_Info_model();
    memcpy(LL_Buffer_addr_start(input), image, sizeof image);
    LL_ATON_RT_RetValues_t state;
    do {
        state = LL_ATON_RT_RunEpochBlock(&NN_Instance_model);
        if (state == LL_ATON_RT_WFE)
            LL_ATON_OSAL_WFE();
    } while (state != LL_ATON_RT_DONE);
    error = atonc_rt_status(&NN_Instance_model).code;
    if (!error)
        answer = strongest(output);
}

int main(void) {
    npu_power_on();
    ATONC_Load_Constants_model();
    LL_ATON_RT_RuntimeInit();
    LL_ATON_RT_Init_Network(&NN_Instance_model);
    error = atonc_rt_status(&NN_Instance_model).code;
    if (!error)
        infer();
    LL_ATON_RT_DeInit_Network(&NN_Instance_model);
    LL_ATON_RT_RuntimeDeInit();
    return 0;
}
