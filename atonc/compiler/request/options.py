"""What the user may ask of the compiler: every option once, with its flag, its group and its help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from atonc.compiler.schedule.passes import ON_REQUEST, PASSES, PREFETCH, help_with, help_without, unseen
from atonc.machine.base.declare import RARE, Takes, check, declared, default_of, did_you_mean, option
from atonc.machine.base.errors import ConflictError, InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import ALL_FREE, NO_ROOM, Room
from atonc.machine.base.words import room as room
from atonc.machine.base.words import size as size
from atonc.machine.hw.dma import CHANNEL, CHANNELS
from atonc.machine.hw.four_bits import PROBABILITY

Number = TypeVar("Number", int, float)
MODEL = "the model"
EDGES = "inputs and outputs"
MEMORY = "board and memory"
MAPPING = "how operators are mapped"
CLOCKS = "clocks"
CHECKS = "checks"
OUTPUT = "what is written and shown"
GATES = "gates: exit code 1 if one fails"
STAGES = ("read", "passes", "lower", "schedule", "place")  # what `--dump` shows, in the order of the pipeline
ANY_FORM, W4_STREAM = "any", "w4-stream"
UNPROVEN = (ANY_FORM, W4_STREAM)  # values of `--allow-unproven`
SEEN, COMPOSED = "seen", "composed"  # values of `--silicon`
_POSITIONS = ("chfirst", "chlast")


def names(text: str) -> tuple[str, ...]:
    """Separated by commas."""
    return tuple(filter(None, (word.strip() for word in text.split(","))))


def unproven(text: str) -> tuple[str, ...]:
    """Forms that no published program has, by name."""
    found = names(text)
    for name in found:
        if name not in UNPROVEN:
            raise InputError(
                f"{name[:60]!r} is no configuration that --allow-unproven knows",
                rule=f"it takes {' or '.join(UNPROVEN)}, separated by commas; alone it means {ANY_FORM}",
                remedy=did_you_mean(name, UNPROVEN, f"write --allow-unproven={ANY_FORM} in front of a model"),
            )
    return found


def carrier(text: str) -> str:
    """Who copies weights ahead: `dma`, or `dma=3` for a channel."""
    name, given, channel = text.partition("=")
    known = [str(number) for number in range(CHANNELS)]
    if text and (name != "dma" or (given and channel not in known)):
        raise InputError(
            f"{text[:60]!r} cannot copy weights ahead",
            rule=f"dma, or dma=CHANNEL with a channel of HPDMA1 from 0 to {CHANNELS - 1}",
            remedy="write --prefetch dma; idle engines copy with --schedule-with prefetch",
        )
    return text


def _number(text: str, read: Callable[[str], Number], fits: Callable[[Number], bool], what: str) -> Number:
    with suppress(ValueError):
        if fits(value := read(text)):
            return value
    raise InputError(f"{text[:60]!r} is not {what}", remedy="write such a number")


def positive(text: str) -> float:
    return _number(text, float, lambda value: 0 < value < 1e9, "a number above zero and below 1e9")


def whole(text: str) -> int:
    return _number(text, lambda given: int(given, 0), lambda value: value >= 0, "a whole number from 0 on")


def frames(text: str) -> int:
    """Counts a sequence: what is made or read lies in memory, and hours of sound are fewer."""
    return _number(text, lambda given: int(given, 0), lambda value: 0 <= value <= 10**6, "a number from 0 to 1,000,000")


def share(text: str) -> float:
    """A cosine that is asked for."""
    return _number(text, float, lambda value: 0 <= value <= 1, "a number from 0 to 1")


def require_passes(without: tuple[str, ...], extra: tuple[str, ...]) -> None:
    """They are passes of the schedule: those that are on by default, and those that are not."""
    for given, known in ((without, PASSES), (extra, ON_REQUEST)):
        for name in given:
            if name not in known:
                raise InputError(
                    f"the schedule has no pass {name[:60]!r}",
                    rule=f"its passes are {', '.join(known)}",
                    remedy=f"did you mean {name.upper()}?"
                if name.upper() in known
                else did_you_mean(name, known, "leave it out"),
                )


def require_arguments(ids: tuple[str, ...]) -> None:
    """They are arguments for forms that nobody has shown as a whole."""
    if not ids:
        return
    from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS

    known = [argument.id for argument in ARGUMENTS]
    for name in ids:
        if name not in known:
            great = name.upper()
            near = f"did you mean {great}?" if great in known else did_you_mean(name, known, "leave it out")
            raise InputError(
                f"there is no argument {name[:60]!r}",
                rule=f"docs/silicon.md has {', '.join(known)}",
                remedy=near,
            )


def shapes(text: str) -> dict[str, Any]:
    from atonc.compiler.frontends.limits import parse_fixed_shapes

    return parse_fixed_shapes(text)


@dataclass(frozen=True)
class Options:
    """Arguments of `atonc.compile`; flags of the command line with their help; rows of the reference."""

    board: str = option("stm32n6570-dk", "--board", MEMORY, "its name, or a .toml", metavar="[SET@]BOARD")
    mpool: str = option(
        "",
        "--mpool --memory-pool",
        MEMORY,
        "memory pools instead of the board's",
        metavar="FILE",
        takes=Takes(local=True),
    )
    numerics: str = option(
        "best",
        "--numerics",
        MAPPING,
        "2.x: the numbers that ST's compilers 2.x give",
        takes=Takes(choices=("best", "2.x"), rare=True),
    )
    prefer: str = option("speed", "--prefer", MEMORY, "what to optimise", takes=Takes(choices=("speed", "memory")))
    resident: Room | str = option(
        NO_ROOM,
        "--resident",
        MEMORY,
        "copy weights into RAM once, at initialisation: BYTES of it, or `all` that activations leave free",
        metavar="BYTES",
        parse=room,
        takes=Takes(bare=ALL_FREE),
    )
    keep_free: int = option(
        0,
        "--keep-free",
        MEMORY,
        "with --resident: so much RAM on the chip stays free for the application",
        metavar="BYTES",
        parse=size,
        takes=RARE,
    )
    prefetch: str = option(
        "",
        "--prefetch",
        MEMORY,
        "dma[=CHANNEL]: the chip's DMA (HPDMA1, channel 12 unless another is said) copies weights from flash into free "
        "RAM while earlier layers compute (docs/schedule.md); emulated, not yet run on a board",
        metavar="CARRIER",
        parse=carrier,
        takes=RARE,
    )
    encrypt_weights: bool = option(
        False,
        "--encrypt-weights",
        MEMORY,
        "engines decipher the weights that they read; a board encrypts the memory image first (docs/encryption.md)",
        takes=RARE,
    )
    encrypt_acc_confs: bool = option(
        True,
        "--no-encrypt-acc-confs",
        MEMORY,
        "with --encrypt-weights: constants of units stay plain (they always do, the report says so without this)",
        takes=RARE,
    )
    cut_inputs: tuple[str, ...] = option(
        (),
        "--cut-input-tensors",
        MODEL,
        "the model begins at these tensors, separated by commas",
        metavar="NAMES",
        parse=names,
        takes=RARE,
    )
    cut_input_layers: tuple[str, ...] = option(
        (), "--cut-input-layers", MODEL, "the model begins with these layers", metavar="NAMES", parse=names, takes=RARE
    )
    cut_outputs: tuple[str, ...] = option(
        (),
        "--cut-output-tensors --cut-output-layers",
        MODEL,
        "the model ends at these tensors or layers, separated by commas",
        metavar="NAMES",
        parse=names,
    )
    custom: str = option(
        "",
        "--custom",
        MODEL,
        "operators of the model that are C functions of yours, run on the CPU (docs/custom_operators.md); verification "
        "compiles and runs them on this computer",
        metavar="FILE.json",
        takes=Takes(local=True, rare=True),
    )
    states: tuple[str, ...] = option(
        (),
        "--state",
        MODEL,
        "OUT=IN: outputs that are inputs of the next inference, by name or number, separated by commas; auto: by their "
        "names; none: the application carries variables of the model, too (docs/streaming.md)",
        metavar="PAIRS",
        parse=names,
        takes=RARE,
    )
    hop: float = option(
        *(0.0, "--hop", MODEL, "milliseconds from frame to frame, for the real-time factor of a network with states"),
        metavar="MS",
        parse=positive,
        takes=RARE,
    )
    input_type: str = option(
        "", "--input-data-type", EDGES, "float32, int8, uint8, int16; one each: a,b", metavar="TYPE"
    )
    output_type: str = option("", "--output-data-type", EDGES, "the same for the outputs", metavar="TYPE")
    inputs_channel_position: str = option(
        "", "--inputs-ch-position", EDGES, "channels of the inputs", takes=Takes(choices=_POSITIONS, rare=True)
    )
    outputs_channel_position: str = option(
        "", "--outputs-ch-position", EDGES, "channels of the outputs", takes=Takes(choices=_POSITIONS, rare=True)
    )
    fixed_shapes: dict[str, Any] = option(
        dict,
        "--fix-parametric-shapes",
        MODEL,
        "sizes of free dimensions, values of inputs: B=1,sr=16000,axes=0,2",
        metavar="SHAPES",
        parse=shapes,
        takes=RARE,
    )
    inputs_allocation: bool = option(
        True, "--no-inputs-allocation", EDGES, "the application supplies the memory of the inputs", takes=RARE
    )
    outputs_allocation: bool = option(
        True, "--no-outputs-allocation", EDGES, "the application supplies the memory of the outputs", takes=RARE
    )
    epoch_controller: bool = option(True, "--no-epoch-controller", MAPPING, "the CPU starts every epoch", takes=RARE)
    relocatable: bool = False  # memories outside the chip have no fixed base (`-r`)
    secure: bool = True  # False: addresses of the chip's memories are those of the non-secure state (`-r no-secure`)
    on_cpu: tuple[str, ...] = ()  # nodes of the model (`--on cpu NODE`)
    on_npu: tuple[str, ...] = ()
    no_npu: bool = option(
        False,
        "--no-npu",
        MAPPING,
        "every operator on the Cortex-M55: what ST's tool makes without --st-neural-art",
        takes=RARE,
    )
    allow_float: bool = option(False, "--allow-float", MODEL, "also models without any quantised value", takes=RARE)
    silicon: str = option(
        COMPOSED,
        "--silicon",
        MAPPING,
        "seen: only NPU configurations of ST programs; composed: also new combinations of known parts",
        takes=Takes(choices=(SEEN, COMPOSED), rare=True),
    )
    allow_unproven: bool | tuple[str, ...] = option(
        (),
        "--allow-unproven",
        MAPPING,
        "also NPU configurations not seen in ST programs (alone: any); w4-stream: engines read weights of 4 bits, two "
        f"to a byte, which works as assumed with a probability of about {PROBABILITY:g}",
        metavar="FORMS",
        parse=unproven,
        takes=Takes(bare=ANY_FORM, rare=True),
    )  # True: any
    distrust: tuple[str, ...] = option(
        (),
        "--distrust",
        MAPPING,
        "arguments of docs/silicon.md not to rely on, separated by commas: S2,S6",
        metavar="IDS",
        parse=names,
        takes=RARE,
    )
    evidence: str = option(
        "",
        "--evidence",
        MAPPING,
        "results of probes on your board (`atonc probe read`): what it confirmed counts as seen, what it refuted is "
        "refused, its measured constants replace ours",
        metavar="FILE",
        takes=Takes(local=True, rare=True),
    )
    schedule_without: tuple[str, ...] = option(
        (), "--schedule-without", MAPPING, help_without(), metavar="PASSES", parse=names, takes=RARE
    )
    schedule_with: tuple[str, ...] = option(
        (), "--schedule-with", MAPPING, help_with(), metavar="PASSES", parse=names, takes=RARE
    )
    decisions: str = option(
        "",
        "--decisions",
        MAPPING,
        "build the program of these decisions instead of searching: NAME_program.json of a build, or what "
        "`atonc explain --search --json` printed, edited or not",
        metavar="FILE",
        takes=Takes(local=True, rare=True),
    )
    allow_coarse: float = option(
        0.0,
        "--allow-coarse",
        MAPPING,
        "layers with an error up to this many LSB stay on the NPU (default: 2)",
        metavar="LSB",
        parse=positive,
        takes=RARE,
    )
    npu_mhz: float = option(
        0.0,
        "--npu-mhz",
        CLOCKS,
        "clock of the NPU, if it is not the usual one",
        metavar="MHZ",
        parse=positive,
        takes=RARE,
    )
    cpu_mhz: float = option(0.0, "--cpu-mhz", CLOCKS, "clock of the CPU", metavar="MHZ", parse=positive, takes=RARE)
    flash_mbps: float = option(
        0.0, "--flash-mbps", CLOCKS, "speed of the flash, MB/s", metavar="MBPS", parse=positive, takes=RARE
    )
    calibration: tuple[str, ...] = option(
        (),
        "--calibration",
        CHECKS,
        "inputs like those of the application, as .npz, .npy or .csv, separated by commas: accumulators get headroom "
        "for them, and the program is verified on some of them",
        metavar="FILES",
        parse=names,
        takes=Takes(local=True, rare=True),
    )
    verify: bool = option(True, "--no-verify", CHECKS, "do not run the program on the emulator")
    cache: bool = option(
        True,
        "--no-cache",
        CHECKS,
        "use no results of former runs, which lie in your cache folder (docs/cache.md)",
        takes=Takes(local=True, rare=True),
    )
    seed: int = option(0, "--seed", CHECKS, "of synthetic inputs", metavar="N", parse=whole, takes=RARE)

    def __post_init__(self) -> None:
        object.__setattr__(self, "resident", room(str(self.resident)))  # in Python it is written as on a command line
        if isinstance(self.allow_unproven, bool):
            object.__setattr__(self, "allow_unproven", (ANY_FORM,) * self.allow_unproven)
        check(self)
        unproven(",".join(self.unproven))
        require_passes(self.schedule_without, self.schedule_with)
        require_arguments(self.distrust)
        _require_numbers(self)
        if self.encrypt_weights:
            _require_encryptable(self)
        if carrier(self.prefetch):
            _require_carrier(self)
        if self.silicon == SEEN and (new := unseen(self.schedule_with)):
            raise ConflictError(
                f"{', '.join(new)} makes epochs that are not in ST programs",
                rule="--silicon seen allows none",
                remedy="leave out --schedule-with or --silicon seen",
            )

    @property
    def room_for_weights(self) -> Room:
        """RAM that weights may take for the whole run."""
        return self.resident if isinstance(self.resident, Room) else room(self.resident)

    @property
    def dma_channel(self) -> int | None:
        """The channel that copies weights ahead; None: the DMA does not."""
        name, _, channel = self.prefetch.partition("=")
        return (int(channel) if channel else CHANNEL) if name else None

    @property
    def unproven(self) -> tuple[str, ...]:
        """Forms that no published program has and that may be used all the same."""
        return self.allow_unproven if isinstance(self.allow_unproven, tuple) else (ANY_FORM,) * self.allow_unproven


def _require_numbers(options: Options) -> None:
    """Numbers are those that flags take, also where nobody parsed them: in Python, a sweep or an application."""
    for member, known in declared(Options):
        value = getattr(options, member.name)
        if known.parse in (positive, size, whole) and value != default_of(member):
            try:
                known.parse(str(value))
            except InputError as error:
                raise InputError(f"{member.name}: {error.what}", remedy=error.remedy) from None


def _require_encryptable(options: Options) -> None:
    """Nobody but stream engines reads what is encrypted, at the address that it was encrypted for."""
    reasons = (
        (options.resident, "--resident", "the CPU copies these weights, and would copy ciphertext"),
        (options.prefetch, "--prefetch", "the DMA copies these weights, and would copy ciphertext"),
        (options.relocatable, "-r", "a relocatable image gets its address later, and the ciphertext depends on it"),
        (options.no_npu, "--no-npu", "stream engines decipher, the CPU does not"),
    )
    _require_none("--encrypt-weights", reasons)


def _require_carrier(options: Options) -> None:
    """One carrier, of weights that the NPU reads; and addresses that the secure application knows."""
    reasons = (
        (PREFETCH in options.schedule_with, "--schedule-with prefetch", "either the DMA or idle engines copy weights"),
        (options.silicon == SEEN, "--silicon seen", "no ST program copies weights by the DMA"),
        (options.no_npu, "--no-npu", "the DMA copies weights for the NPU"),
        (options.relocatable, "-r", "the lists of the DMA are written for an application in the secure state"),
    )
    _require_none("--prefetch dma", reasons)


def _require_none(option: str, others: Sequence[tuple[object, str, str]]) -> None:
    """`others`: whether each is asked for, its flag, and why it does not go with the option."""
    for asked, flag, why in others:
        if asked:
            raise ConflictError(f"{option} does not go with {flag}", rule=why, remedy=f"leave out {flag} or {option}")


@dataclass(frozen=True)
class Gates:
    """What the user does not accept; zero means any."""

    max_ram: int = option(
        0, "--max-ram", GATES, "limit of all RAM, such as 1.5M (default: none)", metavar="BYTES", parse=size
    )
    max_activations: int = option(
        *(0, "--max-activations", GATES, "limit of activations alone, such as 640k (default: none)"),
        metavar="BYTES",
        parse=size,
        takes=RARE,
    )
    max_latency: float = option(0.0, "--max-latency", GATES, "limit of predicted latency", metavar="MS", parse=positive)
    max_energy: float = option(
        *(0.0, "--max-energy", GATES, "limit of the likely microjoules/inference of core and memories (default: none)"),
        metavar="UJ",
        parse=positive,
        takes=RARE,
    )
    no_cpu: bool = option(False, "--no-cpu", GATES, "fails if an operator runs on the CPU")
    no_spill: bool = option(False, "--no-spill", GATES, "fails if activations or states are in external RAM")
