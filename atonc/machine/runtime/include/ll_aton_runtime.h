/* SPDX-License-Identifier: Apache-2.0
 * The user interface plus what library layers need of the runtime.
 */
#ifndef LL_ATON_RUNTIME_H
#define LL_ATON_RUNTIME_H

#include "ll_aton_rt_user_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Inside the end function of a hybrid block: these blocks (a list ended by a `last_eb` entry) run next, then the
 * network goes on behind the hybrid block. One insertion at a time. */
void LL_ATON_RT_Insert_LibEpochBlockArray(const LL_ATON_RT_EpochBlockItem_t *new_epoch_block_array);
/* At the end of an end function: skip blocks, or go back to repeat some. The runtime steps on by one afterwards. */
void LL_ATON_RT_IncCurrEpochBlock(uint32_t inc);
void LL_ATON_RT_DecCurrEpochBlock(uint32_t dec);

/* Initialises everything, runs one inference, de-initialises. */
void LL_ATON_RT_Main(NN_Instance_TypeDef *network_instance);

#ifdef __cplusplus
}
#endif

#endif
