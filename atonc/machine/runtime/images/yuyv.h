#ifdef __ARM_FEATURE_SAT
#include <arm_acle.h>
#define fe_byte(x) ((int32_t)__usat((x) >> 20, 8))
#else
FE_INLINE int32_t fe_byte(int32_t x)
{
  x = x < 0 ? 0 : x >> 20;
  return x > 255 ? 255 : x;
}
#endif

/* Y in 2^-20, with the half that rounds. */
FE_INLINE int32_t fe_light(const uint8_t *line, uint32_t x)
{
  const int32_t y = line[2 * x] - FE_BLACK;
  return (y > 0 ? y : 0) * FE_LIGHT + (1 << 19);
}
