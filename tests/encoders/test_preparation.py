"""Images to pixels, as the image processors of Hugging Face do it, and reading what models say of theirs."""

import io
import json
import math
import pickle
import re

import numpy as np
import pytest
import transformers
from PIL import Image

from newkinds import InputError
from newkinds.data.opening import MOST_PIXELS
from newkinds.encoders import ImagePreparation
from newkinds.encoders.preparation import PUBLISHED

SHAPES = [(48, 64), (64, 48), (7, 5), (36, 36), (32, 32), (90, 31), (37, 36), (33, 1), (1, 1), (31, 100)]
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073]
CLIP_STD = [0.26862954, 0.26130258, 0.27577711]


def picture(shape: tuple[int, int]) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, 256, size=(*shape, 3)).astype(np.uint8)


def processor(name: str, config: dict):
    """The processor of transformers that works with Pillow; older versions have no other."""
    kind = getattr(transformers, f"{name}Pil", None) or getattr(transformers, name)
    return kind(**{key: value for key, value in config.items() if not key.endswith("_type")})


def plain_means(config: dict) -> dict:
    return {**config, "image_mean": MEAN, "image_std": STD}


def assert_same(name: str, config: dict, shape: tuple[int, int]) -> None:
    pixels = picture(shape)
    theirs = processor(name, config)(images=Image.fromarray(pixels), return_tensors="np")["pixel_values"]
    ours = ImagePreparation.from_config(config)
    prepared = ours(pixels)
    assert prepared.dtype == np.uint8
    assert prepared.shape == (*ours.size, 3)
    assert np.abs(ours.scaled(prepared[None]) - theirs).max() < 1e-5


# The same as transformers


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("resample", [0, 1, 2, 3])
def test_the_same_as_vit(shape, resample):
    assert_same(
        "ViTImageProcessor", plain_means({"size": {"height": 32, "width": 32}, "resample": resample}), shape
    )


def test_the_same_as_vit_for_an_oblong_size():
    assert_same("ViTImageProcessor", plain_means({"size": {"height": 24, "width": 40}}), (50, 70))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("edge", [36, 33])
def test_the_same_as_bit_of_dinov2(shape, edge):
    config = {
        "do_center_crop": True,
        "crop_size": {"height": 32, "width": 32},
        "size": {"shortest_edge": edge},
        "resample": 3,
        "image_mean": MEAN,
        "image_std": STD,
    }
    assert_same("BitImageProcessor", config, shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_as_clip(shape):
    config = {
        "do_center_crop": True,
        "crop_size": {"height": 32, "width": 32},
        "size": {"shortest_edge": 32},
        "resample": 3,
        "image_mean": CLIP_MEAN,
        "image_std": CLIP_STD,
    }
    assert_same("CLIPImageProcessor", config, shape)


@pytest.mark.parametrize("shape", [(48, 64), (20, 31), (90, 31)])
@pytest.mark.parametrize("edge", [20, 21, 25])
def test_the_same_where_the_crop_is_larger_than_what_was_resized(shape, edge):
    config = {"do_center_crop": True, "crop_size": 32, "size": {"shortest_edge": edge}, "resample": 3}
    assert_same("BitImageProcessor", {**config, "image_mean": MEAN, "image_std": STD}, shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_as_convnext(shape):
    config = {"size": {"shortest_edge": 32}, "crop_pct": 0.875, "resample": 3}
    assert_same("ConvNextImageProcessor", plain_means(config), shape)


@pytest.mark.parametrize("shape", [(400, 500), (500, 400)])
def test_the_same_as_convnext_of_384_pixels_which_does_not_crop(shape):
    config = {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 384}, "crop_pct": 0.875}
    assert_same("ConvNextImageProcessor", plain_means({**config, "resample": 3}), shape)


@pytest.mark.parametrize("shape", [(48, 64), (64, 48)])
def test_the_same_as_convnext_whose_size_is_a_number(shape):
    """As microsoft/resnet-50 and facebook/convnext-tiny-224 were published."""
    config = {"feature_extractor_type": "ConvNextFeatureExtractor", "size": 224, "crop_pct": 0.875, "resample": 3}
    assert_same("ConvNextImageProcessor", plain_means({**config, "do_resize": True, "do_normalize": True}), shape)


def test_the_same_without_normalisation():
    config = {"size": {"height": 8, "width": 8}, "do_normalize": False}
    assert_same("ViTImageProcessor", config, (20, 30))


# What published models say


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(
            {
                "do_normalize": True,
                "do_resize": True,
                "feature_extractor_type": "ViTFeatureExtractor",
                "image_mean": MEAN,
                "image_std": STD,
                "resample": 3,
                "size": 224,
            },
            ImagePreparation((224, 224), (224, 224), 3, tuple(MEAN), tuple(STD)),
            id="facebook/dino-vitb16",
        ),
        pytest.param(
            {
                "crop_size": {"height": 224, "width": 224},
                "do_center_crop": True,
                "do_convert_rgb": True,
                "do_normalize": True,
                "do_rescale": True,
                "do_resize": True,
                "image_mean": MEAN,
                "image_processor_type": "BitImageProcessor",
                "image_std": STD,
                "resample": 3,
                "rescale_factor": 0.00392156862745098,
                "size": {"shortest_edge": 256},
            },
            ImagePreparation((224, 224), 256, 3, tuple(MEAN), tuple(STD)),
            id="facebook/dinov2-small",
        ),
        pytest.param(
            {
                "crop_size": 224,
                "do_center_crop": True,
                "do_normalize": True,
                "do_resize": True,
                "feature_extractor_type": "CLIPFeatureExtractor",
                "image_mean": CLIP_MEAN,
                "image_std": CLIP_STD,
                "resample": 3,
                "size": 224,
            },
            ImagePreparation((224, 224), 224, 3, tuple(CLIP_MEAN), tuple(CLIP_STD)),
            id="openai/clip-vit-base-patch32",
        ),
        pytest.param(
            {
                "crop_pct": 0.875,
                "do_normalize": True,
                "do_rescale": True,
                "do_resize": True,
                "image_mean": MEAN,
                "image_processor_type": "ConvNextImageProcessor",
                "image_std": STD,
                "resample": 3,
                "rescale_factor": 0.00392156862745098,
                "size": {"shortest_edge": 224},
            },
            ImagePreparation((224, 224), 256, 3, tuple(MEAN), tuple(STD)),
            id="facebook/convnextv2-tiny-1k-224",
        ),
        pytest.param(
            {
                "do_normalize": True,
                "do_rescale": True,
                "do_resize": True,
                "image_mean": [0.5, 0.5, 0.5],
                "image_processor_type": "SiglipImageProcessor",
                "image_std": [0.5, 0.5, 0.5],
                "processor_class": "SiglipProcessor",
                "resample": 3,
                "rescale_factor": 0.00392156862745098,
                "size": {"height": 224, "width": 224},
            },
            ImagePreparation((224, 224), (224, 224), 3, (0.5,) * 3, (0.5,) * 3),
            id="google/siglip-base-patch16-224",
        ),
    ],
)
def test_a_published_configuration(config, expected):
    assert ImagePreparation.from_config(config) == expected


# Files


def test_a_photo_in_a_file_is_prepared_as_its_pixels_are(tmp_path):
    pixels = picture((50, 70))
    Image.fromarray(pixels).save(tmp_path / "a.png")
    prepare = ImagePreparation((16, 16), 20)
    assert np.array_equal(prepare(tmp_path / "a.png"), prepare(pixels))


def test_a_large_jpeg_that_is_decoded_reduced_is_prepared_nearly_as_in_full(tmp_path):
    y, x = np.mgrid[0:1200, 0:1600]
    pixels = np.stack([x / 1600 * 255, y / 1200 * 255, 127 + 120 * np.sin(x / 40)], axis=2).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.jpg", quality=95)
    prepare = ImagePreparation((48, 48), 56)
    with Image.open(tmp_path / "a.jpg") as file:
        in_full = np.asarray(file.convert("RGB"))
    assert np.abs(prepare(tmp_path / "a.jpg").astype(int) - prepare(in_full)).mean() < 2


def test_grey_transparent_and_turned_images_give_three_channels(tmp_path):
    prepare = ImagePreparation((8, 8), 8)
    for mode in ("L", "LA", "RGBA", "P", "1", "I;16", "CMYK"):
        path = tmp_path / f"{mode.replace(';', '')}.{'tif' if mode == 'CMYK' else 'png'}"
        Image.new(mode, (20, 12)).save(path)
        assert prepare(path).shape == (8, 8, 3)


def test_an_extremely_long_image_never_becomes_larger_than_is_safe(tmp_path, monkeypatch):
    """A line of 1 x 60,000 pixels is a valid file; brought to 256 pixels of width it would need 12 GB."""
    Image.new("RGB", (1, 60_000)).save(tmp_path / "line.png")
    real = Image.Image.resize

    def checked(self, size, *args, **kwargs):
        assert size[0] * size[1] <= MOST_PIXELS, f"would make {size[0]} x {size[1]} pixels"
        return real(self, size, *args, **kwargs)

    monkeypatch.setattr(Image.Image, "resize", checked)
    with pytest.raises(InputError, match=r"line\.png has 1 × 60000 pixels, which is too long and thin"):
        ImagePreparation((224, 224), 256)(tmp_path / "line.png")


def test_a_broken_file_is_an_input_error_that_names_it(tmp_path):
    whole = io.BytesIO()
    Image.fromarray(picture((50, 50))).save(whole, "JPEG")
    (tmp_path / "half.jpg").write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])
    with pytest.raises(InputError, match=r"half\.jpg is cut off"):
        ImagePreparation()(tmp_path / "half.jpg")


# A value


def test_it_can_be_sent_to_another_process():
    prepare = ImagePreparation((8, 8), (9, 10), 2)
    assert pickle.loads(pickle.dumps(prepare)) == prepare


def test_its_description_is_json_and_tells_two_apart():
    one, other = ImagePreparation(resize=256), ImagePreparation(resize=(256, 256))
    assert json.dumps(one.describe()) != json.dumps(other.describe())


# Errors


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({}, "names no fixed size"),
        ({"size": {"shortest_edge": 224}}, "names no fixed size"),
        ({"do_resize": False, "size": 224}, "names no fixed size"),
        ({"size": {"longest_edge": 500}}, "height and width"),
        ({"size": 224, "rescale_factor": 1 / 127.5}, "scaled by 1/255"),
        ({"size": 224, "do_rescale": False}, "scaled by 1/255"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused(config, says):
    with pytest.raises(InputError, match=re.escape(says)):
        ImagePreparation.from_config(config)


@pytest.mark.parametrize(
    "config",
    [
        {"size": "big"},
        {"size": 0},
        {"size": [224, 224, 3]},
        {"size": {"height": None, "width": 224}},
        {"size": 224, "image_mean": [0.5], "image_std": [0.5]},
        {"size": 224, "image_std": [0.0, 0.0, 0.0]},
        {"size": 224, "resample": 17},
        {"size": 224, "image_mean": ["a", "b", "c"]},
        {"size": 224, "image_mean": [0.5, 0.5, math.nan]},
        {"size": 224, "image_std": [0.5, 0.5, math.inf]},
        {"size": 1e400},
        {"size": {"shortest_edge": math.inf}, "crop_pct": 0.9},
        {"size": {"shortest_edge": 224}, "crop_pct": 1e-320},
        {"size": 10**9},
        {"size": 224, "do_center_crop": True, "crop_size": 10**9},
        {"size": 224, "do_center_crop": True, "crop_size": None},
        [],
    ],
    ids=str,
)
def test_a_senseless_configuration_is_refused_in_words(tmp_path, config):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"preprocessor_config\.json"):
        ImagePreparation.beside(tmp_path)


@pytest.mark.parametrize("name", ["image_mean", "image_std", "resample"])
def test_what_a_configuration_leaves_open_has_the_usual_value(tmp_path, name):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"size": 224, name: None}))
    assert ImagePreparation.beside(tmp_path) == ImagePreparation.from_config({"size": 224})


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"nothing", b"[" * 100_000])
def test_a_configuration_that_is_no_json_is_refused_by_its_path(tmp_path, content):
    (tmp_path / "preprocessor_config.json").write_bytes(content)
    with pytest.raises(InputError, match=re.escape(str(tmp_path)) + ".* is not JSON"):
        ImagePreparation.beside(tmp_path)


def test_no_configuration_beside_a_model(tmp_path):
    assert ImagePreparation.beside(tmp_path) is None
    assert ImagePreparation.beside(tmp_path / "model.onnx") is None


# Changes


def test_changes_replace_what_they_name():
    own = ImagePreparation((32, 32), (32, 32), 2)
    assert own.changed(None, "x") is own
    assert own.changed({"resize": 36}, "x") == ImagePreparation((32, 32), 36, 2)
    assert own.changed({"size": [24, 24], "resize": [30, 40]}, "x") == ImagePreparation((24, 24), (30, 40), 2)
    described = json.loads(json.dumps(ImagePreparation((8, 8), 9).describe()))
    assert own.changed(described, "x") == ImagePreparation((8, 8), 9)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"resize": 31}, "resized to 31 are smaller than the crop of (32, 32)"),
        ({"size": (40, 40)}, "smaller than the crop of (40, 40)"),
        ({"resize": 0}, "sizes must be positive"),
        ({"resize": 10**6}, "at most"),
        ({"resize": 36.5}, "whole numbers"),
        ({"size": "big"}, "whole numbers"),
        ({"size": (1, 2, 3)}, "whole numbers"),
        ({"zoom": 2}, "cannot be prepared"),
        ({"std": (0, 1, 1)}, "the deviation positive"),
        ({"size": [32]}, "whole numbers"),
        ({"resize": True}, "whole numbers"),
        ({"mean": 3}, "cannot be prepared"),
    ],
)
def test_changes_that_make_no_sense_are_refused(changes, says):
    with pytest.raises(InputError, match=re.escape(says)):
        ImagePreparation((32, 32), 36).changed(changes, "x")


def test_what_an_encoder_asks_for_itself_is_no_change():
    padded = ImagePreparation((32, 32), 30)
    assert padded.changed(padded.describe(), "x") == padded


def test_dino_sees_images_as_gcd_shows_them():
    """Shorter side to 256 (bicubic), the middle 224 × 224, ImageNet's mean and deviation."""
    huggingface = ImagePreparation.from_config(plain_means({"size": 224, "resample": 2}))
    assert huggingface.resize == (224, 224)
    for name in ("facebook/dino-vitb16", "facebook/dino-vits8"):
        gcd = huggingface.changed(PUBLISHED[name], name)
        assert gcd == ImagePreparation((224, 224), 256, 3, tuple(MEAN), tuple(STD))
    pixels = picture((300, 500))
    resized = Image.fromarray(pixels).resize((426, 256), Image.Resampling.BICUBIC)
    assert np.array_equal(gcd(pixels), np.asarray(resized.crop((101, 16, 325, 240))))
