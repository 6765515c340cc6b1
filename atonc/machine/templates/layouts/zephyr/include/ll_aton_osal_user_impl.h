/* @licence@
 * What the runtime asks of Zephyr, written by @tool@. Do not edit.
 */
#ifndef LL_ATON_OSAL_USER_IMPL_H
#define LL_ATON_OSAL_USER_IMPL_H

#include <zephyr/irq.h>
#include <zephyr/kernel.h>

extern struct k_sem atonc_npu_event;
extern struct k_mutex atonc_npu_lock;

/* A thread sleeps until the NPU's interrupt, or until it is time to look at the watchdog. */
#define LL_ATON_OSAL_WFE() ((void)k_sem_take(&atonc_npu_event, K_MSEC(CONFIG_ATONC_NPU_WAKE_MS)))
#define LL_ATON_OSAL_SIGNAL_EVENT() k_sem_give(&atonc_npu_event)
#define LL_ATON_OSAL_ENABLE_IRQ(line) irq_enable(NPU0_IRQn + (line))
#define LL_ATON_OSAL_DISABLE_IRQ(line) irq_disable(NPU0_IRQn + (line))
#define LL_ATON_OSAL_SET_PRIORITY(line, priority) ((void)0) /* src/npu_zephyr.c connects it with one */
#define LL_ATON_OSAL_LOCK_ATON() ((void)k_mutex_lock(&atonc_npu_lock, K_FOREVER))
#define LL_ATON_OSAL_UNLOCK_ATON() ((void)k_mutex_unlock(&atonc_npu_lock))

#endif
