static void fe_dct(const float *from, float *to)
{
  const float *rows = fe_cosines;
  for (uint32_t c = 0; c < FE_FEATURES; c++) to[c] = fe_dot(&rows, from, FE_DCT_ROW / 4);
  for (uint32_t c = FE_FEATURES; c % 4; c++) to[c] = 0;
}
