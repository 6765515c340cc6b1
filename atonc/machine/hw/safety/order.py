"""Order and completion: how a program starts an epoch, waits for it and takes it down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from atonc.machine.base.reasons import Evidence, Rule, Severity, Violation
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.safety.view import EpochView, SafetyFinding, kind_of_name, number_of_name, proven, rule

_CONFIGURE = ("processing unit", "reader", "writer")
_ENABLE = ("writer", "processing unit", "reader")
_FIRST_STYLE = ("switch clear", "switch enable", "link")  # releases 2.0 to 3.0
_SECOND_STYLE = ("link", "switch enable")  # releases 4.x, which clear when the epoch ends
_RARE_STYLE = ("switch enable", "link")  # release 3.0.0 where the CPU drives, which unlinks when the epoch ends


@rule(
    "O01",
    "units are configured in the order processing units, readers, writers",
    proven(9526, "epochs"),
    remedy="write the configuration in this order",
)
def configuration_order(view: EpochView) -> Iterator[SafetyFinding]:
    yield from _out_of_order(view, "configure", _CONFIGURE)


@rule(
    "O02",
    "units are enabled in the order writers, processing units, readers",
    proven(9526, "epochs"),
    remedy="enable the end of the chain first, so that no element is lost",
)
def enable_order(view: EpochView) -> Iterator[SafetyFinding]:
    yield from _out_of_order(view, "enable", _ENABLE)


def _out_of_order(view: EpochView, what: str, order: tuple[str, ...]) -> Iterator[SafetyFinding]:
    reached = 0
    for event in view.epoch.events:
        if event.what != what or event.unit not in view.units:
            continue
        place = order.index(_part(view, event.unit))
        if place < reached:
            yield SafetyFinding(
                event.unit, f"{what}d after a {order[reached]}", ", ".join(f"{name}s" for name in order)
            )
            return
        reached = place


def _part(view: EpochView, unit: str) -> str:
    if unit in view.writers:
        return "writer"
    return "reader" if unit in view.readers else "processing unit"


@rule(
    "O03",
    "every unit that is configured is enabled, and disabled at the end",
    proven(9526, "epochs"),
    remedy="enable and disable exactly the units that the epoch configures",
)
def same_units_throughout(view: EpochView) -> Iterator[SafetyFinding]:
    seen = {what: _units(view.epoch, what) for what in ("configure", "enable", "disable")}
    if not seen["configure"]:
        return  # the events of this epoch are not known
    for unit in sorted(set().union(*seen.values())):
        missing = [what for what, units in seen.items() if unit not in units]
        if missing:
            yield SafetyFinding(unit, f"never {' nor '.join(f'{what}d' for what in missing)} in this epoch")


def _units(epoch: Epoch, what: str) -> set[str]:
    return {event.unit for event in epoch.events if event.what == what and kind_of_name(event.unit) in _SWITCHABLE}


_SWITCHABLE = ("STRENG", "CONVACC", "ARITH", "ACTIV", "POOL", "DECUN", "RECBUF")


@rule(
    "O04",
    "the epoch waits for all writing engines and for no others",
    proven(9526, "epochs"),
    remedy="set the wait mask to the writers: readers may stop early, and a forgotten writer may still be running",
)
def waits_for_writers(view: EpochView) -> Iterator[SafetyFinding]:
    waits = set(view.epoch.waits)
    for unit in sorted(waits - set(view.writers)):
        yield SafetyFinding(unit, "the epoch waits for it, but it writes nothing")
    for unit in sorted(set(view.writers) - waits):
        yield SafetyFinding(unit, "writes memory, but the epoch does not wait for it")


@rule(
    "O05",
    "engines are waited for in ascending order",
    proven(8511, "epochs"),
    remedy="sort the waits by engine number",
)
def waits_ascend(view: EpochView) -> Iterator[SafetyFinding]:
    numbers = [number_of_name(unit) for unit in view.epoch.waits]
    if numbers != sorted(numbers):
        yield SafetyFinding("", f"waits for {', '.join(view.epoch.waits)}", "ascending engine numbers")


@rule(
    "O06",
    "every poll waits for 0 with timeout 100",
    proven(176645, "polls"),
    remedy="poll for value 0 with timeout 100",
)
def polls_as_known(view: EpochView) -> Iterator[SafetyFinding]:
    for event in view.epoch.events:
        if event.what in ("wait", "poll") and event.detail and event.detail != (0, 100):
            value, timeout = event.detail[0], event.detail[-1]
            yield SafetyFinding(event.unit, f"polls for {value} with timeout {timeout}", "0 with timeout 100")


@rule(
    "O07",
    "the switch is set up as clear, enable, link or as link, enable; all before the first unit starts",
    Evidence(11968, 12082, "epochs", "the others, 5 programs of release 3.0.0 that the CPU drives, clear nothing"),
    remedy="use one of the two sequences",
)
def switch_sequence(view: EpochView) -> Iterator[SafetyFinding]:
    style = switch_style(view.epoch)
    if style and style not in (_FIRST_STYLE, _SECOND_STYLE):
        usual = f"{', '.join(_FIRST_STYLE)} or {', '.join(_SECOND_STYLE)}"
        yield SafetyFinding("STRSWITCH0", ", ".join(style), usual, Severity.NOTE if style == _RARE_STYLE else None)
    running = False
    for event in view.epoch.events:
        running = running or event.what == "enable"
        if running and event.what in ("link", "configure"):
            yield SafetyFinding(event.unit, f"{event.what} after the first unit was enabled")
            return


@rule(
    "O08",
    "links and units are taken down only after all waits",
    proven(9526, "epochs"),
    remedy="wait for every writer first",
)
def taken_down_last(view: EpochView) -> Iterator[SafetyFinding]:
    events = view.epoch.events
    waits = [index for index, event in enumerate(events) if event.what == "wait"]
    if not waits:
        return
    for event in events[: waits[-1]]:
        if event.what in ("disable", "unlink"):
            yield SafetyFinding(event.unit, f"{event.what} before the epoch has ended")


def switch_style(epoch: Epoch) -> tuple[str, ...]:
    """What happens to the switch before the epoch runs, repetitions left out."""
    style: list[str] = []
    for event in epoch.events:
        if event.what == "wait":
            break
        if event.what in (*_FIRST_STYLE, *_SECOND_STYLE) and (not style or style[-1] != event.what):
            style.append(event.what)
    return tuple(style)


ONE_STYLE = Rule(
    "O09",
    "order",
    "all epochs of a program set the switch up in the same way",
    Evidence(8511, 8511, "epochs", "clear, enable, link in releases 2.0 to 3.0; link, enable in 4.x"),
    remedy="use one sequence for the whole program",
)


def check_one_style(epochs: Sequence[Epoch]) -> list[Violation]:
    styles: dict[tuple[str, ...], int] = {}
    for epoch in epochs:
        style = switch_style(epoch)
        if style:
            styles.setdefault(style, epoch.number)
    if len(styles) < 2:
        return []
    seen = "; ".join(f"{', '.join(style)} (from epoch {number})" for style, number in styles.items())
    return [Violation(ONE_STYLE, seen, "one sequence", max(styles.values()), "STRSWITCH0", Severity.VIOLATION)]
