/* @name@_rel.c: a relocatable image, written by atonc. Do not edit. */
#include "@name@_rel.h"

#if defined(__ICCARM__)
#pragma data_alignment = 64
#define ALIGNED
#else
#define ALIGNED __attribute__((aligned(64)))
#endif

ALIGNED static const uint8_t image[@image_bytes@] = {
@body@
};

uintptr_t ai_@name@_reloc_img_get(void)
{
  return (uintptr_t)image;
}
