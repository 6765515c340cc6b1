/* SPDX-License-Identifier: Apache-2.0
 * Waits for the end of an epoch block: by a look at the NPU's registers, or for what its interrupt has noted.
 */
#include "atonc_rt_state.h"

#include "ll_aton.h"
#include "ll_aton_runtime.h"

bool atonc_rt_uses_npu(const LL_ATON_RT_EpochBlockItem_t *block) {
    return EpochBlock_IsEpochPureHW(block) || (EpochBlock_IsEpochInternal(block) && block->wait_mask != 0);
}

#if LL_ATON_RT_MODE == LL_ATON_RT_ASYNC
static bool finished(NN_Execution_State_TypeDef *state, const LL_ATON_RT_EpochBlockItem_t *block) {
    uint32_t wanted = EpochBlock_IsEpochBlob(block) ? 1u : block->wait_mask;
    return (state->triggered_events & wanted) == wanted;
}
#else
static bool engines_run(uint32_t mask) {
    uint32_t busy = 0;
    for (unsigned i = 0; i < ATONC_STRENG_NUM; i++) {
        busy |= mask >> i & 1u ? atonc_read(ATONC_STRENG0 + i, ATONC_CTRL) & ATONC_CTRL_RUNNING : 0;
    }
    return busy != 0;
}

static bool finished(NN_Execution_State_TypeDef *state, const LL_ATON_RT_EpochBlockItem_t *block) {
    (void)state;
    if (EpochBlock_IsEpochBlob(block)) {
        uint32_t irq = atonc_read(ATONC_EPOCHCTRL0, ATONC_EPOCHCTRL_IRQ);
        if (irq & ATONC_CONTROLLER_ERRORS) {
            atonc_rt_fail(ATONC_ERR_CONTROLLER, irq);
        }
        if (irq != 0) {
            atonc_write(ATONC_EPOCHCTRL0, ATONC_EPOCHCTRL_IRQ, irq);
            atonc_write(ATONC_INTCTRL0, ATONC_INTCTRL_INTCLR, ATONC_LINE_CONTROLLER | ATONC_LINES_ENGINES);
            return true;
        }
    }
    uint32_t errors = atonc_read(ATONC_INTCTRL0, ATONC_INTCTRL_INTREG) & ATONC_LINES_ERRORS;
    if (errors != 0) {
        atonc_rt_fail(ATONC_ERR_NPU_IRQ, errors);
        return true;
    }
    return !EpochBlock_IsEpochBlob(block) && !engines_run(block->wait_mask);
}
#endif

bool atonc_rt_wait_for_block(NN_Instance_TypeDef *network, const LL_ATON_RT_EpochBlockItem_t *block) {
    if (!atonc_rt_uses_npu(block) || (block->wait_mask == 0 && !EpochBlock_IsEpochBlob(block))) {
        return true;
    }
    do {
        if (network->exec_state.status.code != ATONC_OK || finished(&network->exec_state, block)) {
            return true;
        }
        if (atonc_watchdog_expired()) {
            atonc_rt_fail(ATONC_ERR_TIMEOUT, EpochBlock_IsEpochBlob(block) ? 0x10000000u : block->wait_mask);
            return true;
        }
    } while (LL_ATON_RT_MODE == LL_ATON_RT_POLLING);
    return false;
}
