/* SPDX-License-Identifier: Apache-2.0
 *
 * See atonc_kernels.h. Each product and each sum below is rounded by itself: fused multiply-add would change results,
 * and the pragmas keep compilers from it whatever the command line says.
 */
#include "atonc_kernels.h"

#include <math.h>

#ifdef __FAST_MATH__
#error "atonc_kernels.c needs IEEE arithmetic: compile it without -ffast-math"
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif

#define MAX_RANK 8
#define AT(base, bytes) ((const uint8_t *)(base) + (bytes))

