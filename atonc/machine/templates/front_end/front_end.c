/* @name@_front_end.c: @sense@, written by @tool@. Do not edit.
 *
 * The Python twin atonc.front_end() gives the same codes. No heap, no library but memcpy, memmove and memset. */
#include "@name@_front_end.h"

#include <string.h>

#define fe_state @name@_front_end_state
#define fe_code @name@_front_end_code
#define FE_NAME(function) @name@_front_end_##function
@begin numbers@
#define @key@ @value@
@end numbers@

@begin constants@
static const @kind@ @key@[] = {
    @values@};
@end constants@

@parts@
static void fe_one(fe_state *state, fe_code *codes)
{
  float *from = state->buffers[0], *to = state->buffers[1];
@begin calls@
  @call@;
@end calls@
  (void)to;
  fe_codes(from, codes);
}

@stream@
