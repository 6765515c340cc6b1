/* Two networks behind the ST.AI interface; the host calls it (tests/board/test_application.py). */
#include "stai_first.h"
#include "stai_second.h"

#include "ll_aton_runtime.h"

stai_network first_context[STAI_FIRST_CONTEXT_SIZE] __attribute__((aligned(8)));
stai_network second_context[STAI_SECOND_CONTEXT_SIZE] __attribute__((aligned(8)));

__attribute__((noinline)) int stai_runtime_init(void)
{
  LL_ATON_RT_RuntimeInit();
  return 0;
}

/* Keeps what the host calls; it takes over at the first instruction. */
int main(void)
{
  int sum = stai_runtime_init();
  sum += (int)stai_first_init(first_context) + (int)stai_second_init(second_context);
  sum += (int)stai_first_run(first_context, STAI_MODE_SYNC) + (int)stai_second_run(second_context, STAI_MODE_SYNC);
  sum += (int)stai_ext_first_new_inference(first_context) + (int)stai_ext_second_new_inference(second_context);
  return sum;
}
