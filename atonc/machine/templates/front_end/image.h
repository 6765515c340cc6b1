/* @name@_front_end.h: @sense@, written by @tool@. Do not edit. */
#ifndef @prefix@_FRONT_END_H
#define @prefix@_FRONT_END_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define @prefix@_FRONT_END_FRAME_WIDTH (@frame_width@) /* pixels of the camera's frame: @format@ */
#define @prefix@_FRONT_END_FRAME_HEIGHT (@frame_height@)
#define @prefix@_FRONT_END_STRIDE (@stride@) /* bytes from one of its rows to the next */
#define @prefix@_FRONT_END_WIDTH (@width@) /* of the network's input */
#define @prefix@_FRONT_END_HEIGHT (@height@)
#define @prefix@_FRONT_END_COLOURS (@colours@) /* @order@ */

typedef @type@ @name@_front_end_code; /* @reals@ */

/* Where rows of an image are worked out; nothing in it is kept for the next one. */
typedef struct {
  @between@ lines[@lines@][@line@];
} @name@_front_end_state;

/* From the camera's buffer to the input of the network (@axes@). A buffer that a DMA wrote must have left the cache:
 * invalidate its lines before the call; and clean those of `input` after it where the NPU reads it from memory. */
void @name@_front_end_image(@name@_front_end_state *state, const uint8_t *frame, @name@_front_end_code *input);

#ifdef __cplusplus
}
#endif
#endif /* @prefix@_FRONT_END_H */
