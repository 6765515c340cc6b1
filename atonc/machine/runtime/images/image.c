/* One line of the frame, resized along it. */
static void fe_across(const uint8_t *line, fe_between *to)
{
  for (uint32_t x = 0; x < FE_INNER_WIDTH; x++, to += FE_CHANNELS) {
    int32_t pixel[FE_CHANNELS];
#if FE_X_TAPS == 1
    fe_pixel(line, fe_x_starts[x], pixel);
    for (uint32_t c = 0; c < FE_CHANNELS; c++) to[c] = (fe_between)pixel[c];
#else
    int32_t sums[FE_CHANNELS];
    for (uint32_t c = 0; c < FE_CHANNELS; c++) sums[c] = 1 << FE_X_SHIFT >> 1;
    for (uint32_t k = 0; k < FE_X_TAPS; k++) {
      fe_pixel(line, fe_x_starts[x] + k, pixel);
      for (uint32_t c = 0; c < FE_CHANNELS; c++) sums[c] += fe_x_weights[x * FE_X_TAPS + k] * pixel[c];
    }
    for (uint32_t c = 0; c < FE_CHANNELS; c++) to[c] = (fe_between)(sums[c] >> FE_X_SHIFT);
#endif
  }
}

/* One line of the result, of those that are kept, and its codes. */
static void fe_down(const fe_state *state, uint32_t y, fe_code *to)
{
#if FE_Y_TAPS == 1
  const fe_between *from = state->lines[0];
#else
  const fe_between *from[FE_Y_TAPS];
  for (uint32_t k = 0; k < FE_Y_TAPS; k++) from[k] = state->lines[(fe_y_starts[y] + k) % FE_Y_TAPS];
#endif
  for (uint32_t x = 0; x < FE_INNER_WIDTH; x++, to += FE_STEP) {
    uint32_t pixel[FE_CHANNELS];
    for (uint32_t c = 0; c < FE_CHANNELS; c++) {
#if FE_Y_TAPS == 1
      pixel[c] = from[x * FE_CHANNELS + c];
#else
      int32_t sum = 1 << FE_Y_SHIFT >> 1;
      for (uint32_t k = 0; k < FE_Y_TAPS; k++) {
        sum += fe_y_weights[y * FE_Y_TAPS + k] * from[k][x * FE_CHANNELS + c];
      }
      pixel[c] = (uint32_t)(sum >> FE_Y_SHIFT);
#endif
    }
    for (uint32_t c = 0; c < FE_COLOURS; c++) to[c * FE_PLANE] = fe_codes[FE_TABLE(c) + pixel[FE_FROM(c)]];
  }
  (void)y;
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
