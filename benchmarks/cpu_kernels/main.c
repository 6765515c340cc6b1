/* Calls of kernels on plausible data, each between two marks that the trace of an emulator shows. */
#include "atonc_kernels.h"

#define MARK(name) \
  __attribute__((noinline, used)) void mark_##name(void) { __asm volatile("nop"); }
#define MARKED(name, call) \
  mark_##name();           \
  call;                    \
  mark_end()
MARK(end)
MARK(quantise_4096)
MARK(dequantise_4096)
MARK(quantise_words_4096)
MARK(dequantise_words_4096)
MARK(lookup_1024)
MARK(copy_1024)
MARK(softmax_8_4096_in_256)
MARK(softmax_8_4096_in_16)
MARK(softmax_8_1000_in_100)
MARK(softmax_8_4040_in_40)
MARK(softmax_8_4000_in_16)
MARK(softmax_8_3000_in_2)
MARK(softmax_8_4096_in_2048)
MARK(softmax_8_12_in_1)
MARK(softmax_8_64_in_4_columns)
MARK(softmax_64_in_1)
MARK(layer_norm_3072_in_32)
MARK(matmul_16384_to_256)
MARK(matmul_across_16384_to_256)
MARK(matmul_8192_to_256)
MARK(matmul_163840_to_256)
MARK(matmul_across_163840_to_256)
MARK(matmul_36864_to_1024)
MARK(conv_16384_to_256)
MARK(argmax_1024_in_64)
MARK(argmax_1050_in_50)
MARK(argmax_1008_in_48_to_int64)
MARK(argmax_1024_in_8)
MARK(argmax_1032_in_8)
MARK(argmax_2400_in_4)
MARK(transpose_bytes_1024)
MARK(transpose_words_256)
MARK(runs_of_32_bytes_1024)

static uint8_t in[10240], other[10240], out[4096];
static float reals[4096];
static double exponentials[256];
static uint32_t state = 1;

static uint32_t draw(uint32_t below)
{
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return (state >> 3) % below;
}

int main(void)
{
  static const atonc_format codes = {.type = ATONC_S8, .scale = 0.0235f, .zero = -3, .low = -128, .high = 127};
  static const atonc_format shares = {.type = ATONC_S8, .scale = 1.0 / 256, .zero = -128, .low = -128, .high = 127};
  static const atonc_format sums = {.type = ATONC_S8, .scale = 1.0, .zero = 5, .low = -128, .high = 127};
  static const atonc_format wide = {.type = ATONC_S16, .flags = ATONC_IN_SINGLE, .scale = 0.0001f, .low = -32768, .high = 32767};
  static const atonc_format plain = {.type = ATONC_F32, .scale = 1.0};
  static const double gains[16] = {0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001,
                                   0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001},
                      biases[16];
  static const int32_t once[] = {1, 0, 0}, rows[] = {64, 1, 1, 64}, across[] = {64, 1, 16, 1}, half[] = {32, 1, 1, 32};
  static const int32_t deep[] = {640, 1, 1, 640}, aside[] = {640, 1, 16, 1}, heads[] = {36, 1, 1, 36};
  static const int32_t transpose[] = {16, 64, 1, 64, 1, 16}, words[] = {16, 64, 4, 16, 4, 64}, runs[] = {32, 32, 64};
  static const atonc_window window = {1, 4, 4, 64, 4, 4, 16, 1, 1, 1, 1, 1, 1, 0, 0, 1};
  exponentials[0] = 1.0;
  for (int k = 1; k < 256; k++) exponentials[k] = exponentials[k - 1] * 0.86;
  for (int k = 0; k < 4096; k++) {
    in[k] = (uint8_t)draw(256);
    other[k] = (uint8_t)draw(256);
  }
  for (int k = 4096; k < 10240; k++) in[k] = other[k] = (uint8_t)draw(256);
  for (int k = 0; k < 4096; k++) reals[k] = (float)draw(100000) / 17000.0f - 3.0f;
  MARKED(quantise_4096, atonc_convert(out, &codes, reals, &plain, 4096));
  MARKED(dequantise_4096, atonc_convert(reals, &plain, in, &codes, 4096));
  MARKED(quantise_words_4096, atonc_convert(in, &wide, reals, &plain, 4096));
  MARKED(dequantise_words_4096, atonc_convert(reals, &plain, in, &wide, 4096));
  MARKED(lookup_1024, atonc_lookup(out, in, 1024, other, 1));
  MARKED(copy_1024, atonc_copy(out, in, 1024));
  MARKED(softmax_8_4096_in_256, atonc_softmax_8(out, &shares, in, 1, 256, 16, 1, exponentials));
  MARKED(softmax_8_4096_in_16, atonc_softmax_8(out, &shares, in, 1, 16, 256, 1, exponentials));
  MARKED(softmax_8_1000_in_100, atonc_softmax_8(out, &shares, in, 1, 100, 10, 1, exponentials));
  MARKED(softmax_8_4040_in_40, atonc_softmax_8(out, &shares, in, 1, 40, 101, 1, exponentials));
  MARKED(softmax_8_4000_in_16, atonc_softmax_8(out, &shares, in, 1, 16, 250, 1, exponentials));
  MARKED(softmax_8_3000_in_2, atonc_softmax_8(out, &shares, in, 1, 2, 1500, 1, exponentials));
  MARKED(softmax_8_4096_in_2048, atonc_softmax_8(out, &shares, in, 1, 2048, 2, 1, exponentials));
  MARKED(softmax_8_12_in_1, atonc_softmax_8(out, &shares, in, 1, 1, 12, 1, exponentials));
  MARKED(softmax_8_64_in_4_columns, atonc_softmax_8(out, &shares, in, 1, 1, 16, 4, exponentials));
  MARKED(softmax_64_in_1, atonc_softmax(out, &plain, reals, &plain, 1, 64, 1, 1.0, 0));
  MARKED(layer_norm_3072_in_32,
         atonc_norm(out, &sums, in, &codes, 32, 96, 1, 1e-5, reals, &plain, reals + 96, &plain));
  MARKED(matmul_16384_to_256, atonc_matmul(out, &sums, in, &codes, other, &codes, 1, once, 16, 64, 16, rows));
  MARKED(matmul_across_16384_to_256, atonc_matmul(out, &sums, in, &codes, other, &codes, 1, once, 16, 64, 16, across));
  MARKED(matmul_8192_to_256, atonc_matmul(out, &sums, in, &codes, other, &codes, 1, once, 16, 32, 16, half));
  MARKED(matmul_163840_to_256, atonc_matmul(out, &sums, in, &codes, other, &codes, 1, once, 16, 640, 16, deep));
  MARKED(matmul_across_163840_to_256, atonc_matmul(out, &sums, in, &codes, other, &codes, 1, once, 16, 640, 16, aside));
  MARKED(matmul_36864_to_1024, atonc_matmul(out, &sums, in, &codes, other, &codes, 1, once, 32, 36, 32, heads));
  MARKED(conv_16384_to_256, atonc_conv(out, &sums, in, &codes, other, ATONC_S8, gains, biases, &window));
  MARKED(argmax_1024_in_64, atonc_arg_extreme(out, ATONC_S32, in, ATONC_S8, 64, 16, 1, 0));
  MARKED(argmax_1050_in_50, atonc_arg_extreme(out, ATONC_S32, in, ATONC_S8, 50, 21, 1, 0));
  MARKED(argmax_1008_in_48_to_int64, atonc_arg_extreme(out, ATONC_S64, in, ATONC_S8, 48, 21, 1, 0));
  MARKED(argmax_1024_in_8, atonc_arg_extreme(out, ATONC_S32, in, ATONC_S8, 8, 128, 1, 0));
  MARKED(argmax_1032_in_8, atonc_arg_extreme(out, ATONC_S32, in, ATONC_S8, 8, 129, 1, 0));
  MARKED(argmax_2400_in_4, atonc_arg_extreme(out, ATONC_S32, in, ATONC_S8, 4, 600, 1, 0));
  MARKED(transpose_bytes_1024, atonc_move(out, in, 1, 2, transpose, 0));
  MARKED(transpose_words_256, atonc_move(out, in, 4, 2, words, 0));
  MARKED(runs_of_32_bytes_1024, atonc_move(out, in, 32, 1, runs, 0));
  return 0;
}
