"""The list of epoch blocks, and the functions that run in front of programs."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.emit.c import caches, names
from atonc.compiler.emit.c.cpu_functions import ARGUMENTS, end_function
from atonc.compiler.emit.c.network import Block, CNetwork
from atonc.machine.hw import regs


def start_function(block: Block) -> str:
    return f"_ec_blob_cache_start_func_{block.first}"


def start_text(network: CNetwork, block: Block) -> str:
    """What the processor does for a block of the NPU: cache maintenance in front of a program (empty where there is
    nothing to do), or the whole epoch as calls of the driver."""
    lines = caches.before_npu(network, block)
    if not network.epoch_controller:
        from atonc.compiler.emit.c.driver_epochs import epoch_functions

        return epoch_functions(network, block, lines)
    if not lines:
        return ""
    body = "".join(f"  {line}\n" for line in lines)
    return f"static void {start_function(block)}({ARGUMENTS})\n{{\n{body}}}\n"


def items(network: CNetwork) -> str:
    rows = "".join(_item(network, block) for block in network.blocks)
    return (
        f"const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_{network.suffix}(void)\n{{\n"
        f"  static const EpochBlock_ItemTypeDef blocks[] = {{\n{rows}"
        "    {\n      .flags = EpochBlock_Flags_last_eb,\n    },\n  };\n\n  return blocks;\n}\n"
    )


def _item(network: CNetwork, block: Block) -> str:
    members = _cpu_members(block) if block.on_cpu else _npu_members(network, block)
    lines = "".join(f"      .{name} = {value},\n" for name, value in members)
    debug = "".join(f"      .{name} = {value},\n" for name, value in debug_members(network, block))
    return f"    {{\n{lines}#ifdef LL_ATON_EB_DBG_INFO\n{debug}#endif\n    }},\n"


def _cpu_members(block: Block) -> Iterator[tuple[str, str]]:
    yield "start_epoch_block", "NULL"
    yield "end_epoch_block", end_function(block)
    yield "wait_mask", "0"
    yield "flags", names.block_flags("pure_sw")


def _npu_members(network: CNetwork, block: Block) -> Iterator[tuple[str, str]]:
    if network.epoch_controller:
        return _blob_members(network, block)
    from atonc.compiler.emit.c.driver_epochs import members  # and with it all of ST's driver: not where nobody asks

    return members(network, block)


def _blob_members(network: CNetwork, block: Block) -> Iterator[tuple[str, str]]:
    yield "start_epoch_block", start_function(block) if caches.before_npu(network, block) else "NULL"
    yield "end_epoch_block", "NULL"
    yield "blob_address", f"(uintptr_t)({names.blob(network.name, block.first)}_address)"
    yield "wait_mask", "0"  # number of the epoch controller
    yield "flags", names.block_flags("blob", "pure_hw")


def debug_members(network: CNetwork, block: Block) -> Iterator[tuple[str, str]]:
    yield "epoch_num", str(block.first)
    yield "last_epoch_num", str(block.last)
    for member, writing in (("in_streng_mask", False), ("out_streng_mask", True)):
        yield member, f"0x{engine_mask(block, writing):08x}"
    costs = [network.cycles[step.number] for step in block.steps if step.number in network.cycles]
    yield "estimated_npu_cycles", str(sum(cost.npu for cost in costs))
    yield "estimated_tot_cycles", str(sum(cost.total for cost in costs))


def engine_mask(block: Block, writing: bool) -> int:
    """The stream engines that read or write in any epoch of a block, one bit each."""
    mask = 0
    for step in block.steps:
        if step.epoch is not None:
            used = step.epoch.writers() if writing else step.epoch.readers()
            for name in used:
                mask |= 1 << (regs.UNIT_BY_NAME[name].id - regs.UNIT_BY_NAME["STRENG0"].id)
    return mask
