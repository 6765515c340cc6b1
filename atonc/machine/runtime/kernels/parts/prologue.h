/* SPDX-License-Identifier: Apache-2.0
 *
 * See atonc_kernels.h.
 */
#include "atonc_kernels.h"

#include <math.h>

/* The vectors of a Cortex-M55. Every function that uses them has a plain branch with the same results; that one is
 * taken elsewhere, with -DATONC_NO_VECTORS, and where the command line names a smaller floating-point unit: assemblers
 * then refuse vectors of floats. */
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2) && (__ARM_FP & 8) && !defined(ATONC_NO_VECTORS)
#define ATONC_VECTORS 1
#include <arm_mve.h>
#endif

/* Whatever the command line says: products and sums are rounded one by one, constants are doubles, and so is what a core
 * with a double precision unit computes. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-fast-math", "fp-contract=off", "no-single-precision-constant", "no-math-errno")
#if defined(__ARM_FEATURE_MVE) && defined(__ARM_FP) && !(__ARM_FP & 8)
#pragma GCC target("fpu=fpv5-d16")
#endif
#else
#pragma STDC FP_CONTRACT OFF
#endif
#ifdef __FAST_MATH__
#error "layers on the CPU need IEEE arithmetic: compile this file without -ffast-math"
#endif

/* Functions that are instructions stay so with -fno-builtin. */
#ifdef __GNUC__
#define ATONC_MATH(function) __builtin_##function
#else
#define ATONC_MATH(function) function
#endif
