/* @licence@
 * The NPU's interrupt and clock under Zephyr, written by @tool@. Do not edit.
 */
#include <zephyr/init.h>
#include <zephyr/irq.h>
#include <zephyr/kernel.h>

#include "atonc_runtime.h"
#include "ll_aton_osal.h"

K_SEM_DEFINE(atonc_npu_event, 0, 1);
K_MUTEX_DEFINE(atonc_npu_lock);

/* For the runtime's watchdog. */
uint32_t atonc_tick_ms(void) { return k_uptime_get_32(); }

static void npu_isr(const void *unused) {
    ARG_UNUSED(unused);
    ATON_STD_IRQHandler();
}

static int npu_connect(void) {
    IRQ_CONNECT(ATON_STD_IRQn, CONFIG_ATONC_NPU_IRQ_PRIORITY, npu_isr, NULL, 0);
    return 0;
}

SYS_INIT(npu_connect, POST_KERNEL, CONFIG_KERNEL_INIT_PRIORITY_DEVICE);
