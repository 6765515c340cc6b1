/* Samples -> windowed samples in single precision, zeros behind the window. `kept[0]` is the sample before it. */
static void fe_frame(int16_t *kept, float *to)
{
  const int16_t *from = kept + 1;
#if FE_REMOVE_MEAN
  const float mean = (float)fe_total(from, FE_LENGTH) / (float)FE_LENGTH;
#endif
#if FE_EMPHASIS_OF_FRAME
  kept[0] = kept[1];
#endif
  for (uint32_t i = 0; i < FE_LENGTH; i += 4) {
    fe_four x = fe_of_samples(from + i);
#if FE_REMOVE_MEAN
    x = fe_add_n(x, -mean);
#endif
#if FE_EMPHASIS
    fe_four before = fe_of_samples(kept + i);
#if FE_REMOVE_MEAN
    before = fe_add_n(before, -mean);
#endif
    x = fe_sub(x, fe_mul_n(before, fe_emphasis));
#endif
    fe_store(to + i, fe_mul(x, fe_load(fe_window + i)));
  }
  for (uint32_t i = (FE_LENGTH + 3) / 4 * 4; i < FE_N_FFT; i += 4) fe_store(to + i, fe_all(0));
}
