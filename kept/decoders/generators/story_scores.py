"""Scores of written stories: distinct-n, repetition-n, and how many triples a story tells.

Guan et al. 2020, section 4.4. A word is what stands between blanks once punctuation is set apart
and letters are lower case; the paper does not say how it counts words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kept.errors import ConfigError, EvaluationError


def words_of(text: str) -> list[str]:
    """Words and marks of `text` in lower case.

    >>> words_of("Meg's dog barked.")
    ["meg's", 'dog', 'barked', '.']
    """
    return re.findall(r"\w+(?:'\w+)*|[^\w\s]", text.lower())


def _n_grams(words: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    for start in range(len(words) - n + 1):
        yield tuple(words[start : start + n])


def _check(stories: Sequence[Sequence[str]], n: int) -> None:
    if n < 1:
        raise ConfigError(f"n is {n}; n-grams have at least one word")
    if not stories:
        raise EvaluationError("there are no stories to score")


def distinct(stories: Sequence[Sequence[str]], n: int) -> float:
    """Return different n-grams of all stories / all n-grams.

    Raises `EvaluationError` where no story has n words, for then the share means nothing.

    >>> distinct([["a", "b", "a", "b"]], 2)
    0.6666666666666666
    """
    _check(stories, n)
    grams = [gram for words in stories for gram in _n_grams(words, n)]
    if not grams:
        raise EvaluationError(f"no story has {n} words; score longer ones or a smaller n")
    return len(set(grams)) / len(grams)


def repetition(stories: Sequence[Sequence[str]], n: int) -> float:
    """The share of stories in which some n-gram occurs twice.

    >>> repetition([["a", "b", "a", "b"], ["a", "b"]], 2)
    0.5
    """
    _check(stories, n)
    grams = [list(_n_grams(words, n)) for words in stories]
    return sum(len(set(story_grams)) < len(story_grams) for story_grams in grams) / len(stories)


def coverage(
    stories: Sequence[Sequence[str]], pairs: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> float:
    """The mean number of `pairs` (words of a head, words of a tail) both of which a story has.

    A phrase counts where its words stand side by side. Raises `EvaluationError` without stories.

    >>> coverage([["the", "dog", "has", "a", "bone"]], [(["dog"], ["bone"]), (["cat"], ["bone"])])
    1.0
    """
    _check(stories, 1)
    phrases = [(tuple(head), tuple(tail)) for head, tail in pairs if head and tail]
    lengths = sorted({len(phrase) for pair in phrases for phrase in pair})
    n_found = 0
    for words in stories:
        prompt_grams = {gram for n in lengths for gram in _n_grams(words, n)}
        n_found += sum(head in prompt_grams and tail in prompt_grams for head, tail in phrases)
    return n_found / len(stories)
