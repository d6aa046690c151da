"""Answers about mentions that may not overlap, taken in one or several rounds, and their linker.

Poerner, Waltinger and Schütze 2020, "E-BERT" (Findings of EMNLP), section 4.3.

Axis legend: candidate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from entity_linking.mentions import Link, LinkedText, Linker, require_texts
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import View
from kept.heads.model import KnowledgeForTask
from kept.training.finetuning.linking.questions import CandidateData, Question, questions_of, touch
from kg_loaders import KnowledgeGraph


@dataclass(frozen=True, slots=True)
class Answer:
    """The shares of none and of each candidate, in the order of the question."""

    question: Question
    shares: NDArray[np.float64]

    @property
    def best(self) -> int:
        """The best one's number, 0 for none."""
        return int(self.shares.argmax())

    @property
    def link(self) -> Link:
        """The mention with its candidates, best first, and the choice."""
        candidate_shares = self.shares[1:]
        ranked = tuple(
            self.question.candidates[i].scored(float(candidate_shares[i]))
            for i in np.argsort(-candidate_shares, kind="stable").tolist()
        )
        entity = None if self.best == 0 else self.question.candidates[self.best - 1].entity
        share = min(float(self.shares[self.best]), 1.0)
        return Link(self.question.mention, ranked, entity, share)


def without_overlap(answers: Sequence[Answer]) -> list[Answer]:
    """Those that stay, in text order: the one that is surest not to be none goes first.

    One whose best answer is none keeps others from its words, too. Answers are of one text.
    """
    stay: list[Answer] = []
    for answer in sorted(answers, key=lambda a: float(a.shares[0])):
        if not any(touch(answer.question.mention, k.question.mention) for k in stay):
            stay.append(answer)
    return sorted((a for a in stay if a.best), key=lambda a: a.question.mention)


def quota(number: int, n_rounds: int, n_done: int, n_new: int) -> int | None:
    """How many of `n_new` answers are taken in round `number` (from 0); None: all, in the last.

    >>> [quota(i, 3, 0, 9) for i in range(3)]
    [3, 6, None]
    """
    if number == n_rounds - 1:
        return None
    return max(1, (number + 1) * (n_done + n_new) // n_rounds - n_done)


class EBERTLinker:
    """Chooses among the candidates of another linker, or none (NIL), round by round.

    In each of `n_rounds` the surest answers are taken, and stand in the texts of later rounds as
    entities. `original_order` takes those with the highest *number* of the candidate first, as the
    released code does. Puts the model into evaluation mode. A mention that has no known candidate,
    is cut off, or means none comes back without an entity.
    """

    def __init__(
        self,
        model: KnowledgeForTask,
        tokenizer: PreTrainedTokenizerBase,
        graph: KnowledgeGraph,
        candidates: Linker,
        *,
        view: View,
        builder: BuilderConfig,
        is_known: Callable[[str], bool],
        prime: bool = False,
        n_rounds: int = 1,
        original_order: bool = False,
        batch_size: int = 32,
    ) -> None:
        model.encoder.require_graph(graph)
        self._model, self._tokenizer, self._graph = model.eval(), tokenizer, graph
        self._candidates, self._known = candidates, is_known
        self._view, self._builder, self._prime = view, builder, prime
        self._n_rounds, self._original_order = n_rounds, original_order
        self._batch_size = batch_size

    def __repr__(self) -> str:
        return f"EBERTLinker({self._candidates!r}, {self._graph!r})"

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        """One `LinkedText` a text, in order."""
        require_texts(texts)
        return self.disambiguate(self._candidates.link(texts))

    def disambiguate(self, texts: Sequence[LinkedText]) -> list[LinkedText]:
        """The same mentions with the model's choices."""
        done: list[list[Link]] = [[] for _ in texts]
        for number in range(self._n_rounds):
            of_text: list[list[Answer]] = [[] for _ in texts]
            for answer in self.answers(texts, done):
                of_text[answer.question.text].append(answer)
            for links, answers in zip(done, map(without_overlap, of_text), strict=True):
                most = quota(number, self._n_rounds, len(links), len(answers))
                links += [answer.link for answer in sorted(answers, key=self._rank)[:most]]
                links.sort(key=lambda link: link.mention)
        return [_with(text, links) for text, links in zip(texts, done, strict=True)]

    def _rank(self, answer: Answer) -> float:
        return -float(answer.best if self._original_order else answer.shares[answer.best])

    @torch.inference_mode()
    def answers(
        self, texts: Sequence[LinkedText], accepted: Sequence[Sequence[Link]] | None = None
    ) -> list[Answer]:
        """The answer to each question of the texts (`questions_of`), overlaps included."""
        mask = str(self._tokenizer.mask_token)
        questions = questions_of(texts, self._known, mask, accepted=accepted)
        if not questions:
            return []
        data = CandidateData(
            questions,
            self._graph,
            self._tokenizer,
            builder=self._builder,
            view=self._view,
            prime=self._prime,
        )
        answers = []
        for start in range(0, len(data), self._batch_size):
            indices = range(start, min(start + self._batch_size, len(data)))
            samples = [data.sample(i, epoch=0, seed=0) for i in indices]
            batch = data.collate(samples, epoch=0, seed=0, step=0).to(self._model.device)
            shares = self._model(batch).class_logits.double().softmax(1).cpu().numpy()
            for i, row in zip(indices, shares, strict=True):
                question = data.questions[i]
                answers.append(Answer(question, row[: len(question.candidates) + 1]))
        return answers


def _with(text: LinkedText, links: Sequence[Link]) -> LinkedText:
    """The text's mentions, those of `links` as they are there, the others without an entity."""
    links_by_mention = {link.mention: link for link in links}
    every = (
        links_by_mention.get(k.mention, Link(k.mention, k.candidates, None, k.confidence))
        for k in text.links
    )
    return dataclasses.replace(text, links=tuple(every))
