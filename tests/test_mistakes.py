"""More than 60 mistakes on the command line: each gets a short error that names the file or option, and the fix;
the right exit code; no traceback."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from atonc.doors.cli.cli import main
from tests.errors_said import readable
from tests.patience import no_hang

ROOT = Path(__file__).resolve().parent.parent
DIGITS = ROOT / "examples" / "digits"
WRONG, LARGE, LACKING = 2, 3, 4

# words; what the error says: the place first, then cause or fix. {} is the folder of the bad files
MISTAKES = (
    # verbs and options
    ("generat digits.tflite", "there is no verb 'generat'", "did you mean generate"),
    ("frobnicate", "there is no verb 'frobnicate'", "the verbs are generate"),
    ("analyze digits.tflite --no-verfy", "has no option --no-verfy", "did you mean --no-verify"),
    ("analyze digits.tflite --zzzz", "has no option --zzzz", "atonc analyze --help"),
    ("analyze digits.tflite extra", "'extra' is one word too many", "atonc analyze --help"),
    ("analyze digits.tflite --prefer sped", "--prefer", "'speed', 'memory'"),
    ("analyze digits.tflite --numerics 3.x", "--numerics", "2.x"),
    ("analyze digits.tflite --silicon maybe", "--silicon", "'seen', 'composed'"),
    ("analyze digits.tflite --max-latency soon", "--max-latency: 'soon' is not a number above zero", ""),
    ("analyze digits.tflite --npu-mhz fast", "--npu-mhz: 'fast' is not a number above zero", ""),
    ("analyze digits.tflite --npu-mhz -3", "--npu-mhz: '-3' is not a number above zero", ""),
    ("analyze digits.tflite --max-energy nan", "--max-energy: 'nan' is not a number above zero", ""),
    ("analyze digits.tflite --max-energy 0", "--max-energy: '0' is not a number above zero", ""),
    ("analyze digits.tflite --max-latency -1", "--max-latency: '-1' is not a number above zero", ""),
    ("analyze digits.tflite --max-latency inf", "--max-latency: 'inf' is not a number above zero", ""),
    ("analyze digits.tflite --seed -4", "--seed: '-4' is not a whole number from 0 on", ""),
    ("run out --seed -4", "--seed: '-4' is not a whole number from 0 on", ""),
    ("validate digits.tflite --range nan 3", "'nan 3' are no ranges", "--range MIN MAX"),
    ("validate digits.tflite --min-cos nan", "--min-cos: 'nan' is not a number from 0 to 1", ""),
    ("compare {}/list.json digits.tflite", "is a document", "--against"),
    ("recordings check digits.tflite", "is no recording: no .npz", "--record"),
    ("compare out out --max-ratio 0", "--max-ratio: '0' is not a number above zero", ""),
    ("compare out out --min-cosine nan", "--min-cosine: 'nan' is not a number from 0 to 1", ""),
    ("compare out --against out.json --allow-worse nan", "--allow-worse: 'nan' is not a number above zero", ""),
    ("analyze digits.tflite --max-ram lots", "--max-ram: 'lots' is not a size", "640k"),
    ("analyze digits.tflite --seed x", "--seed: 'x' is not a whole number", ""),
    ("analyze digits.tflite --schedule-without lane", "no pass 'lane'", "did you mean lanes?"),
    ("analyze digits.tflite --schedule-with tabels", "no pass 'tabels'", "did you mean tables?"),
    ("analyze digits.tflite --distrust S99", "no argument 'S99'", "docs/silicon.md"),
    ("analyze digits.tflite --silicon seen --schedule-with prefetch", "prefetch makes epochs", "leave out"),
    ("analyze digits.tflite --stop-after lower", "--stop-after needs --dump", "name a folder"),
    ("analyze digits.tflite --input-memory-alignment 7", "alignment of 7 bytes", "32 bytes"),
    ("analyze digits.tflite --custom x.json", "x.json: there is no such file", "look at the name"),
    ("analyze digits.tflite --type onnx", "digits.tflite: is tflite, not onnx", "leave --type out"),
    ("analyze digits.tflite --type keras", "Keras models are not read", "export the model as TFLite"),
    ("analyze digits.tflite -m digits.onnx", "two models given", "name one"),
    ("analyze -m digits.tflite -m digits.onnx", "-m digits.onnx, and before digits.tflite", "-m is given once"),
    ("analyze digits.tflite --verbosity 9", "--verbosity 9", "levels are 0, 1, 2, 3"),
    ("analyze -v 7 digits.tflite", "-v 7", "levels are 0, 1, 2, 3"),
    ("analyze digits.tflite --st-neural-art {}/options_number.json", "options is '3', not a text", ""),
    ("generate digits.tflite -n ll_aton --no-verify", "includes another ll_aton.h", "another name"),
    ("view digits.tflite --port 99999999", "--port: '99999999' is no port", "from 0 to 65535"),
    ("serve --port -1", "--port: '-1' is no port", "from 0 to 65535"),
    ("generate digits.tflite -n string", "'string' cannot be a name", "such as string_net"),
    ("generate digits.tflite -n int", "'int' cannot be a name", "such as int_net"),
    ("generate digits.tflite -n Main", "'Main' cannot be a name", "such as Main_net"),
    ("generate digits.tflite -n _Bool", "'_Bool' cannot be a name", "such as Bool_net"),
    ("generate digits.tflite -n static", "'static' cannot be a name", "such as static_net"),
    ("generate digits.tflite -n namespace", "'namespace' cannot be a name", "such as namespace_net"),
    ("generate digits.tflite -n __x", "'__x' cannot be a name", "such as x_net"),
    ("generate digits.tflite -n NULL", "'NULL' cannot be a name", "such as NULL_net"),
    ("generate digits.tflite -n EOF", "'EOF' cannot be a name", "such as EOF_net"),
    ("generate digits.tflite -n INT8_MAX", "'INT8_MAX' cannot be a name", "such as INT8_MAX_net"),
    ("generate digits.tflite -n stm32n6xx_hal", "'stm32n6xx_hal' cannot be a name", "such as net_stm32n6xx_hal"),
    ("generate digits.tflite -o=", "-o: the path is empty", "write . for the folder"),
    ("validate digits.tflite -b -1", "-b: '-1' is not a whole number", ""),
    ("validate digits.tflite --batch-size=-1", "--batch-size: '-1' is not a whole number", ""),
    ("validate bad", "bad: no network that was built", "name the model"),
    ("analyze", "no model given", "name a .tflite or .onnx file"),
    ("quantize digits.onnx --data {} --wide -3%", "--wide: '-3%' is no error", "above 0 and at most 100"),
    ("quantize digits.onnx --data {} --max-flash -5k", "--max-flash: '-5k' is not a size", "write bytes, or 640k"),
    # names inside a model
    ("analyze digits.tflite --cut-output-tensors zzz", "digits.tflite, --cut-output-tensors", "there are 'image'"),
    ("analyze digits.tflite --cut-output-tensors poool", "no tensor 'poool'", "did you mean 'pool'"),
    ("analyze digits.onnx --cut-input-tensors zzz", "digits.onnx: the model has no tensor 'zzz'", "there are 'image"),
    ("analyze digits.tflite --cut-input-layers zzz", "no tensor 'zzz'", "there are 'image'"),
    ("analyze digits.tflite --on cpu zzz", "--on: the model has no node 'zzz'", "there are 'CONV_2D_0'"),
    ("analyze digits.tflite --on gpu CONV_2D_0", "'gpu' is no place to run", "--on cpu CONV_2D_0"),
    ("analyze digits.tflite --on npu SOFTMAX_7", "SOFTMAX_7: softmax cannot run on the NPU", "leave out --on npu"),
    ("explain digits.tflite --layer zzz --no-prices", "no layer is called 'zzz'", "there are 'CONV_2D_0'"),
    ("explain digits.tflite --node CONV_2D_9 --no-prices", "no layer is called 'CONV_2D_9'", "did you mean 'CONV_2D_"),
    ("ops Connv", "no operator is called 'Connv'", "did you mean 'conv'"),
    ("ops zzzz", "no operator is called 'zzzz'", "there are"),
    # files
    ("analyze absent.tflite", "absent.tflite: there is no such file", "look at the name"),
    ("analyze digit.tflite", "digit.tflite: there is no such file", "did you mean digits.tflite?"),
    ("analyze models/digits.tflite", "models/digits.tflite: there is no such file, nor its folder", "look at the path"),
    ("analyze {}/empty.onnx", "empty.onnx: not an ONNX file", "export or fetch it again"),
    ("analyze {}/empty.tflite", "empty.tflite", "export or fetch it again"),
    ("analyze {}/cut.tflite", "cut.tflite", "cut or damaged"),
    ("analyze {}/cut.onnx", "cut.onnx: not an ONNX file", "export or fetch it again"),
    ("analyze {}/pointer.tflite", "pointer.tflite: is a pointer of git-lfs", "git lfs pull"),
    ("analyze {}/pointer.onnx", "pointer.onnx: is a pointer of git-lfs", "git lfs pull"),
    ("analyze {}/model.h5", "model.h5", "Keras"),
    ("analyze {}", "not a file", ""),
    ("analyze digits.tflite --calibration absent.npz", "absent.npz: there is no such file", ""),
    ("analyze digits.tflite --calibration {}/words.npz", "words.npz", ""),
    ("analyze digits.tflite --mpool {}/list.json", "atonc: bad/list.json: does not hold an object", ""),
    ("analyze digits.tflite --board moon", "'moon'", "stm32n6570-dk"),
    ("analyze digits.tflite --board {}/bad.toml", "bad.toml", ""),
    ("analyze digits.tflite --st-neural-art x@{}/list.json", "list.json", ""),
    ("analyze digits.tflite --decisions {}/list.json", "list.json", ""),
    ("analyze digits.tflite --evidence {}/list.json", "list.json", ""),
    ("generate digits.tflite -o {}/empty.onnx", "empty.onnx: is not a folder", "name a folder with -o"),
    ("generate digits.tflite -o {}/out -n 1bad", "'1bad'", ""),
    ("generate digits.tflite -o {}/out --trace {}/no/t.json", "t.json: cannot be written", "make it first"),
    ("analyze digits.tflite --junit {}/no/j.xml", "j.xml: cannot be written", "make it first"),
    ("validate digits.tflite --input {}/words.npz", "words.npz", ""),
    ("validate digits.tflite --input absent.npy", "absent.npy: there is no such file", ""),
    ("validate digits.tflite --input {}/small.npy", "small.npy: shape (3,) does not hold inputs of shape", ""),
    ("validate digits.tflite --mode moon", "--mode", "'emulator'"),
    ("validate digits.tflite --mode target -d carrier:pigeon", "carrier", ""),
    ("evaluate digits.tflite --data absent", "absent", ""),
    ("evaluate digits.tflite --data {} --metric best", "no metric 'best'", "metrics are auto"),
    ("quantize digits.onnx --data {}/small.npy -o x.tflite", "x.tflite does not end in .onnx", "ONNX file"),
    ("quantize absent.onnx --data {}", "absent.onnx: there is no such file", ""),
    ("run absent", "absent: there is no such folder", "look at the name"),
    ("run {}", "no compiled network", ""),
    ("explain {}", "no compiled network", ""),
    ("compare digits.tflite", "one build alone", "--against BASELINE.json"),
    ("compare absent digits.tflite", "absent: there is no such file or folder", ""),
    ("compare absent app.toml", "absent: there is no such file or folder", ""),
    ("compare digits.tflite --against {}/list.json", "list.json: has no format number", "atonc analyze MODEL --json"),
    ("compare digits.tflite digits.tflite --against {}/list.json", "two builds and a baseline", "name one build"),
    ("disasm absent.h", "absent.h: there is no such file", ""),
    ("disasm digits.tflite", "digits.tflite", ""),
    ("view absent", "absent", ""),
    ("sweep absent.toml", "absent.toml: there is no such file", ""),
    ("sweep {}/bad.toml", "bad.toml", ""),
    ("reloc absent", "absent", ""),
    ("load-and-run absent.bin", "absent.bin", ""),
    ("deploy absent.yaml", "absent.yaml", ""),
    ("doctor --for cooking", "'cooking' is no step", "steps: compile"),
    ("board show moon", "'moon'", "stm32n6570-dk"),
    ("board", "atonc board", "--help"),
    ("probe zzzz", "no probe is called 'zzzz'", "there are"),
    ("completion powershell", "completion", "--help"),
)
EXIT_CODES = {"analyze {}/large.tflite": LARGE}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two good models and, in `bad`, files of all kinds that are not what their names say."""
    import numpy as np

    folder = tmp_path_factory.mktemp("mistakes")
    for name in ("digits.tflite", "digits.onnx"):
        shutil.copy(DIGITS / name, folder / name)
    bad = folder / "bad"
    bad.mkdir()
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n"
    files = {"empty.onnx": b"", "empty.tflite": b"", "list.json": b"[1, 2", "bad.toml": b"name = [", "model.h5": b"x"}
    files |= {"pointer.tflite": pointer, "pointer.onnx": pointer}
    files |= {f"cut{suffix}": (DIGITS / f"digits{suffix}").read_bytes()[:1500] for suffix in (".tflite", ".onnx")}
    for name, content in files.items():
        (bad / name).write_bytes(content)
    (bad / "list.json").write_text(json.dumps([1, 2]))
    (bad / "options_number.json").write_text(json.dumps({"Profiles": {"default": {"options": 3}}}))
    np.savez(bad / "words.npz", image=np.array(["a", "b"]))
    np.save(bad / "small.npy", np.zeros(3, np.float32))
    return folder


def test_there_are_sixty() -> None:
    assert len({words for words, *_ in MISTAKES}) == len(MISTAKES) >= 60


@pytest.mark.parametrize(("words", "names", "says"), MISTAKES, ids=[words for words, *_ in MISTAKES])
def test_a_mistake_gets_an_error_with_a_fix(
    words: str, names: str, says: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("ATONC_TRACEBACK", "1")
    with no_hang():
        code = main([word.replace("{}", "bad") for word in words.split()])
    shown = capsys.readouterr()
    said = readable(shown.err)
    assert code == WRONG, said
    assert "Traceback" not in said and "atonc itself failed" not in said
    assert names in said and says in said and said.isascii(), said
    assert not shown.out, "nothing is said as if it had worked"
