/* SPDX-License-Identifier: Apache-2.0
 * What the runtime and its interrupt handler share.
 */
#ifndef ATONC_RT_STATE_H
#define ATONC_RT_STATE_H

#include "atonc_internal.h"
#include "ll_aton_rt_user_api.h"

/* The network that the NPU works for. */
extern NN_Instance_TypeDef *volatile atonc_rt_owner;

void atonc_rt_fail_network(NN_Instance_TypeDef *network, atonc_error_t code, uint32_t detail);

#endif
