/* SPDX-License-Identifier: Apache-2.0
 * What the files of the runtime share.
 */
#ifndef ATONC_RT_STATE_H
#define ATONC_RT_STATE_H

#include "atonc_internal.h"
#include "ll_aton_rt_user_api.h"

/* The network that the NPU works for. */
extern NN_Instance_TypeDef *volatile atonc_rt_owner;

bool atonc_rt_uses_npu(const LL_ATON_RT_EpochBlockItem_t *block);
/* True when the block has ended or failed; false while the caller may sleep. */
bool atonc_rt_wait_for_block(NN_Instance_TypeDef *network, const LL_ATON_RT_EpochBlockItem_t *block);
void atonc_rt_fail_network(NN_Instance_TypeDef *network, atonc_error_t code, uint32_t detail);

#endif
