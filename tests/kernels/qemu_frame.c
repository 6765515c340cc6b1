/* From reset to main on QEMU's board with a Cortex-M55; prints through the debugger. */
#include <stdint.h>

extern uint32_t _estack, _bss_start, _bss_end;
int main(void);
void board_print(const char *text);
void board_print_number(uint32_t value);

static void ask(int what, const void *about)
{
  register int code __asm("r0") = what;
  register const void *argument __asm("r1") = about;
  __asm volatile("bkpt 0xAB" : "+r"(code) : "r"(argument) : "memory");
}

void board_print(const char *text)
{
  ask(4, text);
}

void board_print_number(uint32_t value)
{
  char digits[12];
  int at = 11;
  digits[at] = 0;
  do {
    digits[--at] = (char)('0' + value % 10);
    value /= 10;
  } while (value);
  ask(4, digits + at);
}

static void leave(uint32_t why)
{
  ask(0x18, (const void *)why);
  for (;;) {
  }
}

static void begin(void)
{
  *(volatile uint32_t *)0xE000ED88 = 0x00F00000; /* the FPU and the vectors */
  __asm volatile("dsb\nisb");
  for (uint32_t *word = &_bss_start; word < &_bss_end; word++) *word = 0;
  main();
  leave(0x20026);
}

static void fault(void)
{
  board_print("FAULT\n");
  leave(0x20023);
}

__attribute__((section(".first"), used)) static void (*const vectors[16])(void) = {
  (void (*)(void))(uintptr_t)&_estack, begin, fault, fault, fault, fault, fault, fault
};
