"""A small run that the tests of editing share."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import newkinds
from tests.editing import living

N, WIDTH, KINDS = 120, 8, 6
TRUTH = np.arange(N) % KINDS
X = 3 * np.eye(WIDTH)[TRUTH] + 0.4 * np.random.default_rng(0).normal(size=(N, WIDTH))
NAMES = ["ant", "owl", "wren"]
"""Of the known kinds; the others are new-1, new-2 and new-3."""
LABELS = [NAMES[kind] if kind < 3 and row < N // 2 else None for row, kind in enumerate(TRUTH)]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder; read it, but do not change it."""
    discovery = newkinds.discover(X, LABELS, n_categories=KINDS, lam=0.3, max_iter=30, temperature=10.0)
    assert [category["size"] for category in discovery.record["categories"]] == [20] * KINDS
    return discovery.save(tmp_path_factory.mktemp("made") / "run", with_map=False)


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A run folder of the test's own."""
    return Path(shutil.copytree(made, tmp_path / "run"))


@pytest.fixture(scope="session")
def grows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder to which more samples come; read it, but do not change it."""
    discovery = newkinds.discover(living.X, living.LABELS, n_categories=living.KINDS, lam=0.1, temperature=25.0)
    return discovery.save(tmp_path_factory.mktemp("living") / "run", with_map=False)
