"""Names that are suggested for new categories."""

import numpy as np
import pytest

from newkinds.naming import MOST_TEXTS, suggest_by_neighbours, suggest_by_words, suggest_names

CARD = ["I lost my card", "My card is lost!", "card lost again", "a lost card", "LOST CARD"]
PIN = ["Change the PIN", "I want a new PIN", "new PIN please", "how do I change my PIN?", "the PIN, the PIN"]
RATE = ["the exchange rate of the euro", "Exchange rates?", "which exchange rate", "your exchange rate", "the rate"]


def names_of(*groups: list[str], wanted: list[int] | None = None) -> dict[int, str]:
    texts = [text for group in groups for text in group]
    columns = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    return suggest_by_words(texts, columns, list(range(len(groups))) if wanted is None else wanted)


def test_words_that_the_others_lack_name_a_category() -> None:
    names = names_of(CARD, PIN, RATE)
    assert names[0] in ("lost card", "card lost")
    assert "PIN" in names[1].replace(",", "").split()
    assert names[2].startswith("exchange rate")


def test_only_those_that_are_wanted_are_named() -> None:
    assert list(names_of(CARD, PIN, RATE, wanted=[1])) == [1]


def test_names_have_at_most_three_words_and_none_twice() -> None:
    long = ["red green blue yellow pink brown"] * 5
    names = names_of(long, PIN)
    words = names[0].replace(",", "").lower().split()
    assert len(words) == len(set(words)) == 3


def test_words_are_spelt_as_most_texts_do_and_the_beginning_of_a_text_is_no_name() -> None:
    names = names_of(["Refund please", "Refund now", "a refund", "My IBAN refund", "the IBAN"], PIN)
    assert set(names[0].replace(",", "").split()) >= {"refund", "IBAN"}


def test_plurals_count_as_one_word() -> None:
    names = names_of(["one fee", "two fees", "the fees", "a fee", "these fees"], PIN)
    assert names[0] == "fee"


def test_words_that_say_nothing_are_left_out_in_several_languages() -> None:
    groups = [
        ["ich habe meine Karte verloren", "die Karte ist weg", "wo ist die Karte", "meine Karte ist kaputt"],
        ["où est mon virement", "le virement est en retard", "mon virement", "je veux un virement"],
        ["quiero cambiar la clave", "la clave no funciona", "mi clave", "olvidé la clave"],
    ]
    names = names_of(*groups)
    assert [names[i].split(",")[0] for i in range(3)] == ["Karte", "virement", "clave"]


def test_letters_with_marks_of_their_own_are_letters() -> None:
    hindi = ["मेरा कार्ड खो गया", "कार्ड नहीं मिला", "कार्ड कहाँ है"]
    assert "कार्ड" in names_of(hindi, PIN)[0]
    decomposed = ["mon re\u0301sume\u0301", "le re\u0301sume\u0301 ici", "un re\u0301sume\u0301"]
    assert names_of(decomposed, PIN)[0] == "résumé"
    assert "карта" in names_of(["моя карта", "где карта", "карта не работает"], PIN)[0]


def test_scripts_without_blanks_have_names_too() -> None:
    names = names_of(["我的卡丢了", "卡丢了怎么办", "银行卡丢了"], PIN)
    assert "卡丢" in names[0] or "丢了" in names[0]


@pytest.mark.parametrize(
    "texts", [["the", "of", "and"], ["", " ", ""], ["123", "456", "789"], ["a b", "c d", "e f"]]
)
def test_texts_without_a_common_word_have_no_name(texts: list[str]) -> None:
    assert 0 not in names_of(texts, PIN)


def test_a_single_category_is_named_by_its_frequent_words() -> None:
    assert "lost" in names_of(CARD)[0]


def test_empty_categories_and_no_texts_at_all() -> None:
    assert suggest_by_words([], np.array([], dtype=np.int64), []) == {}
    assert list(suggest_by_words(CARD, np.full(5, 2), [0, 2])) == [2]


def test_numbers_within_words_are_no_words() -> None:
    names = names_of(["on the 5th", "at the 5th", "before the 5th"], PIN)
    assert 0 not in names


def test_a_large_collection_is_looked_at_in_part_and_small_categories_whole() -> None:
    texts = ["send money abroad"] * (2 * MOST_TEXTS) + CARD
    columns = np.array([0] * (2 * MOST_TEXTS) + [1] * len(CARD))
    names = suggest_by_words(texts, columns, [0, 1])
    assert "money" in names[0]
    assert "lost" in names[1]


def test_other_samples_are_named_by_the_known_kinds_near_them() -> None:
    middles = np.eye(4)[[0, 1, 2, 0]] + 0.1 * np.eye(4)[[1, 0, 0, 1]]
    middles[3] = 0
    names = ["Persian", "Birman", "new-1", "new-2"]
    assert suggest_by_neighbours(middles, [0, 1], names, [2, 3]) == {2: "near Persian, Birman"}
    assert suggest_by_neighbours(middles, [], names, [2, 3]) == {}


def test_two_categories_near_the_same_kinds_are_told_apart_if_possible() -> None:
    middles = np.array([[1, 0, 0], [0.9, 0.1, 0], [0, 0, 1], [1, 0.05, 0], [1, 0.05, 0], [1, 0.05, 0.0]])
    names = ["a", "b", "c", "new-1", "new-2", "new-3"]
    suggestions = suggest_by_neighbours(middles, [0, 1, 2], names, [3, 4, 5])
    assert suggestions == {3: "near a, b", 4: "near a, b, c", 5: "near a, b"}


def test_texts_without_words_fall_back_on_their_neighbours() -> None:
    features = np.repeat(np.eye(3), 4, axis=0)
    columns = np.repeat(np.arange(3), 4)
    texts = ["my card"] * 4 + ["the PIN"] * 4 + ["", "?", "!", "…"]
    names = suggest_names(features, columns, ["card", "new-1", "new-2"], 1, texts)
    assert names == {1: "PIN", 2: "near card"}
    assert suggest_names(features, columns, ["a", "b", "c"], 0, None) == {}


def test_a_category_without_texts_gets_no_name() -> None:
    texts = ["my card is lost", "I lost a card", "Lost card!", "change the PIN", "new PIN please", "the PIN?"]
    assert set(suggest_by_words(texts, np.array([0, 0, 0, 2, 2, 2]), [0, 1, 2, 3])) == {0, 2}
