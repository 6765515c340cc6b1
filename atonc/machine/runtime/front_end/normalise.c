static void fe_normalise(float *values)
{
  for (uint32_t m = 0; m < FE_FEATURES; m += 4) {
    fe_four x = fe_sub(fe_load(values + m), fe_load(fe_mean + m));
    fe_store(values + m, fe_mul(x, fe_load(fe_inverse + m)));
  }
}
