"""From a configuration to a fine-tuning run: read, split, control, build.

Axis legend: item (an example).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from entity_linking.completing import has_entity, with_links
from entity_linking.corruption import CorruptionReport
from entity_linking.dictionary import DictionaryLinker
from kept import hosts
from kept.adapters.inside import PLACES
from kept.auto import saved_builder, saved_encoder, saved_tokenizer, saved_view
from kept.encoders.base import KnowledgeEncoder
from kept.errors import ConfigError, NoKnowledgeError
from kept.graphs.builder import BuilderConfig
from kept.graphs.coverage import candidate_warnings
from kept.graphs.views import View
from kept.heads.model import KnowledgeForTask
from kept.inputs.controls.conditions import (
    WITHOUT_FACTS,
    EntityMap,
    Knowledge,
    controlled_graph,
    n_pairs_with_facts,
    n_true,
    random_entities,
    without_pairs,
)
from kept.inputs.controls.link_errors import LinkErrors, corrupt_links, corrupted_sets
from kept.inputs.controls.redrawing import relinking
from kept.inputs.views import builder_for, view_for
from kept.methods import Method, method, method_of, title
from kept.randomness import torch_draws
from kept.tasks.datasets.class_labels import (
    classes_of,
    constant_warnings,
    label_warnings,
    require_labels,
    warnings_of,
)
from kept.tasks.datasets.example import pair_of
from kept.tasks.datasets.formats import (
    FORMATS,
    TASKS,
    TaskExample,
    for_training,
    hold_out,
    read_examples,
    require_task,
    some_of,
)
from kept.tasks.scores.scores import Baseline
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.data import TaskData, apply_condition, pair_ids, require_difference
from kept.training.finetuning.joining import FurtherSets, keep_apart, with_further
from kept.training.finetuning.predictor import Predictor
from kept.training.finetuning.run import FinetuneRun
from kept.training.pretraining.assembly import precomputed_options
from kept.training.processes.shards import tables_in_parts
from kg_loaders import KnowledgeGraph


def assemble(
    config: FinetuneConfig,
    hidden: Sequence[TaskExample] = (),
    *,
    is_pretrained_control: bool = False,
    trained: Path | None = None,
) -> FinetuneRun:
    """Read, split, control, build; same configuration, same weights and data.

    `hidden` examples are evaluated elsewhere: as with dev and test, none of their texts is trained
    on, and no fact of their pairs stays in the graph. A control that shows the model nothing else
    than the true graph is refused, unless `is_pretrained_control`: the model was pre-trained under
    it. `trained` is the folder of a run of this configuration that has ended: its model is taken.
    Raises `NoKnowledgeError` where the method is shown nothing of the graph in a set; not with
    knowledge off, whose purpose it is, nor for a model that is `trained`.
    """
    task = TASKS[config.task]
    is_untrained = trained is None and _is_untrained(config)
    if is_untrained and config.knowledge != "off":
        raise NoKnowledgeError(_untrained(config))
    whole = KnowledgeGraph.open(config.kg)
    clean, facts = read_sets(config, whole, hidden)
    sets, facts["link_errors"] = corrupted_sets(
        clean, config.link_errors, whole, config.control_seed
    )
    further = _read_further(config, whole)
    facts |= keep_apart(config, sets, further)
    every = [sets, *(each.sets for each in further)]
    evaluation = [example for each in every for name in _evaluated(each) for example in each[name]]
    evaluation_pairs = pair_ids([*evaluation, *hidden], whole)
    clear = without_pairs(whole, evaluation_pairs)
    graph = controlled_graph(clear, config.knowledge, config.control_seed)
    others = None
    if config.knowledge == "random-entity":
        others = random_entities(whole, config.control_seed)
    facts |= {
        "n_true_triples": n_true(graph, clear),
        "n_asked_pairs_joined_in_kg": n_pairs_with_facts(whole, evaluation_pairs),
        "n_triples_removed": whole.n_triples - clear.n_triples,
        "links_in_kg": _link_counts(sets["train"], whole),
    }
    labels = classes_of(sets["train"], task.problem_type)
    require_labels(labels, len(sets["train"]))
    teacher = None
    if config.teacher is not None and trained is None:
        teacher = Predictor.from_pretrained(config.teacher)
        labels = teacher.classes_for(config.task, labels)
    evaluation_sets = {name: sets[name] for name in _evaluated(sets)}
    warnings = warnings_of(labels, task.problem_type)
    warnings += constant_warnings(sets["train"], task.problem_type, evaluation_sets)
    warnings += _case_warnings(config, sets["train"], whole)
    if warnings := [*warnings, *label_warnings(labels, task.problem_type, evaluation_sets)]:
        facts["warnings"] = warnings
    new_model = (
        _model(config, graph, whole, labels) if trained is None else _trained(trained, graph)
    )
    model, method_spec, tokenizer = new_model
    builder, options = config.graph, config.view
    if builder is None:
        builder = saved_builder(config.model) if config.model else BuilderConfig()
    if options is None:
        options = saved_view(config.model) if config.model else {}
    config = config.model_copy(update={"graph": builder, "view": options})
    view = view_for(method_spec, graph, tokenizer, options)
    cut = candidate_warnings([example.linked for example in clean["train"]], view, "train")
    if cut:
        facts["warnings"] = [*facts.get("warnings", ()), *cut]
    maker = _Maker(config, builder, whole, graph, tokenizer, method_spec, view, others)

    train = maker.data(sets["train"], {label: i for i, label in enumerate(labels)})
    if teacher is not None:
        train.learn_from(teacher.logits(clean["train"], whole))
    run = FinetuneRun(
        config=config,
        model=model,
        tokenizer=tokenizer,
        train=train,
        evaluation={name: maker.data(sets[name], None) for name in _evaluated(sets)},
        baseline=Baseline.of(sets["train"], task.problem_type),
        facts=facts
        | {
            "n_train_skipped": train.skipped,
            "labels": labels,
            "coverage": {"train": train.coverage.as_json()},
        },
        with_link_errors=maker.with_link_errors(clean),
        evaluation_data=maker.evaluation_data,
    )
    for name, data in {"train": train, **run.evaluation}.items():
        data.require_some(name, run.longest_text)
        if lines := data.cut_warnings(name, run.longest_text):
            run.facts["warnings"] = [*run.facts.get("warnings", ()), *lines]
    if trained is None:
        for name, data in {"train": train, **run.evaluation}.items():
            maker.require_read(name, clean[name], data)
    changes = method_spec.reads_facts or config.knowledge != "shuffled"  # names and links stay
    is_new = train.view.reads_graph and not config.model and changes
    is_free = is_pretrained_control or is_new
    is_free = is_free or (is_untrained and config.knowledge == "off")
    if config.knowledge != "true" and not is_free:
        view = view_for(method_spec, clear, tokenizer, options)
        true = dataclasses.replace(maker, graph=clear, view=view, others=None, knowledge="true")
        require_difference(train, true.data(sets["train"], train.labels), config.knowledge)
    return with_further(run, maker, further, is_trained=trained is not None)


def _is_untrained(config: FinetuneConfig) -> bool:
    """Whether a new encoder would have its knowledge from pre-training that it has not had."""
    adapters = config.adapters or config.options.get("adapters_from")
    is_new = config.model is None and not adapters
    return is_new and method(config.method or "").reads != "links"


def _untrained(config: FinetuneConfig) -> str:
    name = config.method or ""
    takes = "adapters" in method(name).encoder.parts
    adapters = ", or adapters that were trained (--adapter DIR)" if takes else ""
    return (
        f"{title(name)} reads the graph in pre-training alone, and a new encoder has had none: "
        f"knowledge {config.knowledge} would be none. Pre-train it (kept pretrain --method {name}) "
        f"and give its folder (--model DIR){adapters}; or say --knowledge off, as it is"
    )


def _read_further(config: FinetuneConfig, graph: KnowledgeGraph) -> list[FurtherSets]:
    configs = [(task.name, config.of_further(task)) for task in config.also]
    return [FurtherSets(name, each, *read_sets(each, graph)) for name, each in configs]


@dataclass(frozen=True)
class _Maker:
    """Makes the data of every split in the same way."""

    config: FinetuneConfig
    builder: BuilderConfig
    whole: KnowledgeGraph
    graph: KnowledgeGraph
    tokenizer: PreTrainedTokenizerBase
    method: Method
    view: View
    others: EntityMap | None = None
    knowledge: Knowledge | None = None

    def data(self, examples: Sequence[TaskExample], labels: Mapping[str, int] | None) -> TaskData:
        config, task = self.config, TASKS[self.config.task]
        builder = self.builder
        if labels is None:
            builder = dataclasses.replace(builder, drop_probability=0.0)
        return TaskData(
            apply_condition(
                examples,
                markers=config.markers_name,
                knowledge=self.knowledge or config.knowledge,
                entities=self.others,
            ),
            self.graph,
            self.tokenizer,
            builder=builder_for(self.method, builder, config.view or {}),
            view=self.view,
            problem_type=task.problem_type,
            labels=labels,
            relink=relinking(self.knowledge or config.knowledge, self.graph),
            spans=config.span_options,
            long=config.long,
        )

    def evaluation_data(self, examples: Sequence[TaskExample]) -> TaskData:
        """Further examples as those of an evaluation split, the run's link errors among them."""
        config, sets = self.config, {"asked": list(examples)}
        sets, _ = corrupted_sets(sets, config.link_errors, self.whole, config.control_seed)
        data = self.data(sets["asked"], None)
        self.require_read("the evaluation split", examples, data)
        return data

    def require_read(self, name: str, clean: Sequence[TaskExample], task_data: TaskData) -> None:
        """Raise `NoKnowledgeError` where nothing of the graph is shown in a set.

        `clean` are its examples before any link was corrupted.
        """
        config = self.config
        if config.knowledge in WITHOUT_FACTS:
            return
        data = self.data(clean, None) if config.link_errors.share else task_data
        brought = config.model or precomputed_options(config.options, self.method)
        data.require_read(
            name, is_linked=config.link, needs_facts=self.method.reads_facts and not brought
        )

    def with_link_errors(
        self, clean: Mapping[str, Sequence[TaskExample]]
    ) -> Callable[[str, LinkErrors], tuple[TaskData, CorruptionReport]]:
        """Return a function that adds link errors to the clean examples of a split."""

        def corrupted(name: str, errors: LinkErrors) -> tuple[TaskData, CorruptionReport]:
            examples, report = corrupt_links(
                clean[name], errors, self.whole, self.config.control_seed
            )
            return self.data(examples, None), report

        return corrupted


def _model(
    config: FinetuneConfig, graph: KnowledgeGraph, whole: KnowledgeGraph, labels: Sequence[str]
) -> tuple[KnowledgeForTask, Method, PreTrainedTokenizerBase]:
    task = TASKS[config.task]
    weight_draws = torch_draws(config.training.seed, "initial weights")
    with tables_in_parts(config.training), weight_draws:
        encoder, method_spec, tokenizer = _encoder(config, graph, whole)
        for kind in PLACES:
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
    return model, method_spec, tokenizer


def _trained(
    folder: Path, graph: KnowledgeGraph
) -> tuple[KnowledgeForTask, Method, PreTrainedTokenizerBase]:
    model = KnowledgeForTask.from_pretrained(folder, graph=graph)
    return model, method_of(model.encoder), saved_tokenizer(folder)


def _encoder(
    config: FinetuneConfig, graph: KnowledgeGraph, whole: KnowledgeGraph
) -> tuple[KnowledgeEncoder, Method, PreTrainedTokenizerBase]:
    if config.model is not None:
        encoder = saved_encoder(config.model, graph=graph)
        return encoder, method_of(encoder), saved_tokenizer(config.model)
    method_spec, tokenizer = method(config.method or ""), hosts.load_tokenizer(config.host)
    options = dict(config.options)
    if config.adapters:  # `graph` lacks evaluated pairs; they were trained on the whole
        options |= {
            "adapters_from": config.adapters,
            "adapters_graph": whole,
            "any_graph": config.any_graph,
        }
    new_encoder = method_spec.new_encoder(
        config.host, graph, tokenizer, seed=config.training.seed, **options
    )
    return new_encoder, method_spec, tokenizer


def read_sets(
    config: FinetuneConfig, graph: KnowledgeGraph, hidden: Sequence[TaskExample] = ()
) -> tuple[dict[str, list[TaskExample]], dict[str, Any]]:
    """The examples of every split as they are trained on or evaluated, and what was dropped."""
    seed = config.training.seed if config.data_seed is None else config.data_seed
    sets = {"train": read_examples(config.train, config.format)}
    for name, share in (("dev", config.dev_share), ("test", config.test_share)):
        path: Path | None = getattr(config, name)
        if path is not None:
            sets[name] = read_examples(path, config.format)
        elif share:
            sets["train"], sets[name] = hold_out(sets["train"], share, seed, name)
    if FORMATS[config.format].also:
        for name, examples in sets.items():
            require_task(examples, config.task, getattr(config, name) or config.train)
    if config.leave_out:
        out = set(config.leave_out)
        sets = {n: [e for e in members if out.isdisjoint(e.labels)] for n, members in sets.items()}
    evaluation_texts = {
        e.linked.text for e in (*(e for name in _evaluated(sets) for e in sets[name]), *hidden)
    }
    n_all = len(sets["train"])
    if not config.keep_repeats:
        sets["train"] = [e for e in sets["train"] if e.linked.text not in evaluation_texts]
    facts: dict[str, Any] = {"n_train_repeats_dropped": n_all - len(sets["train"])}
    sets["train"] = for_training(sets["train"], config.format, seed)
    for name in sets:
        most = config.max_train if name == "train" else config.max_asked
        sets[name] = some_of(sets[name], most, seed)
        if not sets[name]:
            raise ConfigError(
                f"nothing is left of the {name} split{_why_empty(name, n_all, facts)}"
            )
    if config.link:
        sets = linked(config, sets, graph)
    return sets, facts | {f"n_{name}": len(examples) for name, examples in sets.items()}


def _why_empty(name: str, n_examples: int, facts: Mapping[str, Any]) -> str:
    """Why a split has no example, and the remedy; `n_examples` training had before repeats went."""
    if name != "train" or not n_examples or facts["n_train_repeats_dropped"] < n_examples:
        return "; give larger files or shares, or leave out fewer labels"
    return (
        f": the texts of all {n_examples} training examples are in dev or test too; give other "
        "files, or --set keep_repeats=true keeps them"
    )


def linked(
    config: FinetuneConfig, sets: Mapping[str, Sequence[TaskExample]], graph: KnowledgeGraph
) -> dict[str, list[TaskExample]]:
    """The sets as `link` makes them: entities of `graph` where texts and mentions have none."""
    linker = DictionaryLinker(graph, case=config.case)
    has_pairs = TASKS[config.task].has_pair
    return {name: _linked(examples, linker, has_pairs) for name, examples in sets.items()}


def _case_warnings(
    config: FinetuneConfig, examples: Sequence[TaskExample], graph: KnowledgeGraph
) -> list[str]:
    """What ignoring case would add, where less than half of the training texts have a link."""
    if not config.link or config.case == "insensitive":
        return []
    texts = [example.linked for example in examples]
    n_linked = sum(map(has_entity, texts))
    if 2 * n_linked >= len(texts):
        return []
    n_without = sum(map(has_entity, with_links(texts, DictionaryLinker(graph, case="insensitive"))))
    if n_without <= n_linked:
        return []
    effect = (
        f"{n_without} of {len(texts)} training texts link without case, {n_linked} with it (case "
        f"{config.case}); --case insensitive ignores case"
    )
    return [effect]


def _linked(
    examples: Sequence[TaskExample], linker: DictionaryLinker, has_pairs: bool
) -> list[TaskExample]:
    """Mentions without an entity and texts without links linked; head and tail become the pair."""
    texts = with_links([example.linked for example in examples], linker)
    changed = list(examples)
    for i, (example, text) in enumerate(zip(examples, texts, strict=True)):
        if text is not example.linked:
            pair = example.pair or (pair_of(text.links, example.targets) if has_pairs else None)
            changed[i] = dataclasses.replace(example, linked=text, pair=pair)
    return changed


def _evaluated(sets: Mapping[str, Any]) -> list[str]:
    return [name for name in ("dev", "test") if name in sets]


def _link_counts(examples: Sequence[TaskExample], graph: KnowledgeGraph) -> dict[str, int]:
    links = [link.entity for example in examples for link in example.linked.links]
    inside = sum(name is not None and graph.entities.find(name) is not None for name in links)
    return {"links": len(links), "inside": inside}
