/* SPDX-License-Identifier: Apache-2.0
 * A firmware without a network: installs the relocatable images that the host puts into memory, and runs them.
 */
#include "board_network.h"
#include "ll_aton_reloc_network.h"

enum { BOARD_PROFILE = 5 };
#define MAX_BLOCKS 1024u
#define IMAGES 2u /* side by side */
#define MODEL_BYTES 16
#define RESET_STATES 0xFFFFFFFFu /* ATONC_RELOC_RESET_STATES, which headers of the vendor do not have */

/* Where the host has put an image, and where it goes. */
typedef struct {
    uint32_t file;
    uint32_t exec_ram, exec_ram_bytes;
    uint32_t ext_ram, ext_ram_bytes;
    uint32_t params;
    uint32_t mode;
    uint32_t checks_model;
    uint8_t model[MODEL_BYTES];
    uint32_t tells_inner; /* its list of internal buffers stands where this loader looks for it */
} board_image_t;
volatile board_image_t board_image;

static NN_Instance_TypeDef networks[IMAGES];

#ifdef ATONC_RUNTIME
static void expect_model(void) {
    static uint8_t model[MODEL_BYTES];
    for (unsigned k = 0; k < sizeof model; k++)
        model[k] = board_image.model[k];
    atonc_reloc_expect_model(board_image.checks_model ? model : NULL);
}

static const char *reason(void) { return atonc_reloc_reason_name(atonc_reloc_reason()); }

static const LL_Buffer_InfoTypeDef *inner_buffers(const NN_Instance_TypeDef *network) {
    return board_image.tells_inner ? ll_aton_reloc_get_internal_buffers_info(network) : NULL;
}
#else /* the vendor's loader knows none of it */
static void expect_model(void) {}
static const char *reason(void) { return "?"; }
static const LL_Buffer_InfoTypeDef *inner_buffers(const NN_Instance_TypeDef *network) {
    (void)network;
    return NULL;
}
#endif

static void print_info(uintptr_t file) {
    ll_aton_reloc_info info;
    if (ll_aton_reloc_get_info(file, &info) != AI_RELOC_RT_ERR_NONE)
        return;
    board_print("ATONC IMAGE ");
    board_print(info.c_name);
    const uint32_t numbers[] = {info.rt_ram_xip, info.rt_ram_copy, info.params_off, info.ext_ram_sz};
    for (unsigned k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
        board_print(" ");
        board_print_number(numbers[k]);
    }
    board_print("\n");
}

static void print_types(const char *what, const LL_Buffer_InfoTypeDef *list) {
    for (; list != NULL && list->name != NULL; list++) {
        if (list->is_param)
            continue;
        board_print(what);
        board_print(" ");
        board_print_number((uint32_t)list->type);
        board_print(" ");
        board_print(list->name);
        board_print("\n");
    }
}

/* What the host must know to make values for an input: type, bits, whether codes are unsigned, where channels are,
 * scale and zero point of codes, the epoch that writes it, the shape in memory. */
static void print_edge(const char *what, const LL_Buffer_InfoTypeDef *one) {
    union {
        float real;
        uint32_t bits;
    } scale = {.real = one->scale != NULL ? one->scale[0] : 0.0f};
    const int zero = one->offset != NULL ? one->offset[0] : 0;
    const uint32_t numbers[] = {(uint32_t)one->type, one->nbits,  one->Qunsigned, (uint32_t)one->chpos,
                                scale.bits,          one->epoch, (uint32_t)zero};
    board_print(what);
    for (unsigned k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
        board_print(" ");
        board_print_number(numbers[k]);
    }
    for (unsigned k = 0; k < one->mem_ndims; k++) {
        board_print(" ");
        board_print_number(one->mem_shape[k]);
    }
    board_print(" ");
    board_print(one->name);
    board_print("\n");
}

static uint32_t elements(const LL_Buffer_InfoTypeDef *one) {
    uint32_t count = 1;
    for (unsigned k = 0; k < one->mem_ndims; k++)
        count *= one->mem_shape[k];
    return count;
}

/* Inputs or outputs; and of float ones the quantised copies, whose range they have. */
static void print_edges(const char *what, const LL_Buffer_InfoTypeDef *list, const LL_Buffer_InfoTypeDef *inner) {
    for (; list != NULL && list->name != NULL; list++) {
        if (list->is_param)
            continue;
        print_edge(what, list);
        if (list->type != DataType_FLOAT)
            continue;
        for (const LL_Buffer_InfoTypeDef *one = inner; one != NULL && one->name != NULL; one++)
            if (one->nbits <= 16 && one->scale != NULL && elements(one) == elements(list))
                print_edge("ATONC EDGE INNER", one);
    }
}

static void install(uint32_t index) {
    const ll_aton_reloc_config config = {
        .exec_ram_addr = board_image.exec_ram,
        .exec_ram_size = board_image.exec_ram_bytes,
        .ext_ram_addr = board_image.ext_ram,
        .ext_ram_size = board_image.ext_ram_bytes,
        .ext_param_addr = board_image.params,
        .mode = board_image.mode,
    };
    NN_Instance_TypeDef *network = &networks[index];
    expect_model();
    const int result = ll_aton_reloc_install(board_image.file, &config, network);
    board_print("ATONC INSTALL ");
    board_print_number((uint32_t)-result);
    board_print(" ");
    board_print(reason());
    board_print("\n");
    if (result != AI_RELOC_RT_ERR_NONE)
        return;
    print_info(board_image.file);
    LL_ATON_RT_Init_Network(network);
    if (!board_failed(network)) {
        board_print_buffers("ATONC IN ", index, ll_aton_reloc_get_input_buffers_info(network, -1));
        board_print_buffers("ATONC OUT ", index, ll_aton_reloc_get_output_buffers_info(network, -1));
        print_types("ATONC TYPE IN", ll_aton_reloc_get_input_buffers_info(network, -1));
        print_types("ATONC TYPE OUT", ll_aton_reloc_get_output_buffers_info(network, -1));
        print_edges("ATONC EDGE IN", ll_aton_reloc_get_input_buffers_info(network, -1), inner_buffers(network));
        print_edges("ATONC EDGE OUT", ll_aton_reloc_get_output_buffers_info(network, -1), NULL);
    }
}

/* ---- times ---- */

#if defined(ATONC_RUNTIME) && defined(LL_ATON_EB_DBG_INFO)
typedef struct {
    const LL_ATON_RT_EpochBlockItem_t *block;
    uint32_t started, runs, ending, ended;
} times_t;
static times_t times[MAX_BLOCKS];
static uint32_t measured;

static void on_epoch(LL_ATON_RT_Callbacktype_t what, const NN_Instance_TypeDef *network,
                     const LL_ATON_RT_EpochBlockItem_t *block) {
    (void)network;
    if (measured >= MAX_BLOCKS)
        return;
    times_t *now = &times[measured];
    if (what == LL_ATON_RT_Callbacktype_PRE_START)
        *now = (times_t){.block = block, .started = board_cycles()};
    else if (what == LL_ATON_RT_Callbacktype_POST_START)
        now->runs = board_cycles();
    else if (what == LL_ATON_RT_Callbacktype_PRE_END)
        now->ending = board_cycles();
    else if (what == LL_ATON_RT_Callbacktype_POST_END) {
        now->ended = board_cycles();
        measured++;
    }
}

static void profile(uint32_t index) {
    measured = 0;
    LL_ATON_RT_SetNetworkCallback(&networks[index], on_epoch);
    board_run(&networks[index], index);
    LL_ATON_RT_SetNetworkCallback(&networks[index], NULL);
    for (uint32_t k = 0; k < measured; k++) {
        const times_t *one = &times[k];
        const uint32_t numbers[] = {(uint32_t)one->block->epoch_num, (uint32_t)one->block->last_epoch_num,
                                    one->block->flags, one->runs - one->started, one->ending - one->runs,
                                    one->ended - one->ending};
        board_print("ATONC EPOCH");
        for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            board_print(" ");
            board_print_number(numbers[i]);
        }
        board_print("\n");
    }
}
#else
static void profile(uint32_t index) { board_run(&networks[index], index); }
#endif

static void set_buffer(const board_host_t *command) {
    NN_Instance_TypeDef *network = &networks[command->network];
    void *buffer = (void *)(uintptr_t)command->address;
    board_print_buffer_result(command->command == BOARD_SET_INPUT
                                  ? ll_aton_reloc_set_input(network, command->index, buffer, command->size)
                                  : ll_aton_reloc_set_output(network, command->index, buffer, command->size));
}

static void reset(const board_host_t *command) {
    if (ll_aton_reloc_set_input(&networks[command->network], RESET_STATES, NULL, 0) != LL_ATON_User_IO_NOERROR)
        board_print("ATONC ERROR nothing is kept there\n");
}

static void act(const board_host_t *command) {
    if (command->command == BOARD_INSTALL)
        install(command->network);
    else if (ll_aton_reloc_is_valid(&networks[command->network]) != 1)
        board_print("ATONC ERROR nothing is installed there\n");
    else if (command->command == BOARD_RUN)
        board_run(&networks[command->network], command->network);
    else if (command->command == BOARD_PROFILE)
        profile(command->network);
    else if (command->command == BOARD_RESET)
        reset(command);
    else
        set_buffer(command);
}

int main(void) {
    board_print("ATONC LOADER runtime " LL_ATON_VERSION_NAME "\n");
    LL_ATON_RT_RuntimeInit();
    const int bad = board_failed(NULL);
    board_obey(IMAGES, act);
    LL_ATON_RT_RuntimeDeInit();
    return bad;
}
