/* SPDX-License-Identifier: Apache-2.0
 * See the header. Registers by their numbers in the reference manual (RM0486); what is not certain is said beside it.
 */
#include "atonc_selftest.h"

#ifndef ATONC_NO_SELFTEST

#include <string.h>

#ifndef ATONC_SELFTEST_BASE
#define ATONC_SELFTEST_BASE 0x10000000u
#endif
#ifndef ATONC_HSE_HZ
#define ATONC_HSE_HZ 48000000u /* the crystal of the discovery kit and of the Nucleo */
#endif

#define WORD(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define PERIPHERAL(offset) (0x40000000u + ATONC_SELFTEST_BASE + (offset))

#define RCC PERIPHERAL(0x6028000u)
#define RCC_SET 0x800u    /* every register has a twin that sets bits */
#define RCC_CLEAR 0x1000u /* and one that clears them */
#define RCC_CFGR1 (RCC + 0x020u)
#define RCC_MEMRSTR (RCC + 0x20Cu)
#define RCC_AHB5RSTR (RCC + 0x220u)
#define RCC_MEMENR (RCC + 0x24Cu)
#define RCC_AHB2ENR (RCC + 0x254u)
#define RCC_AHB5ENR (RCC + 0x260u)
#define RCC_MEMLPENR (RCC + 0x28Cu)
#define RCC_AHB5LPENR (RCC + 0x2A0u)
#define NPU_BIT 0x80000000u
#define CACHE_BIT 0x40000000u
#define CACHE_RAM_BIT 0x400u /* in the registers of memories */
#define RAMCFG PERIPHERAL(0x2023000u)
#define SHUTDOWN (1u << 20)
#define RIFSC PERIPHERAL(0x4024000u)
#define NPU_ATTRIBUTES (RIFSC + 0xC14u)
#define NPU_SECURITY (RIFSC + 0x01Cu)
#define NPU_SECURITY_BIT (1u << 10)
#define RISAF(number) PERIPHERAL(0x4025000u + 0x1000u * (number))
#define RISAF_STATUS 0x08u
#define RISAF_ILLEGAL 0x24u /* the address of a refused access */
#define AHB5_PERIPHERALS PERIPHERAL(0x8020000u)
#define CACHE_CONTROL PERIPHERAL(0x80DFC00u)
#define NPU PERIPHERAL(0x80E0000u)
#define UNIT(unit, reg) WORD(NPU + 0x1000u * (unit) + 4u * (reg))

/* ---- findings ---- */

enum { BANKS = 12, CACHE_BANK = 6, FIRST_EXTERNAL = 8, LAST_EXTERNAL = 10 };

typedef struct {
    uint32_t base, size;
    uint16_t control; /* offset of its register: in RAMCFG, or of the controller of an external memory; 1: none */
    uint8_t bit;      /* in the clock registers */
    uint8_t filter;   /* the RISAF in front of it; NPU RAM has 4, 5 and 6 at its entries */
} bank_t;

static const bank_t banks[BANKS] = {
    {0x34064000u, 0x9C000u, 1, 7, 2},         {0x34100000u, 0x100000u, 0x080, 8, 3},
    {0x34200000u, 0x70000u, 0x100, 0, 4},     {0x34270000u, 0x70000u, 0x180, 1, 4},
    {0x342E0000u, 0x70000u, 0x200, 2, 4},     {0x34350000u, 0x70000u, 0x280, 3, 4},
    {0x343C0000u, 0x40000u, 1, 10, 8},        {0x34400000u, 0x20000u, 1, 11, 9},
    {0x90000000u, 0x10000000u, 0x5000, 5, 11}, {0x70000000u, 0x10000000u, 0xA000, 12, 12},
    {0x80000000u, 0x10000000u, 0xD000, 17, 13}, {0x34000000u, 0x64000u, 1, 9, 7},
};

typedef struct {
    const atonc_selftest_map_t *map;
    atonc_finding_t *findings;
    uint32_t most, count;
    uint32_t touched[BANKS]; /* where a bank is tested by writing; 0: nowhere */
    uint32_t used, broken;   /* bits of banks: in the map, and with a finding */
    uint32_t blamed;         /* bits of filters that have a finding */
    uint32_t filters;        /* bits of filters in front of used banks, with the NPU's own */
    uint32_t refused;        /* and of those that had refused something before */
    uint32_t cached;         /* the NPU's cache matters */
    uint32_t npu;            /* it may be used */
    uint32_t cpu_khz, npu_khz, polls; /* polls: looks at the NPU until something counts as hanging */
} test_t;

static void report(test_t *t, uint32_t code, uint32_t detail, uint32_t place, uint32_t found, uint32_t wanted) {
    if (t->count < t->most) {
        t->findings[t->count] = (atonc_finding_t){(uint16_t)code, (uint16_t)detail, place, found, wanted};
    }
    t->count++;
}

/* Bits that must all be SET, or none of them; `what`: the finding, with its detail above. */
#define SET 0x8000u
#define OF(detail) ((uint32_t)(detail) << 16)

static uint32_t bits_are(test_t *t, uint32_t place, uint32_t bits, uint32_t what) {
    const uint32_t found = WORD(place), wanted = what & SET ? found | bits : found & ~bits;
    if (found != wanted) {
        report(t, what & ~SET & 0xFFFFu, what >> 16, place, found, wanted);
    }
    return found == wanted;
}

static uint32_t is_external(uint32_t bank) { return bank >= FIRST_EXTERNAL && bank <= LAST_EXTERNAL; }

/* On-chip memories have two addresses. */
static uint32_t secure_address(uint32_t address) { return address >> 28 == 2 ? address + 0x10000000u : address; }

/* ---- the map ---- */

/* The part of a memory that is in a bank; 0 if there is none. */
static uint32_t part_of(const atonc_selftest_memory_t *memory, uint32_t bank, uint32_t *first, uint32_t *last) {
    const uint32_t start = secure_address(memory->base), end = start + memory->size - 1u;
    const uint32_t low = banks[bank].base, high = low + banks[bank].size - 1u;
    *first = start > low ? start : low;
    *last = end < high ? end : high;
    return memory->size != 0 && end >= start && *first <= *last;
}

/* BANKS: none. */
static uint32_t bank_of(uint32_t address) {
    const atonc_selftest_memory_t one = {address, 1, 0};
    uint32_t first, last, bank = 0;
    while (bank < BANKS && !part_of(&one, bank, &first, &last)) {
        bank++;
    }
    return bank;
}

static void read_map(test_t *t) {
    t->used = 1u << bank_of(t->map->work);
    for (uint32_t k = 0; k < t->map->weights_count; k++) {
        t->used |= 1u << bank_of(t->map->weights[k].base);
    }
    for (uint32_t k = 0; k < t->map->memory_count; k++) {
        const atonc_selftest_memory_t *memory = &t->map->memories[k];
        uint32_t left = memory->size, first, last;
        t->cached |= memory->uses & ATONC_SELFTEST_NPU_CACHED;
        for (uint32_t bank = 0; bank < BANKS; bank++) {
            if (part_of(memory, bank, &first, &last)) {
                const uint32_t at = (first + 31u) & ~31u;
                left -= last - first + 1u;
                t->used |= 1u << bank;
                t->filters |= 1u << banks[bank].filter | 7u << 4;
                const uint32_t fits = at < last && last - at >= ATONC_SELFTEST_TOUCHED - 1u;
                if (fits && (memory->uses & ATONC_SELFTEST_NPU_WRITES)) {
                    t->touched[bank] = at - secure_address(memory->base) + memory->base;
                }
            }
        }
        if (left != 0) {
            report(t, ATONC_SELFTEST_MAP, k, memory->base, memory->size - left, memory->size);
        }
    }
}

/* ---- clocks and power ---- */

/* Clocks of peripherals that are only asked: in AHB2 RAMCFG, in AHB3 RIFSC and RISAF. */
static const uint32_t asked[2] = {1u << 12, 1u << 9 | 1u << 14};

static void clocks_to_ask(uint32_t off[2]) {
    for (uint32_t k = 0; k < 2; k++) {
        off[k] = asked[k] & ~WORD(RCC_AHB2ENR + 4u * k);
        WORD(RCC_AHB2ENR + 4u * k + RCC_SET) = off[k];
        (void)WORD(RCC_AHB2ENR + 4u * k);
    }
}

static void clocks_as_before(const uint32_t off[2]) {
    for (uint32_t k = 0; k < 2; k++) {
        WORD(RCC_AHB2ENR + 4u * k + RCC_CLEAR) = off[k];
    }
}

static uint32_t xspi_is_mapped(test_t *t, uint32_t bank) {
    const uint32_t bit = 1u << banks[bank].bit, control = AHB5_PERIPHERALS + banks[bank].control, name = bank + 1u;
    return bits_are(t, RCC_AHB5ENR, bit, SET | ATONC_SELFTEST_XSPI_CLOCK | OF(name)) &&
           bits_are(t, RCC_AHB5RSTR, bit, ATONC_SELFTEST_XSPI_RESET | OF(name)) &&
           bits_are(t, control, 1u, SET | ATONC_SELFTEST_XSPI_OFF | OF(name)) &&
           bits_are(t, control, 3u << 28, SET | ATONC_SELFTEST_XSPI_MODE | OF(name));
}

static uint32_t ram_is_on(test_t *t, uint32_t bank) {
    const uint32_t bit = 1u << banks[bank].bit, name = bank + 1u;
    uint32_t on = bits_are(t, RCC_MEMENR, bit, SET | ATONC_SELFTEST_RAM_CLOCK | OF(name));
    on &= bits_are(t, RCC_MEMRSTR, bit, ATONC_SELFTEST_RAM_RESET | OF(name));
    if (banks[bank].control != 1u) {
        on &= bits_are(t, RAMCFG + banks[bank].control, SHUTDOWN, ATONC_SELFTEST_RAM_SHUTDOWN | OF(name));
    }
    return on;
}

static void check_banks(test_t *t) {
    const uint32_t sleeps = !(t->map->flags & ATONC_SELFTEST_NEVER_SLEEPS);
    /* where this code and its stack are there is a clock, whatever its register means */
    const uint32_t own = 1u << bank_of((uint32_t)(uintptr_t)&check_banks) | 1u << bank_of((uint32_t)(uintptr_t)&own);
    for (uint32_t bank = 0; bank < BANKS; bank++) {
        if (!(t->used >> bank & 1u)) {
            continue;
        }
        const uint32_t external = is_external(bank);
        if (!(own >> bank & 1u) && !(external ? xspi_is_mapped(t, bank) : ram_is_on(t, bank))) {
            t->broken |= 1u << bank;
        }
        if (sleeps) {
            const uint32_t code = external ? ATONC_SELFTEST_XSPI_SLEEP : ATONC_SELFTEST_RAM_SLEEP;
            bits_are(t, external ? RCC_AHB5LPENR : RCC_MEMLPENR, 1u << banks[bank].bit, SET | code | OF(bank + 1u));
        }
    }
}

/* Whether the NPU's registers may be touched. */
static uint32_t npu_is_on(test_t *t) {
    const uint32_t sleeps = !(t->map->flags & ATONC_SELFTEST_NEVER_SLEEPS);
    uint32_t on = bits_are(t, RCC_AHB5ENR, NPU_BIT, SET | ATONC_SELFTEST_NPU_CLOCK);
    on &= bits_are(t, RCC_AHB5RSTR, NPU_BIT, ATONC_SELFTEST_NPU_RESET);
    if (sleeps) {
        bits_are(t, RCC_AHB5LPENR, NPU_BIT, SET | ATONC_SELFTEST_NPU_SLEEP);
    }
    if (t->cached) {
        const uint32_t name = CACHE_BANK + 1u;
        uint32_t sound = bits_are(t, RCC_AHB5ENR, CACHE_BIT, SET | ATONC_SELFTEST_CACHE_CLOCK);
        sound &= bits_are(t, RCC_AHB5RSTR, CACHE_BIT, ATONC_SELFTEST_CACHE_RESET);
        sound &= bits_are(t, RCC_MEMENR, CACHE_RAM_BIT, SET | ATONC_SELFTEST_RAM_CLOCK | OF(name));
        if (sound) {
            bits_are(t, CACHE_CONTROL, 1u, SET | ATONC_SELFTEST_CACHE_OFF);
        }
        if (sleeps) {
            bits_are(t, RCC_AHB5LPENR, CACHE_BIT, SET | ATONC_SELFTEST_CACHE_SLEEP);
            bits_are(t, RCC_MEMLPENR, CACHE_RAM_BIT, SET | ATONC_SELFTEST_RAM_SLEEP | OF(name));
        }
    } else if ((t->used >> CACHE_BANK & 1u) && (WORD(RCC_AHB5ENR) & CACHE_BIT) &&
               !bits_are(t, CACHE_CONTROL, 1u, ATONC_SELFTEST_CACHE_RAM)) {
        t->broken |= 1u << CACHE_BANK;
    }
    return on;
}

/* ---- security ---- */

typedef struct {
    uint32_t compartment, secure, privileged;
} rights_t;

typedef struct {
    uint32_t code, place, found, wanted;
} refusal_t;

/* What one region says of an access: nothing is wrong with it, or its first objection. */
static refusal_t ask_region(uint32_t region, const rights_t *who, uint32_t write) {
    const uint32_t control = WORD(region), lists = WORD(region + 12u);
    uint32_t member = 1u << who->compartment;
    if ((control >> 8 & 1u) != who->secure) {
        return (refusal_t){ATONC_SELFTEST_RISAF_SECURITY, region, control, control ^ 1u << 8};
    }
    if ((control >> 16 & member) && !who->privileged) {
        return (refusal_t){ATONC_SELFTEST_RISAF_PRIVILEGE, region, control, control & ~(member << 16)};
    }
    member <<= write ? 16 : 0;
    const uint32_t code = write ? ATONC_SELFTEST_RISAF_WRITE : ATONC_SELFTEST_RISAF_READ;
    return (refusal_t){lists & member ? 0 : code, region + 12u, lists, lists | member};
}

/* Whether a filter lets somebody read or write all bytes of a range. An access passes if any enabled region that has
 * its address admits it: ST's firmware puts a secure and a non-secure region over each other. Where no region is
 * enabled, only secure privileged accesses of compartment 1 pass. Regions of RISAF4 to 6 have whole addresses, which
 * are compared without the bit of the security alias (not certain); those of the others count from the start of their
 * memory. Subregions are not looked at. */
static refusal_t ask_filter(uint32_t filter, uint32_t first, uint32_t last, const rights_t *who, uint32_t write) {
    const uint32_t whole = filter >= 4 && filter <= 6, mask = whole ? ~0x10000000u : ~0u, regions = whole ? 11u : 7u;
    const uint32_t trusted = who->compartment == 1u && who->secure && who->privileged, end = last & mask;
    for (uint32_t at = first & mask;;) {
        refusal_t objection = {0, 0, 0, 0};
        uint32_t next = end, admitted = 0; /* the last address that this turn answers for */
        for (uint32_t k = 0; k < regions && !admitted; k++) {
            const uint32_t region = RISAF(filter) + 0x40u * (k + 1u);
            const uint32_t from = WORD(region + 4u) & mask, to = WORD(region + 8u) & mask;
            if (!(WORD(region) & 1u) || to < at) {
                continue;
            }
            if (from > at) {
                next = from - 1u < next ? from - 1u : next;
                continue;
            }
            const refusal_t said = ask_region(region, who, write);
            if (said.code == 0) {
                admitted = 1;
                next = to;
            } else if (objection.code == 0) {
                objection = said;
            }
        }
        if (!admitted && objection.code == 0 && !trusted) {
            objection = (refusal_t){ATONC_SELFTEST_NPU_MASTER, NPU_ATTRIBUTES, WORD(NPU_ATTRIBUTES), 0x310u};
        }
        if ((!admitted && objection.code != 0) || next >= end) {
            objection.code = admitted ? 0 : objection.code;
            return objection;
        }
        at = next + 1u;
    }
}

#define EXPLAINED 0xFFFFu /* a code: what follows from a finding before is not reported */

/* One finding of a filter is enough. */
static uint32_t admits(test_t *t, uint32_t filter, const uint32_t range[2], const rights_t *who, uint32_t uses,
                       uint32_t code) {
    refusal_t said = {0, 0, 0, 0};
    if (uses & ATONC_SELFTEST_NPU_READS) {
        said = ask_filter(filter, range[0], range[1], who, 0);
    }
    if (said.code == 0 && (uses & ATONC_SELFTEST_NPU_WRITES)) {
        said = ask_filter(filter, range[0], range[1], who, 1);
    }
    if (said.code != 0 && !(t->blamed >> filter & 1u)) {
        t->blamed |= 1u << filter;
        if (code != EXPLAINED) {
            report(t, code ? code : said.code, filter, said.place, said.found, said.wanted);
        }
    }
    return said.code == 0;
}

static uint32_t is_privileged(void) {
    uint32_t control, exception;
    __asm volatile("mrs %0, control\n\tmrs %1, ipsr" : "=r"(control), "=r"(exception));
    return exception != 0 || !(control & 1u);
}

static void check_range(test_t *t, const atonc_selftest_memory_t *memory, uint32_t bank, const rights_t *npu,
                        uint32_t code) {
    const uint32_t filter = banks[bank].filter, npu_ram = filter == 4u, uses = memory->uses;
    const rights_t cpu = {1u, ATONC_SELFTEST_BASE != 0, is_privileged()};
    uint32_t range[2];
    if (!part_of(memory, bank, &range[0], &range[1])) {
        return;
    }
    uint32_t good = admits(t, 4u, range, npu, uses, code);
    good &= admits(t, 5u, range, npu, uses, code);
    if (!npu_ram) { /* other filters count from the start of what they guard */
        range[0] -= banks[bank].base;
        range[1] -= banks[bank].base;
        good &= admits(t, filter, range, npu, uses, code);
    }
    good &= admits(t, npu_ram ? 6u : filter, range, &cpu, uses | ATONC_SELFTEST_NPU_READS, ATONC_SELFTEST_RISAF_CPU);
    t->broken |= good ? 0 : 1u << bank;
}

static void check_rights(test_t *t) {
    const uint32_t attributes = WORD(NPU_ATTRIBUTES);
    rights_t npu = {attributes >> 4 & 7u, attributes >> 8 & 1u, attributes >> 9 & 1u};
    uint32_t code = 0;
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t k = 0; k < t->map->memory_count; k++) {
            for (uint32_t bank = 0; bank < BANKS; bank++) {
                check_range(t, &t->map->memories[k], bank, &npu, code);
            }
        }
        if (!npu.secure || bits_are(t, NPU_SECURITY, NPU_SECURITY_BIT, SET | ATONC_SELFTEST_NPU_SLAVE)) {
            return;
        }
        npu.secure = 0; /* once more, as what it really is: which memories it does not reach */
        code = EXPLAINED;
    }
}

/* Refused accesses. What the registers explain already is not said again, and what was there before the test only
 * beside another finding: on a sound board it may be a loader's. */
static void check_illegal(test_t *t, uint32_t before) {
    const uint32_t silent = t->blamed | (t->count ? 0 : t->refused);
    for (uint32_t filter = 2; filter < 14; filter++) {
        const uint32_t status = RISAF(filter) + RISAF_STATUS, bit = 1u << filter;
        if (!(t->filters & bit) || !(WORD(status) & 2u)) {
            continue;
        }
        if (before) {
            t->refused |= bit;
        } else if (!(silent & bit)) {
            report(t, ATONC_SELFTEST_ILLEGAL_ACCESS, filter, status, WORD(status + RISAF_ILLEGAL - RISAF_STATUS), 0);
        }
    }
}

/* ---- the CPU's data cache ---- */

#define LINE 32u
#define DCCIMVAC WORD(0xE000EF70u) /* cleans and invalidates the line of an address */

static void barrier(void) { __asm volatile("dsb\n\tisb" ::: "memory"); }

/* Memory and cache hold the same, and the CPU reads memory next. No function of the application is trusted here. */
static void flush(uint32_t address, uint32_t size) {
    barrier();
    for (uint32_t line = address & ~(LINE - 1u); line < address + size; line += LINE) {
        DCCIMVAC = line;
    }
    barrier();
}

/* ---- the NPU ---- */

enum {
    CLKCTRL = 0,
    INTCTRL = 1,
    BUSIF = 2,
    STRSWITCH = 4,
    STRENG = 5,
    CONVACC = 15,
    DECUN = 19,
    ACTIV = 21,
    ARITH = 23,
    POOL = 27,
    EPOCHCTRL = 30,
};
enum { CTRL = 0, VERSION = 1, AGATES0 = 2, AGATES1 = 3, BGATES = 4, EC_ADDRESS = 2, EC_IRQ = 3 };
enum { INTERRUPT_CLEAR = 4 };
#define ON 1u
#define CLEAR 2u
#define CLEAR_SETTINGS 0x40000000u
#define RUNNING 0x80000000u
#define POLLS 8000u /* at equal clocks; what runs here takes microseconds */

/* What is switched on for the test and put back behind it: clocks, bus interfaces; masks of all interrupts are set, so
 * that those of what runs here reach nobody. */
static const struct {
    uint8_t unit, reg;
} kept[] = {
    {CLKCTRL, CTRL}, {CLKCTRL, AGATES0}, {CLKCTRL, AGATES1}, {CLKCTRL, BGATES}, {BUSIF, CTRL}, {BUSIF + 1, CTRL},
    {INTCTRL, 5},    {INTCTRL, 6},       {INTCTRL, 7},       {INTCTRL, 8},      {INTCTRL, 9},  {INTCTRL, 10},
    {INTCTRL, 11},   {INTCTRL, 12},
};
enum { KEPT = sizeof kept / sizeof kept[0] };

static void npu_begin(uint32_t before[KEPT]) {
    for (uint32_t k = 0; k < KEPT; k++) {
        before[k] = UNIT(kept[k].unit, kept[k].reg);
        UNIT(kept[k].unit, kept[k].reg) = before[k] | (kept[k].reg == CTRL ? ON : 0xFFFFFFFFu);
    }
}

static void npu_end(const uint32_t before[KEPT]) {
    UNIT(INTCTRL, INTERRUPT_CLEAR) = 0xFFFFFFFFu; /* sources that were raised here */
    for (uint32_t k = KEPT; k-- > 0;) {
        UNIT(kept[k].unit, kept[k].reg) = before[k];
    }
}

static uint32_t npu_is_idle(test_t *t) {
    for (uint32_t k = 0; k <= 10u; k++) {
        const uint32_t unit = k < 10u ? STRENG + k : EPOCHCTRL;
        if (!bits_are(t, NPU + 0x1000u * unit, RUNNING, ATONC_SELFTEST_NPU_BUSY | OF(unit))) {
            return 0;
        }
    }
    return 1;
}

static uint32_t units_are_known(test_t *t) {
    static const struct {
        uint16_t unit, version;
    } known[] = {{CLKCTRL, 0x121F}, {INTCTRL, 0x111E}, {BUSIF, 0x501D}, {STRSWITCH, 0x1600}, {STRENG, 0x5001},
                 {CONVACC, 0x5117}, {DECUN, 0x1A19}, {ACTIV, 0x111B}, {ARITH, 0x101A}, {POOL, 0x111C},
                 {EPOCHCTRL, 0x1121}};
    for (uint32_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        uint32_t found = 0;
        for (uint32_t polls = 0; polls < 1000u && found == 0; polls++) { /* 0 until the clock of the unit runs */
            found = UNIT(known[k].unit, VERSION) & 0xFFFFu;
        }
        if (found != known[k].version) {
            report(t, ATONC_SELFTEST_NPU_VERSION, known[k].unit, NPU + 0x1000u * known[k].unit + 4u * VERSION, found,
                   known[k].version);
            return 0;
        }
    }
    return 1;
}

/* ---- programs of the epoch controller, which the CPU can also follow itself ---- */

#define PLACE(unit, reg) ((uint32_t)(unit) << 26 | (uint32_t)(reg) << 16)
#define STORE(unit, reg, value) PLACE(unit, reg) | 31u << 10, (value)
#define BURST(unit, reg, count) PLACE(unit, reg) | (count) << 5 | 3u
#define BIT(unit, reg, bit, value) ((uint32_t)(unit) << 26 | (reg) << 21 | (value) << 13 | (bit) << 5 | 1u)
#define WAIT_FOR_0(unit, bit) PLACE(unit, CTRL) | (bit) << 10 | (bit) << 5 | 4u, 100u, 0u
#define CLOCK(bit, on) BIT(CLKCTRL, BGATES, bit, on)
#define LABEL 0x3Du /* epoch 1 */
#define IRQ 0x0Cu
#define EMPTY(unit, reset) \
    STORE(unit, CTRL, (reset) | CLEAR), WAIT_FOR_0(unit, 1u), STORE(unit, CTRL, (reset) | CLEAR_SETTINGS), \
        WAIT_FOR_0(unit, 30u)
/* An address in one of the places that a program is given, instead of a number. */
#define AT(place, offset) (0xADD00000u | (place) << 16 | (offset))
#define IS_AT(word) ((word) >> 20 == 0xADDu)
/* One frame of bytes; engines may fetch 64 bytes ahead, but not beyond the limit. */
#define READER(number, place, offset, size, ahead) \
    CLOCK(number, 1u), STORE(STRENG + (number), CTRL, 0x80104u), BURST(STRENG + (number), 2, 2u), AT(place, offset), \
        (size), BURST(STRENG + (number), 9, 2u), 0x24u, 0x100000u, BURST(STRENG + (number), 12, 3u), 7u, 1u, \
        AT(place, (ahead) + 63u)
#define WRITER(number, place, size) \
    CLOCK(number, 1u), STORE(STRENG + (number), CTRL, 0x8010Cu), BURST(STRENG + (number), 2, 2u), AT(place, 0u), \
        (size), STORE(STRENG + (number), 6, size), BURST(STRENG + (number), 9, 2u), 0x24u, 0x100000u, \
        BURST(STRENG + (number), 12, 3u), 7u, 1u, AT(place, (size) + 63u)
#define START(unit) BIT(unit, CTRL, 0u, 1u)
#define END(number) EMPTY(STRENG + (number), 0u), CLOCK(number, 0u)

#define COPIED 64u
static const uint32_t copy_program[] = {
    LABEL, READER(0u, 0u, 0u, COPIED, COPIED), WRITER(5u, 1u, COPIED),
    EMPTY(STRSWITCH, 0u), STORE(STRSWITCH, CTRL, ON), STORE(STRSWITCH, 7, 1u), /* engine 0 to engine 5 */
    START(STRENG + 5), START(STRENG), WAIT_FOR_0(STRENG + 5, 31u),
    STORE(STRSWITCH, 7, 0u), END(5u), END(0u), IRQ,
};

/* x + y, as bytes that saturate */
#define TERMS 256u
static const uint32_t sum_program[] = {
    LABEL, CLOCK(18u, 1u), STORE(ARITH, CTRL, 0x5000160u), STORE(ARITH, 2, 0x70000u),
    BURST(ARITH, 7, 2u), 0x4000u, 0x4000u,
    STORE(ARITH, 13, 0x10411041u), READER(0u, 0u, 0u, TERMS, 2u * TERMS), READER(5u, 0u, TERMS, TERMS, 2u * TERMS),
    WRITER(1u, 1u, TERMS), EMPTY(STRSWITCH, 0u), STORE(STRSWITCH, CTRL, ON), STORE(STRSWITCH, 3, 37u),
    BURST(STRSWITCH, 30, 2u), 1u, 11u,
    START(STRENG + 1), START(ARITH), START(STRENG), START(STRENG + 5), WAIT_FOR_0(STRENG + 1, 31u),
    STORE(STRSWITCH, 3, 0u), BURST(STRSWITCH, 30, 2u), 0u, 0u,
    END(1u), EMPTY(ARITH, 0x8000000u), CLOCK(18u, 0u), END(0u), END(5u), IRQ,
};

#define COUNT_OF(list) (sizeof(list) / sizeof((list)[0]))

static uint32_t resolved(uint32_t word, const uint32_t places[2]) {
    return IS_AT(word) ? places[word >> 16 & 15u] + (word & 0xFFFFu) : word;
}

/* The CPU does what the epoch controller would do; 0 if something never ends. */
static uint32_t follow(const test_t *t, const uint32_t *word, const uint32_t *end, const uint32_t places[2]) {
    while (word < end) {
        const uint32_t first = *word++, unit = first >> 26, bit = first >> 5 & 31u;
        uint32_t reg = first >> 16 & 0x3FFu, count = 1, polls = 0;
        switch (first & 31u) {
        case 1: /* a bit */
            reg = first >> 21 & 31u;
            UNIT(unit, reg) = (UNIT(unit, reg) & ~(1u << bit)) | (first >> 13 & 1u) << bit;
            break;
        case 3: /* neighbouring registers */
            count = first >> 5 & 0x7FFu;
            /* fall through */
        case 0:
            while (count-- > 0) {
                UNIT(unit, reg++) = resolved(*word++, places);
            }
            break;
        case 4:
            while (UNIT(unit, reg) >> bit & 1u) {
                if (++polls == t->polls) {
                    return 0;
                }
            }
            word += 2;
            break;
        default: /* number of the epoch, interrupt */
            break;
        }
    }
    return 1;
}

/* After something that hangs: nothing is left running. */
static void stop_engines(void) {
    for (uint32_t unit = STRENG; unit < STRENG + 10u; unit++) {
        UNIT(unit, CTRL) = CLEAR;
        UNIT(unit, CTRL) = CLEAR_SETTINGS;
    }
}

static uint32_t npu_copies(test_t *t, uint32_t from, uint32_t to, uint32_t bank) {
    const uint32_t places[2] = {from, to};
    barrier();
    if (follow(t, copy_program, copy_program + COUNT_OF(copy_program), places)) {
        return 1;
    }
    stop_engines();
    t->npu = 0;
    report(t, ATONC_SELFTEST_ENGINE_HANGS, bank + 1u, NPU + 0x1000u * (STRENG + 5u), UNIT(STRENG + 5, CTRL), 0);
    return 0;
}

/* ---- memories, by CPU and NPU ---- */

enum { COPIED_WORDS = COPIED / 4u };

static void fill(uint32_t address, uint32_t seed) {
    for (uint32_t k = 0; k < COPIED_WORDS; k++) {
        WORD(address + 4u * k) = (address + 4u * k) * 0x9E3779B1u ^ seed;
    }
}

/* Whether `COPIED` bytes are those that `fill` put to `from`. */
static uint32_t holds(test_t *t, uint32_t address, uint32_t from, uint32_t seed, uint32_t code, uint32_t detail) {
    for (uint32_t k = 0; k < COPIED; k += 4u) {
        const uint32_t found = WORD(address + k), wanted = (from + k) * 0x9E3779B1u ^ seed;
        if (found != wanted) {
            report(t, code, detail, address + k, found, wanted);
            return 0;
        }
    }
    return 1;
}

static uint32_t ram_keeps(test_t *t, uint32_t at, uint32_t bank) {
    const uint32_t to = at + COPIED, name = bank + 1u;
    uint32_t seed = 0x5AA53CC3u;
    for (uint32_t turn = 0; turn < 2; turn++, seed = ~seed) {
        fill(at, seed);
        fill(to, ~seed);
        flush(at, 2u * COPIED);
        if (!holds(t, at, at, seed, ATONC_SELFTEST_RAM_CPU, name) ||
            !holds(t, to, to, ~seed, ATONC_SELFTEST_RAM_CPU, name)) {
            return 0;
        }
        if (t->npu) {
            if (!npu_copies(t, at, to, bank)) {
                return 0;
            }
            flush(to, COPIED);
            if (!holds(t, to, at, seed, ATONC_SELFTEST_ENGINE_BYTES, name)) {
                return 0;
            }
        }
    }
    return 1;
}

static void check_ram(test_t *t, uint32_t bank) {
    const uint32_t at = t->touched[bank];
    uint32_t saved[ATONC_SELFTEST_TOUCHED / 4u];
    memcpy(saved, (const void *)(uintptr_t)at, sizeof saved);
    t->broken |= ram_keeps(t, at, bank) ? 0 : 1u << bank;
    memcpy((void *)(uintptr_t)at, saved, sizeof saved);
    flush(at, ATONC_SELFTEST_TOUCHED);
}

static uint32_t is_sound(const test_t *t, uint32_t address) {
    const uint32_t bank = bank_of(address);
    return bank < BANKS && !(t->broken >> bank & 1u);
}

/* What the NPU only reads: it sees the same bytes as the CPU. */
static void check_read_only(test_t *t) {
    for (uint32_t k = 0; k < t->map->memory_count; k++) {
        const uint32_t from = (t->map->memories[k].base + 31u) & ~31u, bank = bank_of(from), to = t->map->work;
        if (!is_sound(t, from) || t->touched[bank] || t->map->memories[k].size < 2u * COPIED) {
            continue;
        }
        flush(to, COPIED);
        if (!npu_copies(t, from, to, bank)) {
            return;
        }
        flush(to, COPIED);
        flush(from, COPIED);
        for (uint32_t offset = 0; offset < COPIED; offset += 4u) {
            const uint32_t found = WORD(to + offset), wanted = WORD(from + offset);
            if (found != wanted) {
                report(t, ATONC_SELFTEST_ENGINE_BYTES, bank + 1u, from + offset, found, wanted);
                t->broken |= 1u << bank;
                break;
            }
        }
    }
}

/* The application's own functions, with a line that is stale without them. */
static void check_caches(test_t *t) {
    const uint32_t from = t->map->work, to = from + COPIED, bank = bank_of(from), seed = 0x13579BDFu;
    if (t->map->clean != 0) {
        fill(from, ~seed);
        flush(from, 2u * COPIED);
        fill(from, seed); /* in the cache only */
        t->map->clean(from, COPIED);
        if (!npu_copies(t, from, to, bank)) {
            return;
        }
        flush(to, COPIED);
        holds(t, to, from, seed, ATONC_SELFTEST_CACHE_CLEAN, 0);
    }
    if (t->map->invalidate != 0) {
        fill(from, seed);
        fill(to, ~seed);
        flush(from, 2u * COPIED);
        (void)WORD(to); /* so that its lines are in the cache */
        (void)WORD(to + LINE);
        if (!npu_copies(t, from, to, bank)) {
            return;
        }
        t->map->invalidate(to, COPIED);
        holds(t, to, from, seed, ATONC_SELFTEST_CACHE_INVALIDATE, 0);
    }
}

/* ---- constants ---- */

uint32_t atonc_selftest_crc32(uint32_t crc, const void *data, uint32_t size) {
    static const uint32_t table[16] = {
        0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u, 0x4DB26158u, 0x5005713Cu,
        0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu, 0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu,
    };
    crc = ~crc;
    for (const uint8_t *byte = data; size-- > 0; byte++) {
        crc ^= *byte;
        crc = crc >> 4 ^ table[crc & 15u];
        crc = crc >> 4 ^ table[crc & 15u];
    }
    return ~crc;
}

#define SEARCH_STEP 0x100u

static uint32_t starts_at(const atonc_selftest_weights_t *weights, uint32_t address) {
    return memcmp((const void *)(uintptr_t)address, weights->start, sizeof weights->start) == 0;
}

/* Where the constants are instead; 0: nowhere in their memory. */
static uint32_t found_elsewhere(const atonc_selftest_weights_t *weights) {
    const uint32_t first = banks[bank_of(weights->base)].base;
    for (uint32_t at = first; at + sizeof weights->start <= weights->end && at >= first; at += SEARCH_STEP) {
        if (starts_at(weights, at)) {
            return at;
        }
    }
    return 0;
}

static void wrong_piece(test_t *t, const atonc_selftest_weights_t *weights, uint32_t piece, uint32_t at, uint32_t crc) {
    const uint32_t elsewhere = piece == 0 && !starts_at(weights, at) ? found_elsewhere(weights) : 0;
    const uint32_t found = WORD(at);
    const uint32_t others = (WORD(at + 4u) ^ found) | (WORD(at + 8u) ^ found) | (WORD(at + 12u) ^ found);
    if (elsewhere) {
        report(t, ATONC_SELFTEST_FLASH_SHIFTED, 0, weights->base, elsewhere, weights->base);
    } else if (others == 0 && (found == 0 || found == ~0u)) {
        report(t, ATONC_SELFTEST_FLASH_EMPTY, piece, at, found, weights->start[0]);
    } else {
        report(t, ATONC_SELFTEST_WEIGHTS_CRC, piece, at, crc, weights->crcs[piece]);
    }
}

static void check_weights(test_t *t) {
    for (uint32_t k = 0; k < t->map->weights_count; k++) {
        const atonc_selftest_weights_t *weights = &t->map->weights[k];
        if (!is_sound(t, weights->base)) {
            continue;
        }
        uint32_t done = 0;
        for (uint32_t piece = 0; done < weights->size; piece++, done += weights->piece) {
            const uint32_t left = weights->size - done, at = weights->base + done;
            const uint32_t crc =
                atonc_selftest_crc32(0, (const void *)(uintptr_t)at, left < weights->piece ? left : weights->piece);
            if (crc != weights->crcs[piece]) {
                wrong_piece(t, weights, piece, at, crc);
                break;
            }
        }
    }
}

/* ---- clocks, in kHz ---- */

static uint32_t source_khz(uint32_t source) {
    switch (source & 3u) {
    case 0:
        return 64000u >> (WORD(RCC + 0x48u) >> 7 & 3u); /* HSI */
    case 1:
        return 4000u; /* MSI */
    default:
        return source & 1u ? 0 : ATONC_HSE_HZ / 1000u;
    }
}

static uint32_t at_least_1(uint32_t value) { return value ? value : 1u; }

/* Behind a switch (CPU: bit 20 of CFGR1, bus: bit 28) an oscillator, or one of the dividers of the PLLs. */
static uint32_t khz(uint32_t shift, uint32_t divider) {
    const uint32_t source = WORD(RCC_CFGR1) >> shift & 3u, word = WORD(RCC + 0xC0u + 4u * divider);
    if (source != 3u) {
        return source_khz(source);
    }
    const uint32_t pll = RCC + 0x80u + 0x10u * (word >> 28 & 3u), first = WORD(pll), third = WORD(pll + 8u);
    uint32_t rate = source_khz(first >> 28);
    if (!(first >> 27 & 1u)) { /* not bypassed */
        rate = rate * (first >> 8 & 0xFFFu) /
               (at_least_1(first >> 20 & 63u) * at_least_1(third >> 27 & 7u) * at_least_1(third >> 24 & 7u));
    }
    return rate / ((word >> 16 & 0xFFu) + 1u);
}

static void rate_is(test_t *t, uint32_t code, uint32_t found, uint32_t wanted_hz, uint32_t divider) {
    const uint32_t wanted = wanted_hz / 1000u, most = wanted / 64u;
    if (wanted != 0 && (found + most < wanted || found > wanted + most)) {
        report(t, code, 0, RCC + 0xC0u + 4u * divider, found * 1000u, wanted_hz);
    }
}

static void check_rates(test_t *t) {
    const uint32_t cpu = t->cpu_khz = khz(20, 1), npu = t->npu_khz = khz(28, 6);
    t->polls = POLLS * (1u + cpu / at_least_1(npu));
    rate_is(t, ATONC_SELFTEST_CPU_RATE, cpu, t->map->cpu_hz, 1);
    rate_is(t, ATONC_SELFTEST_NPU_RATE, npu, t->map->npu_hz, 6);
    rate_is(t, ATONC_SELFTEST_NPU_RAM_RATE, khz(28, 11), t->map->npu_ram_hz, 11);
}

/* ---- the epoch controller ---- */

#define MAGIC 0xCA057A7Au
#define TRACE_ON (1u << 24)
#define DEBUG_CONTROL WORD(0xE000EDFCu)
#define COUNTER_CONTROL WORD(0xE0001000u)
#define COUNTER WORD(0xE0001004u)
#define PROGRAM_OFFSET 1024u
#define OUTPUT_OFFSET 576u

/* CPU cycles, 0 if it did not end well. */
static uint32_t controller_runs(test_t *t, const uint32_t *program, uint32_t count, const uint32_t places[2]) {
    const uint32_t at = t->map->work + PROGRAM_OFFSET;
    uint32_t status = 0, polls = 0;
    WORD(at) = MAGIC;
    WORD(at + 4u) = count;
    for (uint32_t k = 0; k < count; k++) {
        WORD(at + 8u + 4u * k) = resolved(program[k], places);
    }
    flush(at, 8u + 4u * count);
    UNIT(EPOCHCTRL, CTRL) = 0;
    UNIT(EPOCHCTRL, EC_ADDRESS) = at;
    UNIT(EPOCHCTRL, EC_IRQ) = UNIT(EPOCHCTRL, EC_IRQ);
    barrier();
    const uint32_t start = COUNTER;
    UNIT(EPOCHCTRL, CTRL) = ON;
    while (status == 0 && polls++ < t->polls) {
        status = UNIT(EPOCHCTRL, EC_IRQ);
    }
    const uint32_t cycles = COUNTER - start;
    UNIT(EPOCHCTRL, EC_IRQ) = status;
    UNIT(EPOCHCTRL, CTRL) = CLEAR;
    UNIT(EPOCHCTRL, CTRL) = CLEAR_SETTINGS;
    if (status == 1u) {
        return cycles | 1u;
    }
    stop_engines();
    report(t, status ? ATONC_SELFTEST_CONTROLLER_ERROR : ATONC_SELFTEST_CONTROLLER_HANGS, 0,
           NPU + 0x1000u * EPOCHCTRL + 4u * EC_IRQ, status, 1u);
    return 0;
}

#define SUM_CYCLES 1206u /* of the NPU, as the cost model has them; not yet run on a board */
#define MOST_TIMES 4u

static void check_time(test_t *t, uint32_t cpu_cycles) {
    if (cpu_cycles < 2u) {
        return; /* the counter is not there */
    }
    const uint32_t cpu_mhz = at_least_1(t->cpu_khz / 1000u), most = 1000000u;
    const uint32_t cycles = (cpu_cycles < most ? cpu_cycles : most) * (t->npu_khz / 1000u) / cpu_mhz;
    if (cycles < SUM_CYCLES / MOST_TIMES || cycles > SUM_CYCLES * MOST_TIMES) {
        report(t, ATONC_SELFTEST_PROBE_TIME, 0, 0, cycles, SUM_CYCLES);
    }
}

static void check_sum(test_t *t) {
    const uint32_t places[2] = {t->map->work, t->map->work + OUTPUT_OFFSET};
    int8_t *input = (int8_t *)(uintptr_t)places[0];
    const int8_t *output = (const int8_t *)(uintptr_t)places[1];
    for (uint32_t k = 0; k < 2u * TERMS; k++) {
        input[k] = (int8_t)((k * 37u >> 3 & 63u) - 31u);
    }
    memset((void *)(uintptr_t)places[1], 0x55, TERMS);
    flush(places[0], PROGRAM_OFFSET);
    const uint32_t cycles = controller_runs(t, sum_program, COUNT_OF(sum_program), places);
    if (cycles == 0) {
        return;
    }
    flush(places[1], TERMS);
    for (uint32_t k = 0; k < TERMS; k++) {
        const int32_t wanted = input[k] + input[TERMS + k];
        if (output[k] != wanted) {
            report(t, ATONC_SELFTEST_PROBE_BYTES, k, places[1] + k, (uint8_t)output[k], (uint8_t)wanted);
            return;
        }
    }
    check_time(t, cycles);
}

static void check_controller(test_t *t) {
    static const uint32_t nothing[] = {LABEL, IRQ};
    const uint32_t places[2] = {0, 0}, debug = DEBUG_CONTROL, counter = COUNTER_CONTROL;
    DEBUG_CONTROL = debug | TRACE_ON;
    COUNTER_CONTROL = COUNTER_CONTROL | 1u;
    if (controller_runs(t, nothing, COUNT_OF(nothing), places)) {
        check_sum(t);
    }
    COUNTER_CONTROL = counter;
    DEBUG_CONTROL = debug;
}

/* ---- all of it ---- */

static void check_memories(test_t *t) {
    for (uint32_t bank = 0; bank < BANKS; bank++) {
        if (t->touched[bank] && !(t->broken >> bank & 1u)) {
            check_ram(t, bank);
        }
    }
    check_weights(t);
}

/* What needs memory that both may write. */
static void check_work(test_t *t) {
    static void (*const checks[])(test_t *) = {check_read_only, check_caches, check_controller};
    for (uint32_t k = 0; k < COUNT_OF(checks) && t->npu && t->map->work != 0 && is_sound(t, t->map->work); k++) {
        checks[k](t);
    }
}

static void check_npu(test_t *t) {
    uint32_t before[KEPT];
    if ((UNIT(CLKCTRL, CTRL) & ON) && !npu_is_idle(t)) {
        check_memories(t);
        return;
    }
    npu_begin(before);
    t->npu = units_are_known(t);
    if (t->npu && t->map->npu_base != 0) {
        const uint32_t place = t->map->npu_base + 4u * VERSION, found = WORD(place), wanted = UNIT(CLKCTRL, VERSION);
        if (found != wanted) {
            report(t, ATONC_SELFTEST_NPU_ADDRESS, 0, place, found, wanted);
        }
    }
    check_memories(t);
    check_work(t);
    npu_end(before);
}

uint32_t atonc_selftest(const atonc_selftest_map_t *map, atonc_finding_t *findings, uint32_t most) {
    test_t t = {.map = map, .findings = findings, .most = most};
    uint32_t off[2];
    read_map(&t);
    clocks_to_ask(off);
    const uint32_t npu = npu_is_on(&t);
    check_banks(&t);
    check_rates(&t);
    if (npu) {
        check_illegal(&t, 1);
        if (ATONC_SELFTEST_BASE != 0) { /* from the non-secure state nobody can read them */
            check_rights(&t);
        }
        check_npu(&t);
    } else {
        check_memories(&t);
    }
    if (t.count == 0 && map->known_run != 0) {
        atonc_finding_t finding = {0, 0, 0, 0, 0};
        if (map->known_run(&finding) != 0) {
            report(&t, finding.code, finding.detail, finding.place, finding.found, finding.wanted);
        }
    }
    if (npu) {
        check_illegal(&t, 0);
    }
    clocks_as_before(off);
    return t.count;
}

#ifndef ATONC_SELFTEST_NO_TEXT

#define NAME(number, name, reg, cause, fix) [number] = #name,
#define REGISTER(number, name, reg, cause, fix) [number] = reg,
#define CAUSE(number, name, reg, cause, fix) [number] = cause,
#define FIX(number, name, reg, cause, fix) [number] = fix,
#define TEXTS(function, which) \
    const char *function(uint16_t code) { \
        static const char *const texts[] = {ATONC_SELFTEST_CODES(which)}; \
        return code < COUNT_OF(texts) && texts[code] != 0 ? texts[code] : "unknown"; \
    }

TEXTS(atonc_selftest_name, NAME)
TEXTS(atonc_selftest_register, REGISTER)
TEXTS(atonc_selftest_cause, CAUSE)
TEXTS(atonc_selftest_fix, FIX)

#endif

#endif
