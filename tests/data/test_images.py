"""Opening images: every kind of file as a person sees it, every kind of bad file refused in words."""

import io
import math
import struct
import subprocess
import sys
import warnings
import zlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from newkinds import InputError
from newkinds.data.opening import MOST_PIXELS, open_image, thumbnail
from newkinds.data.pictures import png
from tests.data.refusal import refused

pytest.importorskip("PIL", reason="photos need Pillow")
from PIL import ExifTags, Image, ImageOps, PngImagePlugin

RED, GREEN, BLUE, WHITE, BLACK = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)


def colour(image: Image.Image, at: tuple[int, int]) -> tuple[int, ...]:
    """One pixel of an image in RGB."""
    pixel = image.getpixel(at)
    assert isinstance(pixel, tuple)
    return pixel


def pixel(path: Path, at: tuple[int, int] = (0, 0)) -> tuple[int, ...]:
    image = open_image(path)
    assert image.mode == "RGB"
    return colour(image, at)


def photo(width: int = 64, height: int = 48) -> Image.Image:
    """Something that a lossy format keeps well: red left of the middle, blue right of it."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(BLUE, (width // 2, 0, width, height))
    return image


def close(found: tuple[int, ...], expected: tuple[int, ...], by: int = 12) -> bool:
    return max(abs(a - b) for a, b in zip(found, expected, strict=True)) <= by


# Every kind of image


@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "bmp", "gif", "tiff", "ppm", "jp2"])
def test_every_format(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    photo().save(path)
    image = open_image(path)
    assert (image.mode, image.size) == ("RGB", (64, 48))
    assert close(colour(image, (5, 20)), RED)
    assert close(colour(image, (60, 20)), BLUE)


def test_a_path_may_be_text_and_the_ending_may_be_wrong(tmp_path):
    photo().save(tmp_path / "a.jpg", format="PNG")
    assert colour(open_image(str(tmp_path / "a.jpg")), (0, 0)) == RED


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3)])
def test_an_array(shape):
    image = open_image(np.full(shape, 7, dtype=np.uint8))
    assert (image.mode, image.size, image.getpixel((0, 0))) == ("RGB", (4, 5), (7, 7, 7))


@pytest.mark.parametrize("array", [np.zeros((2, 2, 4), np.uint8), np.zeros((2, 2)), np.zeros((0, 3, 3), np.uint8)])
def test_an_array_that_is_no_image_is_refused_with_its_shape(array):
    with refused(str(array.shape)):
        open_image(array)


@pytest.mark.parametrize("ending", ["png", "tiff", "webp"])
def test_transparency_is_put_on_white(tmp_path, ending):
    image = Image.new("RGBA", (3, 1), (0, 0, 0, 0))
    image.putpixel((1, 0), (0, 0, 0, 128))
    image.putpixel((2, 0), (255, 0, 0, 255))
    options: dict[str, Any] = {"lossless": True, "exact": True} if ending == "webp" else {}
    path = tmp_path / f"a.{ending}"
    image.save(path, **options)
    assert pixel(path) == WHITE
    assert close(pixel(path, (1, 0)), (127, 127, 127), by=1)
    assert pixel(path, (2, 0)) == RED


def test_grey_with_transparency(tmp_path):
    image = Image.new("LA", (2, 1), (0, 0))
    image.putpixel((1, 0), (40, 255))
    image.save(tmp_path / "a.png")
    assert [pixel(tmp_path / "a.png", (x, 0)) for x in range(2)] == [WHITE, (40, 40, 40)]


def palette() -> Image.Image:
    image = Image.new("P", (2, 1))
    image.putpalette([*RED, *GREEN])
    image.putpixel((1, 0), 1)
    return image


@pytest.mark.parametrize("ending", ["png", "gif"])
def test_a_palette_without_transparency(tmp_path, ending):
    palette().save(tmp_path / f"a.{ending}")
    assert [pixel(tmp_path / f"a.{ending}", (x, 0)) for x in range(2)] == [RED, GREEN]


@pytest.mark.parametrize(("ending", "transparency"), [("png", 0), ("png", b"\x00\xff"), ("gif", 0)])
def test_a_palette_with_transparency(tmp_path, ending, transparency):
    palette().save(tmp_path / f"a.{ending}", transparency=transparency)
    assert [pixel(tmp_path / f"a.{ending}", (x, 0)) for x in range(2)] == [WHITE, GREEN]


@pytest.mark.parametrize(("mode", "colour"), [("RGB", RED), ("L", 9), ("1", 0)])
def test_a_colour_that_stands_for_transparent(tmp_path, mode, colour):
    Image.new(mode, (2, 2), colour).save(tmp_path / "a.png", transparency=colour)
    assert pixel(tmp_path / "a.png") == WHITE


def test_one_bit(tmp_path):
    image = Image.new("1", (2, 1), 0)
    image.putpixel((1, 0), 1)
    for name in ("a.png", "a.bmp", "a.tiff"):
        image.save(tmp_path / name)
        assert [pixel(tmp_path / name, (x, 0)) for x in range(2)] == [BLACK, WHITE]


def test_cmyk(tmp_path):
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(tmp_path / "a.jpg", quality=95)
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(tmp_path / "a.tiff")
    assert close(pixel(tmp_path / "a.jpg"), RED)
    assert close(pixel(tmp_path / "a.tiff"), RED)


def test_a_cmyk_jpeg_in_the_colours_of_adobe(tmp_path):
    """YCCK: the first three inks stored as brightness and colour, which the Adobe marker says."""
    buffer = io.BytesIO()
    Image.new("CMYK", (16, 16), (128, 128, 128, 128)).save(buffer, "JPEG", quality=95)
    content = buffer.getvalue()
    marker = content.index(b"Adobe")
    (tmp_path / "a.jpg").write_bytes(content[: marker + 11] + b"\x02" + content[marker + 12 :])
    red, green, blue = pixel(tmp_path / "a.jpg")  # neither clipped to black nor to white
    assert close((red, green, blue), (64, 64, 64), by=8)


# Sixteen bits and more


@pytest.mark.parametrize("ending", ["png", "tiff"])
def test_sixteen_bits_of_grey_are_not_clipped(tmp_path, ending):
    values = np.array([[0, 255, 256, 0x8000, 0xFFFF]], dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / f"a.{ending}")
    assert np.asarray(open_image(tmp_path / f"a.{ending}"))[0, :, 0].tolist() == [0, 0, 1, 128, 255]


def test_sixteen_bits_with_the_large_byte_first(tmp_path):
    content = struct.pack(">HH", 0x1234, 0xFFFF)
    (tmp_path / "a.pgm").write_bytes(b"P5 2 1 65535\n" + content)
    Image.frombytes("I;16B", (2, 1), content).save(tmp_path / "a.tiff")
    for name in ("a.pgm", "a.tiff"):
        assert np.asarray(open_image(tmp_path / name))[0, :, 0].tolist() == [0x12, 255]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 128, 255], [0, 128, 255]),
        ([0, 256, 65535], [0, 1, 255]),
        ([0, 600_000, 1_000_000], [0, 153, 255]),
        ([-100, 20, 100], [0, 153, 255]),
        ([-7, -7, -7], [0, 0, 0]),
    ],
    ids=["eight bits", "sixteen bits", "wide", "negative", "constant"],
)
def test_whole_numbers_of_32_bits(tmp_path, values, expected):
    Image.fromarray(np.array([values], dtype=np.int32)).save(tmp_path / "a.tiff")
    assert np.asarray(open_image(tmp_path / "a.tiff"))[0, :, 0].tolist() == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 0.6, 1], [0, 153, 255]),
        ([0, 100, 200], [0, 100, 200]),
        ([-1, 0.2, 1], [0, 153, 255]),
        ([0, 6000, 10000], [0, 153, 255]),
        ([np.nan, 0.0, 1.0], [0, 0, 255]),
        ([np.inf, 0.0, 1000.0], [0, 0, 255]),
        ([np.nan] * 3, [0, 0, 0]),
        ([-3e38, 6e37, 3e38], [0, 153, 255]),
    ],
)
def test_fractions(tmp_path, values, expected):
    Image.fromarray(np.array([values], dtype=np.float32)).save(tmp_path / "a.tiff")
    assert np.asarray(open_image(tmp_path / "a.tiff"))[0, :, 0].tolist() == expected


# Upright, and the first of several


@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "tiff"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_photo_comes_out_upright_and_once_only(tmp_path, ending, orientation):
    corner = Image.new("RGB", (64, 32), WHITE)
    corner.paste(RED, (0, 0, 32, 16))  # only the top left is red, so that every turn shows
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    undo = {1: None, 2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}[orientation]  # how the camera would have stored it
    stored = corner if undo is None else corner.transpose(Image.Transpose(undo))
    stored.save(tmp_path / f"a.{ending}", exif=exif)
    image = open_image(tmp_path / f"a.{ending}")
    assert image.size == (64, 32)
    assert close(colour(image, (8, 4)), RED)
    assert close(colour(image, (56, 28)), WHITE)
    assert ImageOps.exif_transpose(image).size == (64, 32)


@pytest.mark.parametrize("exif", [b"Exif\x00\x00", b"Exif\x00\x00II*\x00\xff\xff\xff\xff", b"Exif\x00\x00nonsense"])
def test_damaged_metadata_do_no_harm(tmp_path, exif):
    photo().save(tmp_path / "a.jpg", exif=exif)
    assert open_image(tmp_path / "a.jpg").size == (64, 48)


@pytest.mark.parametrize("ending", ["gif", "webp", "png", "tiff"])
def test_of_several_frames_or_pages_the_first(tmp_path, ending):
    frames = [Image.new("RGB", (16, 16), colour) for colour in (RED, GREEN, BLUE)]
    extra: dict[str, Any] = {"lossless": True} if ending == "webp" else {}
    frames[0].save(tmp_path / f"a.{ending}", save_all=True, append_images=frames[1:], **extra)
    with Image.open(tmp_path / f"a.{ending}") as written:
        assert getattr(written, "n_frames", 1) == 3
    assert pixel(tmp_path / f"a.{ending}") == RED


# Decoded small


@pytest.mark.parametrize("at_least", [1, 10, 99, 100, 101, 200, 400, 1000])
@pytest.mark.parametrize("size", [(800, 400), (401, 803), (50, 50)])
def test_a_jpeg_decoded_small_is_never_too_small_and_keeps_its_form(tmp_path, at_least, size):
    photo(*size).save(tmp_path / "a.jpg")
    image = open_image(tmp_path / "a.jpg", at_least=at_least)
    assert min(image.size) >= min(at_least, *size)
    assert image.width / image.height == pytest.approx(size[0] / size[1], rel=0.03)
    assert close(colour(image, (image.width // 4, image.height // 2)), RED)
    assert close(colour(image, (image.width * 3 // 4, image.height // 2)), BLUE)


def test_a_large_jpeg_is_decoded_small_where_little_is_needed(tmp_path):
    photo(1600, 1600).save(tmp_path / "a.jpg")
    assert open_image(tmp_path / "a.jpg").size == (1600, 1600)
    assert open_image(tmp_path / "a.jpg", at_least=100).size == (200, 200)


def test_a_side_of_nothing_is_refused(tmp_path):
    photo().save(tmp_path / "a.jpg")
    with refused("at_least", "0"):
        open_image(tmp_path / "a.jpg", at_least=0)


# Files that are bad


def forged(path: Path, width: int, height: int) -> None:
    """A PNG of a few bytes whose header claims a size."""
    whole = png(np.zeros((1, 1), dtype=np.uint8))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    path.write_bytes(whole[:8] + chunk + whole[8 + 25 :])


@pytest.mark.parametrize("width", [100_000, 13_500, 65_000])
def test_a_bomb_is_refused_by_its_header_with_the_number_of_pixels(tmp_path, width):
    forged(tmp_path / "bomb.png", width, width)
    with refused("bomb.png", f"{width * width:,} pixels", f"{MOST_PIXELS:,}"):
        open_image(tmp_path / "bomb.png")


def test_a_bomb_is_refused_where_pillow_has_no_limit_and_the_limit_is_left_alone(tmp_path, monkeypatch):
    side = math.isqrt(MOST_PIXELS) + 1
    forged(tmp_path / "bomb.png", side, side)
    for limit in (None, 10**12, 1000):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with refused("bomb.png", f"{side**2:,} pixels"):
            open_image(tmp_path / "bomb.png")
        assert limit == Image.MAX_IMAGE_PIXELS


def test_a_large_image_that_is_no_bomb_is_opened_without_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 64 * 48 - 1)  # where Pillow warns, but does not refuse
    photo().save(tmp_path / "a.png")
    with pytest.warns(Image.DecompressionBombWarning):
        Image.open(tmp_path / "a.png").close()
    assert open_image(tmp_path / "a.png").size == (64, 48)


def test_a_compressed_comment_that_is_a_bomb_is_refused(tmp_path):
    comment = PngImagePlugin.PngInfo()
    comment.add_text("note", "a" * 10_000_000, zip=True)
    photo().save(tmp_path / "a.png", pnginfo=comment)
    with refused("a.png"):
        open_image(tmp_path / "a.png")


@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "bmp", "gif", "tiff", "jp2"])
@pytest.mark.parametrize("at_least", [None, 8])
def test_a_file_cut_off_anywhere_is_refused_or_whole(tmp_path, ending, at_least):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / f"whole.{ending}")
    whole = (tmp_path / f"whole.{ending}").read_bytes()
    path = tmp_path / f"cut.{ending}"
    for length in range(1, len(whole) * 9 // 10, max(1, len(whole) // 30)):
        path.write_bytes(whole[:length])
        with refused(str(path)):
            open_image(path, at_least=at_least)


def test_a_photo_whose_end_is_missing_is_said_to_be_cut_off(tmp_path):
    photo(400, 400).save(tmp_path / "a.jpg")
    content = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(content[: len(content) // 2])
    with refused("a.jpg is cut off"):
        open_image(tmp_path / "a.jpg")


@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "gif", "tiff", "bmp"])
def test_a_damaged_file_is_refused_or_still_opens(tmp_path, ending):
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)).save(
        tmp_path / f"whole.{ending}"
    )
    whole = (tmp_path / f"whole.{ending}").read_bytes()
    path = tmp_path / f"a.{ending}"
    errors = []
    for place in range(0, min(len(whole), 600), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            assert open_image(path).mode == "RGB"
        except InputError as error:
            errors.append(str(error))
    assert errors
    assert all(str(path) in error for error in errors)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"not an image", "begins with b'not an image'"),
        (b"<!DOCTYPE html><html>404</html>", "begins with b'<!DOCTYPE ht"),
        (b"\xff\xd8\xff", "a.jpg"),
        (b"\x89PNG\r\n\x1a\n", "a.jpg"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is not an image that can be read"),
    ],
    ids=["empty", "text", "page", "start of a JPEG", "start of a PNG", "program"],
)
def test_what_is_no_image_is_refused_for_what_it_is(tmp_path, content, says):
    (tmp_path / "a.jpg").write_bytes(content)
    with refused("a.jpg", says) if says != "a.jpg" else refused("a.jpg"):
        open_image(tmp_path / "a.jpg")


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with refused("nothing.jpg does not exist"):
        open_image(tmp_path / "nothing.jpg")
    (tmp_path / "a.jpg").mkdir()
    with refused("a.jpg is a folder"):
        open_image(tmp_path / "a.jpg")


def test_without_pillow_the_error_says_what_to_install_and_folders_are_still_read(tmp_path):
    (tmp_path / "owl").mkdir()
    (tmp_path / "owl" / "a.png").write_bytes(png(np.zeros((2, 2), dtype=np.uint8)))
    code = f"""
import sys
sys.modules["PIL"] = None
import newkinds.data
from newkinds import InputError
from newkinds.data.images import read_images
from newkinds.data.opening import open_image
birds = read_images({str(tmp_path)!r})
try:
    open_image(birds.items[0])
except InputError as error:
    print(len(birds), error, "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "newkinds[images]"' in done.stdout
    assert done.stdout.startswith("1 ")
    assert done.stdout.strip().endswith("False")


def test_images_are_opened_in_other_processes_and_errors_come_back(tmp_path):
    photo().save(tmp_path / "a.jpg")
    (tmp_path / "b.jpg").write_text("no")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(thumbnail, tmp_path / "a.jpg").result().shape[1] == 96
        with refused("b.jpg is not an image"):
            pool.submit(thumbnail, tmp_path / "b.jpg").result()


def test_threads_open_images_at_once_and_leave_warnings_as_they_were(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 400 * 400 - 1)  # each would warn
    for i in range(8):
        photo(400, 400).save(tmp_path / f"{i}.png")
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(lambda i: open_image(tmp_path / f"{i % 8}.png").size, range(200)))
    assert set(sizes) == {(400, 400)}
    assert list(warnings.filters) == before


# Thumbnails


def test_a_thumbnail_holds_the_whole_image_and_nothing_else(tmp_path):
    photo(400, 200).save(tmp_path / "a.png")
    small = thumbnail(tmp_path / "a.png", 96)
    assert (small.shape, small.dtype.name) == ((48, 96, 3), "uint8")
    assert close(tuple(small[24, 2].tolist()), RED)
    assert close(tuple(small[24, 93].tolist()), BLUE)


@given(
    hnp.arrays(np.uint8, st.tuples(st.integers(1, 300), st.integers(1, 300), st.just(3)), fill=st.integers(0, 255)),
    st.integers(1, 64),
)
@settings(max_examples=40)
def test_a_thumbnail_of_any_image_has_the_size_asked_for(image, size):
    small = thumbnail(image, size)
    assert (max(small.shape[:2]), small.shape[2], small.dtype.name) == (size, 3, "uint8")


@pytest.mark.parametrize("shape", [(1, 5000), (5000, 1), (1, 1)])
def test_a_thumbnail_of_a_line_shows_it(shape):
    assert (thumbnail(np.zeros(shape, dtype=np.uint8), 10) == 0).any()
