"""Any PyTorch module as an encoder: its features, its precision, and what its fingerprint depends on."""

import numpy as np
import pytest
import torch
from torch import nn

from newkinds import InputError
from newkinds.encoders import ImagePreparation, encode
from newkinds.encoders.modules import BATCH_SIZE, ModuleEncoder, feed_weights

SMALL = ImagePreparation((8, 8), 8)


def net(*more: nn.Module, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 5, 4, stride=4), nn.BatchNorm2d(5), *more)


def pixels(n: int = 3) -> list[np.ndarray]:
    return list(np.random.default_rng(0).integers(0, 256, size=(n, 8, 8, 3)).astype(np.uint8))


def test_features_are_those_of_the_module_over_standardised_pixels():
    module = net(nn.Flatten())
    encoder = ModuleEncoder(module, SMALL)
    batch = pixels()
    with torch.no_grad():
        expected = module.eval()(torch.from_numpy(SMALL.scaled(np.stack(batch)))).numpy()
    found = encoder.encode(batch)
    assert found.dtype == np.float32
    assert np.allclose(found, expected, atol=1e-5)


def test_maps_are_averaged():
    module = net()
    batch = pixels()
    with torch.no_grad():
        expected = module.eval()(torch.from_numpy(SMALL.scaled(np.stack(batch)))).mean(dim=(2, 3)).numpy()
    assert np.allclose(ModuleEncoder(module, SMALL).encode(batch), expected, atol=1e-5)


def test_the_module_is_not_in_training_and_a_batch_does_not_change_it():
    module = net(nn.Dropout(0.5), nn.Flatten()).train()
    encoder = ModuleEncoder(module, SMALL)
    batch = pixels()
    together = encoder.encode(batch)
    alone = np.concatenate([encoder.encode([each]) for each in batch])
    assert np.allclose(together, alone, atol=1e-5)
    assert not np.isnan(together).any()


def test_a_function_of_its_own_for_the_features():
    def strongest(module: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        assert isinstance(module, nn.Sequential)
        return module[0](batch).amax(dim=(2, 3))

    encoder = ModuleEncoder(net(), SMALL, features=strongest)
    assert encoder.encode(pixels()).shape == (3, 5)


def test_half_precision_is_near_to_full_and_says_so():
    full, half = ModuleEncoder(net(nn.Flatten()), SMALL), ModuleEncoder(net(nn.Flatten()), SMALL, half=True)
    assert (full.precision, half.precision) == ("float32", "float16")
    a, b = full.encode(pixels()), half.encode(pixels())
    assert b.dtype == np.float32
    assert 0 < np.abs(a - b).max() < 0.02
    assert full.fingerprint == half.fingerprint


def test_on_a_cpu_full_precision_is_the_default():
    encoder = ModuleEncoder(net(), SMALL)
    assert encoder.precision == "float32"
    assert encoder.batch_size == BATCH_SIZE["cpu"]
    assert encoder.kind == "images"
    assert next(encoder.module.parameters()).dtype == torch.float32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_half_precision_is_the_default():
    encoder = ModuleEncoder(net(nn.Flatten()), SMALL, device="cuda")
    assert encoder.precision == "float16"
    assert np.allclose(
        encoder.encode(pixels()), ModuleEncoder(net(nn.Flatten()), SMALL).encode(pixels()), atol=0.02
    )


# The fingerprint


def test_the_fingerprint_is_the_same_for_the_same_weights():
    assert ModuleEncoder(net(), SMALL).fingerprint == ModuleEncoder(net(), SMALL, "another name").fingerprint


def test_the_fingerprint_changes_with_one_weight():
    changed = net()
    with torch.no_grad():
        changed.get_parameter("0.weight")[0, 0, 0, 0] += 1e-6
    assert ModuleEncoder(net(), SMALL).fingerprint != ModuleEncoder(changed, SMALL).fingerprint


def test_the_fingerprint_changes_with_a_buffer():
    changed = net()
    changed.get_buffer("1.running_mean").add_(1)
    assert ModuleEncoder(net(), SMALL).fingerprint != ModuleEncoder(changed, SMALL).fingerprint


@pytest.mark.parametrize(
    "other",
    [
        ImagePreparation((8, 8), 9),
        ImagePreparation((8, 8), (8, 8)),
        ImagePreparation((8, 8), 8, 2),
        ImagePreparation((8, 8), 8, mean=(0.5,) * 3),
        ImagePreparation((8, 8), 8, std=(0.5,) * 3),
        ImagePreparation((12, 12), 8),
    ],
    ids=str,
)
def test_the_fingerprint_changes_with_the_preparation(other):
    assert ModuleEncoder(net(), SMALL).fingerprint != ModuleEncoder(net(), other).fingerprint


def test_the_fingerprint_changes_with_given_facts():
    plain, other = ModuleEncoder(net(), SMALL), ModuleEncoder(net(), SMALL, facts={"layer": 3})
    assert plain.fingerprint != other.fingerprint


def test_the_fingerprint_changes_with_layers_that_have_no_weights():
    """Else the cache would give the features of one module to the other."""
    assert ModuleEncoder(net(nn.ReLU()), SMALL).fingerprint != ModuleEncoder(net(nn.Tanh()), SMALL).fingerprint


def test_the_fingerprint_covers_weights_of_every_type():
    class Odd(nn.Module):
        def __init__(self, value: int) -> None:
            super().__init__()
            self.register_buffer("empty", torch.empty(0))
            self.register_buffer("flag", torch.tensor([True]))
            self.register_buffer("short", torch.tensor([value], dtype=torch.bfloat16))
            self.register_buffer("turned", torch.arange(6).reshape(2, 3).T)

    found = []
    for value in (1, 2):
        seen: list[bytes] = []

        class Checksum:
            def update(self, content, seen=seen):
                seen.append(bytes(content))

        feed_weights(Checksum(), Odd(value))
        found.append(b"".join(seen))
    assert found[0] != found[1]


# Modules that cannot be used


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (nn.Conv2d(1, 5, 4), "network cannot encode these images: .*channels"),
        (nn.Linear(7, 5), "network cannot encode these images: .*shapes"),
        (nn.MultiheadAttention(4, 2), "network cannot encode these images: .*missing 2 required"),
    ],
    ids=["channels", "shapes", "arguments"],
)
def test_a_module_that_does_not_take_images_is_an_input_error(module, says):
    with pytest.raises(InputError, match=says):
        ModuleEncoder(module, SMALL, "network").encode(pixels())


def test_a_module_that_gives_no_tensor_is_an_input_error():
    encoder = ModuleEncoder(net(), SMALL, "network", features=lambda module, batch: (batch,))  # type: ignore[arg-type, return-value]  # on purpose
    with pytest.raises(InputError, match="network must give a tensor of features; it gives a tuple"):
        encoder.encode(pixels())


@pytest.mark.parametrize("error", [MemoryError, torch.OutOfMemoryError])
def test_a_lack_of_memory_is_not_blamed_on_the_module(error):
    def fail(*_: object) -> torch.Tensor:
        raise error("no memory")

    with pytest.raises(error):
        ModuleEncoder(net(), SMALL, features=fail).encode(pixels())


def test_it_encodes_a_collection(photos):
    from newkinds.data import RawCollection

    collection = RawCollection("images", photos, tuple(map(str, photos)), np.full(len(photos), -1))
    encoded = encode(collection, ModuleEncoder(net(nn.Flatten()), SMALL), workers=0)
    assert encoded.features.shape == (20, 20)
