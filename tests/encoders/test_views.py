"""Views of images for fine-tuning."""

from typing import Any

import numpy as np
import pytest

from newkinds.encoders.preparation import ImagePreparation
from newkinds.encoders.views import RandomView


def test_a_view_is_a_crop_of_the_resized_image_mirrored_or_not() -> None:
    image = np.arange(20 * 26 * 3, dtype=np.uint32).reshape(20, 26, 3).astype(np.uint8)
    view = RandomView(ImagePreparation(size=(16, 16), resize=20))
    seen = [view((image, seed)) for seed in range(60)]
    crops = {image[top : top + 16, left : left + 16].tobytes() for top in range(5) for left in range(11)}
    straight = [each.tobytes() in crops for each in seen]
    mirrored = [each[:, ::-1].tobytes() in crops for each in seen]
    assert all(a or b for a, b in zip(straight, mirrored, strict=True))
    assert 10 < sum(straight) < 50
    assert len({each.tobytes() for each in seen}) > 30
    assert np.array_equal(view((image, 7)), seen[7])


CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "stretch": {"size": {"height": 32, "width": 32}},
    "stretch, oblong": {"size": {"height": 24, "width": 40}},
    "resize and crop": {"size": {"shortest_edge": 36}, "do_center_crop": True, "crop_size": 32},
    "shortest edge, all of it": {"size": {"shortest_edge": 32}, "do_center_crop": True, "crop_size": 32},
    "crop_pct": {"size": {"shortest_edge": 32}, "crop_pct": 0.875},
    "crop_pct 1": {"size": {"shortest_edge": 32}, "crop_pct": 1.0},
    "crop_pct, warped": {"size": {"shortest_edge": 384}, "crop_pct": 0.9},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("shape", [(48, 48), (40, 60)])
def test_views_differ_however_an_encoder_wants_its_images(name: str, shape: tuple[int, int]) -> None:
    preparation = ImagePreparation.from_config(CONFIGURATIONS[name])
    height, width = preparation.size
    ramp = np.indices(shape).transpose(1, 2, 0) * 255 // np.array(shape)
    image = np.concatenate([ramp, ramp[..., :1]], axis=2).astype(np.uint8)  # rows in channels 0 and 2, columns in 1
    views = [RandomView(preparation)((image, seed)) for seed in range(200 if height < 100 else 20)]
    assert all(view.shape == (height, width, 3) for view in views)
    n_distinct = len({view.tobytes() for view in views})
    assert n_distinct >= 0.15 * len(views)  # of 25 places, mirrored or not
    assert n_distinct > 15
    # Every view shows at most 7/8 of the height and the width, give or take what rounding and filters do.
    whole = preparation.with_room.resized(image)
    for view in views[:20]:
        for channel, side, full in ((0, height, whole.height), (1, width, whole.width)):
            seen = int(view[..., channel].max()) - int(view[..., channel].min())
            assert seen <= 255 * (side / full) + 12
            assert side / full <= 7 / 8 + 0.02
            assert seen >= 255 * (side / full) - 30


def test_room_for_crops_is_made_only_where_there_is_none() -> None:
    paper = ImagePreparation((224, 224), 256)
    assert paper.with_room == paper
    assert ImagePreparation((224, 224), (224, 224)).with_room.resize == (256, 256)
    assert ImagePreparation((224, 224), 224).with_room.resize == 256
    assert ImagePreparation((224, 224), 300).with_room.resize == 300
    assert ImagePreparation((24, 40), (24, 80)).with_room.resize == (28, 80)
    assert ImagePreparation((3, 3), 3).with_room.resize == 4
