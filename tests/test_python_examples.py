"""Every public function and object of `import atonc` has an example that works, and prints as one line."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atonc
from atonc.doors.python.compilation import Compilation
from atonc.doors.python.results import ValidationResult
from atonc.machine.base.errors import InputError

ROOT = Path(__file__).parent.parent
MODEL, DATA = ROOT / "examples" / "digits" / "digits.tflite", ROOT / "examples" / "digits" / "test.npz"
VERBS = [name for name in atonc.__all__ if inspect.isfunction(getattr(atonc, name))]
OBJECTS: list[Any] = [*(getattr(atonc, name) for name in VERBS), Compilation, Compilation.stream, ValidationResult]


@pytest.fixture
def in_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Examples are beside the reader, and what is written is not."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("one", OBJECTS, ids=lambda one: one.__name__)
@pytest.mark.usefixtures("in_checkout")
def test_its_example_works(one: Any) -> None:
    finder = doctest.DocTestFinder(recurse=False)
    (found,) = finder.find(one, one.__name__, globs={"atonc": atonc})
    assert found.examples, "a docstring has an example"
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found)
    assert not failed


@pytest.fixture(scope="module")
def digits() -> Compilation:
    return atonc.compile(MODEL)


def test_all_that_users_meet_is_one_line(digits: Compilation, tmp_path: Path) -> None:
    digits.save(tmp_path / "build")
    checked = digits.verification
    assert checked is not None
    met: list[Any] = [digits, digits.view, digits.compiled, digits.network, digits.layers, digits.layers[0]]
    met += [digits.memory, digits.energy, digits.band, digits.inputs[0], checked, checked.checks[0], digits.program]
    met += [digits.graph, digits.source, digits.mapped, digits.layout, digits.network.steps[0]]
    met += [digits.layers[-1].decisions[0], atonc.load(tmp_path / "build"), atonc.load(tmp_path / "build").inputs[0]]
    met += [atonc.validate(digits, io_only=True, batches=1), atonc.compare(digits, digits), atonc.explain(digits)]
    met += [atonc.describe_board(), atonc.explain_accuracy(digits, samples=1, remedies=False)]
    met += [atonc.application([MODEL])]
    wrong = {type(one).__name__: repr(one)[:300] for one in met if len(repr(one)) > 200 or not repr(one).isprintable()}
    assert not wrong
    assert "CONV_2D_0" in repr(digits.layers[0]) and "ms" in repr(digits.layers[0])


def test_a_compilation_is_taken_wherever_a_model_is(digits: Compilation, tmp_path: Path) -> None:
    from atonc.insight.validating import validating

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validating, "compile_file", lambda *_: pytest.fail("it is compiled already"))
        assert atonc.validate(digits, batches=1, io_only=True).passed
    assert [layer.name for layer in atonc.explain(digits).layers] == [layer.name for layer in digits.layers]
    image = {"image": np.load(DATA)["image"][0]}
    digits.save(tmp_path / "build")
    assert np.array_equal(
        atonc.run(digits, image)["probabilities"].ravel(), atonc.run(tmp_path / "build", image)["probabilities"].ravel()
    )
    assert atonc.evaluate(digits, DATA, limit=2, output=tmp_path / "e").sides["NPU"][0].value == 1.0
    for verb in (atonc.explain, atonc.validate):
        with pytest.raises(InputError, match="compiled already"):
            verb(digits, **({"compiler": {"prefer": "memory"}} if verb is atonc.validate else {"prefer": "memory"}))


def test_models_in_memory_are_validated_too() -> None:
    assert atonc.validate(atonc.compile(MODEL.read_bytes(), verify=False), batches=1, io_only=True).passed


def test_a_model_that_changed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.tflite"
    file.write_bytes(MODEL.read_bytes())
    made = atonc.compile(file, verify=False)
    file.write_bytes((MODEL.parent / "digits.onnx").read_bytes())
    with pytest.raises(InputError, match="not the model that was compiled"):
        atonc.validate(made)


@pytest.mark.parametrize(("value", "some"), [(True, True), ("all", True), (False, False)])
def test_a_flag_that_may_stand_alone_is_true(value: Any, some: bool) -> None:
    assert (atonc.compile(MODEL, resident=value, verify=False).memory.resident_bytes > 0) == some


def test_a_list_is_no_sweep() -> None:
    with pytest.raises(InputError, match=r"(?s)a sweep is a .toml file, not of type list.*models = "):
        atonc.sweep([MODEL])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a folder is named by its path"):
        atonc.load(atonc.compile(MODEL, verify=False))  # type: ignore[arg-type]


def test_results_have_their_document(digits: Compilation) -> None:
    found = atonc.validate(digits, batches=1, io_only=True)
    for document in (digits.document, found.document):
        assert document.data is not None and document.data() and document.sections
