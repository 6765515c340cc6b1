/* SPDX-License-Identifier: Apache-2.0
 * Stand-in: the types of TFLite that a kernel sees, as far as ours looks. */
#ifndef STAND_IN_COMMON_H
#define STAND_IN_COMMON_H

#include <stddef.h>
#include <stdint.h>

typedef enum TfLiteStatus { kTfLiteOk = 0, kTfLiteError = 1 } TfLiteStatus;
typedef enum { kTfLiteNoType = 0 } TfLiteType;

typedef struct TfLiteIntArray {
    int size;
    int data[1];
} TfLiteIntArray;

typedef union TfLitePtrUnion {
    int8_t *int8;
    char *raw;
    const char *raw_const;
    void *data;
} TfLitePtrUnion;

typedef struct TfLiteTensor {
    TfLitePtrUnion data;
    size_t bytes;
} TfLiteTensor;

typedef struct TfLiteEvalTensor {
    TfLitePtrUnion data;
    TfLiteIntArray *dims;
    TfLiteType type;
} TfLiteEvalTensor;

typedef struct TfLiteNode {
    TfLiteIntArray *inputs;
    TfLiteIntArray *outputs;
    TfLiteIntArray *intermediates;
    void *user_data;
    void *builtin_data;
    const void *custom_initial_data;
    int custom_initial_data_size;
} TfLiteNode;

typedef struct TfLiteContext {
    void *impl_;
    void *(*AllocatePersistentBuffer)(struct TfLiteContext *context, size_t bytes);
} TfLiteContext;

#endif
