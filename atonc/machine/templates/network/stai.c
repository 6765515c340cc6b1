/* stai_@net@.c: the network behind the ST.AI interface, written by @tool@. Do not edit. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "stai_@net@.h"
#include "ll_aton_version.h"

LL_ATON_DECLARE_NAMED_NN_INTERFACE(@suffix@);
@begin has_states@
void @name@_reset(void);
@end has_states@

@begin relative@
@relative_pools@

@end relative@
@begin edges@
@begin tensors@
static const int32_t @kind@_@k@_shape[] = { @shape@ };
@begin scaled@
static const float @kind@_@k@_scale[] = { @scales@ };
static const int16_t @kind@_@k@_offset[] = { @offsets@ };
@end scaled@
@end tensors@
static const stai_tensor @kind@_tensors[] = {
@begin tensors@
  {
    .size_bytes = @size@U,
    .flags = @flags@,
    .format = @format@,
    .shape = { .size = @rank@U, .data = @kind@_@k@_shape },
    .name = "@label@",
@begin scaled@
    .scale = { .size = @scales_count@U, .data = @kind@_@k@_scale },
    .zeropoint = { .size = @scales_count@U, .data = @kind@_@k@_offset },
@end scaled@
  },
@end tensors@
@begin none@
  {
    .size_bytes = 0U,
  },
@end none@
};
@end edges@
@begin memories@
static const uintptr_t @kind@_addresses[] = { @addresses@ };
@begin parts@
static const int32_t @kind@_@k@_shape[] = { @size@ };
@end parts@
static const stai_tensor @kind@_tensors[] = {
@begin parts@
  {
    .size_bytes = @size@U,
    .flags = STAI_FLAG_PREALLOCATED | STAI_FLAG_@flag@,
    .format = STAI_FORMAT_U8,
    .shape = { .size = 1U, .data = @kind@_@k@_shape },
    .name = "@pool@",
  },
@end parts@
@begin none@
  {
    .size_bytes = 0U,
  },
@end none@
};
@end memories@
static const stai_network_info network_info = {
  .model_signature = "",
  .c_compile_datetime = "",
  .c_model_name = STAI_@NET@_C_MODEL_NAME,
  .c_model_datetime = "",
  .runtime_version = { LL_ATON_VERSION_MAJOR, LL_ATON_VERSION_MINOR, LL_ATON_VERSION_MICRO, 0 },
  .tool_version = { STAI_TOOLS_VERSION_MAJOR, STAI_TOOLS_VERSION_MINOR, STAI_TOOLS_VERSION_MICRO, 0 },
  .api_version = { STAI_API_VERSION_MAJOR, STAI_API_VERSION_MINOR, STAI_API_VERSION_MICRO, 0 },
  .n_macc = @macs@ULL,
  .n_nodes = @steps@U,
  .flags = STAI_@NET@_FLAGS,
  .n_inputs = STAI_@NET@_IN_NUM,
  .n_outputs = STAI_@NET@_OUT_NUM,
  .n_activations = STAI_@NET@_ACTIVATIONS_NUM,
  .n_weights = STAI_@NET@_WEIGHTS_NUM,
  .n_states = STAI_@NET@_STATES_NUM,
  .inputs = input_tensors,
  .outputs = output_tensors,
  .activations = activation_tensors,
  .weights = weight_tensors,
  .states = state_tensors,
};

static stai_return_code failed(atonc_stai_context_t *context, stai_return_code error)
{
  if (context->first_error == STAI_SUCCESS) {
    context->first_error = error;
  }
  return error;
}

/* The context, if it is one of this network. */
static atonc_stai_context_t *opened(stai_network *network)
{
  atonc_stai_context_t *context = (atonc_stai_context_t *)(void *)network;
  return context != NULL && context->instance.network == &NN_Interface_@suffix@ ? context : NULL;
}

static stai_return_code step(atonc_stai_context_t *context)
{
  const LL_ATON_RT_RetValues_t state = LL_ATON_RT_RunEpochBlock(&context->instance);
  if (state == LL_ATON_RT_DONE) {
    context->status = STAI_DONE;
  } else {
    context->status = state == LL_ATON_RT_WFE ? STAI_RUNNING_WFE : STAI_RUNNING_NO_WFE;
  }
  return context->status;
}

stai_return_code stai_@net@_init(stai_network *network)
{
  atonc_stai_context_t *context = (atonc_stai_context_t *)(void *)network;
  if (context == NULL) {
    return STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
  }
  if ((uintptr_t)network % STAI_@NET@_CONTEXT_ALIGNMENT != 0U) {
    return STAI_ERROR_NETWORK_INVALID_CONTEXT_ALIGNMENT;
  }
  if (context->instance.network != NULL) {
    return failed(context, STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE); /* initialised before */
  }
  memset(context, 0, sizeof *context);
  context->instance.network = &NN_Interface_@suffix@;
  context->status = STAI_SUCCESS;
  context->first_error = STAI_SUCCESS;
  LL_ATON_RT_Init_Network(&context->instance);
@begin has_states@
  @name@_reset();
@end has_states@
  return STAI_SUCCESS;
}

stai_return_code stai_@net@_deinit(stai_network *network)
{
  atonc_stai_context_t *context = opened(network);
  if (context == NULL) {
    return STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
  }
  if (context->status == STAI_RUNNING_WFE || context->status == STAI_RUNNING_NO_WFE) {
    return failed(context, STAI_ERROR_NETWORK_STILL_RUNNING);
  }
  LL_ATON_RT_DeInit_Network(&context->instance);
  memset(context, 0, sizeof *context);
  return STAI_SUCCESS;
}

stai_return_code stai_@net@_run(stai_network *network, const stai_run_mode mode)
{
  atonc_stai_context_t *context = opened(network);
  if (context == NULL) {
    return STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
  }
  if (mode == STAI_MODE_ASYNC) {
    return step(context);
  }
  if (mode != STAI_MODE_SYNC) {
    return failed(context, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
  }
  if (context->status != STAI_SUCCESS) {
    return failed(context, STAI_ERROR_NETWORK_STILL_RUNNING); /* begun step by step */
  }
  while (step(context) != STAI_DONE) {
    if (context->status == STAI_RUNNING_WFE) {
      LL_ATON_OSAL_WFE();
    }
  }
  return stai_ext_@net@_new_inference(network);
}

stai_return_code stai_ext_@net@_run_continue(stai_network *network)
{
  return stai_@net@_run(network, STAI_MODE_ASYNC);
}

stai_return_code stai_ext_@net@_get_nn_run_status(stai_network *network)
{
  const atonc_stai_context_t *context = opened(network);
  return context == NULL ? STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE : context->status;
}

stai_return_code stai_ext_@net@_new_inference(stai_network *network)
{
  atonc_stai_context_t *context = opened(network);
  if (context == NULL) {
    return STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
  }
  if (context->status == STAI_RUNNING_WFE) {
    return failed(context, STAI_ERROR_NETWORK_STILL_RUNNING);
  }
  LL_ATON_RT_Reset_Network(&context->instance);
  context->status = STAI_SUCCESS;
  return STAI_SUCCESS;
}

stai_return_code stai_@net@_train(stai_network *network, const stai_run_mode mode)
{
  atonc_stai_context_t *context = opened(network);
  (void)mode;
  return context == NULL ? STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE : failed(context, STAI_ERROR_NOT_IMPLEMENTED);
}

stai_return_code stai_@net@_get_info(stai_network *network, stai_network_info *info)
{
  atonc_stai_context_t *context = opened(network);
  if (context == NULL) {
    return STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
  }
  if (info == NULL) {
    return failed(context, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
  }
  *info = network_info;
  return STAI_SUCCESS;
}

stai_return_code stai_@net@_get_error(stai_network *network)
{
  const atonc_stai_context_t *context = opened(network);
  return context == NULL ? STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE : context->first_error;
}

/* Addresses of inputs or outputs: the first `count` of a table. */
static stai_return_code get_edges(stai_network *network, const LL_Buffer_InfoTypeDef *table, stai_size count,
                                  stai_ptr *pointers, stai_size *number)
{
  atonc_stai_context_t *context = opened(network);
  if (context == NULL) {
    return STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
  }
  if (number == NULL) {
    return failed(context, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
  }
  for (stai_size i = 0; pointers != NULL && i < count; i++) {
    pointers[i] = LL_Buffer_addr_start(&table[i]);
  }
  *number = count;
  return STAI_SUCCESS;
}

stai_return_code stai_@net@_get_inputs(stai_network *network, stai_ptr *inputs, stai_size *n_inputs)
{
  return get_edges(network, LL_ATON_Input_Buffers_Info_@suffix@(), STAI_@NET@_IN_NUM, inputs, n_inputs);
}

stai_return_code stai_@net@_get_outputs(stai_network *network, stai_ptr *outputs, stai_size *n_outputs)
{
  return get_edges(network, LL_ATON_Output_Buffers_Info_@suffix@(), STAI_@NET@_OUT_NUM, outputs, n_outputs);
}

/* Fixed memories: constants and activations. */
static stai_return_code get_fixed(stai_network *network, const uintptr_t *table, stai_size count, stai_ptr *pointers,
                                  stai_size *number)
{
  atonc_stai_context_t *context = opened(network);
  if (context == NULL) {
    return STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
  }
  if (number == NULL) {
    return failed(context, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
  }
  for (stai_size i = 0; pointers != NULL && i < count; i++) {
    pointers[i] = (stai_ptr)table[i];
  }
  *number = count;
  return STAI_SUCCESS;
}

stai_return_code stai_@net@_get_weights(stai_network *network, stai_ptr *weights, stai_size *n_weights)
{
  return get_fixed(network, weight_addresses, STAI_@NET@_WEIGHTS_NUM, weights, n_weights);
}

stai_return_code stai_@net@_get_activations(stai_network *network, stai_ptr *activations, stai_size *n_activations)
{
  return get_fixed(network, activation_addresses, STAI_@NET@_ACTIVATIONS_NUM, activations, n_activations);
}

stai_return_code stai_@net@_get_states(stai_network *network, stai_ptr *states, stai_size *n_states)
{
  return get_fixed(network, state_addresses, STAI_@NET@_STATES_NUM, states, n_states);
}

/* What may be replaced goes to the setter of the network; everything else must stay where it is. */
static stai_return_code set_edges(stai_network *network, const LL_Buffer_InfoTypeDef *table, stai_size count,
                                  const stai_ptr *pointers, stai_size number,
                                  LL_ATON_User_IO_Result_t (*setter)(uint32_t, void *, uint32_t),
                                  stai_return_code wrong_number, stai_return_code wrong_pointer)
{
  atonc_stai_context_t *context = opened(network);
  if (context == NULL) {
    return STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
  }
  if (number != count) {
    return failed(context, wrong_number);
  }
  if (pointers == NULL && count != 0U) {
    return failed(context, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS);
  }
  for (stai_size i = 0; i < count; i++) {
    if (table[i].is_user_allocated) {
      const LL_ATON_User_IO_Result_t result = setter(i, pointers[i], LL_Buffer_len(&table[i]));
      if (result == LL_ATON_User_IO_WRONG_ALIGN) {
        return failed(context, STAI_ERROR_INVALID_BUFFER_ALIGNMENT);
      }
      if (result != LL_ATON_User_IO_NOERROR) {
        return failed(context, wrong_pointer);
      }
    } else if (pointers[i] != LL_Buffer_addr_start(&table[i])) {
      return failed(context, wrong_pointer);
    }
  }
  return STAI_SUCCESS;
}

stai_return_code stai_@net@_set_inputs(stai_network *network, const stai_ptr *inputs, const stai_size n_inputs)
{
  return set_edges(network, LL_ATON_Input_Buffers_Info_@suffix@(), STAI_@NET@_IN_NUM, inputs, n_inputs,
                   LL_ATON_Set_User_Input_Buffer_@suffix@, STAI_ERROR_NETWORK_INVALID_IN_NUM,
                   STAI_ERROR_NETWORK_INVALID_IN_PTR);
}

stai_return_code stai_@net@_set_outputs(stai_network *network, const stai_ptr *outputs, const stai_size n_outputs)
{
  return set_edges(network, LL_ATON_Output_Buffers_Info_@suffix@(), STAI_@NET@_OUT_NUM, outputs, n_outputs,
                   LL_ATON_Set_User_Output_Buffer_@suffix@, STAI_ERROR_NETWORK_INVALID_OUT_NUM,
                   STAI_ERROR_NETWORK_INVALID_OUT_PTR);
}

static stai_return_code set_fixed(stai_network *network, const uintptr_t *table, stai_size count,
                                  const stai_ptr *pointers, stai_size number, stai_return_code wrong_number,
                                  stai_return_code wrong_pointer)
{
  atonc_stai_context_t *context = opened(network);
  if (context == NULL) {
    return STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
  }
  if (number != count) {
    return failed(context, wrong_number);
  }
  for (stai_size i = 0; i < count; i++) {
    if (pointers == NULL || (uintptr_t)pointers[i] != table[i]) {
      return failed(context, wrong_pointer);
    }
  }
  return STAI_SUCCESS;
}

stai_return_code stai_@net@_set_weights(stai_network *network, const stai_ptr *weights, const stai_size n_weights)
{
  return set_fixed(network, weight_addresses, STAI_@NET@_WEIGHTS_NUM, weights, n_weights,
                   STAI_ERROR_NETWORK_INVALID_WEIGHTS_NUM, STAI_ERROR_NETWORK_INVALID_WEIGHTS_PTR);
}

stai_return_code stai_@net@_set_activations(stai_network *network, const stai_ptr *activations,
                                            const stai_size n_activations)
{
  return set_fixed(network, activation_addresses, STAI_@NET@_ACTIVATIONS_NUM, activations, n_activations,
                   STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_NUM, STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_PTR);
}

stai_return_code stai_@net@_set_states(stai_network *network, const stai_ptr *states, const stai_size n_states)
{
  return set_fixed(network, state_addresses, STAI_@NET@_STATES_NUM, states, n_states,
                   STAI_ERROR_NETWORK_INVALID_STATES_NUM, STAI_ERROR_NETWORK_INVALID_STATES_PTR);
}
@begin has_states@

stai_return_code stai_ext_@net@_reset_states(stai_network *network)
{
  atonc_stai_context_t *context = opened(network);
  if (context == NULL) {
    return STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
  }
  if (context->status == STAI_RUNNING_WFE || context->status == STAI_RUNNING_NO_WFE) {
    return failed(context, STAI_ERROR_NETWORK_STILL_RUNNING);
  }
  @name@_reset();
  return STAI_SUCCESS;
}
@end has_states@

stai_return_code stai_@net@_set_callback(stai_network *network, const stai_event_cb cb, void *cb_cookie)
{
  atonc_stai_context_t *context = opened(network);
  (void)cb_cookie;
  if (context == NULL) {
    return STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE;
  }
  return cb == NULL ? STAI_SUCCESS : failed(context, STAI_ERROR_NOT_IMPLEMENTED);
}
