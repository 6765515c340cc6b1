/* Bins without mels: the factor that their weights would have had. */
static void fe_scale(float *values)
{
  for (uint32_t k = 0; k <= FE_HALF; k += 4) fe_store(values + k, fe_mul_n(fe_load(values + k), fe_factor));
}
