"""One list of formats: every ending has its reader, and a new kind of table works wherever tables are read."""

import numpy as np
import pytest

from newkinds.data import reading, tables, writing
from newkinds.data.labelling import read_labels
from newkinds.data.sources import kind_of
from newkinds.names import FEATURE_ENDINGS, LABEL_ENDINGS, TABLE_ENDINGS, listed
from tests.data.refusal import refused


def test_every_ending_has_a_reader_and_a_writer_and_no_other_has():
    assert set(tables.READERS) == set(TABLE_ENDINGS)
    assert set(reading.READERS) == set(FEATURE_ENDINGS)
    assert set(writing.WRITERS) == set(FEATURE_ENDINGS)
    assert set(LABEL_ENDINGS) == {".npy", *TABLE_ENDINGS}


@pytest.mark.parametrize("ending", TABLE_ENDINGS)
def test_a_table_is_taken_for_texts_unless_it_can_hold_features(tmp_path, ending):
    assert kind_of(tmp_path / f"a{ending}") == (None if ending in FEATURE_ENDINGS else "texts")


@pytest.mark.parametrize("ending", [".xls", ".doc", ".csv.bz2", ""])
def test_other_endings_are_refused_with_all_that_are_read(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    path.write_text("label\nowl\n")
    with refused(str(path), listed(TABLE_ENDINGS)):
        tables.read_table(path)
    with refused(str(path), listed(LABEL_ENDINGS)):
        read_labels(path, 1)
    with refused(str(path), listed(FEATURE_ENDINGS), "released layout"):
        reading.read_features(path)


def test_an_ending_may_be_in_capitals(tmp_path):
    (tmp_path / "LABELS.CSV").write_text("label\nowl\n")
    assert read_labels(tmp_path / "LABELS.CSV", 1) == ["owl"]
    np.save(tmp_path / "labels.npy", np.array([3]))
    (tmp_path / "labels.npy").rename(tmp_path / "labels.NPY")
    assert read_labels(tmp_path / "labels.NPY", 1) == [3]
