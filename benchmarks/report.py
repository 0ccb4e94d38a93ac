"""The report of a large run: bytes, seconds until it can be used, frames a second while the map is dragged.

    python benchmarks/report.py [--samples 50000] [--categories 200] [--kind photos|texts|features]

Needs Chromium and Playwright's Python package. The samples are made up; photos are noise in the colours of their
kind, so that their thumbnails are as large as those of real photos.
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from newkinds import FeatureSet, SemiSupervisedKMeans, discover
from newkinds.data.thumbnails import Thumbnails
from newkinds.report import write_report

WIDTH = 64
DRAGGED = 3.0
"""Seconds."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"]


def make_collection(n_samples: int, n_categories: int, kind: str) -> FeatureSet:
    rng = np.random.default_rng(0)
    middles = rng.normal(size=(n_categories, WIDTH))
    truth = np.arange(n_samples) % n_categories
    features = (middles[truth] + 0.6 * rng.normal(size=(n_samples, WIDTH))).astype(np.float32)
    labels = np.where((truth < n_categories // 2) & (rng.random(n_samples) < 0.5), truth, -1)
    options: dict[str, Any] = {}
    if kind == "texts":
        words = np.array(["".join(map(chr, rng.integers(97, 123, 6))) for _ in range(5000)])
        chosen = words[(37 * truth[:, None] + rng.integers(0, 60, (n_samples, 12))) % len(words)]
        options["texts"] = tuple(" ".join(row) for row in chosen)
        options["encoder"] = {"name": "made up", "kind": "texts", "fingerprint": "0" * 64}
    if kind == "photos":
        pictures = [_picture(rng) for _ in range(500)]
        options["images"] = Thumbnails([pictures[i % 500] for i in range(n_samples)])
        options["encoder"] = {"name": "made up", "kind": "images", "fingerprint": "0" * 64}
    return FeatureSet(features, labels, ids=tuple(f"folder/{i:06}.jpg" for i in range(n_samples)), **options)


def _picture(rng: np.random.Generator) -> Any:
    """Soft shapes with a little noise: about as many bytes as a photo has."""
    coarse = rng.integers(0, 256, (12, 12, 3)).astype(np.float64)
    smooth = np.kron(coarse, np.ones((11, 11, 1)))[:128, :128]
    for _ in range(3):
        smooth = (smooth + np.roll(smooth, 3, axis=0) + np.roll(smooth, 3, axis=1)) / 3
    return np.clip(smooth + rng.normal(0, 6, smooth.shape), 0, 255).astype(np.uint8)


def look(path: Path, renderer: str) -> tuple[float, float, float]:
    """Seconds until cards are drawn and until the map is, frames a second. "" lets the page choose what draws."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900}, offline=True)
        began = time.perf_counter()
        page.goto(f"{path.as_uri()}?map={renderer}" if renderer else path.as_uri(), wait_until="commit")
        page.locator("#new article").first.wait_for()
        usable = time.perf_counter() - began
        while not page.evaluate("window.newkinds ? window.newkinds.drawn : 0"):
            time.sleep(0.02)
        drawn = time.perf_counter() - began
        canvas = page.locator("#map-canvas")
        canvas.scroll_into_view_if_needed()
        page.wait_for_timeout(500)
        box = canvas.bounding_box()
        assert box is not None
        across, down = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(across, down)
        page.mouse.down()
        first, began, step = page.evaluate("window.newkinds.frames"), time.perf_counter(), 0
        while time.perf_counter() - began < DRAGGED:
            step += 1
            page.mouse.move(across + 100 * np.sin(step / 10), down + 60 * np.cos(step / 10))
        seconds = time.perf_counter() - began
        frames = page.evaluate("window.newkinds.frames") - first
        page.mouse.up()
        browser.close()
    return usable, drawn, frames / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--categories", type=int, default=200)
    parser.add_argument("--kind", choices=("photos", "texts", "features"), default="photos")
    arguments = parser.parse_args()
    collection = make_collection(arguments.samples, arguments.categories, arguments.kind)
    model = SemiSupervisedKMeans(arguments.categories, n_init=1, max_iter=10, random_state=0)
    discovery = discover(collection, method=model)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        began = time.perf_counter()
        discovery.save(run)
        saved = time.perf_counter() - began
        began = time.perf_counter()
        page = write_report(run)
        written = time.perf_counter() - began
        size = page.stat().st_size
        print(f"{arguments.samples:,} {arguments.kind}, {arguments.categories} kinds")
        print(f"run folder with map and report written in {saved:.1f} s; the report alone in {written:.1f} s")
        print(f"report: {size / 1e6:.2f} MB")
        for renderer in ("", "webgl2", "canvas"):
            usable, drawn, rate = look(page, renderer)
            name = renderer or "what the page chooses"
            print(f"{name}: cards after {usable:.2f} s, map after {drawn:.2f} s, {rate:.0f} frames a second")


if __name__ == "__main__":
    main()
