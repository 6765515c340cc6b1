/* SPDX-License-Identifier: Apache-2.0
 * Descriptions of encrypted weights and blobs. Networks carry them; keys are the application's
 * (LL_Busif_SetKeys of ll_aton.h). atonc enables weights with --encrypt-weights, and never blobs.
 */
#ifndef LL_ATON_CIPHER_H
#define LL_ATON_CIPHER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    unsigned int enable;
    uint64_t encryption_id; /* 43 bits */
    unsigned int rounds;    /* 0: 12 rounds, 1: 9 rounds */
    unsigned int key_sel;   /* key 0 or 1 of the bus interfaces */
    unsigned int increment; /* frames per step of the id, 0: the id stays */
} LL_Streng_EncryptionTypedef;

int LL_Streng_EncryptionInit(int id, const LL_Streng_EncryptionTypedef *conf);
int LL_EpochCtrl_EncryptionInit(int id, const LL_Streng_EncryptionTypedef *conf);

#ifdef __cplusplus
}
#endif

#endif
