/* SPDX-License-Identifier: Apache-2.0
 * Stand-in: how TFLite Micro knows a kernel. */
#ifndef STAND_IN_MICRO_COMMON_H
#define STAND_IN_MICRO_COMMON_H

#include "tensorflow/lite/c/common.h"

struct TFLMRegistration {
    void *(*init)(TfLiteContext *context, const char *buffer, size_t length);
    void (*free)(TfLiteContext *context, void *buffer);
    TfLiteStatus (*prepare)(TfLiteContext *context, TfLiteNode *node);
    TfLiteStatus (*invoke)(TfLiteContext *context, TfLiteNode *node);
    void (*reset)(TfLiteContext *context, void *buffer);
    int32_t builtin_code;
    const char *custom_name;
};

#endif
