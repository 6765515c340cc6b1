/* SPDX-License-Identifier: Apache-2.0
 *
 * See atonc_kernels.h. Each product and each sum below is rounded by itself: fused multiply-add would change results,
 * and the pragmas keep compilers from it whatever the command line says.
 */
#include "atonc_kernels.h"

#include <math.h>

/* The vectors of a Cortex-M55. Every function that uses them has a plain branch with the same results; that one is
 * taken elsewhere, and with -DATONC_NO_VECTORS. */
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2) && !defined(ATONC_NO_VECTORS)
#define ATONC_VECTORS 1
#include <arm_mve.h>
#endif

#ifdef __FAST_MATH__
#error "layers on the CPU need IEEE arithmetic: compile this file without -ffast-math"
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif

