FE_INLINE void fe_rgb(const uint8_t *line, uint32_t x, int32_t *to)
{
  for (uint32_t c = 0; c < 3; c++) to[c] = line[3 * x + c];
}
