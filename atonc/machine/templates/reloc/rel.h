/* @name@_rel.h: sizes of a relocatable image, written by atonc. Do not edit. */
#ifndef @NAME@_REL_H
#define @NAME@_REL_H

#include <stdint.h>

#define AI_@NAME@_RELOC_C_NAME "@c_name@"
#define AI_@NAME@_RELOC_RT_DESC "@runtime@"
#define AI_@NAME@_RELOC_RAM_SIZE_XIP (@xip_bytes@)
#define AI_@NAME@_RELOC_RAM_SIZE_COPY (@copy_bytes@)
#define AI_@NAME@_RELOC_IMAGE_SIZE (@image_bytes@)
#define AI_@NAME@_RELOC_ACTIVATIONS_SIZE (@activations_bytes@)
#define AI_@NAME@_RELOC_WEIGHTS_SIZE (@params_bytes@)
#define AI_@NAME@_RELOC_EXT_RAM_SIZE (@ext_ram_bytes@)
@begin pools@
#define AI_@NAME@_RELOC_MPOOL_DESC_@k@_NAME "@pool@"
#define AI_@NAME@_RELOC_MPOOL_DESC_@k@_FLAGS (0x@flags@) /* @label@ */
#define AI_@NAME@_RELOC_MPOOL_DESC_@k@_FOFF (@offset@)
#define AI_@NAME@_RELOC_MPOOL_DESC_@k@_DST (0x@destination@)
#define AI_@NAME@_RELOC_MPOOL_DESC_@k@_SIZE (@size@)
@end pools@

uintptr_t ai_@name@_reloc_img_get(void);

#endif
