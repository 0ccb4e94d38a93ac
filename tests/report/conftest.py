"""Runs to look at: digits, texts, photos, a hostile one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newkinds import PIM, FeatureSet, discover
from newkinds.data import digits
from newkinds.data.thumbnails import Thumbnails

ENCODER = {"name": "made up", "fingerprint": "0" * 64}
WORDS = {"card": "my card is lost", "rate": "the exchange rate", "pin": "change my PIN", "fee": "a fee was charged"}
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>&quot;'\u2028\u202e"


def grouped(n_categories: int, n: int, width: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    truth = np.arange(n) % n_categories
    return 3 * np.eye(width)[truth] + 0.35 * rng.normal(size=(n, width)), truth


def half_labelled(truth: np.ndarray, n_known: int) -> np.ndarray:
    order = np.arange(len(truth)) // (truth.max() + 1)
    return np.where((truth < n_known) & (order % 2 == 0), truth, -1)


def save(collection: FeatureSet, n_categories: int, folder: Path, source: str, **options: Any) -> Path:
    model = PIM(n_categories, lam=0.3, temperature=10.0, consensus=3, max_iter=60, random_state=0)
    discovery = discover(collection, method=model)
    discovery.source = source
    return discovery.save(folder, **options)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("looked-at")


@pytest.fixture(scope="session")
def digits_run(runs: Path) -> Path:
    return save(digits(), 10, runs / "digits", "handwritten digits")


@pytest.fixture(scope="session")
def texts_run(runs: Path) -> Path:
    features, truth = grouped(4, 240)
    sentences = list(WORDS.values())
    texts = tuple(f"{sentences[t]}, number {i}" for i, t in enumerate(truth))
    names = tuple(WORDS)
    collection = FeatureSet(
        features, half_labelled(truth, 2), truth, names, texts=texts, encoder={**ENCODER, "kind": "texts"}
    )
    return save(collection, 4, runs / "tickets", "tickets.csv")


@pytest.fixture(scope="session")
def photos_run(runs: Path) -> Path:
    pytest.importorskip("PIL", reason="photos need Pillow: the extra images")
    features, truth = grouped(3, 90)
    rng = np.random.default_rng(1)
    pictures = [
        np.clip(60 + 180 * np.eye(3)[t] + rng.normal(0, 20, (60, 90, 3)), 0, 255).astype(np.uint8) for t in truth
    ]
    collection = FeatureSet(
        features,
        half_labelled(truth, 2),
        names=("pug", "beagle"),
        ids=tuple(f"photos/{i}.jpg" for i in range(90)),
        images=Thumbnails(pictures),
        encoder={**ENCODER, "kind": "images"},
    )
    return save(collection, 3, runs / "photos", "photos")


@pytest.fixture(scope="session")
def hostile_run(runs: Path) -> Path:
    features, truth = grouped(4, 120)
    texts = tuple(f"{HOSTILE} {t}" for t in truth)
    ids = tuple(f"{HOSTILE}{i}" for i in range(120))
    names = (f"{HOSTILE} one", f"{HOSTILE} two")
    collection = FeatureSet(
        features, half_labelled(truth, 2), names=names, ids=ids, texts=texts, encoder={**ENCODER, "kind": "texts"}
    )
    run = save(collection, 4, runs / "hostile", HOSTILE)
    return run
