/* SPDX-License-Identifier: Apache-2.0
 * The NPU's interrupt: notes what has finished and lets LL_ATON_RT_RunEpochBlock go on.
 */
#include "atonc_rt_state.h"

#include "ll_aton_osal.h"

static void acknowledge_controller(NN_Instance_TypeDef *network) {
    uint32_t irq = atonc_read(ATONC_EPOCHCTRL0, ATONC_EPOCHCTRL_IRQ);
    atonc_write(ATONC_EPOCHCTRL0, ATONC_EPOCHCTRL_IRQ, irq);
    if (irq & ATONC_CONTROLLER_ERRORS) {
        atonc_rt_fail_network(network, ATONC_ERR_CONTROLLER, irq);
    }
    network->exec_state.triggered_events |= 1u;
}

static void acknowledge_engines(NN_Instance_TypeDef *network, uint32_t engines) {
    for (unsigned i = 0; i < ATONC_STRENG_NUM; i++) {
        if (engines >> i & 1u) {
            atonc_write(ATONC_STRENG0 + i, ATONC_STRENG_IRQ, atonc_read(ATONC_STRENG0 + i, ATONC_STRENG_IRQ));
        }
    }
    network->exec_state.triggered_events |= engines;
}

static void report_error(NN_Instance_TypeDef *network, uint32_t lines) {
    if (network == NULL) {
        atonc_rt_fail(ATONC_ERR_NPU_IRQ, lines);
    } else if (lines & ATONC_LINE_CONTROLLER_ERROR) {
        atonc_rt_fail_network(network, ATONC_ERR_CONTROLLER, atonc_read(ATONC_EPOCHCTRL0, ATONC_EPOCHCTRL_IRQ));
    } else {
        atonc_rt_fail_network(network, ATONC_ERR_NPU_IRQ, lines);
    }
}

void ATON_STD_IRQHandler(void) {
    uint32_t lines = atonc_read(ATONC_INTCTRL0, ATONC_INTCTRL_INTREG);
    NN_Instance_TypeDef *network = atonc_rt_owner;
    if (network == NULL || (lines & ATONC_LINES_ERRORS) != 0) {
        atonc_interrupts_off(); /* whatever it is, it must not come again before the NPU is reset */
        report_error(network, lines);
    } else {
        const LL_ATON_RT_EpochBlockItem_t *block = network->exec_state.current_epoch_block;
        if (!EpochBlock_IsEpochBlob(block)) {
            acknowledge_engines(network, lines & block->wait_mask & ATONC_LINES_ENGINES);
        } else if (lines & ATONC_LINE_CONTROLLER) {
            acknowledge_controller(network);
        }
    }
    atonc_cpu_dsb(); /* sources first: a line that is still raised would be latched again */
    atonc_write(ATONC_INTCTRL0, ATONC_INTCTRL_INTCLR, lines);
    atonc_cpu_dsb();
    LL_ATON_OSAL_SIGNAL_EVENT();
}
