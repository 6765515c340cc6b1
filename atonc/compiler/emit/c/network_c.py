"""`<name>.c`: the network for the LL_ATON runtime of any published release, and for ours."""

from __future__ import annotations

from atonc.compiler.emit.c import (
    blobs_h,
    buffers_info,
    cpu_functions,
    encryption,
    epochs,
    images,
    memories,
    names,
    own_kernels,
    relative,
    resident,
    user_io,
)
from atonc.compiler.emit.c.kernels import HEADER
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.emit.c.pool_comments import pool_comments

_INCLUDES = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ll_aton_version.h"
#include "ll_aton_NN_interface.h"
#include "ll_aton.h"
#include "ll_aton_lib.h"
#include "ll_aton_caches_interface.h"
"""

# 1.1.3-8 (Core 3.0) still has one argument, 1.1.3-262 (Core 4.0) has two; nothing between them was published
_VERSION = """
/* Releases of the runtime differ; this file compiles with those of Core 2.0 to 4.0. */
#define ATONC_LL_ATON_VERSION (LL_ATON_VERSION_MAJOR * 10000 + LL_ATON_VERSION_MINOR * 100 + LL_ATON_VERSION_MICRO)

/* Epoch functions take the epoch block, in later releases also the network instance. */
#if !defined(ATONC_EPOCH_ARGUMENT_COUNT)
#  if ATONC_LL_ATON_VERSION > 10103 || (ATONC_LL_ATON_VERSION == 10103 && LL_ATON_VERSION_DEV >= 100)
#    define ATONC_EPOCH_ARGUMENT_COUNT 2
#  else
#    define ATONC_EPOCH_ARGUMENT_COUNT 1
#  endif
#endif
#if ATONC_EPOCH_ARGUMENT_COUNT == 2
#  define ATONC_EPOCH_ARGUMENTS \\
    const LL_ATON_RT_EpochBlockItem_t *epoch_block __attribute__((unused)), \\
    const NN_Instance_TypeDef *nn_instance __attribute__((unused))
#else
#  define ATONC_EPOCH_ARGUMENTS const void *epoch_block __attribute__((unused))
#endif
#if defined(__GNUC__) && !defined(__cplusplus) && __STDC_VERSION__ >= 201112L
_Static_assert(__builtin_types_compatible_p(EpochBlock_FuncPtr_t, void (*)(ATONC_EPOCH_ARGUMENTS)),
               "define ATONC_EPOCH_ARGUMENT_COUNT as 1 or 2, as EpochBlock_FuncPtr_t of this runtime has it");
#endif

#if !defined(LL_ATON_DBG_BUFFER_INFO_EXCLUDED)
#  define LL_ATON_DBG_BUFFER_INFO_EXCLUDED 0
#endif
"""

_MEMORIES = """#if defined(__has_include)
#  if __has_include("{file}")
#    include "{file}"
#  endif
#endif
"""

_HOOKS = (
    "bool LL_ATON_EC_Network_Init_{}(void)",
    "bool LL_ATON_EC_Inference_Init_{}(void)",
    "LL_ATON_User_IO_Result_t LL_ATON_Set_User_Input_Buffer_{}(uint32_t num, void *buffer, uint32_t size)",
    "void *LL_ATON_Get_User_Input_Buffer_{}(uint32_t num)",
    "LL_ATON_User_IO_Result_t LL_ATON_Set_User_Output_Buffer_{}(uint32_t num, void *buffer, uint32_t size)",
    "void *LL_ATON_Get_User_Output_Buffer_{}(uint32_t num)",
    "const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_{}(void)",
    "const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info_{}(void)",
    "const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info_{}(void)",
    "const LL_Buffer_InfoTypeDef *LL_ATON_Internal_Buffers_Info_{}(void)",
)
_CIPHER_HOOKS = (
    "const LL_Streng_EncryptionTypedef *LL_ATON_WeightEncryption_Info_{}(void)",
    "const LL_Streng_EncryptionTypedef *LL_ATON_BlobEncryption_Info_{}(void)",
)


def text(network: CNetwork, shared_kernels: bool = False) -> str:
    """`shared_kernels`: those of CPU layers stand in a file for all networks, not in this one."""
    functions = _functions(network)
    from_file = shared_kernels and network.cpu_blocks
    parts = (
        _head(network),
        _packager(network),
        _INCLUDES + (f'#include "{HEADER}"\n' if from_file else ""),
        pool_comments(network),
        _VERSION,
        _MEMORIES.format(file=f"{network.name}_memories.h"),
        _prototypes(network),
        encryption.text(network, images.encrypted_file(network)),
        relative.declarations(network),
        user_io.variables(network),
        user_io.functions(network),
        memories.table(network),
        resident.text(network),
        blobs_h.included(network),
        *(functions if shared_kernels else own_kernels.around(functions)),
        epochs.items(network),
        *_tables(network),
        _aliases(network) if network.name == "network" else "",
    )
    return "\n".join(part for part in parts if part)


def _head(network: CNetwork) -> str:
    model = f" from {names.comment(network.model)}" if network.model else ""
    return f"/* {network.name}.c: a neural network for the STM32N6{model}, written by {network.tool}. Do not edit. */\n"


def _packager(network: CNetwork) -> str:
    """What ST's N6_reloc looks for, line by line, up to the list of memory pools: nothing before that list may have the
    word of its first version number for anything else."""
    major, minor, micro, dev = network.release
    return (
        "/* For ST's N6_reloc: whether there are programs in a file of their own, and the runtime of the images that\n"
        " * it makes of this file (generate --runtime); the C code compiles with any.\n"
        f" *   --enable-epoch-controller = {str(network.epoch_controller).lower()}\n"
        f"LL_ATON_VERSION_MAJOR {major} LL_ATON_VERSION_MINOR {minor} LL_ATON_VERSION_MICRO {micro} "
        f"LL_ATON_VERSION_DEV {dev}\n */\n"
    )


def _prototypes(network: CNetwork) -> str:
    """Firmware that is strict about missing prototypes compiles this too."""

    def lines(hooks: tuple[str, ...]) -> str:
        return "".join(f"{hook.format(network.suffix)};\n" for hook in hooks)

    return f"{lines(_HOOKS)}#if ATONC_LL_ATON_VERSION >= 10103\n{lines(_CIPHER_HOOKS)}#endif\n"


def _functions(network: CNetwork) -> list[str]:
    ops = {op.name: op for op in network.graph.ops}
    found = []
    for block in network.blocks:
        found.append(cpu_functions.text(network, block, ops) if block.on_cpu else epochs.start_text(network, block))
    return found


def _tables(network: CNetwork) -> list[str]:
    table = buffers_info.table
    return [
        table(network, "Input", buffers_info.inputs(network), buffers_info.params(network)),
        table(network, "Output", buffers_info.outputs(network), []),
        table(network, "Internal", [], buffers_info.internals(network)),
    ]


def _aliases(network: CNetwork) -> str:
    """Releases before 3.0 call a network without a name Default, later ones call it network: both are found."""

    def lines(hooks: tuple[str, ...]) -> str:
        found = []
        for hook in hooks:
            target = hook.format(network.suffix).split("(")[0].split("*")[-1].split()[-1]
            found.append(f'{hook.format(network.name)}\n  __attribute__((alias("{target}")));\n')
        return "".join(found)

    return (
        "/* Applications for Core 2.x name the network Default, those for later releases network. */\n"
        f"{lines(_HOOKS)}#if ATONC_LL_ATON_VERSION >= 10103\n{lines(_CIPHER_HOOKS)}#endif\n"
    )
