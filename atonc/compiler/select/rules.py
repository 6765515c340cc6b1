"""What sends an operator to the CPU, in the words that users read. A `Refusal` carries its rule, not a key."""

from __future__ import annotations

from collections.abc import Mapping

from atonc.machine.base.reasons import Evidence, Rule, Severity

_UNITS = Evidence(report="the units of the NPU")
_SEEN = Evidence(report="settings in ST programs")


def _rule(id: str, sentence: str, limit: str, remedy: str, evidence: Evidence = _UNITS) -> Rule:
    return Rule(id, "mapping", sentence, evidence, remedy, limit, Severity.NOTE)


_EDGE = "keep it at the edge of the model, or let the application do it"

CPU_GATHER = _rule("CPU-GATHER", "addresses that depend on data", "addresses fixed at compile time", _EDGE)

BY_NATURE: dict[str, Rule] = {
    "softmax": _rule(
        "CPU-SOFTMAX",
        "no NPU unit computes exponential and row sum of softmax",
        "functions of one value; sums with constant weights",
        "cut it off (--cut-output-tensors) where only the largest score counts: the order stays the same",
    ),
    "log_softmax": _rule("CPU-LOG-SOFTMAX", "as softmax, with a logarithm", "functions of one value", _EDGE),
    "arg_max": _rule("CPU-ARG-MAX", "the NPU compares values but keeps no positions", "no positions", _EDGE),
    "arg_min": _rule("CPU-ARG-MIN", "the NPU compares values but keeps no positions", "no positions", _EDGE),
    "pack_kernels": _rule(
        "PRODUCT-KERNELS",
        "the second factor of the product is an activation, which the CPU reorders as conv weights: no ST program uses "
        "weights that the NPU wrote in the same inference",
        "weights that are constants, or that the CPU has written",
        "--schedule-with engine-kernels lets the NPU write them: not seen in ST programs, try it on a board first",
    ),
    "quantize": _rule(
        "CPU-QUANTIZE",
        "float values enter the model here; the NPU has no floats",
        "integers of at most 16 bits",
        "give the input as integers: --input-data-type int8 or uint8",
    ),
    "dequantize": _rule(
        "CPU-DEQUANTIZE",
        "float values leave the model here; the NPU has no floats",
        "integers of at most 16 bits",
        "take the output as integers: --output-data-type int8 (the report gives scale and zero point)",
    ),
    "resize_linear": _rule(
        "CPU-RESIZE",
        "this bilinear resize has weights that differ from pixel to pixel",
        "a few fixed sets of weights",
        "use an integer scale with half-pixel coordinates, or nearest neighbours",
    ),
    "lstm": _rule(
        "CPU-STATE",
        "a 16-bit state is carried from step to step, through functions that the NPU has for bytes only",
        "operators without a state",
        "use convolutions over time instead, or an unrolled layer with 8-bit states",
    ),
    "recurrent": _rule(
        "CPU-SEQUENCE",
        "a GRU or LSTM of many steps is a single layer, whose state stays in float from step to step",
        "operators without a state",
        "export one step, with its states as inputs and outputs, or at most 32 steps: quantize writes those out",
    ),
    "cast": _rule("CPU-CAST", "a change of the number format", "int8 in, int8 out", "keep the tensor int8"),
    "gather": CPU_GATHER,
    "gather_nd": CPU_GATHER,
    "custom": _rule(
        "CPU-CUSTOM",
        "C of the user (--custom) computes this operator",
        "standard operators",
        "replace it by operators that the NPU has",
    ),
}

NO_RECIPE = _rule(
    "CPU-NO-RECIPE",
    "no chain of units computes this operator",
    "operators that `atonc ops` lists for the NPU",
    "replace it with convolutions, elementwise operators or functions of one value, or keep it at the edge",
)
NOT_CODES = _rule(
    "CPU-FLOAT",
    "not int8: the quantiser left this operator in float or wide integers",
    "int8 or uint8 activations",
    "quantise the whole model to int8 (TFLite: full integer; ONNX: quantize_static, QDQ); see the coverage",
)
NO_WIDE_FORM = _rule(
    "CPU-WIDE",
    "ST programs compute this on 8 bits only: no function table and no NPU alternative takes 16 bits here",
    "int8, or an operator with an alternative for 16 bits",
    "quantise its input and output to 8 bits (the conversions run on the NPU), or leave it where it is small",
    _SEEN,
)
NO_EVIDENCE = _rule(
    "CPU-EVIDENCE",
    "every NPU configuration that the compiler knows for this operator needs a value that ST programs do not use",
    "what docs/silicon.md lists; --silicon seen allows less, --allow-unproven more",
    "try --allow-unproven on a board, or use other scales or sizes: the reason names the value",
    _SEEN,
)
ASKED = _rule("ON-CPU", "the user asked for the CPU", "--on cpu NODE", "leave out --on cpu for this node")

PLACE_ALIGNED = _rule(
    "PLACE-ALIGNED",
    "engines that start at unaligned addresses must stay in NPU RAM, and this tensor is larger than that",
    "1.75 MiB of NPU RAM",
    "use channel counts that are multiples of 16",
)
INT8_CODES = _rule("CODES", "a tensor is not int8 with one scale", "int8, one scale per tensor", "quantise it that way")
POOL_WINDOW = _rule(
    "POOL-WINDOW",
    "a maximum over so large a window takes too many stages of 3x3",
    "stages of 3x3",
    "use smaller windows",
)
POOL_LINES = _rule("POOL-LINE", "the image lines are too long for POOL", "line memory", "pool in two dimensions")
POOL_PICTURE = _rule("POOL-PICTURE", "the image is too large for POOL", "image registers", "pad or tile it")
POOL_SHAPE = _rule("POOL-SHAPE", "pooling works on one image", "batch 1, channels last", "fix the batch to 1")
POOL_DILATION = _rule("POOL-DILATION", "POOL has no dilation", "dilation 1", "dilation 1")
POOL_AXES = _rule("POOL-AXES", "a maximum over these axes is not a window", "height and width", "move the axes")
PICTURE = _rule("PICTURE", "the data does not lie as lines of pixels", "lines of pixels", "copy it first")
RASTER = _rule(
    "RASTER",
    "no stream engine of an ST program walks this many lines, pixels or elements",
    "rasters in ST programs",
    "a smaller image",
    _SEEN,
)
LAYOUT = _rule("LAYOUT", "channels come first", "channels last", "export with channels last")
CONV_WEIGHTS = _rule(
    "CONV-WEIGHTS", "weights must be known at compile time", "constant 8-bit weights", "quantise the weights"
)
CONV_SHAPE = _rule("CONV-SHAPE", "a convolver takes one image", "1 x height x width x channels", "use batch 1")
CONV_BIAS = _rule("CONV-BIAS", "the bias must be known at compile time", "a constant", "add it as a layer")
CONV_LINES = _rule("CONV-LINES", "the parts of the image overlap in memory", "separate lines", "an even width")
CONV_PADDING = _rule("CONV-PADDING", "some outputs see padding only", "one input pixel each", "less padding")
CONV_PHASES = _rule(
    "CONV-PHASES",
    "the outputs fall into very many parts that see different weights and take an epoch each",
    "a few hundred parts",
    "a smaller stride or dilation",
)
CONV_ROWS = _rule(
    "CONV-ROWS",
    "a copy of the features for all rows does not serve some of them",
    "all rows of a layer at once",
    "--schedule-without stripe",
)
CONV_MODE = _rule(
    "CONV-MODE",
    "no ST program uses this setting of the convolver",
    "settings in ST programs",
    "another padding or kernel size",
    _SEEN,
)
SUM_ROOM = _rule(
    "SUM-ROOM",
    "expected inputs would overflow the accumulator",
    "24 bits inside and between units, 16 from pass to pass",
    "fewer inputs a sum: cut the layer in two and add the results",
)
COARSE = _rule(
    "COARSE",
    "the NPU's rounding would exceed the allowed error",
    "2 LSB, or what --allow-coarse says",
    "check the scales of the layer and of its channels, or accept it with --allow-coarse LSB",
)
PRODUCT_UNPROVEN = _rule(
    "PRODUCT-UNPROVEN",
    "a product of two activations is a convolution whose kernels are written in the same inference",
    "kernels that are constants",
    "leave out what rules out argument S11: --silicon seen, --distrust S11, --schedule-without attention",
    _SEEN,
)
PRODUCT_SMALL = _rule(
    "PRODUCT-SMALL",
    "the CPU is done with so few products before the kernels are packed",
    "tens of thousands of products",
    "nothing: it is the faster way",
)
PRODUCT_ROW = _rule(
    "PRODUCT-ROW",
    "a single row meets a matrix, whose bytes would all be packed as kernels to be used once",
    "rows that share the kernels, or a matrix that is read as features",
    "keep it: the CPU has multiplied before they are packed",
)
PRODUCT_DEPTH = _rule(
    "PRODUCT-DEPTH",
    "sums of so many products may go beyond the 24 bits of a unit",
    "8,388,607; the features of a softmax are at most 2 together",
    "cut the sum into parts and add them",
)
PRODUCT_SHAPE = _rule(
    "PRODUCT-SHAPE",
    "the factors are not matrices that fit the lines of a unit",
    "matrices, a few at a time",
    "reshape the factors",
)
MOVE_SCATTERED = _rule(
    "MOVE-SCATTERED", "the data moves in too many small pieces", "pieces of one epoch", "move larger blocks"
)
MOVE_TYPES = _rule("MOVE-TYPES", "a move between number formats", "int8 to int8", "quantise both to int8")
MOVE_CONSTANT = _rule("MOVE-CONSTANT", "a constant part that is not int8", "int8", "fold the constant")
PAD_TYPE = _rule("PAD-TYPE", "a border of another number format", "int8", "pad after the quantisation")
MEAN = _rule("MEAN", "the NPU has no alternative for a mean over these windows", "fixed windows", "smaller windows")
MEAN_STEEP = _rule(
    "MEAN-STEEP", "one step of the mean is worth several output LSB", "LSB per step", "a coarser output scale"
)
SCALES = _rule("SCALES", "the scales of input and output differ beyond 16 bits", "16 bits", "check the scales")
BROADCAST = _rule(
    "BROADCAST", "an input repeats in a way that one engine cannot walk", "one repeated group", "expand it first"
)
ELEMENTWISE = _rule(
    "ELEMENTWISE",
    "two tensors meet in an operation that no unit was seen to do",
    "add, sub, mul, minimum, maximum",
    "write it with these, or with a function of one value",
    _SEEN,
)
DIV_RECIPROCAL = _rule(
    "DIV-RECIPROCAL",
    "the reciprocal of the divisor does not fit 8 bits",
    "divisors that keep away from zero, quotients that use their range",
    "add a constant to the divisor so that it cannot be zero, or scale the output to its range",
)
MUL_CONSTANT = _rule(
    "MUL-CONSTANT", "the constant factor loses too much in 8 bits", "LSB of error", "quantise the constant"
)
PRELU_SLOPES = _rule("PRELU-SLOPES", "slopes must be constants per channel", "per channel", "LeakyReLU")
RESIZE_LINEAR = _rule(
    "RESIZE-LINEAR",
    "this resize is not a small set of convolutions",
    "integer scales with few phases",
    "an integer scale with half-pixel coordinates, or nearest neighbours",
)
RESIZE_NEAREST = _rule(
    "RESIZE-NEAREST",
    "this resize does not repeat pixels evenly",
    "one image, pixels repeated",
    "an integer scale",
)
TABLE_ERROR = _rule(
    "TABLE-ERROR", "pieces of parabolas do not come close enough to the function", "2 LSB", "a smoother function"
)
WIDE_CODES = _rule(
    "WIDE-CODES",
    "int16 values that are not symmetric, with one scale, beside 8-bit weights",
    "int16, one scale per tensor, zero point 0",
    "quantise it symmetrically, as TFLite's 16x8 does",
)
WIDE_SUMS = _rule(
    "WIDE-SUMS",
    "sums of high or of low bytes leave 16 bits long before the result does",
    "8 times the output range",
    "a larger scale of the output",
)
WIDE_CLIP = _rule(
    "WIDE-CLIP",
    "no published unit clips 16 bits, and saturation reaches these limits in even steps only",
    "limits an even number of LSB from the ends of 16 bits, or below 32,768",
    "a scale with which the clip is an end of the range",
)
WIDE_SHAPES = _rule(
    "WIDE-SHAPES",
    "units add and multiply 16-bit tensors element by element",
    "tensors of one shape, or one that repeats",
    "fold a constant into the layer before, or broadcast first",
)
WIDE_POOLS = _rule(
    "WIDE-POOLS",
    "POOL takes bytes; 16 bits are pooled place by place, which these windows do not allow",
    "up to 9 places, no padding",
    "pad before with a layer of its own, or pool int8",
)
WIDE_LEAKY = _rule(
    "WIDE-LEAKY",
    "a leaky ReLU of 16 bits is a sum of two scaled parts, which would leave 16 bits here",
    "slopes between 0 and 1, no clip behind it",
    "use other slopes, or a clip of its own",
)
WIDE_FUNCTION = _rule(
    "WIDE-FUNCTION",
    "tables of bytes and a line for each high byte do not come close enough to this function of 16 bits",
    "8 LSB (int16)",
    "a scale of the input whose codes lie where the function changes, or 8 bits on both sides",
)
WIDE_FEW = _rule(
    "WIDE-FEW",
    "a function of few values of 16 bits: the NPU would take longer to load its tables",
    "values of one tensor",
    "nothing: it is the faster way",
)

# all of them by id, for files that name one
RULES: Mapping[str, Rule] = {
    one.id: one for one in (*BY_NATURE.values(), *globals().copy().values()) if isinstance(one, Rule)
}

_BYTES = (INT8_CODES, COARSE, PLACE_ALIGNED, RASTER, NOT_CODES, NO_EVIDENCE)
_CONVOLUTION = (
    CONV_WEIGHTS, CONV_SHAPE, CONV_BIAS, CONV_LINES, CONV_PADDING, CONV_PHASES, CONV_MODE, SCALES,
    SUM_ROOM, *_BYTES,
)  # fmt: skip
_MOVES = (LAYOUT, MOVE_SCATTERED, MOVE_TYPES, MOVE_CONSTANT, *_BYTES)
_POOLS = (POOL_SHAPE, LAYOUT, POOL_DILATION, *_BYTES)
_MEANS = (MEAN, MEAN_STEEP, SCALES)
_MAXIMA = (POOL_WINDOW, POOL_LINES, POOL_PICTURE, PICTURE)

# which rules may send an operator that has a recipe to the CPU: of its kind, or else of the module of the recipe
MAY_REFUSE: Mapping[str, tuple[Rule, ...]] = {
    "conv.recipe": _CONVOLUTION,
    "div": (BROADCAST, DIV_RECIPROCAL, ELEMENTWISE, SCALES, *_BYTES),
    "elementwise.binary": (BROADCAST, ELEMENTWISE, MUL_CONSTANT, SCALES, *_BYTES),
    "elementwise.function": (TABLE_ERROR, *_BYTES),
    "prelu": (PRELU_SLOPES, TABLE_ERROR, *_BYTES),
    "move.recipe": (*_MOVES, CPU_GATHER, PAD_TYPE),
    "pool.recipe": (*_POOLS, *_MEANS, *_MAXIMA, POOL_AXES),
    "product.recipe": (PRODUCT_UNPROVEN, PRODUCT_SMALL, PRODUCT_ROW, PRODUCT_DEPTH, PRODUCT_SHAPE, CONV_MODE, *_BYTES),
    "resize_nearest": (RESIZE_NEAREST, *_MOVES),
    "resize_linear": (RESIZE_LINEAR, BY_NATURE["resize_linear"], *_BYTES),
}
