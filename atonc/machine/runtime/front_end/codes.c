/* Units of the scale, limited, rounded to the nearest (ties to even) by a number that has no room behind the point. */
static void fe_codes(const float *from, fe_code *codes)
{
  for (uint32_t m = 0; m < FE_FEATURES; m += 4) {
    fe_four x = fe_load(from + m);
#if FE_QUANTISED
    x = fe_smaller(fe_larger(fe_mul_n(x, fe_steps), fe_all(FE_LOW)), fe_all(FE_HIGH));
    x = fe_add_n(fe_add_n(x, 12582912.0f), -12582912.0f);
#endif
    FE_PUT(codes + m, x, FE_ZERO, FE_FEATURES - m);
  }
}
