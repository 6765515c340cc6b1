/* @name@_ecblobs.h: programs for the epoch controller, written by @tool@. Do not edit. */

#ifndef @NET@_ECBLOBS_H
#define @NET@_ECBLOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ll_aton_caches_interface.h"

/* Where the constant programs and the ones that are patched at run time go; empty: .rodata and .bss. */
#if !defined(ECBLOB_CONST_SECTION)
#define ECBLOB_CONST_SECTION
#endif
#if !defined(ECBLOB_RUNTIME_SECTION)
#define ECBLOB_RUNTIME_SECTION
#endif

@begin programs@
/* epochs @first@ to @last@ */
ECBLOB_CONST_SECTION __attribute__((aligned(@line@)))
static const uint64_t @blob@[@pairs@] = {
@words@};
@begin fixed@
#define @blob@_address @blob@

@end fixed@
@begin moved@
ECBLOB_RUNTIME_SECTION __attribute__((aligned(@line@)))
static uint64_t @blob@_ptr[@runtime_pairs@];
#define @blob@_address @blob@_ptr
@begin relocations@
#define @key@_RELOC_IDX @index@
#define @key@_BASE_SYMBOL ((unsigned char *)@symbol@)
static const uint32_t @key@_words[@count@] = {
@offsets@};
@begin of_application@
static uint32_t @key@_base;
@end of_application@
@end relocations@

@end moved@
@end programs@
@begin relocates@
/* Adds `delta` to some 32-bit words of a program. */
static void atonc_relocate(uint64_t *program, const uint32_t *words, uint32_t count, uint32_t delta)
{
  for (uint32_t i = 0; i < count; i++) {
    uint64_t *pair = &program[words[i] / 2U];
    uint32_t low = (uint32_t)*pair;
    uint32_t high = (uint32_t)(*pair >> 32);
    if ((words[i] & 1U) != 0U) {
      high += delta;
    } else {
      low += delta;
    }
    *pair = ((uint64_t)high << 32) | low;
  }
}

@end relocates@
@initialisation@
#endif
