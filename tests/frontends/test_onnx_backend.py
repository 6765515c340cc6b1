"""Part of ONNX's own suite on every change; benchmarks/onnx_backend.py runs all of it."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import onnx_backend

FAMILIES = (  # not the pools, whose cases take the suite seconds to make
    "argmax", "causal_conv_with_state", "ceil", "celu", "clip", "concat", "constant", "convtranspose", "cumsum",
    "depthtospace", "dropout", "einsum", "gather", "gatherelements", "gemm", "hardmax", "identity",
    "instance_normalization", "isinf", "lpnormalization", "matmul", "mean", "mod", "pad", "pow", "reducel2",
    "rmsnormalization", "rotaryembedding", "selu", "shrink", "slice", "softmax", "spacetodepth", "split", "swiglu",
    "swish", "topk", "trilu", "where", "xor",
)  # fmt: skip


@pytest.fixture(scope="module")
def outcomes() -> list[onnx_backend.Outcome]:
    pytest.importorskip("onnx.backend.test.case.node")
    return [onnx_backend.judge(case) for case in onnx_backend.cases(FAMILIES)]


@pytest.mark.parametrize("expanded", ["", "_expanded"])
def test_attention(expanded: str) -> None:
    """Masks, heads that share keys, caches, what it may tell on the way, rows without any key."""
    names = (
        "3d_gqa", "4d_softcap", "4d_attn_mask_3d_causal", "4d_diff_heads_with_past_and_present_mask4d",
        "3d_with_past_and_present_qk_matmul_softcap", "4d_diff_heads_mask4d_padded_kv", "local_window_with_past",
        "24_fullymasked_qk_matmul_output_mode3_zero", "local_window_ext_cache_rank3_head_mask",
    )  # fmt: skip
    cases = {case.name: case for case in onnx_backend.cases(("attention",))}
    found = [onnx_backend.judge(cases[f"test_attention_{name}{expanded}"]) for name in names]
    assert [outcome for outcome in found if outcome.outcome != "right"] == []


def test_every_case_is_right_or_refused(outcomes: list[onnx_backend.Outcome]) -> None:
    assert [outcome for outcome in outcomes if outcome.outcome not in ("right", "refused")] == []


def test_most_cases_are_right(outcomes: list[onnx_backend.Outcome]) -> None:
    counts = Counter(outcome.outcome for outcome in outcomes)
    assert counts["right"] >= 235, counts


def test_refusals_say_what_is_not_supported(outcomes: list[onnx_backend.Outcome]) -> None:
    reasons = {onnx_backend.reason(outcome.detail) for outcome in outcomes if outcome.outcome == "refused"}
    assert "TopK is not supported" in reasons
    assert all(len(reason.split()) > 2 for reason in reasons)


def test_a_wrong_value_is_seen() -> None:
    """The judge itself: a case whose expected output is changed."""
    case = next(case for case in onnx_backend.cases(("abs",)) if case.name == "test_abs")
    (inputs, outputs), *_ = case.data_sets
    wrong = type(case)(**{**case.__dict__, "data_sets": [(inputs, [outputs[0] + 0.01])]})
    assert onnx_backend.judge(case).outcome == "right"
    assert onnx_backend.judge(wrong).outcome == "wrong"
