/* SPDX-License-Identifier: Apache-2.0
 * What the runtime asks of an operating system. On bare metal that is very little; with LL_ATON_OSAL_USER_IMPL your
 * ll_aton_osal_user_impl.h may define any of these macros before the defaults apply.
 */
#ifndef LL_ATON_OSAL_H
#define LL_ATON_OSAL_H

#include "ll_aton_config.h"
#include "ll_aton_platform.h"
#include "ll_aton_util.h"

#include "atonc_cpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sleeps until the NPU interrupt or another event, if something else is sure to wake the core; otherwise returns at
 * once, so that the watchdog is served. Weak: replace it to suit the power concept of the application. */
void atonc_wait_for_event(void);

#ifdef __cplusplus
}
#endif

#if LL_ATON_OSAL == LL_ATON_OSAL_USER_IMPL
#include "ll_aton_osal_user_impl.h"
#endif

#ifndef LL_ATON_OSAL_INIT
#define LL_ATON_OSAL_INIT() ((void)0)
#endif
#ifndef LL_ATON_OSAL_DEINIT
#define LL_ATON_OSAL_DEINIT() ((void)0)
#endif
#ifndef LL_ATON_OSAL_WFE
#define LL_ATON_OSAL_WFE() atonc_wait_for_event()
#endif
#ifndef LL_ATON_OSAL_SIGNAL_EVENT
#define LL_ATON_OSAL_SIGNAL_EVENT() ((void)0)
#endif
#ifndef LL_ATON_OSAL_INSTALL_IRQ
#define LL_ATON_OSAL_INSTALL_IRQ(line, handler) ((void)0)
#endif
#ifndef LL_ATON_OSAL_REMOVE_IRQ
#define LL_ATON_OSAL_REMOVE_IRQ(line) ((void)0)
#endif
#ifndef LL_ATON_OSAL_ENABLE_IRQ
#define LL_ATON_OSAL_ENABLE_IRQ(line) atonc_irq_enable((unsigned)NPU0_IRQn + (unsigned)(line))
#endif
#ifndef LL_ATON_OSAL_DISABLE_IRQ
#define LL_ATON_OSAL_DISABLE_IRQ(line) atonc_irq_disable((unsigned)NPU0_IRQn + (unsigned)(line))
#endif
#ifndef LL_ATON_OSAL_SET_PRIORITY
#define LL_ATON_OSAL_SET_PRIORITY(line, priority) atonc_irq_priority((unsigned)NPU0_IRQn + (unsigned)(line), priority)
#endif
#ifndef LL_ATON_OSAL_ENTER_CS
#define LL_ATON_OSAL_ENTER_CS() LL_ATON_OSAL_DISABLE_IRQ(ATON_STD_IRQ_LINE)
#endif
#ifndef LL_ATON_OSAL_EXIT_CS
#define LL_ATON_OSAL_EXIT_CS() LL_ATON_OSAL_ENABLE_IRQ(ATON_STD_IRQ_LINE)
#endif
#ifndef LL_ATON_OSAL_LOCK_ATON
#define LL_ATON_OSAL_LOCK_ATON() ((void)0)
#endif
#ifndef LL_ATON_OSAL_UNLOCK_ATON
#define LL_ATON_OSAL_UNLOCK_ATON() ((void)0)
#endif
#ifndef LL_ATON_OSAL_LOCK_NPU_CACHE
#define LL_ATON_OSAL_LOCK_NPU_CACHE() ((void)0)
#endif
#ifndef LL_ATON_OSAL_UNLOCK_NPU_CACHE
#define LL_ATON_OSAL_UNLOCK_NPU_CACHE() ((void)0)
#endif
#ifndef LL_ATON_OSAL_LOCK_MCU_CACHE
#define LL_ATON_OSAL_LOCK_MCU_CACHE() ((void)0)
#endif
#ifndef LL_ATON_OSAL_UNLOCK_MCU_CACHE
#define LL_ATON_OSAL_UNLOCK_MCU_CACHE() ((void)0)
#endif
/* names of release 1.1.0 */
#define LL_ATON_LOCK_MCU_CACHE() LL_ATON_OSAL_LOCK_MCU_CACHE()
#define LL_ATON_UNLOCK_MCU_CACHE() LL_ATON_OSAL_UNLOCK_MCU_CACHE()
#define LL_ATON_LOCK_NPU_CACHE() LL_ATON_OSAL_LOCK_NPU_CACHE()
#define LL_ATON_UNLOCK_NPU_CACHE() LL_ATON_OSAL_UNLOCK_NPU_CACHE()

#endif
