"""The page of `quantize`: figures of every quantiser, and what they do not say by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.shared import tables

OTHERS = {"ort_minmax": "onnxruntime min-max", "ort_percentile": "onnxruntime percentile",
          "ort_entropy": "onnxruntime entropy", "ai_edge": "ai-edge-quantizer"}  # fmt: skip


def table(rows: dict[str, Any], models: Mapping[str, Any]) -> str:
    names = [key for key in models if key in rows]
    sure = [gain for key in names if (gain := gain_over_best(rows[key])) is not None]
    missing = [key for key in models if key not in rows]
    heads = ["model", "atonc", *OTHERS.values(), "gain over the best of onnxruntime, 95 %"]
    won = sum(_best(rows[key], "snr_db", max) <= rows[key]["atonc"]["snr_db"] for key in names)
    faster = sum(_best(rows[key], "cycles", min) >= rows[key]["atonc"]["cycles"] for key in names)
    counted = (
        f"Against the best of onnxruntime's three on each of {len(sure)} models: better by more than chance on "
        f"{sum(low > 0 for low, _ in sure)}, worse by more than chance on {sum(high < 0 for _, high in sure)}. Of all "
        f"{len(names)} the mean is at least as good on {won}, cycles at most those of the least other one on {faster}."
    )
    lines = [*INTRODUCTION.splitlines(), "", counted]
    if missing:
        lines.append(f"Not measured for want of processor time: {', '.join(missing)}.")
    lines += ["", tables.row(heads), "|---" * len(heads) + "|"]
    for key in names:
        cells = [_cell(rows[key].get(label)) for label in ("atonc", *OTHERS)]
        gain = gain_over_best(rows[key])
        words = "" if gain is None else f"{gain[0]:+.1f} to {gain[1]:+.1f} dB"
        lines.append(f"| {key}{' *' if rows[key].get('older') else ''} | {' | '.join(cells)} | {words} |")
    if any(rows[key].get("older") for key in names):
        lines += ["", *OLDER.splitlines()]
    lines += ["", "| model | what | published in | held samples |", "|---|---|---|---|"]
    lines += [f"| {key} | {models[key].what} | {models[key].origin} | {rows[key].get('held', '')} |" for key in names]
    return "\n".join([*lines, *CLOSING.splitlines(), ""])


def gain_over_best(row: dict[str, Any]) -> tuple[float, float] | None:
    """By how much ours is better than the best of onnxruntime's on the held samples, drawn again and again."""
    theirs = [row[label] for label in OTHERS if label.startswith("ort") and "ours_gains_db" in row.get(label, {})]
    if not theirs:
        return None
    low, high = max(theirs, key=lambda one: float(one["snr_db"]))["ours_gains_db"]
    return float(low), float(high)


def _best(row: dict[str, Any], figure: str, pick: Any) -> float:
    found = [row[label][figure] for label in OTHERS if row.get(label, {}).get(figure) is not None]
    return float(pick(found)) if found else (-np.inf if pick is max else np.inf)


def _cell(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    if "failed" in found:
        return "fails"
    cycles = f"{found['cycles']:,}" if found["cycles"] is not None else "not compiled"
    return f"{found['snr_db']:.2f} dB, {cycles}"


INTRODUCTION = """# `atonc quantize` against other quantisers

Each quantiser gets the same 100 samples and its default settings (int8 activations, int8 weights by channel). Each
cell: signal to noise against float on held samples, mean over samples and outputs, and cycles that this compiler
predicts for the quantised model with float inputs and outputs (float parts run on the CPU). The last column draws the
held samples again and again, with repetition, and says within what 95 % of the differences lie.

- Held samples: 500 where the input has fewer than 2,000 values, 128 below 100,000, else 32. No figure of the quantiser
  was chosen by them, but two things were seen there first: that `age` was broken (below), and that yunet lost on its
  first 32 pictures (26.34 dB against 27.28 of percentile, -2.2 to -0.2). It was given 128, those 32 among them.
- onnxruntime gets the model with BatchNorm folded. Its entropy calibration has 128 bins for 128 codes, so that the
  whole range is its only choice: it equals min-max by construction. Where inputs are large it collects its histograms
  ten samples at a time (it would keep every value of every sample in memory); joined, they have more bins and a choice.
- ai-edge-quantizer 0.10 takes TFLite only, so it has no figure for ONNX models, and none where it is not installed. It
  reads the newer of two operator fields alone and leaves int8 weights as they are; the published files are older and
  have some, so the script fills the field and makes such weights float.

Samples: MNIST's 10,000 test digits (learnt from among the first 6,000, held are of the last 2,000), recorded gestures
(learnt from those that the model was trained with, held are the 25 others, begun at several moments), random crops of
real pictures (to learn from: test data of google-ai-edge/mediapipe; held: test data of opencv/opencv_extra, of every
folder the first, the middle and the last picture by name, of 15 kB to 4 MB and at least 96 pixels wide and high: 283
pictures in an order drawn once), one-second windows of one published recording of speech (mlcommons/tiny; held windows
begin elsewhere in it), and mixtures of 40 published feature vectors of a machine's sound (held: of the last ten).
Pictures, speech and sound are not what the models were trained on: figures compare quantisers, they are no
accuracies."""
OLDER = """\\* Measured on 2026-11-16, before onnxruntime's percentile was a rival and before differences were drawn;
the float files were not fetched again."""
CLOSING = """
What this table found: `age` (SSR-Net) has tensors that are zero whatever the picture shows. Their scale was the
smallest that there is, the biases of the layers behind them did not fit 32 bits in units of it and were cut off:
12.7 dB where onnxruntime had 26.3. Scales of weights leave every bias room now. onnxruntime's percentile fails on such
tensors.

Of the others none is worse by more than chance. text_angle gets pictures that are mostly no text, and few of them are
most of its signal; no step of ours was kept there, and its figure is that of the plain ranges. On yunet the rounding
that was learnt from the pictures of one repository gained 0.4 to 1.3 dB on others of it, and nothing on those of
another.

Stand-ins: an earlier look had named five models. mobilenet_v2_half is the very file; digits_cnn, wand and yunet are
other public files of the same kind (the named ones could not be found). A MobileNetV3 for digits, which had to be
trained, is missing.

Among the older rows segmentation loses 0.8 dB to the whole range (it finds text; of the held pictures one had some, and
120 of its pixels are the whole signal), ssd is level, and yolox_nano pays 15 % of cycles for 1.2 dB: outputs of unlike
range keep scales of their own and are joined in float by the CPU."""
