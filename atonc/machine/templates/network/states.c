/* States: @total@ bytes that the network keeps from one inference to the next. Nobody else may write there. They get
 * their first values when the network is initialised for the first time (LL_ATON_RT_Main does so for every inference)
 * and from @name@_reset(): call it where a sequence begins, and after the memory has lost its contents (RAM in shutdown).
 */
#include <string.h>

typedef struct {
  uintptr_t to;
  uint32_t bytes;
  uint8_t fill;         /* every byte of it, if there is no array */
  const uint8_t *first;
} atonc_state_t;

static bool atonc_states_ready = false;

static const atonc_state_t *ATONC_States_@net@(void)
{
@begin arrays@
  static const uint8_t first_@k@[] = {
@values@  };
@end arrays@
  static const atonc_state_t states[] = {
@begin states@
    { .to = @target@, .bytes = @size@U, .fill = @fill@U, .first = @first@ }, /* @label@ */
@end states@
    { .bytes = 0 },
  };

  return states;
}

void @name@_reset(void);

void @name@_reset(void)
{
  for (const atonc_state_t *state = ATONC_States_@net@(); state->bytes != 0U; state++) {
    if (state->first != NULL) {
      memcpy((void *)state->to, state->first, state->bytes);
    } else {
      memset((void *)state->to, state->fill, state->bytes);
    }
    LL_ATON_Cache_MCU_Clean_Range(state->to, (state->bytes + @line@U - 1U) / @line@U * @line@U);
  }
  atonc_states_ready = true;
}
