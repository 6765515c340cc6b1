/* Complex transform of half the length: even samples are the real parts, odd ones the imaginary parts. Every pass reads
 * one buffer and writes the other in the order that the next one reads (Stockham), four numbers at a time. */
#define FE_HALF (FE_N_FFT / 2)
#define FE_QUARTER (FE_HALF / 4)
#define FE_IMAGINARY (FE_HALF + 4) /* where these begin in a buffer; room for one number more, which is the first again */
#define FE_TWIDDLE(k) (fe_twiddles + (k) * FE_QUARTER)

typedef struct { fe_four re, im; } fe_complex;

static inline fe_complex fe_sum_of(fe_complex x, fe_complex y)
{
  fe_complex z = {fe_add(x.re, y.re), fe_add(x.im, y.im)};
  return z;
}

static inline fe_complex fe_less(fe_complex x, fe_complex y)
{
  fe_complex z = {fe_sub(x.re, y.re), fe_sub(x.im, y.im)};
  return z;
}

static inline fe_complex fe_less_turned(fe_complex x, fe_complex y) /* x - i y */
{
  fe_complex z = {fe_add(x.re, y.im), fe_sub(x.im, y.re)};
  return z;
}

static inline fe_complex fe_and_turned(fe_complex x, fe_complex y) /* x + i y */
{
  fe_complex z = {fe_sub(x.re, y.im), fe_add(x.im, y.re)};
  return z;
}

static inline fe_complex fe_times(fe_complex x, fe_four re, fe_four im)
{
  fe_complex z = {fe_sub(fe_mul(x.re, re), fe_mul(x.im, im)), fe_add(fe_mul(x.im, re), fe_mul(x.re, im))};
  return z;
}

static inline fe_complex fe_times_n(fe_complex x, float re, float im)
{
  fe_complex z = {fe_sub(fe_mul_n(x.re, re), fe_mul_n(x.im, im)), fe_add(fe_mul_n(x.im, re), fe_mul_n(x.re, im))};
  return z;
}

static inline fe_complex fe_at(const float *from)
{
  fe_complex x = {fe_load(from), fe_load(from + FE_IMAGINARY)};
  return x;
}

static inline void fe_to(float *to, fe_complex x)
{
  fe_store(to, x.re);
  fe_store(to + FE_IMAGINARY, x.im);
}

static inline fe_complex fe_of_frame(const float *from)
{
  fe_pair both = fe_load_apart(from);
  fe_complex x = {both.even, both.odd};
  return x;
}

static inline void fe_in_turn(float *to, fe_complex x)
{
  fe_store_every_fourth(to, x.re);
  fe_store_every_fourth(to + FE_IMAGINARY, x.im);
}

static void fe_first_pass(const float *from, float *to)
{
  for (uint32_t p = 0; p < FE_QUARTER; p += 4) {
    const float *at = from + 2 * p;
    fe_complex a = fe_of_frame(at), c = fe_of_frame(at + 4 * FE_QUARTER);
    fe_complex sum = fe_sum_of(a, c), rest = fe_less(a, c);
    fe_complex b = fe_of_frame(at + 2 * FE_QUARTER), d = fe_of_frame(at + 6 * FE_QUARTER);
    fe_complex sum2 = fe_sum_of(b, d), rest2 = fe_less(b, d);
    fe_in_turn(to + 4 * p, fe_sum_of(sum, sum2));
    fe_complex y2 = fe_times(fe_less(sum, sum2), fe_load(FE_TWIDDLE(2) + p), fe_load(FE_TWIDDLE(3) + p));
    fe_in_turn(to + 4 * p + 2, y2);
    fe_complex y1 = fe_times(fe_less_turned(rest, rest2), fe_load(FE_TWIDDLE(0) + p), fe_load(FE_TWIDDLE(1) + p));
    fe_in_turn(to + 4 * p + 1, y1);
    fe_complex y3 = fe_times(fe_and_turned(rest, rest2), fe_load(FE_TWIDDLE(4) + p), fe_load(FE_TWIDDLE(5) + p));
    fe_in_turn(to + 4 * p + 3, y3);
  }
}

FE_INLINE void fe_middle_pass(const float *from, float *to, uint32_t stride)
{
  for (uint32_t p = 0; p < FE_QUARTER; p += stride) {
    const float re1 = FE_TWIDDLE(0)[p], im1 = FE_TWIDDLE(1)[p], re2 = FE_TWIDDLE(2)[p], im2 = FE_TWIDDLE(3)[p];
    const float re3 = FE_TWIDDLE(4)[p], im3 = FE_TWIDDLE(5)[p];
    for (uint32_t q = 0; q < stride; q += 4) {
      const float *at = from + p + q;
      float *y = to + 4 * p + q;
      fe_complex a = fe_at(at), c = fe_at(at + 2 * FE_QUARTER);
      fe_complex sum = fe_sum_of(a, c), rest = fe_less(a, c);
      fe_complex b = fe_at(at + FE_QUARTER), d = fe_at(at + 3 * FE_QUARTER);
      fe_complex sum2 = fe_sum_of(b, d), rest2 = fe_less(b, d);
      fe_to(y, fe_sum_of(sum, sum2));
      fe_to(y + 2 * stride, fe_times_n(fe_less(sum, sum2), re2, im2));
      fe_to(y + stride, fe_times_n(fe_less_turned(rest, rest2), re1, im1));
      fe_to(y + 3 * stride, fe_times_n(fe_and_turned(rest, rest2), re3, im3));
    }
  }
}

static void fe_last_pass(const float *from, float *to)
{
#if FE_LAST_OF_TWO
  for (uint32_t q = 0; q < FE_HALF / 2; q += 4) {
    fe_complex a = fe_at(from + q), b = fe_at(from + FE_HALF / 2 + q);
    fe_to(to + q, fe_sum_of(a, b));
    fe_to(to + FE_HALF / 2 + q, fe_less(a, b));
  }
#else
  for (uint32_t q = 0; q < FE_QUARTER; q += 4) {
    fe_complex a = fe_at(from + q), c = fe_at(from + 2 * FE_QUARTER + q);
    fe_complex sum = fe_sum_of(a, c), rest = fe_less(a, c);
    fe_complex b = fe_at(from + FE_QUARTER + q), d = fe_at(from + 3 * FE_QUARTER + q);
    fe_complex sum2 = fe_sum_of(b, d), rest2 = fe_less(b, d);
    fe_to(to + q, fe_sum_of(sum, sum2));
    fe_to(to + FE_QUARTER + q, fe_less_turned(rest, rest2));
    fe_to(to + 2 * FE_QUARTER + q, fe_less(sum, sum2));
    fe_to(to + 3 * FE_QUARTER + q, fe_and_turned(rest, rest2));
  }
#endif
}

/* Where the result lies follows from the number of passes: the caller knows. */
static void fe_fft(float *from, float *to)
{
  fe_first_pass(from, to);
#if FE_LAST_STRIDE > 4
  fe_middle_pass(to, from, 4); /* one vector for each factor: known to the compiler, it needs no loop */
#endif
#if FE_LAST_STRIDE > 16
  fe_middle_pass(from, to, 16);
#endif
#if FE_LAST_STRIDE > 64
  fe_middle_pass(to, from, 64);
#endif
#if FE_LAST_STRIDE > 256
  fe_middle_pass(from, to, 256);
#endif
#if FE_LAST_STRIDE == 16 || FE_LAST_STRIDE == 256
  fe_last_pass(from, to);
#else
  fe_last_pass(to, from);
#endif
}
