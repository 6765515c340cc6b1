/* SPDX-License-Identifier: Apache-2.0
 * Samples to an alarm: the front end makes codes, the network keeps its states from frame to frame.
 * The microphone is a file here: clip.wav, in pieces of 10 ms as a DMA would bring them.
 */
#include <stdint.h>
#include <string.h>

#include "ll_aton_runtime.h"
#include "npu_power.h"
#include "wake_word.h"
#include "wake_word_front_end.h"
#include "wake_word_memories.h"

ATONC_WAKE_WORD_KEEPS_CLEAR(0x34000000, 0x34100000); /* where axisram.ld puts this firmware */

LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(wake_word)

#define PIECE 160u           /* samples */
#define HEADER 44u           /* bytes of a .wav file before its samples */
#define LOUD (int8_t)(179 - 128) /* code of 0.7: the score has scale 1/256, zero point -128 */
#define QUIET (int8_t)(77 - 128) /* 0.3 */

__asm__(".section .rodata\n.balign 4\nclip_begin:\n.incbin \"" ATONC_CLIP "\"\nclip_end:\n.previous\n");
extern const uint8_t clip_begin[], clip_end[];

volatile uint32_t frames, heard, heard_at[16]; /* frame numbers */
volatile uint32_t error;

static wake_word_front_end_state front_end;
static wake_word_front_end_code codes[WAKE_WORD_FRONT_END_MOST_FRAMES(PIECE)][WAKE_WORD_FRONT_END_FEATURES];

/* Where a sequence begins: after a pause, or another microphone. Both ends forget. */
static void begin(void) {
    wake_word_front_end_reset(&front_end);
    wake_word_reset();
}

static int8_t score_of(const wake_word_front_end_code *frame) {
    memcpy(LL_Buffer_addr_start(LL_ATON_Input_Buffers_Info_wake_word()), frame, sizeof codes[0]);
    LL_ATON_RT_Reset_Network(&NN_Instance_wake_word); /* the program starts again; states stay */
    LL_ATON_RT_RetValues_t state;
    do {
        state = LL_ATON_RT_RunEpochBlock(&NN_Instance_wake_word);
        if (state == LL_ATON_RT_WFE)
            LL_ATON_OSAL_WFE();
    } while (state != LL_ATON_RT_DONE);
    error = atonc_rt_status(&NN_Instance_wake_word).code;
    return *(const int8_t *)LL_Buffer_addr_start(LL_ATON_Output_Buffers_Info_wake_word());
}

static void listen(const int16_t *samples, uint32_t count) {
    static int ready = 1;
    const uint32_t made = wake_word_front_end_push(&front_end, samples, count, codes[0]);
    for (uint32_t k = 0; k < made && !error; k++, frames++) {
        const int8_t score = score_of(codes[k]);
        if (ready && score >= LOUD)
            heard_at[heard++ % 16] = frames;
        ready = ready ? score < LOUD : score < QUIET;
    }
}

int main(void) {
    npu_power_on();
    ATONC_Load_Constants_wake_word();
    LL_ATON_RT_RuntimeInit();
    LL_ATON_RT_Init_Network(&NN_Instance_wake_word);
    error = atonc_rt_status(&NN_Instance_wake_word).code;
    begin();
    const int16_t *samples = (const int16_t *)(const void *)(clip_begin + HEADER);
    for (uint32_t left = (uint32_t)(clip_end - clip_begin - HEADER) / 2; left && !error;) {
        const uint32_t count = left < PIECE ? left : PIECE;
        listen(samples, count);
        samples += count;
        left -= count;
    }
    LL_ATON_RT_DeInit_Network(&NN_Instance_wake_word);
    LL_ATON_RT_RuntimeDeInit();
    return 0;
}
