"""One planted fault per line: which epoch, what is broken, which rule must say so and which others may."""

from __future__ import annotations

from dataclasses import replace

from atonc.machine.hw.epoch import Event
from atonc.machine.hw.units.activ import RELU, THRESHOLD_RELU
from atonc.machine.hw.units.arith import MIN, MULTIPLY
from atonc.machine.hw.units.decompress import DecunConfig
from tests.hw import safety_epochs as legal
from tests.hw.safety_parts import (
    CPU_RAM2,
    FLASH,
    NPU_RAM3,
    NPU_RAM4,
    NPU_RAM5,
    add,
    affine,
    bias,
    change,
    exchange,
    features,
    gated,
    kernels,
    limited,
    reader,
    writer,
)
from tests.hw.safety_plants import (
    Fault,
    activ_into_convacc,
    common_source,
    flat,
    four_channels,
    interleaved,
    masked_line,
    moved,
    one_channel,
    one_frame,
    other_kernel,
    pool_into_convacc,
    raster,
    ring_of_two,
    shallow,
    sided,
    six_writers,
    swap,
    swapped_pools,
    three_convaccs,
    without,
)

CONV, LOOP, ADD, MEAN = legal.convolution, legal.memory_loop, legal.addition, legal.global_average
POOLED = legal.pooling

WIRING = [
    Fault("W01", "a unit without links", lambda: add(CONV(), ARITH3=affine()), ("W11", "W13")),
    Fault(
        "W02",
        "a link to a unit that is not enabled",
        lambda: exchange(CONV(), "ARITH1 > STRENG6", "ARITH1 > STRENG9"),
        ("W01", "W06"),
    ),
    Fault("W03", "two sources on one port", lambda: add(ADD(), "STRENG7 > ARITH0:0", STRENG7=reader(NPU_RAM5, 512))),
    Fault(
        "W04",
        "a link that alternates between two sources",
        lambda: exchange(LOOP(), "CONVACC0 > ARITH0", replace(gated("CONVACC0", "ARITH0", 0, 3, 1), other_source=11)),
    ),
    Fault("W05", "a reader with an input", lambda: add(ADD(), "STRENG0 > STRENG5")),
    Fault(
        "W06",
        "a writer that feeds a unit",
        lambda: exchange(ADD(), "STRENG5 > ARITH0:1", "STRENG6 > ARITH0:1"),
        ("W01", "W05", "W14"),
    ),
    Fault("W07", "no writer", lambda: without(ADD(), "STRENG6"), ("W13",)),
    Fault("W08", "a missing link", lambda: exchange(CONV(), "STRENG0 > CONVACC0:0", None), ("W01", "W05", "B01")),
    Fault("W08", "no kernels", lambda: exchange(CONV(), "STRENG5 > CONVACC0:1", None), ("W01", "W05", "B01")),
    Fault(
        "W09",
        "the kernel port fed by an ARITH",
        lambda: add(
            exchange(CONV(), "STRENG5 > CONVACC0:1", "STRENG5 > ARITH3"), "ARITH3 > CONVACC0:1", ARITH3=affine()
        ),
    ),
    Fault("W10", "accumulating without a source", lambda: change(CONV(), "CONVACC0", no_sum=0)),
    Fault("W10", "an accumulator input that is not used", lambda: change(LOOP(), "CONVACC0", no_sum=1)),
    Fault("W11", "DUALIN without port Y", lambda: exchange(ADD(), "STRENG5 > ARITH0:1", None), ("W01", "W05", "B01")),
    Fault("W11", "port Y without DUALIN", lambda: change(ADD(), "ARITH0", dual_input=0)),
    Fault(
        "W12",
        "an ACTIV without input",
        lambda: exchange(legal.activation(), "STRENG0 > ACTIV0", None),
        ("W01", "W05", "B01"),
    ),
    Fault("W13", "an output that feeds nothing", lambda: exchange(CONV(), "ARITH1 > STRENG6", "ARITH0 > STRENG6")),
    Fault(
        "W14",
        "an ARITH that feeds itself",
        lambda: exchange(ADD(), "STRENG5 > ARITH0:1", "ARITH0 > ARITH0:1"),
        ("W01", "W05", "B01", "B05"),
    ),
    Fault("W15", "POOL1 feeds POOL0", swapped_pools),
    Fault(
        "W16",
        "TICKTYPE set",
        lambda: exchange(LOOP(), "CONVACC0 > ARITH0", replace(gated("CONVACC0", "ARITH0", 0, 3, 1), tick_type=1)),
    ),
    Fault(
        "W17",
        "a gate of another form",
        lambda: exchange(
            legal.chained_features(), "ARITH2 > CONVACC0", replace(limited("ARITH2", "CONVACC0", 2), frames1=9)
        ),
        ("H3",),
    ),
]

BALANCE = [
    Fault("B01", "a starved writer", lambda: swap(CONV(), STRENG6=writer(NPU_RAM3, 2048, 3))),
    Fault("B01", "a writer that stops early", lambda: swap(CONV(), STRENG6=writer(NPU_RAM3, 2048, 1))),
    Fault("B02", "half a feature frame", lambda: swap(CONV(), STRENG0=features(NPU_RAM5, 1024, 5))),
    Fault("B03", "half a frame into a POOL", lambda: swap(legal.pooling(), STRENG0=reader(NPU_RAM5, 72, 9))),
    Fault("B04", "a kernel stream that is too short", lambda: swap(CONV(), STRENG5=kernels(8 * 8 * 9)), ("B01",)),
    Fault("B05", "port Y runs dry", lambda: swap(ADD(), STRENG5=reader(NPU_RAM4, 256)), ("B01",)),
    Fault(
        "B06",
        "sums of another number of frames",
        lambda: swap(legal.chain(), STRENG0=features(NPU_RAM5, 2304, 1)),
        ("B04",),
    ),
    Fault("B07", "a reader without frames", lambda: change(ADD(), "STRENG0", frames=0), ("B01", "B05")),
]

ORDER = [
    Fault("O01", "a writer configured first", lambda: moved(CONV(), "configure", "STRENG6", 0)),
    Fault("O02", "a reader enabled first", lambda: moved(CONV(), "enable", "STRENG0", 9)),
    Fault(
        "O03",
        "a unit that is not enabled",
        lambda: replace(CONV(), events=tuple(e for e in CONV().events if e != Event("enable", "ARITH1"))),
    ),
    Fault(
        "O03",
        "a unit that stays enabled",
        lambda: replace(CONV(), events=tuple(e for e in CONV().events if e != Event("disable", "ARITH1"))),
    ),
    Fault("O04", "a wrong wait mask", lambda: replace(CONV(), waits=("STRENG0",))),
    Fault("O04", "a writer that nobody waits for", lambda: replace(LOOP(), waits=("STRENG6",))),
    Fault("O05", "waits in descending order", lambda: replace(LOOP(), waits=("STRENG8", "STRENG6"))),
    Fault(
        "O06",
        "another timeout",
        lambda: replace(
            CONV(), events=tuple(replace(e, detail=(0, 7)) if e.what == "wait" else e for e in CONV().events)
        ),
    ),
    Fault(
        "O07",
        "links before the switch is cleared",
        lambda: moved(CONV(), "switch clear", "STRSWITCH0", 8),
    ),
    Fault("O07", "links after a unit runs", lambda: moved(CONV(), "link", "STRSWITCH0", 12)),
    Fault("O08", "links cut before the end", lambda: moved(CONV(), "unlink", "STRSWITCH0", 14)),
]

MEMORY = [
    Fault("M01", "no address limit", lambda: change(CONV(), "STRENG0", address_limit_enabled=0)),
    Fault("M02", "no event for illegal settings", lambda: change(CONV(), "STRENG0", illegal_config_event=0)),
    Fault("M03", "a limit inside the buffer", lambda: change(CONV(), "STRENG0", address_limit=NPU_RAM5 + 0x800)),
    Fault("M04", "no room for prefetch", lambda: change(CONV(), "STRENG0", address_limit=NPU_RAM5 + 4096 + 8)),
    Fault("M05", "frames below the start", lambda: change(CONV(), "STRENG6", frame_offset=-2048)),
    Fault("M06", "pixels that overlap", lambda: change(legal.copy(), "STRENG5", pixel_offset_low=4)),
    Fault("M07", "lines that overlap", lambda: change(legal.copy(), "STRENG5", line_offset_low=128)),
    Fault(
        "M08",
        "a flash address that is no multiple of 16",
        lambda: change(CONV(), "STRENG5", address=FLASH + 8, address_limit=FLASH + 0x1000),
    ),
    Fault("M09", "cpuRAM not aligned", lambda: swap(CONV(), STRENG6=writer(CPU_RAM2 + 8, 2048, 2))),
    Fault("M10", "cacheable on-chip memory", lambda: change(CONV(), "STRENG0", cacheable=1)),
    Fault("M11", "flash past the cache", lambda: change(CONV(), "STRENG5", cacheable=0)),
    Fault(
        "M12",
        "features from flash kept in the cache",
        lambda: swap(CONV(), STRENG0=features(FLASH, 2048, 2, cacheable=1, cache_allocate=1)),
    ),
    Fault("M13", "a write to flash", lambda: swap(CONV(), STRENG6=writer(FLASH, 2048, 2))),
    Fault("M14", "an engine behind the end of memory", lambda: swap(CONV(), STRENG6=writer(0x343F_F800, 2048, 2))),
    Fault("M18", "packed words at odd places", lambda: raster(2, 4, 8, pixel=27, word=3)),
    Fault("M18", "packed words that begin at an odd address", lambda: raster(2, 4, 8, offset=1, word=3)),
    Fault("M16", "two slices of channels that share words", lambda: interleaved(0)),
]

ACCUMULATORS = [
    Fault("A01", "AFILT without a loop", lambda: change(CONV(), "CONVACC0", accumulator_filter=3)),
    Fault("A01", "a loop without AFILT", lambda: change(LOOP(), "CONVACC0", accumulator_filter=0)),
    Fault("A02", "GEN1SUM without a ring", lambda: change(CONV(), "CONVACC0", generate_first_sum=1), ("A01",)),
    Fault(
        "A02", "a ring without GEN1SUM", lambda: change(legal.ring(), "CONVACC0", generate_first_sum=0), ("A01", "A06")
    ),
    Fault("A03", "a ring of two units", ring_of_two),
    Fault("A04", "feedback with another shift", lambda: change(legal.ring(), "CONVACC0", in_shift=1)),
    Fault("A05", "a chain of unlike units", lambda: change(legal.chain(), "CONVACC0", simd=2)),
    Fault("A06", "a chain that passes 16-bit sums", lambda: change(legal.chain(), "CONVACC0", out_bytes=2)),
    Fault("A07", "sums read as unsigned bytes", lambda: change(LOOP(), "STRENG7", size1=0, sign_extend=0), ("U16",)),
    Fault(
        "A08",
        "sums read from another place",
        lambda: change(LOOP(), "STRENG7", address=NPU_RAM4 + 0x1000, address_limit=NPU_RAM4 + 0x2000),
        ("A09",),
    ),
    Fault("A09", "sync with an engine that does not write", lambda: change(LOOP(), "STRENG7", sync_source=0)),
    Fault("A09", "sync of a feature reader", lambda: change(LOOP(), "STRENG0", sync=1)),
    Fault("A10", "missing sync below 768 elements", lambda: change(LOOP(), "STRENG7", sync=0)),
    Fault("A11", "sync on a long frame", lambda: LOOP(side=12)),
]

MODES = [
    Fault("U01", "a register that nobody knows", lambda: change(CONV(), "CONVACC0", unmodelled=(("CTRL.KT1", 1),))),
    Fault("U02", "a DECUN", lambda: add(CONV(), DECUN0=DecunConfig()), ("W01",)),
    Fault("U03", "a kernel of 4 x 4", lambda: other_kernel(4, 4, count=4)),
    Fault("U04", "16 kernels of 3 x 3", lambda: other_kernel(3, 3, count=16)),
    Fault("U05", "no rounding", lambda: change(CONV(), "CONVACC0", rounded=0)),
    Fault(
        "U06",
        "deep mode with 3 x 3",
        lambda: change(
            legal.deep(), "CONVACC0", kernel_width=3, kernel_height=3, pad_left=1, pad_right=1, pad_top=1, pad_bottom=1
        ),
        ("B01", "B04", "U04"),
    ),
    Fault(
        "U07",
        "DSS2 with 5 x 5",
        lambda: change(legal.strided_convolution(), "CONVACC0", dss2=1, kernel_width=5, kernel_height=5),
        ("B01", "B04", "U03", "U04"),
    ),
    Fault(
        "U08",
        "unsigned kernels, signed features",
        lambda: change(CONV(), "CONVACC0", kernels_unsigned=1, features_unsigned=0),
    ),
    Fault("U09", "an ARITH that takes the minimum", lambda: change(ADD(), "ARITH0", operation=MIN)),
    Fault("U10", "an ARITH with three bytes", lambda: change(ADD(), "ARITH0", bytes_x=3, out_bytes_x=3)),
    Fault("U11", "the plain ReLU", lambda: change(legal.activation(), "ACTIV0", type=RELU)),
    Fault("U12", "a ReLU at zero", lambda: change(legal.activation(), "ACTIV0", type=THRESHOLD_RELU)),
    Fault("U13", "padding in a POOL", lambda: change(legal.pooling(), "POOL0", pad_left=1)),
    Fault("U14", "a line that a POOL cannot hold", lambda: change(legal.pooling(), "POOL0", batch=9), ("B01",)),
    Fault("U15", "elements of 4 bits", lambda: change(ADD(), "STRENG0", size0=4)),
    Fault("U16", "right aligned without sign", lambda: change(CONV(), "STRENG0", align_right=1)),
    Fault("U17", "settings that nobody combines", lambda: change(CONV(), "CONVACC0", raw_out=1)),
    Fault("U18", "kernels of 4 bits", lambda: change(CONV(), "STRENG5", size0=4, align_right=1, sign_extend=1)),
    Fault("U19", "a line of too many pixels", lambda: raster(1, 2101, 4)),
    Fault("U19", "pixels too far apart", lambda: raster(1, 4, 4, pixel=41_473)),
    Fault("U19", "pixels of too many elements", lambda: raster(3, 4, 257)),
]

VALUES = [
    Fault("E01", "a product with coefficients", lambda: change(ADD(), "ARITH0", operation=MULTIPLY, out_bytes=2)),
    Fault("E01", "OUTDIMS of what comes out", lambda: change(MEAN(), "POOL0", out_width=1, out_height=1)),
    Fault("E01", "a single raster", lambda: swap(legal.copy(), STRENG0=reader(NPU_RAM5, 512), STRENG5=one_frame(0))),
    Fault("E01", "a result in a loop of one turn", lambda: swap(ADD(), STRENG6=one_frame(frame_repeat=1))),
    Fault("E01", "24 channels in deep mode", lambda: shallow(24)),
    Fault("V04", "one channel", one_channel),
    Fault("E01", "two columns of padding", lambda: sided(16, 16, (1, 2, 1, 0))),
    Fault("E01", "two lines of padding", lambda: sided(16, 16, (0, 1, 2, 1))),
    Fault("E01", "a window over one line", lambda: sided(16, 1, (1, 1, 1, 1))),
    Fault("E01", "a window over one column", lambda: sided(1, 16, (1, 1, 1, 1))),
    Fault("E01", "sums of 16 elements through memory", lambda: LOOP(side=1)),
    Fault("E01", "3 x 3 over four channels", lambda: swap(POOLED(), POOL0=four_channels(12), POOL1=four_channels(10))),
    Fault("V09", "the lowest coefficient", lambda: change(ADD(), "ARITH0", a=-32768)),
    Fault("E01", "a table of one row", lambda: swap(CONV(), ARITH1=bias(256, 1, 1))),
    Fault("V09", "a shift that no table has", lambda: change(CONV(), "ARITH1", shift_out=36)),
    Fault("E01", "a long table behind the first window", lambda: swap(CONV(), ARITH1=bias(256, 400, 8))),
    Fault("E01", "a short table behind the second window", lambda: change(CONV(), "ARITH1", translate=0)),
]

FORMS = [
    Fault(
        "P01",
        "POOL feeds ACTIV",
        lambda: add(
            exchange(legal.pooling(), "POOL1 > STRENG5", "POOL1 > ACTIV0"),
            "ACTIV0 > STRENG5",
            ACTIV0=legal.activation().units["ACTIV0"],
        ),
    ),
    Fault("P02", "POOL feeds CONVACC", pool_into_convacc),
    Fault(
        "P03",
        "five ARITH in a row",
        lambda: add(
            exchange(
                exchange(CONV(), "STRENG0 > CONVACC0:0", "STRENG0 > ARITH2"), "ARITH0 > ARITH1", "ARITH0 > ARITH3"
            ),
            "ARITH3 > ARITH1",
            limited("ARITH2", "CONVACC0", 2),
            ARITH2=affine(rounded=0, saturated=0),
            ARITH3=affine(),
        ),
    ),
    Fault(
        "E02",
        "an unusual pair",
        lambda: add(
            legal.pooling(),
            "STRENG2 > ACTIV0",
            "ACTIV0 > STRENG3",
            STRENG2=reader(NPU_RAM4, 512),
            STRENG3=writer(NPU_RAM4 + 0x1000, 512),
            ACTIV0=legal.activation().units["ACTIV0"],
        ),
    ),
    Fault(
        "P05",
        "a POOL with three readers",
        lambda: add(
            legal.pooling(),
            "POOL1 > STRENG2",
            "POOL1 > STRENG3",
            STRENG2=writer(NPU_RAM4, 64, 4),
            STRENG3=writer(NPU_RAM4 + 0x1000, 64, 4),
        ),
    ),
    Fault(
        "P06",
        "a gate between two ARITH",
        lambda: exchange(CONV(), "ARITH0 > ARITH1", gated("ARITH0", "ARITH1", 0, 1, 1)),
        ("B01",),
    ),
    Fault("P07", "six writers", six_writers),
    Fault("E01", "a shift that was not seen", lambda: change(CONV(), "CONVACC0", out_shift=13, in_shift=13), ("U04",)),
]

HAZARDS = [
    Fault("H1", "ACTIV into CONVACC", activ_into_convacc),
    Fault("H2", "three CONVACC fed by one ARITH", three_convaccs),
    Fault(
        "H3",
        "an ungated ARITH into CONVACC",
        lambda: exchange(legal.chained_features(), "ARITH2 > CONVACC0", "ARITH2 > CONVACC0"),
    ),
    Fault("H4", "stride 2 on a frame of one line", lambda: flat(stride=2), ("U03",)),
    Fault("H5", "unequal strides", lambda: change(CONV(), "CONVACC0", stride_x=2), ("B01",)),
    Fault("H6", "a kernel of one column and three lines", lambda: other_kernel(1, 3), ("U03",)),
    Fault("H7", "a kernel of six columns", lambda: other_kernel(6, 3, count=4)),
    Fault("H8", "weights at the end of flash", lambda: swap(CONV(), STRENG5=kernels(1152, address=0x7800_0000 - 1152))),
    Fault("H9", "results where the loader lives", lambda: swap(CONV(), STRENG6=writer(CPU_RAM2 + 0x8_0000, 2048, 2))),
    Fault("H10", "a result over its input", lambda: swap(CONV(), STRENG6=writer(NPU_RAM5 + 1024, 2048, 2))),
    Fault("H11", "a 1x1 unit of the first of eight lines", lambda: masked_line(0)),
    Fault("H11", "a 1x1 unit of the last of eight lines", lambda: masked_line(7)),
    Fault("H11", "windows that leave out five columns", lambda: change(CONV(), "CONVACC0", crop_right=87), ("B01",)),
    Fault("H12", "a part of a frame of one column", lambda: masked_line(7, columns=1), ("H11",)),
    Fault("H12", "a part of a frame of one line", lambda: change(flat(stride=1), "CONVACC0", crop_left=8), ("B01",)),
    Fault("H13", "units of one source that end at different lines", lambda: common_source(crop_bottom=13)),
    Fault("H13", "units of one source that begin three lines apart", lambda: common_source(crop_top=3)),
]

FAULTS = [*WIRING, *BALANCE, *ORDER, *MEMORY, *ACCUMULATORS, *MODES, *VALUES, *FORMS, *HAZARDS]
