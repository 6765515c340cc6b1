/* SPDX-License-Identifier: Apache-2.0 */
#include "functions.h"

/* --- rows ---------------------------------------------------------------------------------------------------------- */

void atonc_softmax_8(void *out, const atonc_format *out_format, const uint8_t *in, int32_t is_signed, int32_t outer,
                     int32_t count, int32_t inner, const double *exponentials)
{
  uint8_t flip = is_signed ? 0x80 : 0; /* signed bytes compare as unsigned ones with the top bit inverted */
  for (int32_t o = 0; o < outer; o++) {
    for (int32_t k = 0; k < inner; k++) {
      size_t first = (size_t)o * count * inner + k;
      const uint8_t *row = in + first;
      uint8_t most = 0;
      double total = 0.0;
      for (int32_t c = 0; c < count; c++) {
        uint8_t code = row[(size_t)c * inner] ^ flip;
        if (code > most) most = code;
      }
      for (int32_t c = 0; c < count; c++) total = total + exponentials[most - (row[(size_t)c * inner] ^ flip)];
      for (int32_t c = 0; c < count; c++) {
        double value = exponentials[most - (row[(size_t)c * inner] ^ flip)];
        put(out, first + (size_t)c * inner, out_format, value / total);
      }
    }
  }
}

void atonc_softmax(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                   int32_t outer, int32_t count, int32_t inner, double beta, int32_t logarithm)
{
  double scale = in_format->scale * beta;
  for (int32_t o = 0; o < outer; o++) {
    for (int32_t k = 0; k < inner; k++) {
      size_t first = (size_t)o * count * inner + k;
      double most = -INFINITY, total = 0.0;
      for (int32_t c = 0; c < count; c++) {
        most = larger(most, load(in, first + (size_t)c * inner, in_format->type) - in_format->zero);
      }
      for (int32_t c = 0; c < count; c++) {
        double value = load(in, first + (size_t)c * inner, in_format->type) - in_format->zero;
        total = total + exponential((value - most) * scale);
      }
      double log_total = logarithm ? logarithm_of(total) : 0.0;
      for (int32_t c = 0; c < count; c++) {
        size_t i = first + (size_t)c * inner;
        double shifted = (load(in, i, in_format->type) - in_format->zero - most) * scale;
        put(out, i, out_format, logarithm ? shifted - log_total : exponential(shifted) / total);
      }
    }
  }
}

void atonc_l2_norm(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                   int32_t rows, int32_t count)
{
  for (int32_t row = 0; row < rows; row++) {
    size_t first = (size_t)row * count;
    double total = 0.0;
    for (int32_t c = 0; c < count; c++) {
      double value = real_at(in, first + c, in_format);
      total = total + value * value;
    }
    double length = sqrt(larger(total, 1e-12));
    for (int32_t c = 0; c < count; c++) put(out, first + c, out_format, real_at(in, first + c, in_format) / length);
  }
}

void atonc_resize_linear(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                         int32_t axes, int32_t outer, int32_t a_in, int32_t a_out, int32_t middle, int32_t b_in,
                         int32_t b_out, int32_t inner, const int32_t *a_low, const double *a_weight,
                         const int32_t *b_low, const double *b_weight)
{
  size_t i = 0;
  for (int32_t o = 0; o < outer; o++) {
    for (int32_t a = 0; a < a_out; a++) {
      int32_t a_high = a_low[a] + 1 < a_in ? a_low[a] + 1 : a_in - 1;
      for (int32_t m = 0; m < middle; m++) {
        size_t low_row = (((size_t)o * a_in + a_low[a]) * middle + m) * b_in;
        size_t high_row = (((size_t)o * a_in + a_high) * middle + m) * b_in;
        for (int32_t b = 0; b < b_out; b++) {
          int32_t b_high = b_low[b] + 1 < b_in ? b_low[b] + 1 : b_in - 1;
          for (int32_t c = 0; c < inner; c++) {
            size_t low = (low_row + b_low[b]) * inner + c, high = (high_row + b_low[b]) * inner + c;
            double value = real_at(in, low, in_format) * (1.0 - a_weight[a]) + real_at(in, high, in_format) * a_weight[a];
            if (axes == 2) {
              low = (low_row + b_high) * inner + c;
              high = (high_row + b_high) * inner + c;
              double next = real_at(in, low, in_format) * (1.0 - a_weight[a]) + real_at(in, high, in_format) * a_weight[a];
              value = value * (1.0 - b_weight[b]) + next * b_weight[b];
            }
            put(out, i++, out_format, value);
          }
        }
      }
    }
  }
}

