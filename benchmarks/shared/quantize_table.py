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
    better = sum(_best(rows[key], "snr_db", max) <= rows[key]["atonc"]["snr_db"] for key in names)
    faster = sum(_best(rows[key], "cycles", min) >= rows[key]["atonc"]["cycles"] for key in names)
    missing = [key for key in models if key not in rows]
    heads = ["model", "atonc", *OTHERS.values()]
    counted = (f"Signal to noise at least as good as the best other one on {better} of {len(names)} models, cycles at "
               f"most those of the least other one on {faster} of {len(names)}.")  # fmt: skip
    lines = [*INTRODUCTION.splitlines(), "", counted]
    if missing:
        lines.append(f"Not measured for want of processor time: {', '.join(missing)}.")
    lines += ["", tables.row(heads), "|---" * len(heads) + "|"]
    for key in names:
        cells = [_cell(rows[key].get(label)) for label in ("atonc", *OTHERS)]
        lines.append(f"| {key}{' *' if rows[key].get('made_before') else ''} | {' | '.join(cells)} |")
    if any(rows[key].get("made_before") for key in names):
        lines += ["", *OLDER.splitlines()]
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

Each quantiser gets the same 100 samples and its
default settings (int8 activations, int8 weights by channel). Each cell: mean signal to noise of the outputs against
float on held samples, and cycles that this compiler predicts for the quantised model with float inputs and outputs
(float parts run on the CPU). All cells of a row are of one state of the compiler and the quantiser; mobilenet_v1 and
v2, pose, keyword and anomaly were measured some hours before the others (the quantiser chooses as it did then).

- Held samples: 128 where the input has fewer than 50,000 values, else 32. Nothing was chosen by them: they were drawn
  anew for this table, since those of the table before had been looked at. While the quantiser was worked on, a third
  set judged, and pictures of other repositories (alibaba/MNN, STMicroelectronics/stm32ai-modelzoo-services, and what
  was held before), unlike those to learn from.
- onnxruntime gets the model with BatchNorm folded. Its entropy calibration has 128 bins for 128 codes, so that the
  whole range is its only choice: it equals min-max by construction. For large inputs it was left out: it keeps every
  value of every sample in memory.
- ai-edge-quantizer 0.10 takes TFLite only, so it has no figure for ONNX models. It reads the newer of two operator
  fields alone and leaves int8 weights as they are; the published files are older and have some, so the script fills the
  field and makes such weights float. Its ranges are a moving average of the samples' extremes, which clips where
  samples differ in loudness, as those of keyword do. Of mobilenet_v1 it makes a bias of 2^31:
  TFLite's sums overflow, and this compiler refuses the file.

Samples: random crops of real pictures (to learn from: test data of google-ai-edge/mediapipe; held: test data of
opencv/opencv_extra, of every folder the first, the middle and the last picture by name, of 15 kB to 4 MB and at least
96 pixels wide and high: 283 pictures in an order drawn once), one-second windows of one published recording of speech
(mlcommons/tiny; held windows begin elsewhere in it), and mixtures of 40 published feature vectors of a machine's sound
(held: of the last ten). They are not the data that the models were trained on: figures compare quantisers, they are no
accuracies."""
OLDER = """\\* Quantised by an older commit (before ranges had to earn a cut and scales were bounded layer by layer),
judged and compiled anew: processor time did not allow more."""
CLOSING = """
In the table before this one segmentation lost on the held pictures. It finds text; of those pictures one had some, and
120 of its pixels were the whole signal, so that each way to quantise gave another verdict (-5 to 9 dB). Pictures of
other repositories with text showed what was behind it: ranges cut by more than a quarter cost 3 dB there and gained
nothing on the samples that judge. Such ranges must earn it now, which brought 1.8 dB on the held pictures of this table
(9.24 dB before); it still loses 0.8 dB to the whole range there, and wins on the third set (17.30 against 15.06).

ssd is as good as onnxruntime's, not better: 0.03 dB is chance. Its cycles are 0.7 % above. yolox_nano pays 15 % of
cycles for 1.2 dB: outputs of unlike range keep scales of their own and are joined in float by the CPU.

The cycles of mobilenet_v1 and mobilenet_v2 were 0.1 % above onnxruntime's: one layer ran in one epoch more, because its
channels had scales too far apart for one shift. Scales are now bounded in those layers alone that become faster by it.

What could not be had: YOLOv8n (its float file is larger than what the store of public repositories keeps; YOLOX-nano
has the same SiLU and joined heads), a body pose model (face key points instead), a person segmentation (text
segmentation instead)."""
