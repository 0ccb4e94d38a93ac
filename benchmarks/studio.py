"""How long a studio takes to open, to load and to answer, on a large run: each figure beside what we allow it.

    python benchmarks/studio.py                       # 50,000 samples, as pages and operations are judged
    python benchmarks/studio.py --samples 100000      # loading
    python benchmarks/studio.py --page                # with a page in Chromium (Playwright)

The run is made up: clouds of random vectors around as many middles as there are kinds, found by semi-supervised
k-means, because how a studio answers does not depend on how its kinds were found. With `--refit` the run is by PIM,
and a refit is timed beside the first fit with the same settings.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ALLOWED = 200.0
"""Milliseconds for a page or an operation."""
ALLOWED_REFIT = 0.25
"""Of the time of the first fit."""
REPEATS = 5


def make_run(folder: Path, n_samples: int, n_kinds: int, width: int, method: str) -> float:
    """Save a made-up run, and return how long its fit took."""
    from newkinds import FeatureSet, discover
    from newkinds.methods import METHODS

    rng = np.random.default_rng(0)
    truth = rng.integers(0, n_kinds, n_samples)
    middles = rng.normal(size=(n_kinds, width))
    features = (middles[truth] + 0.9 * rng.normal(size=(n_samples, width))).astype(np.float32)
    n_known = n_kinds // 2
    labels = np.where((truth < n_known) & (rng.random(n_samples) < 0.5), truth, -1)
    texts = tuple(f"sample {i} about topic {t}, more words to look through" for i, t in enumerate(truth.tolist()))
    encoder = {"name": "made up", "fingerprint": "0" * 64, "kind": "texts"}
    names = tuple(f"kind {i}" for i in range(n_known))
    if method == "pim":
        collection, settings = FeatureSet(features, labels, names=names), {"lam": 0.3, "temperature": 10.0}
    else:
        collection, settings = FeatureSet(features, labels, names=names, texts=texts, encoder=encoder), {}
    began = time.perf_counter()
    discovery = discover(collection, method=METHODS[method](n_kinds, random_state=0, **settings))
    seconds = time.perf_counter() - began
    discovery.save(folder)
    return seconds


class Studio:
    """A studio in a process of its own, asked as its page asks."""

    def __init__(self, run: Path) -> None:
        command = [sys.executable, "-m", "newkinds", "studio", str(run), "--no-browser"]
        began = time.perf_counter()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().split()[-1]
        self.seconds = time.perf_counter() - began
        self._origin = self.address.partition("/?")[0]
        try:
            urllib.request.build_opener(_NoRedirect).open(self.address)
        except urllib.error.HTTPError as answer:
            self._cookie = answer.headers["set-cookie"].partition(";")[0]

    def ask(self, path: str, content: dict[str, Any] | None = None) -> bytes:
        body = None if content is None else json.dumps(content).encode()
        headers = {"cookie": self._cookie, "origin": self._origin, "content-type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(self._origin + path, body, headers)) as answer:
            content_read: bytes = answer.read()
            return content_read

    def do(self, operation: str, /, **content: Any) -> Any:
        return json.loads(self.ask(f"/api/do/{operation}", content))

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def timed(work: Callable[[], Any]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


def show(name: str, times: list[float], allowed: float = ALLOWED) -> None:
    middle, worst = statistics.median(times), max(times)
    verdict = "" if worst <= allowed else "   slower than allowed"
    print(f"{name:<34} {middle:8.0f} ms   worst {worst:6.0f} ms   allowed {allowed:5.0f} ms{verdict}")


def measure(studio: Studio) -> None:
    """Print how long each thing takes."""
    state = json.loads(studio.ask("/api/state"))
    new = [card for card in state["categories"] if card["kind"] == "new"]
    largest = sorted(new, key=lambda card: -int(card["size"]))
    keys = [card["key"] for card in largest]
    rng = np.random.default_rng(1)

    def some(n: int) -> list[int]:
        return sorted(rng.choice(state["n_samples"], n, replace=False).tolist())

    looks: dict[str, Callable[[], Any]] = {
        "state": lambda: studio.ask("/api/state"),
        "points": lambda: studio.ask("/api/points"),
        "samples of a kind, doubtful": lambda: studio.ask(f"/api/kinds/samples?kind={keys[0]}&order=doubtful"),
        "samples of a kind, typical": lambda: studio.ask(f"/api/kinds/samples?kind={keys[0]}&order=typical"),
        "search": lambda: studio.ask("/api/search?words=topic%2042"),
        "more like one": lambda: studio.ask("/api/like", {"rows": some(1)}),
        "more like 1,000": lambda: studio.ask("/api/like", {"rows": some(1000)}),
        "preview of a split, best k": lambda: studio.ask("/api/preview/split", {"kind": keys[0], "k": None}),
        "preview of a split, k = 3": lambda: studio.ask("/api/preview/split", {"kind": keys[0], "k": 3}),
        "preview of a merge": lambda: studio.ask("/api/preview/merge", {"kinds": keys[:2]}),
        "review, next questions": lambda: studio.ask("/api/review"),
    }
    for name, look in looks.items():
        show(name, [timed(look) for _ in range(REPEATS)])
    show("rename while questions are sought", [timed(lambda: studio.do("rename", kind=keys[1], name="a name"))])
    while json.loads(studio.ask("/api/review"))["looking"]:
        time.sleep(0.1)
    operations: dict[str, list[Callable[[], Any]]] = {
        # mypy cannot infer the types of lambdas with defaults.
        "rename": [lambda i=i: studio.do("rename", kind=keys[0], name=f"name {i}") for i in range(REPEATS)],  # type: ignore[misc]
        "confirm one": [lambda: studio.do("confirm", rows=some(1)) for _ in range(REPEATS)],
        "move 1,000": [lambda: studio.do("move", rows=some(1000), kind=keys[0]) for _ in range(REPEATS)],
        "create of 100": [lambda: studio.do("create", rows=some(100)) for _ in range(REPEATS)],
        "undo": [lambda: studio.do("undo") for _ in range(REPEATS)],
        "redo": [lambda: studio.do("redo") for _ in range(REPEATS)],
        "merge": [lambda i=i: studio.do("merge", kinds=keys[i : i + 2], into=keys[i]) for i in range(1, 9, 2)],  # type: ignore[misc]
        "dissolve": [lambda i=i: studio.do("dissolve", kind=keys[-i]) for i in range(1, REPEATS)],  # type: ignore[misc]
    }
    for name, works in operations.items():
        show(name, [timed(work) for work in works])


def measure_page(address: str, n_samples: int) -> None:
    """Print how long a browser takes until the map and the first cards are drawn."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        began = time.perf_counter()
        page.goto(address)
        while page.evaluate("window.newkinds?.drawn ?? 0") != n_samples or not page.locator("article").count():
            time.sleep(0.02)
        show("page, until the map is drawn", [1000 * (time.perf_counter() - began)], 5000)
        browser.close()


def measure_refit(studio: Studio, seconds: float) -> None:
    """Print how long a refit takes beside the first fit."""
    keys = [card["key"] for card in json.loads(studio.ask("/api/state"))["categories"] if card["kind"] == "new"]
    studio.do("merge", kinds=keys[:2], into=keys[0])
    studio.ask("/api/refit/start", {})
    while (job := json.loads(studio.ask("/api/refit"))["job"])["state"] == "running":
        show_times = [timed(lambda: studio.ask(f"/api/kinds/samples?kind={keys[0]}"))]
        time.sleep(0.5)
    if job["state"] != "done":
        raise SystemExit(job["error"])
    show("a page during the refit", show_times)
    share = job["result"]["seconds"] / seconds
    verdict = "" if share <= ALLOWED_REFIT else "   slower than allowed"
    print(
        f"refit {job['result']['seconds']:.1f} s, first fit {seconds:.1f} s: {share:.0%}, "
        f"allowed {ALLOWED_REFIT:.0%}{verdict}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--kinds", type=int, default=100)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--refit", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        method = "pim" if arguments.refit else "sskm"
        seconds = make_run(run, arguments.samples, arguments.kinds, arguments.width, method)
        print(f"{arguments.samples:,} samples of {arguments.width} features, {arguments.kinds} kinds\n")
        studio = Studio(run)
        try:
            show("start, until it listens", [1000 * studio.seconds], 10_000)
            time.sleep(5)  # the model is loaded beside
            if arguments.page:
                measure_page(studio.address, arguments.samples)
            measure(studio)
            if arguments.refit:
                measure_refit(studio, seconds)
        finally:
            studio.end()


if __name__ == "__main__":
    main()
