FE_INLINE void fe_rgb(const uint8_t *line, uint32_t x, int32_t *to)
{
  const int32_t light = fe_light(line, x), u = line[4 * (x / 2) + 1] - 128, v = line[4 * (x / 2) + 3] - 128;
  to[0] = fe_byte(light + FE_V_RED * v);
  to[1] = fe_byte(light + FE_U_GREEN * u + FE_V_GREEN * v);
  to[2] = fe_byte(light + FE_U_BLUE * u);
}
