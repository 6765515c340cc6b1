/* Four times the power of every bin, from the transform of half the length; four zeros behind the last one. */
static void fe_power(float *from, float *to)
{
  from[FE_HALF] = from[0];
  from[FE_HALF + FE_IMAGINARY] = from[FE_IMAGINARY];
  for (uint32_t k = 0; k < FE_HALF / 2; k += 4) {
    fe_complex z = fe_at(from + k);
    fe_four re = fe_load_back(from + FE_HALF - 3 - k), im = fe_load_back(from + FE_HALF - 3 - k + FE_IMAGINARY);
    fe_complex even = {fe_add(z.re, re), fe_sub(z.im, im)};
    fe_complex odd = {fe_add(z.im, im), fe_sub(re, z.re)};
    odd = fe_times(odd, fe_load(fe_turns + k), fe_load(fe_turns + FE_HALF / 2 + k));
    fe_complex low = fe_sum_of(even, odd), high = fe_less(even, odd);
    fe_store(to + k, fe_add(fe_mul(low.re, low.re), fe_mul(low.im, low.im)));
    fe_store_back(to + FE_HALF - 3 - k, fe_add(fe_mul(high.re, high.re), fe_mul(high.im, high.im)));
  }
  const float re = from[FE_HALF / 2] + from[FE_HALF / 2], im = from[FE_HALF / 2 + FE_IMAGINARY] * 2.0f;
  to[FE_HALF / 2] = re * re + im * im;
  for (uint32_t k = 1; k < 5; k++) to[FE_HALF + k] = 0;
}
