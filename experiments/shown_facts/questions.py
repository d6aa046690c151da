"""Texts that teach to read facts of some relations, and questions about the others.

The world is that of `experiments.lama`: the graph of T-REx and CoDEx-S, and T-REx's sentences
without those that name a probed pair, which train the host's head over words. The reading stage has
facts in LAMA's and ParaRel's templates, or by the label of their relation. A fold's models see
neither facts nor templates of the relations that they are asked about, and no triple of these
relations, until they are asked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from entity_linking.annotations import whole_file
from entity_linking.mentions import Link, LinkedText, Mention
from experiments.lama.data import LamaWorld, read_world
from experiments.shown_facts.settings import ShownFactsStudy
from kept.lab.probing.items.collections import lama_templates, pararel_templates
from kept.lab.probing.items.facts import answers_by_subject, questions, with_answers_of
from kept.lab.probing.items.graph_items import graph_questions
from kept.lab.probing.items.holes import filled
from kept.lab.probing.items.item import ClozeItem, objects_of
from kept.lab.probing.items.templates import Templates
from kept.randomness import generator
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport

VOCABULARY = "optiprompt/common_vocab_cased.txt.gz"


@dataclasses.dataclass(frozen=True)
class Questions:
    """The world, its questions, and what they are judged by."""

    study: ShownFactsStudy
    world: LamaWorld
    items: tuple[ClozeItem, ...]
    training_templates: Templates
    objects: Mapping[str, Sequence[str]]
    vocabulary: tuple[str, ...]

    @classmethod
    def read(cls, study: ShownFactsStudy, root: Path) -> Questions:
        """Return the questions from the data below `root`, ranked among LAMA's words."""
        words = whole_file(root / "lama" / VOCABULARY).decode().split("\n")
        world = read_world(
            root, per_relation=study.facts_per_relation, n_texts=study.n_texts, seed=study.seed
        )
        templates = lama_templates(root / "lama"), pararel_templates(root / "lama")
        return cls.of(study, world, *templates, [word for word in words if word])

    @classmethod
    def of(
        cls,
        study: ShownFactsStudy,
        world: LamaWorld,
        templates: Templates,
        paraphrases: Templates,
        vocabulary: Sequence[str],
    ) -> Questions:
        """The questions about the probed facts in these templates; both kinds are trained on."""
        known = answers_by_subject(world.every_fact)
        items = questions(world.facts, templates, DamageReport(), known_answers=known)
        everything = questions(world.every_fact, templates, DamageReport(), known_answers={})
        graph = world.graphs["given"]
        whole = with_answers_of(items, graph)
        objects = objects_of(everything)
        both = {
            name: [*templates.get(name, ()), *paraphrases.get(name, ())]
            for name in sorted({*templates, *paraphrases})
        }
        return cls(study, world, tuple(whole), both, objects, tuple(vocabulary))

    @cached_property
    def relations(self) -> list[list[str]]:
        """The relations of each fold."""
        names = sorted({item.relation for item in self.items})
        return [names[k :: self.study.folds] for k in range(self.study.folds)]

    def of_fold(self, fold: int) -> list[ClozeItem]:
        """The questions about a fold's relations."""
        return [item for item in self.items if item.relation in self.relations[fold]]

    def training_graph(self, fold: int) -> KnowledgeGraph:
        """The graph without the probed facts and without the relations of the fold."""
        graph = self.world.graphs["held_out"]
        ids = [graph.relations.find(name) for name in self.relations[fold]]
        left_out = np.isin(graph.triples[:, 1], [i for i in ids if i is not None])
        return graph.with_triples(graph.triples[~left_out], note=f"without fold {fold}")

    def training_texts(self, fold: int) -> list[LinkedText]:
        """Facts of the training graph in the templates of their relations, both ends linked.

        LAMA's and ParaRel's templates; a relation without any has "[X] LABEL [Y] ."
        """
        graph = self.training_graph(fold)
        stated = graph_questions(
            graph,
            None,
            {name: texts for name, texts in self.training_templates.items()
             if name not in self.relations[fold]},
            max_items=self.study.stated_per_relation,
            seed=self.study.seed,
        )  # fmt: skip
        texts = []
        for item in stated.items:
            assert item.fact is not None
            linked = filled(item, item.answer)
            start = item.hole.start
            tail = Link(Mention(start, start + len(item.answer)), (), item.fact[2], 1.0)
            links = tuple(sorted([*linked.links, tail], key=lambda link: link.mention))
            texts.append(dataclasses.replace(linked, links=links))
        return texts

    def asked_alone(self, fold: int) -> KnowledgeGraph:
        """The graph of a fold's asked facts, without any other."""
        graph = self.world.graphs["given"]
        wanted = {
            (graph.entities.find(item.fact[0]), graph.relations.find(item.fact[1]),
             graph.entities.find(item.fact[2]))
            for item in self.of_fold(fold)
            if item.fact is not None
        }  # fmt: skip
        keep = [tuple(row) in wanted for row in graph.triples.tolist()]
        return graph.with_triples(graph.triples[keep], note=f"asked facts of fold {fold} alone")

    def edited(self, fold: int) -> tuple[KnowledgeGraph, list[ClozeItem]]:
        """The graph where every asked fact has another object of its relation; the questions with
        that object as their answer."""
        graph, draws = self.world.graphs["given"], generator(self.study.seed, "edited facts", fold)
        triples = np.array(graph.triples)
        items = []
        for item in self.of_fold(fold):
            assert item.fact is not None
            right = {item.answer, *item.also_right}
            names = [name for name in self.objects[item.relation] if name not in right]
            tails = [(name, self._entity(item.relation, name)) for name in names]
            possible = [(name, tail) for name, tail in tails if tail is not None]
            if not possible:
                continue
            name, tail = possible[int(draws.integers(len(possible)))]
            head, relation, old = (
                graph.entities.find(item.fact[0]),
                graph.relations.find(item.fact[1]),
                graph.entities.find(item.fact[2]),
            )
            triples[(triples == [head, relation, old]).all(axis=1), 2] = tail
            fact = (item.fact[0], item.fact[1], graph.entities.name(tail))
            items.append(
                dataclasses.replace(item, answer=name, also_right=item.also_right, fact=fact)
            )
        return graph.with_triples(triples, note=f"{len(items)} facts edited"), items

    def _entity(self, relation: str, name: str) -> int | None:
        """The entity that stands under `name` as an object of the relation."""
        return self._tails.get((relation, name))

    @cached_property
    def _tails(self) -> dict[tuple[str, str], int]:
        entities = self.world.graphs["given"].entities
        tails: dict[tuple[str, str], int] = {}
        for fact in self.world.every_fact:
            number = entities.find(fact.tail) if fact.tail else None
            if number is not None:
                tails.setdefault((fact.relation, fact.answer), number)
        return tails
