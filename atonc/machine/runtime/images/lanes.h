/* Vectors of a Cortex-M55; elsewhere, and with -DATONC_NO_VECTORS, plain C with the same sums of whole numbers. */
#if defined(__ARM_FEATURE_MVE) && !defined(ATONC_NO_VECTORS)
#include <arm_mve.h>
#define FE_VECTORS 1
#if FE_WIDE
#define fe_load_between(at) vldrhq_u32(at)
#define fe_store_between(at, x, lanes) vstrhq_p_u32(at, x, lanes)
#else
#define fe_load_between(at) vldrbq_u32(at)
#define fe_store_between(at, x, lanes) vstrbq_p_u32(at, x, lanes)
#endif
#else
#define FE_VECTORS 0
#endif
