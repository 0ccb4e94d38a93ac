"""Labels: what counts as one, what counts as none, and how names become integers and back."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newkinds import UNLABELLED, InputError
from newkinds.labels import (
    MISREAD_AS_TEXT,
    category_names,
    check_labels,
    encode_labels,
    is_missing,
    known_categories,
    named_labels,
    to_columns,
)

LARGEST = 2**62  # discovered categories get the ids above the known ones

ids = st.integers(0, LARGEST)
blanks = st.sampled_from([None, float("nan"), pd.NA, "", "  "])
# Text that is no blank, no whole number, and not what a missing label becomes as text.
names = st.text(min_size=1).filter(
    lambda s: s.strip() not in ("", *MISREAD_AS_TEXT) and not re.fullmatch(r"-?\d+(\.0)?", s.strip())
)


# check_labels


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "float32", "float64", "object"])
def test_whole_numbers_of_every_type_become_int64(dtype):
    labels = check_labels(np.array([3, 0, -1], dtype=dtype), 3)
    assert labels.dtype == np.int64
    assert labels.tolist() == [3, 0, -1]


@pytest.mark.parametrize("dtype", ["int64", "Int64", "float64", "Float64", "object"])
def test_whole_numbers_of_every_pandas_type_become_int64(dtype):
    labels = check_labels(pd.Series([3, 0, -1], dtype=dtype), 3)
    assert labels.dtype == np.int64
    assert labels.tolist() == [3, 0, -1]


def test_no_labels_means_that_all_are_unlabelled():
    assert check_labels(None, 4).tolist() == [UNLABELLED] * 4


def test_checking_no_samples_gives_no_labels():
    assert check_labels([], 0).shape == (0,)


def test_a_column_of_labels_is_taken_as_a_vector():
    assert check_labels(np.array([[1], [2], [-1]]), 3).tolist() == [1, 2, -1]


def test_checking_leaves_the_labels_given_as_they_were():
    given_labels = np.array([1, -1])
    check_labels(given_labels, 2)[0] = 5
    assert given_labels.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("labels", "shape"),
    [(np.zeros((3, 2), int), r"\(3, 2\)"), (np.array(1), r"\(\)"), (np.zeros((3, 1, 1)), "1, 1")],
)
def test_labels_that_are_no_vector_are_refused_with_their_shape(labels, shape):
    with pytest.raises(InputError, match=f"one-dimensional.*{shape}"):
        check_labels(labels, 3)


def test_lists_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="shape"):
        check_labels([[1], [1, 2]], 2)


@pytest.mark.parametrize("count", [0, 2, 4])
def test_too_few_or_too_many_labels_are_refused_with_both_counts(count):
    with pytest.raises(InputError, match=f"3 samples but {count} labels"):
        check_labels([0] * count, 3)


@pytest.mark.parametrize("value", [0.5, float("nan"), float("inf"), float("-inf")])
def test_a_label_that_is_no_whole_number_is_refused_with_its_place(value):
    with pytest.raises(InputError, match=rf"integers.*{value} at position 2"):
        check_labels([0.0, 1.0, value], 3)


def test_text_is_refused_with_the_way_to_turn_it_into_integers():
    with pytest.raises(InputError, match=r"str such as 'cat'.*encode_labels"):
        check_labels(["cat", "dog"], 2)


def test_text_in_a_pandas_column_is_refused():
    with pytest.raises(InputError, match="'cat'"):
        check_labels(pd.Series(["cat", "dog"], dtype="category"), 2)


@pytest.mark.parametrize(
    "labels",
    [[0, None], [None, 0], [0, pd.NA], [None, None], pd.array([0, None], dtype="Int64"), pd.Series([0, None])],
    ids=["None last", "None first", "NA", "all None", "Int64", "float with NaN"],
)
def test_a_missing_label_is_refused_because_minus_one_says_it(labels):
    with pytest.raises(InputError, match="-1"):
        check_labels(labels, 2)


@pytest.mark.parametrize("labels", [np.array(["2020-01-01"], "M8[D]"), np.array([1j]), [b"cat"], [{}]])
def test_labels_that_are_no_numbers_at_all_are_refused(labels):
    with pytest.raises(InputError, match="must be integers"):
        check_labels(labels, 1)


def test_a_label_below_minus_one_is_refused_with_its_place():
    with pytest.raises(InputError, match="-7 at position 1"):
        check_labels([0, -7], 2)


@pytest.mark.parametrize("value", [np.uint64(2**64 - 1), np.uint64(2**63), 1e30, 2.0**63])
def test_a_label_too_large_for_an_integer_is_refused_and_does_not_wrap_around(value):
    with pytest.raises(InputError, match="label"):
        check_labels(np.array([value]), 1)


# known_categories and to_columns


def test_known_categories_are_ascending_and_without_the_unlabelled():
    assert known_categories(np.array([7, -1, 2, 7, 0])).tolist() == [0, 2, 7]


def test_nothing_is_known_where_nothing_is_labelled():
    assert known_categories(np.array([-1, -1])).size == 0
    assert to_columns(np.array([-1, -1]), known_categories(np.array([-1, -1]))).tolist() == [-1, -1]


@given(st.lists(st.one_of(st.just(-1), st.integers(0, 20), ids), max_size=30))
def test_columns_lead_back_to_the_labels(values):
    labels = np.array(values, dtype=np.int64)
    known = known_categories(labels)
    columns = to_columns(labels, known)
    assert set(known.tolist()) == set(values) - {-1}
    assert set(columns[columns >= 0].tolist()) == set(range(len(known)))
    assert [-1 if c < 0 else known[c] for c in columns] == values


# is_missing


@pytest.mark.parametrize("value", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, "", " \t\n", np.str_("")])
def test_missing_and_blank_cells_say_no_label(value):
    assert is_missing(value)


@pytest.mark.parametrize(
    "value", [0, -1, 0.0, False, "0", "nan", "None", " x ", np.int64(0), np.str_("a"), float("inf")]
)
def test_cells_with_something_in_them_are_not_missing(value):
    assert not is_missing(value)


# encode_labels


def test_integers_keep_their_value_and_need_no_names():
    labels, vocabulary = encode_labels([4, 0, -1, np.int32(9)])
    assert labels.dtype == np.int64
    assert labels.tolist() == [4, 0, -1, 9]
    assert vocabulary is None


def test_integers_written_as_text_or_as_floats_are_integers():
    labels, vocabulary = encode_labels(["4", " 0 ", "-1", 2.0, np.float32(7)])
    assert labels.tolist() == [4, 0, -1, 2, 7]
    assert vocabulary is None


def test_integers_that_a_table_wrote_as_floats_are_integers():
    labels, vocabulary = encode_labels(["4.0", "0.0", "-1.0", "2"])
    assert labels.tolist() == [4, 0, -1, 2]
    assert vocabulary is None


def test_true_and_false_are_names_and_no_integers():
    labels, vocabulary = encode_labels([True, False, None, np.True_])
    assert labels.tolist() == [1, 0, -1, 1]
    assert vocabulary == ("False", "True")


def test_a_fraction_is_a_name_where_the_categories_have_names():
    labels, vocabulary = encode_labels([0.5, "owl"], names=("owl",))
    assert labels.tolist() == [1, 0]
    assert vocabulary == ("owl", "0.5")


def test_names_are_numbered_in_alphabetical_order_from_zero():
    labels, vocabulary = encode_labels(["wren", "robin", "wren", "owl"])
    assert vocabulary == ("owl", "robin", "wren")
    assert labels.tolist() == [2, 1, 2, 0]


def test_blanks_around_a_name_do_not_count():
    labels, vocabulary = encode_labels([" owl", "owl ", "wren"])
    assert vocabulary == ("owl", "wren")
    assert labels.tolist() == [0, 0, 1]


def test_numbers_among_names_are_names_and_a_float_is_the_same_as_its_integer():
    labels, vocabulary = encode_labels(["owl", 3, 3.0])
    assert vocabulary == ("3", "owl")
    assert labels.tolist() == [1, 0, 0]


@pytest.mark.parametrize("unlabelled", [None, float("nan"), pd.NA, "", "  ", -1, "-1", -1.0, np.int64(-1)])
def test_every_way_to_say_unlabelled_works_among_names(unlabelled):
    labels, vocabulary = encode_labels(["owl", unlabelled, "wren"])
    assert vocabulary == ("owl", "wren")
    assert labels.tolist() == [0, -1, 1]


@pytest.mark.parametrize("unlabelled", [None, -1, "-1"])
def test_every_way_to_say_unlabelled_works_where_names_have_ids_already(unlabelled):
    labels, vocabulary = encode_labels(["owl", unlabelled, "ant"], names=("owl",))
    assert vocabulary == ("owl", "ant")
    assert labels.tolist() == [0, -1, 1]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([2, None, 0], dtype="Int64"),
        pd.Series([2, None, 0]),
        pd.Series([2, None, 0], dtype="object"),
        pd.Series(["2", None, "0"], dtype="string"),
    ],
    ids=["Int64", "float", "object", "string"],
)
def test_pandas_columns_of_integers_with_gaps(column):
    labels, vocabulary = encode_labels(column)
    assert labels.tolist() == [2, -1, 0]
    assert vocabulary is None


@pytest.mark.parametrize("dtype", ["string", "category", "object"])
def test_pandas_columns_of_names_with_gaps(dtype):
    labels, vocabulary = encode_labels(pd.Series(["owl", None, "ant"], dtype=dtype))
    assert labels.tolist() == [1, -1, 0]
    assert vocabulary == ("ant", "owl")


def test_an_empty_column_and_a_column_of_gaps_have_no_names():
    assert encode_labels([])[0].tolist() == []
    labels, vocabulary = encode_labels([None, "", float("nan")])
    assert labels.tolist() == [-1, -1, -1]
    assert vocabulary is None


@pytest.mark.parametrize("value", [0.5, np.float32(1.25), float("inf"), np.float64("-inf")])
def test_a_fraction_is_no_label(value):
    with pytest.raises(InputError, match=rf"integers or names.*{float(value)}"):
        encode_labels([1.0, value])


@pytest.mark.parametrize("text", ["nan", "None", "<NA>", "NaT"])
def test_missing_labels_that_were_made_text_are_not_taken_for_a_category(text):
    with pytest.raises(InputError, match=f"a label reads '{text}'.*leave missing labels blank"):
        encode_labels(np.array(["cat", text]))


def test_codes_with_leading_zeros_are_names():
    assert encode_labels(["007", "7", ""])[1] == ("007", "7")


@pytest.mark.parametrize("value", [-3, "-3", -2.0])
def test_an_integer_below_minus_one_is_no_label(value):
    with pytest.raises(InputError, match=r"at least 0, got -[23] at position 1"):
        encode_labels([1, value])


@pytest.mark.parametrize("value", [2**53 + 1, str(2**53 + 1), LARGEST, str(LARGEST)])
def test_large_ids_are_kept_to_the_last_digit(value):
    labels, vocabulary = encode_labels([value, 0])
    assert labels.tolist() == [int(value), 0]
    assert vocabulary is None


@pytest.mark.parametrize("value", [LARGEST + 1, "9" * 30, 1e30, np.uint64(2**64 - 1)])
def test_an_id_too_large_for_an_integer_is_refused(value):
    with pytest.raises(InputError, match="label"):
        encode_labels([value, 0])


def test_a_table_where_a_column_should_be_is_refused_and_not_read_as_unlabelled():
    with pytest.raises(InputError, match="label"):
        encode_labels(np.array([[0, 1], [1, 0]]))


@given(st.lists(st.one_of(ids, st.just(-1), blanks)))
def test_integers_and_blanks_come_back_as_they_are(values):
    labels, vocabulary = encode_labels(values)
    assert labels.tolist() == [v if isinstance(v, int) else -1 for v in values]
    assert vocabulary is None


@given(st.lists(ids))
def test_integers_as_text_mean_the_same_as_integers(values):
    assert encode_labels(map(str, values))[0].tolist() == values


@given(st.lists(st.one_of(names, blanks)).filter(lambda values: any(not is_missing(v) for v in values)))
def test_names_lead_back_to_the_texts(values):
    labels, vocabulary = encode_labels(values)
    assert vocabulary is not None
    assert vocabulary == tuple(sorted(set(vocabulary)))
    back = [None if i < 0 else vocabulary[i] for i in labels]
    assert back == [None if is_missing(v) else v.strip() for v in values]


@given(st.lists(names), st.lists(names.map(str.strip), unique=True, min_size=1))
def test_names_that_have_an_id_keep_it(values, earlier):
    labels, vocabulary = encode_labels(values, names=earlier)
    assert vocabulary is not None
    assert vocabulary[: len(earlier)] == tuple(earlier)
    assert [vocabulary[i] for i in labels] == [v.strip() for v in values]


def test_numbers_that_no_id_can_be_are_refused_or_names():
    with pytest.raises(InputError, match="at least 0, got -999"):
        encode_labels(["-" + "9" * 30, "1"])
    digits = "1" * 5000
    assert encode_labels([digits, "2"])[1] == (digits, "2")


# named_labels and category_names


@pytest.mark.parametrize(
    "labels",
    [
        ["cat", None, "dog", ""],
        ["cat", float("nan"), "dog", "  "],
        ("cat", pd.NA, " dog ", None),
        np.array(["cat", "", "dog", ""]),
        np.array(["cat", None, "dog", np.nan], dtype=object),
        np.array([["cat"], [None], ["dog"], [None]], dtype=object),
        pd.Series(["cat", None, "dog", None]),
        pd.Series(["cat", None, "dog", None], dtype="string"),
        pd.Series(["cat", None, "dog", None], dtype="category"),
        pd.Categorical(["cat", None, "dog", None], categories=["dog", "cat", "emu"]),
        pd.DataFrame({"animal": ["cat", None, "dog", None]}),
        ["cat", -1, "dog", "-1"],
    ],
)
def test_names_as_people_have_them(labels):
    found, names = named_labels(labels, 4)
    assert found.tolist() == [0, -1, 1, -1]
    assert found.dtype == np.int64
    assert names == ("cat", "dog")


@pytest.mark.parametrize(
    "labels",
    [
        [7, -1, 2],
        [7, None, 2],
        [7.0, float("nan"), 2.0],
        np.array([7, np.nan, 2], dtype=np.float16),
        ["7", "", "2"],
        pd.array([7, None, 2], dtype="Int64"),
        pd.Series([7, None, 2], dtype="category"),
        np.array([[7], [-1], [2]], dtype=np.int8),
    ],
)
def test_integers_with_gaps_keep_their_values(labels):
    found, names = named_labels(labels, 3)
    assert found.tolist() == [7, -1, 2]
    assert names is None


def test_no_labels_are_all_unlabelled():
    assert named_labels(None, 2)[0].tolist() == [-1, -1]


def test_true_and_false_are_two_names():
    labels, names = named_labels(np.array([True, False]), 2)
    assert (labels.tolist(), names) == ([1, 0], ("False", "True"))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["cat"], "2 samples but 1 labels"),
        ([0.5, 1.0], "got 0.5 at position 0"),
        ([np.inf, 1.0], "got inf at position 0"),
        ([0, -2], "got -2 at position 1"),
        ([["cat", "dog"], ["a", "b"]], "one-dimensional"),
        ([b"cat", b"dog"], "got b'cat'"),
        (np.array([b"cat", b"dog"]), "got np.bytes_"),
        (np.array(["cat", "nan"]), "a label reads 'nan'"),
        (["cat", 0.5], "the fraction 0.5"),
        ("cat", "one-dimensional"),
    ],
)
def test_what_is_no_column_of_labels_is_refused(labels, message):
    with pytest.raises(InputError, match=message):
        named_labels(labels, 2)


def test_discovered_categories_never_have_the_name_of_a_known_one():
    assert category_names({3: "owl", 7: "wren"}, [8, 9]) == {3: "owl", 7: "wren", 8: "new-1", 9: "new-2"}
    assert category_names({0: "new-1"}, [1]) == {0: "new-1", 1: "discovered-1"}
    assert category_names({0: "new-1", 1: "discovered-x"}, [2])[2] == "discovered2-1"
    assert category_names({}, [0]) == {0: "new-1"}
