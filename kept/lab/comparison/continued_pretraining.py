"""Continued pre-training before the task: every method reads the same texts for the same steps."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from entity_linking.mentions import LinkedText
from kept import hosts
from kept.encoders.base import KnowledgeEncoder
from kept.errors import NoControlError
from kept.graphs.builder import BuilderConfig
from kept.inputs.controls.conditions import (
    Knowledge,
    controlled_graph,
    controlled_text,
    objectives_of,
    random_entities,
)
from kept.inputs.views import builder_for, view_for
from kept.lab.comparison.data import on_this_machine
from kept.lab.comparison.experiment import FurtherPretraining
from kept.lab.study.addresses import run_hash
from kept.methods import method
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import torch_draws
from kept.training.checkpoint import list_checkpoints
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.data import SAMPLES_COMPARED
from kept.training.log import Reporter
from kept.training.loop import Resume, train
from kept.training.pretraining.data import WordGraphData
from kept.training.processes.together import processes
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.writing import tidy, whole_files, write_json

STAGE = "stage.json"
"""All that a stage depends on, and what it read; written last."""


@dataclass(frozen=True, eq=False)
class ContinuedPretraining:
    """One method under one kind of knowledge, before any task.

    `config` is that of the task's run, `graph` the true one without the evaluated pairs. `seed`
    draws the encoder's first weights: 0 where the seeds of the task share this training.
    """

    name: str
    knowledge: Knowledge
    config: FinetuneConfig
    graph: KnowledgeGraph
    seed: int = 0

    def run(
        self,
        plan: FurtherPretraining,
        texts: Callable[[], Sequence[LinkedText]],
        described: dict[str, Any],
        folder: Path,
        *,
        reporter: Reporter | None,
        should_stop: Callable[[], bool] | None,
    ) -> Path | None:
        """Return the trained model's folder below `folder`, trained if missing; None on a stop.

        `described` is all that the training depends on: its hash is the folder's name. InUseError:
        another process trains it.
        """
        run_folder = folder / run_hash(described)
        run_folder.parent.mkdir(parents=True, exist_ok=True)
        together = processes()
        with together.claimed(run_folder):
            if together.from_first((run_folder / STAGE).exists) or self._train(
                plan, texts, described, run_folder, reporter, should_stop
            ):
                together.from_first(lambda: _remove_other_files(run_folder))
                return run_folder
        return None

    def _train(
        self,
        plan: FurtherPretraining,
        texts: Callable[[], Sequence[LinkedText]],
        described: dict[str, Any],
        run_folder: Path,
        reporter: Reporter | None,
        should_stop: Callable[[], bool] | None,
    ) -> bool:
        encoder = self.encoder()
        with torch_draws(plan.training.seed, "initial weights", "heads"):
            objectives = objectives_of(self.name, self.knowledge)
            model = KnowledgeForPreTraining.of(encoder, objectives)
        sentences = texts()
        data = self.data(sentences)
        self._require_difference(data, sentences)
        processes().from_first(lambda: self._begin(run_folder))
        ended = train(
            model,
            data,
            on_this_machine(plan.training),
            run_folder,
            reporter=reporter,
            resume=Resume.IF_ANY,
            should_stop=should_stop,
        )
        if ended.stopped != "finished":
            return False
        read = {"coverage": data.coverage.as_json(), "objectives_read": data.shares_read}
        whole = described | read
        processes().from_first(
            lambda: write_json(run_folder / STAGE, whole, force=True)
        )  # the last
        return True

    def _begin(self, run_folder: Path) -> None:
        """The tokenizer in a new folder."""
        if not list_checkpoints(run_folder / "checkpoints"):
            run_folder.mkdir(exist_ok=True)
            with whole_files(run_folder) as part:
                hosts.load_tokenizer(self.config.host).save_pretrained(part)

    def encoder(self) -> KnowledgeEncoder:
        """The new encoder; its first weights depend on `seed`, not on that of the task."""
        config, method_spec = self.config, method(self.name)
        with torch_draws(self.seed, "initial weights", "encoder"):
            return method_spec.new_encoder(
                config.host,
                self._controlled(),
                hosts.load_tokenizer(config.host),
                seed=self.seed,
                **config.options,
            )

    def data(self, texts: Sequence[LinkedText]) -> WordGraphData:
        """The texts as the method reads them under this knowledge."""
        config, method_spec, graph = self.config, method(self.name), self._controlled()
        others = None
        if self.knowledge == "random-entity":
            others = random_entities(self.graph, config.control_seed)
        tokenizer = hosts.load_tokenizer(config.host)
        return WordGraphData(
            [controlled_text(text, self.knowledge, others) for text in texts],
            graph,
            tokenizer,
            builder=builder_for(
                method_spec, config.graph or BuilderConfig(), config.view or {}, in_pretraining=True
            ),
            view=view_for(method_spec, graph, tokenizer, config.view or {}),
            objectives=objectives_of(self.name, self.knowledge),
            require_links=self.knowledge != "off",
            require_read=self.knowledge == "true",
        )

    def _require_difference(self, data: WordGraphData, texts: Sequence[LinkedText]) -> None:
        """Raise `NoControlError` when a control leaves what mentions are replaced by as it is.

        Shuffled objects leave type records alone, and what the ends of a relation have in common
        (WKLM). Other methods read triples or texts here, of which a sample says nothing.
        """
        if method(self.name).reads != "mentions" or self.knowledge in ("true", "off"):
            return
        true = replace(self, knowledge="true").data(texts)
        n = min(SAMPLES_COMPARED, len(data), len(true))
        if len(data) == len(true) and all(
            data.sample(i, epoch=0, seed=0).same_as(true.sample(i, epoch=0, seed=0))
            for i in range(n)
        ):
            raise NoControlError(
                f"{self.name}, knowledge={self.knowledge!r}: the first {n} texts are rewritten as "
                "under the true graph, so it would be no control; name a relation as the source of "
                "types (objectives.mention_truth.types), or take another control"
            )

    def _controlled(self) -> KnowledgeGraph:
        config = self.config
        reads = method(self.name).reads
        return controlled_graph(self.graph, self.knowledge, config.control_seed, reads=reads)


def _remove_other_files(run_folder: Path) -> None:
    """Leave a finished stage without its checkpoints."""
    tidy(run_folder / STAGE)
    if (run_folder / "checkpoints").exists():  # a kill in between costs room, not the stage
        shutil.rmtree(run_folder / "checkpoints")
