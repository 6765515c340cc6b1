/* @name@_front_end.h: @sense@, written by @tool@. Do not edit. */
#ifndef @prefix@_FRONT_END_H
#define @prefix@_FRONT_END_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define @prefix@_FRONT_END_RATE (@rate@) /* samples a second */
#define @prefix@_FRONT_END_HOP (@hop@) /* samples from one frame to the next */
#define @prefix@_FRONT_END_FEATURES (@features@) /* codes of a frame */
#define @prefix@_FRONT_END_FRAMES (@frames@) /* frames in the input of the network */
/* Frames that so many samples may complete: room that `codes` needs. */
#define @prefix@_FRONT_END_MOST_FRAMES(samples) (((samples) + @hop@ - 1) / @hop@)

typedef @type@ @name@_front_end_code; /* real = (code - @zero@) * @scale@ */

/* All that is kept from one frame to the next, and where a frame is worked out. */
typedef struct {
  int16_t kept[@kept@]; /* the sample before the window, and the window */
  uint32_t have, skip;
@begin history@
  uint32_t next, seen;
  @name@_front_end_code history[@frames@][@features@];
@end history@
@begin floats@
  float buffers[2][@buffer@];
@end floats@
@begin integers@
  int16_t points[2 * @half@];
  uint32_t energy[@half@ + 1], noise[@mels@];
  float buffers[2][@buffer@];
@end integers@
} @name@_front_end_state;

/* Before the first sample of a sound. */
void @name@_front_end_reset(@name@_front_end_state *state);

/* Takes samples, any number of them; writes the codes of every frame that they complete and returns how many. */
uint32_t @name@_front_end_push(@name@_front_end_state *state, const int16_t *samples, uint32_t count,
                               @name@_front_end_code *codes);
@begin history@

/* The last @frames@ frames in the order of the network's input (@order@); returns 0 as long as there are fewer. */
uint32_t @name@_front_end_input(const @name@_front_end_state *state, @name@_front_end_code *input);
@end history@

#ifdef __cplusplus
}
#endif
#endif /* @prefix@_FRONT_END_H */
