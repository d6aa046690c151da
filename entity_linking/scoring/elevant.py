"""Scores as ELEVANT counts them, beside whose stored results rows of one's own are put.

Bast, Hertel and Prange 2022 (EMNLP, System Demonstrations); where the paper is silent, the released
evaluator (github.com/ad-freiburg/elevant). It differs from GERBIL's conventions in this:

*Required* (the mode of the published tables): gold that is NIL has to be found, and to be called
NIL; a NIL where gold has an entity, or nothing, is an error. *Ignored*: NIL counts on neither side.
*Optional* gold (marked so; dates and quantities) need not be found, but a wrong entity there is an
error. *Nested* gold is one thing to find: the outermost label, or else the labels inside it, which
are right together or not at all. A span counts as another where both grow to the same words.

Here a link inside a date or quantity is right if it has the entity of gold; which other entities
are dates or quantities, as ELEVANT asks its database, is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from entity_linking.annotations import read_rows
from entity_linking.errors import LinkingError, ScoreError
from entity_linking.mentions import LinkedText
from entity_linking.scoring.links import paired
from kg_loaders.damage import DamageReport

Mode = Literal["required", "ignored"]
Span = tuple[int, int]
MODES: tuple[Mode, ...] = ("required", "ignored")
WITHOUT_ENTITY = ("DATETIME", "QUANTITY")


@dataclass(frozen=True, slots=True)
class Label:
    """A gold label; `parent` and `children` are places in its text's labels."""

    span: Span
    entity: str | None
    is_optional: bool = False
    parent: int | None = None
    children: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text with ELEVANT's labels, nested and optional ones among them."""

    text: str
    labels: tuple[Label, ...]
    id: str = ""


class _Label(msgspec.Struct):
    id: int
    span: Span
    entity_id: str
    type: str = ""
    parent: int | None = None
    children: tuple[int, ...] = ()
    optional: bool = False


class _Article(msgspec.Struct):
    id: int
    text: str
    labels: tuple[_Label, ...]
    evaluation_span: Span | None = None


def read_labelled(path: str | Path, report: DamageReport) -> Iterator[LabelledText]:
    """ELEVANT's articles, cropped to their evaluation span as `read_elevant` crops them."""
    return read_rows(path, report, _Article, _labelled)


def count_elevant(
    gold: Sequence[LabelledText], predicted: Sequence[LinkedText], *, mode: Mode
) -> NDArray[np.int64]:
    """Gold, predicted and rightly predicted labels of every text, `[text 3]`, as `count_links`."""
    if mode not in MODES:
        raise ScoreError(f"mode is {mode!r}; give 'required' or 'ignored'")
    texts = [LinkedText(each.text, (), each.id) for each in gold]
    counts = np.zeros((len(gold), 3), np.int64)
    for i, (_, linked) in enumerate(paired(texts, predicted)):
        counts[i] = _Judge(gold[i], linked, is_strict=mode == "required").counts()
    return counts


def at_words(span: Span, text: str) -> Span:
    """The span grown to whole words; quotation marks and apostrophes belong to words.

    >>> at_words((0, 6), "Albert's birthplace is Ulm.")
    (0, 8)
    """
    start, end = span
    while start > 0 and _is_of_word(text[start - 1]):
        start -= 1
    while end < len(text) - 1 and _is_of_word(text[end]):
        end += 1
    if text[start] == '"' and '"' not in text[start + 1 : end]:
        start += 1  # it opens a longer quotation
    return start, end


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character in "'\"_"


class _Judge:
    """One text: which labels count, and what became of them."""

    def __init__(self, gold: LabelledText, linked: LinkedText, *, is_strict: bool) -> None:
        self._labels, self._is_strict, self._text = gold.labels, is_strict, gold.text
        spans = [((k.mention.start, k.mention.end), k.entity) for k in linked.links]
        self._spans = dict(spans)
        self._answers = self._spans | {self._grown(s): e for s, e in self._spans.items()}
        self._counts: dict[int, bool] = {}

    def counts(self) -> tuple[int, int, int]:
        """Gold, predicted and right."""
        roots = [i for i, label in enumerate(self._labels) if label.parent is None]
        for i in roots:
            self._visit(i)
        kinds = [self._kinds_of_root(i) for i in roots]
        n_right = sum("right" in each for each in kinds)
        n_missed = sum("missed" in each for each in kinds)
        counted = [i for i, counts in self._counts.items() if counts]
        n_wrong = sum("wrong" in self._kinds(i) for i in counted) + self._n_spurious()
        return n_right + n_missed, n_right + n_wrong, n_right

    def _grown(self, span: Span) -> Span:
        return at_words(span, self._text)

    def _answer(self, i: int) -> tuple[bool, str | None]:
        """Whether something stands at a label, and its entity."""
        span = self._labels[i].span
        for candidate in (span, self._grown(span)):
            if candidate in self._answers:
                return True, self._answers[candidate]
        return False, None

    def _visit(self, i: int, *, for_sibling: bool = False) -> bool:
        """Decide whether a label counts, and those inside it; whether any of them does."""
        label, (is_found, entity) = self._labels[i], self._answer(i)
        if is_found and entity == label.entity:
            counts = inside = True
        else:
            visited = [self._visit(child) for child in label.children]  # each is decided
            inside = any(visited)
            counts = not inside and self._counts_alone(i, is_found, for_sibling)
        if not for_sibling:
            self._counts[i] = counts
        if label.parent is None:
            return counts
        return counts or inside

    def _counts_alone(self, i: int, is_found: bool, for_sibling: bool) -> bool:
        """Whether a label counts that is not right, as none inside it does."""
        parent = self._labels[i].parent
        if parent is None:
            return True
        if is_found:
            return self._grown(self._labels[parent].span) != self._grown(self._labels[i].span)
        others = [other for other in self._labels[parent].children if other != i]
        return not for_sibling and any(self._visit(each, for_sibling=True) for each in others)

    def _kinds_of_root(self, i: int) -> set[str]:
        if self._counts[i]:
            return self._kinds(i)
        inside: set[str] = set()
        for child in self._below(i):
            inside |= self._kinds(child) if self._counts.get(child) else set()
        if "missed" in inside:
            return {"missed"}
        return {"right"} if inside == {"right"} else set()

    def _below(self, i: int) -> Iterator[int]:
        for child in self._labels[i].children:
            yield child
            yield from self._below(child)

    def _kinds(self, i: int) -> set[str]:
        """Of a label that counts: right, missed, wrong (missed and wrong: another entity)."""
        label, (is_found, entity) = self._labels[i], self._answer(i)
        if label.is_optional:
            return self._kinds_of_optional(i, is_found, entity)
        if not is_found:
            return {"missed"} if label.entity is not None or self._is_strict else set()
        if entity == label.entity:
            return {"right"} if entity is not None or self._is_strict else set()
        if self._is_strict:
            return {"missed", "wrong"}
        missed = {"missed"} if label.entity is not None else set()
        return missed | ({"wrong"} if entity is not None else set())

    def _kinds_of_optional(self, i: int, is_found: bool, entity: str | None) -> set[str]:
        label = self._labels[i]
        if not is_found:
            needed = any(not self._labels[child].is_optional for child in self._below(i))
            is_asked = label.entity is not None or self._is_strict
            return {"missed"} if label.parent is None and needed and is_asked else set()
        if entity is None:
            return {"wrong"} if label.entity is not None and self._is_strict else set()
        return set() if entity == label.entity else {"wrong"}

    def _n_spurious(self) -> int:
        """Predictions where no label stands; a NIL is one in the strict mode."""
        marked = {
            marked_span
            for each in self._labels
            for marked_span in (each.span, self._grown(each.span))
        }
        return sum(
            span not in marked
            and self._grown(span) not in marked
            and (entity is not None or self._is_strict)
            for span, entity in self._spans.items()
        )


def _labelled(article: _Article) -> LabelledText:
    first, last = article.evaluation_span or (0, len(article.text))
    inside = [label for label in article.labels if first <= label.span[0] <= label.span[1] <= last]
    places = {label.id: number for number, label in enumerate(inside)}
    if len(places) != len(inside):
        raise LinkingError("two labels of an article have the same id")
    labels = [
        Label(
            (label.span[0] - first, label.span[1] - first),
            label.entity_id if _is_item(label) else None,
            label.optional or label.type in WITHOUT_ENTITY,
            None if label.parent is None else places.get(label.parent),
            tuple(places[child] for child in label.children if child in places),
        )
        for label in inside
    ]
    return LabelledText(article.text[first:last], tuple(labels), str(article.id))


def _is_item(label: _Label) -> bool:
    return label.entity_id[:1] == "Q" and label.entity_id[1:].isdigit()
