/* @name@_post.h: boxes from the outputs of the network, as @title@ means them; written by @tool@. Do not edit. */
#ifndef ATONC_@upper@_POST_H
#define ATONC_@upper@_POST_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define @upper@_POST_OUTPUTS @outputs@U
#define @upper@_POST_CLASSES @classes@U
#define @upper@_POST_BOXES @most@U /* what --post-boxes asked for */
#define @upper@_POST_WIDTH @width@U /* of the input: boxes are in its pixels */
#define @upper@_POST_HEIGHT @height@U
@begin has_masks@
#define @upper@_POST_MASK_WIDTH @mask_columns@U /* of a mask, over the whole input */
#define @upper@_POST_MASK_HEIGHT @mask_rows@U
@end has_masks@

typedef struct {
  float x1, y1, x2, y2; /* corners, not limited to the image */
  float score;
  uint32_t number; /* of the class, from 0 */
@begin has_points@
  float points[@points@][2];
@end has_points@
@begin point_scores@
  float point_scores[@points@];
@end point_scores@
@begin has_masks@
  float mask[@mask_values@]; /* coefficients, for @name@_post_mask() */
@end has_masks@
} @name@_box_t;

/* Writes at most `most` boxes, the best first, and gives their number. `outputs`: the memory of each output of the
 * network, in its order, as LL_ATON_Output_Buffers_Info_@net@() lists them; invalidate the cache of the CPU there first.
 * One call at a time: candidates are kept in @scratch@ bytes of static memory. */
uint32_t @name@_post(const void *const outputs[@upper@_POST_OUTPUTS], @name@_box_t *boxes, uint32_t most);
@begin has_masks@

/* Writes the mask of one box, line by line: 1 where the object is, 0 elsewhere and outside of the box. `outputs` are
 * those that the box was found in. */
void @name@_post_mask(const void *const outputs[@upper@_POST_OUTPUTS], const @name@_box_t *box, uint8_t *mask);
@end has_masks@

#ifdef __cplusplus
}
#endif

#endif
