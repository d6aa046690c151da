"""`python -m experiments shown_facts CONFIG -o RUN [--arms A,B]`: reading stages, then questions.

Each arm is trained on the relations of the other folds, and asked about those of its own with their
facts shown. Needs KEPT_DATA. What was stored is not run again, and a run that was cut goes on where
it stopped. RUN receives results.json and results.md from the arms that are there.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from entity_linking.mentions import LinkedText
from experiments.command import Results, announce, data_root, run_study
from experiments.pretraining.trial import Printer
from experiments.shown_facts.questions import Questions
from experiments.shown_facts.settings import HEAD, ShownFactsStudy
from experiments.shown_facts.tables import page
from kept import hosts
from kept.inputs.views import builder_for, view_for
from kept.lab.probing.engine import probe
from kept.lab.probing.items.item import ClozeItem
from kept.lab.probing.models.enriched import KeptMaskedLM
from kept.lab.study.cells import CellTrial
from kept.lab.study.origins import Origin, read_stored, write_stored
from kept.methods import Method, method
from kept.objectives.model import KnowledgeForPreTraining
from kept.objectives.word_heads import copy_mlm_head
from kept.randomness import torch_draws
from kept.training.config import TrainConfig
from kept.training.log import Reporter
from kept.training.loop import Resume, train
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph

TRAINED, RESULT = "trained.json", "result.json"


@dataclass(frozen=True)
class ShownFactsTrial(CellTrial):
    """The arms of the study; a seed is the number of a fold."""

    questions: Questions
    folder: Path
    reporter: Reporter

    @property
    def study(self) -> ShownFactsStudy:
        """The settings."""
        return self.questions.study

    @property
    def rows(self) -> Sequence[str]:
        """The arms."""
        return [*self.study.arms]

    def seeds(self, row: str) -> Sequence[int]:
        """Return the folds."""
        return range(self.study.folds)

    def path(self, row: str, seed: int) -> Path:
        """See `CellTrial.path`."""
        return self.folder / f"{row}-{seed}" / RESULT

    def origin(self, row: str, seed: int = 0) -> Origin:
        """See `CellTrial.origin`; `HEAD` is the host with its head."""
        return {
            "settings": self.study.settings_of(row), "data": self.questions.world.fingerprint
        }  # fmt: skip

    def run(self, row: str, seed: int) -> dict[str, Any]:
        """Train an arm on the other folds, and ask it about this one."""
        questions, arm = self.questions, self.study.arms[row]
        announce(f"{row}, fold {seed}:")
        model = self.new_model(row, seed, self.start(row, seed))
        arguments, items = questions.world.graphs["given"], questions.of_fold(seed)
        untrained = self._answers(model, row, arguments, items)
        stated = {"stated_words": self.study.stated}
        data = self._data(
            arm.line,
            questions.training_graph(seed),
            stated,
            questions.training_texts(seed),
            arm.view,
        )
        training = self.study.reading
        if arm.steps is not None:
            training = training.model_copy(update={"steps": arm.steps})
        self._train(model, data, training, self.path(row, seed).parent, self.origin(row))
        edited = questions.edited(seed)
        return {
            "arm": row,
            "fold": seed,
            "relations": questions.relations[seed],
            "share of texts with a stated mention": data.shares_read["stated_words"],
            "alone": self._answers(model, row, questions.asked_alone(seed), items),
            "shown": self._answers(model, row, arguments, items),
            "edited": self._answers(model, row, *edited),
            "hidden": self._answers(model, row, arguments, items, show=False),
            "untrained": untrained,
        }

    def start(self, row: str, seed: int) -> Path:
        """Return the folder of the model that an arm starts from, trained where it is missing."""
        start = self.study.arms[row].start
        if start is None:
            return self._host_with_head()
        self.cell(start, seed)
        return self.path(start, seed).parent

    def new_model(self, row: str, seed: int, host_folder: Path) -> KnowledgeForPreTraining:
        """Return an arm before its reading stage, with host and head of the model in `begun`."""
        study, arm = self.study, self.study.arms[row]
        host = KnowledgeForPreTraining.from_pretrained(host_folder).encoder.host
        graph, tokenizer = self.questions.training_graph(seed), hosts.load_tokenizer(study.host)
        with torch_draws(study.seed, "initial weights"):
            encoder = arm.line.encoder.for_graph(
                host, graph, tokenizer, seed=study.seed, **arm.options
            )
            model = KnowledgeForPreTraining.of(encoder, {"stated_words": study.stated})
        encoder.freeze_parts(study.freeze)
        copy_mlm_head(host_folder, model)
        return model

    def _host_with_head(self) -> Path:
        """Return the folder of the host with a head over words, trained on the texts."""
        study, graph = self.study, self.questions.world.graphs["held_out"]
        folder, origin = self.folder / HEAD, self.origin(HEAD)
        if read_stored(folder / TRAINED, origin) is not None:
            return folder
        none, objectives = method("none"), {"mlm": study.words}
        host, tokenizer = hosts.load_host(study.host), hosts.load_tokenizer(study.host)
        with torch_draws(study.seed, "initial weights"):
            encoder = none.encoder.for_graph(host, graph, tokenizer, seed=study.seed)
            model = KnowledgeForPreTraining.of(encoder, objectives)
        encoder.freeze_parts(study.freeze)
        texts = [text for document in self.questions.world.documents for text in document]
        self._train(
            model, self._data(none, graph, objectives, texts, {}), study.head, folder, origin
        )
        return folder

    def _data(
        self, line: Method, graph: KnowledgeGraph, objectives: Any, texts: Sequence[LinkedText],
        view: Mapping[str, Any],
    ) -> WordGraphData:  # fmt: skip
        tokenizer = hosts.load_tokenizer(self.study.host)
        return WordGraphData(
            texts, graph, tokenizer,
            builder=builder_for(line, self.study.builder, view, in_pretraining=True),
            view=view_for(line, graph, tokenizer, view), objectives=objectives,
        )  # fmt: skip

    def _train(
        self, model: KnowledgeForPreTraining, data: WordGraphData, config: TrainConfig,
        folder: Path, origin: Origin,
    ) -> None:  # fmt: skip
        """Train to the end, or go on where it was cut; a folder of other settings is refused."""
        folder.mkdir(parents=True, exist_ok=True)
        if read_stored(folder / TRAINED, origin) is None:
            result = train(
                model, data, config, folder, reporter=self.reporter, resume=Resume.IF_ANY
            )
            write_stored(folder / TRAINED, origin, {"steps": result.step})
            return
        model.load_state_dict(KnowledgeForPreTraining.from_pretrained(folder).state_dict())

    def _answers(
        self, model: KnowledgeForPreTraining, row: str, graph: KnowledgeGraph,
        items: Sequence[ClozeItem], *, show: bool = True,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Return for each question its relation, whether its fact was shown, and its ranks.

        A rank is None where the answer is no candidate.
        """
        study = self.study
        probed = KeptMaskedLM(
            model, hosts.load_tokenizer(study.host), "graph", graph, show_asked=show,
            builder=study.builder, view=dict(study.arms[row].view), name=row,
        )  # fmt: skip
        vocabulary, objects = self.questions.vocabulary, self.questions.objects
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
            for answer in probe(probed, items, vocabulary=vocabulary, objects=objects).answers
        ]


# ---- the command ---------------------------------------------------------------------------------
def run(study: ShownFactsStudy, arguments: argparse.Namespace) -> Results:
    """Run the missing arms; return the page of all that are there."""
    torch.set_num_threads(study.reading.threads or torch.get_num_threads())
    trial = ShownFactsTrial(Questions.read(study, data_root()), arguments.out, Printer())
    announce(str(trial.questions.world))
    trial.run_missing(trial.keys(arguments.arms))
    cells = trial.stored()
    text = page(study, cells, str(trial.questions.world))
    return text, {"arms": {row: [*of_row.values()] for row, of_row in cells.items()}}


if __name__ == "__main__":
    run_study(
        __doc__, ShownFactsStudy, run,
        {"--arms": {"type": lambda text: text.split(","), "help": "only these, by comma"}},
    )  # fmt: skip
