/* SPDX-License-Identifier: Apache-2.0
 * The epoch controller: it runs a blob, a program of register writes, by itself.
 */
#include "atonc_internal.h"
#include "ec.h"
#include "ll_aton.h"
#include "ll_aton_cipher.h"

int LL_EpochCtrl_Init(int id, const LL_EpochCtrl_InitTypeDef *conf) {
    if (id < 0 || id >= (int)ATONC_EPOCHCTRL_NUM) {
        return LL_ATON_INVALID_ID;
    }
    if (conf->blobaddr & 7u) {
        return LL_ATON_INVALID_PARAM;
    }
    unsigned unit = ATONC_EPOCHCTRL0 + (unsigned)id;
    atonc_clock(ATONC_CLOCK_EPOCHCTRL0 + (unsigned)id, true);
    atonc_write(unit, ATONC_EPOCHCTRL_CTRL, ATONC_PUT(ATONC_EPOCHCTRL_CTRL_RESET, ATONC_EPOCHCTRL_CTRL_SM, conf->stepmode));
    atonc_write(unit, ATONC_EPOCHCTRL_ADDR, conf->blobaddr);
    return LL_ATON_OK;
}

int LL_EpochCtrl_EncryptionInit(int id, const LL_Streng_EncryptionTypedef *conf) {
    if (id < 0 || id >= (int)ATONC_EPOCHCTRL_NUM) {
        return LL_ATON_INVALID_ID;
    }
    unsigned unit = ATONC_EPOCHCTRL0 + (unsigned)id;
    uint32_t word = ATONC_PUT(ATONC_EPOCHCTRL_ENCR_MSB_RESET, ATONC_EPOCHCTRL_ENCR_MSB_ID_MSB, conf->encryption_id >> 32);
    word = ATONC_PUT(word, ATONC_EPOCHCTRL_ENCR_MSB_EN, conf->enable);
    word = ATONC_PUT(word, ATONC_EPOCHCTRL_ENCR_MSB_ROUNDS, conf->rounds);
    word = ATONC_PUT(word, ATONC_EPOCHCTRL_ENCR_MSB_KEY_SEL, conf->key_sel);
    atonc_write(unit, ATONC_EPOCHCTRL_ENCR_LSB, (uint32_t)conf->encryption_id);
    atonc_write(unit, ATONC_EPOCHCTRL_ENCR_MSB, word);
    return LL_ATON_OK;
}

int LL_EpochCtrl_Step(int id) {
    unsigned unit = ATONC_EPOCHCTRL0 + (unsigned)id;
    uint32_t word = atonc_read(unit, ATONC_EPOCHCTRL_IRQ);
    atonc_write(unit, ATONC_EPOCHCTRL_IRQ, ATONC_PUT(word, ATONC_EPOCHCTRL_IRQ_SM, 1));
    return LL_ATON_OK;
}

int LL_EpochCtrl_Wait(uint32_t mask) {
    atonc_watchdog_start();
    while ((mask & 1u) && (atonc_read(ATONC_EPOCHCTRL0, ATONC_CTRL) & ATONC_CTRL_RUNNING)) {
        if (atonc_watchdog_expired()) {
            return LL_ATON_TIMEOUT;
        }
    }
    return LL_ATON_OK;
}

/* Size in bytes, with the two words in front of the program. */
unsigned int LL_EpochCtrl_GetBlobSize(uint32_t *eb_addr) { return 4u * (eb_addr[1] + 2u); }
