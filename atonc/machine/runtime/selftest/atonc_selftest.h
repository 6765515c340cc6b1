/* SPDX-License-Identifier: Apache-2.0
 * Finds out whether a board is set up for a network on the NPU of the STM32N6: clocks, power, security, caches, flash.
 *
 * Needs no HAL, no CMSIS and no runtime, and works beside any of them. Call it before the network is initialised or
 * between two inferences, never during one. It changes nothing: registers and memory are put back as they were, except
 * the bytes at `work`. Registers are looked at before memory is touched, because an access to a memory without a clock
 * can stop the whole bus. A check whose preconditions do not hold is not run and not reported, so what is reported is a
 * cause, not a consequence.
 *
 * ATONC_NO_SELFTEST        nothing of it is compiled, atonc_selftest() is 0
 * ATONC_SELFTEST_NO_TEXT   values only; the functions that give texts return ""
 * ATONC_SELFTEST_BASE      0 for firmware that runs in the non-secure state; by default 0x10000000, as after reset
 */
#ifndef ATONC_SELFTEST_H
#define ATONC_SELFTEST_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint16_t code;   /* ATONC_SELFTEST_... below */
    uint16_t detail; /* bank, filter, block or unit: see the text of the code */
    uint32_t place;  /* address of a register or in a memory */
    uint32_t found;
    uint32_t wanted;
} atonc_finding_t;

enum {
    ATONC_SELFTEST_NPU_READS = 1,
    ATONC_SELFTEST_NPU_WRITES = 2,
    ATONC_SELFTEST_NPU_CACHED = 4, /* through the NPU's cache */
};

/* What the network uses of a memory. A range may span several banks. What the NPU writes is tested by writing: the
 * first ATONC_SELFTEST_TOUCHED bytes of each bank in the range are saved, changed and put back. */
typedef struct {
    uint32_t base;
    uint32_t size;
    uint32_t uses;
} atonc_selftest_memory_t;

/* Constants that must be in memory before the network runs, in pieces of `piece` bytes, each with its CRC-32. */
typedef struct {
    uint32_t base;
    uint32_t size;
    uint32_t piece;
    const uint32_t *crcs;
    uint32_t start[4]; /* their first words, which are looked for elsewhere when they are not at `base` */
    uint32_t end;      /* of the memory that they are in: nothing is looked for beyond */
} atonc_selftest_weights_t;

#define ATONC_SELFTEST_TOUCHED 128u
#define ATONC_SELFTEST_WORK 2048u

enum { ATONC_SELFTEST_NEVER_SLEEPS = 1 /* the CPU polls: clocks in sleep mode do not matter */ };

/* Everything that is 0 is not checked. */
typedef struct {
    const atonc_selftest_memory_t *memories;
    uint32_t memory_count;
    const atonc_selftest_weights_t *weights;
    uint32_t weights_count;
    uint32_t work;   /* address of ATONC_SELFTEST_WORK bytes that the NPU may read and write, multiple of 32; lost */
    uint32_t flags;
    uint32_t cpu_hz; /* what the board is meant to run at */
    uint32_t npu_hz;
    uint32_t npu_ram_hz;
    uint32_t npu_base; /* where the runtime has the NPU's registers: ATON_BASE */
    /* the application's cache maintenance, as the network's runtime uses it */
    void (*clean)(uint32_t address, uint32_t size);
    void (*invalidate)(uint32_t address, uint32_t size);
    /* one inference with known output, run only when nothing else was found; 0: right, else it fills the finding */
    uint32_t (*known_run)(atonc_finding_t *finding);
} atonc_selftest_map_t;

/* X(number, name, register, cause, fix). Banks are numbered 1 to 6 for AXISRAM1 to 6, 7 for the RAM of the NPU's cache,
 * 8 for VENCRAM, 9 for the hyperRAM at XSPI1, 10 for the flash at XSPI2, 11 for XSPI3 and 12 for FLEXRAM, the first
 * 400 KB of AXISRAM1. Filters are the numbers of RISAFs. Numbers never change. */
#define ATONC_SELFTEST_CODES(X) \
    X(1, MAP, "none", \
      "the network uses addresses that are in no memory which the NPU reaches (detail: entry of the map)", \
      "generate the network for this board, or correct the map that is given to atonc_selftest()") \
    X(2, NPU_CLOCK, "RCC_AHB5ENR.NPUEN", "the NPU has no clock", \
      "set bit 31 of RCC_AHB5ENR: __HAL_RCC_NPU_CLK_ENABLE()") \
    X(3, NPU_RESET, "RCC_AHB5RSTR.NPURST", "the NPU is held in reset", \
      "clear bit 31 of RCC_AHB5RSTR: __HAL_RCC_NPU_RELEASE_RESET()") \
    X(4, RAM_CLOCK, "RCC_MEMENR", "a RAM bank that the network uses has no clock (detail: bank)", \
      "set the bank's bit in RCC_MEMENR, e.g. __HAL_RCC_AXISRAM3_MEM_CLK_ENABLE()") \
    X(5, RAM_RESET, "RCC_MEMRSTR", "a RAM bank that the network uses is held in reset (detail: bank)", \
      "clear the bank's bit in RCC_MEMRSTR") \
    X(6, RAM_SHUTDOWN, "RAMCFG_AXISRAMxCR.SRAMSD", \
      "a RAM bank that the network uses is shut down, as AXISRAM3 to 6 are after reset (detail: bank)", \
      "clear bit 20 of the bank's RAMCFG_AXISRAMxCR: HAL_RAMCFG_EnableAXISRAM()") \
    X(7, CACHE_CLOCK, "RCC_AHB5ENR.CACHEAXIEN", "the NPU's cache has no clock", \
      "set bit 30 of RCC_AHB5ENR: __HAL_RCC_CACHEAXI_CLK_ENABLE(), or npu_cache_enable()") \
    X(8, CACHE_RESET, "RCC_AHB5RSTR.CACHEAXIRST", "the NPU's cache is held in reset", \
      "clear bit 30 of RCC_AHB5RSTR: __HAL_RCC_CACHEAXI_RELEASE_RESET()") \
    X(9, CACHE_OFF, "CACHEAXI_CR1.EN", "the NPU's cache is off: the network would read external memory much slower", \
      "call npu_cache_enable() before the network is initialised") \
    X(10, CACHE_RAM, "CACHEAXI_CR1.EN", "the network uses the RAM of the NPU's cache as memory, but the cache is on", \
      "leave the cache off, or generate the network without that memory") \
    X(11, XSPI_CLOCK, "RCC_AHB5ENR.XSPIxEN", "the controller of an external memory has no clock (detail: bank)", \
      "set bit 12 of RCC_AHB5ENR for XSPI2 (flash) or bit 5 for XSPI1 (hyperRAM), then set up the controller") \
    X(12, XSPI_RESET, "RCC_AHB5RSTR.XSPIxRST", "the controller of an external memory is held in reset (detail: bank)", \
      "clear the controller's bit in RCC_AHB5RSTR, then set up the controller") \
    X(13, XSPI_OFF, "XSPIx_CR.EN", "the controller of an external memory is off (detail: bank)", \
      "initialise it: BSP_XSPI_NOR_Init() for the flash, BSP_XSPI_RAM_Init() for the hyperRAM") \
    X(14, XSPI_MODE, "XSPIx_CR.FMODE", "an external memory is not mapped to addresses (detail: bank)", \
      "BSP_XSPI_NOR_EnableMemoryMappedMode() for the flash, BSP_XSPI_RAM_EnableMemoryMappedMode() for the hyperRAM") \
    X(15, NPU_SLEEP, "RCC_AHB5LPENR.NPULPEN", \
      "the NPU loses its clock when the CPU sleeps: an inference would not end", \
      "set bit 31 of RCC_AHB5LPENR: __HAL_RCC_NPU_CLK_SLEEP_ENABLE()") \
    X(16, RAM_SLEEP, "RCC_MEMLPENR", "a RAM bank loses its clock when the CPU sleeps (detail: bank)", \
      "set the bank's bit in RCC_MEMLPENR, e.g. __HAL_RCC_AXISRAM3_MEM_CLK_SLEEP_ENABLE()") \
    X(17, CACHE_SLEEP, "RCC_AHB5LPENR.CACHEAXILPEN", "the NPU's cache loses its clock when the CPU sleeps", \
      "set bit 30 of RCC_AHB5LPENR: __HAL_RCC_CACHEAXI_CLK_SLEEP_ENABLE()") \
    X(18, XSPI_SLEEP, "RCC_AHB5LPENR.XSPIxLPEN", \
      "the controller of an external memory loses its clock when the CPU sleeps (detail: bank)", \
      "set its bit in RCC_AHB5LPENR, e.g. __HAL_RCC_XSPI2_CLK_SLEEP_ENABLE()") \
    X(19, NPU_SLAVE, "RIFSC_RISC_SECCFGR3.SEC10", \
      "the NPU's registers are non-secure, so its accesses count as non-secure whatever RIFSC_RIMC_ATTR1 says", \
      "HAL_RIF_RISC_SetSlaveSecureAttributes(RIF_RISC_PERIPH_INDEX_NPU, RIF_ATTRIBUTE_SEC | RIF_ATTRIBUTE_PRIV)") \
    X(20, NPU_MASTER, "RIFSC_RIMC_ATTR1", \
      "a memory admits only secure privileged accesses of compartment 1, the NPU has other rights (detail: filter)", \
      "HAL_RIF_RIMC_ConfigMasterAttributes(RIF_MASTER_INDEX_NPU, ...) with RIF_CID_1, secure and privileged") \
    X(21, RISAF_SECURITY, "RISAFx_REGy_CFGR.SEC", \
      "the region of a memory is for the other security state than the NPU's (detail: filter)", \
      "change SEC of the region, or add a region for the NPU's security state") \
    X(22, RISAF_PRIVILEGE, "RISAFx_REGy_CFGR.PRIVCn", \
      "the region of a memory is for privileged accesses, and the NPU's are not (detail: filter)", \
      "clear PRIVC of the NPU's compartment in the region, or make the NPU privileged in RIFSC_RIMC_ATTR1") \
    X(23, RISAF_READ, "RISAFx_REGy_CIDCFGR.RDENCn", \
      "the NPU's compartment may not read a memory: it would read zeros (detail: filter)", \
      "set RDENC of the NPU's compartment in the region's CIDCFGR") \
    X(24, RISAF_WRITE, "RISAFx_REGy_CIDCFGR.WRENCn", \
      "the NPU's compartment may not write a memory: what it writes would be lost (detail: filter)", \
      "set WRENC of the NPU's compartment in the region's CIDCFGR") \
    X(25, RISAF_CPU, "RISAFx_REGy_CFGR, CIDCFGR", "the CPU itself may not read or write a memory (detail: filter)", \
      "give compartment 1 read and write rights in the region; NPU RAM has RISAF6 for the CPU beside RISAF4 and 5") \
    X(26, ILLEGAL_ACCESS, "RISAFx_IASR, RISAFx_IAR", \
      "a filter has refused an access to a memory of the network (detail: filter; found: address)", \
      "look at RISAFx_IAESR for who it was; after correction clear it with RISAFx_IACR") \
    X(27, RAM_CPU, "none", "a memory does not keep what the CPU writes (detail: bank)", \
      "look at supply and clocks of the bank, at the MPU, and for external RAM at its timing and latency settings") \
    X(28, NPU_VERSION, "VERSION of a unit", \
      "a unit of the NPU has another version than that of an STM32N6 (detail: unit)", \
      "0: the NPU has no clock or its registers are blocked; else the chip is another one than atonc compiles for") \
    X(29, NPU_BUSY, "EPOCHCTRL_CTRL.RUNNING, STRENGx_CTRL.RUNNING", "the NPU is running (detail: unit)", \
      "call the self-test before the network starts or between two inferences") \
    X(30, ENGINE_HANGS, "STRENGx_CTRL.RUNNING", "a stream engine does not end a small copy (detail: bank)", \
      "reset the NPU by bit 31 of RCC_AHB5RSTR; look at the clock of the NPU's bus (ic6) and of its RAM (ic11)") \
    X(31, ENGINE_BYTES, "none", "the NPU reads or writes other bytes in a memory than the CPU (detail: bank)", \
      "look at the clock of the bank, at RISAF and at MPU settings; external memory: also at its controller") \
    X(32, CACHE_CLEAN, "SCB_DCCMVAC", "after the application's clean function the NPU still reads old bytes", \
      "clean each line of 32 bytes from address to address + size, then DSB; is the second argument the end?") \
    X(33, CACHE_INVALIDATE, "SCB_DCIMVAC", \
      "after the application's invalidate function the CPU still reads old bytes", \
      "invalidate each line of 32 bytes from address to address + size, then DSB; is the second argument the end?") \
    X(34, FLASH_EMPTY, "none", "constants of the network are not in memory: all bits there are alike (detail: piece)", \
      "program the network's memory image at its address") \
    X(35, FLASH_SHIFTED, "none", "the constants are in memory, but at another address (found)", \
      "program the image at the wanted address; a signed image starts 0x400 bytes behind the start of its header") \
    X(36, WEIGHTS_CRC, "none", "constants of the network in memory differ from those generated (detail: piece)", \
      "program the memory image of the same generate run as network.c") \
    X(37, CONTROLLER_HANGS, "EPOCHCTRL_IRQ", "the epoch controller does not end a small program", \
      "reset the NPU by bit 31 of RCC_AHB5RSTR; look at the clocks and rights of the memory that holds programs") \
    X(38, CONTROLLER_ERROR, "EPOCHCTRL_IRQ", "the epoch controller stops with an error (found: its IRQ register)", \
      "the program in memory is not what the CPU wrote: look at the clean function and at the memory's rights") \
    X(39, PROBE_BYTES, "none", "a sum of two small tensors on the NPU is wrong (detail: byte)", \
      "look at the NPU's supply voltage and clock; please report it with this finding") \
    X(40, CPU_RATE, "RCC_CFGR1, RCC_IC1CFGR", "the CPU has another clock than the board file says", \
      "set the clocks as the board file says, or correct cpu_mhz in the board file") \
    X(41, NPU_RATE, "RCC_CFGR1, RCC_IC6CFGR", "the NPU has another clock than the board file says", \
      "set the clocks as the board file says, or correct npu_mhz in the board file") \
    X(42, NPU_RAM_RATE, "RCC_CFGR1, RCC_IC11CFGR", "the NPU's RAM has another clock than the board file says", \
      "set the clocks as the board file says, or correct npu_ram_mhz in the board file") \
    X(43, PROBE_TIME, "none", \
      "the time of a small program does not fit the NPU's clock (found, wanted: NPU cycles)", \
      "the clock registers say another frequency than the NPU has: look at PLL lock and at the dividers") \
    X(44, NETWORK_RUN, "none", "the network does not end its run (found: what the runtime says)", \
      "everything that the self-test can see is sound: look at the runtime's version and at its interrupt handler") \
    X(45, NETWORK_OUTPUT, "none", \
      "the network's output for the known input is wrong (detail: output; CRC-32 found, wanted)", \
      "everything that the self-test can see is sound: validate the network with --mode target and report it") \
    X(46, NPU_ADDRESS, "RIFSC_RISC_SECCFGR3.SEC10", \
      "the runtime uses an address of the NPU's registers at which they cannot be reached (place)", \
      "compile secure firmware with -mcmse, or define ATON_BASE: 0x580E0000 is the secure one, 0x480E0000 the other")

#define ATONC_SELFTEST_NUMBER_(number, name, reg, cause, fix) ATONC_SELFTEST_##name = number,
enum { ATONC_SELFTEST_CODES(ATONC_SELFTEST_NUMBER_) };
#undef ATONC_SELFTEST_NUMBER_

#ifdef ATONC_NO_SELFTEST
static inline uint32_t atonc_selftest(const atonc_selftest_map_t *map, atonc_finding_t *findings, uint32_t most) {
    (void)map, (void)findings, (void)most;
    return 0;
}
#else
/* The number of findings, 0 if everything is sound. At most `most` are written; more may be counted. */
uint32_t atonc_selftest(const atonc_selftest_map_t *map, atonc_finding_t *findings, uint32_t most);
/* CRC-32 as zlib's crc32(); `crc` is 0 or that of the bytes before. */
uint32_t atonc_selftest_crc32(uint32_t crc, const void *data, uint32_t size);
#endif

#if defined(ATONC_SELFTEST_NO_TEXT) || defined(ATONC_NO_SELFTEST)
/* empty, so that an application needs no edits when a define leaves the texts out */
static inline const char *atonc_selftest_name(uint16_t code) { return (void)code, ""; }
static inline const char *atonc_selftest_register(uint16_t code) { return (void)code, ""; }
static inline const char *atonc_selftest_cause(uint16_t code) { return (void)code, ""; }
static inline const char *atonc_selftest_fix(uint16_t code) { return (void)code, ""; }
#else
const char *atonc_selftest_name(uint16_t code);
const char *atonc_selftest_register(uint16_t code);
const char *atonc_selftest_cause(uint16_t code);
const char *atonc_selftest_fix(uint16_t code);
#endif

#ifdef __cplusplus
}
#endif

#endif
