/* SPDX-License-Identifier: Apache-2.0
 * Choices made at compile time. Every source of one firmware that includes LL_ATON headers must see the same ones.
 *
 *   LL_ATON_PLATFORM   LL_ATON_PLAT_STM32N6 (default); the other numbers exist so that comparisons compile
 *   LL_ATON_OSAL       LL_ATON_OSAL_BARE_METAL (default) or LL_ATON_OSAL_USER_IMPL (ll_aton_osal_user_impl.h)
 *   LL_ATON_RT_MODE    LL_ATON_RT_ASYNC (default: interrupts) or LL_ATON_RT_POLLING
 *   LL_ATON_EB_DBG_INFO, LL_ATON_DBG_BUFFER_INFO_EXCLUDED, LL_ATON_ENABLE_CLOCK_GATING as in generated networks
 *   ATONC_EC_ONLY      leave out unit drivers and layers of ST networks: for networks of blobs and atonc_kernels.c
 *   ATONC_USE_CMSIS    take NVIC, barriers and NPU addresses from the application's stm32n6xx.h
 */
#ifndef LL_ATON_CONFIG_H
#define LL_ATON_CONFIG_H

#define LL_ATON_PLAT_NCSIM 1
#define LL_ATON_PLAT_STICE4 2
#define LL_ATON_PLAT_ZC706 3
#define LL_ATON_PLAT_SWEMUL 4
#define LL_ATON_PLAT_TLM_MCD 5
#define LL_ATON_PLAT_TSTXPL 6
#define LL_ATON_PLAT_IMAGING_SIM 7
#define LL_ATON_PLAT_IWAVE 8
#define LL_ATON_PLAT_STM32N6 9
#define LL_ATON_PLAT_BITTWARE 10
#define LL_ATON_PLAT_EC_TRACE 11
#define LL_ATON_PLAT_STM32H7P 12
#define LL_ATON_PLAT_SR6P3E 13
#define LL_ATON_PLAT_USER_IMPL 255

#define LL_ATON_OSAL_BARE_METAL 1
#define LL_ATON_OSAL_LINUX_UIO 2
#define LL_ATON_OSAL_LINUX_BW 3
#define LL_ATON_OSAL_THREADX 4
#define LL_ATON_OSAL_FREERTOS 5
#define LL_ATON_OSAL_ZEPHYR 6
#define LL_ATON_OSAL_SR6X_SDK 7
#define LL_ATON_OSAL_USER_IMPL 255

#define LL_ATON_RT_POLLING 1
#define LL_ATON_RT_ASYNC 2

#ifndef LL_ATON_PLATFORM
#define LL_ATON_PLATFORM LL_ATON_PLAT_STM32N6
#endif
#ifndef LL_ATON_OSAL
#define LL_ATON_OSAL LL_ATON_OSAL_BARE_METAL
#endif
#ifndef LL_ATON_RT_MODE
#define LL_ATON_RT_MODE LL_ATON_RT_ASYNC
#endif
#ifndef LL_ATON_SW_FALLBACK
#define LL_ATON_SW_FALLBACK 0
#endif
#ifndef LL_ATON_DBG_BUFFER_INFO_EXCLUDED
#define LL_ATON_DBG_BUFFER_INFO_EXCLUDED 0
#endif
#ifndef LL_ATON_ENABLE_CLOCK_GATING
#define LL_ATON_ENABLE_CLOCK_GATING 1
#endif

#if LL_ATON_PLATFORM != LL_ATON_PLAT_STM32N6
#error "this runtime drives the NPU of the STM32N6 only: LL_ATON_PLATFORM=LL_ATON_PLAT_STM32N6"
#endif
#if LL_ATON_OSAL != LL_ATON_OSAL_BARE_METAL && LL_ATON_OSAL != LL_ATON_OSAL_USER_IMPL
#error "this runtime is for bare metal: LL_ATON_OSAL_BARE_METAL, or LL_ATON_OSAL_USER_IMPL with your own macros"
#endif
#if LL_ATON_RT_MODE != LL_ATON_RT_POLLING && LL_ATON_RT_MODE != LL_ATON_RT_ASYNC
#error "LL_ATON_RT_MODE is LL_ATON_RT_ASYNC or LL_ATON_RT_POLLING"
#endif

#endif
