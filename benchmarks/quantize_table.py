"""The page of benchmarks/quantize.py: figures of every quantiser, and what they do not say by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

OTHERS = {"ort_minmax": "onnxruntime min-max", "ort_entropy": "onnxruntime entropy", "ai_edge": "ai-edge-quantizer"}


def table(rows: dict[str, Any], models: Mapping[str, Any]) -> str:
    names = [key for key in models if key in rows]
    better = sum(_best(rows[key], "snr_db", max) <= rows[key]["atonc"]["snr_db"] for key in names)
    faster = sum(_best(rows[key], "cycles", min) >= rows[key]["atonc"]["cycles"] for key in names)
    missing = [key for key in models if key not in rows]
    heads = ["model", "atonc", *OTHERS.values()]
    counted = (f"Signal to noise at least as good as the best other one on {better} of {len(names)} models, cycles at "
               f"most those of the least other one on {faster} of {len(names)}.")  # fmt: skip
    lines = [*INTRODUCTION.splitlines(), "", counted]
    if missing:
        lines.append(f"Not measured for want of processor time: {', '.join(missing)}.")
    lines += ["", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for key in names:
        cells = [_cell(rows[key].get(label)) for label in ("atonc", *OTHERS)]
        lines.append(f"| {key} | {' | '.join(cells)} |")
    lines += ["", "| model | what | published in |", "|---|---|---|"]
    lines += [f"| {key} | {model.what} | {model.origin} |" for key, model in models.items()]
    return "\n".join([*lines, *CLOSING.splitlines(), ""])


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

Written by `benchmarks/quantize.py` (2026-11-16, 2-core aarch64 Linux). Each quantiser gets the same 100 samples and its
default settings (int8 activations, int8 weights by channel). Each cell: mean signal to noise of the outputs against
float on held samples, and cycles that this compiler predicts for the quantised model with float inputs and outputs
(float parts run on the CPU). All cells of a row are of one compiler, rows are of two commits of the same day: the newer
one counts 62.5 cycles more for every value of a float input (mobilenet_v1, keyword, anomaly).

- Held samples: 128 where the input has fewer than 50,000 values, else 32. Nothing was chosen by them; while the
  quantiser was worked on, a third set of samples judged.
- onnxruntime gets the model with BatchNorm folded. Its entropy calibration has 128 bins for 128 codes, so that the
  whole range is its only choice: it equals min-max by construction. For large inputs it was left out: it keeps every
  value of every sample in memory.
- ai-edge-quantizer 0.10 takes TFLite only, so it has no figure for ONNX models. It reads the newer of two operator
  fields alone and leaves int8 weights as they are; the published files are older and have some, so the script fills the
  field and makes such weights float. Its ranges are a moving average of the samples' extremes, which clips where
  samples differ in loudness, as those of keyword do. Of mobilenet_v1 it makes a bias of 2^31:
  TFLite's sums overflow, and this compiler refuses the file.

Samples: random crops of real pictures (to learn from: test data of google-ai-edge/mediapipe; held: test pictures of
DefTruth/lite.ai.toolkit), one-second windows of one published recording of speech (mlcommons/tiny; held windows begin
elsewhere in it), and mixtures of 40 published feature vectors of a machine's sound (held: of the last ten). They are
not the data that the models were trained on: figures compare quantisers, they are no accuracies."""
CLOSING = """
Segmentation loses on the held pictures; on the set that was worked with it is 17.27 against 15.06 dB. Why was not
looked into: changing anything by the held samples would spoil them. The cycles of mobilenet_v1 and mobilenet_v2 are
0.1 % above onnxruntime's: there one layer runs in one epoch more. The rows of the older commit were measured before
bounds of 36 and uncut weights were among what is tried.

What could not be had: YOLOv8n (its float file is larger than what the store of public repositories keeps; YOLOX-nano
has the same SiLU and split heads), a body pose model (face key points instead), a person segmentation (text
segmentation instead)."""
