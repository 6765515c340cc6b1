/* Weights copied ahead: @total@ bytes, by channel @channel@ of HPDMA1 while the NPU works. The processor starts a list of
 * copies in front of an epoch and awaits it in front of another. Emulated; nobody has seen it run on a board yet. Run
 * `atonc validate --mode target` on yours before you rely on it.
 *
 * The channel belongs to this network while it runs. For another one: compile with ATONC_DMA_CHANNEL, or with
 * --prefetch dma=CHANNEL. Clock and rights of the channel are set here, for a processor in the secure state and in
 * compartment 1; with ATONC_DMA_RIGHTS 0 the application does it.
 *
 * An inference that is given up leaves the channel running: before its RAM has another use, wait until bit 0 of the
 * channel's CR is clear.
 */
#if !defined(ATONC_DMA_CHANNEL)
#  define ATONC_DMA_CHANNEL @channel@
#endif
#if !defined(ATONC_DMA_RIGHTS)
#  define ATONC_DMA_RIGHTS 1
#endif
#define ATONC_DMA_WORD(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define ATONC_DMA_BASE 0x58020000u
#define ATONC_DMA_REG(offset) ATONC_DMA_WORD(ATONC_DMA_BASE + 0x50u + 0x80u * ATONC_DMA_CHANNEL + (offset))

typedef struct {
  uintptr_t from;
  uintptr_t to;
  uint32_t bytes;
} atonc_copy_t;

/* What the DMA fetches for a block: its size, where from, where to, and where the next one is. */
typedef struct {
  uint32_t br1;
  uint32_t sar;
  uint32_t dar;
  uint32_t llr;
} atonc_link_t;

__attribute__((aligned(@alignment@))) static atonc_link_t atonc_links[@links@];

static const atonc_copy_t *ATONC_Copies_@net@(void)
{
  static const atonc_copy_t copies[] = {
@begin rows@
    { .from = @source@, .to = @target@, .bytes = @size@U }, /* @label@ */
@end rows@
    { .bytes = 0 },
  };

  return copies;
}

/* Called where the DMA refuses a copy: the weights are not where the next epoch reads them. */
void ATONC_DMA_Failed_@net@(uint32_t status);
__attribute__((weak)) void ATONC_DMA_Failed_@net@(uint32_t status)
{
  (void)status;
  for (;;) {
  }
}

/* Starts a list: `count` copies, from the `first` on. */
static void ATONC_Start_Copies_@net@(uint32_t first, uint32_t count)
{
  const uint32_t next = 1u << 29 | 1u << 28 | 1u << 27 | 1u << 16; /* size, both addresses and the link are fetched */
  const uint32_t side = 3u | 1u << 3 | 15u << 4 | 1u << 15; /* 8 bytes a beat, onwards, 16 beats a burst, secure */
  const atonc_copy_t *copy = ATONC_Copies_@net@() + first;
  uint32_t used = 0;

  while ((ATONC_DMA_REG(0x14u) & 1u) != 0u) { /* CR: an inference that was given up has left it running */
  }
  for (uint32_t k = 0; k < count; k++, copy++) {
    for (uint32_t done = 0; done < copy->bytes;) {
      const uint32_t rest = copy->bytes - done;
      const uint32_t bytes = rest < @block@U ? rest : @block@U;
      atonc_links[used].br1 = bytes;
      atonc_links[used].sar = (uint32_t)copy->from + done;
      atonc_links[used].dar = (uint32_t)copy->to + done;
      atonc_links[used].llr = (((uint32_t)(uintptr_t)&atonc_links[used + 1u]) & 0xFFFCu) | next;
      done += bytes;
      used++;
    }
  }
  atonc_links[used - 1u].llr = 0;
  LL_ATON_Cache_MCU_Clean_Range((uintptr_t)atonc_links, sizeof atonc_links);
#if ATONC_DMA_RIGHTS
  ATONC_DMA_WORD(0x56028A60u) = 1u; /* the clock of HPDMA1 */
  (void)ATONC_DMA_WORD(0x56028260u);
  ATONC_DMA_WORD(ATONC_DMA_BASE + 0x00u) |= 1u << ATONC_DMA_CHANNEL; /* secure */
  ATONC_DMA_WORD(ATONC_DMA_BASE + 0x04u) |= 1u << ATONC_DMA_CHANNEL; /* privileged */
#endif
  ATONC_DMA_REG(0x14u) = 2u; /* CR: reset */
#if ATONC_DMA_RIGHTS
  ATONC_DMA_REG(0x04u) = 1u | 1u << 4; /* CIDCFGR: compartment 1 */
#endif
  ATONC_DMA_REG(0x0Cu) = 0x7F00u; /* FCR: no flags */
  ATONC_DMA_REG(0x00u) = (uint32_t)(uintptr_t)atonc_links & 0xFFFF0000u; /* LBAR */
  ATONC_DMA_REG(0x40u) = side | side << 16; /* TR1 */
  ATONC_DMA_REG(0x44u) = 1u << 9 | 3u << 30; /* TR2: by software, complete at the end of the list */
  ATONC_DMA_REG(0x48u) = 0; /* BR1: nothing before the first link */
  ATONC_DMA_REG(0x7Cu) = ((uint32_t)(uintptr_t)atonc_links & 0xFFFCu) | next; /* LLR */
  __asm volatile("dsb 0xf" ::: "memory");
  ATONC_DMA_REG(0x14u) = 1u; /* CR: go */
}

static void ATONC_Await_Copies_@net@(void)
{
  uint32_t status;

  do {
    status = ATONC_DMA_REG(0x10u);
  } while ((status & (1u << 8 | 7u << 10)) == 0u);
  if ((status & 7u << 10) != 0u) { /* data, link or setting */
    ATONC_DMA_Failed_@net@(status);
  }
}
