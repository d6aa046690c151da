"""The methods that a word-knowledge completion compares, each as ranks of the gold relations.

A method is trained on `split.train` or `split.train_graph` alone and evaluated on every test of the
split. A method that cannot answer a setting gives the reason instead.

Axis legend: example, relation, entity, token.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kept.batches import N_SPECIAL_ROWS
from kept.evaluation.ranking import Filter, RankingResult
from kept.graphs.builder import BuilderConfig
from kept.hosts import load_host, load_tokenizer, word_table
from kept.inputs.controls.conditions import Knowledge
from kept.inputs.controls.shuffles import shuffle_objects, without_triples
from kept.kgc.batches import (
    CompletionData,
    completion_scores,
    completion_triples,
    entity_sampler,
    rank_relations,
)
from kept.kgc.split import CompletionSplit
from kept.kge import RECIPES, make_scorer, train
from kept.kge.dkrl import DKRL, DKRL_RECIPE, CbowEncoder, train_dkrl
from kept.methods import method
from kept.objectives.masking import MaskingConfig
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator, torch_draws, torch_generator
from kept.training.config import TrainConfig
from kept.training.log import Reporter
from kept.training.loop import Resume
from kept.training.loop import train as train_model
from kg_loaders import KnowledgeGraph

UNSEEN = "an entity has no trained vector"


@dataclass(frozen=True)
class Answers:
    """Ranks of one method by setting; `skipped` says why a setting has none."""

    results: Mapping[str, RankingResult]
    skipped: Mapping[str, str]


@dataclass(frozen=True)
class Questions:
    """The questions of a split: triples by id, and the filter of all known triples."""

    triples: Mapping[str, NDArray[np.int64]]
    filter: Filter

    @classmethod
    def of(cls, split: CompletionSplit) -> Questions:
        graph = split.full_graph
        return cls(
            {name: completion_triples(rows, graph) for name, rows in split.tests.items()},
            Filter(
                {"all triples of the graph": graph.triples},
                n_entities=graph.n_entities,
                n_relations=graph.n_relations,
            ),
        )

    def answers(
        self, scores: Mapping[str, NDArray[np.float32]], skipped: Mapping[str, str]
    ) -> Answers:
        """Rank `scores[setting] [example relation]`; ties count at their mean place."""
        results = {
            setting: rank_relations(
                rows, self.triples[setting], filter=self.filter, ties="realistic"
            )
            for setting, rows in scores.items()
        }
        return Answers(results, skipped)


def with_knowledge(
    split: CompletionSplit, knowledge: Knowledge, seed: int
) -> tuple[KnowledgeGraph, KnowledgeGraph]:
    """The training and the context graph as they are, empty, or with objects shuffled.

    Shuffled: the context keeps the shuffled training triples and adds shuffled others, so that an
    entity has the same (false) neighbours in training and in the test.
    """
    train_graph, context = split.train_graph, split.context_graph
    if knowledge == "true":
        return train_graph, context
    if knowledge == "off":
        return without_triples(train_graph), without_triples(context)
    draws = generator(seed, "shuffled objects")
    shuffled = shuffle_objects(train_graph, draws)
    others = context.triples[~train_graph.contains(context.triples)]
    rest = shuffle_objects(context.with_triples(others, note="unseen entities"), draws)
    joined = np.concatenate([shuffled.triples, rest.triples])
    return shuffled, context.with_triples(joined, note="objects shuffled within each relation")


def most_frequent(split: CompletionSplit, questions: Questions) -> Answers:
    """Every relation scored by its number of training examples."""
    counts = np.zeros(split.full_graph.n_relations, np.float32)
    for example in split.train:
        counts[split.full_graph.relations.id(example.relation)] += 1
    scores = {name: np.tile(counts, (len(rows), 1)) for name, rows in questions.triples.items()}
    return questions.answers(scores, {})


def triple_scorer(
    name: str,
    split: CompletionSplit,
    questions: Questions,
    *,
    changes: Mapping[str, Any],
    seed: int,
) -> Answers:
    """TransE, DistMult, ComplEx or RotatE on the training triples; transductive only.

    `changes` replace fields of the scorer's recipe; by default a cross entropy over all relations
    is added to the recipe's loss, since relations are predicted.
    """
    width, recipe = RECIPES[name]
    draws = torch_generator(seed, "triple scorer", name)
    graph = split.train_graph
    scorer = make_scorer(
        name,
        n_entities=graph.n_entities,
        n_relations=graph.n_relations,
        width=width,
        generator=draws,
    )
    config = dataclasses.replace(recipe, **{"relation_weight": 1.0, **changes})
    train(scorer, graph.triples, config=config, generator=draws)
    with torch.no_grad():
        rows = torch.from_numpy(questions.triples["transductive"])
        scores = scorer.scores("relation", rows).numpy()
    return questions.answers({"transductive": scores}, {"inductive": UNSEEN})


def dkrl(
    split: CompletionSplit,
    questions: Questions,
    *,
    host: str,
    changes: Mapping[str, Any],
    seed: int,
) -> Answers:
    """DKRL with the CBOW encoder over descriptions (else labels), words started from the host.

    Squared distances (the released program's second mode): matrix products, so it trains on a CPU.
    """
    graph, draws = split.train_graph, torch_generator(seed, "dkrl")
    token_ids, token_mask = description_tokens(graph, load_tokenizer(host), n_tokens=24)
    words = word_table(load_host(host)).weight.detach()
    width = words.shape[1]
    model = DKRL(
        n_entities=graph.n_entities,
        n_relations=graph.n_relations,
        width=width,
        encoder=CbowEncoder(words=words, width=width, generator=draws),
        generator=draws,
        norm=2,
    )
    config = dataclasses.replace(DKRL_RECIPE, **changes)
    train_dkrl(model, graph.triples, token_ids, token_mask, config=config, generator=draws)
    in_training = np.zeros(graph.n_entities, np.bool_)
    in_training[graph.triples[:, [0, 2]].ravel()] = True
    with torch.no_grad():
        states = model.encode_descriptions(token_ids, token_mask)
        score = model.ranker(states, torch.from_numpy(in_training))
        scores = {
            name: score("relation", torch.from_numpy(rows)).numpy()
            for name, rows in questions.triples.items()
        }
    return questions.answers(scores, {})


def description_tokens(
    graph: KnowledgeGraph, tokenizer: Any, *, n_tokens: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Word-piece ids and mask `[entity token]` of "label: description", as far as there is one."""
    texts = []
    for entity in range(graph.n_entities):
        description = graph.description(entity)
        label = graph.label(entity)
        texts.append(label if description is None else f"{label}: {description}")
    encoded = tokenizer(
        texts,
        add_special_tokens=False,
        truncation=True,
        max_length=n_tokens,
        padding=True,
        return_tensors="pt",
    )
    return encoded["input_ids"], encoded["attention_mask"].bool()


@dataclass(frozen=True, kw_only=True)
class CoLAKERun:
    """The settings of every CoLAKE of a comparison; only the knowledge differs."""

    host: str
    builder: BuilderConfig
    masking: Mapping[str, Any]
    training: TrainConfig
    n_negatives: int

    def train(
        self, split: CompletionSplit, knowledge: Knowledge, folder: Path, reporter: Reporter | None
    ) -> KnowledgeForPreTraining:
        """A trained model; an interrupted run resumes from its last checkpoint.

        Raises `UnfinishedError` for a training that its budget ended.
        """
        seed = self.training.seed
        graph, _ = with_knowledge(split, knowledge, seed)
        tokenizer = load_tokenizer(self.host)
        data = CompletionData(
            examples=split.train,
            graph=graph,
            tokenizer=tokenizer,
            builder=self.builder,
            masking=self.masking_config(graph, tokenizer),
            sampler=entity_sampler(split.train, graph),
            n_negatives=self.n_negatives,
        )
        model = self.fresh_model(graph, tokenizer)
        train_model(
            model, data, self.training, folder, reporter=reporter, resume=Resume.IF_ANY
        ).require_end()
        return model

    def rank(
        self,
        model: KnowledgeForPreTraining,
        split: CompletionSplit,
        questions: Questions,
        *,
        knowledge: Knowledge,
    ) -> Answers:
        """Ranks of every test with the neighbours of the (true, empty or shuffled) context."""
        _, context = with_knowledge(split, knowledge, self.training.seed)
        tokenizer = load_tokenizer(self.host)
        scores = {
            setting: completion_scores(
                model, examples, context, tokenizer, self.builder, seed=self.training.seed
            )
            for setting, examples in split.tests.items()
        }
        return questions.answers(scores, {})

    def fresh_model(self, graph: KnowledgeGraph, tokenizer: Any) -> KnowledgeForPreTraining:
        with torch_draws(self.training.seed, "fresh model"):
            encoder = method("colake").new_encoder(
                self.host, graph, tokenizer, seed=self.training.seed
            )
            return KnowledgeForPreTraining.of(encoder, {"masked_nodes": dict(self.masking)})

    def masking_config(self, graph: KnowledgeGraph, tokenizer: Any) -> MaskingConfig:
        return MaskingConfig(
            word_mask_id=tokenizer.mask_token_id,
            n_words=len(tokenizer),
            n_entities=graph.n_entities + N_SPECIAL_ROWS,
            n_relations=graph.n_relations + N_SPECIAL_ROWS,
            special_word_ids=tuple(sorted(tokenizer.all_special_ids)),
            **self.masking,
        )
