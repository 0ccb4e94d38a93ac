"""Make the pictures of reports that the README shows: `docs/pictures/*.webp`.

    python benchmarks/pictures.py [--out docs/pictures] [--keep FOLDER]

Everything in them is made here: flowers are drawn, messages are put together from phrases. Needs the extras
`images` and `text`, Chromium and Playwright's Python package. `--keep` leaves collections and run folders there.
"""

import argparse
import csv
import io
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

FLOWERS = {
    # petals, width, length, colour, heart, rings
    "daisy": (16, 0.10, 0.42, (245, 245, 240), (240, 190, 40), 1),
    "poppy": (4, 0.36, 0.36, (210, 40, 30), (30, 25, 30), 1),
    "sunflower": (22, 0.08, 0.44, (245, 185, 30), (95, 55, 25), 2),
    "bluebell": (6, 0.20, 0.28, (90, 120, 225), (225, 225, 250), 2),
    "dandelion": (30, 0.05, 0.34, (250, 215, 20), (235, 180, 10), 4),
    "violet": (5, 0.22, 0.34, (110, 60, 170), (250, 220, 90), 1),
    "rose": (7, 0.26, 0.26, (225, 90, 130), (190, 50, 95), 4),
    "cornflower": (10, 0.13, 0.40, (60, 90, 210), (50, 40, 120), 2),
    "lily": (6, 0.17, 0.46, (250, 225, 205), (205, 120, 40), 1),
    "anemone": (8, 0.24, 0.38, (235, 235, 245), (25, 25, 60), 1),
    "tulip": (3, 0.40, 0.30, (200, 30, 70), (250, 230, 120), 2),
    "marigold": (14, 0.16, 0.30, (240, 130, 25), (200, 90, 15), 4),
}
N_FLOWERS, SIDE = 40, 224
MESSAGES = {
    "lost card": (
        ("I lost my {} card", "my {} card was stolen", "I cannot find the {} card any more"),
        ("debit", "credit", "company", "second", "old", "black"),
    ),
    "exchange rate": (
        ("what is the exchange rate for {}", "the {} rate looks wrong", "how good is your rate for {}"),
        ("euros", "dollars", "pounds", "yen", "francs", "kroner"),
    ),
    "new address": (
        ("I moved to {}", "please change my address to {}", "my new address is in {}"),
        ("Lyon", "Porto", "Ghent", "Krakow", "Turin", "Leeds"),
    ),
    "late parcel": (
        ("my parcel to {} is late", "the parcel for {} has not arrived", "where is the parcel to {}"),
        ("Oslo", "my mother", "Vienna", "my office", "Riga", "the neighbours"),
    ),
    "opening hours": (
        ("when does the {} shop open", "what are the opening hours on {}", "is the shop open on {}"),
        ("Sunday", "Easter", "main street", "Saturday", "holidays", "Monday"),
    ),
    "gift voucher": (
        ("can I pay the {} with a gift voucher", "my voucher for the {} does not work", "a gift voucher of {}"),
        ("lamp", "tent", "twenty euros", "coat", "fifty pounds", "chair"),
    ),
    "cancel order": (
        ("cancel my order of the {}", "I want to cancel the {} I ordered", "please stop the order of a {}"),
        ("lamp", "kettle", "blue coat", "bookshelf", "tent", "red chair"),
    ),
    "invoice": (
        ("send me the invoice of {}", "the {} invoice has a wrong date", "I need an invoice for {}"),
        ("March", "last year", "May", "my company", "the tax office", "June"),
    ),
    "password": (
        ("I forgot the password of my {}", "reset the {} password", "my {} password is refused"),
        ("account", "profile", "app", "mail", "business account", "login"),
    ),
    "allergy": (
        ("are there {} in the soup", "I am allergic to {}", "is the cake safe with a {} allergy"),
        ("nuts", "eggs", "milk", "wheat", "soy", "sesame"),
    ),
    "job": (
        ("are you hiring {}", "I want to apply for a job as {}", "is the job for {} still free"),
        ("drivers", "cooks", "students", "engineers", "a nurse", "a gardener"),
    ),
    "noise": (
        ("the {} makes a strange noise", "a loud noise comes from the {}", "why is the {} so noisy"),
        ("fridge", "washing machine", "fan", "heater", "dishwasher", "pump"),
    ),
}
OPENINGS = ("", "", "hello, ", "hi there, ", "please help: ", "excuse me, ", "urgent! ")
ENDINGS = ("", "", ".", "?", ", thank you", " please", ", since yesterday")
N_MESSAGES = 60
HEIGHT = 1700


def draw_flower(name: str, rng: np.random.Generator) -> Image.Image:
    """A flower from above, in some light, on some ground."""
    petals, width, length, colour, heart, rings = FLOWERS[name]
    ground = np.array([60, 110, 50]) + rng.integers(-35, 60, 3)
    coarse = rng.normal(0, 26, (9, 9, 1)) + rng.normal(0, 6, (9, 9, 3)) + ground
    picture = Image.fromarray(np.clip(coarse, 0, 255).astype(np.uint8)).resize(
        (SIDE, SIDE), Image.Resampling.BICUBIC
    )
    brush = ImageDraw.Draw(picture)
    middle = SIDE / 2 + rng.normal(0, 12, 2)
    size = SIDE * rng.uniform(0.75, 1.05)
    turn = rng.uniform(0, 2 * math.pi)
    light = rng.uniform(0.8, 1.1)
    for ring in range(rings):
        reach = length * (1 - 0.22 * ring)
        for petal in range(petals):
            angle = turn + 2 * math.pi * (petal + 0.5 * (ring % 2)) / petals + rng.normal(0, 0.05)
            _draw_petal(
                brush, middle, angle, size * reach * rng.normal(1, 0.05), size * width, _shade(colour, light, rng)
            )
    radius = size * 0.09
    brush.ellipse((*(middle - radius), *(middle + radius)), fill=_shade(heart, light, rng))
    soft = picture.filter(ImageFilter.GaussianBlur(rng.uniform(0.4, 1.3)))
    noisy = np.asarray(soft, dtype=np.float64) + rng.normal(0, 5, (SIDE, SIDE, 3))
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def _draw_petal(
    brush: ImageDraw.ImageDraw,
    middle: np.ndarray,
    angle: float,
    length: float,
    width: float,
    colour: tuple[int, int, int],
) -> None:
    steps = np.linspace(0, 2 * math.pi, 24)
    along, across = length / 2 * (1 + np.cos(steps)), width / 2 * np.sin(steps)
    x = middle[0] + along * math.cos(angle) - across * math.sin(angle)
    y = middle[1] + along * math.sin(angle) + across * math.cos(angle)
    points = list(zip(x.tolist(), y.tolist(), strict=True))
    brush.polygon(points, fill=colour, outline=tuple(int(0.75 * part) for part in colour))


def _shade(colour: Sequence[int], light: float, rng: np.random.Generator) -> tuple[int, int, int]:
    red, green, blue = np.clip(np.array(colour) * light + rng.normal(0, 9, 3), 0, 255).astype(int).tolist()
    return red, green, blue


def make_flowers(folder: Path) -> None:
    """Half of the kinds are known, and half of their pictures labelled."""
    rng = np.random.default_rng(0)
    for number, name in enumerate(FLOWERS):
        for i in range(N_FLOWERS):
            is_labelled = number < len(FLOWERS) // 2 and i % 2 == 0
            place = folder / (name if is_labelled else "unlabelled")
            place.mkdir(parents=True, exist_ok=True)
            draw_flower(name, rng).save(place / f"{number}-{i:02}.jpg", quality=88)


def make_messages(path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for number, (topic, (phrases, fillers)) in enumerate(MESSAGES.items()):
        for i in range(N_MESSAGES):
            words = phrases[rng.integers(len(phrases))].format(fillers[rng.integers(len(fillers))])
            text = f"{OPENINGS[rng.integers(len(OPENINGS))]}{words}{ENDINGS[rng.integers(len(ENDINGS))]}"
            rows.append((text, topic if number < len(MESSAGES) // 2 and i % 2 == 0 else ""))
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("message", "topic"), *(rows[i] for i in rng.permutation(len(rows)))])


def photograph(page: Path, out: Path, scheme: Literal["light", "dark"], part: str) -> None:
    """A page from one of its parts on, as a small picture."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        view = browser.new_page(viewport={"width": 1280, "height": HEIGHT}, color_scheme=scheme, offline=True)
        view.goto(page.as_uri())
        view.locator("#new article").first.wait_for()
        view.locator(part).evaluate("part => part.scrollIntoView()")
        view.wait_for_timeout(1500)
        shot = view.screenshot()
        browser.close()
    picture = Image.open(io.BytesIO(shot)).convert("RGB")
    picture.resize((1000, round(1000 * picture.height / picture.width)), Image.Resampling.LANCZOS).save(
        out, "WEBP", quality=80, method=6
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "pictures")
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        make_flowers(folder / "flowers")
        make_messages(folder / "messages.csv")
        jobs: list[tuple[str, str, list[str], str, Literal["light", "dark"], str]] = [
            ("flowers", "flowers-run", [], "report-pictures", "light", "#summary"),
            (
                "messages.csv",
                "messages-run",
                ["--text", "message", "--label", "topic"],
                "report-texts",
                "dark",
                "#new",
            ),
        ]
        for source, run, options, name, scheme, part in jobs:
            command = [
                sys.executable,
                "-m",
                "newkinds",
                "discover",
                str(folder / source),
                "--out",
                str(folder / run),
            ]
            subprocess.run([*command, *options, "--force"], check=True)
            photograph(folder / run / "report.html", arguments.out / f"{name}.webp", scheme, part)


if __name__ == "__main__":
    main()
