"""What is worth what: every tuned number of the compiler, with the reason for it.

Forms of the same rank are compared by one figure, `objective`: cycles, and on top of them a price of error and a price
of memory. Why one row comes before another, whatever it costs, stands at its decision. Inside a form, before there
are tasks to count cycles of, the same prices are bounds:

- error: settings that are `CLOSER` to exact arithmetic may take up to `CHEAP` times as long, and any layer may take
  `FEW_CYCLES` longer for them (`worth`). Groups of channels get shifts of their own where one shift is not
  `GOOD_ENOUGH`; further groups, each of which mends a share `WORTH` of a layer's values, are a form that `objective`
  compares with that. So 0.4 to 1.1 % of the codes of convolutions are one off, on five networks in the emulator; with a
  group for everything that it mends 0.3 to 0.6 %, in programs that take 4 % longer (predicted, twelve networks); with
  the numbers of ST's 2.x about 2 %, on two of them.
- memory: what may have to lie outside the NPU's own RAM starts its engines at aligned addresses, which costs cycles;
  from which share of that RAM on, `NpuRamBudget` says.

Limits of the hardware are in hw/limits.py. Numbers here may change without a wrong result, only with slower, larger
or less exact ones; the golden cycles of the tests notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from sys import maxsize

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.machine import Machine

# --- cycles
EPOCH_CYCLES = 5000  # to program and start an epoch: 950 and about 600 words of 7 cycles, as usual convolutions have
UNIT_CYCLES = 450  # to program one more convolution unit and the engine that feeds it: 65 words of 7 cycles
MAX_CHAINS = 3  # convolutions side by side, each with its own ARITHs: what published epochs have
WORTH_LANES = 1.1  # how much longer than the flash the units of a layer must take: else lanes wait for the same kernels
LEAST_PICTURE = 1 << 14  # values of an input of type uint8 that are copied with a border: in less its fill costs more
WORTH_BORDER = 1.25  # the same of windows on a copy with a border: the copy takes its time too
MOST_LANE_JOBS = 40  # chains of one layer whose lanes are tried: the search stays short
PACK_REACH = 16  # epochs over which another one moves to run beside an earlier one: branches are about as long
NEARLY = 0.9  # of the most that a move saves, where another place leaves more room for the moves that follow
WORTH_CUTTING = 2048  # elements of a part that runs beside others: a shorter one does not pay for its engines
WORTH_SPLITTING = 4096  # cycles of a copy or a pooling: below, two engines finish no earlier than one
LEAST_PRODUCT = 1 << 15  # products of two activations: the CPU does as many in the time that packing kernels takes
LEAST_FUNCTION = 1 << 12  # values of 16 bits behind three tables: the CPU does as many while these are loaded
FUNCTION_PIECE = 1 << 17  # values at a time: seven bytes of RAM each, and further tables to load do not count any more
MOST_MOVES = 320  # pieces of one copy: beyond, the CPU is the better place
MOST_PARTS = 512  # epochs of one layer or chains of one mean; a stride of 16 has 256 phases
MOST_TRIED = 6  # sizes of batches, the largest first, so that the search stays short
FEWEST_ROWS = 4  # of a band: lower ones read more than half of their lines twice
TURNS_PER_ROW = 4  # loading a coefficient takes as long as streaming so many constants
PIXELS_PER_COPY = 64  # the coefficients are loaded once per part, which smaller parts do not pay for

# --- the search
MOST_BUILDS = 24  # programs of one network: beyond, the last ones brought less than a percent
FRONT_BUILDS = 48  # where all between the fastest and the smallest is wanted: some sizes, each way of each lever
FRONT_STEP = 1.01  # how many times as much RAM counts as more: two programs a few bytes apart are no choice
FRONT_ROOMS = tuple(size << 10 for size in (64, 128, 256, 512, 1024, 2048))  # for weights: about one step in a plot
SLOWER = 1.12  # how many times as long a program may take that needs less memory; over many networks that is less
PEAK_SHARES = (0.85, 1.0)  # of the peak: layers that make up such steps are striped together, many or as few as can be
SPILL_PARTS = (2.0, 1.5, 1.0)  # of the usual size of a band: large bands are shorter programs, if the chip holds them
BAND_PARTS = (0.25, 0.5, 1.0, 2.0)  # of what stays whole around them: small bands need less memory, and take longer
RESIDENT_CUT_CYCLES = 20_000  # that a part of a constant in RAM must save: it takes one more epoch, and another build
FETCH_BYTES = 1024, 1 << 17  # of a copy ahead: each costs 300 cycles of programming; longer frames were hardly seen
MOST_FETCHES = 16  # copies of one constant: more are more programs than they save
LIST_COUNTS = 2, 4, 8, 16, 32, 64  # of copies by the DMA: many come in time, few cost the processor less
LEAST_SAVED = 100  # cycles by copies of the DMA: every step is rounded
LONG_COPY_BYTES = 1 << 20  # whose cycles a byte stand for those of any copy: steps between blocks are a small part
FETCH_ROUNDS = 3  # weights that left the flash make room there for others
WORTH_PER_BYTE = 0.25  # cycles that a byte copied ahead must save

# --- error: layers
NEAR_ENOUGH = 1.08  # in estimates: times what other forms take at least, where no other is built; most layers have 1.05
CHEAP = 1.1  # how many times as long a better form may take
FEW_CYCLES = 8000  # any layer may take so much longer: 8 microseconds, a thousandth of a usual inference
CLOSER = 0.8  # what is left of the mean error in a better form: smaller gains drown in the spread of inputs
FEW_PIXELS = 4  # of layers whose values count for whole channels, as those of squeeze and excite
SOME_CHANNELS = 64  # from which a copy of the features may be worth it: below, sums keep all their bits anyway
MANY_CHANNELS = 100  # above, sums of signed features keep fewer of their bits, and many need several passes
# of a window that is twice as fast on features without a zero point; a border pays with fewer channels too
WINDOW_CHANNELS, WINDOW_OUTPUTS = 8, 16
EXPECTED_MARGIN = 2.5  # how far sums may go beyond those of typical inputs
UNSEEN_MARGIN = 1.5  # and beyond those of inputs that use all codes
SAFE_ERROR = 0.01  # codes of mean error, so one value in a hundred: up to here sums get room for every input
LEAST_ROOM = 1.25  # times the sums of typical inputs that there is room for, wherever units hand them on
USUAL_PART = 0.125  # of the largest sum: what sums usually reach
USUAL_PLACE = 0.75  # of the zero point: most results are small, and behind a ReLU all of them are positive
SPREAD = 40.0  # codes by which results usually differ from the usual one
MOST_SPREADS = 6.0  # standard deviations of independent roundings: one value in a thousand million is further off
TOLERATED = 0.05  # codes by which the largest error may grow where the mean gets smaller

# --- error: groups of channels with a shift of their own
GOOD_ENOUGH = 0.45  # codes of error before the last rounding, which takes half a code anyway
TOO_COARSE = 1.0  # codes of error that are worth smaller groups of kernels
WORTH = 0.0005  # share of a layer's values that must get better for one more group to be a form at all
WORTH_MORE = 0.005  # share of the values of a group of kernels that must get better for two groups
WORTH_MUCH = 0.02  # the same where two groups take twice as long
WORTH_ALWAYS = 0.05  # the same in channels, where some channel is not good enough
USUAL_RESULTS = 40_000  # of a layer; in smaller ones an epoch counts for more
MOST_PIECES, MOST_PIECES_EVER = 6, 24  # groups, where all channels are good enough and where some are not
TELLING_VALUES = 1 << 13  # of a layer, on typical and random inputs: none beyond MOST_CODES counts more than theory
MOST_CODES = 2.0  # that a layer may be from exact arithmetic before it goes to the CPU: the next layer hardly sees them
MOST_SHOWN = 256  # codes of 16 bits in many values of a layer that theory sends to the CPU: one of 8 bits
WIDE_STEP = 32  # codes of 16 bits that count as one of 8 bits where errors are weighed: they are worth an eighth of it


def affordable(cycles: float, fastest: float) -> bool:
    """Whether a better form may take so long."""
    return cycles <= max(CHEAP * fastest, fastest + FEW_CYCLES)


def closer(error: float, other: float) -> bool:
    """Whether a form is so much nearer to exact arithmetic that it may cost something."""
    return error < CLOSER * other


def worth(cycles: float, error: float, other_cycles: float, other_error: float) -> bool:
    """Whether a form is better than another one, cycles and error together."""
    if cycles < other_cycles and error <= other_error:
        return True
    return affordable(cycles, other_cycles) and closer(error, other_error)


# --- the objective: one figure of a form, in cycles
# Of an error that only many roundings reach together: their mean is a sixth of 5 sigmas, that of one is half its most
SELDOM = 0.3
ERROR_CODE_CYCLES = FEW_CYCLES / (1 - CLOSER)  # of a code of error: a fifth of one is what FEW_CYCLES may be spent for
# Share of networks whose activations do not fit the chip: an assumption, twice what the corpus shows. There, on the
# default board, 2 of 70 spill (two deeplabv3, peaks of 30 and 9 MB); the next largest peak, 2.1 MB, stays on the chip.
SPILLING = 0.06


def objective(cycles: float, error: float, scratch_bytes: int, machine: Machine) -> float:
    """Cycles plus the price of error and the price of memory."""
    return cycles + ERROR_CODE_CYCLES * error + scratch_byte_cycles(machine) * scratch_bytes


def scratch_byte_cycles(machine: Machine) -> float:
    """Out and back in, where it has to lie outside."""
    return SPILLING * 2 * machine.hyperram_byte_cycles


# --- memory: shares of the NPU's own RAM
STEP_SHARE = Fraction(13, 14)  # that one step may ask for: the rest is for what lives beside it
HUGE_SHARES = tuple(Fraction(k, 56) for k in (30, 20, 10, 5))  # tried in turn until everything fits; see Room
LARGE_SHARE = Fraction(2, 7)  # of a tensor: two of them and a smaller one fit
BAND_SHARE = Fraction(2, 7)  # for a part of a resized picture, beside the lines that it is made of
COPY_SHARE = Fraction(1, 7)  # of a tensor that is copied from and to any address


@dataclass(frozen=True)
class NpuRamBudget:
    """The NPU's own RAM, where engines start anywhere; elsewhere they start at aligned addresses only. Where there is
    no other RAM, whatever fits lies in it: then no tensor is too large to start its engines anywhere."""

    npu_ram_bytes: int
    huge_share: Fraction = HUGE_SHARES[0]
    other_ram: bool = True
    spends: bool = False  # a faster form may raise the peak of activations

    @property
    def spent_bytes(self) -> int:
        """Peaks below this may become so high: st_yolo_lc takes 15 % less time for 16 % more RAM."""
        return self.step_bytes if self.spends else 0

    @cached_property
    def huge_bytes(self) -> int:
        """Larger tensors start their engines at aligned addresses, at any cost."""
        return self._part(self.huge_share)

    @cached_property
    def half_bytes(self) -> int:
        """No two larger tensors fit, whatever else is tried."""
        return self._part(HUGE_SHARES[0])

    @cached_property
    def large_bytes(self) -> int:
        """Larger tensors start their engines at aligned addresses where that costs little."""
        return min(self._part(LARGE_SHARE), self.huge_bytes)

    @cached_property
    def step_bytes(self) -> int:
        """What one step may ask for."""
        return int(STEP_SHARE * self.npu_ram_bytes)

    @cached_property
    def band_bytes(self) -> int:
        return int(BAND_SHARE * self.npu_ram_bytes)

    @cached_property
    def copy_bytes(self) -> int:
        """Longer copies are cut at aligned addresses."""
        return self._part(COPY_SHARE)

    def _part(self, share: Fraction) -> int:
        """Counts the bytes up to which engines start anywhere in a tensor."""
        return int(share * self.npu_ram_bytes) if self.other_ram else maxsize

    def tighter(self) -> Iterator[NpuRamBudget]:
        """The same RAM with more and more tensors kept out of it."""
        yield from (replace(self, huge_share=share) for share in HUGE_SHARES)


def whole_room(machine: Machine) -> NpuRamBudget:
    """All that the chip has, without the cache, which is RAM only while it is off."""
    return NpuRamBudget(sum(bank.size_bytes for bank in machine.npu_ram))
