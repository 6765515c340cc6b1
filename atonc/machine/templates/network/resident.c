/* Weights in RAM: @total@ bytes, copied when the network is initialised. Of evidence there is this much:
 * @evidence@. Run `atonc validate --mode target` on your board before you rely on it.
 *
 * To use this memory for something else between inferences, call ATONC_Release_Resident_@net@. The weights are copied
 * again before the next inference, or when ATONC_Load_Resident_@net@ is called.
 */
#include <string.h>

typedef struct {
  uintptr_t from;
  uintptr_t to;
  uint32_t bytes; /* of the copy */
@begin small@
  uint32_t bits;  /* of a value where it comes from: 8, or 4 with the first of two in the low bits */
@end small@
} atonc_resident_t;

static bool atonc_resident_ready = false;

static const atonc_resident_t *ATONC_Resident_@net@(void)
{
  static const atonc_resident_t copies[] = {
@begin rows@
    { .from = @source@, .to = @target@, .bytes = @size@U@bits@ }, /* @label@ */
@end rows@
    { .bytes = 0 },
  };

  return copies;
}

void ATONC_Load_Resident_@net@(void);
void ATONC_Release_Resident_@net@(void);
@begin small@

@unpacking@
@end small@

void ATONC_Load_Resident_@net@(void)
{
  for (const atonc_resident_t *copy = ATONC_Resident_@net@(); copy->bytes != 0U; copy++) {
@begin plain@
    memcpy((void *)copy->to, (const void *)copy->from, copy->bytes);
@end plain@
@begin small@
    if (copy->bits == 4U) {
      atonc_unpack((int8_t *)copy->to, (const uint8_t *)copy->from, copy->bytes);
    } else {
      memcpy((void *)copy->to, (const void *)copy->from, copy->bytes);
    }
@end small@
    LL_ATON_Cache_MCU_Clean_Range(copy->to, (copy->bytes + @line@U - 1U) / @line@U * @line@U);
  }
  atonc_resident_ready = true;
}

void ATONC_Release_Resident_@net@(void)
{
  atonc_resident_ready = false;
}
