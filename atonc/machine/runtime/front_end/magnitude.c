/* Roots are rounded as IEEE says: an instruction of the core, where no library is needed. */
#if defined(__arm__) && defined(__GNUC__)
static inline float fe_square_root(float x)
{
  float root;
  __asm("vsqrt.f32 %0, %1" : "=t"(root) : "t"(x));
  return root;
}
#else
#include <math.h>
#define fe_square_root(x) sqrtf(x)
#endif

static void fe_magnitude(float *values)
{
  for (uint32_t k = 0; k <= FE_HALF; k++) values[k] = fe_square_root(values[k]);
}
