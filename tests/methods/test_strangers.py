"""What fitted models say of samples of no category, and what is saved of it."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from newkinds import PIM, InputError, KMeans, SemiSupervisedKMeans
from tests.blobs import blobs

KINDS = 12
X, TRUTH = blobs(KINDS, 24)
Y = np.where((TRUTH < 8) & (np.arange(len(X)) % 2 == 0), TRUTH, -1)
ORDINARY, _ = blobs(KINDS, 8, seed=1)
STRANGE, _ = blobs(6, 8, seed=1, first=KINDS)
ASKED = np.concatenate([ORDINARY, STRANGE])
IS_STRANGE = np.arange(len(ASKED)) >= len(ORDINARY)


@pytest.fixture(scope="module")
def model():
    return PIM(KINDS, lam=0.1, temperature=25.0, random_state=0).fit(X, Y)


@pytest.mark.parametrize(
    "method",
    [
        PIM(KINDS, lam=0.1, temperature=25.0, random_state=0),
        PIM(KINDS, lam=0.1, temperature=25.0, metric="self", random_state=0),
        KMeans(KINDS, random_state=0),
        SemiSupervisedKMeans(KINDS, random_state=0),
    ],
)
def test_samples_of_absent_kinds_are_strange_to_every_method(method):
    model = method.fit(X, Y)
    strangeness = model.strangeness(ASKED)
    assert roc_auc_score(IS_STRANGE, strangeness) > 0.95
    assert strangeness[~IS_STRANGE].mean() < 0.2
    assert ((strangeness >= 0) & (strangeness <= 1)).all()


def test_strangeness_is_not_novelty(model):
    new, _ = blobs(KINDS - 8, 8, seed=2, first=8)
    assert model.novelty(new).mean() > 0.8
    assert model.strangeness(new).mean() < 0.2


def test_the_share_of_strangers_can_be_given(model):
    few, many = (model.strangeness(ASKED, share=share).mean() for share in (0.01, 0.9))
    assert few < many
    alone, together = model.strangeness(ASKED[:1], share=0.2), model.strangeness(ASKED, share=0.2)[:1]
    np.testing.assert_allclose(alone, together, rtol=1e-6)
    with pytest.raises(InputError, match=r"share is a part of the samples, between 0 and 1; got 1\.5"):
        model.strangeness(ASKED, share=1.5)


def test_it_is_the_same_after_saving_copying_and_asking_again(model):
    fresh = PIM(KINDS, lam=0.1, temperature=25.0, random_state=0).fit(X, Y)
    before = copy.deepcopy(fresh)
    expected = fresh.strangeness(ASKED)
    restored = PIM().restore(fresh.fitted_arrays())
    for other in (before, restored, pickle.loads(pickle.dumps(fresh))):
        np.testing.assert_allclose(other.strangeness(ASKED), expected, rtol=1e-5)


def test_with_few_kinds_and_in_old_models_it_is_what_confidence_leaves(model):
    few = PIM(2, lam=0.1, temperature=25.0, random_state=0).fit(X[:48], Y[:48])
    np.testing.assert_array_equal(few.strangeness(ASKED), 1 - few.assess(ASKED).confidence)
    old = {name: array for name, array in model.fitted_arrays().items() if not name.startswith("strange_")}
    restored = PIM().restore(old)
    np.testing.assert_array_equal(restored.strangeness(ASKED), 1 - restored.assess(ASKED).confidence)


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("strange_rule", lambda a: a[:-1], "does not fit together"),
        ("strange_births", lambda a: a[:-1], "does not fit together"),
        ("strange_facets", lambda a: a[:, 1:], "does not fit its features"),
        ("strange_scaling", lambda a: a[1:], "does not fit its features"),
        ("strange_means", lambda a: a[:0], "does not fit together"),
        ("strange_middle", lambda a: a * np.nan, "strange_middle should be finite numbers"),
        ("strange_scaling", lambda a: a.astype(int), "strange_scaling should be finite numbers"),
    ],
)
def test_a_damaged_description_is_refused(model, name, change, says):
    arrays = model.fitted_arrays()
    with pytest.raises(InputError, match=says):
        PIM().restore({**arrays, name: change(arrays[name])}).strangeness(ASKED)


def test_a_new_fit_forgets_the_old_looks(model):
    again = copy.deepcopy(model)
    again.strangeness(ASKED)
    again.fit(np.concatenate([X, STRANGE]), np.concatenate([Y, np.full(len(STRANGE), -1)]))
    assert again.strangers_ is None
    again.set_params(n_categories=KINDS + 6).fit(np.concatenate([X, STRANGE]), np.append(Y, [-1] * len(STRANGE)))
    assert again.strangeness(STRANGE).mean() < 0.3
