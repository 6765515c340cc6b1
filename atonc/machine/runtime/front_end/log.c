/* ln(1 + f) by a polynomial (Cephes' logf), the power of two added in two parts; error below 1.2e-7 of the result. */
static inline fe_four fe_horner(fe_four y, fe_four f, float factor)
{
  return fe_add_n(fe_mul(y, f), factor);
}

static void fe_log(float *values)
{
  for (uint32_t m = 0; m < FE_VALUES; m += 4) {
    fe_four x = fe_load(values + m);
#if FE_HAS_GUARD
    x = fe_add_n(x, fe_guard);
#endif
#if FE_HAS_FLOOR
    x = fe_larger(x, fe_all(fe_floor));
#endif
    fe_pair parts = fe_apart(x);
    fe_four f = fe_add_n(parts.odd, -1.0f), square = fe_mul(f, f);
    fe_four y = fe_horner(fe_all(7.0376836292e-2f), f, -1.1514610310e-1f);
    y = fe_horner(fe_horner(y, f, 1.1676998740e-1f), f, -1.2420140846e-1f);
    y = fe_horner(fe_horner(y, f, 1.4249322787e-1f), f, -1.6668057665e-1f);
    y = fe_horner(fe_horner(y, f, 2.0000714765e-1f), f, -2.4999993993e-1f);
    y = fe_mul(fe_mul(fe_horner(y, f, 3.3333331174e-1f), f), square);
    y = fe_add(y, fe_mul_n(parts.even, -2.12194440e-4f));
    y = fe_add(y, fe_mul_n(square, -0.5f));
    y = fe_add(fe_add(f, y), fe_mul_n(parts.even, 0.693359375f));
    fe_store(values + m, fe_mul_n(y, fe_log_factor));
  }
}
