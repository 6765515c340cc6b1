/* SPDX-License-Identifier: Apache-2.0
 * Compiler differences that generated networks and applications see.
 */
#ifndef LL_ATON_ATTRIBUTES_H
#define LL_ATON_ATTRIBUTES_H

#if !defined(__GNUC__) && !defined(__ICCARM__)
#error "GCC, Clang or IAR is needed"
#endif

#define LL_ATON_WEAK __attribute__((weak))
#define LL_ATON_ALIGNED(bytes) __attribute__((aligned(bytes)))
#define LL_ATON_API_ENTRY
#define LL_ATON_LIB_UNUSED(x) ((void)(x))

#define LL_ATON_CONCAT_(a, b) a##b
#define LL_ATON_CONCAT(a, b) LL_ATON_CONCAT_(a, b)
#define LL_ATON_CONCAT3(a, b, c) LL_ATON_CONCAT(a, LL_ATON_CONCAT(b, c))

#endif
