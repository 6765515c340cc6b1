"""The list of epoch blocks, and the functions that run in front of programs."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.emit.c import caches, ll_calls, names
from atonc.emit.c.cpu_functions import ARGUMENTS, end_function
from atonc.emit.c.ll_text import function_name
from atonc.emit.c.ll_types import Base
from atonc.emit.c.network import Block, CNetwork
from atonc.hw import regs
from atonc.plan.types import EpochPlan

_FLAGS = ("epoch_start", "epoch_end")


def start_function(block: Block) -> str:
    return f"_ec_blob_cache_start_func_{block.first}"


def start_text(network: CNetwork, block: Block) -> str:
    """What the processor does for a block of the NPU: cache maintenance in front of a program (empty where there is
    nothing to do), or the whole epoch as calls of the driver."""
    lines = caches.before_npu(network, block)
    if not network.epoch_controller:
        return ll_calls.epoch_functions(block.steps[0], network.suffix, _bases(network, block), lines)
    if not lines:
        return ""
    body = "".join(f"  {line}\n" for line in lines)
    return f"static void {start_function(block)}({ARGUMENTS})\n{{\n{body}}}\n"


def _bases(network: CNetwork, block: Block) -> dict[str, Base]:
    """Engine -> where its buffer begins; buffers of the application and pools without a fixed base by their symbol."""
    plan = block.steps[0].plan
    found = {}
    for engine, use in plan.engines.items() if isinstance(plan, EpochPlan) else ():
        address = network.home(use.buffer).address
        part = network.user_of(use.buffer) or network.relative_at(address)
        found[engine] = Base(part.address, network.c_symbol(part)) if part is not None else Base(address)
    return found


def items(network: CNetwork) -> str:
    rows = "".join(_item(network, block) for block in network.blocks)
    return (
        f"const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_{network.suffix}(void)\n{{\n"
        f"  static const EpochBlock_ItemTypeDef blocks[] = {{\n{rows}"
        "    {\n      .flags = EpochBlock_Flags_last_eb,\n    },\n  };\n\n  return blocks;\n}\n"
    )


def _item(network: CNetwork, block: Block) -> str:
    npu_members = _blob_members if network.epoch_controller else _driver_members
    members = _cpu_members(block) if block.on_cpu else npu_members(network, block)
    lines = "".join(f"      .{name} = {value},\n" for name, value in members)
    debug = "".join(f"      .{name} = {value},\n" for name, value in debug_members(network, block))
    return f"    {{\n{lines}#ifdef LL_ATON_EB_DBG_INFO\n{debug}#endif\n    }},\n"


def _cpu_members(block: Block) -> Iterator[tuple[str, str]]:
    yield "start_epoch_block", "NULL"
    yield "end_epoch_block", end_function(block)
    yield "wait_mask", "0"
    yield "flags", flags("pure_sw")


def _blob_members(network: CNetwork, block: Block) -> Iterator[tuple[str, str]]:
    yield "start_epoch_block", start_function(block) if caches.before_npu(network, block) else "NULL"
    yield "end_epoch_block", "NULL"
    yield "blob_address", f"(uintptr_t)({names.blob(network.name, block.first)}_address)"
    yield "wait_mask", "0"  # number of the epoch controller
    yield "flags", flags("blob", "pure_hw")


def _driver_members(network: CNetwork, block: Block) -> Iterator[tuple[str, str]]:
    step = block.steps[0]
    for which in ("Start", "End"):
        yield f"{which.lower()}_epoch_block", function_name(which, step.number, network.suffix)
    yield "wait_mask", f"0x{ll_calls.wait_mask(step):08x}"
    yield "flags", flags("pure_hw")


def flags(*more: str) -> str:
    return " | ".join(f"EpochBlock_Flags_{flag}" for flag in (*_FLAGS, *more))


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
