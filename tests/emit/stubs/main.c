/* Uses the ST.AI interface of the digits as an application does; each line of output is checked by the test. */
#include <stdio.h>

#include "stai_digits.h"

static unsigned char input[4096] __attribute__((aligned(32)));
static unsigned char output[4096] __attribute__((aligned(32)));
static unsigned char *input_pointer;
static int sleeps;

unsigned char *LL_Buffer_addr_start(const LL_Buffer_InfoTypeDef *b) { return b->is_user_allocated ? input_pointer : b->start; }
uint32_t LL_Buffer_len(const LL_Buffer_InfoTypeDef *b) { return b->size; }
void LL_ATON_RT_Init_Network(NN_Instance_TypeDef *i) { i->state = 0; }
void LL_ATON_RT_DeInit_Network(NN_Instance_TypeDef *i) { i->state = -1; }
void LL_ATON_RT_Reset_Network(NN_Instance_TypeDef *i) { i->state = 0; }
void LL_ATON_OSAL_WFE(void) { sleeps++; }
LL_ATON_RT_RetValues_t LL_ATON_RT_RunEpochBlock(NN_Instance_TypeDef *i)
{
  i->state++;
  return i->state == 1 ? LL_ATON_RT_WFE : i->state == 2 ? LL_ATON_RT_NO_WFE : LL_ATON_RT_DONE;
}
const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info_digits(void)
{
  static LL_Buffer_InfoTypeDef table[] = {{"in", NULL, 64, 1}, {NULL, NULL, 0, 0}};
  return table;
}
const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info_digits(void)
{
  static LL_Buffer_InfoTypeDef table[] = {{"out", output, 10, 0}, {NULL, NULL, 0, 0}};
  return table;
}
LL_ATON_User_IO_Result_t LL_ATON_Set_User_Input_Buffer_digits(uint32_t num, void *buffer, uint32_t size)
{
  if (num != 0) return LL_ATON_User_IO_WRONG_INDEX;
  if ((uintptr_t)buffer % 32 != 0) return LL_ATON_User_IO_WRONG_ALIGN;
  if (size < 64) return LL_ATON_User_IO_WRONG_SIZE;
  input_pointer = buffer;
  return LL_ATON_User_IO_NOERROR;
}
LL_ATON_User_IO_Result_t LL_ATON_Set_User_Output_Buffer_digits(uint32_t num, void *buffer, uint32_t size)
{
  (void)num; (void)buffer; (void)size;
  return LL_ATON_User_IO_WRONG_INDEX;
}

int main(void)
{
  static stai_network context[STAI_DIGITS_CONTEXT_SIZE] __attribute__((aligned(8)));
  stai_network_info info;
  stai_ptr pointers[1] = {input + 1};
  stai_size count = 0;
  printf("closed %x\n", stai_digits_run(context, STAI_MODE_SYNC));
  printf("init %x\n", stai_digits_init(context));
  printf("again %x\n", stai_digits_init(context));
  unsigned first = stai_digits_get_info(context, &info);
  printf("info %x %u %u\n", first, info.n_inputs, info.n_outputs);
  printf("tensor %u %u %x\n", info.inputs[0].size_bytes, info.inputs[0].shape.size, info.inputs[0].format);
  printf("unaligned %x\n", stai_digits_set_inputs(context, pointers, 1));
  pointers[0] = input;
  first = stai_digits_set_inputs(context, pointers, 1);
  printf("set %x %x\n", first, stai_digits_set_inputs(context, pointers, 2));
  first = stai_digits_get_inputs(context, pointers, &count);
  printf("get %x %d %u\n", first, pointers[0] == input, count);
  printf("out %x\n", stai_digits_set_outputs(context, pointers, 1));
  first = stai_digits_run(context, STAI_MODE_SYNC);
  printf("sync %x %d\n", first, sleeps);
  printf("async %x\n", stai_digits_run(context, STAI_MODE_ASYNC));
  first = stai_digits_run(context, STAI_MODE_SYNC);
  printf("busy %x %x\n", first, stai_ext_digits_new_inference(context));
  printf("continue %x\n", stai_ext_digits_run_continue(context));
  printf("continue %x\n", stai_ext_digits_run_continue(context));
  first = stai_ext_digits_new_inference(context);
  printf("new %x %x\n", first, stai_ext_digits_get_nn_run_status(context));
  printf("callback %x\n", stai_digits_set_callback(context, NULL, NULL));
  printf("error %x\n", stai_digits_get_error(context));
  first = stai_digits_deinit(context);
  printf("deinit %x %x\n", first, stai_digits_get_error(context));
  return 0;
}
