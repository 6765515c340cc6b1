/* TFLM's micro_frontend, every integer as it computes them. */
#define FE_HALF (FE_N_FFT / 2)

typedef struct { int16_t re, im; } fe_point;

static inline int16_t fe_round(int32_t x)
{
  return (int16_t)((x + (1 << 14)) >> 15);
}

static inline fe_point fe_turned(fe_point x, int16_t re, int16_t im)
{
  fe_point y = {fe_round(x.re * re - x.im * im), fe_round(x.re * im + x.im * re)};
  return y;
}

static inline fe_point fe_divided(fe_point x, int16_t factor)
{
  fe_point y = {fe_round(x.re * factor), fe_round(x.im * factor)};
  return y;
}

static inline fe_point fe_plus(fe_point x, fe_point y)
{
  fe_point z = {(int16_t)(x.re + y.re), (int16_t)(x.im + y.im)};
  return z;
}

static inline fe_point fe_minus(fe_point x, fe_point y)
{
  fe_point z = {(int16_t)(x.re - y.re), (int16_t)(x.im - y.im)};
  return z;
}

static inline uint32_t fe_bit_length(uint32_t x)
{
#ifdef __GNUC__
  return x ? 32u - (uint32_t)__builtin_clz(x) : 0;
#else
  uint32_t bits = 0;
  while (bits < 32 && x >> bits) bits++;
  return bits;
#endif
}

static void fe_stage_of_four(fe_point *values, uint32_t length)
{
  const uint32_t stride = FE_HALF / (4 * length);
  for (uint32_t block = 0; block < FE_HALF; block += 4 * length) {
    for (uint32_t k = 0; k < length; k++) {
      fe_point *at = values + block + k;
      const uint32_t p = k * stride;
      fe_point a = fe_divided(at[0], 8191);
      fe_point b = fe_turned(fe_divided(at[length], 8191), fe_twiddles[p], fe_twiddles[FE_HALF + p]);
      fe_point c = fe_turned(fe_divided(at[2 * length], 8191), fe_twiddles[2 * p], fe_twiddles[FE_HALF + 2 * p]);
      fe_point d = fe_turned(fe_divided(at[3 * length], 8191), fe_twiddles[3 * p], fe_twiddles[FE_HALF + 3 * p]);
      fe_point less = fe_minus(a, c), whole = fe_plus(a, c), both = fe_plus(b, d), apart = fe_minus(b, d);
      fe_point y1 = {(int16_t)(less.re + apart.im), (int16_t)(less.im - apart.re)};
      fe_point y3 = {(int16_t)(less.re - apart.im), (int16_t)(less.im + apart.re)};
      at[0] = fe_plus(whole, both);
      at[length] = y1;
      at[2 * length] = fe_minus(whole, both);
      at[3 * length] = y3;
    }
  }
}

static void fe_stage_of_two(fe_point *values)
{
  for (uint32_t k = 0; k < FE_HALF; k += 2) { /* the first stage: its factor is 32767 / 32768 */
    fe_point a = fe_divided(values[k], 16383);
    fe_point b = fe_turned(fe_divided(values[k + 1], 16383), fe_twiddles[0], fe_twiddles[FE_HALF]);
    values[k] = fe_plus(a, b);
    values[k + 1] = fe_minus(a, b);
  }
}

static uint32_t fe_energy(int32_t re, int32_t im)
{
  return (uint32_t)(re * re) + (uint32_t)(im * im);
}

/* The energy of every bin. */
static void fe_spectrum(fe_point *values, uint32_t *energy)
{
  uint32_t length = 1;
  if (FE_LAST_OF_TWO) {
    fe_stage_of_two(values);
    length = 2;
  }
  for (; length < FE_HALF; length *= 4) fe_stage_of_four(values, length);
  fe_point first = fe_divided(values[0], 16383);
  energy[0] = fe_energy((int16_t)(first.re + first.im), 0);
  energy[FE_HALF] = fe_energy((int16_t)(first.re - first.im), 0);
  for (uint32_t k = 1; k <= FE_HALF / 2; k++) {
    fe_point other = {values[FE_HALF - k].re, (int16_t)-values[FE_HALF - k].im};
    fe_point low = fe_divided(values[k], 16383), high = fe_divided(other, 16383);
    fe_point sum = fe_plus(low, high);
    fe_point turned = fe_turned(fe_minus(low, high), fe_turns[k - 1], fe_turns[FE_HALF / 2 + k - 1]);
    energy[k] = fe_energy((int16_t)((sum.re + turned.re) >> 1), (int16_t)((sum.im + turned.im) >> 1));
    energy[FE_HALF - k] = fe_energy((int16_t)((sum.re - turned.re) >> 1), (int16_t)((turned.im - sum.im) >> 1));
  }
}

/* Rounded to the nearest whole number. */
static uint32_t fe_root(uint64_t x)
{
  const uint32_t most = x >> 32 ? 0xFFFFFFFFu : 0xFFFFu;
  const uint32_t bits = x >> 32 ? 32 + fe_bit_length((uint32_t)(x >> 32)) : fe_bit_length((uint32_t)x);
  uint64_t root = 0;
  for (uint64_t bit = bits ? (uint64_t)1 << ((bits - 1) & ~1u) : 0; bit; bit >>= 2) {
    if (x >= root + bit) {
      x -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  return (uint32_t)(x > root && root != most ? root + 1 : root);
}

#if FE_PCAN
static int32_t fe_gain(uint32_t noise)
{
  if (noise <= 2) return fe_gains[noise];
  const uint32_t interval = fe_bit_length(noise);
  const int16_t *gain = fe_gains + 4 * interval - 6;
  const int32_t rest = (int32_t)((interval < 11 ? noise << (11 - interval) : noise >> (interval - 11)) & 0x3FF);
  int32_t curved = ((gain[2] * rest) >> 5) + gain[1] * 32;
  curved = (curved * rest + (1 << 14)) >> 15;
  return (int16_t)(curved + gain[0]);
}
#endif

static uint32_t fe_logarithm(uint32_t x)
{
#if FE_CORRECTION_BITS < 0
  x >>= -(FE_CORRECTION_BITS);
#else
  x <<= FE_CORRECTION_BITS;
#endif
  if (x <= 1) return 0;
  const uint32_t whole = fe_bit_length(x) - 1;
  uint32_t rest = x - (1u << whole);
  rest = whole < 16 ? rest << (16 - whole) : rest >> (whole - 16);
  const uint32_t segment = rest >> 9;
  const int32_t at = fe_logs[segment], step = fe_logs[segment + 1] - at;
  const uint32_t fraction = (uint32_t)((int32_t)rest + at + ((step * (int32_t)(rest - (segment << 9))) >> 16));
  const uint64_t natural = ((uint64_t)45426u * ((whole << 16) + fraction) + (1u << 15)) >> 16;
  const uint64_t found = ((natural << FE_LOG_SHIFT) + (1u << 15)) >> 16;
  return found < 0xFFFF ? (uint32_t)found : 0xFFFF;
}

/* Less the noise, which is estimated from frame to frame. */
static uint32_t fe_channel(uint32_t signal, uint32_t m, uint32_t *noise)
{
  const uint32_t smoothing = fe_smoothing[m & 1], scaled = signal << FE_SMOOTHING_BITS;
  const uint32_t estimate = (uint32_t)(((uint64_t)scaled * smoothing + (uint64_t)noise[m] * (16384u - smoothing)) >> 14);
  noise[m] = estimate;
  const uint32_t less = (scaled - (estimate < scaled ? estimate : scaled)) >> FE_SMOOTHING_BITS;
  const uint32_t least = (uint32_t)(((uint64_t)signal * FE_LEAST_SIGNAL) >> 14);
  signal = less > least ? less : least;
#if FE_PCAN
  const uint32_t snr = (uint32_t)((uint64_t)((int64_t)signal * fe_gain(estimate)) >> FE_SNR_SHIFT);
  signal = snr < 8192 ? (snr * snr) >> 20 : (snr >> 6) - 64;
#endif
  return fe_logarithm(signal);
}

static void fe_micro(fe_state *state, float *to)
{
  fe_point *values = (fe_point *)(void *)state->points;
  int16_t size = 0, windowed[FE_LENGTH + FE_LENGTH % 2];
  windowed[FE_LENGTH - 1 + FE_LENGTH % 2] = 0;
  for (uint32_t i = 0; i < FE_LENGTH; i++) {
    windowed[i] = (int16_t)((state->kept[1 + i] * fe_window[i]) >> 12);
    const int16_t magnitude = (int16_t)(windowed[i] < 0 ? -windowed[i] : windowed[i]);
    size = magnitude > size ? magnitude : size;
  }
  const uint32_t shift = 15 - fe_bit_length((uint32_t)size);
  for (uint32_t k = 0; k < FE_HALF; k++) {
    const uint32_t from = 2u * fe_order[k];
    fe_point one = {0, 0};
    if (from < FE_LENGTH) {
      one.re = (int16_t)((uint32_t)windowed[from] << shift);
      one.im = (int16_t)((uint32_t)windowed[from + 1] << shift);
    }
    values[k] = one;
  }
  fe_spectrum(values, state->energy);
  uint64_t rest = 0;
  const int16_t *weights = fe_weights, *others = fe_others;
  for (uint32_t m = 0; m <= FE_MELS; m++) {
    const uint32_t *energy = state->energy + fe_starts[m];
    uint64_t total = rest;
    rest = 0;
    for (uint32_t k = fe_widths[m]; k; k--, energy++) {
      total += (uint64_t)*weights++ * *energy;
      rest += (uint64_t)*others++ * *energy;
    }
    if (m > 0) to[m - 1] = (float)fe_channel(fe_root(total) >> shift, m - 1, state->noise) * FE_OUTPUT_SCALE;
  }
  for (uint32_t m = FE_MELS; m % 4; m++) to[m] = 0;
}
