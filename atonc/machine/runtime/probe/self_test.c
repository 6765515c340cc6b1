/* SPDX-License-Identifier: Apache-2.0
 * See the header.
 */
#include "self_test.h"

#include <stddef.h>
#include <string.h>

#include "atonc_selftest.h"
#include "board_start.h"
#include "line.h"
#include "ll_aton_caches_interface.h"
#include "memories.h"

#define MOST 16u
#define BOTH (ATONC_SELFTEST_NPU_READS | ATONC_SELFTEST_NPU_WRITES)
#define CPU_RAM 0x34100000u /* AXISRAM2; the firmware itself is in AXISRAM1 */
#define CPU_RAM_BYTES 0x100000u
#define NPU_RAM 0x34200000u /* AXISRAM3 to 6 */
#define NPU_RAM_BYTES 0x1C0000u
#define FLASH 0x70380000u /* where weights lie */
#define EXTERNAL_RAM 0x90000000u
#define EXTERNAL_BYTES 0x100000u

static void clean(uint32_t address, uint32_t size) { LL_ATON_Cache_MCU_Clean_Range(address, size); }
static void invalidate(uint32_t address, uint32_t size) { LL_ATON_Cache_MCU_Invalidate_Range(address, size); }

static void tell(const atonc_finding_t *one) {
    line_begin_as("ATONC-SELFTEST 1");
    line_number(NULL, one->code);
    line_word(atonc_selftest_name(one->code));
    line_number("detail", one->detail);
    line_hex("place", one->place);
    line_hex("found", one->found);
    line_hex("wanted", one->wanted);
    line_text("register", atonc_selftest_register(one->code));
    line_rest(" | ");
    line_rest(atonc_selftest_cause(one->code));
    line_rest(" | ");
    line_rest(atonc_selftest_fix(one->code));
    line_end();
}

void self_test(void) {
    atonc_selftest_memory_t memories[4] = {{CPU_RAM, CPU_RAM_BYTES, BOTH}, {NPU_RAM, NPU_RAM_BYTES, BOTH}};
    uint32_t used = 2;
    if (flash_is_mapped()) {
        memories[used++] = (atonc_selftest_memory_t){FLASH, EXTERNAL_BYTES, ATONC_SELFTEST_NPU_READS};
    }
    if (hyperram_is_mapped()) {
        memories[used++] = (atonc_selftest_memory_t){EXTERNAL_RAM, EXTERNAL_BYTES, BOTH};
    }
    atonc_selftest_map_t map = {
        .memories = memories, .memory_count = used, .work = NPU_RAM, .clean = clean, .invalidate = invalidate};
    if (strcmp(board_clocks, "board") == 0) {
        map.cpu_hz = 800000000u;
        map.npu_hz = 1000000000u;
        map.npu_ram_hz = 900000000u;
    }
    atonc_finding_t findings[MOST];
    const uint32_t count = atonc_selftest(&map, findings, MOST);
    for (uint32_t k = 0; k < count && k < MOST; k++) {
        tell(&findings[k]);
    }
    line_begin_as("ATONC-SELFTEST 1");
    line_number("findings", count);
    line_end();
}
