/* SPDX-License-Identifier: Apache-2.0
 * What a loader looks for in a relocatable image: flags, entry points, context, table of memory pools, note.
 *
 * image_conf.h is written by the build (atonc/delivery/reloc/sources.py).
 */
#include "image.h"
#include "mcu_cache.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define FUNCTION(name) JOIN(LL_ATON_##name##_, ATONC_IMAGE_NETWORK)
#define PLACED(name) __attribute__((used, section(name)))

bool FUNCTION(EC_Network_Init)(void);
bool FUNCTION(EC_Inference_Init)(void);
LL_ATON_User_IO_Result_t FUNCTION(Set_User_Input_Buffer)(uint32_t num, void *buffer, uint32_t size);
void *FUNCTION(Get_User_Input_Buffer)(uint32_t num);
LL_ATON_User_IO_Result_t FUNCTION(Set_User_Output_Buffer)(uint32_t num, void *buffer, uint32_t size);
void *FUNCTION(Get_User_Output_Buffer)(uint32_t num);
const LL_ATON_RT_EpochBlockItem_t *FUNCTION(EpochBlockItems)(void);
const LL_Buffer_InfoTypeDef *FUNCTION(Input_Buffers_Info)(void);
const LL_Buffer_InfoTypeDef *FUNCTION(Output_Buffers_Info)(void);
/* Of the buffers inside only the codes of float inputs: all would double the constants of an image. */
const LL_Buffer_InfoTypeDef *FUNCTION(Internal_Buffers_Info)(void);

#if ATONC_IMAGE_ENTRIES == 12
/* Neither weights nor programs are encrypted. Loaders of 1.1.3 call this without a base for data. */
static const LL_Streng_EncryptionTypedef *no_encryption(void) { return NULL; }
#endif

#if ATONC_IMAGE_CLEANS
#define PARAMS_OFFSET 12u /* word of the header */
#define OFFSET_BITS 0x0FFFFFFFu
#define IN_FLASH(address) ((address) >> 28 == 7u)

/* A loader that read the file into RAM may have left it in the processor's cache, where the NPU does not see it. */
static bool network_init(void) {
    static bool cleaned;
    const uint32_t start = atonc_image_context.file_addr;
    if (!cleaned && !IN_FLASH(start)) {
        const uint32_t params = ((const uint32_t *)start)[PARAMS_OFFSET] & OFFSET_BITS;
        mcu_cache_clean_range(start, start + params + atonc_image_context.params_bin_sz);
    }
    cleaned = true;
    return FUNCTION(EC_Network_Init)();
}
#else
#define network_init FUNCTION(EC_Network_Init)
#endif

#ifdef ATONC_IMAGE_RESET
/* States get their first values when the image is installed, and by this number of an input: so it needs no entry that
 * loaders of other releases do not know. */
#include "ll_aton_reloc_network.h"

void ATONC_IMAGE_RESET(void);

static LL_ATON_User_IO_Result_t set_input(uint32_t num, void *buffer, uint32_t size) {
    if (num == ATONC_RELOC_RESET_STATES) {
        ATONC_IMAGE_RESET();
        return LL_ATON_User_IO_NOERROR;
    }
    return FUNCTION(Set_User_Input_Buffer)(num, buffer, size);
}
#else
#define set_input FUNCTION(Set_User_Input_Buffer)
#endif

PLACED(".atonc_image_flags") const uint32_t atonc_image_flags = ATONC_IMAGE_FLAGS;

PLACED(".atonc_image_entries") const uintptr_t atonc_image_entries[ATONC_IMAGE_ENTRIES + 1] = {
    (uintptr_t)network_init,
    (uintptr_t)FUNCTION(EC_Inference_Init),
    (uintptr_t)set_input,
    (uintptr_t)FUNCTION(Get_User_Input_Buffer),
    (uintptr_t)FUNCTION(Set_User_Output_Buffer),
    (uintptr_t)FUNCTION(Get_User_Output_Buffer),
    (uintptr_t)FUNCTION(EpochBlockItems),
    (uintptr_t)FUNCTION(Output_Buffers_Info),
    (uintptr_t)FUNCTION(Input_Buffers_Info),
#if ATONC_IMAGE_ENTRIES == 12
    (uintptr_t)no_encryption, /* the order in which loaders read these three */
    (uintptr_t)no_encryption,
#endif
    (uintptr_t)FUNCTION(Internal_Buffers_Info),
    (uintptr_t)&atonc_image_context,
};

/* Completed by the build: size and checksum of the code part (here), of the parameters (in the context). */
PLACED(".atonc_image_note") const uint32_t atonc_image_note[10] = {
    0x434E5441u, 1u, 0u, 0u, ATONC_IMAGE_CALLBACKS | ATONC_IMAGE_EPOCH_ARGUMENTS << 8, ATONC_IMAGE_HASH, 0u};

static const NN_Interface_TypeDef interface = {.network_name = ATONC_IMAGE_NAME};

#define STRUCT_SIZES (sizeof(LL_Buffer_InfoTypeDef) | sizeof(LL_ATON_RT_EpochBlockItem_t) << 8)

PLACED(".atonc_image_context")
atonc_image_context_t atonc_image_context = {
    .c_name = ATONC_IMAGE_NAME,
    .acts_sz = ATONC_IMAGE_ACTIVATIONS,
    .params_sz = ATONC_IMAGE_PARAMS,
    .ext_ram_sz = ATONC_IMAGE_EXT_RAM,
    .rt_version_desc = ATONC_IMAGE_RUNTIME,
    .rt_version = LL_ATON_VERSION_MAJOR << 24 | LL_ATON_VERSION_MINOR << 16 | LL_ATON_VERSION_MICRO << 8,
    .rt_version_extra = LL_ATON_VERSION_DEV,
#if ATONC_IMAGE_CONTEXT_WORDS > 16
    .rt_c_struct_sizes = STRUCT_SIZES,
#endif
    .itf_network = &interface,
};

typedef struct {
    const char *name;
    uint32_t flags, foff, dst, size;
} pool_t;

PLACED(".atonc_image_pools") const pool_t atonc_image_pools[] = {ATONC_IMAGE_POOLS{NULL, 0, 0, 0, 0}};
