/* @name@_front_end.c: @sense@, written by @tool@. Do not edit.
 *
 * The Python twin atonc.front_end() gives the same codes: whole numbers only. No heap, no library. */
#include "@name@_front_end.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* loops over taps and colours are worth their room: most of an image's time is here */
#endif
#ifdef __GNUC__
#define FE_INLINE static inline __attribute__((always_inline))
#else
#define FE_INLINE static inline
#endif

#define fe_state @name@_front_end_state
#define fe_code @name@_front_end_code
#define fe_between @between@
#define FE_NAME(function) @name@_front_end_##function
@begin numbers@
#define @key@ @value@
@end numbers@

@begin constants@
static const @kind@ @key@[] = {
    @values@};
@end constants@

@parts@
