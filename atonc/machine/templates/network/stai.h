/* stai_@net@.h: the network behind the ST.AI interface, written by @tool@. Do not edit. */

#ifndef STAI_@NET@_H
#define STAI_@NET@_H

#include "ll_aton_rt_user_api.h"
#include "stai.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef HAS_STAI_EXT
#define HAS_STAI_EXT
#endif

#ifndef ATONC_STAI_CONTEXT
#define ATONC_STAI_CONTEXT
/* What a context holds; applications see bytes. */
typedef struct {
  NN_Instance_TypeDef instance;
  stai_return_code status;      /* of the inference: STAI_SUCCESS before it */
  stai_return_code first_error;
} atonc_stai_context_t;
#endif

#define STAI_@NET@_CONTEXT_SIZE ((stai_size)sizeof(atonc_stai_context_t))
#define STAI_@NET@_CONTEXT_ALIGNMENT (8)

stai_return_code stai_@net@_init(stai_network *network);
stai_return_code stai_@net@_deinit(stai_network *network);
stai_return_code stai_@net@_run(stai_network *network, const stai_run_mode mode);
stai_return_code stai_@net@_train(stai_network *network, const stai_run_mode mode);
stai_return_code stai_@net@_get_info(stai_network *network, stai_network_info *info);
stai_return_code stai_@net@_get_inputs(stai_network *network, stai_ptr *inputs, stai_size *n_inputs);
stai_return_code stai_@net@_get_outputs(stai_network *network, stai_ptr *outputs, stai_size *n_outputs);
stai_return_code stai_@net@_get_weights(stai_network *network, stai_ptr *weights, stai_size *n_weights);
stai_return_code stai_@net@_get_activations(stai_network *network, stai_ptr *activations, stai_size *n_activations);
stai_return_code stai_@net@_get_states(stai_network *network, stai_ptr *states, stai_size *n_states);
stai_return_code stai_@net@_get_error(stai_network *network);
stai_return_code stai_@net@_set_inputs(stai_network *network, const stai_ptr *inputs, const stai_size n_inputs);
stai_return_code stai_@net@_set_outputs(stai_network *network, const stai_ptr *outputs, const stai_size n_outputs);
stai_return_code stai_@net@_set_weights(stai_network *network, const stai_ptr *weights, const stai_size n_weights);
stai_return_code stai_@net@_set_activations(stai_network *network, const stai_ptr *activations,
                                            const stai_size n_activations);
stai_return_code stai_@net@_set_states(stai_network *network, const stai_ptr *states, const stai_size n_states);
/* Events of single epochs are not passed on: a callback is refused. */
stai_return_code stai_@net@_set_callback(stai_network *network, const stai_event_cb cb, void *cb_cookie);

/* Step by step: run or continue until STAI_DONE, waiting for an event after STAI_RUNNING_WFE; then a new inference. */
stai_return_code stai_ext_@net@_run_continue(stai_network *network);
stai_return_code stai_ext_@net@_get_nn_run_status(stai_network *network);
stai_return_code stai_ext_@net@_new_inference(stai_network *network);
@begin has_states@

/* States get their first values: where a sequence begins. */
stai_return_code stai_ext_@net@_reset_states(stai_network *network);
@end has_states@

static inline stai_size stai_@net@_get_context_size(void)
{
  return STAI_@NET@_CONTEXT_SIZE;
}

#ifndef STAI_CACHE_MCU_LINESIZE
#define STAI_CACHE_MCU_LINESIZE (@line@)
#endif
#ifndef STAI_CACHE_USER_BUFFER_ALIGNMENT
#define STAI_CACHE_USER_BUFFER_ALIGNMENT STAI_CACHE_MCU_LINESIZE
#endif

#define STAI_@NET@_C_MODEL_NAME "@net@"
#define STAI_@NET@_ORIGIN_MODEL_NAME "@origin@"
#define STAI_@NET@_FLAGS (STAI_FLAG_NONE)
#define STAI_@NET@_STATES_NUM (@states_count@)
#define STAI_@NET@_STATES_SIZE (@states_bytes@)
@begin states@
#define STAI_@NET@_STATES_@number@_SIZE_BYTES (@size@)
#define STAI_@NET@_STATES_@number@_FLAGS (STAI_FLAG_PREALLOCATED | STAI_FLAG_STATES)
@end states@
#define STAI_@NET@_WEIGHTS_NUM (@weights@)
#define STAI_@NET@_ACTIVATIONS_NUM (@activations@)

@begin edges@
#define STAI_@NET@_@short@_NUM (@count@)
#define STAI_@NET@_@short@_ALIGNMENTS { @alignments@ }
#define STAI_@NET@_@short@_NAMES { @names@ }
#define STAI_@NET@_@short@_FORMATS { @formats@ }
#define STAI_@NET@_@short@_SIZES { @sizes@ }
#define STAI_@NET@_@short@_SIZES_BYTES { @sizes_bytes@ }
@begin tensors@

#define STAI_@NET@_@short@_@number@_ALIGNMENT (@line@)
#define STAI_@NET@_@short@_@number@_NAME "@label@"
#define STAI_@NET@_@short@_@number@_FLAGS (@flags@)
#define STAI_@NET@_@short@_@number@_FORMAT (@format@)
#define STAI_@NET@_@short@_@number@_SIZE (@elements@)
#define STAI_@NET@_@short@_@number@_SIZE_BYTES (@size@)
#define STAI_@NET@_@short@_@number@_BATCH (@batch@)
#define STAI_@NET@_@short@_@number@_HEIGHT (@height@)
#define STAI_@NET@_@short@_@number@_WIDTH (@width@)
#define STAI_@NET@_@short@_@number@_CHANNEL (@channel@)
#define STAI_@NET@_@short@_@number@_RANK (@rank@)
#define STAI_@NET@_@short@_@number@_SHAPE { @shape@ }
#define STAI_@NET@_@short@_@number@_SCALE_OFFSET_NUM (@scales_count@)
@begin scaled@
#define STAI_@NET@_@short@_@number@_SCALES { @scales@ }
#define STAI_@NET@_@short@_@number@_OFFSETS { @offsets@ }
@end scaled@
@end tensors@

@end edges@
#ifdef __cplusplus
}
#endif

#endif
