/* SPDX-License-Identifier: Apache-2.0 */
#include "functions.h"

/* --- states -------------------------------------------------------------------------------------------------------- */

/* Numbers of 16 bits, m of them in front of the point ("Qm"), in the fixed point of gemmlowp. */

static int32_t clip_16(int64_t value) { return (int32_t)(value > 32767 ? 32767 : value < -32768 ? -32768 : value); }

/* The high half of a doubled product, halves away from zero. */
static int32_t high_16(int32_t a, int32_t b)
{
  int32_t product = a * b;
  if (a == -32768 && b == -32768) return 32767;
  return (product + (product >= 0 ? 1 << 14 : 1 - (1 << 14))) / (1 << 15);
}

static int32_t shift_down(int32_t value, int32_t bits)
{
  int32_t mask = (int32_t)((1u << bits) - 1);
  int32_t threshold = (mask >> 1) + (value < 0);
  return (value >> bits) + ((value & mask) > threshold);
}

static int32_t shift_up_16(int32_t value, int32_t bits) { return clip_16((int64_t)value * (1 << bits)); }

/* value * multiplier * 2^(exponent - 31), rounded twice. */
static int32_t scaled_sum(int32_t value, const int32_t *multiplier)
{
  int32_t exponent = multiplier[1];
  int64_t product = (int64_t)value * (exponent > 0 ? (int64_t)1 << exponent : 1) * multiplier[0];
  int32_t high = (int32_t)((product + (product >= 0 ? 1 << 30 : 1 - (1 << 30))) / ((int64_t)1 << 31));
  return shift_down(high, exponent < 0 ? -exponent : 0);
}

static int32_t exp_of_last_quarter(int32_t a)
{
  int32_t x = a + (1 << 12);
  int32_t square = high_16(x, x);
  int32_t cube = high_16(square, x);
  int32_t fourth = shift_down(high_16(square, square), 2);
  int32_t tail = shift_down(high_16(fourth + cube, 10923) + square, 1);
  return clip_16(28918 + high_16(28918, x + tail));
}

static int32_t exp_below_zero(int32_t a, int32_t bits)
{
  static const int16_t powers[7] = {25520, 19875, 12055, 4435, 600, 11, 0};
  int32_t behind = 15 - bits, quarter = 1 << (behind - 2);
  int32_t part = (a & (quarter - 1)) - quarter;
  int32_t result = exp_of_last_quarter(shift_up_16(part, bits));
  int32_t rest = part - a;
  if (a == 0) return 32767;
  if (bits > 5 && a < -(32 << behind)) return 0;
  for (int32_t k = -2; k < bits && k < 5; k++) {
    if (rest & (1 << (behind + k))) result = high_16(result, powers[k + 2]);
  }
  return result;
}

/* 2 / (1 + a) as Q2. */
static int32_t reciprocal_16(int32_t a)
{
  int32_t half = (a + 32767 + 1) >> 1;
  int32_t x = 23130 + high_16(half, -15420);
  for (int k = 0; k < 3; k++) x = x + shift_up_16(high_16(x, (1 << 13) - high_16(half, x)), 2);
  return x;
}

static int32_t logistic_16(int32_t a)
{
  int32_t positive = shift_up_16(reciprocal_16(exp_below_zero(a < 0 ? a : -a, 3)), 1);
  return a == 0 ? 1 << 14 : a > 0 ? positive : 32767 - positive;
}

static int32_t tanh_16(int32_t a, int32_t bits)
{
  int32_t size = shift_up_16(reciprocal_16(exp_below_zero(a < 0 ? a : -a, bits + 1)) - (1 << 13), 2);
  return a == 0 ? 0 : a < 0 ? -size : size;
}

static int32_t sum_of_bytes(const int8_t *x, const int8_t *weights, int32_t count, int32_t sum)
{
  for (int32_t i = 0; i < count; i++) sum += x[i] * weights[i];
  return sum;
}

/* An LSTM of bytes with cells of 16 bits that starts from nothing: in [batch][steps][inputs], out [batch][steps][cells],
 * weights [gate][cells][inputs], recurrent [gate][cells][cells], gates: input, forget, cell, output. `biases` has rows
 * for the sums of inputs, then of states; `multipliers` pairs {31 bits, exponent} for these sums and for the result.
 * `cell_bits` are in front of the point of a cell, `cell_clip` bounds it unless it is 0; `zero` is the output's. */
void atonc_lstm(int8_t *out, const int8_t *in, int32_t batch, int32_t steps, int32_t inputs, int32_t cells,
                const int8_t *weights, const int8_t *recurrent, const int32_t *biases, const int32_t *multipliers,
                int32_t cell_bits, int32_t cell_clip, int32_t zero)
{
  int16_t state[ATONC_MOST_CELLS];
  for (int32_t row = 0; row < batch * steps; row++, in += inputs, out += cells) {
    int first = row % steps == 0;
    for (int32_t c = 0; c < cells; c++) {
      int32_t gates[4], cell, shown;
      for (int32_t g = 0; g < 4; g++) {
        size_t at = (size_t)g * cells + c;
        int32_t sum = sum_of_bytes(in, weights + at * inputs, inputs, biases[at]);
        int32_t kept = biases[4 * cells + at];
        int32_t total = clip_16(scaled_sum(sum, multipliers + 2 * g));
        if (first) {
          for (int32_t i = 0; i < cells; i++) kept += zero * recurrent[at * cells + i];
        } else {
          kept = sum_of_bytes(out - cells, recurrent + at * cells, cells, kept);
        }
        total = clip_16((int64_t)total + scaled_sum(kept, multipliers + 8 + 2 * g));
        gates[g] = g == 2 ? tanh_16(total, 3) : logistic_16(total);
      }
      cell = first ? 0 : shift_down(gates[1] * state[c], 15);
      cell = clip_16(cell + shift_down(gates[0] * gates[2], 15 + cell_bits));
      if (cell_clip) cell = cell > cell_clip ? cell_clip : cell < -cell_clip ? -cell_clip : cell;
      state[c] = (int16_t)cell;
      shown = scaled_sum(gates[3] * tanh_16(cell, cell_bits), multipliers + 16) + zero;
      out[c] = (int8_t)(shown > 127 ? 127 : shown < -128 ? -128 : shown);
    }
  }
}

/* sum + state * weights, one product after the other; before the first step there may be no state. */
static double with_state(double sum, const float *state, const float *weights, int32_t cells)
{
  for (int32_t i = 0; state && i < cells; i++) sum = sum + (double)state[i] * (double)weights[i];
  return sum;
}

/* A GRU or LSTM of ONNX over a sequence, in floats. What inputs say of the gates, with their biases, is `given`
 * [steps][batch][gates][cells]; the state adds `recurrent` [gates][cells][cells] and `bias` [gates][cells]. Gates: update,
 * reset, new (of ATONC_GRU the state is reset before its product, else the product itself); of ATONC_LSTM input, output,
 * forget, cell. States: hidden, and the cell of an LSTM. `start` [states][batch][cells] is before the first step, 0 for
 * zeros; out [steps][states][batch][cells] has them after each step, the last step first where it runs `backwards`. */
void atonc_recurrent(float *out, const void *given, const atonc_format *given_format, const float *start, int32_t kind,
                     int32_t steps, int32_t batch, int32_t cells, int32_t backwards, const float *recurrent,
                     const float *bias)
{
  float reset[ATONC_MOST_CELLS];
  int32_t gates = kind == ATONC_LSTM ? 4 : 3, states = kind == ATONC_LSTM ? 2 : 1;
  size_t size = (size_t)batch * cells;
  const float *before = start;
  for (int32_t done = 0; done < steps; done++) {
    size_t step = backwards ? steps - 1 - done : done;
    float *after = out + step * states * size;
    for (int32_t row = 0; row < batch; row++, after += cells) {
      const float *hidden = before ? before + (size_t)row * cells : 0;
      size_t at = (step * batch + row) * gates * cells;
      for (int32_t c = 0; kind == ATONC_GRU && hidden && c < cells; c++) {
        size_t gate = (size_t)cells + c;
        double sum = with_state(bias[gate], hidden, recurrent + gate * cells, cells);
        reset[c] = (float)(logistic(real_at(given, at + gate, given_format) + sum) * hidden[c]);
      }
      for (int32_t c = 0; c < cells; c++) {
        double said[4] = {0.0, 0.0, 0.0, 0.0};
        for (int32_t g = 0; g < gates; g++) {
          size_t gate = (size_t)g * cells + c;
          const float *seen = kind == ATONC_GRU && g == 2 && hidden ? reset : hidden;
          double sum = with_state(bias[gate], seen, recurrent + gate * cells, cells);
          if (kind == ATONC_GRU_AFTER && g == 2) sum = sum * said[1];
          sum = real_at(given, at + gate, given_format) + sum;
          said[g] = g == gates - 1 ? hyperbolic_tangent(sum) : logistic(sum);
        }
        if (kind == ATONC_LSTM) {
          double cell = said[2] * (hidden ? hidden[size + c] : 0.0) + said[0] * said[3];
          after[size + c] = (float)cell;
          after[c] = (float)(said[1] * hyperbolic_tangent(cell));
        } else {
          after[c] = (float)((1.0 - said[0]) * said[2] + said[0] * (hidden ? hidden[c] : 0.0));
        }
      }
    }
    before = after - size;
  }
}
