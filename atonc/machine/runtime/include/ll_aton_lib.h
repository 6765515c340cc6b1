/* SPDX-License-Identifier: Apache-2.0
 * Layers that move data, of networks that ST's compiler generates. Here the CPU does them, whatever engines the network
 * offers: the bytes are the same. Trailing arguments (engines, and the network instance in newer releases) are ignored,
 * so the functions take any number of them.
 */
#ifndef LL_ATON_LIB_H
#define LL_ATON_LIB_H

#include "ll_aton.h"
#include "ll_aton_NN_interface.h"
#include "ll_aton_caches_interface.h"
#include "ll_aton_lib_sw_operators.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef LL_Buffer_InfoTypeDef LL_LIB_TensorInfo_TypeDef;
typedef LL_Buffer_InfoTypeDef LL_LIB_TensorShape_TypeDef; /* the name of release 1.1.0 */

int LL_ATON_LIB_Concat(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs, const LL_Buffer_InfoTypeDef *output,
                       unsigned int axis, ...);
int LL_ATON_LIB_DMA_SpaceToDepth(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs,
                                 const LL_Buffer_InfoTypeDef *output, unsigned int blocksize_h, unsigned int blocksize_w,
                                 ...);
int LL_ATON_LIB_DMA_DepthToSpace(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs,
                                 const LL_Buffer_InfoTypeDef *output, unsigned int blocksize_h, unsigned int blocksize_w,
                                 ...);
int LL_ATON_LIB_DMA_Transpose(const LL_Buffer_InfoTypeDef *input, const uint32_t *input_axes_offsets,
                              const LL_Buffer_InfoTypeDef *output, const uint32_t *output_axes_offsets,
                              const uint8_t *target_pos, const uint8_t *perm_to_use, ...);
int LL_ATON_LIB_DMA_Outputs_Slice_SplitLike(const LL_Buffer_InfoTypeDef *input, const LL_Buffer_InfoTypeDef *output,
                                            int32_t tot_out_size, int32_t width_in_bytes, int32_t fheight,
                                            int32_t line_offset, int n_bits, ...);

/* declared for networks that name them, not defined here */
int LL_ATON_LIB_Cast(const LL_Buffer_InfoTypeDef *input, const LL_Buffer_InfoTypeDef *output, ...);
int LL_ATON_LIB_DMA_ImageToRow(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs,
                               const LL_Buffer_InfoTypeDef *output, unsigned int blocksize_h, unsigned int blocksize_w,
                               unsigned int stride_h, unsigned int stride_w, ...);
int LL_ATON_LIB_DMA_RowToImage(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs,
                               const LL_Buffer_InfoTypeDef *output, unsigned int blocksize_h, unsigned int blocksize_w,
                               unsigned int stride_h, unsigned int stride_w, ...);
int LL_ATON_LIB_Softmax(const LL_Buffer_InfoTypeDef *input, const LL_Buffer_InfoTypeDef *output, unsigned int axis,
                        int legacy);

#ifdef __cplusplus
}
#endif

#endif
