/* SPDX-License-Identifier: Apache-2.0
 * Assertions, messages and bit fields in memory.
 *
 * The runtime reports errors by code (atonc_runtime.h) and prints nothing, so stdio is not pulled in: LL_ATON_PRINTF
 * and LL_ATON_ASSERT act only when the build defines ATONC_HAS_STDIO.
 */
#ifndef LL_ATON_UTIL_H
#define LL_ATON_UTIL_H

#include <assert.h> /* networks of some releases use assert themselves */
#include <stdint.h>

#if defined(ATONC_HAS_STDIO) && !defined(NDEBUG)
#include <stdio.h>
#define LL_ATON_PRINTF(...) printf(__VA_ARGS__)
#define LL_ATON_FPRINTF(...) fprintf(__VA_ARGS__)
#define LL_ATON_PUTS(...) puts(__VA_ARGS__)
#define LL_ATON_FFLUSH(...) fflush(__VA_ARGS__)
#define LL_ATON_ASSERT(...) assert(__VA_ARGS__)
#else
#define LL_ATON_PRINTF(...) ((void)0)
#define LL_ATON_FPRINTF(...) ((void)0)
#define LL_ATON_PUTS(...) ((void)0)
#define LL_ATON_FFLUSH(...) ((void)0)
#define LL_ATON_ASSERT(...) ((void)0)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* `nbits` (1 to 32) bits starting at bit `pos` of an array of words, least significant first. */
uint32_t LL_ATON_getbits(uint32_t *bits, unsigned int pos, int nbits);
void LL_ATON_setbits(uint32_t *bits, unsigned int pos, int nbits, unsigned int val);

#ifdef __cplusplus
}
#endif

#endif
