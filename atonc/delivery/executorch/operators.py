"""Operators of PyTorch that delegates may have, by what becomes of their scales. What is listed here is exported as
ONNX and read by our reader; `tests/delegates` compiles each."""

from __future__ import annotations

import executorch.exir  # noqa: F401  (it registers operators of its own)
import torch

_aten = torch.ops.aten

WEIGHTED = (
    _aten.conv1d.default,
    _aten.conv2d.default,
    _aten.conv_transpose2d.input,
    _aten.linear.default,
)
FUSED = (_aten.relu.default, _aten.relu_.default, _aten.relu6.default, _aten.relu6_.default,
         _aten.hardtanh.default, _aten.hardtanh_.default)  # fmt: skip
MOVES = (
    _aten.max_pool2d.default,
    _aten.flatten.using_ints,
    _aten.view.default,
    _aten.reshape.default,
    _aten.permute.default,
    _aten.transpose.int,
    _aten.squeeze.dim,
    _aten.squeeze.dims,
    _aten.unsqueeze.default,
    _aten.slice.Tensor,
    _aten.select.int,
    _aten.cat.default,
    _aten.pixel_shuffle.default,
    _aten.upsample_nearest2d.vec,
    _aten.contiguous.default,
    _aten.clone.default,
)
FUNCTIONS = (
    *FUSED,
    _aten.hardswish.default,
    _aten.hardswish_.default,
    _aten.hardsigmoid.default,
    _aten.silu.default,
    _aten.silu_.default,
    _aten.gelu.default,
    _aten.sigmoid.default,
    _aten.tanh.default,
    _aten.leaky_relu.default,
    _aten.elu.default,
    _aten.softmax.int,
    _aten.layer_norm.default,
    _aten.group_norm.default,
    _aten.instance_norm.default,
    _aten.prelu.default,
    _aten.upsample_bilinear2d.vec,
    _aten.adaptive_avg_pool2d.default,
    _aten.avg_pool2d.default,
    _aten.mean.dim,
)
ARITHMETIC = (
    _aten.add.Tensor,
    _aten.add_.Tensor,
    _aten.sub.Tensor,
    _aten.mul.Tensor,
    _aten.mul_.Tensor,
    _aten.div.Tensor,
    _aten.maximum.default,
    _aten.minimum.default,
    _aten.matmul.default,
    _aten.bmm.default,
)

_dims = torch.ops.dim_order_ops
COPIES = (_dims._clone_dim_order.default,)
_qdq = torch.ops.quantized_decomposed
# whole in what the partitioner is given: their pieces would be nodes of their own
KEPT = (
    _aten.linear.default,
    _aten.max_pool2d.default,
    _aten.hardswish.default,
    _aten.hardsigmoid.default,
    _aten.silu.default,
    _aten.layer_norm.default,
    _aten.pixel_shuffle.default,
    _aten.upsample_nearest2d.vec,
    _aten.upsample_bilinear2d.vec,
    _aten.group_norm.default,
    _aten.instance_norm.default,
    _aten.prelu.default,
)
# of one tensor: as the edge dialect has them, and as PyTorch's ONNX exporter takes them
MOVED = {
    _aten.view_copy.default: _aten.reshape.default,  # a view wants axes that follow each other in memory
    _aten.permute_copy.default: _aten.permute.default,
    _aten.squeeze_copy.dims: _aten.squeeze.dims,
    _aten.unsqueeze_copy.default: _aten.unsqueeze.default,
    _aten.slice_copy.Tensor: _aten.slice.Tensor,
    _aten.select_copy.int: _aten.select.int,
    _aten.expand_copy.default: _aten.expand.default,
    _aten.split_with_sizes_copy.default: _aten.split_with_sizes.default,
}
# of a program in ExecuTorch's edge dialect
EDGE = (
    *KEPT,
    _qdq.quantize_per_tensor.default,
    _qdq.dequantize_per_tensor.default,
    _qdq.dequantize_per_channel.default,
    _aten.convolution.default,
    _aten.relu.default,
    _aten.hardtanh.default,
    _aten.clamp.default,
    _aten.cat.default,
    _aten.gelu.default,
    _aten.sigmoid.default,
    _aten.tanh.default,
    _aten.leaky_relu.default,
    _aten.elu.default,
    _aten._softmax.default,
    _aten.avg_pool2d.default,
    _aten.mean.dim,
    _aten.add.Tensor,
    _aten.sub.Tensor,
    _aten.mul.Tensor,
    _aten.div.Tensor,
    _aten.bmm.default,
    *MOVED,
    _aten.constant_pad_nd.default,
    _aten.amax.default,
    _aten.amin.default,
    _aten.sum.dim_IntList,
    _aten.maximum.default,
    _aten.minimum.default,
    _aten.abs.default,
    _aten.neg.default,
    _aten.exp.default,
    _aten.log.default,
    _aten.sqrt.default,
    _aten.rsqrt.default,
    _aten.reciprocal.default,
    _aten.sin.default,
    _aten.cos.default,
    _aten.erf.default,
    _aten.floor.default,
    _aten.ceil.default,
    _aten.round.default,
    _aten.pow.Tensor_Scalar,
    _aten.cumsum.default,
    *COPIES,
)
PRODUCTS = (_aten.convolution.default, _aten.linear.default, _aten.bmm.default)
