"""What a discovery meets later: columns in another order, a run that was replaced, odd samples."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.cluster import KMeans

from newkinds import Discovery, FeatureSet, InputError, SemiSupervisedKMeans, discover, load, open_run
from newkinds.gathering import gather

QUICK: dict[str, Any] = {"method": "sskm", "n_categories": 3}


@pytest.fixture
def frame() -> pd.DataFrame:
    """Three kinds of ten samples, told apart by the columns."""
    X = np.repeat(np.eye(3), 10, axis=0) + np.random.default_rng(0).normal(scale=0.1, size=(30, 3))
    return pd.DataFrame(X, columns=["a", "b", "c"])


LABELS = ["owl" if i < 5 else "wren" if 10 <= i < 15 else None for i in range(30)]


def test_the_model_of_a_run_puts_columns_in_order(frame: pd.DataFrame, tmp_path: Path) -> None:
    model = load(discover(frame, LABELS, **QUICK).save(tmp_path / "run"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = model.predict(frame)
        assert expected.tolist() == model.predict(frame.to_numpy()).tolist()
        assert model.predict(frame[["c", "a", "b"]]).tolist() == expected.tolist()
    with pytest.raises(InputError, match="lacks 'b'"):
        model.predict(frame.rename(columns={"b": "d"}))
    with pytest.raises(InputError, match="'d' is too many"):
        model.predict(frame.assign(d=0.0))


def test_the_names_of_a_collection_survive_a_model_fitted_on_its_ids(frame: pd.DataFrame, tmp_path: Path) -> None:
    collection = gather(frame, LABELS, truth=["owl"] * 10 + ["wren"] * 10 + ["crow"] * 10)
    assert isinstance(collection, FeatureSet)
    model = SemiSupervisedKMeans(n_categories=3, random_state=0).fit(collection.features, collection.labels)
    found = Discovery(collection, model)
    assert sorted(found.names.values()) == ["new-1", "owl", "wren"]
    assert set(found.predictions["name"].to_pylist()[:5]) == {"owl"}
    opened = open_run(found.save(tmp_path / "run"))
    assert opened.collection.labels.tolist() == collection.labels.tolist()
    assert opened.score() == found.score()


@pytest.mark.parametrize(
    "ask",
    [
        lambda run, place: run.model,
        lambda run, place: run.collection,
        lambda run, place: run.predictions,
        lambda run, place: run.save(place / "copy"),
        lambda run, place: run.report(),
    ],
)
def test_a_run_that_was_replaced_is_not_mixed_with_the_new_one(
    ask: Any, frame: pd.DataFrame, tmp_path: Path
) -> None:
    first = discover(frame, LABELS, **QUICK)
    place = first.save(tmp_path / "run")
    opened = open_run(place)
    discover(frame, LABELS[::-1], **QUICK).save(place, overwrite=True)
    with pytest.raises(InputError, match="was changed since it was opened"):
        ask(opened, tmp_path)
    assert not (tmp_path / "copy").exists()
    with pytest.raises(InputError, match="was changed since"):
        first.report()


def test_odd_samples_and_methods_are_refused_in_words(frame: pd.DataFrame) -> None:
    found = discover(frame, LABELS, **QUICK, cache=None)
    with pytest.raises(InputError, match="there are no samples"):
        found.model.predict([])
    with pytest.raises(InputError, match="not a single one"):
        found.model.predict(Image.new("RGB", (4, 4)))
    for method in (SemiSupervisedKMeans, KMeans(3)):
        with pytest.raises(InputError, match="an estimator of this package"):
            discover(frame, LABELS, method=method)  # type: ignore[arg-type]  # which is the point
