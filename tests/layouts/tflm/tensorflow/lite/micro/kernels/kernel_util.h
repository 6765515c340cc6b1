/* SPDX-License-Identifier: Apache-2.0
 * Stand-in: registration, and tensors while a kernel runs. */
#ifndef STAND_IN_KERNEL_UTIL_H
#define STAND_IN_KERNEL_UTIL_H

#include "tensorflow/lite/micro/micro_context.h"

namespace tflite {
namespace micro {

TFLMRegistration RegisterOp(void *(*init)(TfLiteContext *context, const char *buffer, size_t length),
                            TfLiteStatus (*prepare)(TfLiteContext *context, TfLiteNode *node),
                            TfLiteStatus (*invoke)(TfLiteContext *context, TfLiteNode *node),
                            void (*free)(TfLiteContext *context, void *buffer) = nullptr,
                            void (*reset)(TfLiteContext *context, void *buffer) = nullptr);
const TfLiteEvalTensor *GetEvalInput(const TfLiteContext *context, const TfLiteNode *node, int index);
TfLiteEvalTensor *GetEvalOutput(const TfLiteContext *context, const TfLiteNode *node, int index);

} // namespace micro
} // namespace tflite

#endif
