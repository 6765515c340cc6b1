/* BT.601 */
FE_INLINE void fe_pixel(const uint8_t *line, uint32_t x, int32_t *to)
{
  int32_t rgb[3];
  fe_rgb(line, x, rgb);
  to[0] = (19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 0x8000) >> 16;
}
