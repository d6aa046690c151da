"""Stories of five sentences: reading them, their word pieces, three kinds of fakes, and splits.

Guan et al. 2020, section 3.4; the details follow thu-coai/CommonsenseStoryGen.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from kept.errors import ConfigError
from kept.randomness import generator
from kg_loaders.errors import SourceError

Story = tuple[str, ...]
N_SENTENCES = 5
LABELS = ("true", "shuffled", "replaced", "repeated")


def read_glucose(path: Path) -> list[Story]:
    """Return each story of GLUCOSE's test set (Mostafazadeh et al. 2020) once, in file order.

    Raises `SourceError` naming path and line for a file that is not in its form.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    stories: dict[Story, None] = {}
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if "story" not in (rows.fieldnames or ()):
            raise SourceError(f"{path}: line 1 has no column 'story'; give GLUCOSE's answer key")
        for row in rows:
            story = tuple(part.strip() for part in row["story"].split("****"))
            if len(story) != N_SENTENCES or not all(story):
                raise SourceError(
                    f"{path}: line {rows.line_num} has {len(story)} sentences, not {N_SENTENCES}"
                )
            stories[story] = None
    return list(stories)


def shuffled(story: Story, order: Sequence[int]) -> Story:
    """The sentences in `order`, which begins with the first; it may be the order there was.

    >>> shuffled(("a", "b", "c", "d", "e"), (0, 4, 1, 3, 2))
    ('a', 'e', 'b', 'd', 'c')
    """
    if order[0] != 0 or sorted(order) != list(range(len(story))):
        raise ConfigError(
            f"{tuple(order)} is not an order of {len(story)} sentences that keeps 0 first"
        )
    return tuple(story[i] for i in order)


def replaced(story: Story, position: int, other: Story) -> Story:
    """The story with the sentence of another at the same place; the first one never changes.

    >>> replaced(("a", "b", "c"), 1, ("x", "y", "z"))
    ('a', 'y', 'c')
    """
    _check_place(story, position)
    return (*story[:position], other[position], *story[position + 1 :])


def repeated(story: Story, position: int) -> Story:
    """The story with a sentence written twice in one, the first copy without its last character.

    >>> repeated(("a .", "b c .", "d ."), 1)
    ('a .', 'b c b c .', 'd .')
    """
    _check_place(story, position)
    sentence = story[position]
    return (*story[:position], sentence[:-1] + sentence, *story[position + 1 :])


def _check_place(story: Story, position: int) -> None:
    if not 0 < position < len(story):
        raise ConfigError(
            f"sentence {position} cannot be changed; choose from 1 to {len(story) - 1}"
        )


def fakes(stories: Sequence[Story], seed: int) -> Iterator[tuple[Story, int]]:
    """Each story with its label 0, then one fake of each kind, as often as there are stories.

    A replacement may come from the story itself and an order may be the one there was, as in the
    released program.
    """
    for i, story in enumerate(stories):
        draws = generator(seed, "fake stories", i)
        order = [0, *(1 + draws.permutation(len(story) - 1)).tolist()]
        positions = 1 + draws.integers(len(story) - 1, size=2)
        other = stories[int(draws.integers(len(stories)))]
        yield story, 0
        yield shuffled(story, order), 1
        yield replaced(story, int(positions[0]), other), 2
        yield repeated(story, int(positions[1])), 3


def split(stories: Sequence[Story]) -> dict[str, list[Story]]:
    """The first 18 of 20 parts, the next one and the last one, so that fakes stay with theirs."""
    ends = np.array([18, 19, 20]) * len(stories) // 20
    train, validation, test = np.split(np.arange(len(stories)), ends[:2])
    parts = {"train": train, "validation": validation, "test": test}
    return {name: [stories[i] for i in part.tolist()] for name, part in parts.items()}


def sentence_ids(tokenizer: PreTrainedTokenizerBase, story: Story) -> list[list[int]]:
    """Word pieces of each sentence, in which " ." has become ". "; nothing stands between."""
    texts = [sentence.replace(" .", ". ") for sentence in story]
    return [tokenizer.encode(text, add_special_tokens=False) for text in texts]


def story_ids(tokenizer: PreTrainedTokenizerBase, story: Story) -> list[int]:
    """Word pieces of the whole story."""
    return [piece for sentence in sentence_ids(tokenizer, story) for piece in sentence]
