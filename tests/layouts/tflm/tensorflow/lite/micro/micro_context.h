/* SPDX-License-Identifier: Apache-2.0
 * Stand-in: what a kernel may ask the interpreter while it prepares. */
#ifndef STAND_IN_MICRO_CONTEXT_H
#define STAND_IN_MICRO_CONTEXT_H

#include "tensorflow/lite/micro/micro_common.h"

namespace tflite {

class MicroContext {
  public:
    TfLiteTensor *AllocateTempInputTensor(const TfLiteNode *node, int index);
    TfLiteTensor *AllocateTempOutputTensor(const TfLiteNode *node, int index);
    void DeallocateTempTfLiteTensor(TfLiteTensor *tensor);
};

inline MicroContext *GetMicroContext(const struct TfLiteContext *context) {
    return reinterpret_cast<MicroContext *>(context->impl_);
}

} // namespace tflite

#endif
