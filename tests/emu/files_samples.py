"""Small networks as ST's compiler would write them, built here line by line."""

from __future__ import annotations

from pathlib import Path

from atonc.machine.hw.ec.blob import Blob
from atonc.machine.hw.ec.instructions import Irq, Label, Write, encode

POOLS = """
/* global pool 8 is 1.00 KB */
/* index=8 file postfix=xSPI2 name=octoFlash offset=0x70380000  absolute_mode size=4088 READ_ONLY THROUGHPUT=MID \
LATENCY=HIGH byte width=1 freq ratio=6 cacheable=ON use4initializers=YES score=50  */
/* global pool 1 is ? */
/* index=1 file postfix=AXISRAM5 name=npuRAM5 offset=0x342e0000  absolute_mode size=458752 READ_WRITE THROUGHPUT=HIGH \
LATENCY=LOW byte width=8 freq ratio=1.25 cacheable=OFF use4initializers=NO score=94  */
/* index=11 file postfix=AXISRAM5_AXISRAM6 name=npuRAM5_npuRAM6 offset=0x342e0000  absolute_mode size=917496 vpool \
READ_WRITE THROUGHPUT=HIGH LATENCY=LOW byte width=8 freq ratio=1.25 cacheable=OFF use4initializers=NO score=85  */
"""

HEADER = """/* made for a test */
/*
 * GIT_BRANCH      "STAI-2.1"
 * GIT_DESCRIPTION "atonn-v1.1.0-31-g00000000"
 *
 * Command Line options:
 * --onnx-input = "some/model.onnx"
 * --optimization = 3
 * --Os = true
 */
#include "ll_aton.h"
#if LL_ATON_VERSION_MAJOR != 1 || LL_ATON_VERSION_DEV != 31
#  warning "other library"
#endif
#if !defined(EXCLUDED)
#  define EXCLUDED 0
#endif
"""

USER_IO = """
static unsigned char *_mem_pool__user_io_input_0_NET = NULL;

LL_ATON_User_IO_Result_t LL_ATON_Set_User_Input_Buffer_NET(uint32_t num, void* buffer, uint32_t size)
{
  if (num == 0) {
    if (size < 64)
      return WRONG_SIZE;
    _mem_pool__user_io_input_0_NET = buffer;
    return NOERROR;
  } else
  {
    return WRONG_INDEX;
  }
}
"""

FUNCTIONS = """
#include "STEM_ecblobs.h"

static void blob_start(const void *epoch_block) {
  LL_ATON_LIB_UNUSED(epoch_block);
  LL_ATON_Cache_MCU_Invalidate_Range(((uintptr_t)(ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR(0x342e0000UL + 128))), 64);
};

static void LL_ATON_End_EpochBlock_4(const void *epoch_block)
{
  static const uint32_t shape_in[] = { 1, 4, 4, 4 };
  static const uint32_t shape_in_mem[] = { 1, 4, 4, 4 };
  static const LL_Buffer_InfoTypeDef info_in[] = {
    {
      .name = "first",
      .addr_base = {(unsigned char *)(0x342e0000UL) /* a comment, in between */},
      .offset_start = 128, .offset_end = 192, .offset_limit = 256,
      .mem_shape = shape_in_mem, .mem_ndims = 4, .chpos = CHPos_Last, .type = DataType_INT8, .nbits = 8,
      .ndims = 4, .shape = shape_in,
    },
    { .name = NULL, }
  };
  LL_ATON_LIB_Concat(info_in, 1, &info_in[0], 1, 2, 3);
}

static void LL_ATON_End_EpochBlock_5(const void *epoch_block)
{
  Dequantizelinear_sw_info info = {
    .general.input.dim.tensor_b = 1,
    .general.input.dim.num_elem = 64,
    .general.input.mem.start_offset = ((unsigned char *)(ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR(0x342e0000UL + 128))),
    .is.mem.start_offset = ((unsigned char *)(0x70380000UL + 4 * 4)),
    .general.type = LL_SW_DEQUANTIZELINEAR,
  };
  ll_sw_forward_dequantizelinear(&info);
}
"""

BLOCKS = """
const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_NET(void) {
  static const EpochBlock_ItemTypeDef list[] = {
    {
      .start_epoch_block = blob_start,
      .end_epoch_block = NULL,
      .blob_address = (uintptr_t)(_ec_blob_1),
      .wait_mask = 0,
      .flags = EpochBlock_Flags_epoch_start | EpochBlock_Flags_epoch_end | EpochBlock_Flags_blob,
#ifdef LL_ATON_EB_DBG_INFO
      .epoch_num = 1,
      .last_epoch_num = 3,
      .estimated_npu_cycles = 1234,
#endif
    },
    {
      .end_epoch_block = LL_ATON_End_EpochBlock_4,
      .wait_mask = 0x00000000,
      .flags = EpochBlock_Flags_epoch_start | EpochBlock_Flags_epoch_end | EpochBlock_Flags_hybrid,
    },
    {
      .end_epoch_block = LL_ATON_End_EpochBlock_5,
      .flags = EpochBlock_Flags_epoch_start | EpochBlock_Flags_epoch_end | EpochBlock_Flags_pure_sw,
    },
    {
      .flags = EpochBlock_Flags_last_eb,
    },
  };
  return list;
}
"""

BUFFERS = """
const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info_NET(void)
{
  static const uint32_t shape[] = { 1, 8, 8, 1 };
  static const float one_scale[] = { 0.00392156885936856 };
  static const int16_t one_offset[] = { -128 };
#if EXCLUDED == 0
  static const uint32_t weights_shape[] = { 4, 1, 1, 4 };
  static const float scales[] = { 0.5, 1.25e-07, 3, 0.25f };
  static const int16_t offsets[] = { 0, 0, 0, 0 };
#endif
  static const LL_Buffer_InfoTypeDef buff_info[] = {
    {
      .name = "image",
      .addr_base = {(unsigned char *)(_mem_pool__user_io_input_0_NET)},
      .offset_start = 0, .offset_end = 64, .offset_limit = 128,
      .is_user_allocated = 1, .is_param = 0, .epoch = 1, .batch = 1,
      .mem_shape = shape, .mem_ndims = 4, .chpos = CHPos_First, .Qm = 7, .Qn = -1, .Qunsigned = 1,
      .type = DataType_UINT8, .nbits = 8, .ndims = 4, .shape = shape,
      .per_channel = 0, .scale = one_scale, .offset = one_offset,
    },
#if EXCLUDED == 0
    {
      .name = "weights",
      .addr_base = {(unsigned char *)(0x70380000UL)},
      .offset_start = 16, .offset_end = 32, .offset_limit = 96, .is_param = 1,
      .mem_shape = weights_shape, .mem_ndims = 4, .chpos = CHPos_Last, .type = DataType_INT8, .nbits = 8,
      .ndims = 4, .shape = weights_shape, .per_channel = 1, .scale = scales, .offset = offsets,
    },
#endif
    { .name = NULL, }
  };
  return buff_info;
}

const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info_NET(void)
{
  static const uint32_t shape[] = { 1, 4, 4, 4 };
  static const LL_Buffer_InfoTypeDef buff_info[] = {
    {
      .name = "answer", .addr_base = {(unsigned char *)(0x342e0000UL)},
      .offset_start = 512, .offset_end = 768, .offset_limit = 832, .mem_shape = shape, .mem_ndims = 4,
      .chpos = CHPos_Last, .type = DataType_FLOAT, .nbits = 32, .ndims = 4, .shape = shape,
    },
    { .name = NULL, }
  };
  return buff_info;
}

const LL_Buffer_InfoTypeDef *LL_ATON_Internal_Buffers_Info_NET(void)
{
  return NULL;
}
"""

HARDWARE_EPOCH = """
static void LL_ATON_Start_EpochBlock_2(const void *epoch_block)
{
  static const LL_Arithacc_InitTypeDef scale_init = {
    .inbytes_x = 2, .outbytes_x = 2, .inbytes_y = 2, .outbytes_y = 2, .rounding_o = 1, .saturation_o = 1,
    .round_mode_o = 1, .outbytes_o = 1, .shift_o = 15, .scalar = 0, .operation = ARITH_AFFINE,
    .bcast = ARITH_BCAST_CHAN, .fWidth = 4, .fHeight = 4, .fChannels = 4, .batchDepth = 2,
    .A_scalar = 1, .B_scalar = 0, .C_scalar = (short)0,
    .A_vector = {((unsigned char *)(ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR(0x70380000UL + 0)))},
    .B_vector = {0}, .C_vector = {0}, .vec_precision = {16, 16, 16},
  };
  LL_Arithacc_Init(0, &scale_init);
  static const LL_Streng_TensorInitTypeDef in = {
    .dir = 0, .raw = 1, .addr_base = {(unsigned char *)(0x342e0000UL)}, .offset_start = 0, .offset_end = 128,
    .offset_limit = 192, .frame_offset = 128, .frame_tot_cnt = 1, .nbits_in = 16, .nbits_out = 16,
  };
  LL_Streng_TensorInit(0, &in, 1);
  static const LL_Streng_TensorInitTypeDef out = {
    .dir = 1, .addr_base = {(unsigned char *)(0x342e0000UL)}, .offset_start = 512, .offset_limit = 640,
    .fwidth = 4, .fheight = 4, .batch_depth = 2, .batch_offset = 4, .frame_offset = 2, .frame_tot_cnt = 2,
    .nbits_in = 8, .nbits_out = 8,
  };
  LL_Streng_TensorInit(6, &out, 1);
  static const LL_Switch_InitTypeDef links[] = {
    { LL_Switch_Init_Dest() = ATONN_DSTPORT(STRSWITCH, 0, ARITH, 0, 0), LL_Switch_Init_Source(0) = \
ATONN_SRCPORT(STRSWITCH, 0, STRENG, 0, 0), LL_Switch_Init_Context(0) = 1, LL_Switch_Init_Frames(0) = 0, }, /* x */
    { LL_Switch_Init_Dest() = ATONN_DSTPORT(STRSWITCH, 0, STRENG, 6, 0), LL_Switch_Init_Source(0) = \
ATONN_SRCPORT(STRSWITCH, 0, ARITH, 0, 0), LL_Switch_Init_Context(0) = 1, LL_Switch_Init_Frames(0) = 0, },
  };
  LL_Switch_Init(links, 2);
  static const LL_ATON_EnableUnits_InitTypeDef on[] = { { {STRENG, 6} }, { {ARITH, 0} }, { {STRENG, 0} }, };
  LL_ATON_EnableUnits_Init(on, 3);
}

static void LL_ATON_End_EpochBlock_2(const void *epoch_block)
{
  static const LL_Switch_DeinitTypeDef links[] = {
    { LL_Switch_Init_Dest() = ATONN_DSTPORT(STRSWITCH, 0, ARITH, 0, 0), },
    { LL_Switch_Init_Dest() = ATONN_DSTPORT(STRSWITCH, 0, STRENG, 6, 0), },
  };
  LL_Switch_Deinit(links, 2);
  static const LL_ATON_DisableUnits_InitTypeDef off[] = { { {STRENG, 6} }, { {ARITH, 0} }, { {STRENG, 0} }, };
  LL_ATON_DisableUnits_Init(off, 3);
}

const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_NET(void) {
  static const EpochBlock_ItemTypeDef list[] = {
    {
      .start_epoch_block = LL_ATON_Start_EpochBlock_2,
      .end_epoch_block = LL_ATON_End_EpochBlock_2,
      .wait_mask = 0x00000040,
      .flags = EpochBlock_Flags_epoch_start | EpochBlock_Flags_epoch_end | EpochBlock_Flags_pure_hw,
    },
    { .flags = EpochBlock_Flags_last_eb, },
  };
  return list;
}
"""


def network_text(name: str = "Default", stem: str = "network") -> str:
    """With epoch controller: a blob, a hybrid and a CPU epoch, a user-allocated input."""
    text = HEADER + POOLS + USER_IO + FUNCTIONS + BLOCKS + BUFFERS
    return text.replace("NET", name).replace("STEM", stem)


def driver_text(name: str = "Default") -> str:
    """Without epoch controller: one hardware epoch."""
    return (HEADER + POOLS + USER_IO + HARDWARE_EPOCH + BUFFERS).replace("NET", name)


def blob_words() -> list[int]:
    return Blob(tuple(encode([Label(1), Write(5, 2, 0x342E0000), Irq(0)]))).words()


def ecblobs_text(array: str = "_ec_blob_1") -> str:
    words = blob_words()
    pairs = [f"0x{high:08x}{low:08x}UL" for low, high in zip(words[::2], words[1::2], strict=True)]
    return f"static const uint64_t {array}[] =\n{{\n  {', '.join(pairs)},\n}};\n"


def write_network(folder: Path, name: str = "Default", stem: str = "network") -> Path:
    """A complete folder; returns the C file."""
    c_file = folder / f"{stem}.c"
    c_file.write_text(network_text(name, stem))
    (folder / f"{stem}_ecblobs.h").write_text(ecblobs_text())
    (folder / f"{stem}_atonbuf.xSPI2.raw").write_bytes(bytes(range(32)))
    return c_file


def hex_record(address: int, kind: int, data: bytes) -> str:
    body = bytes([len(data), address >> 8 & 0xFF, address & 0xFF, kind]) + data
    return f":{(body + bytes([-sum(body) & 0xFF])).hex().upper()}\n"


def hex_text(address: int, data: bytes) -> str:
    """An Intel hex file of one run inside one 64 KiB page."""
    lines = [hex_record(0, 4, (address >> 16).to_bytes(2, "big"))]
    for start in range(0, len(data), 16):
        lines.append(hex_record((address & 0xFFFF) + start, 0, data[start : start + 16]))
    return "".join(lines) + hex_record(0, 1, b"")
