"""Questions by popularity: each row and condition answers the questions of a seed, once.

    python -m experiments.popular_questions.trial experiments/popular_questions/questions.yaml \
        -o runs/popular --seeds 2

Every outcome is stored with all its answers under its address in `answers/` beside the file. An
interrupted command continues; more `--seeds` add questions about other subjects.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from entity_linking.mentions import LinkedText, Linker
from entity_linking.parts import SentenceEncoder
from experiments.command import announce, data_root, run_study
from experiments.popular_questions.questions import (
    Pool,
    Question,
    Settings,
    fingerprint_of,
    graph_of,
)
from experiments.popular_questions.retrieval import BM25, ByVectors
from experiments.popular_questions.tables import (
    ARMS,
    Outcome,
    SeedQuestions,
    refusal_counts,
    set_f1,
    values_in,
    write_page,
)
from kept.batches import KnowledgeBatch
from kept.decoders import load_decoder
from kept.decoders.answering.answer import Answerer
from kept.decoders.answering.encoder import answer_encoder
from kept.decoders.answering.relations import RelationMatcher
from kept.decoders.asking import Asker, AskOptions, by_likeness, prompt, sentence, sentences
from kept.decoders.trees import knowledge_tree, write
from kept.graphs.builder import BuilderConfig, build_many
from kept.graphs.views.words import WordsView
from kept.hosts import load_tokenizer
from kept.inputs.controls.shuffles import shuffle_objects
from kept.lab.questions.answering import CHOSEN, EXACT, REFUSED, candidates, judged
from kept.lab.questions.items import QuestionSet, values_of
from kept.lab.questions.prompts import TOKENIZERS_MARKS, Prompting
from kept.lab.questions.showing import ShownItem, edited_graph
from kept.lab.study.addresses import run_hash
from kept.lab.study.cells import PlainCellTrial
from kept.lab.study.store import stored_once
from kept.linking.linkers import LinkerSettings, open_graph, open_linker
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

VERSION = 2
BATCH = 16


@dataclass(frozen=True, eq=False)
class GraphRows:
    """Rows of `graph` shown with each question, best first; None where nothing is linked."""

    graph: KnowledgeGraph
    rows: Sequence[Sequence[int] | None]


@dataclass(frozen=True, eq=False)
class PopularQuestions(PlainCellTrial):
    """The questions of one seed, and what all rows share."""

    settings: Settings
    base: KnowledgeGraph
    linker: Linker
    encoder: SentenceEncoder
    questions: tuple[Question, ...]
    seed: int
    folder: Path
    answers: Path
    form = Outcome
    rows = tuple(map(", ".join, sorted(ARMS, key=lambda arm: arm[1] not in ("true", "off"))))

    def seeds(self, row: str) -> tuple[int]:
        """See `CellTrial.seeds`."""
        return (self.seed,)

    # ---- graphs ----------------------------------------------------------------------------------
    def graph(self, condition: str) -> KnowledgeGraph:
        """Return the graph of a condition; "random-entity" shows other facts of the true one."""
        graph = self.base
        if condition == "shuffled":
            return shuffle_objects(graph, generator(self.seed, "shuffled objects"))
        if condition == "edited":
            return edited_graph(graph, generator(self.seed, "edited facts"))
        if condition == "absent":
            facts = {self.set.fact_of(question.item) for question in self.questions}
            kept = np.array(
                [
                    (head, relation) not in facts and (tail, relation) not in facts
                    for head, relation, tail in graph.triples.tolist()
                ],
                np.bool_,
            )  # a spouse's spouse would say it, too
            return graph.with_triples(graph.triples[kept], note="without the asked facts")
        return graph

    @cached_property
    def set(self) -> QuestionSet:
        """The questions over the true graph."""
        return QuestionSet(self.base, tuple(q.item for q in self.questions), {})

    def right(self, graph: KnowledgeGraph, condition: str) -> list[tuple[str, ...]]:
        """Return the answers that count: the new ones where facts are edited."""
        if condition != "edited":
            return [question.item.answers for question in self.questions]
        return [values_of(graph, *self.set.fact_of(question.item)) for question in self.questions]

    @cached_property
    def others(self) -> list[int]:
        """For each question an entity with the relation, and with none of the right values."""
        draws, heads_of = generator(self.seed, "another entity"), []
        for question in self.questions:
            _, relation = self.set.fact_of(question.item)
            rows = self.base.triples[self.base.triples[:, 1] == relation]
            heads = (int(rows[position, 0]) for position in draws.permutation(len(rows)))
            right = {*question.item.answers}
            heads_of.append(
                next(h for h in heads if not right & {*values_of(self.base, h, relation)})
            )
        return heads_of

    @cached_property
    def candidates(self) -> list[list[str]]:
        """The values that are compared for each question, those of every condition among them."""
        edited, shuffled = self.graph("edited"), self.graph("shuffled")
        of_questions = []
        for i, question in enumerate(self.questions):
            head, relation = self.set.fact_of(question.item)
            also = (
                *values_of(edited, head, relation), *values_of(shuffled, head, relation),
                *values_of(self.base, self.others[i], relation),
            )  # fmt: skip
            each = ShownItem(i, question.item, None, question.item.answers)
            n = self.settings.n_candidates
            of_questions.append(candidates(self.set, each, also, n, self.seed))
        return of_questions

    # ---- what is shown ---------------------------------------------------------------------------
    @cached_property
    def linked(self) -> list[LinkedText]:
        """The questions with the links of kept's linker."""
        return self.linker.link([question.item.question for question in self.questions])

    @property
    def options(self) -> AskOptions:
        """Those of `kept ask` but for how much is written."""
        return AskOptions(max_facts=self.settings.max_facts, n_new=self.settings.n_new)

    def asker(self, graph: KnowledgeGraph) -> Asker:
        """Return what `kept ask` chooses facts with."""
        matcher = RelationMatcher(graph, self.encoder)
        matcher.share_phrases(self.answerer.matcher)
        order = by_likeness(self.encoder)
        return Asker(self.host, self.tokenizer, graph, self.linker, order, matcher)

    @cached_property
    def answerer(self) -> Answerer:
        """`kept ask` without a decoder, over the true graph."""
        return Answerer(self.base, self.linker, self.encoder)

    def retrieved(self, row: str, condition: str, graph: KnowledgeGraph) -> GraphRows:
        """Return the facts that a row shows."""
        if row in ("bm25", "minilm"):
            return self._passages(row, graph)
        asker, rows = self.asker(graph), list[Sequence[int] | None]()
        for i, (question, linked) in enumerate(zip(self.questions, self.linked, strict=True)):
            gold, relation = self.set.fact_of(question.item)
            _, surfaces = asker.known(linked)
            if row == "gold-fact":
                of_head = range(*graph.out_offsets[gold : gold + 2])
                facts = [each for each in of_head if graph.triples[each, 1] == relation]
                rows.append(facts[: self.settings.max_facts])
                continue
            if row == "gold-link":
                surfaces = {gold: question.item.name}
            elif condition == "random-entity" and surfaces:
                surfaces = {self.others[i]: question.item.name}
            facts, _ = asker.facts(question.item.question, surfaces, self.options)
            rows.append(facts or None)
        return GraphRows(graph, rows)

    def _passages(self, row: str, graph: KnowledgeGraph) -> GraphRows:
        """As many facts of the whole graph as kept shows, by their words alone."""
        texts = [sentence(graph, each) for each in range(graph.n_triples)]
        index: BM25 | ByVectors
        if row == "bm25":
            index = BM25(texts)
        else:
            path = self.folder / f"sentences-{graph.content_hash[:12]}.npy"
            index = ByVectors(texts, self.encoder, path)
        of_kept = self.retrieved("kept", "true", graph).rows
        numbers = [
            self.settings.max_facts if of_question is None else len(of_question)
            for of_question in of_kept
        ]
        rows = [
            index.best(question.item.question, n).tolist()
            for question, n in zip(self.questions, numbers, strict=True)
        ]
        return GraphRows(graph, rows)

    # ---- answers ---------------------------------------------------------------------------------
    @cached_property
    def host(self) -> PreTrainedModel:
        """The decoder in bfloat16, three times as fast as float32 on this processor."""
        return load_decoder(self.settings.decoder, for_training=True).to(torch.bfloat16)

    @cached_property
    def tokenizer(self) -> Any:
        return load_tokenizer(self.settings.decoder)

    def outcome(self, row: str, condition: str) -> Outcome:
        """Answer all questions."""
        graph = self.graph(condition)
        right = self.right(graph, condition)
        if row == "ask":
            return self._chosen_by_graph(graph, right)
        context = GraphRows(graph, [()] * len(self.questions))
        if row != "none":
            context = self.retrieved(row, condition, graph)
        contexts = [None if r is None else sentences(graph, r) for r in context.rows]
        texts = [
            None if text is None
            else prompt(self.tokenizer, q.item.question, (), text, q.item.begin)
            for q, text in zip(self.questions, contexts, strict=True)
        ]  # fmt: skip
        written, scores = self._write(texts)
        prompting = Prompting(self.tokenizer, TOKENIZERS_MARKS, self.settings.max_facts)
        counts = []
        for i, question in enumerate(self.questions):
            if texts[i] is None:
                counts.append(refusal_counts())
                continue
            each = ShownItem(i, question.item, None, right[i])
            judgement = judged(prompting, each, self.candidates[i], written[i], scores[i]).counts
            counts.append({name: judgement[name][0] for name in (EXACT, CHOSEN, REFUSED)})
        pieces = [
            len(self.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else 0
            for text in contexts
        ]
        return Outcome(
            row, condition, self.seed, [w.partition("\n")[0] for w in written],
            exact=[n[EXACT] for n in counts], chosen=[n[CHOSEN] for n in counts],
            refused=[n[REFUSED] for n in counts],
            f1=[set_f1(values_in(w), r) for w, r in zip(written, right, strict=True)],
            shows_right=[self._is_shown(graph, i, rows) for i, rows in enumerate(context.rows)],
            pieces=pieces,
        )  # fmt: skip

    def _is_shown(self, graph: KnowledgeGraph, number: int, rows: Sequence[int] | None) -> bool:
        """Whether a fact about the subject that has a value of the relation is shown."""
        fact = self.set.fact_of(self.questions[number].item)
        return any(tuple(graph.triples[row, :2].tolist()) == fact for row in rows or ())

    def _write(
        self, texts: Sequence[LinkedText | None]
    ) -> tuple[list[str], dict[int, torch.Tensor]]:
        """Return what is written, and the scores of its first piece; nothing to no text."""
        known = [(i, text) for i, text in enumerate(texts) if text is not None]
        known.sort(key=lambda pair: len(pair[1].text))
        written, scores = [""] * len(texts), dict[int, torch.Tensor]()
        config = BuilderConfig(
            policy="file", max_neighbours=0, replace_mentions=False, drop_probability=0.0,
            max_words=1000, max_nodes=4096,
        )  # fmt: skip
        for start in range(0, len(known), BATCH):
            numbers, facts_text = zip(*known[start : start + BATCH], strict=True)
            built = build_many(facts_text, self.tokenizer, self.base, seed=0, config=config)
            pad = self.tokenizer.pad_token_id or 0
            batch = KnowledgeBatch.stack([WordsView()(each) for each in built], word_pad_id=pad)
            end = self.tokenizer.eos_token_id
            tree = knowledge_tree(self.host, batch)
            new = write(self.host, tree, n_new=self.settings.n_new, end_id=end)
            lines = self.tokenizer.batch_decode(new.words, skip_special_tokens=True)
            for number, line, first in zip(numbers, lines, new.first_scores, strict=True):
                written[number], scores[number] = line.strip(), first.float()
        return written, scores

    def _chosen_by_graph(self, graph: KnowledgeGraph, right: Sequence[tuple[str, ...]]) -> Outcome:
        """`kept ask` without a decoder: exact where only right values are given."""
        answerer = Answerer(graph, self.linker, self.encoder)
        answerer.matcher.share_phrases(self.answerer.matcher)
        answers = [answerer.answer(question.item.question) for question in self.questions]
        exact = [
            float(bool(a.values) and {*a.values} <= {*r})
            for a, r in zip(answers, right, strict=True)
        ]
        return Outcome(
            "ask", "", self.seed, ["; ".join(a.values) for a in answers],
            exact, exact, [float(bool(a.refusal)) for a in answers],
            f1=[set_f1(a.values, r) for a, r in zip(answers, right, strict=True)],
            shows_right=[], pieces=[],
        )  # fmt: skip

    # ---- what is stored --------------------------------------------------------------------------
    def address(self, row: str, condition: str) -> str:
        """Return the hash of all that an outcome depends on."""
        fields = self.settings.model_dump(exclude={"relations"})
        return run_hash({
            "version": VERSION, "row": row, "condition": condition, "seed": self.seed,
            "settings": fields, "graph": self.base.content_hash,
            "questions": fingerprint_of(self.questions),
        })  # fmt: skip

    def path(self, row: str, seed: int) -> Path:
        """See `CellTrial.path`."""
        return self.answers / f"{self.address(*row.split(', '))}.json"

    def run(self, row: str, seed: int) -> Outcome:
        """Answer all questions."""
        method, condition = row.split(", ")
        return dataclasses.replace(self.outcome(method, condition), condition=condition)

    def summary(self, row: str, seed: int, cell: Any) -> str:
        """See `CellTrial.summary`."""
        return f"seed {seed}: {row}"

    def stored_questions(self) -> SeedQuestions:
        """Return the questions with what slices are made from, stored as the outcomes are."""

        def make() -> SeedQuestions:
            asker = self.asker(self.base)
            gold = [self.set.fact_of(question.item)[0] for question in self.questions]
            links = [asker.known(linked)[1] for linked in self.linked]
            shuffled, new = self.graph("shuffled"), self.graph("edited")
            facts = [self.set.fact_of(question.item) for question in self.questions]
            return SeedQuestions(
                seed=self.seed,
                questions=[q.item.question for q in self.questions],
                entities=[q.item.entity for q in self.questions],
                relations=[q.item.relation for q in self.questions],
                answers=[list(q.item.answers) for q in self.questions],
                edited=[list(values_of(new, *fact)) for fact in facts],
                coincides=[
                    float(np.mean([v in q.item.answers for v in values_of(shuffled, *fact)]))
                    for q, fact in zip(self.questions, facts, strict=True)
                ],
                chance=[
                    len({*q.item.answers} & {*names}) / len(names)
                    for q, names in zip(self.questions, self.candidates, strict=True)
                ],
                thirds=[q.third for q in self.questions],
                degrees=[q.degree for q in self.questions],
                n_facts=[q.n_facts for q in self.questions],
                linked=[
                    "only" if [*linked] == [g] else "among others" if g in linked else "wrong"
                    for linked, g in zip(links, gold, strict=True)
                ],
            )  # fmt: skip

        path = self.answers / f"questions-{self.address('', '')}.json"
        return stored_once(path, SeedQuestions, make)


def run(settings: Settings, arguments: argparse.Namespace) -> None:
    """Answer what is missing and write the page beside the configuration."""
    here = arguments.config.parent
    if not arguments.page:
        built, degrees = graph_of(data_root(), arguments.out)
        linking = LinkerSettings(kg=str(arguments.out / "kg"))
        graph = open_graph(linking)
        linker, encoder = open_linker(linking, graph), answer_encoder(1)
        pool = Pool(built, degrees, settings)
        for seed in range(arguments.seeds):
            study = PopularQuestions(
                settings, graph, linker, encoder, pool.draw(seed), seed, arguments.out,
                here / "answers",
            )  # fmt: skip
            study.stored_questions()
            study.run_missing(announce=announce)
            write_page(here, here / "answers")
    write_page(here, here / "answers")


if __name__ == "__main__":
    run_study(
        __doc__, Settings, run,
        {"--seeds": {"type": int, "default": 2},
         "--page": {"action": "store_true", "help": "only write the page"}},
    )  # fmt: skip
