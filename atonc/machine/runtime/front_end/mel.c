/* Each mel is a sum over the bins that its triangle covers. */
static void fe_mel(const float *from, float *to)
{
  const float *weights = fe_mel_weights;
  for (uint32_t m = 0; m < FE_MELS; m++) to[m] = fe_dot(&weights, from + fe_mel_starts[m], fe_mel_fours[m]);
  for (uint32_t m = FE_MELS; m % 4; m++) to[m] = 0;
}
