/* SPDX-License-Identifier: Apache-2.0
 * Numbers of epoch controller files.
 */
#ifndef ATONC_EC_H
#define ATONC_EC_H

#include <stdint.h>

#define ECASM_BINARY_MAGIC_20 0xECBF0020UL /* container without patch table */
#define ECASM_BINARY_MAGIC_30 0xECBF0030UL
#define ECASM_BINARY_MAGIC_50 0xECBF0050UL
#define ECASM_BINARY_MAGIC ECASM_BINARY_MAGIC_50
#define ECASM_BLOB_MAGIC 0xCA057A7AUL
#define ECASM_PROGRAM_MAGIC ECASM_BLOB_MAGIC

typedef uint32_t __attribute__((may_alias)) ec_word_t; /* blobs are stored as arrays of uint64_t */
typedef uint32_t ECInstr;
typedef uint32_t ECAddr;
typedef uint32_t ECFileEntry;

#endif
