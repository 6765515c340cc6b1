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

/* Parts of a loop of vectors, inlined also where compilers are told to save space. */
#if defined(ATONC_VECTORS) && defined(__GNUC__)
#define ATONC_INLINE static inline __attribute__((always_inline))
#elif defined(ATONC_VECTORS)
#define ATONC_INLINE static inline
#endif

/* A pointer that the access before has stepped: compilers then do not step it once more at the end of the loop, and keep
 * it in one of the registers that accesses of bytes as words take. */
#if defined(ATONC_VECTORS) && defined(__GNUC__)
#define ATONC_STEPPED(pointer) __asm("" : "+l"(pointer))
#elif defined(ATONC_VECTORS)
#define ATONC_STEPPED(pointer) (void)(pointer)
#endif

/* The next 16 floats: the first, fifth, ninth and thirteenth in `a`, and so on. Written as instructions, because compilers
 * copy each vector of the structure that the intrinsic function returns. */
#if defined(ATONC_VECTORS) && defined(__GNUC__)
#define ATONC_LOAD_APART(from, a, b, c, d)                                                                             \
  register float32x4_t a __asm("q0"), b __asm("q1"), c __asm("q2"), d __asm("q3");                                     \
  __asm("vld40.32 {q0, q1, q2, q3}, [%4]\n\tvld41.32 {q0, q1, q2, q3}, [%4]\n\t"                                       \
        "vld42.32 {q0, q1, q2, q3}, [%4]\n\tvld43.32 {q0, q1, q2, q3}, [%4]!"                                         \
        : "=&w"(a), "=&w"(b), "=&w"(c), "=&w"(d), "+r"(from) : "m"(*(const float(*)[16])(const void *)(from)))
#elif defined(ATONC_VECTORS)
#define ATONC_LOAD_APART(from, a, b, c, d)                                                                             \
  float32x4x4_t apart = vld4q_f32(from);                                                                               \
  float32x4_t a = apart.val[0], b = apart.val[1], c = apart.val[2], d = apart.val[3];                                  \
  from += 16
#endif

/* Eight half precision numbers as floats: the even ones, the odd ones. VCVTB.F32.F16 q0, q2 and VCVTT.F32.F16 q1, q2 as
 * numbers, because GNU's assembler (2.40) makes other registers of their names. */
#if defined(ATONC_VECTORS) && defined(__GNUC__)
#define ATONC_WIDEN_HALVES(from, even, odd)                                                                            \
  register float16x8_t halves __asm("q2") = from;                                                                      \
  register float32x4_t even __asm("q0"), odd __asm("q1");                                                              \
  __asm(".inst.w 0xfe3f0e05\n\t.inst.w 0xfe3f3e05" : "=&w"(even), "=&w"(odd) : "w"(halves))
#elif defined(ATONC_VECTORS)
#define ATONC_WIDEN_HALVES(from, even, odd)                                                                            \
  float16x8_t halves = from;                                                                                           \
  float32x4_t even = vcvtbq_f32_f16(halves), odd = vcvttq_f32_f16(halves)
#endif

/* Eight floats, one of `a` and one of `b` in turn. */
#if defined(ATONC_VECTORS) && defined(__GNUC__)
#define ATONC_STORE_IN_TURN(to, a, b)                                                                                  \
  do {                                                                                                                 \
    register float32x4_t first __asm("q0") = a, second __asm("q1") = b;                                                \
    __asm("vst20.32 {q0, q1}, [%1]\n\tvst21.32 {q0, q1}, [%1]!"                                                        \
          : "=m"(*(float(*)[8])(void *)(to)), "+r"(to) : "w"(first), "w"(second));                                     \
  } while (0)
#elif defined(ATONC_VECTORS)
#define ATONC_STORE_IN_TURN(to, a, b)                                                                                  \
  do {                                                                                                                 \
    float32x4x2_t both = {{a, b}};                                                                                     \
    vst2q_f32(to, both);                                                                                               \
    to += 8;                                                                                                           \
  } while (0)
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
