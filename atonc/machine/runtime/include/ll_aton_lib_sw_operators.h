/* SPDX-License-Identifier: Apache-2.0
 * Layers that ST's compiler leaves to the CPU and that move data. See ll_aton_lib.h.
 */
#ifndef LL_ATON_LIB_SW_OPERATORS_H
#define LL_ATON_LIB_SW_OPERATORS_H

#include <stdbool.h>
#include <stdint.h>

#include "ll_aton_NN_interface.h"

#ifdef __cplusplus
extern "C" {
#endif

int LL_ATON_LIB_Transpose(const LL_Buffer_InfoTypeDef *input, const uint32_t *input_axes_offsets,
                          const LL_Buffer_InfoTypeDef *output, const uint32_t *output_axes_offsets, const uint8_t *perm);
int LL_ATON_LIB_Slice(const LL_Buffer_InfoTypeDef *from, const uint32_t *from_offsets,
                      const LL_Buffer_InfoTypeDef *to, const uint32_t *to_offsets, uint32_t rank,
                      const int32_t *starts, const int32_t *ends, const int32_t *steps);

#ifdef __cplusplus
}
#endif

#endif
