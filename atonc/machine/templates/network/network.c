/* @name@.c: a neural network for the STM32N6@model@, written by @tool@. Do not edit. */

/* For ST's N6_reloc: whether there are programs in a file of their own, and the runtime of the images that
 * it makes of this file (generate --runtime); the C code compiles with any.
 *   --enable-epoch-controller = @epoch_controller@
LL_ATON_VERSION_MAJOR @major@ LL_ATON_VERSION_MINOR @minor@ LL_ATON_VERSION_MICRO @micro@ LL_ATON_VERSION_DEV @dev@
 */


#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ll_aton_version.h"
#include "ll_aton_NN_interface.h"
#include "ll_aton.h"
#include "ll_aton_lib.h"
#include "ll_aton_caches_interface.h"
@begin kernels_apart@
#include "@kernels_header@"
@end kernels_apart@
@begin has_custom@

/* C operators of the user, in files of their own beside this one. */
#include "atonc_custom.h"
#define atonc_custom(function, cycles, ...) function(__VA_ARGS__) /* cycles: what the prediction counts, below 0 where nobody declared them */
@begin prototypes@
@prototype@
@end prototypes@
@end has_custom@

@begin pools@
/* global pool @k@ is @used@ */
/* index=@k@ file postfix=@symbol@ name=@pool@ offset=@base@  @mode@_mode size=@size@ @rights@ THROUGHPUT=@throughput@ LATENCY=@latency@ byte width=@byte_width@ freq ratio=@freq_ratio@ cacheable=@cacheable@ read_power=@read_power@ write_power=@write_power@ use4initializers=@constants@ */
@end pools@


/* Releases of the runtime differ; this file compiles with those of Core 2.0 to 4.0. */
#define ATONC_LL_ATON_VERSION (LL_ATON_VERSION_MAJOR * 10000 + LL_ATON_VERSION_MINOR * 100 + LL_ATON_VERSION_MICRO)

@-- 1.1.3-8 (Core 3.0) still has one argument, 1.1.3-262 (Core 4.0) has two; nothing between them was published
/* Epoch functions take the epoch block, in later releases also the network instance. */
#if !defined(ATONC_EPOCH_ARGUMENT_COUNT)
#  if ATONC_LL_ATON_VERSION > 10103 || (ATONC_LL_ATON_VERSION == 10103 && LL_ATON_VERSION_DEV >= 100)
#    define ATONC_EPOCH_ARGUMENT_COUNT 2
#  else
#    define ATONC_EPOCH_ARGUMENT_COUNT 1
#  endif
#endif
#if ATONC_EPOCH_ARGUMENT_COUNT == 2
#  define ATONC_EPOCH_ARGUMENTS \
    const LL_ATON_RT_EpochBlockItem_t *epoch_block __attribute__((unused)), \
    const NN_Instance_TypeDef *nn_instance __attribute__((unused))
#else
#  define ATONC_EPOCH_ARGUMENTS const void *epoch_block __attribute__((unused))
#endif
#if defined(__GNUC__) && !defined(__cplusplus) && __STDC_VERSION__ >= 201112L
_Static_assert(__builtin_types_compatible_p(EpochBlock_FuncPtr_t, void (*)(ATONC_EPOCH_ARGUMENTS)),
               "define ATONC_EPOCH_ARGUMENT_COUNT as 1 or 2, as EpochBlock_FuncPtr_t of this runtime has it");
#endif

#if !defined(LL_ATON_DBG_BUFFER_INFO_EXCLUDED)
#  define LL_ATON_DBG_BUFFER_INFO_EXCLUDED 0
#endif

#if defined(__has_include)
#  if __has_include("@name@_memories.h")
#    include "@name@_memories.h"
#  endif
#endif

bool LL_ATON_EC_Network_Init_@net@(void);
bool LL_ATON_EC_Inference_Init_@net@(void);
LL_ATON_User_IO_Result_t LL_ATON_Set_User_Input_Buffer_@net@(uint32_t num, void *buffer, uint32_t size);
void *LL_ATON_Get_User_Input_Buffer_@net@(uint32_t num);
LL_ATON_User_IO_Result_t LL_ATON_Set_User_Output_Buffer_@net@(uint32_t num, void *buffer, uint32_t size);
void *LL_ATON_Get_User_Output_Buffer_@net@(uint32_t num);
const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_@net@(void);
const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info_@net@(void);
const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info_@net@(void);
const LL_Buffer_InfoTypeDef *LL_ATON_Internal_Buffers_Info_@net@(void);
#if ATONC_LL_ATON_VERSION >= 10103
const LL_Streng_EncryptionTypedef *LL_ATON_WeightEncryption_Info_@net@(void);
const LL_Streng_EncryptionTypedef *LL_ATON_BlobEncryption_Info_@net@(void);
#endif

@begin plain@
#if ATONC_LL_ATON_VERSION >= 10103
/* Neither weights nor programs are encrypted. */
static const LL_Streng_EncryptionTypedef atonc_no_encryption = {
  .enable = 0,
};

const LL_Streng_EncryptionTypedef *LL_ATON_WeightEncryption_Info_@net@(void)
{
  return &atonc_no_encryption;
}

const LL_Streng_EncryptionTypedef *LL_ATON_BlobEncryption_Info_@net@(void)
{
  return &atonc_no_encryption;
}
#endif
@end plain@
@begin encrypted@
/* Engines decipher @encrypted_bytes@ bytes at @encrypted_start@: @encrypted_file@ must be encrypted there
 * before it goes into flash. Nobody has seen it run on a board. Identification 0, 12 rounds, key 0, no increment.
 * Programs are not encrypted.
 *
 * Define this function in the application: it is called when the network is initialised, and writes the same key into
 * key 0 of both bus interfaces (LL_Busif_SetKeys of ll_aton_cipher.c), from wherever the application keeps it. This one
 * does nothing, for applications that have done so by then; without keys the outputs are noise.
 */
void ATONC_Set_Keys_@net@(void);
__attribute__((weak)) void ATONC_Set_Keys_@net@(void)
{
}

#if ATONC_LL_ATON_VERSION >= 10103
const LL_Streng_EncryptionTypedef *LL_ATON_WeightEncryption_Info_@net@(void)
{
  static const LL_Streng_EncryptionTypedef weights = {
    .enable = 1,
    .encryption_id = 0,
    .rounds = 0, /* 12 */
    .key_sel = 0,
    .increment = 0,
  };

  return &weights;
}

const LL_Streng_EncryptionTypedef *LL_ATON_BlobEncryption_Info_@net@(void)
{
  static const LL_Streng_EncryptionTypedef programs = {
    .enable = 0,
  };

  return &programs;
}
#endif
@end encrypted@
@begin relative@

@relative_pools@
@end relative@
@begin has_users@

@begin all_users@
/* @what@ @index@, @label@: @size@ bytes */
static unsigned char *@symbol@ = NULL;
@end all_users@
@end has_users@
@begin directions@

LL_ATON_User_IO_Result_t LL_ATON_Set_User_@direction@_Buffer_@net@(uint32_t num, void *buffer, uint32_t size)
{
@begin fixed@
  LL_ATON_LIB_UNUSED(num);
  LL_ATON_LIB_UNUSED(buffer);
  LL_ATON_LIB_UNUSED(size);
  return LL_ATON_User_IO_WRONG_INDEX; /* part of the activations */
@end fixed@
@begin users@
  if (num == @index@) {
    if (((uintptr_t)buffer % @alignment@) != 0) {
      return LL_ATON_User_IO_WRONG_ALIGN;
    }
    if (size < @size@) {
      return LL_ATON_User_IO_WRONG_SIZE;
    }
    @symbol@ = (unsigned char *)buffer;
    return LL_ATON_User_IO_NOERROR;
  }
@end users@
@begin supplied@
  return LL_ATON_User_IO_WRONG_INDEX;
@end supplied@
}

void *LL_ATON_Get_User_@direction@_Buffer_@net@(uint32_t num)
{
@begin fixed@
  LL_ATON_LIB_UNUSED(num);
@end fixed@
@begin users@
  if (num == @index@) {
    return @symbol@;
  }
@end users@
  return NULL;
}
@end directions@

#if defined(ATONC_RUNTIME)
#include "atonc_runtime.h"

/* Checked when the network is initialised. With ATONC_CHECK_IMAGES 0 constants are not read for that. */
#if !defined(ATONC_CHECK_IMAGES)
#  define ATONC_CHECK_IMAGES 1
#endif
static const atonc_memory_t atonc_memories[] = {
@begin ranges@
  { .base = @start@, .size = @size@U@contents@ }, /* @pool@ */
@end ranges@
  { .size = 0 },
};
#endif
@begin resident@

@residents_text@
@end resident@
@begin has_copies@

@copies_text@
@end has_copies@
@begin has_states@

@states_text@
@end has_states@

@programs@
@begin has_functions@

@functions@
@end has_functions@

const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_@net@(void)
{
  static const EpochBlock_ItemTypeDef blocks[] = {
@begin blocks@
    {
      .start_epoch_block = @start@,
      .end_epoch_block = @end@,
@begin has_blob@
      .blob_address = (uintptr_t)(@blob@_address),
@end has_blob@
      .wait_mask = @wait_mask@,
      .flags = EpochBlock_Flags_epoch_start | EpochBlock_Flags_epoch_end | @flags@,
#ifdef LL_ATON_EB_DBG_INFO
      .epoch_num = @first@,
      .last_epoch_num = @last@,
      .in_streng_mask = @readers@,
      .out_streng_mask = @writers@,
      .estimated_npu_cycles = @npu_cycles@,
      .estimated_tot_cycles = @total_cycles@,
#endif
    },
@end blocks@
    {
      .flags = EpochBlock_Flags_last_eb,
    },
  };

  return blocks;
}
@begin tables@

const LL_Buffer_InfoTypeDef *LL_ATON_@kind@_Buffers_Info_@net@(void)
{
@begin rows@
@begin guard@
#if LL_ATON_DBG_BUFFER_INFO_EXCLUDED == 0
@end guard@
  static const uint32_t @prefix@_shape[] = { @shape@ };
  static const uint32_t @prefix@_mem_shape[] = { @mem_shape@ };
@begin scaled@
  static const float @prefix@_scale[] = { @scales@ };
  static const int16_t @prefix@_offset[] = { @offsets@ };
@end scaled@
@begin guard_end@
#endif
@end guard_end@
@end rows@
  static const LL_Buffer_InfoTypeDef buff_info[] = {
@begin rows@
@begin guard@
#if LL_ATON_DBG_BUFFER_INFO_EXCLUDED == 0
@end guard@
    {
      .name = "@label@",
      .addr_base = {(unsigned char *)(@pointer@)},
      .offset_start = @offset_start@,
      .offset_end = @offset_end@,
      .offset_limit = @offset_limit@,
      .is_user_allocated = @user@,
      .is_param = @param@,
      .epoch = @epoch@,
      .batch = @channels@,
      .mem_shape = @prefix@_mem_shape,
      .mem_ndims = @mem_rank@,
      .chpos = CHPos_@position@,
      .Qm = @integer_bits@,
      .Qn = 0,
      .Qunsigned = @unsigned@,
      .type = DataType_@type@,
      .nbits = @bits@,
      .ndims = @rank@,
      .shape = @prefix@_shape,
@begin scaled@
      .per_channel = @per_channel@,
      .scale = @prefix@_scale,
      .offset = @prefix@_offset,
@end scaled@
    },
@begin guard_end@
#endif
@end guard_end@
@end rows@
    {
      .name = NULL,
    }
  };

  return buff_info;
}
@end tables@
@begin aliases@

/* Applications for Core 2.x name the network Default, those for later releases network. */
bool LL_ATON_EC_Network_Init_@name@(void)
  __attribute__((alias("LL_ATON_EC_Network_Init_@net@")));
bool LL_ATON_EC_Inference_Init_@name@(void)
  __attribute__((alias("LL_ATON_EC_Inference_Init_@net@")));
LL_ATON_User_IO_Result_t LL_ATON_Set_User_Input_Buffer_@name@(uint32_t num, void *buffer, uint32_t size)
  __attribute__((alias("LL_ATON_Set_User_Input_Buffer_@net@")));
void *LL_ATON_Get_User_Input_Buffer_@name@(uint32_t num)
  __attribute__((alias("LL_ATON_Get_User_Input_Buffer_@net@")));
LL_ATON_User_IO_Result_t LL_ATON_Set_User_Output_Buffer_@name@(uint32_t num, void *buffer, uint32_t size)
  __attribute__((alias("LL_ATON_Set_User_Output_Buffer_@net@")));
void *LL_ATON_Get_User_Output_Buffer_@name@(uint32_t num)
  __attribute__((alias("LL_ATON_Get_User_Output_Buffer_@net@")));
const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_@name@(void)
  __attribute__((alias("LL_ATON_EpochBlockItems_@net@")));
const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info_@name@(void)
  __attribute__((alias("LL_ATON_Input_Buffers_Info_@net@")));
const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info_@name@(void)
  __attribute__((alias("LL_ATON_Output_Buffers_Info_@net@")));
const LL_Buffer_InfoTypeDef *LL_ATON_Internal_Buffers_Info_@name@(void)
  __attribute__((alias("LL_ATON_Internal_Buffers_Info_@net@")));
#if ATONC_LL_ATON_VERSION >= 10103
const LL_Streng_EncryptionTypedef *LL_ATON_WeightEncryption_Info_@name@(void)
  __attribute__((alias("LL_ATON_WeightEncryption_Info_@net@")));
const LL_Streng_EncryptionTypedef *LL_ATON_BlobEncryption_Info_@name@(void)
  __attribute__((alias("LL_ATON_BlobEncryption_Info_@net@")));
#endif
@end aliases@
