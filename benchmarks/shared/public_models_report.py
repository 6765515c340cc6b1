"""The page of `public_models`."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from atonc.insight.validating.judging import CLOSE_PERCENT, MIN_COSINE
from benchmarks.shared import tables
from benchmarks.shared.corpus_report import NOISE, Record

INPUTS = 2
CLOSE, OF_KERNELS = 0.999, 0.003
NOT_COUNTED = {
    "float": ("the model is not quantised",),
    "dynamic": ("chooses scales at run time", "zero point computed at run time", "scale computed at run time"),
    "other chip": ("'edgetpu-custom-op'", "'ethos-u'", "'XC_"),
}
HEAD = """# Public models outside the corpus

One thread, on a machine that others used too. The models are not part of this repository. Each was run with the code of
this date.

- *outcome*: **verified**: `atonc generate` wrote its files, every layer of the program is within its limit of exact
  arithmetic on the emulator, and the outputs are close to the reference; **differs**: not so; **refused**: exit code 2
  with the message below the table; **failed**: none of these. Files of test suites that hold one operator are sampled
  (one of each kind), and so are collections of hundreds of alike models.
- Listed, but not among the quantised: **float**: every operator computes in float; **dynamic**: the file has no scales
  of activations, they are chosen at run time; **other chip**: the network is inside an operator as machine code of
  another accelerator.
- Options that a model needs (sizes of free dimensions, a cut before a foreign operator) stand behind its name.
- *epochs*: on the NPU; *CPU ops* with the rule that sent them there; *ms*: predicted, CPU included, never measured.
- *layer max*: each layer on the inputs it really had against exact arithmetic, in codes.
- *cosine*: worst output over {inputs} inputs to TFLite's reference kernels (onnxruntime without optimisation);
  *kernels*: the same for the reference's other kernel sets, whichever is further. Where the reference cannot run the
  model, exact arithmetic takes its place.
- *s*, *MB*: `generate` with verification and all files, seconds on the clock and largest resident memory.

"""


@dataclass(frozen=True)
class Model:
    path: Path
    mark: str  # the first letters of its SHA-256
    source: str  # repository:path
    asked: Record = field(default_factory=dict, compare=False)  # options that it is compiled with

    @property
    def repository(self) -> str:
        return self.source.split(":")[0].split("@")[0]


def outcome(record: Record) -> str:
    if "failed" in record:
        return "failed"
    if "refused" in record:
        said = ((kind, text) for kind, texts in NOT_COUNTED.items() for text in texts)
        return next((kind for kind, text in said if text in record["refused"]), "refused")
    return "verified" if not record["layers"]["bad"] and all(map(close, record["outputs"])) else "differs"


def close(output: Record) -> bool:
    """A few values that are nearly nothing have no direction: there one code of the output is the measure."""
    return bool(output["cosine"] >= min(CLOSE, output["spread"] - OF_KERNELS) or output["within1"] == 100.0)


def passes(record: Record) -> bool:
    """By the cosine that `atonc validate` asks of outputs and by its layers. It also lets pass what is as far as other
    kernels of the reference are, but for that two inputs say too little."""
    outputs = record.get("outputs", [{"cosine": 0.0, "within1": 0.0}])
    return all(o["cosine"] >= MIN_COSINE or o["within1"] >= CLOSE_PERCENT for o in outputs) and not (
        record.get("layers", {}).get("bad")
    )


def row(model: Model, record: Record) -> str:
    asked = "".join(f"; {name} {_words(value)}" for name, value in model.asked.items())
    begin = [model.source + asked, model.mark, outcome(record)]
    if "outputs" not in record:
        return f"| {' | '.join(begin)} | | | | | | | {record.get('seconds', 0):.1f} | |"
    cells = [
        *begin,
        record["npu"],
        ", ".join(f"{count} {why}" for why, count in record["why"]) or "none",
        f"{record['latency_ms']:.2f}",
        f"{record['layers']['max_diff']:g}",
        f"{min(output['cosine'] for output in record['outputs']):.5f}",
        f"{min(output['spread'] for output in record['outputs']):.5f}",
        f"{record['seconds']:.1f}",
        record["megabytes"],
    ]
    return tables.row(cells)


def _words(value: object) -> str:
    return ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


def report(records: dict[Model, Record]) -> str:
    ordered = dict(sorted(records.items(), key=lambda item: (item[0].source.lower(), item[0].mark)))
    lines = [
        *_summary(ordered),
        "",
        "| model | sha256 | outcome | epochs | CPU ops: rule | ms | layer max | cosine | kernels | s | MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(row(model, record) for model, record in ordered.items()),
        "",
        "## Refused or failed",
        "",
        *(f"- {m.source} ({m.mark}): {one_line(r)}" for m, r in ordered.items() if "outputs" not in r),
        "",
        "## Outputs that are not close",
        "",
        f"*noise*: cosine of exact arithmetic to itself with {100 * NOISE:g} % of the values of every convolution one "
        "code off, which is what any other rounding of the same model gives.",
        "",
        *(f"- {m.source}: {_distance(o)}" for m, r in ordered.items() for o in r.get("outputs", ()) if not close(o)),
        "",
        "## Layers above their limit",
        "",
        *(f"- {m.source}: {bad}" for m, r in ordered.items() if "outputs" in r for bad in r["layers"]["bad"]),
        "",
        "## Models a repository",
        "",
        *(f"- {name}: {count}" for name, count in Counter(m.repository for m in ordered).most_common()),
    ]
    return HEAD.format(inputs=INPUTS) + "\n".join(lines) + "\n"


def _summary(records: dict[Model, Record]) -> list[str]:
    counts = Counter(map(outcome, records.values()))
    run = [record for record in records.values() if "outputs" in record]
    quantised = [model for model, record in records.items() if outcome(record) not in NOT_COUNTED]
    found = [output for record in run for output in record["outputs"]]
    sound = sum(not record["layers"]["bad"] for record in run)
    return [
        f"{len(records)} models of {len({m.repository for m in records})} repositories: "
        + ", ".join(f"{count} {what}" for what, count in counts.most_common())
        + ".",
        f"Quantised: {len(quantised)} of {len({m.repository for m in quantised})} repositories.",
        f"- Compile, and every layer is within its limit of exact arithmetic: {_of(sound, quantised)}.",
        f"- Outputs within the cosine of `atonc validate` on these {INPUTS} inputs, wherever other kernels are: "
        f"{_of(sum(map(passes, records.values())), quantised)}. The rest on many inputs, with what brings it: "
        "[validate_outside.md](validate_outside.md).",
        f"- Verified, which asks for outputs that are closer still: {_of(counts['verified'], quantised)}.",
        "",
        f"Outputs at cosine {CLOSE}, as close as the reference's other kernels less {OF_KERNELS}, or within a code: "
        f"{sum(map(close, found))} of {len(found)}. "
        f"Models without a layer above its limit: {sound} of {len(run)}.",
        f"Seconds: median {median(_all(run, 'seconds')):.1f}, largest {max(_all(run, 'seconds')):.1f}. "
        f"Memory: at most {max(_all(run, 'megabytes')):.0f} MB.",
        "",
        "Refused or failed, by cause: " + (", ".join(_causes(records)) or "none") + ".",
    ]


def _of(count: int, quantised: list[Model]) -> str:
    return f"{count} ({100 * count / max(1, len(quantised)):.1f} %)"


def _causes(records: dict[Model, Record]) -> list[str]:
    """The sentence of each refusal without the names of tensors and files."""
    said = Counter(_cause(record) for record in records.values() if outcome(record) in ("refused", "failed"))
    return [f"{count} x {cause}" for cause, count in said.most_common()]


def _cause(record: Record) -> str:
    sentence = re.split(r";? (?:cause|fix):", one_line(record))[0]
    return sentence.split(": ", 1)[-1][:120]


def one_line(record: Record) -> str:
    return " ".join(str(record.get("refused", record.get("failed"))).split())


def _distance(output: Record) -> str:
    return f"{output['name']}: cosine {output['cosine']:.5f}, kernels {output['spread']:.5f}, " + (
        f"noise {output['noise']:.5f}" if "noise" in output else ""
    )


def _all(records: list[Record], what: str) -> list[float]:
    return [record[what] for record in records] or [0.0]
