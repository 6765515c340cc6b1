#if FE_VECTORS && FE_DIRECT && FE_X_TAPS > 2
/* One line of the frame, resized along it: the three colours of a pixel side by side, which pays from three taps on. */
static void fe_across(const uint8_t *line, fe_between *to)
{
  const mve_pred16_t three = vctp32q(3);
#if FE_DIRECT < 0 /* backwards */
  const uint32x4_t order = vsubq_u32(vdupq_n_u32(2), vidupq_n_u32(0, 1));
#endif
  for (uint32_t x = 0; x < FE_INNER_WIDTH; x++, to += 3) {
    const uint8_t *at = line + 3 * fe_x_starts[x];
    int32x4_t sums = vdupq_n_s32(1 << FE_X_SHIFT >> 1);
    for (uint32_t k = 0; k < FE_X_TAPS; k++, at += 3) {
#if FE_DIRECT < 0
      const uint32x4_t pixel = vldrbq_gather_offset_z_u32(at, order, three);
#else
      const uint32x4_t pixel = vldrbq_z_u32(at, three);
#endif
      sums = vmlaq_n_s32(sums, vreinterpretq_s32_u32(pixel), fe_x_weights[x * FE_X_TAPS + k]);
    }
    fe_store_between(to, vreinterpretq_u32_s32(vshrq_n_s32(sums, FE_X_SHIFT)), three);
  }
}
#else
/* One line of the frame, resized along it. */
static void fe_across(const uint8_t *line, fe_between *to)
{
  for (uint32_t x = 0; x < FE_INNER_WIDTH; x++, to += FE_CHANNELS) {
    int32_t pixel[FE_CHANNELS];
#if FE_X_TAPS == 1
    fe_pixel(line, fe_x_starts[x], pixel);
    for (uint32_t c = 0; c < FE_CHANNELS; c++) to[c] = (fe_between)pixel[FE_FROM(c)];
#else
    int32_t sums[FE_CHANNELS];
    for (uint32_t c = 0; c < FE_CHANNELS; c++) sums[c] = 1 << FE_X_SHIFT >> 1;
    for (uint32_t k = 0; k < FE_X_TAPS; k++) {
      fe_pixel(line, fe_x_starts[x] + k, pixel);
      for (uint32_t c = 0; c < FE_CHANNELS; c++) sums[c] += fe_x_weights[x * FE_X_TAPS + k] * pixel[FE_FROM(c)];
    }
    for (uint32_t c = 0; c < FE_CHANNELS; c++) to[c] = (fe_between)(sums[c] >> FE_X_SHIFT);
#endif
  }
}
#endif

/* One line of the result, of those that are kept, and its codes. */
static void fe_down(const fe_state *state, uint32_t y, fe_code *to)
{
  const fe_between *from[FE_Y_TAPS];
  for (uint32_t k = 0; k < FE_Y_TAPS; k++) from[k] = state->lines[(fe_y_starts[y] + k) % FE_Y_TAPS];
#if FE_VECTORS && FE_FLAT
  for (uint32_t i = 0; i + 4 <= FE_LINE; i += 4) {
#if FE_Y_TAPS == 1
    uint32x4_t at = fe_load_between(from[0] + i);
#else
    int32x4_t sums = vdupq_n_s32(1 << FE_Y_SHIFT >> 1);
    for (uint32_t k = 0; k < FE_Y_TAPS; k++) {
      const int32x4_t values = vreinterpretq_s32_u32(fe_load_between(from[k] + i));
      sums = vmlaq_n_s32(sums, values, fe_y_weights[y * FE_Y_TAPS + k]);
    }
    uint32x4_t at = vreinterpretq_u32_s32(vshrq_n_s32(sums, FE_Y_SHIFT));
#endif
#if FE_TABLES > 1
    static const uint32_t tables[12] = {0, 256, 512, 0, 256, 512, 0, 256, 512, 0, 256, 512};
    at = vaddq_u32(at, vld1q_u32(tables + i % 12));
#endif
    vstrbq_u32((uint8_t *)to + i, vldrbq_gather_offset_u32((const uint8_t *)fe_codes, at));
  }
#define FE_REST (FE_LINE / 4 * 4 / FE_CHANNELS) /* a pixel that vectors began is worked out again */
#else
#define FE_REST 0
#endif
#if !(FE_VECTORS && FE_FLAT) || FE_LINE % 4
  for (uint32_t x = FE_REST; x < FE_INNER_WIDTH; x++) {
    uint32_t pixel[FE_CHANNELS];
    for (uint32_t c = 0; c < FE_CHANNELS; c++) {
#if FE_Y_TAPS == 1
      pixel[c] = from[0][x * FE_CHANNELS + c];
#else
      int32_t sum = 1 << FE_Y_SHIFT >> 1;
      for (uint32_t k = 0; k < FE_Y_TAPS; k++) {
        sum += fe_y_weights[y * FE_Y_TAPS + k] * from[k][x * FE_CHANNELS + c];
      }
      pixel[c] = (uint32_t)(sum >> FE_Y_SHIFT);
#endif
    }
    for (uint32_t c = 0; c < FE_COLOURS; c++) {
      to[x * FE_STEP + c * FE_PLANE] = fe_codes[FE_TABLE(c) + pixel[c % FE_CHANNELS]];
    }
  }
#endif
}

void FE_NAME(image)(fe_state *state, const uint8_t *frame, fe_code *input)
{
  uint32_t done = 0;
#if FE_PADDED
  for (uint32_t k = 0; k < FE_WIDTH * FE_HEIGHT; k++) {
    for (uint32_t c = 0; c < FE_COLOURS; c++) input[k * FE_STEP + c * FE_PLANE] = fe_codes[FE_TABLE(c) + FE_PAD];
  }
#endif
  for (uint32_t y = 0; y < FE_INNER_HEIGHT; y++) {
    const uint32_t first = fe_y_starts[y];
    for (done = done > first ? done : first; done < first + FE_Y_TAPS; done++) {
      fe_across(frame + done * FE_STRIDE, state->lines[done % FE_Y_TAPS]);
    }
    fe_down(state, y, input + ((FE_TOP + y) * FE_WIDTH + FE_LEFT) * FE_STEP);
  }
}
