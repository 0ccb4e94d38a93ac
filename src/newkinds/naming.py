"""Names that we suggest for new categories: of texts by their words, of other samples by the known kinds near them.

A suggestion never pretends to be a name: it stands beside the category's key, is marked wherever it is shown, and
gives way to a name that a person gives.

Words are weighed by category (class-based TF-IDF): a word is distinctive if many texts of a category have it and
few of the others. Pairs of neighbouring words count as words.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Any
from unicodedata import category, normalize

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from newkinds.labels import IntArray
from newkinds.middles import category_middles
from newkinds.stop_words import STOP_WORDS

MOST_WORDS = 3
MOST_TEXTS = 20_000
"""Texts that are looked at: of a larger collection, as many of each category as fit."""
MOST_SAMPLES = 1 << 16
"""The same of other samples."""
LONGEST_TEXT = 600
"""Characters of a text that are looked at; the subject stands at the beginning."""
LEAST_TEXTS, LEAST_SHARE = 2, 0.05
"""So many texts of a category, and this share of them, must have a word that names it."""
CHOICES = 30
"""Best terms of a category among which its name is put together."""
JOINED = 0.4
"""Of the texts that have two words, those in which one follows the other, from which on they are a pair."""
PAIR_BONUS = 1.15
"""Of a pair of words over a single one: it says more."""
LEAST_STEM = 3
"""Letters that two forms of one word share at least."""
NEAR_KINDS, MOST_NEAR = 2, 3
"""Known kinds that name a new one: two, or more where that tells it from another."""
MARKS = "".join(chr(code) for code in range(0x300, 0x10000) if category(chr(code)).startswith("M"))
"""Vowel signs and accents that stand as letters of their own beside the one they belong to."""
LETTERS = rf"[^\W\d_](?:[^\W\d_]|[{MARKS}])*"
WORD = re.compile(rf"(?<![\w{MARKS}]){LETTERS}(?:['’\-]{LETTERS})*")
UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]+")
"""Scripts that put no blank between words (Thai, Chinese, Japanese): there pairs of letters stand for words."""


def suggest_names(
    features: npt.NDArray[Any], columns: IntArray, names: Sequence[str], n_known: int, texts: Sequence[str] | None
) -> dict[int, str]:
    """A suggestion for each new category that one can be made for.

    Parameters
    ----------
    features : ndarray of shape (samples, features)
    columns : ndarray of shape (samples,)
        The category of each sample, from 0 on; those of known ones come first.
    names : sequence of str
        Of every category.
    n_known : int
    texts : sequence of str, optional
        The samples, where they are texts.
    """
    wanted = range(n_known, len(names))
    words = {} if texts is None else suggest_by_words(texts, columns, wanted)
    wordless = [column for column in wanted if column not in words]
    if not wordless or not n_known:
        return words
    rows = np.arange(0, len(columns), max(1, len(columns) // MOST_SAMPLES))
    middles = category_middles(features, columns, len(names), rows)
    return {**words, **suggest_by_neighbours(middles, range(n_known), names, wordless)}


def suggest_by_words(texts: Sequence[str], columns: IntArray, wanted: Sequence[int]) -> dict[int, str]:
    """A few distinctive words for each of some categories.

    Parameters
    ----------
    texts : sequence of str
    columns : ndarray of shape (texts,)
        The category of each text, from 0 on.
    wanted : sequence of int
        The categories to name. One without texts, or whose texts have no word in common, gets no name.

    Examples
    --------
    >>> texts = ["my card is lost", "I lost a card", "Lost card!", "change the PIN", "new PIN please", "the PIN?"]
    >>> suggest_by_words(texts, np.array([0, 0, 0, 1, 1, 1]), [0, 1])
    {0: 'card, lost', 1: 'PIN'}
    """
    rows = _looked_at(columns)
    vocabulary = _Vocabulary([texts[row][:LONGEST_TEXT] for row in rows.tolist()])
    # The last category may have no texts.
    shares, sizes = vocabulary.shares(columns[rows], max([int(columns.max(initial=0)), *wanted]) + 1)
    totals = np.asarray(shares.sum(axis=0)).ravel()
    n_others = max(int((sizes > 0).sum()) - 1, 1)
    names: dict[int, str] = {}
    for column in wanted:
        at = slice(*shares.indptr[[column, column + 1]])
        numbers, share = shares.indices[at], shares.data[at]
        elsewhere = (totals[numbers] - share) / n_others
        weights = share * np.log(share / (elsewhere + 1 / (2 * len(rows))))
        weights[vocabulary.is_pair[numbers]] *= PAIR_BONUS
        weights[share * sizes[column] < max(LEAST_TEXTS, LEAST_SHARE * sizes[column]) - 1e-9] = 0
        best = np.lexsort((numbers, -weights))[:CHOICES]
        terms = _diverse([vocabulary.terms[numbers[i]] for i in best.tolist() if weights[i] > 0])
        share_of = {vocabulary.terms[numbers[i]]: float(share[i]) for i in range(len(numbers))}
        terms = _joined(terms, share_of)
        if terms:
            names[column] = ", ".join(" ".join(vocabulary.shown(word) for word in term) for term in terms)
    return names


def suggest_by_neighbours(
    middles: npt.NDArray[np.floating], known: Sequence[int], names: Sequence[str], wanted: Sequence[int]
) -> dict[int, str]:
    """The known kinds that each of some categories is most like: "near Persian, Birman".

    Parameters
    ----------
    middles : ndarray of shape (categories, features)
        Their means at unit length; zero for one without samples.
    known : sequence of int
        The categories to choose from.
    names : sequence of str
        Of every category.
    wanted : sequence of int
        The categories to name.
    """
    candidates = [column for column in known if middles[column].any()]
    suggestions: dict[int, str] = {}
    for column in wanted:
        if candidates and middles[column].any():
            order = np.argsort(-(middles[candidates] @ middles[column]), kind="stable")
            nearest = [names[candidates[i]] for i in order[:MOST_NEAR]]
            choices = [f"near {', '.join(nearest[:n])}" for n in range(NEAR_KINDS, MOST_NEAR + 1)]
            free = (choice for choice in choices if choice not in suggestions.values())
            suggestions[column] = next(free, choices[0])
    return suggestions


@dataclass(frozen=True)
class _Word:
    """A word as it stands in a text, and in the form by which words are the same."""

    text: str
    form: str
    is_first: bool


class _Vocabulary:
    """The terms of some texts, single words and pairs of neighbours, and which texts have them."""

    def __init__(self, texts: Sequence[str]) -> None:
        # Words are taken apart twice: kept, those of long texts would fill the memory.
        forms = {word.form for text in texts for word in _words(text) if word is not None}
        self._spellings: dict[str, Counter[str]] = {}
        numbers: dict[tuple[str, ...], int] = {}
        term_numbers, lengths = [], []
        for words in map(_words, texts):
            singular = [None if word is None else _singular(word.form, forms) for word in words]
            for word, form in zip(words, singular, strict=True):
                if word is not None and form is not None:
                    # A capital at the beginning of a text is grammar, elsewhere it is spelling.
                    spelling = word.text[0].lower() + word.text[1:] if word.is_first else word.text
                    self._spellings.setdefault(form, Counter())[spelling] += 1
            terms: set[tuple[str, ...]] = {(form,) for form in singular if form is not None}
            pairs = pairwise(singular)
            terms |= {(a, b) for a, b in pairs if a is not None and b is not None and a != b}
            term_numbers += [numbers.setdefault(term, len(numbers)) for term in sorted(terms)]
            lengths.append(len(terms))
        self.terms = list(numbers)
        self.is_pair = np.array([len(term) > 1 for term in self.terms], dtype=bool)
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        ones = np.ones(len(term_numbers), dtype=np.float32)
        shape = (len(texts), len(self.terms))
        self._has = csr_array((ones, np.array(term_numbers, dtype=np.int64), starts), shape=shape)

    def shares(self, columns: IntArray, n_categories: int) -> tuple[csr_array, IntArray]:
        """The share of each category's texts that have each term, and how many texts it has."""
        sizes = np.bincount(columns, minlength=n_categories)
        n = len(columns)
        parts = csr_array((1 / sizes[columns], (columns, np.arange(n))), shape=(n_categories, n))
        return (parts @ self._has).tocsr(), sizes

    def shown(self, form: str) -> str:
        """A word as most texts spell it, its own form before others that are as frequent."""
        spellings = self._spellings[form]
        alike = {text: n for text, n in spellings.items() if text.casefold() == form} or spellings
        return max(sorted(alike), key=lambda text: alike[text])


def _looked_at(columns: IntArray) -> IntArray:
    """Rows of all texts, or of the first so many of each category that `MOST_TEXTS` are looked at."""
    if len(columns) <= MOST_TEXTS:
        return np.arange(len(columns))
    sizes = np.bincount(columns)
    most = 1
    while np.minimum(sizes, 2 * most).sum() <= MOST_TEXTS:
        most *= 2
    order = np.argsort(columns, kind="stable")
    place = np.arange(len(columns)) - np.concatenate([[0], np.cumsum(sizes)[:-1]])[columns[order]]
    return np.sort(order[place < most])


def _words(text: str) -> list[_Word | None]:
    """The words of a text, None for those that say nothing."""
    words: list[_Word | None] = []
    for match in WORD.finditer(normalize("NFC", text)):
        word = match.group()
        if UNSPACED.fullmatch(word):
            words += [_Word(word[i : i + 2], word[i : i + 2], False) for i in range(max(1, len(word) - 1))]
            continue
        form = word.casefold().replace("’", "'").removesuffix("'s")
        is_empty = form in STOP_WORDS or len(form) < 2
        words.append(None if is_empty else _Word(word, form, match.start() == 0))
    return words


def _singular(form: str, forms: Iterable[str]) -> str:
    """A word without the s of its plural, if it occurs without it."""
    return form[:-1] if len(form) > 3 and form.endswith("s") and form[:-1] in forms else form


def _diverse(terms: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The first terms that share no word, together of at most `MOST_WORDS` words."""
    chosen: list[tuple[str, ...]] = []
    for term in terms:
        n_words = sum(map(len, chosen))
        if n_words + len(term) <= MOST_WORDS and not any(
            _alike(a, b) for other in chosen for a in other for b in term
        ):
            chosen.append(term)
    return chosen


def _joined(terms: list[tuple[str, ...]], share_of: dict[tuple[str, ...], float]) -> list[tuple[str, ...]]:
    """Single words that mostly stand side by side as the pair that they are: not "rate, exchange"."""
    for first, second in permutations([term for term in terms if len(term) == 1], 2):
        pair = (*first, *second)
        if share_of.get(pair, 0.0) >= JOINED * min(share_of[first], share_of[second]):
            place = min(terms.index(first), terms.index(second))
            rest = [term for term in terms if term not in (first, second)]
            return [*rest[:place], pair, *rest[place:]]
    return terms


def _alike(word: str, other: str) -> bool:
    """Whether two words are forms of one, as far as their beginnings tell: activate, activating; spend, spent."""
    n_stem = max(LEAST_STEM, min(len(word), len(other)) - 2)
    return word[:n_stem] == other[:n_stem]
