"""A reading stage on some relations, and questions about the others, with their facts shown.

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
from typing import Any

import numpy as np

from entity_linking.mentions import Link, LinkedText, Mention
from experiments.lama.data import LamaWorld, read_world
from experiments.shown_facts.settings import HEAD, ShownFactsStudy
from kept import hosts
from kept.inputs.views import builder_for, view_for
from kept.lab.probing.engine import probe
from kept.lab.probing.items.collections import lama_templates, pararel_templates
from kept.lab.probing.items.facts import answers_by_subject, questions, with_answers_of
from kept.lab.probing.items.graph_items import graph_questions
from kept.lab.probing.items.holes import filled
from kept.lab.probing.items.item import ClozeItem, objects_of
from kept.lab.probing.items.templates import Templates
from kept.lab.probing.models.enriched import KeptMaskedLM
from kept.lab.probing.results import ProbeResult
from kept.lab.study.origins import Origin, read_stored, write_stored
from kept.methods import Method, method
from kept.objectives.model import KnowledgeForPreTraining
from kept.objectives.word_heads import copy_mlm_head
from kept.randomness import generator, torch_draws
from kept.training.config import TrainConfig
from kept.training.log import Reporter
from kept.training.loop import Resume, train
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport

TRAINED, RESULT = "trained.json", "result.json"
CONDITIONS = ("alone", "shown", "edited", "hidden", "untrained")
"""The asked fact is in the graph and no other fact is; beside the entity's other facts; there with
another object of its relation; left out; there, for a model without the reading stage."""
VOCABULARY = "optiprompt/common_vocab_cased.txt.gz"


@dataclasses.dataclass(frozen=True)
class Asked:
    """The world, its questions, and what they are judged by."""

    study: ShownFactsStudy
    world: LamaWorld
    items: tuple[ClozeItem, ...]
    training_templates: Templates
    objects: Mapping[str, Sequence[str]]
    vocabulary: tuple[str, ...]

    @classmethod
    def read(cls, study: ShownFactsStudy, root: Path, vocabulary: Sequence[str]) -> Asked:
        """Everything below `root`, with LAMA's words for the ranking over a vocabulary."""
        world = read_world(
            root, per_relation=study.facts_per_relation, n_texts=study.n_texts, seed=study.seed
        )
        templates = lama_templates(root / "lama"), pararel_templates(root / "lama")
        return cls.of(study, world, *templates, vocabulary)

    @classmethod
    def of(
        cls,
        study: ShownFactsStudy,
        world: LamaWorld,
        templates: Templates,
        paraphrases: Templates,
        vocabulary: Sequence[str],
    ) -> Asked:
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
        asked = graph_questions(
            graph,
            None,
            {name: texts for name, texts in self.training_templates.items()
             if name not in self.relations[fold]},
            max_items=self.study.stated_per_relation,
            seed=self.study.seed,
        )  # fmt: skip
        texts = []
        for item in asked.items:
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


def train_head(asked: Asked, out: Path, reporter: Reporter) -> Path:
    """The host with a head over words, trained on the texts; its folder."""
    study, graph, folder = asked.study, asked.world.graphs["held_out"], out / HEAD
    if read_stored(folder / TRAINED, origin_of(asked, HEAD)) is not None:
        return folder
    none = method("none")
    host, tokenizer = hosts.load_host(study.host), hosts.load_tokenizer(study.host)
    with torch_draws(study.seed, "initial weights"):
        encoder = none.encoder.for_graph(host, graph, tokenizer, seed=study.seed)
        model = KnowledgeForPreTraining.of(encoder, {"mlm": study.words})
    encoder.freeze_parts(study.freeze)
    texts = [text for document in asked.world.documents for text in document]
    data = _data(asked, none, graph, {"mlm": study.words}, texts, view={})
    _train(model, data, study.head, folder, origin_of(asked, HEAD), reporter)
    return folder


def new_model(asked: Asked, name: str, fold: int, begun: Path) -> KnowledgeForPreTraining:
    """An arm before its reading stage, with host and head over words of the model in `begun`."""
    arm, first = asked.study.arms[name], KnowledgeForPreTraining.from_pretrained(begun)
    tokenizer = hosts.load_tokenizer(asked.study.host)
    with torch_draws(asked.study.seed, "initial weights"):
        encoder = arm.line.encoder.for_graph(
            first.encoder.host,
            asked.training_graph(fold),
            tokenizer,
            seed=asked.study.seed,
            **arm.options,
        )
        model = KnowledgeForPreTraining.of(encoder, {"stated_words": asked.study.stated})
    encoder.freeze_parts(asked.study.freeze)
    copy_mlm_head(begun, model)
    return model


def begin_arm(asked: Asked, name: str, fold: int, out: Path, reporter: Reporter) -> Path:
    """The folder of the model that an arm starts from: the host with its head, or another arm's."""
    start = asked.study.arms[name].start
    if start is None:
        return train_head(asked, out, reporter)
    run_arm(asked, start, fold, out, reporter)
    return out / f"{start}-{fold}"


def run_arm(asked: Asked, name: str, fold: int, out: Path, reporter: Reporter) -> dict[str, Any]:
    """Train an arm on the other folds, ask it about this one; what was stored is not run again."""
    study, folder = asked.study, out / f"{name}-{fold}"
    origin = origin_of(asked, name)
    stored: dict[str, Any] | None = read_stored(folder / RESULT, origin)
    if stored is not None:
        return stored
    arm, graph = study.arms[name], asked.training_graph(fold)
    model = new_model(asked, name, fold, begin_arm(asked, name, fold, out, reporter))
    given, items = asked.world.graphs["given"], asked.of_fold(fold)
    untrained = _ask(asked, model, name, given, items)
    texts = asked.training_texts(fold)
    objectives = {"stated_words": study.stated}
    data = _data(asked, arm.line, graph, objectives, texts, view=arm.view)
    training = study.reading
    if arm.steps is not None:
        training = training.model_copy(update={"steps": arm.steps})
    _train(model, data, training, folder, origin, reporter)
    edited_graph, edited_items = asked.edited(fold)
    values = {
        "arm": name,
        "fold": fold,
        "relations": asked.relations[fold],
        "share of texts with a stated mention": data.shares_read["stated_words"],
        "alone": _ask(asked, model, name, asked.asked_alone(fold), items),
        "shown": _ask(asked, model, name, given, items),
        "edited": _ask(asked, model, name, edited_graph, edited_items),
        "hidden": _ask(asked, model, name, given, items, show=False),
        "untrained": untrained,
    }
    write_stored(folder / RESULT, origin, values)
    return values


def _ask(
    asked: Asked,
    model: KnowledgeForPreTraining,
    name: str,
    graph: KnowledgeGraph,
    items: Sequence[ClozeItem],
    *,
    show: bool = True,
) -> list[dict[str, Any]]:
    """An answer per question: relation, whether its fact was shown, and its rank in both rankings,
    None where it is not a candidate."""
    arm = asked.study.arms[name]
    probed = KeptMaskedLM(
        model,
        hosts.load_tokenizer(asked.study.host),
        "graph",
        graph,
        show_asked=show,
        builder=asked.study.builder,
        view=dict(arm.view),
        name=name,
    )
    result: ProbeResult = probe(probed, items, vocabulary=asked.vocabulary, objects=asked.objects)
    return [
        {
            "id": answer.id,
            "relation": answer.relation,
            "shown": bool(answer.asked_shown),
            **{
                kind: None if ranking is None else float(ranking.rank)
                for kind, ranking in (("words", answer.restricted), ("objects", answer.objects))
            },
        }
        for answer in result.answers
    ]


def _data(
    asked: Asked,
    line: Method,
    graph: KnowledgeGraph,
    objectives: Any,
    texts: Sequence[LinkedText],
    *,
    view: Mapping[str, Any],
) -> WordGraphData:
    tokenizer = hosts.load_tokenizer(asked.study.host)
    return WordGraphData(
        texts,
        graph,
        tokenizer,
        builder=builder_for(line, asked.study.builder, view, in_pretraining=True),
        view=view_for(line, graph, tokenizer, view),
        objectives=objectives,
    )


def origin_of(asked: Asked, name: str) -> Origin:
    """What an arm's files came of; `HEAD` is the host with its head."""
    return {"settings": asked.study.settings_of(name), "data": asked.world.fingerprint}


def _train(
    model: KnowledgeForPreTraining,
    data: WordGraphData,
    config: TrainConfig,
    folder: Path,
    origin: Origin,
    reporter: Reporter,
) -> None:
    """Train to the end, or go on where it was cut; a folder of other settings is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    if read_stored(folder / TRAINED, origin) is None:
        result = train(model, data, config, folder, reporter=reporter, resume=Resume.IF_ANY)
        write_stored(folder / TRAINED, origin, {"steps": result.step})
        return
    model.load_state_dict(KnowledgeForPreTraining.from_pretrained(folder).state_dict())
