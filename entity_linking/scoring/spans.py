"""Scores that ask every gold mention alone: accuracy, candidate recall, NIL, bins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from entity_linking.errors import ScoreError
from entity_linking.mentions import Link, LinkedText, Mention
from entity_linking.scoring.links import Known, LinkScore, paired, predicate


@dataclass(frozen=True, slots=True)
class SpanScore:
    """On gold mentions that have an entity: right choices, and gold among the candidates."""

    n_gold: int
    n_correct: int
    n_in_candidates: int

    @property
    def accuracy(self) -> float:
        return self.n_correct / self.n_gold if self.n_gold else 0.0

    @property
    def candidate_recall(self) -> float:
        return self.n_in_candidates / self.n_gold if self.n_gold else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one gold mention.

    `text` is the position of its text; `gold` None means NIL, `in_graph` that `gold` is known.
    `is_answered`: there is a prediction on exactly this span; `answer` is its entity, None for NIL
    or one that the graph does not know. `rank` is the place of `gold` among the candidates, from 0.
    """

    text: int
    mention: Mention
    gold: str | None
    in_graph: bool
    is_answered: bool
    answer: str | None
    rank: int | None

    @property
    def is_correct(self) -> bool:
        return self.gold is not None and self.answer == self.gold


def outcomes(
    gold: Sequence[LinkedText], predicted: Sequence[LinkedText], *, known: Known | None = None
) -> list[Outcome]:
    """One a gold link, NIL or not, in order."""
    knows = predicate(known)
    judged = []
    for i, (expected, linked) in enumerate(paired(gold, predicted)):
        answers: dict[Mention, Link] = {}
        for link in linked.links:
            best = answers.setdefault(link.mention, link)
            if link.confidence > best.confidence:
                answers[link.mention] = link
        judged += [_outcome(i, link, answers.get(link.mention), knows) for link in expected.links]
    return judged


def _outcome(text: int, gold: Link, answer: Link | None, knows: Callable[[str], bool]) -> Outcome:
    entity = gold.entity
    in_graph = entity is not None and knows(entity)
    if answer is None:
        return Outcome(text, gold.mention, entity, in_graph, False, None, None)
    places = (i for i, c in enumerate(answer.candidates) if c.entity == entity)
    chosen = answer.entity if answer.entity is not None and knows(answer.entity) else None
    return Outcome(text, gold.mention, entity, in_graph, True, chosen, next(places, None))


def score_spans(
    gold: Sequence[LinkedText], predicted: Sequence[LinkedText], *, known: Known | None = None
) -> SpanScore:
    """Accuracy on gold spans; a gold mention that was not predicted counts as wrong.

    With `known` only the mentions whose entity is in the graph are asked.
    """
    return span_score(o for o in outcomes(gold, predicted, known=known) if o.in_graph)


def span_score(results: Iterable[Outcome]) -> SpanScore:
    """Of those outcomes whose gold is an entity, in the graph or not."""
    results = [outcome for outcome in results if outcome.gold is not None]
    return SpanScore(
        len(results),
        sum(outcome.is_correct for outcome in results),
        sum(outcome.rank is not None for outcome in results),
    )


def score_nils(results: Iterable[Outcome]) -> LinkScore:
    """Of NIL: gold is NIL or outside the graph; predicted is answered, but not linked."""
    results = list(results)
    nils = [outcome for outcome in results if outcome.is_answered and outcome.answer is None]
    return LinkScore(
        sum(not outcome.in_graph for outcome in results),
        len(nils),
        sum(not outcome.in_graph for outcome in nils),
    )


def binned(results: Sequence[Outcome], bins: Sequence[Sequence[str]]) -> dict[str, SpanScore]:
    """Scores by bin, in the order in which the bins are first met.

    `bins` names those of every outcome: none, one or several, such as the types of a `TypedText`.
    Outcomes whose gold is NIL are left out.
    """
    if len(results) != len(bins):
        raise ScoreError(f"{len(bins)} bins for {len(results)} outcomes; give the bins of each")
    members: dict[str, list[Outcome]] = {}
    for outcome, names in zip(results, bins, strict=True):
        for name in names:
            if outcome.gold is not None:
                members.setdefault(name, []).append(outcome)
    return {name: span_score(group) for name, group in members.items()}


def popularity_bins(
    results: Sequence[Outcome], counts: Mapping[str, int] | Callable[[str], int], *, base: int = 10
) -> dict[str, SpanScore]:
    """`binned` by how often the gold entity was counted: 0, 1 to 9, 10 to 99 and so on.

    `counts` are links in a corpus, degrees in a graph; an entity that a mapping lacks has 0. Bins
    ascend; those without a mention are left out.
    """
    if base < 2:
        raise ScoreError(f"base is {base}; bins need 2 or more")
    levels = [_level(outcome.gold, counts, base) for outcome in results]
    names = {
        level: "0" if level < 0 else f"{base**level}-{base ** (level + 1) - 1}" for level in levels
    }
    scores = binned(results, [(names[level],) for level in levels])
    return {names[level]: scores[names[level]] for level in sorted(names) if names[level] in scores}


def _level(entity: str | None, counts: Mapping[str, int] | Callable[[str], int], base: int) -> int:
    """The number of digits of the count in this base, less one; -1 for 0."""
    if entity is None:
        return -1
    count = counts(entity) if callable(counts) else counts.get(entity, 0)
    if count < 0:
        raise ScoreError(f"{entity!r} was counted {count} times; counts are 0 or more")
    level, border = -1, 1
    while count >= border:
        level, border = level + 1, border * base
    return level
