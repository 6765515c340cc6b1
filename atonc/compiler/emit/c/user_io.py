"""Setters and getters of inputs and outputs that the application allocates."""

from __future__ import annotations

from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.emit.program import UserBuffer

_UNUSED = "  LL_ATON_LIB_UNUSED({});\n"


def variables(network: CNetwork) -> str:
    """The pointers that the application sets."""
    lines = []
    for user in network.program.user_io:
        label = network.labels[user.name]
        lines.append(f"/* {user.direction} {user.index}, {label}: {user.size_bytes} bytes */\n")
        lines.append(f"static unsigned char *{network.c_symbol(user)} = NULL;\n")
    return "".join(lines)


def functions(network: CNetwork) -> str:
    users = network.program.user_io
    parts = []
    for direction in ("input", "output"):
        own = [user for user in users if user.direction == direction]
        parts += [_setter(network, direction, own), _getter(network, direction, own)]
    return "\n".join(parts)


def _setter(network: CNetwork, direction: str, users: list[UserBuffer]) -> str:
    head = (
        f"LL_ATON_User_IO_Result_t LL_ATON_Set_User_{direction.capitalize()}_Buffer_{network.suffix}"
        "(uint32_t num, void *buffer, uint32_t size)\n{\n"
    )
    if not users:
        unused = "".join(_UNUSED.format(name) for name in ("num", "buffer", "size"))
        return f"{head}{unused}  return LL_ATON_User_IO_WRONG_INDEX; /* part of the activations */\n}}\n"
    cases = "".join(_set_one(network, user) for user in users)
    return f"{head}{cases}  return LL_ATON_User_IO_WRONG_INDEX;\n}}\n"


def _set_one(network: CNetwork, user: UserBuffer) -> str:
    return (
        f"  if (num == {user.index}) {{\n"
        f"    if (((uintptr_t)buffer % {user.alignment}) != 0) {{\n"
        "      return LL_ATON_User_IO_WRONG_ALIGN;\n    }\n"
        f"    if (size < {user.size_bytes}) {{\n"
        "      return LL_ATON_User_IO_WRONG_SIZE;\n    }\n"
        f"    {network.c_symbol(user)} = (unsigned char *)buffer;\n"
        "    return LL_ATON_User_IO_NOERROR;\n  }\n"
    )


def _getter(network: CNetwork, direction: str, users: list[UserBuffer]) -> str:
    head = f"void *LL_ATON_Get_User_{direction.capitalize()}_Buffer_{network.suffix}(uint32_t num)\n{{\n"
    if not users:
        return f"{head}{_UNUSED.format('num')}  return NULL;\n}}\n"
    cases = "".join(f"  if (num == {u.index}) {{\n    return {network.c_symbol(u)};\n  }}\n" for u in users)
    return f"{head}{cases}  return NULL;\n}}\n"
