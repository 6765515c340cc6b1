/* --- samples as they come --- */

void FE_NAME(reset)(fe_state *state)
{
  memset(state, 0, sizeof *state);
#if FE_FIRST > 0
  state->skip = FE_FIRST;
#else
  state->have = -(FE_FIRST);
#endif
}

uint32_t FE_NAME(push)(fe_state *state, const int16_t *samples, uint32_t count, fe_code *codes)
{
  uint32_t frames = 0;
  while (count) {
    uint32_t taken;
    if (state->skip) {
      taken = state->skip < count ? state->skip : count;
      state->skip -= taken;
      state->kept[0] = samples[taken - 1];
    } else {
      taken = FE_LENGTH - state->have < count ? FE_LENGTH - state->have : count;
      fe_move(state->kept + 1 + state->have, samples, taken);
      state->have += taken;
    }
    samples += taken;
    count -= taken;
    if (state->have < FE_LENGTH) continue;
#if FE_HOP < FE_LENGTH
    const int16_t last = state->kept[FE_HOP];
#else
    const int16_t last = state->kept[FE_LENGTH];
#endif
    fe_one(state, codes + frames * FE_FEATURES);
#if FE_FRAMES > 1
    memcpy(state->history[state->next], codes + frames * FE_FEATURES, sizeof state->history[0]);
    state->next = state->next + 1 < FE_FRAMES ? state->next + 1 : 0;
    if (state->seen < FE_FRAMES) state->seen++;
#endif
    frames++;
#if FE_HOP < FE_LENGTH
    fe_move(state->kept + 1, state->kept + 1 + FE_HOP, FE_LENGTH - FE_HOP);
    state->have = FE_LENGTH - FE_HOP;
#else
    state->have = 0;
    state->skip = FE_HOP - FE_LENGTH;
#endif
    state->kept[0] = last;
  }
  return frames;
}

#if FE_FRAMES > 1
uint32_t FE_NAME(input)(const fe_state *state, fe_code *input)
{
  for (uint32_t k = 0; k < FE_FRAMES; k++) {
    uint32_t at = state->next + k < FE_FRAMES ? state->next + k : state->next + k - FE_FRAMES;
#if FE_FRAMES_INSIDE
    for (uint32_t m = 0; m < FE_FEATURES; m++) input[m * FE_FRAMES + k] = state->history[at][m];
#else
    memcpy(input + k * FE_FEATURES, state->history[at], sizeof state->history[0]);
#endif
  }
  return state->seen == FE_FRAMES;
}
#endif
