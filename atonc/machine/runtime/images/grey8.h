FE_INLINE void fe_pixel(const uint8_t *line, uint32_t x, int32_t *to)
{
  to[0] = line[x];
}
