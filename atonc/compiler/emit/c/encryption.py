"""What a network says of its encrypted weights in C: how they are enciphered, and where the application gives its keys.

No key is ever in a file: the application has it, and writes it into both bus interfaces before the first inference.
"""

from __future__ import annotations

from atonc.compiler.emit.c.network import CNetwork

_PLAIN = """#if ATONC_LL_ATON_VERSION >= 10103
/* Neither weights nor programs are encrypted. */
static const LL_Streng_EncryptionTypedef atonc_no_encryption = {{
  .enable = 0,
}};

const LL_Streng_EncryptionTypedef *LL_ATON_WeightEncryption_Info_{net}(void)
{{
  return &atonc_no_encryption;
}}

const LL_Streng_EncryptionTypedef *LL_ATON_BlobEncryption_Info_{net}(void)
{{
  return &atonc_no_encryption;
}}
#endif
"""

_ENCRYPTED = """/* Engines decipher {size} bytes at 0x{start:08x}: {file} must be encrypted there
 * before it goes into flash. Nobody has seen it run on a board. Identification 0, 12 rounds, key 0, no increment.
 * Programs are not encrypted.
 *
 * Define this function in the application: it is called when the network is initialised, and writes the same key into
 * key 0 of both bus interfaces (LL_Busif_SetKeys of ll_aton_cipher.c), from wherever the application keeps it. This one
 * does nothing, for applications that have done so by then; without keys the outputs are noise.
 */
void ATONC_Set_Keys_{net}(void);
__attribute__((weak)) void ATONC_Set_Keys_{net}(void)
{{
}}

#if ATONC_LL_ATON_VERSION >= 10103
const LL_Streng_EncryptionTypedef *LL_ATON_WeightEncryption_Info_{net}(void)
{{
  static const LL_Streng_EncryptionTypedef weights = {{
    .enable = 1,
    .encryption_id = 0,
    .rounds = 0, /* 12 */
    .key_sel = 0,
    .increment = 0,
  }};

  return &weights;
}}

const LL_Streng_EncryptionTypedef *LL_ATON_BlobEncryption_Info_{net}(void)
{{
  static const LL_Streng_EncryptionTypedef programs = {{
    .enable = 0,
  }};

  return &programs;
}}
#endif
"""


def text(network: CNetwork, image: str) -> str:
    """`image`: the file with the weights."""
    region = network.program.encrypted
    if region is None:
        return _PLAIN.format(net=network.suffix)
    return _ENCRYPTED.format(net=network.suffix, size=region.size_bytes, start=region.start, file=image)


def at_initialisation(network: CNetwork) -> str:
    return f"  ATONC_Set_Keys_{network.suffix}();\n" if network.program.encrypted else ""
