/* Their upper bits again stand in the lower ones. */
FE_INLINE void fe_rgb(const uint8_t *line, uint32_t x, int32_t *to)
{
  const int32_t both = line[2 * x] | line[2 * x + 1] << 8, r = both >> 11, g = both >> 5 & 63, b = both & 31;
  to[0] = r << 3 | r >> 2;
  to[1] = g << 2 | g >> 4;
  to[2] = b << 3 | b >> 2;
}
