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
from entity_linking.mentions import Link, Mention
from kept import hosts
from kept.auto import saved_builder, saved_encoder, saved_tokenizer, saved_view
from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.errors import ConfigError, NoControlError
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import View
from kept.heads.model import MULTI, TAGGING, KnowledgeForTask
from kept.methods import Method, method, method_of
from kept.randomness import generator, torch_seed
from kept.tasks.controls import Knowledge, controlled_graph, n_joined, without_pairs
from kept.tasks.finetuning_config import FinetuneConfig
from kept.tasks.finetuning_data import TaskData, pair_ids, prepared
from kept.tasks.finetuning_examples import (
    OUTSIDE,
    TASKS,
    TaskExample,
    for_training,
    hold_out,
    read_examples,
    some_of,
)
from kept.tasks.finetuning_scores import Answers, Baseline, scores
from kept.tasks.several_tasks import FurtherSets, TaskMixture, keep_apart, with_further
from kept.training.methods import builder_for, view_for
from kg_loaders import KnowledgeGraph

Set = Literal["dev", "test"]
SAMPLES_COMPARED = 64


@dataclass(frozen=True)
class FinetuneRun:
    """A model ready to be trained, its data, what is asked of it, and what was found on the way.

    `train` are the run's own examples, `data` is what is trained on: with `further` tasks, whose
    runs share the model, all of theirs. `task` is this run's number among them. What is `asked` are
    its sets, and those of further tasks as `NAME/dev`.
    """

    config: FinetuneConfig
    model: KnowledgeForTask
    tokenizer: PreTrainedTokenizerBase
    train: TaskData
    asked: dict[str, TaskData]
    baseline: Baseline
    facts: dict[str, Any]
    task: int = 0
    further: dict[str, FinetuneRun] = dataclasses.field(default_factory=dict)

    @property
    def data(self) -> TaskData | TaskMixture:
        """What the training loop reads."""
        if not self.further:
            return self.train
        config = self.config
        parts = [self.train, *(run.train for run in self.further.values())]
        weights = [config.weight, *(each.weight for each in config.also)]
        given = [weight for weight in weights if weight is not None]
        mixing = 1.0 if config.mixing is None else config.mixing
        return TaskMixture(parts, weights=given or None, mixing=mixing)

    def evaluate(self, model: torch.nn.Module, step: int) -> dict[str, float]:
        """Scores on dev while training, and the weights of mixed layers."""
        found = self.score("dev")[1]
        shown = {"accuracy": found["accuracy"]["estimate"], "micro_f1": found["micro"]["f1"]}
        mix = self.model.layer_weights(self.task) or {"weights": []}
        shown |= {f"weight of state {i}": weight for i, weight in enumerate(mix["weights"])}
        for name, run in self.further.items():
            own = run.evaluate(model, step)
            shown |= {f"{name}: {score}": value for score, value in own.items()}
        return shown

    def score(self, name: str) -> tuple[Answers, dict[str, Any]]:
        """Predictions for a set, and its scores beside the baseline's."""
        task, _, own = name.rpartition("/")
        if task:
            return self.further[task].score(own)
        data, config, question = self.asked[name], self.config, self.model.question(self.task)
        kind = question.problem_type
        predicted = predict(self.model, data, threshold=config.threshold, task=self.task)
        made = [
            scores(
                answers,
                data.examples,
                problem_type=kind,
                no_relation=config.no_relation,
                generator=generator(config.training.seed, "bootstrap", name),
                format=config.format,
                train=self.train.examples,
            )
            for answers in (predicted, self.baseline.answers(data.examples, kind))
        ]
        known = set(question.labels)
        n_unknown = sum(not known.issuperset(example.labels) for example in data.examples)
        counts = {
            "n_asked": len(data) + sum(data.skipped.values()),
            "n_scored": len(data),
            "skipped": data.skipped,
            "n_with_labels_unseen_in_training": n_unknown,
        }
        return predicted, counts | made[0] | {"baseline": made[1]}

    def metrics(self) -> tuple[dict[str, Any], dict[str, Answers]]:
        """Everything about the finished model, and its predictions by set."""
        predictions: dict[str, Answers] = {}
        found: dict[str, Any] = {}
        for name in self.asked:
            predictions[name], found[name] = self.score(name)
        if self.further:
            found["also"] = {name: run.described() for name, run in self.further.items()}
        return {**self.described(), **found}, predictions

    def described(self) -> dict[str, Any]:
        """What is known beside the scores, with the weights of mixed layers."""
        mix = self.model.layer_weights(self.task)
        return self.facts if mix is None else {**self.facts, "layer_mix": mix}


@torch.no_grad()
def predict(
    model: KnowledgeForTask,
    data: TaskData,
    *,
    threshold: float,
    batch_size: int = 32,
    task: int = 0,
) -> Answers:
    """Labels for every item of `data`, in its order; the model is left in the mode it was in.

    `task`: which of the model's tasks is asked (`KnowledgeForTask.question`).
    """
    question = model.question(task)
    names, kind = question.labels, question.problem_type
    was_training = model.training
    model.eval()
    found: dict[int, tuple[str, ...]] = {}
    order = sorted(range(len(data)), key=lambda i: (data.n_nodes(i), i))
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        samples = [data.sample(i, epoch=0, seed=0) for i in chosen]
        batch = data.collate(samples, epoch=0, seed=0, step=0)
        if task:
            batch = dataclasses.replace(batch, task_ids=torch.full((len(batch),), task))
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
def assemble(
    config: FinetuneConfig,
    hidden: Sequence[TaskExample] = (),
    *,
    is_pretrained_control: bool = False,
) -> FinetuneRun:
    """Read, split, control, build; same configuration, same weights and data.

    `hidden` examples are asked elsewhere: as of dev and test, no text of theirs is trained on, and
    no fact of their pairs stays in the graph. A control that shows the model nothing else than the
    true graph is refused, unless `is_pretrained_control`: the model was pre-trained under it.
    """
    task = TASKS[config.task]
    whole = KnowledgeGraph.open(config.kg)
    sets, facts = read_sets(config, whole, hidden)
    further = _read_further(config, whole)
    facts |= keep_apart(config, sets, further)
    every = [sets, *(each.sets for each in further)]
    asked = [example for each in every for name in _asked(each) for example in each[name]]
    asked_pairs = pair_ids([*asked, *hidden], whole)
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
    return with_further(run, maker, further)


def _read_further(config: FinetuneConfig, graph: KnowledgeGraph) -> list[FurtherSets]:
    configs = [(task.name, config.of_further(task)) for task in config.also]
    return [FurtherSets(name, each, *read_sets(each, graph)) for name, each in configs]


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
                markers=config.markers_name,
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
        for kind in ("lora", "houlsby"):
            if (inside := getattr(config, kind)) is not None:
                encoder.insert(kind, dataclasses.asdict(inside))
        model = KnowledgeForTask.of(
            encoder,
            config.head or task.head,
            labels,
            problem_type=task.problem_type,
            frozen=config.frozen,
            layer_mix=config.layer_mix,
            **config.all_head_options(),
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


def read_sets(
    config: FinetuneConfig, graph: KnowledgeGraph, hidden: Sequence[TaskExample] = ()
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
    if config.leave_out:
        out = set(config.leave_out)
        sets = {n: [e for e in found if out.isdisjoint(e.labels)] for n, found in sets.items()}
    held = {e.linked.text for e in (*(e for name in _asked(sets) for e in sets[name]), *hidden)}
    n_all = len(sets["train"])
    if not config.keep_repeats:
        sets["train"] = [e for e in sets["train"] if e.linked.text not in held]
    facts: dict[str, Any] = {"n_train_repeats_dropped": n_all - len(sets["train"])}
    sets["train"] = for_training(sets["train"], config.format, seed)
    for name in sets:
        most = config.max_train if name == "train" else config.max_asked
        sets[name] = some_of(sets[name], most, seed)
        if not sets[name]:
            raise ConfigError(f"nothing is left of the {name} set; give larger files or shares")
    if config.link:
        linker = DictionaryLinker(graph)
        has_pairs = config.task in ("relation", "document_relations")
        sets = {name: _linked(found, linker, has_pairs) for name, found in sets.items()}
    return sets, facts | {f"n_{name}": len(examples) for name, examples in sets.items()}


def _linked(
    examples: Sequence[TaskExample], linker: DictionaryLinker, has_pairs: bool
) -> list[TaskExample]:
    """Texts without links linked; the entities found at head and tail become the pair."""
    bare = [i for i, example in enumerate(examples) if not example.linked.links]
    found = linker.link([examples[i].linked.text for i in bare])
    changed = list(examples)
    for i, linked in zip(bare, found, strict=True):
        text = examples[i].linked
        links = tuple(link for link in linked.links if not _crosses(link, text.pair_start))
        changed[i] = dataclasses.replace(
            examples[i],
            linked=dataclasses.replace(text, links=links),
            pair=examples[i].pair or (_pair(links, examples[i].targets) if has_pairs else None),
        )
    return changed


def _pair(links: Sequence[Link], targets: Sequence[Mention]) -> tuple[str, str] | None:
    """The entities of the first link that touches the head, and the tail; None without both."""
    ends = [
        next((k.entity for k in links if k.entity and _touch(k.mention, target)), None)
        for target in targets
    ]
    head, tail = ends
    return (head, tail) if head and tail else None


def _touch(one: Mention, other: Mention) -> bool:
    return one.start < other.end and other.start < one.end


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
