"""Fine-tuning any method on any task: configuration in, a model, its data and its scores out.

Axis legend: item (an example), class, node, word.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from entity_linking.dictionary import DictionaryLinker
from entity_linking.mentions import Link
from kept import hosts
from kept.auto import saved_builder, saved_encoder, saved_tokenizer, saved_view
from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.errors import ConfigError, NoControlError
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import View
from kept.heads.model import MULTI, TAGGING, KnowledgeForTask, head_kind
from kept.methods import Method, method, method_of
from kept.randomness import generator, torch_seed
from kept.tasks.controls import Knowledge, controlled_graph, n_joined, without_pairs
from kept.tasks.finetuning_config import FinetuneConfig
from kept.tasks.finetuning_data import TaskData, pair_ids, prepared
from kept.tasks.finetuning_examples import (
    OUTSIDE,
    TASKS,
    TaskExample,
    hold_out,
    read_examples,
    some_of,
)
from kept.tasks.finetuning_scores import Answers, Baseline, scores
from kept.training.methods import builder_for, view_for
from kg_loaders import KnowledgeGraph

Set = Literal["dev", "test"]
SAMPLES_COMPARED = 64


@dataclass(frozen=True)
class FinetuneRun:
    """A model ready to be trained, its data, what is asked of it, and what was found on the way."""

    config: FinetuneConfig
    model: KnowledgeForTask
    tokenizer: PreTrainedTokenizerBase
    train: TaskData
    asked: dict[Set, TaskData]
    baseline: Baseline
    facts: dict[str, Any]

    def evaluate(self, model: torch.nn.Module, step: int) -> dict[str, float]:
        """Scores on dev while training."""
        found = self.score("dev")[1]
        return {"accuracy": found["accuracy"]["estimate"], "micro_f1": found["micro"]["f1"]}

    def score(self, name: Set) -> tuple[Answers, dict[str, Any]]:
        """Predictions for a set, and its scores beside the baseline's."""
        data, config, kind = self.asked[name], self.config, self.model.config.problem_type
        predicted = predict(self.model, data, threshold=config.threshold)
        made = [
            scores(
                answers,
                data.examples,
                problem_type=kind,
                no_relation=config.no_relation,
                generator=generator(config.training.seed, "bootstrap", name),
            )
            for answers in (predicted, self.baseline.answers(data.examples, kind))
        ]
        known = set(self.model.config.label2id)
        n_unknown = sum(not known.issuperset(example.labels) for example in data.examples)
        counts = {
            "n_asked": len(data) + sum(data.skipped.values()),
            "n_scored": len(data),
            "skipped": data.skipped,
            "n_with_labels_unseen_in_training": n_unknown,
        }
        return predicted, counts | made[0] | {"baseline": made[1]}

    def metrics(self) -> tuple[dict[str, Any], dict[Set, Answers]]:
        """Everything about the finished model, and its predictions by set."""
        predictions: dict[Set, Answers] = {}
        found: dict[str, Any] = {}
        for name in self.asked:
            predictions[name], found[name] = self.score(name)
        return {**self.facts, **found}, predictions


@torch.no_grad()
def predict(
    model: KnowledgeForTask, data: TaskData, *, threshold: float, batch_size: int = 32
) -> Answers:
    """Labels for every item of `data`, in its order; the model is left in the mode it was in."""
    names, kind = model.config.id2label, model.config.problem_type
    was_training = model.training
    model.eval()
    found: dict[int, tuple[str, ...]] = {}
    order = sorted(range(len(data)), key=lambda i: (data.n_nodes(i), i))
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        samples = [data.sample(i, epoch=0, seed=0) for i in chosen]
        batch = data.collate(samples, epoch=0, seed=0, step=0)
        logits = model(batch.to(model.device)).class_logits.float().cpu()
        for place, item in enumerate(chosen):
            if kind == TAGGING:
                numbers = _tags(logits[place], batch, place, len(data.examples[item].targets))
            elif kind == MULTI:
                numbers = (logits[place] > threshold).nonzero()[:, 0].tolist()
            else:
                numbers = [int(logits[place].argmax())]
            found[item] = tuple(OUTSIDE if n is None else names[n] for n in numbers)
    model.train(was_training)
    return [found[i] for i in range(len(data))]


def _tags(logits: Tensor, batch: KnowledgeBatch, place: int, n_words: int) -> list[int | None]:
    """The best class at the first node of every word; None for a word without one."""
    assert batch.target_spans is not None
    spans = batch.target_spans[place, :n_words].tolist()
    best = logits.argmax(dim=1).tolist()
    return [best[start] if start < stop else None for start, stop in spans]


# ---- from a configuration ------------------------------------------------------------------------
def assemble(config: FinetuneConfig, *, is_pretrained_control: bool = False) -> FinetuneRun:
    """Read, split, control, build; same configuration, same weights and data.

    A control that shows the model nothing else than the true graph is refused, unless
    `is_pretrained_control`: the model was pre-trained under that control.
    """
    task = TASKS[config.task]
    whole = KnowledgeGraph.open(config.kg)
    sets, facts = read_sets(config, whole)
    asked_pairs = pair_ids([example for name in _asked(sets) for example in sets[name]], whole)
    clear = without_pairs(whole, asked_pairs)
    graph = controlled_graph(clear, config.knowledge, config.control_seed)
    facts |= {
        "n_asked_pairs_joined_in_kg": n_joined(whole, asked_pairs),
        "n_triples_removed": whole.n_triples - clear.n_triples,
        "links_in_kg": _link_counts(sets["train"], whole),
    }
    labels = _labels(sets["train"])
    model, chosen, tokenizer = _model(config, graph, whole, labels)
    builder, options = config.graph, config.view
    if builder is None:
        builder = saved_builder(config.model) if config.model else BuilderConfig()
    if options is None:
        options = saved_view(config.model) if config.model else {}
    config = config.model_copy(update={"graph": builder, "view": options})
    view = view_for(chosen, graph, tokenizer, options)
    maker = _Maker(config, builder, graph, tokenizer, chosen, view)
    train = maker.data(sets["train"], {label: i for i, label in enumerate(labels)})
    run = FinetuneRun(
        config=config,
        model=model,
        tokenizer=tokenizer,
        train=train,
        asked={name: maker.data(sets[name], None) for name in _asked(sets)},
        baseline=Baseline.of(sets["train"], task.problem_type),
        facts=facts | {"n_train_skipped": train.skipped, "labels": labels},
    )
    is_free = is_pretrained_control or (train.view.reads_graph and not config.model)
    if config.knowledge != "true" and not is_free:
        view = view_for(chosen, clear, tokenizer, options)
        true = dataclasses.replace(maker, graph=clear, view=view, knowledge="true")
        _require_difference(train, true.data(sets["train"], train.labels), config.knowledge)
    return run


@dataclass(frozen=True)
class _Maker:
    """Makes the data of every set alike."""

    config: FinetuneConfig
    builder: BuilderConfig
    graph: KnowledgeGraph
    tokenizer: PreTrainedTokenizerBase
    method: Method
    view: View
    knowledge: Knowledge | None = None

    def data(self, examples: Sequence[TaskExample], labels: Mapping[str, int] | None) -> TaskData:
        config, task = self.config, TASKS[self.config.task]
        builder = self.builder
        if labels is None:
            builder = dataclasses.replace(builder, drop_probability=0.0)
        return TaskData(
            prepared(
                examples,
                markers=config.markers or task.markers,
                knowledge=self.knowledge or config.knowledge,
            ),
            self.graph,
            self.tokenizer,
            builder=builder_for(self.method, builder),
            view=self.view,
            problem_type=task.problem_type,
            labels=labels,
        )


def _model(
    config: FinetuneConfig, graph: KnowledgeGraph, whole: KnowledgeGraph, labels: Sequence[str]
) -> tuple[KnowledgeForTask, Method, PreTrainedTokenizerBase]:
    task = TASKS[config.task]
    with torch.random.fork_rng():
        torch.manual_seed(torch_seed(config.training.seed, "initial weights"))
        encoder, chosen, tokenizer = _encoder(config, graph, whole)
        model = KnowledgeForTask.of(
            encoder,
            config.head or task.head,
            labels,
            problem_type=task.problem_type,
            frozen=config.freeze,
            **_head_options(config),
        )
    if config.train_only:
        encoder.train_only(config.train_only)
    return model, chosen, tokenizer


def _encoder(
    config: FinetuneConfig, graph: KnowledgeGraph, whole: KnowledgeGraph
) -> tuple[KnowledgeEncoder, Method, PreTrainedTokenizerBase]:
    if config.model is not None:
        encoder = saved_encoder(config.model, graph=graph)
        return encoder, method_of(encoder), saved_tokenizer(config.model)
    chosen, tokenizer = method(config.method or ""), hosts.load_tokenizer(config.host)
    options = dict(config.options)
    if config.adapters:  # `graph` lacks what is asked for; they were trained on the whole
        options |= {
            "adapters_from": config.adapters,
            "adapters_graph": whole,
            "any_graph": config.any_graph,
        }
    made = chosen.encoder.for_graph(
        hosts.load_host(config.host), graph, tokenizer, seed=config.training.seed, **options
    )
    return made, chosen, tokenizer


def _head_options(config: FinetuneConfig) -> dict[str, Any]:
    """The task's own options where they fit the head, under those that were given."""
    task = TASKS[config.task]
    known = {
        field.name for field in dataclasses.fields(head_kind(config.head or task.head).options)
    }
    own = {name: value for name, value in task.head_options.items() if name in known}
    return {**own, **config.head_options}


def read_sets(
    config: FinetuneConfig, graph: KnowledgeGraph
) -> tuple[dict[str, list[TaskExample]], dict[str, Any]]:
    """The examples of every set as they are trained on and asked, and what was dropped."""
    seed = config.training.seed if config.data_seed is None else config.data_seed
    sets = {"train": read_examples(config.train, config.format)}
    for name, share in (("dev", config.dev_share), ("test", config.test_share)):
        path: Path | None = getattr(config, name)
        if path is not None:
            sets[name] = read_examples(path, config.format)
        elif share:
            sets["train"], sets[name] = hold_out(sets["train"], share, seed, name)
    held = {example.linked.text for name in _asked(sets) for example in sets[name]}
    n_all = len(sets["train"])
    if not config.keep_repeats:
        sets["train"] = [e for e in sets["train"] if e.linked.text not in held]
    facts: dict[str, Any] = {"n_train_repeats_dropped": n_all - len(sets["train"])}
    for name in sets:
        most = config.max_train if name == "train" else config.max_asked
        sets[name] = some_of(sets[name], most, seed)
        if not sets[name]:
            raise ConfigError(f"nothing is left of the {name} set; give larger files or shares")
    if config.link:
        linker = DictionaryLinker(graph)
        sets = {name: _linked(examples, linker) for name, examples in sets.items()}
    return sets, facts | {f"n_{name}": len(examples) for name, examples in sets.items()}


def _linked(examples: Sequence[TaskExample], linker: DictionaryLinker) -> list[TaskExample]:
    bare = [i for i, example in enumerate(examples) if not example.linked.links]
    found = linker.link([examples[i].linked.text for i in bare])
    changed = list(examples)
    for i, linked in zip(bare, found, strict=True):
        text = examples[i].linked
        links = tuple(link for link in linked.links if not _crosses(link, text.pair_start))
        changed[i] = dataclasses.replace(examples[i], linked=dataclasses.replace(text, links=links))
    return changed


def _crosses(link: Link, pair_start: int | None) -> bool:
    start, end = link.mention.start, link.mention.end
    return pair_start is not None and start < pair_start < end


def _asked(sets: Mapping[str, Any]) -> list[Set]:
    names: tuple[Set, ...] = ("dev", "test")
    return [name for name in names if name in sets]


def _labels(examples: Sequence[TaskExample]) -> list[str]:
    return sorted({label for example in examples for label in example.labels})


def _link_counts(examples: Sequence[TaskExample], graph: KnowledgeGraph) -> dict[str, int]:
    links = [link.entity for example in examples for link in example.linked.links]
    inside = sum(name is not None and graph.entities.find(name) is not None for name in links)
    return {"links": len(links), "inside": inside}


def _require_difference(ours: TaskData, true: TaskData, knowledge: Knowledge) -> None:
    """Raise `NoControlError` when a control shows the model just what the true graph shows."""
    for i in range(min(SAMPLES_COMPARED, len(ours), len(true))):
        pair = (data.sample(i, epoch=0, seed=0) for data in (ours, true))
        if not _same(*pair):
            return
    raise NoControlError(
        f"knowledge={knowledge!r} changes nothing in the first examples as this method sees them: "
        "it would be no control; pre-train a model with that knowledge and give it as model"
    )


def _same(one: KnowledgeBatch, other: KnowledgeBatch) -> bool:
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, Tensor) != isinstance(b, Tensor):
            return False
        if isinstance(a, Tensor) and (a.shape != b.shape or not torch.equal(a, b)):
            return False
    return True
