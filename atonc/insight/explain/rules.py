"""Why a layer runs as it does: its bottleneck, and which slower form it was given for which property of the model."""

from __future__ import annotations

from atonc.machine.base.reasons import Evidence, Rule, Severity
from atonc.machine.hw.machine import kind_of_label

MODEL = Evidence(report="cycle model calibrated on boards")
FORM = Evidence(report="unit semantics proven on recordings of real chips")


_ALL: list[Rule] = []


def _rule(id: str, sentence: str, remedy: str, limit: str, evidence: Evidence = MODEL) -> Rule:
    """An empty remedy: it is the best form there is, or another rule of the same layer has the remedy."""
    _ALL.append(Rule(id, id.split("-")[0].lower(), sentence, evidence, remedy, limit, Severity.NOTE))
    return _ALL[-1]


BOUNDS = {
    "feature": _rule(
        "BOUND-FEATURE",
        "conv input bandwidth: input activations enter the convolvers one word per cycle",
        "fewer input channels or pixels; more output channels cost nothing until the output port is as busy",
        "1 feature word per cycle and convolver (3 bytes in deep 1x1 mode)",
    ),
    "read": _rule(
        "BOUND-READ",
        "read bandwidth: a stream engine reads one element per cycle",
        "fewer values: drop the layer, or do it where the tensor is smaller",
        "1 element per cycle and engine; short pieces that lie apart cost more",
    ),
    "output": _rule(
        "BOUND-OUTPUT",
        "output bandwidth: results leave the last unit one element per cycle",
        "fewer output channels or pixels; a stride instead of a later pooling",
        "1 element per cycle",
    ),
    "weights": _rule(
        "BOUND-WEIGHTS",
        "conv weight bandwidth: each weight is used for few output pixels; the kernel port takes one word per cycle",
        "let weights serve more pixels (several time steps or windows in one inference), or make the layer smaller",
        "1 kernel word per cycle: about 1 MAC per cycle and kernel byte when a weight is used once",
    ),
    "products": _rule(
        "BOUND-PRODUCTS",
        "compute: all multipliers of a convolver are busy",
        "features of one byte (a zero point that needs no subtraction) are multiplied twice as fast as wider ones",
        "72 multiplications per cycle and convolver; 36 in 16x8 SIMD",
    ),
    "compute": _rule(
        "BOUND-COMPUTE",
        "elementwise throughput: one element per cycle and unit",
        "fuse the operation into the layer before (ReLU, clip and scaling cost nothing there)",
        "1 element per cycle and unit",
    ),
    "convolvers": _rule(
        "BOUND-CONVOLVERS",
        "ST's compiler estimates that the convolvers are the bottleneck, without saying which port",
        "explain a folder that also holds the C file: then the port is known",
        "1 word per cycle at every port of a convolver",
    ),
    "bank": _rule(
        "BOUND-BANK",
        "memory bank bandwidth: one bank serves all streams of the epoch",
        "fewer bytes at once: a smaller tensor, or --mpool with more banks of NPU RAM than the layer has streams",
        "one 8-byte beat per 1.11 cycles (read) or 1.17 (write) on an NPU RAM, per 2.5 on a CPU RAM",
    ),
    "bus": _rule(
        "BOUND-BUS",
        "bus bandwidth: one of the two interfaces between stream engines and bus is saturated",
        "fewer bytes at once: a smaller tensor, or channels in multiples of eight, so that a beat carries more of them",
        "one 8-byte beat each way per 1.11 cycles on each of two interfaces of five engines",
    ),
    "flash": _rule(
        "BOUND-FLASH",
        "flash bandwidth: weights arrive more slowly than the convolvers use them",
        "keep the weights in RAM (--resident), use a faster flash setting (--flash-mbps), or fewer weights",
        "400 MB/s on the discovery kit: 2.5 cycles per byte",
    ),
    "hyperram": _rule(
        "BOUND-HYPERRAM",
        "external RAM bandwidth: data moves more slowly than the units work",
        "make the activations fit on the chip: smaller input, uint8 instead of float edges, --prefer memory",
        "400 MB/s assumed, never measured: 2.5 cycles per byte",
    ),
    "programming": _rule(
        "BOUND-PROGRAMMING",
        "NPU setup: the epoch is so short that writing its registers dominates",
        "merge small layers: fewer, wider ones cost less than many small ones",
        "7 cycles per word of the command stream",
    ),
    "cpu": _rule(
        "BOUND-CPU",
        "the CPU computes this layer while the NPU waits",
        "",
        "800 MHz",
    ),
    "fixed": _rule(
        "BOUND-FIXED",
        "epoch overhead: starting and ending the epoch takes longer than its work",
        "merge small layers",
        "950 cycles per epoch",
    ),
}

BOUND_IN_SHORT = {  # name of the bottleneck, and what it is, for a table
    "feature": ("conv input", "conv input bandwidth"),
    "read": ("stream read", "read bandwidth of a stream engine"),
    "output": ("output", "output bandwidth of the last unit"),
    "weights": ("conv weights", "conv weight bandwidth"),
    "products": ("MACs", "all multipliers are busy"),
    "compute": ("elementwise", "elementwise units are busy"),
    "convolvers": ("convolvers", "convolution units are busy"),
    "bank": ("memory bank", "bandwidth of one memory bank"),
    "bus": ("bus", "bandwidth of a bus interface"),
    "flash": ("flash", "weights read from flash"),
    "hyperram": ("external RAM", "data in external RAM"),
    "programming": ("NPU setup", "register writes of short epochs"),
    "cpu": ("CPU", "layers on the CPU"),
    "fixed": ("epoch overhead", "start and end of short epochs"),
}

ZERO_POINT = _rule(
    "MODE-ZERO-POINT",
    "features whose zero point the unit must subtract are 16 bits wide (16x8 SIMD): half as many kernels at once, no "
    "deep 1x1 mode",
    "quantise activations symmetrically, or end the layer before in ReLU (zero point -128 is stored as 0)",
    "zero point 0, or -128 between convolutions; any zero point where nothing is padded",
    FORM,
)
AWKWARD_CHANNELS = _rule(
    "MODE-CHANNELS",
    "a channel count without small factors: ST's compiler cannot split it and sends the layer to the CPU",
    "for ST's tool a multiple of 16, or two layers side by side",
    "any count here; ST: counts that its splitter can divide",
    Evidence(report="answer of ST's staff to a user with 257 channels"),
)
WIDE_KERNEL = _rule(
    "MODE-WIDE-KERNEL",
    "a kernel larger than 3x3 is cut into pieces whose partial sums meet in a chain or in memory",
    "3x3 kernels, or two 3x3 layers instead of one 5x5",
    "3x3 per convolver",
    FORM,
)
CHANNEL_PASSES = _rule(
    "MODE-PASSES",
    "not all input channels fit into one pass: partial sums wait for the next channels",
    "",
    "kernel memory of a convolver: 576 bytes (3 KB in deep 1x1 mode)",
    FORM,
)
SPLIT = _rule(
    "MODE-SPLIT",
    "the layer takes several epochs, each with its own NPU setup",
    "fewer output channels, equal scales of the output channels, or a kernel of at most 3x3",
    "one epoch: kernels, sums and scales of one setting",
    FORM,
)
DILATED = _rule(
    "MODE-DILATION",
    "a dilated kernel runs as dense kernels on every n-th pixel",
    "dilation 1 where the model allows it",
    "dilation 1",
    FORM,
)
DEPTHWISE = _rule(
    "MODE-DEPTHWISE",
    "a depthwise kernel meets one channel: each feature word is used for one kernel only, so most multipliers are idle",
    "one full 3x3 layer instead of this and the 1x1 beside it, where both are small",
    "at most 9 MAC per cycle and convolver",
    FORM,
)
TABLE = _rule(
    "MODE-TABLE",
    "a function of one byte runs as pieces of parabolas in ACTIV, one element per cycle",
    "ReLU or ReLU6 instead: they are free inside the layer before",
    "24 pieces per function",
    FORM,
)
MOVE = _rule(
    "MODE-MOVE",
    "data is only moved: nothing is computed",
    "remove the transpose, slice or pad from the model, or move it to the edge",
    "1 element per cycle and engine",
    FORM,
)
SPILL = _rule(
    "MODE-SPILL",
    "a tensor of this layer lies in external memory",
    "make the activations fit on the chip: `atonc explain` tries the options",
    "on-chip pools of the board",
)
EXTRA_STEPS = _rule(
    "MODE-PREPARE",
    "an epoch before the layer writes its features without their zero point: then the convolvers take 8-bit features, "
    "and long sums need fewer passes",
    "quantise the input of the layer so that its zero point is -128 (end the layer before in ReLU) or 0",
    "zero point -128 between convolutions, which is stored as 0; any zero point where few channels are summed",
    FORM,
)
PACKED = _rule(
    "MODE-PACKED",
    "both factors of a product of two activations are copied first: one as features without sign, the other as "
    "kernels, in the order in which a convolver reads them",
    "zero points of 0 or -128: fewer convolvers and copies; kernels read from RAM are not yet run on a board",
    "sums of at most 128 products",
    FORM,
)
PADDED = _rule(
    "MODE-PADDED-COPY",
    "this padding has no setting of the convolver: a padded copy of the input is written first",
    "pad evenly and by less than the kernel, or choose a size that needs no padding",
    "paddings that ST programs let the convolver add",
    FORM,
)
BORDERED = _rule(
    "MODE-BORDER",
    "a copy of the input is written first, with its zero point around it where it is padded: the convolver then takes "
    "features of 8 bits, and holds twice as many kernels",
    "quantise activations symmetrically, or end the layer before in ReLU: then no copy is needed",
    "zero point 0, or -128 between convolutions",
    FORM,
)
FAR_SUMS = _rule(
    "MODE-FAR-SUMS",
    "some output channels use accumulator values beyond 16 bits, where rounding would cost several LSB: they are "
    "computed on a copy of the input with a constant channel, whose weights move the accumulator back into 16 bits",
    "check the bias and the output scale of these channels: layers that are zero during calibration get such scales",
    "16 bits of the accumulator leave a convolver",
    FORM,
)
PARTIAL = _rule(
    "MODE-PARTIAL-SUMS",
    "partial sums go through memory: several epochs compute parts of the kernel or of the channels, others add them up",
    "smaller kernels (3x3), or fewer input channels",
    "what one chain of four convolvers holds",
    FORM,
)
WIDE_NUMBERS = _rule(
    "MODE-WIDE-NUMBERS",
    "the features or weights need more than 8 bits in the unit, so it computes fewer products per cycle",
    "int8 features with zero point 0 or -128, int8 weights",
    "8x8 SIMD: 8-bit features and weights",
    FORM,
)
STATIONARY = _rule(
    "MODE-STATIONARY",
    "features stay in the convolver while all kernels pass by: for layers with more weights than features",
    "",
    "features that the unit can hold",
    FORM,
)
GROUPS = _rule(
    "MODE-GROUPS",
    "every group of channels is a convolution of its own, with its own NPU setup",
    "one group, or as many groups as channels (depthwise)",
    "one group, or one channel per group",
    FORM,
)
TRANSPOSED = _rule(
    "MODE-TRANSPOSED",
    "a transposed convolution runs as one dense convolution for every position within the stride",
    "a nearest-neighbour resize and a convolution, or stride 2 with a 2x2 kernel",
    "no unit inserts zeros between pixels",
    FORM,
)
STAGES = _rule(
    "MODE-POOL-STAGES",
    "the window is larger than POOL takes, or padded or strided: it runs in stages, or a convolver pads for it",
    "windows of 2x2 or 3x3 without padding",
    "windows up to 3x3 in one pass",
    FORM,
)
PIECES = _rule(
    "MODE-MEAN-PIECES",
    "the mean is over more values than one pass sums: sums of pieces are added up",
    "pool in two steps, or a smaller image before the mean",
    "one window of the averaging unit",
    FORM,
)
RESIZE = _rule(
    "MODE-RESIZE",
    "no unit resizes: engines repeat pixels, and bilinear values are sums of two neighbours along lines, then columns",
    "nearest neighbours instead of bilinear; factor 2, 4 or 8 where bilinear is needed",
    "1 element per cycle and engine",
    FORM,
)
CONVERSION = _rule(
    "MODE-CONVERSION",
    "zero point, scale or sign change in an epoch of their own",
    "int8 at the edges of the model (--input-data-type, --output-data-type), equal scales on both sides inside",
    "int8 with the scale that the next layer expects",
    FORM,
)

LIBRARY = _rule(
    "CPU-LIBRARY",
    "a function of ST's library computes this on the CPU",
    "compile the model with atonc: `atonc explain MODEL` says which rule applies and what to do",
    "operators that ST's compiler puts on the NPU",
)
CHAINED = _rule(
    "CHAIN-BEHIND",
    "the work is done on the stream of the layer before, in its epochs, so that nothing goes through memory",
    "",
    "chains of units of ST programs, where the cycle model says that they are faster",
)
CARRIES = _rule(
    "CHAIN-CARRIES",
    "the epochs of this layer also do work of the next one, on the stream of its results",
    "",
    "chains of units of ST programs, where the cycle model says that they are faster",
)
APART = _rule(
    "CHAIN-APART",
    "the work could have been done in the epochs of the layer before, and was not",
    "",
    "proven chains, enough units, operands in the same order, a gain by the cycle model, no more memory",
)

BESIDE = _rule(
    "PACK-BESIDE",
    "epochs of this layer run beside independent work, of other layers or of its own, on units that would stand idle",
    "",
    "enough units, no word of the bus with two writers, a gain by the cycle model, no higher peak of memory",
)
CHEAPEST = _rule(
    "FORM-CHEAPEST",
    "several alternatives were possible; the one with the fewest predicted cycles was taken",
    "",
    "cycles, and the prices of rounding and of scratch memory",
)
STRIPED = _rule(
    "ROWS-IN-TURN",
    "this layer and its neighbours compute some rows at a time, in turn, so that what lies between them is never whole",
    "",
    "convolutions one behind the other; row tiles that round as the whole layer does; a faster or smaller program",
)
UNSTRIPED = _rule(
    "ROWS-AT-ONCE",
    "this layer and its neighbours could compute their rows in turn, and do not",
    "",
    "convolutions one behind the other; row tiles that round as the whole layer does; a faster or smaller program",
)


RULES = tuple(_ALL)  # of this file, in its order


def bound_rule(label: str) -> Rule:
    """Finds the rule for a label of the cycle model: its own words, or the name of a memory."""
    return BOUNDS[_bound(label)]


def bound_name(label: str) -> str:
    """What readers see in place of a label; memories keep their names."""
    return BOUND_IN_SHORT[label.lower()][0] if label.lower() in BOUND_IN_SHORT else label


def bound_in_short(label: str) -> str:
    return BOUND_IN_SHORT[_bound(label)][1]


def _bound(label: str) -> str:
    return label.lower() if label.lower() in BOUNDS else kind_of_label(label) or "bank"
