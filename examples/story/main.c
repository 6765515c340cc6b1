/* SPDX-License-Identifier: Apache-2.0
 * Writes a story, token by token: the network keeps keys and values of the tokens before as states, the processor
 * draws the next word. Text goes to the debugger (semihosting): on the virtual board, to the terminal.
 */
#include <stdint.h>
#include <string.h>

#include "ll_aton_runtime.h"
#include "npu_power.h"
#include "story.h"
#include "story_memories.h"
#include "story_words.h"

ATONC_STORY_KEEPS_CLEAR(0x34000000, 0x34100000); /* where axisram.ld puts this firmware */

LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(story)

#ifndef STORY_TOKENS
#define STORY_TOKENS 128u
#endif
#ifndef STORY_SEED
#define STORY_SEED 1u
#endif
#define END 0u /* the first word: it stands for the beginning, too */
#define MHZ 800u

#define DEMCR (*(volatile uint32_t *)0xE000EDFCu)
#define DWT_CONTROL (*(volatile uint32_t *)0xE0001000u)
#define DWT_CYCLES (*(volatile uint32_t *)0xE0001004u)

/* ------------------------------------------------------------------------------------------------------------ text */

static uint32_t semihosting(uint32_t call, const void *argument) {
    register uint32_t r0 __asm__("r0") = call;
    register const void *r1 __asm__("r1") = argument;
    __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void print(const char *text) { semihosting(0x04, text); }

static inline void print_number(uint32_t number) {
    char digits[11];
    char *at = digits + sizeof digits - 1;
    *at = 0;
    do
        *--at = (char)('0' + number % 10u);
    while (number /= 10u);
    print(at);
}

static int is_one_of(char found, const char *marks) {
    while (*marks && *marks != found)
        marks++;
    return *marks != 0;
}

/* Words with spaces, capitals and lines where a reader expects them: Typist of story.py. */
static void type(uint32_t token) {
    static int capital = 1, glued = 1, quoted;
    const char *word = words[token];
    char first[2] = {word[0], 0};
    const int quote = first[0] == '"';
    if (!glued && !is_one_of(first[0], ".,!?:") && !(quote && quoted))
        print(" ");
    if (capital && first[0] >= 'a' && first[0] <= 'z')
        first[0] = (char)(first[0] - 'a' + 'A');
    print(first);
    print(word + 1);
    quoted ^= quote;
    glued = token == END || (quote && quoted);
    capital = glued || is_one_of(first[0], ".!?");
    if (token == END)
        print(".\n");
}

/* -------------------------------------------------------------------------------------------------------- network */

static uint32_t infer(uint32_t token) {
    memcpy(LL_Buffer_addr_start(LL_ATON_Input_Buffers_Info_story()), &token, sizeof token);
    LL_ATON_RT_Reset_Network(&NN_Instance_story); /* the program starts again; states stay */
    LL_ATON_RT_RetValues_t state;
    do {
        state = LL_ATON_RT_RunEpochBlock(&NN_Instance_story);
        if (state == LL_ATON_RT_WFE)
            LL_ATON_OSAL_WFE();
    } while (state != LL_ATON_RT_DONE);
    return atonc_rt_status(&NN_Instance_story).code;
}

/* A word by chance: xorshift, and a walk along the sums of chances. */
static uint32_t drawn(const int8_t *logits, uint32_t *random) {
    int8_t top = INT8_MIN;
    uint32_t sum = 0, token = 0;
    for (uint32_t k = 0; k < STORY_WORDS; k++)
        top = logits[k] > top ? logits[k] : top;
    for (uint32_t k = 0; k < STORY_WORDS; k++)
        sum += chances[top - logits[k]];
    *random ^= *random << 13;
    *random ^= *random >> 17;
    *random ^= *random << 5;
    uint32_t at = (uint32_t)((uint64_t)*random * sum >> 32);
    for (; at >= chances[top - logits[token]]; token++)
        at -= chances[top - logits[token]];
    return token;
}

/* A Cortex-M33 computes doubles in software: its cycles say nothing of the chip. */
static void print_time(uint32_t cycles) {
#ifdef __ARM_FEATURE_MVE
    print_number(cycles);
    print(" cycles a token: ");
    print_number(cycles / MHZ);
    print(" us at 800 MHz\n");
#else
    (void)cycles;
#endif
}

static uint32_t tell(void) {
    const int8_t *logits = (const int8_t *)LL_Buffer_addr_start(LL_ATON_Output_Buffers_Info_story());
    uint32_t token = END, random = STORY_SEED, cycles = 0, error = 0;
    story_reset(); /* nothing was said yet */
    for (uint32_t k = 0; k < STORY_TOKENS && !error; k++) {
        const uint32_t begin = DWT_CYCLES;
        error = infer(token);
        cycles += DWT_CYCLES - begin;
        token = drawn(logits, &random);
        type(token);
    }
    print("\n");
    print_time(cycles / STORY_TOKENS);
    return error;
}

int main(void) {
    npu_power_on();
    DEMCR |= 1u << 24;
    DWT_CONTROL |= 1u;
    ATONC_Load_Constants_story();
    LL_ATON_RT_RuntimeInit();
    LL_ATON_RT_Init_Network(&NN_Instance_story);
    uint32_t error = atonc_rt_status(&NN_Instance_story).code;
    if (!error)
        error = tell();
    LL_ATON_RT_DeInit_Network(&NN_Instance_story);
    LL_ATON_RT_RuntimeDeInit();
    semihosting(0x18, (const void *)(uintptr_t)(error ? 0x20023u : 0x20026u));
    return 0;
}
