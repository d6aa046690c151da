"""Exact match and F1 of answers in words, as SQuAD's official script (version 2.0) counts them.

Rajpurkar et al. 2016, section 6.1: lower case; punctuation, articles and white space count nothing.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(answer: str) -> str:
    """What is compared of an answer.

    >>> normalised("The  U.S.-based, an 'Apple'")
    'usbased apple'
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golds: Sequence[str]) -> float:
    """1 where the answer is one of `golds`, else 0."""
    return float(normalised(answer) in map(normalised, answerable(golds)))


def token_f1(answer: str, golds: Sequence[str]) -> float:
    """F1 of the words that an answer shares with a gold one, the best over `golds`.

    Where either has no word at all, 1 if both have none.

    >>> token_f1("the cat sat", ["a cat", "dog"])
    0.6666666666666666
    """
    return max(_f1(normalised(answer).split(), normalised(g).split()) for g in answerable(golds))


def answerable(golds: Sequence[str]) -> list[str]:
    """Golds that have a word; "" alone where none has: there is no answer."""
    return [gold for gold in golds if normalised(gold)] or [""]


def _f1(ours: list[str], gold: list[str]) -> float:
    if not ours or not gold:
        return float(ours == gold)
    n_same = (Counter(ours) & Counter(gold)).total()
    return 2 * n_same / (len(ours) + len(gold))
