/* SPDX-License-Identifier: Apache-2.0
 * CPU layers of networks that ST's compiler generates: descriptions and functions.
 *
 * All descriptions are declared. Functions exist for the layers that end most networks: number formats, ReLU,
 * softmax, integer resize. Another one is an undefined symbol at link time, which names what is missing.
 */
#ifndef LL_SW_H
#define LL_SW_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    LL_SW_CONV = 0, LL_SW_RELU, LL_SW_PRELU, LL_SW_THRESHOLDEDRELU, LL_SW_ELU, LL_SW_SELU, LL_SW_MAXPOOL,
    LL_SW_MINPOOL, LL_SW_AVGPOOL, LL_SW_SOFTMAX, LL_SW_BATCHNORM, LL_SW_LRN, LL_SW_ARITHADD, LL_SW_ARITHSUM,
    LL_SW_ARITHSUB, LL_SW_ARITHMUL, LL_SW_ARITHDIV, LL_SW_CONCAT, LL_SW_SPLIT, LL_SW_SLICE, LL_SW_SIGMOID,
    LL_SW_ATAN, LL_SW_ATANH, LL_SW_ACOS, LL_SW_ACOSH, LL_SW_ASIN, LL_SW_ASINH, LL_SW_TAN, LL_SW_TANH, LL_SW_COS,
    LL_SW_COSH, LL_SW_SIN, LL_SW_SINH, LL_SW_SQRT, LL_SW_CEIL, LL_SW_GATHER, LL_SW_FLOOR, LL_SW_EXP, LL_SW_LOG,
    LL_SW_QLINEARCONV, LL_SW_QUANTIZELINEAR, LL_SW_REQUANTIZELINEAR, LL_SW_DEQUANTIZELINEAR, LL_SW_QLINEARMATMUL,
    LL_SW_GEMM, LL_SW_RESIZE, LL_SW_ERF, LL_SW_POW, LL_SW_AND, LL_SW_OR, LL_SW_XOR, LL_SW_EQUAL, LL_SW_GREATER,
    LL_SW_LESS, LL_SW_GREATEROREQUAL, LL_SW_LESSOREQUAL, LL_SW_CLIP, LL_SW_HARDSIGMOID, LL_SW_HARDMAX,
    LL_SW_HARDSWISH, LL_SW_SWISH, LL_SW_ABS, LL_SW_INSTANCENORM, LL_SW_REDUCESUM, LL_SW_REDUCEMIN, LL_SW_REDUCEMEAN,
    LL_SW_REDUCEMAX, LL_SW_REDUCEPROD, LL_SW_SOFTSIGN, LL_SW_SOFTPLUS, LL_SW_LPNORM, LL_SW_ARGMIN, LL_SW_ARGMAX,
    LL_SW_MATMUL, LL_SW_MIN, LL_SW_MAX, LL_SW_NEG, LL_SW_RECIPROCAL, LL_SW_MOD, LL_SW_ROUND, LL_SW_REDUCELOGSUMEXP,
    LL_SW_SIGN, LL_SW_TILE, LL_SW_GELU
} NodeType;

/* Sizes in elements, strides in bytes; an absent size is 0 and counts as 1. */
typedef struct Tensor_dim_info {
    uint32_t tensor_h, tensor_w, tensor_c, tensor_b;
    uint32_t num_elem;
} Tensor_dim_info;
typedef struct Tensor_stride_info {
    uint32_t h, w, c, b;
} Tensor_stride_info;
typedef struct {
    unsigned char *start_offset;
} Tensor_mem_info;
typedef struct {
    bool is_signed;
} Tensor_format_info;
typedef struct {
    unsigned char *scale;
    unsigned char *offset;
} Tensor_int_metadata_info;
typedef struct Tensor_info {
    Tensor_dim_info dim;
    Tensor_stride_info stride;
    Tensor_mem_info mem;
    Tensor_format_info format;
} Tensor_info;
typedef struct General {
    NodeType type;
    Tensor_info input;
    Tensor_info output;
} General;

typedef enum { RESIZE_ZEROS = 0, RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC } resize_mode;
typedef enum {
    HALF_PIXEL = 0,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_HALF_PIXEL_FOR_NN,
    TF_CROP_AND_RESIZE
} coord_transf_mode;
typedef enum { ROUND_PREFER_FLOOR = 0, ROUND_PREFER_CEIL, FLOOR, CEIL } nearest_mode;
typedef enum {
    LL_SW_SSSA_PW_CONV,
    LL_SW_SSSA_RGB_CONV,
    LL_SW_SSSA_DW_CONV,
    LL_SW_SSSA_DILATED_CONV,
    LL_SW_SSSA_GENERIC_CONV,
    LL_SW_GENERIC_CONV
} conv_fwd_case;

/* ---- float layers ---- */

typedef struct Conv_sw_info {
    General general;
    Tensor_info weights, scratch, bias, weights_permuted;
    int ngroup;
    long int pads[4], strides[4], dilations[2];
} Conv_sw_info;
typedef struct Bn_sw_info {
    General general;
    Tensor_info bias, scale, mean, var;
} Bn_sw_info;
typedef struct Instance_normalization_sw_info {
    General general;
    Tensor_info bias, scale;
    float epsilon;
} Instance_normalization_sw_info;
typedef struct Argmin_sw_info {
    General general;
    int axis, keepdims, select_last_index;
} Argmin_sw_info;
typedef Argmin_sw_info Argmax_sw_info;
typedef struct Arith_sw_info {
    General general;
    Tensor_info operand, operand1, operand2;
    unsigned int num_of_inputs;
} Arith_sw_info;
typedef struct Pool_sw_info {
    General general;
    int ngroup;
    long int pads[4], strides[4], k_shape[2];
    bool count_include_pad;
} Pool_sw_info;
typedef struct Lrn_sw_info {
    General general;
    uint32_t size;
    float alpha, beta, bias;
} Lrn_sw_info;
typedef struct Lpnormalization_sw_info {
    General general;
    int axis, p;
} Lpnormalization_sw_info;
typedef struct Sign_sw_info {
    General general;
} Sign_sw_info;
typedef Sign_sw_info Global_pool_sw_info;
typedef struct Resize_sw_info {
    General general;
    Tensor_info scales, roi, sizes;
    float cubic_coeff_a;
    bool exclude_outside;
    float extrapol_val;
    resize_mode mode;
    nearest_mode nearest_mode;
    coord_transf_mode coord_transf_mode;
} Resize_sw_info;
typedef struct Activ_sw_info {
    General general;
    Tensor_info operand;
    float alpha, beta, gamma, min, max;
} Activ_sw_info;
typedef struct Softmax_sw_info {
    General general;
    Tensor_info scratch;
    int axis;
} Softmax_sw_info;
typedef struct Concat_sw_info {
    General general;
    unsigned int concat_axis, num_of_inputs;
    Tensor_info operand, operand1, operand2;
} Concat_sw_info;
typedef struct Reduce_sw_info {
    General general;
    int axis;
} Reduce_sw_info;
typedef struct Gemm_sw_info {
    General general;
    Tensor_info operand_b, operand_c;
    float alpha, beta;
    uint8_t tA, tB;
} Gemm_sw_info;
typedef struct Matmul_sw_info {
    General general;
    Tensor_info operand_b;
} Matmul_sw_info;
typedef struct Gather_sw_info {
    General general;
    Tensor_info operand;
    int axis;
} Gather_sw_info;
typedef Gather_sw_info Gather_integer_sw_info;
typedef struct Tile_sw_info {
    General general;
    int16_t repeats[4];
} Tile_sw_info;
typedef Tile_sw_info Tile_integer_sw_info;

/* ---- integer layers: scale and zero point of input (is, izp), output (os, ozp), weights (ws, wzp) ---- */

typedef struct Conv_integer_sw_info {
    General general;
    Tensor_info weights, scratch, bias, ws, wzp, is, izp, os, ozp;
    int ngroup;
    long int pads[4], strides[4], dilations[2];
    conv_fwd_case fwd_func;
} Conv_integer_sw_info;
typedef Conv_integer_sw_info Qlinearconv_sw_info;
typedef struct Qlinearmatmul_sw_info {
    General general;
    Tensor_info weights, scratch, bias, ws, wzp, is, izp, os, ozp;
} Qlinearmatmul_sw_info;
typedef struct Gemm_integer_sw_info {
    General general;
    Tensor_info weights, scratch, bias, ws, wzp, is, izp, os, ozp;
    float alpha, beta;
    uint8_t tA, tB;
} Gemm_integer_sw_info;
typedef struct Pool_integer_sw_info {
    General general;
    Tensor_info is, izp, os, ozp;
    int ngroup;
    long int pads[4], strides[4], k_shape[2];
    bool count_include_pad;
} Pool_integer_sw_info;
typedef Pool_integer_sw_info Global_pool_integer_sw_info;
typedef struct Activ_integer_sw_info {
    General general;
    Tensor_info operand, operand_s, operand_zp, is, izp, os, ozp;
    float alpha, beta, gamma, min, max;
} Activ_integer_sw_info;
typedef struct Softmax_integer_sw_info {
    General general;
    Tensor_info scratch, is, izp, os, ozp;
    int32_t quantized_multiplier, left_shift, diff_min, axis;
} Softmax_integer_sw_info;
typedef struct Eltwise_integer_sw_info {
    General general;
    Tensor_info operand, operand_s, operand_zp, is, izp, os, ozp;
    unsigned int num_of_inputs;
} Eltwise_integer_sw_info;
typedef struct Resize_integer_sw_info {
    General general;
    Tensor_info is, izp, os, ozp, scales, roi, sizes;
    float cubic_coeff_a;
    bool exclude_outside;
    float extrapol_val;
    resize_mode mode;
    nearest_mode nearest_mode;
    coord_transf_mode coord_transf_mode;
} Resize_integer_sw_info;
typedef Argmin_sw_info Argmin_integer_sw_info;
typedef Argmin_sw_info Argmax_integer_sw_info;
typedef struct Quantizelinear_sw_info {
    General general;
    Tensor_info os, ozp;
} Quantizelinear_sw_info;
typedef struct Dequantizelinear_sw_info {
    General general;
    Tensor_info is, izp;
} Dequantizelinear_sw_info;
typedef struct Requantizelinear_sw_info {
    General general;
    Tensor_info is, izp, os, ozp;
} Requantizelinear_sw_info;

/* ---- functions of this runtime ---- */

void ll_sw_forward_quantizelinear(Quantizelinear_sw_info *);
void ll_sw_forward_dequantizelinear(Dequantizelinear_sw_info *);
void ll_sw_forward_requantizelinear(Requantizelinear_sw_info *);
void ll_sw_forward_activ_integer(Activ_integer_sw_info *); /* ReLU and PReLU */
void ll_sw_forward_softmax_integer(Softmax_integer_sw_info *);
void ll_sw_forward_resize_integer(Resize_integer_sw_info *);
void ll_sw_forward_softmax(Softmax_sw_info *); /* floats */

/* ---- declared for networks that name them, not defined here ---- */

void ll_sw_forward_qlinearmatmul(Qlinearmatmul_sw_info *);
void ll_sw_forward_conv_integer(Conv_integer_sw_info *);
void ll_sw_forward_pool_integer(Pool_integer_sw_info *);
void ll_sw_forward_global_pool_integer(Global_pool_integer_sw_info *);
void ll_sw_forward_eltwise_integer(Eltwise_integer_sw_info *);
void ll_sw_forward_gemm_integer(Gemm_integer_sw_info *);
void ll_sw_forward_argmin_integer(Argmin_integer_sw_info *);
void ll_sw_forward_argmax_integer(Argmax_integer_sw_info *);
void ll_sw_forward_gather_integer(Gather_integer_sw_info *);
void ll_sw_forward_tile_integer(Tile_integer_sw_info *);
void ll_sw_forward_conv(Conv_sw_info *);
void ll_sw_forward_gemm(Gemm_sw_info *);
void ll_sw_forward_matmul(Matmul_sw_info *);
void ll_sw_forward_pool(Pool_sw_info *);
void ll_sw_forward_global_pool(Global_pool_sw_info *);
void ll_sw_forward_activ(Activ_sw_info *);
void ll_sw_forward_arith(Arith_sw_info *);
void ll_sw_forward_bn(Bn_sw_info *);
void ll_sw_forward_instance_normalization(Instance_normalization_sw_info *);
void ll_sw_forward_lrn(Lrn_sw_info *);
void ll_sw_forward_concat(Concat_sw_info *);
void ll_sw_forward_resize(Resize_sw_info *);
void ll_sw_forward_reduce(Reduce_sw_info *);
void ll_sw_forward_lpnormalization(Lpnormalization_sw_info *);
void ll_sw_forward_argmin(Argmin_sw_info *);
void ll_sw_forward_argmax(Argmax_sw_info *);
void ll_sw_forward_sign(Sign_sw_info *);
void ll_sw_forward_gather(Gather_sw_info *);
void ll_sw_forward_tile(Tile_sw_info *);

#ifdef __cplusplus
}
#endif

#endif
