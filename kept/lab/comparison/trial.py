"""Runs of an experiment: one method, one kind of knowledge, one seed; fine-tuned and evaluated.

Axis legend: node, item (an example).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from entity_linking.dictionary import LINKS_VERSION, lowers_first_letters
from entity_linking.mentions import LinkedText
from kept import hosts
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig
from kept.inputs.controls.conditions import WITHOUT_FACTS, Knowledge, objectives_of
from kept.inputs.flat_texts import linked_entities
from kept.inputs.views import builder_for, pretraining_fields, view_for
from kept.lab.comparison.continued_pretraining import ContinuedPretraining
from kept.lab.comparison.data import ExperimentData, folder_digests, on_this_machine
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.items import EvaluationItems
from kept.lab.study.addresses import binding_of, run_hash
from kept.lab.study.design import RunKey
from kept.lab.study.trial import Answers, Trial
from kept.methods import BASELINE, method
from kept.tasks.datasets.formats import TASKS, TaskExample, read_examples
from kept.training.device import process_settings
from kept.training.finetuning.answers import ANSWERS, Answer, answers_of
from kept.training.finetuning.assembly import assemble, read_sets
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.data import TaskData, apply_condition
from kept.training.finetuning.model_costs import n_trained, sentence_milliseconds, size
from kept.training.finetuning.recipes import budget_warning
from kept.training.finetuning.run import FinetuneRun
from kept.training.finetuning.task_files import SETS
from kept.training.log import Reporter
from kept.training.loop import Resume, train
from kept.training.pretraining.data import WordGraphData
from kept.training.processes.together import processes

PRETRAINED = "pretrained"
VERSION = 1
"""Part of every hash; raised when a default changes, as hashes leave defaults out."""
PRETRAINING_FIELDS = (
    "method", "host", "options", "graph", "view", "knowledge", "objectives", "content",
    "pretraining", "control_seed", "folders",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ComparisonTrial(Trial):
    """The runs of `experiment` in `folder`; `root` is where its data lie.

    The configuration of a run is what `kept finetune` would be given, but for the model of
    continued pre-training.
    """

    experiment: Experiment
    root: Path
    folder: Path
    reporter: Reporter | None = None
    should_stop: Callable[[], bool] | None = None
    _configs: dict[RunKey, FinetuneConfig] = field(default_factory=dict, init=False, repr=False)
    _settings: dict[RunKey, dict[str, Any]] = field(default_factory=dict, init=False, repr=False)
    _copies: dict[RunKey, bool] = field(default_factory=dict, init=False, repr=False)
    _sets: dict[str, list[TaskExample]] = field(default_factory=dict, init=False, repr=False)

    @property
    def plan(self) -> Experiment:
        """The experiment itself."""
        return self.experiment

    @property
    def rows(self) -> Sequence[str]:
        """The rows of the file."""
        return tuple(self.experiment.methods)

    @property
    def device(self) -> str:
        """That of the task's training."""
        return str(self.experiment.task.get("training", {}).get("device", "auto"))

    @cached_property
    def data(self) -> ExperimentData:
        """What the runs share."""
        return ExperimentData(self.experiment, self.root, self.folder)

    # ---- one run -----------------------------------------------------------------------------
    def config(self, key: RunKey) -> FinetuneConfig:
        """Return how a run is trained; ConfigError for one that cannot be."""
        if key not in self._configs:
            self._configs[key] = self._configured(key)
        return self._configs[key]

    def _configured(self, key: RunKey) -> FinetuneConfig:
        row = self._row(key)
        return self.data.config(
            row,
            kg=self.data.graph_folder,
            knowledge="true" if key.method == BASELINE else key.knowledge,  # it reads none
            method=self.experiment.variant_of(key.method),
            training={**row.get("training", {}), "seed": key.seed},
        )

    def _row(self, key: RunKey) -> dict[str, Any]:
        row = self.experiment.row(key.method)
        if key.seed and "controls" in self.experiment.redrawn:
            row["control_seed"] = row.get("control_seed", 0) + key.seed
        return row

    def settings(self, key: RunKey) -> dict[str, Any]:
        """See `Trial.settings`."""
        if key not in self._settings:
            self._settings[key] = self._described(key)
        return self._settings[key]

    def _described(self, key: RunKey) -> dict[str, Any]:
        config, name = self.config(key), self.experiment.variant_of(key.method)
        fixed = config.model_dump(
            mode="json", exclude={*SETS, "kg", "training", "also"}, exclude_defaults=True
        )
        if config.also:
            fixed["also"] = self._row(key)["also"]
        if folders := folder_digests(config):
            fixed["folders"] = folders
        if self.experiment.pretraining is not None and (
            graph_fields := pretraining_fields(method(name), config.graph or BuilderConfig())
        ):  # the method's line on graphs in pre-training, where the task has none
            fixed["in_pretraining"] = graph_fields
        if config.link:
            fixed["links"] = LINKS_VERSION
            if config.case == "smart" and lowers_first_letters(self.data.graph):
                fixed["links of lowered names"] = True
        if fixed.get("graph", {}).get("drop_probability") == 0:
            del fixed["graph"]["drop_probability"]  # 0 is what was done before it could be open
        return {
            "version": VERSION,
            **{field: fixed.get(field) for field in PRETRAINING_FIELDS if field != "folders"},
            **fixed,
            "knowledge": key.knowledge,
            "files": self.data.digests,
            "content": self.data.graph.content_hash,
            "training": binding_of(config.training),
            "pretraining": self._stage_settings(key),
            "objectives": dict(objectives_of(name, key.knowledge)),
        }

    def require(self, key: RunKey) -> None:
        """Raise `ConfigError` for settings with which a run could not begin."""
        if key.knowledge == "redrawn" and self.experiment.pretraining is not None:
            raise ConfigError(
                "knowledge='redrawn' changes links whenever the task is read; continued "
                "pre-training would still have the true ones: take random-entity"
            )
        config = self.config(key)
        method_spec = method(self.experiment.variant_of(key.method))
        builder_for(method_spec, config.graph or BuilderConfig(), config.view or {})

    def require_reading(self, key: RunKey) -> None:
        """See `Trial.require_reading`: its data are assembled as for the run."""
        if self.experiment.pretraining is None and not self.is_copy(key):
            assemble(self.config(key))

    def same_as(self, key: RunKey) -> RunKey | None:
        """Return the baseline's run where a method without knowledge is the same model."""
        return RunKey(BASELINE, "off", key.seed) if self.is_copy(key) else None

    def run(self, key: RunKey, run_folder: Path) -> Answers | None:
        """See `Trial.run`."""
        config, together = self.config(key), processes()
        pretrained = self._pretrained(key)
        if pretrained is None and self.experiment.pretraining is not None:
            return None
        if pretrained is not None:
            config = config.started_from(pretrained)
        assembled = assemble(config, is_pretrained_control=pretrained is not None)
        self._warn_of_budget(key, assembled)
        evaluate = partial(assembled.evaluate, together=together)
        ended = train(
            assembled.model,
            assembled.data,
            on_this_machine(config.training),
            run_folder,
            evaluate=evaluate if config.training.evaluate_every else None,
            reporter=self.reporter,
            resume=Resume.IF_ANY,
            should_stop=self.should_stop,
        )
        if ended.stopped != "finished":
            return None
        with process_settings(config.training):
            scores, predictions = assembled.metrics(together=together)
            milliseconds = sentence_milliseconds(
                assembled.model, next(iter(assembled.evaluation.values()))
            )
        answers = []
        for name, predicted in predictions.items():
            set_answers = answers_of(assembled, {name: predicted})
            answers += (
                self.items(name).counted(set_answers, run_folder / ANSWERS)
                if name in SETS
                else set_answers
            )
        costs = self._costs(key, assembled) | {
            "milliseconds_a_sentence": milliseconds,
            "steps": ended.step,
            "seconds": ended.seconds,
            "precision": ended.precision,
            "pretraining": None if pretrained is None else pretrained.name,
            "n_texts": len(self.data.texts),
        }
        return Answers(answers, scores, costs)

    def counted(self, answers: Sequence[Answer], path: Path) -> list[Answer]:
        """See `EvaluationItems.counted`."""
        return self.items(self.experiment.asked).counted(answers, path)

    def items(self, name: str) -> EvaluationItems:
        """The items of the split `name`, the same for all runs; read from the task's files."""
        config = self.config(RunKey(BASELINE, "off", 0))
        sets = self._read_sets()
        return EvaluationItems(name, sets[name], sets["train"], self.data.graph, config)

    def _read_sets(self) -> dict[str, list[TaskExample]]:
        if not self._sets:
            config = self.config(RunKey(BASELINE, "off", 0))
            self._sets.update(read_sets(config, self.data.graph)[0])
        return self._sets

    @property
    def split_sizes(self) -> dict[str, int]:
        """How many examples each split has, those of further tasks in that of training."""
        sizes = {name: len(examples) for name, examples in self._read_sets().items()}
        further = self.config(RunKey(BASELINE, "off", 0)).also
        for task in further:
            sizes["train"] += len(read_examples(task.train, task.format))
        return sizes

    def evaluation_data(self, name: str) -> TaskData:
        """The evaluation split as a method with true knowledge sees it, without a model."""
        config = self.config(RunKey(name, "true", 0))
        return self._task_data(name, "true", read_sets(config, self.data.graph)[0][self.plan.asked])

    def sampled_data(self, name: str, knowledge: Knowledge, n: int) -> TaskData:
        """The first `n` training examples as a method sees them, without a model."""
        return self._task_data(name, knowledge, self._read_sets()["train"][:n])

    def _task_data(
        self, name: str, knowledge: Knowledge, examples: Sequence[TaskExample]
    ) -> TaskData:
        config = self.config(RunKey(name, "true", 0))
        method_spec = method(self.experiment.variant_of(name))
        graph, tokenizer = self.data.graph, hosts.load_tokenizer(config.host)
        return TaskData(
            apply_condition(examples, markers=config.markers_name, knowledge=knowledge),
            graph,
            tokenizer,
            builder=builder_for(method_spec, config.graph or BuilderConfig(), config.view or {}),
            view=view_for(method_spec, graph, tokenizer, config.view or {}),
            problem_type=TASKS[config.task].problem_type,
            labels=None,
            long=config.long,
        )

    def _costs(self, key: RunKey, assembled: FinetuneRun) -> dict[str, Any]:
        links = [e.linked for data in assembled.evaluation.values() for e in data.examples]
        entities = linked_entities(links, self.data.graph)[0]
        graph_ids = entities[entities >= 0]
        has_facts = np.isin(graph_ids, self.data.graph.triples[:, [0, 2]])
        encoder = assembled.model.encoder
        return {
            "added": size(encoder) - size(encoder.host),
            "trained": n_trained(assembled.model),
            "mentions": len(entities),
            "mentions_in_graph": len(graph_ids),
            "mentions_with_facts": int(has_facts.sum()),
            "reads_graph": assembled.train.view.reads_graph,
        }

    # ---- no knowledge and no part of its own: the baseline under another name ------------------
    def is_copy(self, key: RunKey) -> bool:
        """Whether method and baseline have as many weights, and the same states bit by bit."""
        if key not in self._copies:
            self._copies[key] = self._is_baseline(key)
        return self._copies[key]

    def _is_baseline(self, key: RunKey) -> bool:
        if key.knowledge not in WITHOUT_FACTS or key.method == BASELINE:
            return False
        base = dataclasses.replace(key, method=BASELINE)
        fields = [dict(self.experiment.methods.get(n, {})) for n in (key.method, BASELINE)]
        for each in fields:
            each.pop("method", None)
            each.pop("view", None)  # what it makes of the texts is compared below
        if fields[0] != fields[1] or self._training_of(key) != self._training_of(base):
            return False
        stages = [self._stage(key.method, key.knowledge), self._stage(BASELINE, "off")]
        encoders = [stage.encoder().eval() for stage in stages]
        if size(encoders[0]) != size(encoders[1]):
            return False
        texts = [e.linked for e in self.data.examples["train"][:8]]
        states = []
        for stage, encoder in zip(stages, encoders, strict=True):
            data = stage.data(texts)
            samples = [data.sample(i, epoch=0, seed=0) for i in range(len(data))]
            with torch.no_grad():
                batch = data.collate(samples, epoch=0, seed=0, step=0)
                states.append(encoder(batch).node_states)
        return torch.equal(*states)

    def _training_of(self, key: RunKey) -> tuple[Any, ...]:
        """How a row is trained and read, which recipes may set."""
        config = self.config(key)
        return config.training, config.markers, config.head, config.head_options

    # ---- continued pre-training -------------------------------------------------------------
    def _warn_of_budget(self, key: RunKey, assembled: FinetuneRun) -> None:
        """Say before a training that it is too short for its method's recipe to read a fact."""
        short = budget_warning(assembled.config, len(assembled.train))
        if short is None or self.experiment.as_published or self.reporter is None:
            return
        if key.knowledge == "true" and key.seed == 0:
            self.reporter.notice(f"warning: {key.method}: {short}")

    def _pretrained(self, key: RunKey) -> Path | None:
        """The folder of the pre-trained model; None without pre-training, or on a stop."""
        plan = self.experiment.pretraining
        if plan is None:
            return None
        key = dataclasses.replace(key, seed=self._stage_seed(key))
        if "first stage" in self.experiment.redrawn and key.seed:
            training = plan.training.model_copy(update={"seed": plan.training.seed + key.seed})
            plan = plan.model_copy(update={"training": training})
        return self._stage(key.method, key.knowledge, key.seed).run(
            plan,
            lambda: self.data.texts,
            self._stage_described(key),
            self.folder / PRETRAINED,
            reporter=self.reporter,
            should_stop=self.should_stop,
        )

    def _stage_described(self, key: RunKey) -> dict[str, Any]:
        """All that the stage of a run depends on; `key` has the seed of the stage."""
        settings = self.settings(key)
        return (
            {name: settings.get(name) for name in PRETRAINING_FIELDS}
            | {name: settings[name] for name in ("in_pretraining",) if name in settings}
            | {"texts": self.data.texts_digest}
        )

    def stage_place(self, key: RunKey) -> Path:
        """The folder of a run's continued pre-training, shared by runs, there or not."""
        key = dataclasses.replace(key, seed=self._stage_seed(key))
        return self.folder / PRETRAINED / run_hash(self._stage_described(key))

    def stage_data(self, key: RunKey, texts: Sequence[LinkedText]) -> WordGraphData:
        """Texts of continued pre-training as the method of a run reads them."""
        return self._stage(key.method, key.knowledge, self._stage_seed(key)).data(texts)

    def _stage_seed(self, key: RunKey) -> int:
        """The seed of continued pre-training: 0 unless it, or its control's shuffle, is redrawn."""
        is_shuffled = "controls" in self.experiment.redrawn and key.knowledge not in ("true", "off")
        return key.seed if is_shuffled or "first stage" in self.experiment.redrawn else 0

    def _stage_settings(self, key: RunKey) -> dict[str, Any] | None:
        stage = self.data.stage
        if stage is None or not key.seed or "first stage" not in self.experiment.redrawn:
            return stage
        return stage | {"seed": key.seed}

    def _stage(self, name: str, knowledge: Knowledge, seed: int = 0) -> ContinuedPretraining:
        config = self.config(RunKey(name, knowledge, seed))
        draw = seed if "first stage" in self.experiment.redrawn else 0
        method_name = self.experiment.variant_of(name)
        return ContinuedPretraining(method_name, knowledge, config, self.data.graph, draw)
