/* SPDX-License-Identifier: Apache-2.0
 * One inference from nothing to nothing.
 */
#include "ll_aton_runtime.h"

void LL_ATON_RT_Main(NN_Instance_TypeDef *network_instance) {
    LL_ATON_RT_RetValues_t state;
    LL_ATON_RT_RuntimeInit();
    LL_ATON_RT_Init_Network(network_instance);
    do {
        state = LL_ATON_RT_RunEpochBlock(network_instance);
        if (state == LL_ATON_RT_WFE) {
            LL_ATON_OSAL_WFE();
        }
    } while (state != LL_ATON_RT_DONE);
    LL_ATON_RT_DeInit_Network(network_instance);
    LL_ATON_RT_RuntimeDeInit();
}
