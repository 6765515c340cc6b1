"""Memory of several networks together: what is shared, what has its own place, and the least that any plan needs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.compiler.compile.pipeline import memories
from atonc.compiler.place import BoardMemory
from atonc.compiler.place.resident import free_spans
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.types import Buffer, BufferKind
from atonc.compiler.request.options import Options
from atonc.delivery.application import building, planning
from atonc.delivery.application import memory as parts
from atonc.delivery.application.planning import ApplicationPlan, NetworkDemand, figures, least_ram
from atonc.delivery.application.read import of_models
from atonc.delivery.application.types import Application, FlashSlot, Reservation
from atonc.machine.base.errors import CapacityError
from tests.application.made import accepted, alone, application, plan, plan_of

_CORPUS = os.environ.get("ATONC_CORPUS", Path(__file__).resolve().parents[3] / "shared" / "corpus")
CORPUS = Path(_CORPUS) / "models"


def test_networks_share_what_need_not_stay() -> None:
    found = plan_of(alone(application()))
    told = figures(found)
    assert told.ram_bytes <= 1.02 * told.lower_bound_bytes and told.ram_bytes < told.ram_sum_bytes
    assert all(one.latency_ms <= planning.SLOWER_TOGETHER * one.alone_ms for one in told.networks)


def test_what_must_stay_has_its_place() -> None:
    found = plan()
    assert {(one.network, one.survives) for one in found.kept} == {("first", ("second",)), ("second", ("first",))}
    for one in found.kept:
        network = next(each for each in found.networks if each.name == one.network)
        home = network.compiled.program.placed[one.tensor]
        assert one.span[0] == home.address and home.end <= one.span[1]
        others = [span for each in found.networks if each.name in one.survives for span in each.spans()]
        assert not any(start < one.span[1] and one.span[0] < end for start, end in others)


def test_weights_in_ram_lie_where_nobody_works() -> None:
    found = plan("all")
    for one in found.networks:
        copies = one.spans(BufferKind.RESIDENT)
        assert copies and one.compiled.cost.cycles < one.alone.cost.cycles
        for other in found.networks:
            kinds = [kind for kind in BufferKind if kind not in (BufferKind.RESIDENT, BufferKind.CONSTANT)]
            used = other.spans(*(kinds if other is one else (*kinds, BufferKind.RESIDENT)))
            assert not any(start < high and low < end for start, end in copies for low, high in used)


def test_a_budget_of_weights_is_kept() -> None:
    told = figures(plan("6K"))
    assert 0 < told.resident_bytes <= 6 << 10


def test_who_runs_more_often_gets_the_ram() -> None:
    """Steps go where they save most of a second."""
    first, second = plan().networks
    free = [(0x3420_0000, 0x3424_0000)]
    often = [replace(one, network=replace(one.network, per_second=rate)) for one, rate in ((first, 1), (second, 1000))]
    shares = planning._shares(often, free, 8192)
    assert shares.get("second", 0) > shares.get("first", 0)
    never = [replace(one, network=replace(one.network, per_second=0)) for one in often]
    assert planning._shares(never, free, 8192) == {}


def test_reserved_memory_is_left_alone() -> None:
    taken = Reservation("camera", 0x3420_0000, 0x3430_0000)
    found = plan_of(replace(application(), reserved=(taken,)))
    assert not any(start < taken.end and taken.start < end for start, end in found.ram)


def test_a_network_that_does_not_fit_says_which() -> None:
    everything = Reservation("all RAM", 0x3410_0000, 0x343C_0000), Reservation("outside", 0x9000_0000, 0x9200_0000)
    with pytest.raises(CapacityError):
        plan_of(replace(application(), reserved=everything))


def test_slots_follow_each_other_and_have_room_to_grow() -> None:
    first, second = plan().networks
    assert first.slot.end == second.slot.start and first.slot.start % 0x1_0000 == 0 == first.slot.end % 0x1_0000


def test_a_slot_that_is_too_small() -> None:
    tiny = replace(application().networks[0], slot_bytes=4096, places={"slot": "app.toml, line 7"})
    with pytest.raises(CapacityError, match=r"app\.toml, line 7: (?s:.*) its slot has 4,096"):
        plan_of(replace(application(), networks=(tiny, application().networks[1])))


def test_slots_of_an_earlier_build_stay() -> None:
    slots = FlashSlot("second", 0x7100_0000, 0x7101_0000), FlashSlot("gone", 0x7102_0000, 0x7103_0000)
    first, second = plan_of(replace(application(), slots=slots)).networks
    assert (second.slot.start, second.slot.end) == (0x7100_0000, 0x7101_0000)
    assert first.slot.start == 0x7103_0000  # behind all that there were
    for one in (first, second):
        constants = [home for home in one.compiled.program.placed.values() if home.kind == BufferKind.CONSTANT]
        assert constants and all(one.slot.start <= home.address and home.end <= one.slot.end for home in constants)


# --------------------------------------------------------------------------------------------------------------- parts


def test_the_least_ram_by_hand() -> None:
    def life(address: int, size: int, first: int, last: int) -> Placed:
        return Placed(Buffer("any", size, BufferKind.ACTIVATION), address, "", first, last)

    lives = life(0, 100, 0, 1), life(100, 50, 1, 2), life(0, 70, 2, 2)
    one = NetworkDemand("a", lives, 10, {"b": 8})
    other = NetworkDemand("b", (life(0, 149, 0, 0),), 5)
    assert least_ram([one]) == 160  # 100 + 50 in step 1, and 10 that stay
    assert least_ram([one, other]) == 15 + 157  # b beside the 8 bytes of a that survive it
    assert least_ram([]) == 0


def test_spans() -> None:
    assert parts.joined([(64, 128), (0, 60), (300, 310), (5, 5)]) == [(0, 128), (256, 320)]
    assert list(parts.left_of((0, 1024), [(128, 192), (960, 2048)])) == [(0, 128), (192, 960)]
    assert list(parts.inside((0, 1024), [(128, 192), (960, 2048)])) == [(128, 192), (960, 1024)]


def test_pieces_of_pools_keep_their_flash() -> None:
    memory = plan().memory
    left = parts.without(memory, [(0x3420_0000, 0x3427_0000), (0x342F_0000, 0x3430_0000)])
    names = {pool.name: (pool.base, pool.base + pool.size_bytes) for pool in left.pools}
    assert "npuRAM3" not in names and parts.flash_of(left) == parts.flash_of(memory)
    assert names["npuRAM5"] == (0x342E_0000, 0x342F_0000) and names["npuRAM5_2"] == (0x3430_0000, 0x3435_0000)


def test_what_does_not_fit_is_told_with_ways_that_were_tried() -> None:
    """All NPU RAM but 2 KiB is the camera's: the digits fit, but not beside what must survive."""
    taken = Reservation("camera", 0x3420_0000, 0x343C_0000)
    with pytest.raises(CapacityError, match="must survive") as error:
        building.planned(replace(application(), reserved=(taken,)))
    said = "\n".join(error.value.details)
    assert "single changes were tried" in said and "fits: camera elsewhere" in said
    assert 'fits: prefer = "memory"' not in said  # tried, and not enough


def test_where_nothing_helps_that_is_said() -> None:
    everything = Reservation("RAM", 0x3410_0000, 0x343C_0000), Reservation("outside", 0x9000_0000, 0x9200_0000)
    with pytest.raises(CapacityError) as error:
        building.planned(alone(replace(application(), reserved=everything)))
    assert "fits: RAM elsewhere" in "\n".join(error.value.details)


def pools_of(memory: BoardMemory) -> list[tuple[int, int]]:
    return [(pool.base, pool.base + pool.size_bytes) for pool in memory.pools if pool.writable]


def own_pools(found: ApplicationPlan, name: str) -> list[tuple[int, int]]:
    """What its compiler sees, neighbours joined."""
    return parts.joined(pools_of(planning.room_for(found, name)))


def test_a_network_never_sees_what_must_survive_it() -> None:
    """Small networks would hardly reach it: so the pools that they are compiled for are looked at."""
    found = plan("all")
    assert found.kept and set(found.private) == {"first", "second"}
    for one in found.kept:
        for other in one.survives:
            seen = pools_of(planning.room_for(found, other))
            assert not any(start < one.span[1] and one.span[0] < end for start, end in seen)
        assert any(low <= one.span[0] and one.span[1] <= high for low, high in own_pools(found, one.network))
    for name, other in (("first", "second"), ("second", "first")):
        seen = pools_of(planning.room_for(found, other))
        assert not any(start < high and low < end for start, end in seen for low, high in found.private[name])


def test_copies_of_weights_stay_out_of_ram_that_others_overwrite() -> None:
    memory = replace(plan().memory, overwritten=((0x3420_0000, 0x3430_0000),))
    free = free_spans({}, memory)
    assert free and not any(start < 0x3430_0000 and end > 0x3420_0000 for start, end in free)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus (set ATONC_CORPUS)")
def test_a_network_works_in_the_place_of_its_own_survivor() -> None:
    """Its input stays while the others run, and when it has read it the place is memory like any other."""
    names = "spatial_cnn_int8", "flowers__mobilenet_v1_0.25_96_grayscale_tfs_int8", "micro_speech_quantized"
    first, second, third = of_models([CORPUS / f"{name}.tflite" for name in names]).networks
    networks = replace(first, outputs_survive=("all",)), replace(second, inputs_survive=("all",)), third
    told = figures(plan_of(accepted(Application("made", first.options.board, networks))))
    assert told.kept_bytes > 9_000 and told.ram_bytes <= 1.02 * told.lower_bound_bytes
    assert all(one.latency_ms <= planning.SLOWER_AROUND_KEPT * one.alone_ms for one in told.networks)


@pytest.mark.parametrize("gap", [64, 128])
def test_read_ahead_closes_no_gap(gap: int) -> None:
    """What lies between two spans is somebody else's, however small it is."""
    board, start = memories(Options()), 0x3420_0000
    spans = [(start, start + 8192), (start + 8192 + gap, start + 16384)]
    pieces = [(pool.base, pool.base + pool.size_bytes) for pool in parts.within(board, spans).on_chip]
    assert len(pieces) == 2 and pieces[1][0] == spans[1][0] and pieces[0][1] <= spans[1][0]
    assert pieces[0][1] - spans[0][1] == (64 if gap > 64 else 0)
