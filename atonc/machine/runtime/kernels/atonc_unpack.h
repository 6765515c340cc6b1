/* Values of 4 bits, two to a byte with the first in the low bits, become bytes with their signs. With vectors 32 at a
 * time; stores of pairs of vectors want words that are aligned. */
static void atonc_unpack(int8_t *to, const uint8_t *from, uint32_t count)
{
  uint32_t done = 0;

#ifdef ATONC_VECTORS
  if ((uintptr_t)to % 4U == 0U) {
    for (; count - done >= 32U; done += 32U) {
      int8x16_t both = vreinterpretq_s8_u8(vldrbq_u8(from + done / 2U));
      int8x16x2_t apart;

      apart.val[0] = vshrq_n_s8(vshlq_n_s8(both, 4), 4);
      apart.val[1] = vshrq_n_s8(both, 4);
      vst2q_s8(to + done, apart);
    }
  }
#endif
  for (; done + 1U < count; done += 2U) {
    uint32_t both = from[done / 2U];

    to[done] = (int8_t)((int32_t)(both & 15U) - (int32_t)((both & 8U) << 1));
    to[done + 1U] = (int8_t)((int32_t)(both >> 4) - (int32_t)((both & 128U) >> 3));
  }
  if (done < count) {
    uint32_t last = from[done / 2U] & 15U;

    to[done] = (int8_t)((int32_t)last - (int32_t)((last & 8U) << 1));
  }
}
