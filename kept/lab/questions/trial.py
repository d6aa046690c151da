"""Runs of a comparison on questions: a row, a kind of knowledge, a seed; its answers to every item.

A folder of runs is as in `kept.lab.study.store`; weights of rows lie in `pretrained/`, as those
that differ when they are asked alone share one. A row that trains nothing has one run for all
seeds: nothing in its outcome depends on them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from transformers import PreTrainedModel

from kept.decoders import load_decoder
from kept.errors import ConfigError, NoKnowledgeError
from kept.hosts import load_tokenizer
from kept.inputs.controls.conditions import Knowledge
from kept.lab.questions.answering import MEASURES, candidates, judged
from kept.lab.questions.items import Item, QuestionSet, question_sets, values_of
from kept.lab.questions.plan import ABSENT, EDITED, TEST, QuestionPlan
from kept.lab.questions.prompts import Prompting
from kept.lab.questions.readers import AloneReader, Reader, write_all
from kept.lab.questions.rows import row_of
from kept.lab.questions.showing import CONDITIONS, ItemSet, absent, edited, items_under
from kept.lab.questions.training_context import TrainingContext
from kept.lab.study.addresses import digests_of, run_hash
from kept.lab.study.design import RunKey
from kept.lab.study.slices import ItemTraits
from kept.lab.study.trial import Answers, Trial
from kept.linking.sentences import HostSentenceEncoder
from kept.methods import BASELINE
from kept.training.finetuning.answers import Answer
from kept.training.log import Reporter
from kept.training.processes.together import processes

VERSION = 1
"""Part of every hash; raised when a default changes, as hashes leave defaults out."""
OF_THE_ANSWERS = ("host", "vectors_from", "chat", "max_facts", "n_new")


@dataclass(frozen=True, eq=False)
class QuestionTrial(Trial):
    """The runs of `questions` in `folder`; `root` is where files and graphs lie."""

    questions: QuestionPlan
    root: Path
    folder: Path
    reporter: Reporter | None = None
    should_stop: Callable[[], bool] = field(default=lambda: False)

    @property
    def plan(self) -> QuestionPlan:
        """The plan itself."""
        return self.questions

    @property
    def rows(self) -> Sequence[str]:
        """The rows of the file."""
        return tuple(self.questions.methods)

    @property
    def device(self) -> str:
        """Decoders are trained and asked there."""
        return "cpu"

    # ---- what all runs share -----------------------------------------------------------------
    @cached_property
    def sets(self) -> tuple[QuestionSet, QuestionSet]:
        """Questions to train on, and those of the tables."""
        return question_sets(self.questions.questions, self.root)

    @cached_property
    def test_questions(self) -> QuestionSet:
        """The questions of the tables over the graph as it is; `NoKnowledgeError` where no fact
        that answers is among those that are shown.
        """
        test = self.sets[1]
        if not any(self._is_shown(test, item) for item in test.items):
            raise NoKnowledgeError(
                f"of {len(test.items)} questions the graph shows none the fact that answers: it "
                f"is not among the first {self.plan.max_facts} of its entity; raise max_facts"
            )
        return test

    def _is_shown(self, questions: QuestionSet, item: Item) -> bool:
        entity, relation = questions.fact_of(item)
        facts = questions.graph.outgoing(entity)[: self.plan.max_facts]
        return relation in facts[:, 1]

    @cached_property
    def host(self) -> PreTrainedModel:
        """The decoder, in float32: rows are trained on it."""
        return load_decoder(self.questions.host, for_training=True)

    @cached_property
    def prompting(self) -> Prompting:
        """How questions are put."""
        return Prompting(
            load_tokenizer(self.questions.host), self.questions.chat, self.questions.max_facts
        )

    @cached_property
    def edited(self) -> ItemSet:
        """Every value changed."""
        return edited(self.test_questions, self._source.seed)

    @cached_property
    def candidates(self) -> dict[int, list[str]]:
        """The values compared for each item by its number, the edited one among them."""
        new = {each.item: each.right for each in self.edited.items}
        true = items_under(self.test_questions, "true", self._source.seed)
        n, seed = self._source.n_candidates, self._source.seed
        return {
            each.index: candidates(self.test_questions, each, new.get(each.item, ()), n, seed)
            for each in true.items
        }

    @cached_property
    def n_new(self) -> int:
        """Pieces that are written: those of the longest candidate and a stop, no more than the
        plan's.
        """
        values = {value for values_of_item in self.candidates.values() for value in values_of_item}
        longest = max(len(self.prompting.pieces(value)) for value in values)
        return min(longest + 1, self.questions.n_new)

    @property
    def chance(self) -> float:
        """The share of items whose value would be chosen by chance."""
        shares = [
            len(set(item.answers)) / len(self.candidates[i])
            for i, item in enumerate(self.test_questions.items)
        ]
        return float(np.mean(shares))

    @property
    def _source(self) -> Any:
        return self.questions.questions

    @cached_property
    def data(self) -> str:
        """SHA-256 over the graphs, the questions and their wording."""
        state = hashlib.sha256()
        for each in self.sets:
            state.update(each.graph.content_hash.encode())
            state.update(msgspec.json.encode([dataclasses.astuple(item) for item in each.items]))
            wordings = {name: words.model_dump() for name, words in sorted(each.wording.items())}
            state.update(msgspec.json.encode(wordings))
        return state.hexdigest()[:16]

    # ---- one run -----------------------------------------------------------------------------
    def require(self, key: RunKey) -> None:
        """Raise `ConfigError` for settings with which a run could not begin."""
        if key.knowledge not in CONDITIONS:
            items_under(self.test_questions, key.knowledge, 0)
        self.settings(key)

    def settings(self, key: RunKey) -> dict[str, Any]:
        """Return all that a run depends on; ConfigError for a row that the file does not have."""
        plan = self.questions
        kind = plan.kind_of(key.method)
        of_row: dict[str, Any] = {}
        if kind != BASELINE:
            of_row = {"method": kind, "options": self._options(key.method)}
            if row_of(kind).trains != "nothing":
                of_row |= {"seed": key.seed, "controls": plan.controls}
        return {
            "version": VERSION, "task": "questions", "data": self.data,
            "source": self._source.model_dump(include={"seed", "n_candidates"}),
            "folders": digests_of(plan.host, plan.vectors_from),
            **{name: getattr(plan, name) for name in OF_THE_ANSWERS},
            "knowledge": key.knowledge, **of_row,
        }  # fmt: skip

    def _options(self, name: str) -> dict[str, Any]:
        return self.questions.options_of(name).model_dump(mode="json", exclude_defaults=True)

    def same_as(self, key: RunKey) -> RunKey | None:
        """Return the host's run where a row without knowledge is the host alone."""
        kind = self.questions.kind_of(key.method)
        is_host = kind != BASELINE and key.knowledge == "off" and row_of(kind).off_is_host
        return RunKey(BASELINE, "off", 0) if is_host else None

    def run(self, key: RunKey, run_folder: Path) -> Answers | None:
        """See `Trial.run`."""
        started, together = time.monotonic(), processes()
        sets = self._conditions(key)
        reader = self._reader(key)
        if reader is None:
            return None
        rows, scores, costs = list[Answer](), dict[str, Any](), dict[str, Any]()
        for name, each in sets.items():
            written = write_all(reader, self.prompting, each, self.n_new, together=together)
            answers = self._answers(name, each, written.texts, written.scores)
            rows += answers
            scores[name] = _scores(answers)
            if name == TEST:
                costs = {"nodes": written.nodes, "cpu_ms": written.cpu_ms}
        return Answers(rows, scores, costs | {"seconds": time.monotonic() - started})

    def _conditions(self, key: RunKey) -> dict[str, ItemSet]:
        """The sets of a run: the questions, and with true knowledge the edited and taken facts."""
        seed, kind = self._source.seed, self.questions.kind_of(key.method)
        if kind == BASELINE:
            return {TEST: items_under(self.test_questions, "off", seed)}
        row = row_of(kind)
        sets = {TEST: items_under(self.test_questions, key.knowledge, seed)}
        if key.knowledge == "true":
            if self.edited.items:
                sets[EDITED] = self.edited
            if row.reads:
                sets[ABSENT] = absent(self.test_questions)
        return sets

    def _reader(self, key: RunKey) -> Reader | None:
        kind = self.questions.kind_of(key.method)
        if kind == BASELINE:
            return AloneReader(self.host, self.prompting)
        row = row_of(kind)
        of_training = self._knowledge_of_training(key)
        weights_folder = self.folder / "pretrained" / self._trained_in(key, of_training)
        train, seed = self.sets[0], self._source.seed
        train_items = items_under(
            self.test_questions if row.trains == "facts" else train, of_training, seed
        )
        if row.trains == "facts":
            train_items = training_items(train_items)
        context = TrainingContext(
            host=self.host,
            prompting=self.prompting,
            train_items=train_items,
            questions=self.test_questions,
            seed=key.seed,
            folder=weights_folder,
            new_encoder=lambda: HostSentenceEncoder(self.questions.vectors_from),
            reporter=self.reporter,
            should_stop=self.should_stop,
        )
        if row.trains == "nothing":
            return row.make(context, self.questions.options_of(key.method))
        weights_folder.parent.mkdir(parents=True, exist_ok=True)
        with processes().claimed(weights_folder):
            return row.make(context, self.questions.options_of(key.method))

    def _knowledge_of_training(self, key: RunKey) -> Knowledge:
        """What a row is trained with: what it is asked with, or true facts of other entities.

        One that remembers facts is always trained with those of its kind of knowledge.
        """
        trains = row_of(self.questions.kind_of(key.method)).trains
        is_own = trains == "facts" or self.questions.controls == "trained"
        return key.knowledge if is_own else "true"

    def _trained_in(self, key: RunKey, knowledge: Knowledge) -> str:
        """The folder of a row's weights: the hash of its run with what it is trained with."""
        return run_hash(self.settings(dataclasses.replace(key, knowledge=knowledge)))

    # ---- answers -----------------------------------------------------------------------------
    def _answers(
        self, name: str, each: ItemSet, texts: Sequence[str], scores: torch.Tensor
    ) -> list[Answer]:
        """One a question; those about one entity are not independent."""
        number = {item: i for i, item in enumerate(self.test_questions.items)}
        answers = []
        for one, text, item_scores in zip(each.items, texts, scores, strict=True):
            values = self.candidates[number[one.item]]
            answer = judged(self.prompting, one, values, text, item_scores)
            answers.append(
                Answer(
                    name, one.index, one.item.entity, one.item.entity, one.right,
                    (answer.written, answer.chosen), counts=answer.counts,
                    traits=dataclasses.asdict(self.traits[number[one.item]]),
                )
            )  # fmt: skip
        return answers

    @cached_property
    def traits(self) -> list[ItemTraits]:
        """Of each item, from the graph and the questions alone."""
        questions, graph = self.test_questions, self.test_questions.graph
        into = np.diff(graph.in_offsets)
        degrees = np.diff(graph.out_offsets) + into
        train = self.sets[0]
        seen = {
            value for item in train.items for value in values_of(train.graph, *train.fact_of(item))
        }
        of_items = []
        for item in questions.items:
            entity, _ = questions.fact_of(item)
            of_items.append(
                ItemTraits(
                    has_entity=True,
                    has_fact=self._is_shown(questions, item),
                    degree=int(degrees[entity]),
                    popularity=int(into[entity]),
                    is_seen=seen.issuperset(item.answers),
                    n_words=len(item.name.split()),
                )
            )
        return of_items


def _scores(answers: Sequence[Answer]) -> dict[str, Any]:
    """Shares of a set, and the number of its questions."""
    counts = [answer.counts or {} for answer in answers]
    shares = {name: float(np.mean([each[name][0] for each in counts])) for name in MEASURES}
    return {"n_asked": len(answers), "n_scored": len(answers), **shares}


def training_items(item_set: ItemSet) -> ItemSet:
    """What a row that remembers is told: of each item what the graph says of whom it is shown."""
    items = []
    for each in item_set.items:
        if each.entity is None:
            raise ConfigError(
                "a row that is trained on facts needs some; for knowledge off, use the row "
                "of the host alone"
            )
        relation = item_set.questions.fact_of(each.item)[1]
        values = values_of(item_set.graph, item_set.graph.entities.id(each.entity), relation)
        items.append(dataclasses.replace(each, right=values or each.right))
    return ItemSet(item_set.questions, tuple(items))
