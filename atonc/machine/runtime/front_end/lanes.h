/* Four numbers at a time: vectors of a Cortex-M55, plain C elsewhere and with -DATONC_NO_VECTORS. Both do the same
 * operations in the same order and round each of them, so they give the same bits. Vectors take numbers below 1.2e-38
 * for zero; no such number can change a code, because logarithms have a guard or a floor that is far above. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-fast-math", "fp-contract=off", "no-math-errno")
#else
#pragma STDC FP_CONTRACT OFF
#endif
#ifdef __clang__
#pragma clang diagnostic ignored "-Wunused-function" /* no front end needs all of what follows */
#endif
#ifdef __FAST_MATH__
#error "a front end needs IEEE arithmetic: compile this file without -ffast-math"
#endif

#ifdef __GNUC__
#define FE_INLINE static inline __attribute__((always_inline))
#else
#define FE_INLINE static inline
#endif

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2) && !defined(ATONC_NO_VECTORS)
#include <arm_mve.h>
#define FE_VECTORS 1
typedef float32x4_t fe_four;
typedef struct { fe_four even, odd; } fe_pair;
#define fe_load(at) vld1q_f32(at)
#define fe_store(at, x) vst1q_f32(at, x)
#define fe_add(x, y) vaddq_f32(x, y)
#define fe_sub(x, y) vsubq_f32(x, y)
#define fe_mul(x, y) vmulq_f32(x, y)
#define fe_add_n(x, n) vaddq_n_f32(x, n)
#define fe_mul_n(x, n) vmulq_n_f32(x, n)
#define fe_all(n) vdupq_n_f32(n)
#define fe_larger(x, y) vmaxnmq_f32(x, y)
#define fe_smaller(x, y) vminnmq_f32(x, y)
#define fe_of_samples(at) vcvtq_f32_s32(vldrhq_s32(at))

static inline fe_pair fe_load_apart(const float *at)
{
  float32x4x2_t both = vld2q_f32(at);
  fe_pair pair = {both.val[0], both.val[1]};
  return pair;
}

static inline void fe_store_every_fourth(float *at, fe_four x)
{
  vstrwq_scatter_shifted_offset_f32(at, vidupq_n_u32(0, 4), x);
}

static inline fe_four fe_load_back(const float *at)
{
  return vldrwq_gather_shifted_offset_f32(at, vsubq_u32(vdupq_n_u32(3), vidupq_n_u32(0, 1)));
}

static inline void fe_store_back(float *at, fe_four x)
{
  vstrwq_scatter_shifted_offset_f32(at, vsubq_u32(vdupq_n_u32(3), vidupq_n_u32(0, 1)), x);
}

static inline float fe_sum(fe_four x)
{
#if defined(__GNUC__) && !defined(__clang__) /* lanes are registers of the scalar unit: it moves them through others */
  register fe_four lanes __asm("q0") = x;
  __asm("vadd.f32 s0, s0, s1\n\tvadd.f32 s2, s2, s3\n\tvadd.f32 s0, s0, s2" : "+w"(lanes));
  return vgetq_lane_f32(lanes, 0);
#else
  return (vgetq_lane_f32(x, 0) + vgetq_lane_f32(x, 1)) + (vgetq_lane_f32(x, 2) + vgetq_lane_f32(x, 3));
#endif
}

static inline int32_t fe_total(const int16_t *from, uint32_t count)
{
  int32_t total = 0;
  for (; count >= 8; count -= 8, from += 8) total = vaddvaq_s16(total, vld1q_s16(from));
  return vaddvaq_s16(total, vldrhq_z_s16(from, vctp16q(count)));
}

/* To the same place or before it. */
static inline void fe_move(int16_t *to, const int16_t *from, uint32_t count)
{
  for (; count >= 8; count -= 8, to += 8, from += 8) vst1q_s16(to, vld1q_s16(from));
  vstrhq_p_s16(to, vldrhq_z_s16(from, vctp16q(count)), vctp16q(count));
}

/* x = 2^power * rest, rest from sqrt(1/2) to sqrt(2). */
static inline fe_pair fe_apart(fe_four x)
{
  int32x4_t bits = vreinterpretq_s32_f32(x), power = vshrq_n_s32(vsubq_n_s32(bits, 0x3f3504f3), 23);
  fe_pair pair = {vcvtq_f32_s32(power), vreinterpretq_f32_s32(vsubq_s32(bits, vshlq_n_s32(power, 23)))};
  return pair;
}

static inline void fe_put_s8(int8_t *at, fe_four x, int32_t zero, uint32_t count)
{
  int32x4_t codes = vaddq_n_s32(vcvtq_s32_f32(x), zero);
  if (count < 4) vstrbq_p_s32(at, codes, vctp32q(count));
  else vstrbq_s32(at, codes);
}

static inline void fe_put_u8(uint8_t *at, fe_four x, int32_t zero, uint32_t count)
{
  fe_put_s8((int8_t *)at, x, zero, count);
}

static inline void fe_put_s16(int16_t *at, fe_four x, int32_t zero, uint32_t count)
{
  int32x4_t codes = vaddq_n_s32(vcvtq_s32_f32(x), zero);
  if (count < 4) vstrhq_p_s32(at, codes, vctp32q(count));
  else vstrhq_s32(at, codes);
}

static inline void fe_put_f32(float *at, fe_four x, int32_t zero, uint32_t count)
{
  (void)zero;
  vstrwq_p_f32(at, x, vctp32q(count));
}
#else
typedef struct { float lane[4]; } fe_four;
typedef struct { fe_four even, odd; } fe_pair;
#define FE_EACH for (int k = 0; k < 4; k++)
#define FE_BINARY(name, other, formula) \
  static inline fe_four name(fe_four x, other y) \
  { \
    fe_four z; \
    FE_EACH z.lane[k] = formula; \
    return z; \
  }
FE_BINARY(fe_add, fe_four, x.lane[k] + y.lane[k])
FE_BINARY(fe_sub, fe_four, x.lane[k] - y.lane[k])
FE_BINARY(fe_mul, fe_four, x.lane[k] * y.lane[k])
FE_BINARY(fe_add_n, float, x.lane[k] + y)
FE_BINARY(fe_mul_n, float, x.lane[k] * y)
FE_BINARY(fe_larger, fe_four, x.lane[k] > y.lane[k] ? x.lane[k] : y.lane[k])
FE_BINARY(fe_smaller, fe_four, x.lane[k] < y.lane[k] ? x.lane[k] : y.lane[k])

static inline fe_four fe_load(const float *at)
{
  fe_four x;
  FE_EACH x.lane[k] = at[k];
  return x;
}

static inline void fe_store(float *at, fe_four x)
{
  FE_EACH at[k] = x.lane[k];
}

static inline fe_four fe_all(float n)
{
  fe_four x = {{n, n, n, n}};
  return x;
}

static inline fe_four fe_of_samples(const int16_t *at)
{
  fe_four x;
  FE_EACH x.lane[k] = (float)at[k];
  return x;
}

static inline fe_pair fe_load_apart(const float *at)
{
  fe_pair pair;
  FE_EACH pair.even.lane[k] = at[2 * k], pair.odd.lane[k] = at[2 * k + 1];
  return pair;
}

static inline void fe_store_every_fourth(float *at, fe_four x)
{
  FE_EACH at[4 * k] = x.lane[k];
}

static inline fe_four fe_load_back(const float *at)
{
  fe_four x;
  FE_EACH x.lane[k] = at[3 - k];
  return x;
}

static inline void fe_store_back(float *at, fe_four x)
{
  FE_EACH at[3 - k] = x.lane[k];
}

static inline float fe_sum(fe_four x)
{
  return (x.lane[0] + x.lane[1]) + (x.lane[2] + x.lane[3]);
}

/* x = 2^power * rest, rest from sqrt(1/2) to sqrt(2); x is above 1e-37. */
static inline fe_pair fe_apart(fe_four x)
{
  fe_pair pair;
  FE_EACH {
    union {
      float real;
      uint32_t bits;
    } one;
    one.real = x.lane[k];
    int32_t power = (int32_t)((one.bits - 0x3f3504f3u + (128u << 23)) >> 23) - 128; /* shifts of what has no sign */
    one.bits -= (uint32_t)power << 23;
    pair.even.lane[k] = (float)power;
    pair.odd.lane[k] = one.real;
  }
  return pair;
}

static inline void fe_move(int16_t *to, const int16_t *from, uint32_t count)
{
  memmove(to, from, count * sizeof *to);
}

static inline int32_t fe_total(const int16_t *from, uint32_t count)
{
  int32_t total = 0;
  for (uint32_t k = 0; k < count; k++) total += from[k];
  return total;
}

#define FE_PUTS(name, type) \
  static inline void name(type *at, fe_four x, int32_t zero, uint32_t count) \
  { \
    for (uint32_t k = 0; k < 4 && k < count; k++) at[k] = (type)((int32_t)x.lane[k] + zero); \
  }
FE_PUTS(fe_put_s8, int8_t)
FE_PUTS(fe_put_u8, uint8_t)
FE_PUTS(fe_put_s16, int16_t)

static inline void fe_put_f32(float *at, fe_four x, int32_t zero, uint32_t count)
{
  (void)zero;
  for (uint32_t k = 0; k < 4 && k < count; k++) at[k] = x.lane[k];
}
#endif
