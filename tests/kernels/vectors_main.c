/* Every kernel that has a branch with vectors against its plain branch, which is compiled a second time under other
 * names: random numbers and hostile ones, rows of every length, bytes at every address. Prints what differs. */
#include "atonc_kernels.h"
#include "board_io.h"

#include "unpack_both.h"

#define BOTH(name) extern __typeof(atonc_##name) plain_##name
BOTH(convert);
BOTH(lookup);
BOTH(curve);
BOTH(softmax_8);
BOTH(norm);
BOTH(matmul);
BOTH(conv);
BOTH(arg_extreme);
BOTH(move);
BOTH(pack_kernels);
BOTH(copy);

#ifndef EVERY
#define EVERY 1 /* an interpreter in Python takes some of the cases */
#endif
#define BYTES 4096
static uint32_t in_words[BYTES / 4 + 8], other_words[BYTES / 4 + 8], outs[2][BYTES / 4 + 8];
static double exponentials[256];
static uint8_t *const in = (uint8_t *)in_words, *const other = (uint8_t *)other_words;
static uint32_t state = 1, cases, wrong;

static uint32_t draw(uint32_t below)
{
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return (state >> 3) % below;
}

static void random_bytes(void)
{
  uint32_t narrow = draw(3) == 0; /* rows with many equal bytes */
  for (uint32_t i = 0; i < BYTES; i++) {
    in[i] = (uint8_t)(narrow ? draw(5) + 126 : draw(256));
    other[i] = (uint8_t)draw(256);
  }
}

static uint8_t *out_at(int which, uint32_t shift)
{
  for (uint32_t i = 0; i < sizeof outs[0] / 4; i++) outs[which][i] = 0xA5A5A5A5u;
  return (uint8_t *)outs[which] + shift;
}

static void compare(const char *name)
{
  cases++;
  for (uint32_t i = 0; i < sizeof outs[0]; i++) {
    if (((uint8_t *)outs[0])[i] == ((uint8_t *)outs[1])[i]) continue;
    wrong++;
    board_print("WRONG ");
    board_print(name);
    board_print(" case ");
    board_print_number(cases);
    board_print(" byte ");
    board_print_number(i);
    board_print("\n");
    return;
  }
}

static const double scales[] = {0.5, 0.0039215688593685627, 1.0 / 256, 0.011, 3.3, 1e-31, 2e-7, 1e31, 0.10000000149011612};
static const uint8_t bits[] = {3, 11, 12, 14, 30};

static atonc_format bytes_format(void)
{
  int is_signed = (int)draw(2);
  double low = -128.0 * is_signed;
  atonc_format format = {.type = is_signed ? ATONC_S8 : ATONC_U8, .scale = scales[draw(9)], .low = low, .high = low + 255};
  format.zero = low + (draw(3) ? draw(256) : draw(2) * 255);
  if (draw(4) == 0) format.low = format.zero; /* a fused ReLU */
  if (draw(4) == 0) format.first_bits = bits + draw(5);
  if (draw(4) == 0) format.middle = (int32_t)draw(20) - 10;
  if (draw(8) == 0) format.flags = ATONC_HAS_LEAST;
  if (draw(3) == 0) format.flags |= ATONC_IN_SINGLE | (draw(2) ? ATONC_TO_EVEN : 0);
  return format;
}

/* Near the middle between two codes, one step of a float to both sides, and what is not a number; in a third of the cases
 * few are so near, so that vectors decide about the others. */
static void hostile_floats(const atonc_format *format, uint32_t codes)
{
  union { uint32_t bits; float value; } x;
  static const uint32_t special[] = {0x7FC00000u, 0x7F800000u, 0xFF800000u, 0x80000000u, 1u, 0x80000001u, 0x7F7FFFFFu,
                                     0xFF7FFFFFu, 0x4F000000u, 0xCF000000u, 0x4EFFFFFFu, 0x7F800001u, 0x00800000u};
  uint32_t hostile = draw(3);
  for (uint32_t i = 0; i < BYTES / 4; i++) {
    double near = hostile ? (draw(3) ? draw(1000) / 1000.0 : 0.5) : 0.5 + ((double)draw(4001) - 2000.0) * (draw(4) ? 2e-4 : 1e-6);
    double code = (double)draw(codes) - codes / 2 + near;
    x.value = (float)(code * format->scale);
    if (hostile && draw(3) == 0) x.bits += draw(3) - 1;
    if (hostile && draw(hostile == 1 ? 40 : 3) == 0) x.bits = draw(2) ? special[draw(13)] : (draw(65536) << 16 | draw(65536));
    in_words[i] = x.bits;
  }
}

static void words(uint32_t count, uint32_t from)
{
  static const atonc_format plain = {.type = ATONC_F32, .scale = 1.0};
  atonc_format format = {.type = ATONC_S16, .scale = scales[draw(9)], .low = -32768, .high = 32767, .flags = ATONC_IN_SINGLE};
  if (draw(3)) format.flags |= ATONC_TO_EVEN;
  if (draw(4) == 0) format.zero = 7;
  if (draw(4) == 0) format.low = 0;
  if (draw(8) == 0) format.flags &= ~ATONC_IN_SINGLE;
  hostile_floats(&format, 70000);
  atonc_convert(out_at(0, 2), &format, in_words + from, &plain, count);
  plain_convert(out_at(1, 2), &format, in_words + from, &plain, count);
  compare("quantise words");
  random_bytes();
  atonc_convert(out_at(0, 4), &plain, in + 2 * from, &format, count);
  plain_convert(out_at(1, 4), &plain, in + 2 * from, &format, count);
  compare("dequantise words");
  static int16_t table[1 << 14];
  int32_t bits = 3 + (int32_t)draw(12);
  for (uint32_t i = 0; i < 1 << 14; i++) table[i] = (int16_t)((int32_t)draw(65535) - 32767);
  atonc_curve((int16_t *)(void *)out_at(0, 2), (const int16_t *)in_words + from, count, table, bits);
  plain_curve((int16_t *)(void *)out_at(1, 2), (const int16_t *)in_words + from, count, table, bits);
  compare("curve");
}

static void converting(void)
{
  static const atonc_format plain = {.type = ATONC_F32, .scale = 1.0};
  for (uint32_t count = 0; count < 72; count += EVERY) {
    atonc_format format = bytes_format();
    uint32_t shift = draw(4), from = draw(4);
    hostile_floats(&format, 700);
    atonc_convert(out_at(0, shift), &format, in_words + from, &plain, count);
    plain_convert(out_at(1, shift), &format, in_words + from, &plain, count);
    compare("quantise");
    random_bytes();
    atonc_convert(out_at(0, 4), &plain, in + from, &format, count < 70 ? count : 300);
    plain_convert(out_at(1, 4), &plain, in + from, &format, count < 70 ? count : 300);
    compare("dequantise");
    words(count, from);
    atonc_lookup(out_at(0, shift), in + from, count, other, 1);
    plain_lookup(out_at(1, shift), in + from, count, other, 1);
    compare("lookup");
    atonc_copy(out_at(0, shift), in + from, count);
    plain_copy(out_at(1, shift), in + from, count);
    compare("copy");
  }
}

static void overlapping(void)
{
  for (uint32_t k = 0; k < 24; k += EVERY) {
    uint32_t to = draw(40), from = draw(40), bytes = draw(100);
    for (int which = 0; which < 2; which++) {
      uint8_t *area = out_at(which, 0);
      for (uint32_t i = 0; i < 200; i++) area[i] = (uint8_t)(i * 7);
      (which ? plain_copy : atonc_copy)(area + to, area + from, bytes);
    }
    compare("overlapping copy");
  }
}

static void softmaxes(void)
{
  for (uint32_t k = 1; k < 60; k += EVERY) {
    /* rows of 16 and many of 2 have branches of their own, and so have long ones */
    uint32_t count = k < 40 ? k : k < 48 ? 16 : k < 54 ? 2 : 100 + draw(1000);
    uint32_t elements = k < 48 ? 256 : k < 54 ? 1024 : 2000;
    atonc_format format = bytes_format();
    int32_t is_signed = (int32_t)draw(2), outer = (int32_t)(elements / count + draw(3)), inner = draw(5) || k > 47 ? 1 : 3;
    double step = draw(2) ? 0.99 : 0.7;
    uint32_t shift = draw(4);
    exponentials[0] = 1.0;
    for (int k = 1; k < 256; k++) exponentials[k] = exponentials[k - 1] * step;
    random_bytes();
    atonc_softmax_8(out_at(0, shift), &format, in + shift, is_signed, outer, (int32_t)count, inner, exponentials);
    plain_softmax_8(out_at(1, shift), &format, in + shift, is_signed, outer, (int32_t)count, inner, exponentials);
    compare("softmax");
  }
}

static void norms(void)
{
  static float gains[300], offsets[300];
  for (uint32_t k = 0; k < 60; k += EVERY) {
    uint32_t count = 1 + draw(k < 40 ? 150 : 300), shift = draw(4);
    int32_t rows = (int32_t)(1 + draw(k < 40 ? 12 : 40)), bound = BYTES / (int32_t)count;
    atonc_format format = bytes_format(), source = bytes_format();
    atonc_format columns = {.type = ATONC_F32, .scale = 1.0};
    source.type = draw(2) ? ATONC_S8 : ATONC_U8;
    random_bytes();
    if (draw(4) == 0) for (uint32_t i = 0; i < count; i++) in[i + shift] = 7; /* a row without any spread */
    for (uint32_t i = 0; i < count; i++) {
      gains[i] = (float)draw(1000) * 0.002f - 1.0f;
      offsets[i] = (float)draw(1000) * (k % 16 == 3 ? 0.9f : 0.002f) - 1.0f;
    }
    rows = rows < bound ? rows : bound;
    const float *gain = draw(3) ? gains : 0, *offset = draw(3) ? offsets : 0;
    int32_t centred = (int32_t)draw(2);
    double epsilon = draw(3) ? 1e-5 : 0.0;
    atonc_norm(out_at(0, shift), &format, in + shift, &source, rows, (int32_t)count, centred, epsilon, gain, &columns,
               offset, &columns);
    plain_norm(out_at(1, shift), &format, in + shift, &source, rows, (int32_t)count, centred, epsilon, gain, &columns,
               offset, &columns);
    compare("norm");
  }
}

static void products(void)
{
  for (uint32_t k = 0; k < 60; k += EVERY) {
    atonc_format a = bytes_format(), b = bytes_format(), format = bytes_format();
    int32_t rows = 1 + (int32_t)draw(5), depth = k < 40 ? 1 + (int32_t)k : 16 * (1 + (int32_t)draw(3));
    int32_t columns = 1 + (int32_t)draw(20);
    int32_t loops[] = {2, rows * depth, draw(2) ? depth * columns : 0};
    int32_t across_a = (int32_t)draw(2), across_b = (int32_t)draw(2);
    if (k >= 44) { /* columns that are read where they lie */
      b.type = ATONC_S8;
      across_b = 1;
    }
    int32_t steps[] = {across_a ? 1 : depth, across_a ? rows : 1, across_b ? 1 : columns, across_b ? depth : 1};
    a.scale = 0.02;
    b.scale = 0.013;
    format.scale = draw(2) ? 0.5 : format.scale;
    random_bytes();
    atonc_matmul(out_at(0, 1), &format, in + 3, &a, other, &b, 1, loops, rows, depth, columns, steps);
    plain_matmul(out_at(1, 1), &format, in + 3, &a, other, &b, 1, loops, rows, depth, columns, steps);
    compare("matmul");
  }
}

/* Sums that are longer than a tile, of rows that overlap. */
static void deep_products(void)
{
  for (uint32_t k = 0; k < 12; k += EVERY) {
    atonc_format a = bytes_format(), b = bytes_format(), format = bytes_format();
    int32_t rows = 1 + (int32_t)draw(k == 0 ? 3 : 80), depth = 500 + (int32_t)draw(800), columns = 1 + (int32_t)draw(9);
    int32_t once[] = {1, 0, 0};
    int32_t steps[] = {(int32_t)draw(15), 1 + (int32_t)draw(2), 1 + (int32_t)draw(3), (int32_t)draw(10)};
    a.scale = 0.02;
    b.scale = 0.013;
    format.scale = draw(2) ? 2.0 : format.scale;
    random_bytes();
    atonc_matmul(out_at(0, 1), &format, in + 3, &a, other, &b, 1, once, rows, depth, columns, steps);
    plain_matmul(out_at(1, 1), &format, in + 3, &a, other, &b, 1, once, rows, depth, columns, steps);
    compare("deep matmul");
  }
}

static void convolutions(void)
{
  static const double ones[] = {0.01, 0.02, 0.005, 0.01}, biases[] = {0.0, 1.0, -2.0, 0.3};
  for (uint32_t k = 0; k < 20; k += EVERY) {
    atonc_format x = bytes_format(), format = bytes_format();
    int32_t depth = 1 + (int32_t)draw(24), kernel = draw(2) ? 1 : 3;
    atonc_window g = {1, 4, 4, depth, 4, 4, 4, kernel, kernel, 1, 1, 1, 1, kernel / 2, kernel / 2, 1};
    format.first_bits = 0;
    random_bytes();
    atonc_conv(out_at(0, 1), &format, in + 1, &x, other, ATONC_S8, ones, biases, &g);
    plain_conv(out_at(1, 1), &format, in + 1, &x, other, ATONC_S8, ones, biases, &g);
    compare("conv");
  }
}

static void extremes(void)
{
  for (int32_t count = 1; count < 50; count += EVERY) {
    int32_t type = draw(2) ? ATONC_S8 : ATONC_U8, smallest = (int32_t)draw(2), from = (int32_t)draw(4);
    random_bytes();
    atonc_arg_extreme(out_at(0, 4), ATONC_S32, in + from, type, 5, count, 1, smallest);
    plain_arg_extreme(out_at(1, 4), ATONC_S32, in + from, type, 5, count, 1, smallest);
    compare("argmax");
  }
}

/* Short rows are taken several at a time; some are left over. */
static void short_rows(void)
{
  static const int32_t results[] = {ATONC_S32, ATONC_S64, ATONC_U8};
  for (int32_t count = 1; count < 140; count += EVERY) {
    int32_t type = draw(2) ? ATONC_S8 : ATONC_U8, smallest = (int32_t)draw(2), from = (int32_t)draw(4);
    int32_t outer = 8 + (int32_t)draw(16), result = results[count % 3];
    random_bytes();
    for (uint32_t k = 0; k < 64; k++) in[draw(BYTES)] = draw(2) ? 0 : 255;
    atonc_arg_extreme(out_at(0, 8), result, in + from, type, outer, count, 1, smallest);
    plain_arg_extreme(out_at(1, 8), result, in + from, type, outer, count, 1, smallest);
    compare("argmax of short rows");
  }
}

static void moves(void)
{
  for (int32_t k = 0; k < 60; k += EVERY) {
    int32_t item = k % 3 == 0 ? 1 : k % 3 == 1 ? 4 : 1 + (int32_t)draw(40);
    int32_t a = 1 + (int32_t)draw(9), b = 1 + (int32_t)draw(11);
    int32_t shift = draw(2) ? 0 : (int32_t)draw(4);
    int32_t loops[] = {a, b * item, item, b, item, draw(4) ? a * item : 0};
    random_bytes();
    const uint8_t *table = draw(8) ? 0 : other;
    atonc_move(out_at(0, (uint32_t)shift), in + shift, (uint32_t)item, 2, loops, table);
    plain_move(out_at(1, (uint32_t)shift), in + shift, (uint32_t)item, 2, loops, table);
    compare("move");
  }
}

static void packing_kernels(void)
{
  for (int32_t k = 0; k < 60; k += EVERY) {
    int32_t columns = 1 + (int32_t)draw(16), depth = 1 + (int32_t)draw(28), kernels = 1 + (int32_t)draw(17);
    int32_t first = (int32_t)draw((uint32_t)depth), turned = (int32_t)draw(2);
    int32_t units[] = {0, depth, -1, 0, first, depth - first, -1, -1, 0, depth, 0, 64};
    random_bytes();
    atonc_pack_kernels((int8_t *)out_at(0, 0), (const int8_t *)in, 2, columns, depth, turned, kernels, depth + 3, 3, units);
    plain_pack_kernels((int8_t *)out_at(1, 0), (const int8_t *)in, 2, columns, depth, turned, kernels, depth + 3, 3, units);
    compare("pack_kernels");
  }
}

static void unpacking(void)
{
  for (uint32_t count = 0; count < 200; count += EVERY) {
    uint32_t shift = draw(3) ? 0 : draw(4), from = draw(16);
    random_bytes();
    atonc_unpack((int8_t *)out_at(0, shift), in + from, count);
    plain_unpack((int8_t *)out_at(1, shift), in + from, count);
    compare("unpack");
  }
}

int main(void)
{
  converting();
  overlapping();
  softmaxes();
  norms();
  products();
  deep_products();
  convolutions();
  extremes();
  short_rows();
  moves();
  packing_kernels();
  unpacking();
  board_print_number(cases);
  board_print(" cases, ");
  board_print_number(wrong);
  board_print(" wrong\n");
  return 0;
}
