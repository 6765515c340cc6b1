/* SPDX-License-Identifier: Apache-2.0
 * Where the NPU is, and the few things that the runtime needs of the Cortex-M core.
 *
 * By default nothing of CMSIS is used. With ATONC_USE_CMSIS (set by itself when a device macro such as STM32N657xx is
 * defined) the application's stm32n6xx.h is included, so that code which relied on that keeps compiling.
 */
#ifndef LL_ATON_PLATFORM_H
#define LL_ATON_PLATFORM_H

#include <stdint.h>

#include "ll_aton_attributes.h"
#include "ll_aton_config.h"

#include "atonc_npu_regs.h"

#if !defined(ATONC_USE_CMSIS) && !defined(ATONC_NO_CMSIS) &&                                                           \
    (defined(STM32N657xx) || defined(STM32N655xx) || defined(STM32N647xx) || defined(STM32N645xx))
#define ATONC_USE_CMSIS 1
#endif
#if defined(ATONC_USE_CMSIS)
#include "stm32n6xx.h"
#endif

#if defined(CPU_IN_SECURE_STATE) || (defined(__ARM_FEATURE_CMSE) && (__ARM_FEATURE_CMSE & 2))
#define ATONC_SECURE 1
#endif
#ifndef ATON_BASE
#ifdef ATONC_SECURE
#define ATON_BASE ATONC_NPU_BASE_S
#else
#define ATON_BASE ATONC_NPU_BASE_NS
#endif
#endif

/* The four interrupt lines of the NPU; the runtime uses line 0. */
#if !defined(ATONC_USE_CMSIS)
#define NPU0_IRQn 53
#define NPU1_IRQn 54
#define NPU2_IRQn 55
#define NPU3_IRQn 56
#endif
#define CDNN0_IRQn NPU0_IRQn
#define CDNN1_IRQn NPU1_IRQn
#define CDNN2_IRQn NPU2_IRQn
#define CDNN3_IRQn NPU3_IRQn
#define CDNN0_IRQHandler NPU0_IRQHandler
#define CDNN1_IRQHandler NPU1_IRQHandler
#define CDNN2_IRQHandler NPU2_IRQHandler
#define CDNN3_IRQHandler NPU3_IRQHandler
#ifndef ATON_STD_IRQ_LINE
#define ATON_STD_IRQ_LINE 0
#endif
#define ATON_STD_IRQHandler LL_ATON_CONCAT3(CDNN, ATON_STD_IRQ_LINE, _IRQHandler)
#define ATON_STD_IRQn LL_ATON_CONCAT3(CDNN, ATON_STD_IRQ_LINE, _IRQn)

#define ATON_STRENG_NUM 10
#define ATON_EPOCHCTRL_NUM 1

/* Addresses in generated code are addresses on the bus; memory is not remapped. */
#ifndef ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR
#define ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR(address) (address)
#endif
#ifndef ATON_LIB_VIRTUAL_TO_PHYSICAL_ADDR
#define ATON_LIB_VIRTUAL_TO_PHYSICAL_ADDR(address) (address)
#endif
#define __LL_ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR(address) ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR(address)
#define __LL_ATON_LIB_VIRTUAL_TO_PHYSICAL_ADDR(address) ATON_LIB_VIRTUAL_TO_PHYSICAL_ADDR(address)

#ifdef __cplusplus
extern "C" {
#endif

void ATON_STD_IRQHandler(void);

#ifdef __cplusplus
}
#endif

#endif
