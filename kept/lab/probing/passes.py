"""The forward passes of a probe, and the rankings read off them.

A pass reads the states at the masks alone; all candidates of a length, and the words of the
restricted ranking, are read off the same pass. Texts of one number of masks are batched by length.

Axis legend: sample, mask, word, embedding, candidate, piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from kept.graphs.cuts import Cut, cut_of_each
from kept.lab.probing.candidates import Candidates
from kept.lab.probing.items.holes import filled
from kept.lab.probing.items.item import ClozeItem
from kept.lab.probing.models.base import ClozeModel, Question, Sample, words_around_masks
from kept.lab.probing.ranks import rank_answers
from kept.lab.probing.results import Likelihood, ProbeAnswer, Ranking, RankingName

CUT = "the hole was cut off with the text"
MASKED = "the text contains a mask already"
MOST_LOGITS = 1 << 24
"""Numbers in one block of logits; results do not depend on it."""


@dataclass(frozen=True, eq=False, slots=True)
class Contest:
    """One item in one ranking: the places of the answer and of other right ones."""

    candidates: Candidates
    gold: int
    others: tuple[int, ...]


@dataclass(eq=False, slots=True)
class Attempt:
    """The state of an item: its contests, the scores of its objects, its rankings."""

    item: ClozeItem
    contests: dict[RankingName, Contest] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    scores: Tensor | None = None
    rankings: dict[RankingName, Ranking] = field(default_factory=dict)
    asked_shown: bool = False

    def skip(self, ranking: RankingName, reason: str) -> None:
        """The item is not ranked there, for this reason."""
        self.contests.pop(ranking, None)
        self.skipped[ranking] = reason

    def lengths(self) -> list[int]:
        """Numbers of masks that the item needs."""
        one = {1} if "restricted" in self.contests else set()
        objects = self.contests.get("objects")
        return sorted(one | set(objects.candidates.by_length if objects else ()))

    def keep(self, n_masks: int, scores: Float[Tensor, " candidate"]) -> None:
        """The scores of all objects of `n_masks` pieces."""
        candidates = self.contests["objects"].candidates
        if self.scores is None:
            self.scores = torch.empty(len(candidates), dtype=scores.dtype)
        self.scores[torch.from_numpy(candidates.by_length[n_masks][0])] = scores.cpu()

    def answer(self) -> ProbeAnswer:
        """Return the item's result."""
        item = self.item
        return ProbeAnswer(
            id=item.id,
            relation=item.relation,
            group=group_of(item),
            subject=item.subject,
            answer=item.answer,
            restricted=self.rankings.get("restricted"),
            objects=self.rankings.get("objects"),
            skipped=self.skipped,
            asked_shown=self.asked_shown,
        )


def group_of(item: ClozeItem) -> str:
    """Return the key of items that are not independent: the group, else the fact, else the id."""
    return item.group or ("\t".join(item.fact) if item.fact else item.id)


class Runner:
    """Runs chunks of items; holds the model's output embedding and the rows of the candidates."""

    def __init__(
        self,
        model: ClozeModel,
        words: Candidates | None,
        *,
        likelihood: Likelihood,
        n_top: int,
        batch_size: int,
        first_word: float = 0.0,
    ) -> None:
        self.model, self.words, self.likelihood = model, words, likelihood
        self.first_word = first_word
        self.n_top, self.batch_size = n_top, batch_size
        weight, bias = model.words()
        self.whole = weight, weight.new_zeros(len(weight)) if bias is None else bias
        ids = torch.tensor([pieces[0] for pieces in (words.pieces if words else ())]).long()
        self.listed = tuple(part[ids.to(part.device)] for part in self.whole)

    @torch.inference_mode()
    def run(self, chunk: Sequence[Attempt]) -> None:
        """Fill in the rankings of a chunk."""
        plan = [(attempt, n) for attempt in chunk for n in attempt.lengths()]
        samples = self.model.samples([self._question(attempt.item, n) for attempt, n in plan])
        chunk_samples: list[tuple[int, Attempt, Sample]] = []
        for (attempt, n), sample in zip(plan, samples, strict=True):
            attempt.asked_shown |= sample.asked_shown
            chunk_samples.append((n, attempt, sample))
            if len(sample.masks) != n:
                for ranking in [name for name in attempt.contests if n == 1 or name == "objects"]:
                    attempt.skip(ranking, CUT if len(sample.masks) < n else MASKED)
        chunk_samples.sort(key=lambda row: (row[0], len(row[2].ids)))
        for n, rows in groupby(chunk_samples, key=lambda row: row[0]):
            pairs = [(attempt, sample) for _, attempt, sample in rows if n in attempt.lengths()]
            for start in range(0, len(pairs), self.batch_size):
                self._read(pairs[start : start + self.batch_size], n)
        rank_objects(chunk, self.n_top)

    def cut(self, items: Sequence[ClozeItem]) -> Cut | None:
        """Return what is cut of the questions with one mask; None where nothing ever is."""
        if self.model.max_words is None:
            return None
        texts = [self._question(item, 1).linked for item in items]
        _, words = words_around_masks(texts, self.model.tokenizer, self.model.max_words)
        return cut_of_each(texts, words, self.model.tokenizer, self.model.max_words)

    def _question(self, item: ClozeItem, n_masks: int) -> Question:
        masks = " ".join([self.model.tokenizer.mask_token] * n_masks)
        return Question(filled(item, masks), item.draw_key or item.id, item.fact)

    def _read(self, pairs: Sequence[tuple[Attempt, Sample]], n_masks: int) -> None:
        """Run one batch with `n_masks` masks."""
        if self.likelihood == "truth":
            self._ask_truth(pairs, n_masks)
            if n_masks > 1:
                return
        elif n_masks > 1 and self.likelihood == "one_by_one":
            for attempt, sample in pairs:
                attempt.keep(n_masks, self._one_by_one(attempt, sample, n_masks))
            return
        states = self.model.states([sample for _, sample in pairs])
        attempts = [attempt for attempt, _ in pairs]
        if n_masks == 1:
            self._rank_words(attempts, states[:, 0])
        if self.likelihood != "truth":
            self._read_objects(attempts, states, n_masks)

    def _rank_words(
        self, attempts: Sequence[Attempt], states: Float[Tensor, "sample embedding"]
    ) -> None:
        """The restricted ranking of the items in it."""
        rows = [row for row, one in enumerate(attempts) if "restricted" in one.contests]
        if not rows or self.words is None:
            return
        contests = [attempts[row].contests["restricted"] for row in rows]
        rankings = rank_answers(
            _wide(F.linear(states[rows], *self.listed)),
            [contest.gold for contest in contests],
            [contest.others for contest in contests],
            self.words.names,
            n_top=self.n_top,
        )
        for row, ranking in zip(rows, rankings, strict=True):
            attempts[row].rankings["restricted"] = ranking

    def _read_objects(
        self,
        attempts: Sequence[Attempt],
        states: Float[Tensor, "sample mask embedding"],
        n_masks: int,
    ) -> None:
        """Scores of the objects of `n_masks` pieces, all read off one pass."""
        rows = [
            row
            for row, one in enumerate(attempts)
            if "objects" in one.contests and n_masks in one.contests["objects"].candidates.by_length
        ]
        step = max(1, MOST_LOGITS // (n_masks * len(self.whole[0])))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            chances = self._chances(states[part])
            for index, row in enumerate(part):
                pieces = attempts[row].contests["objects"].candidates.by_length[n_masks][1]
                attempts[row].keep(n_masks, _means(chances[index], pieces))

    def _one_by_one(
        self, attempt: Attempt, sample: Sample, n_masks: int
    ) -> Float[Tensor, " candidate"]:
        """Score each candidate in the text, each of its pieces masked in turn."""
        pieces = attempt.contests["objects"].candidates.by_length[n_masks][1]
        variants = [
            (sample.filled(candidate, mask), piece)
            for candidate in pieces.tolist()
            for mask, piece in zip(sample.masks, candidate, strict=True)
        ]
        rankings = []
        for start in range(0, len(variants), self.batch_size):
            part = variants[start : start + self.batch_size]
            chances = self._chances(self.model.states([variant for variant, _ in part]))[:, 0]
            right = torch.tensor([piece for _, piece in part], device=chances.device)
            rankings.append(chances.gather(1, right[:, None])[:, 0])
        return torch.cat(rankings).reshape(len(pieces), n_masks).mean(1)

    def _ask_truth(self, pairs: Sequence[tuple[Attempt, Sample]], n_masks: int) -> None:
        """Score each object of `n_masks` pieces in the text by how true the model holds it."""
        for attempt, sample in pairs:
            contest = attempt.contests.get("objects")
            if contest is None or n_masks not in contest.candidates.by_length:
                continue
            pieces = contest.candidates.by_length[n_masks][1].tolist()
            answered = [sample.answered(each) for each in pieces]
            parts = [
                self.model.truths(answered[i : i + self.batch_size], first_word=self.first_word)
                for i in range(0, len(answered), self.batch_size)
            ]
            attempt.keep(n_masks, torch.cat(parts))

    def _chances(
        self, states: Float[Tensor, "sample mask embedding"]
    ) -> Float[Tensor, "sample mask word"]:
        """Log-probabilities of every word."""
        return _wide(F.linear(states, *self.whole)).log_softmax(-1)


def rank_objects(chunk: Sequence[Attempt], n_top: int) -> None:
    """Rank the items whose objects all have a score, relation by relation."""
    relations: dict[int, list[Attempt]] = {}
    for attempt in chunk:
        if contest := attempt.contests.get("objects"):
            relations.setdefault(id(contest.candidates), []).append(attempt)
    for group in relations.values():
        contests = [attempt.contests["objects"] for attempt in group]
        rankings = rank_answers(
            torch.stack([attempt.scores for attempt in group if attempt.scores is not None]),
            [contest.gold for contest in contests],
            [contest.others for contest in contests],
            contests[0].candidates.names,
            n_top=n_top,
        )
        for attempt, ranking in zip(group, rankings, strict=True):
            attempt.rankings["objects"] = ranking


def _means(
    chances: Float[Tensor, "mask word"], pieces: NDArray[np.int64]
) -> Float[Tensor, " candidate"]:
    """Mean log-probability of each candidate's pieces `[candidate piece]`, a mask each."""
    masks = torch.arange(pieces.shape[1], device=chances.device)
    return chances[masks, torch.from_numpy(pieces).to(chances.device)].mean(1)


def _wide(scores: Tensor) -> Tensor:
    """Half precision would produce ties."""
    return scores.float() if scores.dtype.itemsize < 4 else scores
