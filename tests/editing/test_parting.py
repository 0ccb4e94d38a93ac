"""A kind that the fit made of two is parted by the first update to which something is born."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sklearn.metrics import adjusted_rand_score

import newkinds
from newkinds.editing import EditedRun, rename, update
from newkinds.editing.sentences import update_sentence
from newkinds.run_folder import read_predictions, read_run
from tests.editing.living import KINDS, KNOWN, LABELS, SIZE, TRUTH, X, arrivals

NEAR = X.copy()
"""Two of the kinds without labels are near to each other."""
NEAR[TRUTH == KINDS - 1] += 0.5 * (X[TRUTH == KINDS - 2].mean(axis=0) - X[TRUTH == KINDS - 1].mean(axis=0))
WHOLE = KNOWN
"""Those two, once they are one."""


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a category too few; read it, but do not change it."""
    discovery = newkinds.discover(NEAR, LABELS, n_categories=KINDS - 1)
    sizes = {category["id"]: category["size"] for category in discovery.record["categories"]}
    assert sizes == {category: SIZE + SIZE * (category == WHOLE) for category in range(KINDS - 1)}
    return discovery.save(tmp_path_factory.mktemp("joined") / "run", with_map=False)


@pytest.fixture
def run(joined: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(joined, tmp_path / "run"))


def test_a_kind_that_is_two_is_parted_once(run: Path) -> None:
    before = read_predictions(run)["category"].to_numpy()
    assert not {"born", "parted"} & update(run, arrivals(0, 2, 6)).changes.keys()
    done = update(run, arrivals(KINDS, 1, 30))
    assert [c["id"] for c in done.changes["born"]] == [KINDS - 1, KINDS]
    [[part, of]] = done.changes["parted"]
    assert of == WHOLE
    assert f"{done.names[part]} was part of {done.names[WHOLE]}" in update_sentence(
        done.changes, done.names.__getitem__
    )
    after = read_predictions(run)["category"].to_numpy()[: len(X)]
    assert adjusted_rand_score(TRUTH, after) > 0.95 > adjusted_rand_score(TRUTH, before)
    assert read_run(run)["window"]["parted"]
    assert "parted" not in update(run, arrivals(KINDS + 1, 1, 40)).changes


@pytest.mark.parametrize(
    "say",
    [
        lambda run: rename(run, "new-1", "bees"),
        lambda run: EditedRun(run).confirm(EditedRun(run).members("new-1")[:1]),
    ],
    ids=["named", "confirmed"],
)
def test_a_kind_of_which_somebody_has_spoken_is_not_parted(run: Path, say: Callable[[Path], object]) -> None:
    say(run)
    done = update(run, arrivals(KINDS, 1, 30))
    assert len(done.changes["born"]) == 1
    assert "parted" not in done.changes


def test_a_run_that_the_fit_got_right_is_not_parted(grows: Path, tmp_path: Path) -> None:
    done = update(grows, arrivals(KINDS, 1, 30), out=tmp_path / "out")
    assert len(done.changes["born"]) == 1
    assert not {"parted", "moved"} & done.changes.keys()
