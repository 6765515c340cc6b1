/* SPDX-License-Identifier: Apache-2.0
 * Damaged images through the loader, compiled for this machine with sanitizers.
 *
 * Every memory that the loader may touch stands where the chip has it (or near), between ranges that the address
 * sanitizer reports; the hooks of the loader tell it no more than that. After a refusal nothing may have been written.
 *
 *   cc -DFUZZ_MAIN ...: fuzz_loader COUNT SEED IMAGE [PARAMS]     COUNT mutations of an image
 *   clang -fsanitize=fuzzer ...: a libFuzzer target; one byte of choices, then the image
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "atonc_reloc.h"
#include "atonc_runtime.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, size) ((void)(start), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(start, size) ((void)(start), (void)(size))
#endif

typedef struct {
    uintptr_t base;
    uint32_t room; /* mapped */
    uint32_t size; /* in use */
} area_t;

enum { FILE_AREA, PARAMS_AREA, EXEC_AREA, EXT_AREA, POOL_AREA, AREAS };
static area_t areas[AREAS] = {
    {0x71000000u, 8u << 20, 0}, {0x72000000u, 8u << 20, 0}, {0x34060000u, 1u << 20, 0},
    {0x78000000u, 8u << 20, 0}, {0x34200000u, 4u << 20, 0},
};
static uint32_t cpuid = 0x410FD220u;
static unsigned long accepted, refused;

uint32_t atonc_host_cpuid(void) { return cpuid; }
uintptr_t atonc_host_call(uintptr_t function, uintptr_t base) { return (void)function, (void)base, (uintptr_t)0; }

static uint32_t left_in(const area_t *area, uintptr_t address) {
    return address >= area->base && address < area->base + area->size ? (uint32_t)(area->base + area->size - address) : 0;
}

uint32_t atonc_reloc_readable(uintptr_t address) {
    uint32_t left = left_in(&areas[FILE_AREA], address);
    return left != 0 ? left : left_in(&areas[PARAMS_AREA], address);
}

bool atonc_reloc_may_write(uintptr_t address, uint32_t size) { return left_in(&areas[POOL_AREA], address) >= size; }

/* ---- memory ---- */

static void set_size(int which, uint32_t size) {
    area_t *area = &areas[which];
    uint32_t old = area->size;
    area->size = size < area->room ? size : area->room;
    if (area->size < old) {
        ASAN_POISON_MEMORY_REGION((void *)(area->base + area->size), old - area->size);
    }
    ASAN_UNPOISON_MEMORY_REGION((void *)area->base, area->size);
}

static void map_areas(void) {
    for (int k = 0; k < AREAS; k++) {
        void *place = (void *)areas[k].base;
        void *got = mmap(place, areas[k].room, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
        if (got != place) {
            perror("the memory that a test needs is taken");
            exit(2);
        }
        ASAN_POISON_MEMORY_REGION(place, areas[k].room);
    }
}

static const int written_areas[] = {EXEC_AREA, EXT_AREA, POOL_AREA};

static void fill_written(uint8_t value) {
    for (unsigned k = 0; k < sizeof written_areas / sizeof written_areas[0]; k++) {
        memset((void *)areas[written_areas[k]].base, value, areas[written_areas[k]].size);
    }
}

static void require_untouched(uint8_t value) {
    for (unsigned k = 0; k < sizeof written_areas / sizeof written_areas[0]; k++) {
        const uint8_t *bytes = (const uint8_t *)areas[written_areas[k]].base;
        uint32_t size = areas[written_areas[k]].size;
        if (size != 0 && (bytes[0] != value || memcmp(bytes, bytes + 1, size - 1) != 0)) {
            fprintf(stderr, "refused, but area %d was written\n", written_areas[k]);
            abort();
        }
    }
}

/* ---- one image ---- */

static uint32_t word_of(const uint8_t *bytes, uint32_t at) {
    uint32_t word;
    memcpy(&word, bytes + at, sizeof word);
    return word;
}

static void ask(uintptr_t file) {
    ll_aton_reloc_info info;
    if (ll_aton_reloc_get_info(file, &info) == AI_RELOC_RT_ERR_NONE) {
        volatile size_t length = strlen(info.c_name) + strlen(info.rt_version_desc);
        (void)length;
    }
    for (int index = -1; index < 12; index++) {
        const uint8_t *pool = (const uint8_t *)ll_aton_reloc_get_mem_pool_desc(file, index);
        if (pool != NULL) {
            volatile uint32_t size = word_of(pool, 16);
            (void)size;
        }
    }
    const uint8_t *hash = atonc_reloc_model_hash(file);
    if (hash != NULL) {
        volatile uint8_t last = hash[ATONC_MODEL_HASH_BYTES - 1];
        (void)last;
    }
    ll_aton_reloc_log_info(file);
}

/* `choice` decides mode, how much RAM there is and whether parameters lie apart. */
static void try_image(const uint8_t *data, size_t size, const uint8_t *params, size_t params_size, uint32_t choice) {
    static const uint32_t ram[] = {64u << 10, 640u << 10, 4096, 0};
    static const uint32_t modes[] = {1, 2, 5, 6, 2, 1, 3, 0};
    set_size(FILE_AREA, (uint32_t)size);
    memcpy((void *)areas[FILE_AREA].base, data, areas[FILE_AREA].size);
    set_size(PARAMS_AREA, (uint32_t)params_size);
    if (params_size != 0) {
        memcpy((void *)areas[PARAMS_AREA].base, params, areas[PARAMS_AREA].size);
    }
    set_size(EXEC_AREA, size > 200u << 10 ? ram[1] : ram[choice >> 3 & 2]);
    set_size(EXT_AREA, size > 200u << 10 ? areas[EXT_AREA].room : ram[choice >> 5 & 3]);
    set_size(POOL_AREA, 64u << 10);
    uintptr_t file = areas[FILE_AREA].base;
    ll_aton_reloc_config config = {
        .exec_ram_addr = areas[EXEC_AREA].base,
        .exec_ram_size = areas[EXEC_AREA].size,
        .ext_ram_addr = areas[EXT_AREA].size != 0 ? areas[EXT_AREA].base : 0,
        .ext_ram_size = areas[EXT_AREA].size,
        .ext_param_addr = params_size != 0 ? areas[PARAMS_AREA].base : 0,
        .mode = modes[choice & 7],
    };
    NN_Instance_TypeDef instance;
    memset(&instance, 0, sizeof instance);
    ask(file);
    fill_written(0xA5);
    bool agreed = atonc_reloc_check(file, &config) == AI_RELOC_RT_ERR_NONE;
    require_untouched(0xA5);
    bool installed = ll_aton_reloc_install(file, &config, &instance) == AI_RELOC_RT_ERR_NONE;
    if (agreed != installed && atonc_reloc_reason() != ATONC_RELOC_POOL_MEMORY) {
        fprintf(stderr, "the check said %d, the installation %d\n", agreed, installed);
        abort();
    }
    if (!installed) {
        require_untouched(0xA5);
        refused++;
        return;
    }
    accepted++;
    uintptr_t back = 0;
    if (ll_aton_reloc_is_valid(&instance) != 1 || ll_aton_reloc_get_file_ptr(&instance, &back) != 0 || back != file) {
        fprintf(stderr, "installed, but not valid\n");
        abort();
    }
    volatile const void *name = ll_aton_reloc_get_input_buffers_info(&instance, 0);
    (void)name;
}

/* ---- checksums that fit again: damage is to reach what lies behind them ---- */

static void put_word(uint8_t *bytes, uint32_t at, uint32_t word) { memcpy(bytes + at, &word, sizeof word); }

static uint32_t note_of(const uint8_t *data, size_t size) {
    for (uint32_t words = 24; words <= 26; words += 2) {
        if (size >= 4u * words + 4u * NOTE_WORDS && word_of(data, 4u * words) == NOTE_MAGIC_WORD) {
            return 4u * words;
        }
    }
    return 0;
}

static void mend(uint8_t *data, size_t size, const uint8_t *params, size_t params_size) {
    uint32_t note = note_of(data, size);
    if (size < 4u * HDR_ENTRIES || note == 0) {
        return;
    }
    uint32_t ro = RELOC_OFFSET(word_of(data, 4u * HDR_DATA_DATA));
    uint32_t context = RELOC_OFFSET(word_of(data, note - 4u));
    uint32_t at = word_of(data, 4u * HDR_PARAMS);
    uint32_t place = ro + context + 4u * CTX_PARAMS_FILE;
    if (place + 8u <= size && place >= ro) {
        uint32_t length = word_of(data, place);
        const uint8_t *start = params_size != 0 ? params : data + (at < size ? at : 0);
        size_t room = params_size != 0 ? params_size : at < size ? size - at : 0;
        if (length <= room) {
            put_word(data, place + 4u, atonc_crc32(start, length, 0));
        }
    }
    uint32_t end = at != 0 ? at : (uint32_t)size;
    if (end <= size && end > note + 16u) {
        put_word(data, note + 8u, end);
        put_word(data, note + 12u, 0);
        put_word(data, note + 12u, atonc_crc32(data, end, 0));
    }
}

/* ---- mutations ---- */

static uint64_t state;
static uint32_t dice(uint32_t sides) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17; /* xorshift */
    return (uint32_t)(state >> 11) % sides;
}

static uint32_t odd_word(uint32_t old) {
    static const uint32_t words[] = {0, 1, 3, 4, 7, 8, 0xFFFFFFFFu, 0x0FFFFFFFu, 0x7FFFFFFFu, 0x80000000u, 0x2FFFFFFCu,
                                     0x4FFFFFFCu, 0x20000000u, 0x40000000u, 0x90000000u, 0x34200000u, 0x3420FFF8u,
                                     0x34060000u, 0x71000000u, 0x1000000u, 0x02010200u, 0x03020200u, 0x01030601u};
    switch (dice(6)) {
    case 0: return words[dice(sizeof words / sizeof words[0])];
    case 1: return old + 4u * (dice(17) - 8u);
    case 2: return old ^ 1u << dice(32);
    case 3: return (old & 0xF0000000u) | dice(1u << 28);
    case 4: return (old & 0x0FFFFFFFu) | dice(16) << 28;
    default: return old + dice(1u << 16);
    }
}

/* A word of the header, the context, the pools, the relocation list, the GOT, or anywhere. */
static uint32_t some_place(const uint8_t *data, uint32_t size) {
    uint32_t ro = RELOC_OFFSET(word_of(data, 4u * HDR_DATA_DATA));
    uint32_t place = 0;
    switch (dice(7)) {
    case 0: place = 4u * dice(26); break;
    case 1: place = ro + RELOC_OFFSET(word_of(data, 4u * (dice(2) ? 25u : 23u))) + 4u * dice(CTX_WORDS); break;
    case 2: place = ro + RELOC_OFFSET(word_of(data, 4u * HDR_POOLS)) + 4u * dice(15); break;
    case 3: place = RELOC_OFFSET(word_of(data, 4u * HDR_REL_START)) + 4u * dice(64); break;
    case 4: place = ro + RELOC_OFFSET(word_of(data, 4u * HDR_GOT_START)) + 4u * dice(16); break;
    case 5: place = 4u * (24u + dice(14)); break;
    default: place = dice(size / 4u) * 4u; break;
    }
    return place + 4u <= size ? place : 4u * dice(13);
}

static uint32_t mutate(uint8_t *data, uint32_t size) {
    for (uint32_t turns = 1 + dice(4); turns > 0; turns--) {
        if (dice(24) == 0) {
            size = 4u * HDR_ENTRIES + dice(size - 4u * HDR_ENTRIES); /* cut off */
        } else if (dice(8) == 0) {
            data[dice(size)] ^= (uint8_t)(1u << dice(8));
        } else {
            uint32_t place = some_place(data, size);
            put_word(data, place, odd_word(word_of(data, place)));
        }
    }
    return size;
}

#if defined(FUZZ_MAIN)
static uint8_t *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*size + 64);
    if (fread(bytes, 1, *size, file) != *size) {
        exit(2);
    }
    fclose(file);
    return bytes;
}

int main(int count, char **words) {
    if (count < 4) {
        return 2;
    }
    static uint8_t *image, *params, *work; /* until the end */
    size_t size, params_size = 0;
    image = read_file(words[3], &size);
    params = count > 4 ? read_file(words[4], &params_size) : NULL;
    work = malloc(size);
    cpuid = (word_of(image, 4) & 0xFFFu) << 4;
    state = strtoull(words[2], NULL, 0) * 2654435761u + 88172645463325252u;
    map_areas();
    try_image(image, size, params, params_size, 0);
    if (accepted != 1) {
        fprintf(stderr, "the image itself is refused: %s\n", atonc_reloc_reason_name(atonc_reloc_reason()));
        return 1;
    }
    for (unsigned long turn = strtoul(words[1], NULL, 0); turn > 0; turn--) {
        memcpy(work, image, size);
        uint32_t length = mutate(work, (uint32_t)size);
        if (dice(8) != 0) {
            mend(work, length, params, params_size);
        }
        try_image(work, length, params, params_size, dice(4) != 0 ? dice(2) : dice(128));
    }
    printf("%lu accepted, %lu refused\n", accepted, refused);
    return 0;
}
#else
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool ready;
    if (!ready) {
        map_areas();
        ready = true;
    }
    if (size < 2 || size > 1u << 20) {
        return 0;
    }
    if (size >= 9) {
        cpuid = (word_of(data + 1, 4) & 0xFFFu) << 4;
    }
    /* the upper half of the choices: parameters apart, the last quarter of the input */
    size_t apart = data[0] & 0x80 ? (size - 1) / 4 : 0;
    try_image(data + 1, size - 1 - apart, data + size - apart, apart, data[0]);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned int seed) {
    state = seed * 2654435761u + 88172645463325252u;
    if (size < 1 + 4u * 40u || dice(4) == 0) {
        return LLVMFuzzerMutate(data, size, room);
    }
    size_t length = 1 + mutate(data + 1, (uint32_t)size - 1);
    if (dice(8) != 0) {
        mend(data + 1, length - 1, NULL, 0);
    }
    if (dice(4) == 0) {
        data[0] = (uint8_t)dice(256);
    }
    return length;
}
#endif
