"""SentiLARE's released masking, with its order of draws (Ke et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

NEUTRAL = 2
Draw = tuple[str | float | int, ...]
"""The function's name, the bounds that it was given, if any, and last the number it returned."""


def hidden_words(
    words: Sequence[str],
    signs: Sequence[int],
    draws: Iterator[Draw],
    *,
    pieces: Callable[[str], list[int]],
    reviews: Sequence[Sequence[str]],
    mask_id: int,
) -> list[tuple[list[int], bool, bool, float]]:
    """What each word shows, whether it is asked for, whether it lost its labels, and its draw.

    `reviews` are the words of the first sentence of each review, from which replacements come.
    """
    pieces_of_words = []
    for word, sign in zip(words, signs, strict=True):
        word_pieces, rate = pieces(word), 0.15 if sign == NEUTRAL else 0.3
        draw = float(next(draws)[-1])
        if draw >= rate:
            pieces_of_words.append((word_pieces, False, False, draw))
            continue
        share = draw / rate
        if share < 0.8:
            pieces_of_words.append(([mask_id] * len(word_pieces), True, True, draw))
        elif share < 0.9:
            sentence = reviews[int(next(draws)[-1])]
            other = pieces(sentence[int(next(draws)[-1])])[: len(word_pieces)]
            pieces_of_words.append(
                (other + [mask_id] * (len(word_pieces) - len(other)), True, True, draw)
            )
        else:
            pieces_of_words.append((word_pieces, True, False, draw))
    return pieces_of_words


def is_late(draws: Iterator[Draw], share: float) -> bool:
    """The last draw: whether the rating is asked for instead of shown."""
    return float(next(draws)[-1]) < share


def part_of(tag: str) -> str:
    """SentiWordNet's letter of a tag of the Penn Treebank; "u" for all others."""
    for letter, start, ends in (
        ("v", "VB", ("", "D", "G", "N", "P", "Z")),
        ("a", "JJ", ("", "R", "S")),
        ("r", "RB", ("", "R", "S")),
        ("n", "NN", ("", "S", "P", "PS")),
    ):
        if tag.startswith(start) and tag.removeprefix(start) in ends:
            return letter
    return "u"
