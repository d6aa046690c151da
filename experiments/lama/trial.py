"""`python -m experiments lama CONFIG -o RUN [--method M]`: train and ask rows, then write tables.

Needs KEPT_DATA. `--method` runs the rows of one method (`host`, `none`, `kbert`, ...) or one row
(`kbert-given`). The pre-trained `host` must be there before any other row. Without `--method`
every row that has no result yet runs, one after another. A run that was cut goes on where it
stopped. RUN receives results.json and results.md from the rows that are there; the tables say which
are missing.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from experiments.command import Results, announce, data_root, run_study
from experiments.lama.data import KNOWLEDGE, LamaWorld, read_world
from experiments.lama.probing import Questions, helpful_names, probe_mode, read_questions
from experiments.lama.study import HOST, LamaStudy, Row, copy_head
from experiments.lama.tables import NAMES, RESULT, TRAINED, to_markdown, values_of
from experiments.pretraining.trial import Ledger, Printer, count_parameters, n_sentences
from kept import hosts
from kept.errors import ConfigError
from kept.evaluation.leakage import audit_table
from kept.lab.probing.models.base import ClozeModel
from kept.lab.probing.opening import open_model
from kept.lab.probing.results import Mode
from kept.lab.study.cells import CellTrial
from kept.lab.study.origins import Origin, fingerprint_of, read_stored, stored_with
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import torch_draws
from kept.training.log import Reporter, read_log
from kept.training.loop import Resume, train
from kg_loaders.disk.writing import write_json, write_text

SPENT, RUN_CONFIG = "spent.json", "pretrain.json"


def modes(row: Row) -> tuple[Mode, ...]:
    """Return how a row answers: a method that reads a graph does so in two ways, never mixed."""
    return ("weights", "graph") if row.knowledge and row.reads_graph else ("weights",)


@dataclass(frozen=True)
class LamaTrial(CellTrial):
    """The rows of the study: each trained on the world, then asked the questions about it.

    Every row answers from its weights alone; those whose method reads a graph answer with it, too,
    and that is a result of its own. On the graph that holds the probed facts they are shown, on the
    other there are none to show. The names of LAMA-UHN's second filter are guessed by the row
    `host`, so that all rows are judged on the same questions.
    """

    study: LamaStudy
    folder: Path
    world: LamaWorld
    questions: Questions
    reporter: Reporter | None = None

    @property
    def rows(self) -> Sequence[str]:
        """The names of the rows."""
        return [row.name for row in self.study.rows]

    def seeds(self, row: str) -> tuple[int, ...]:
        """Every row has the seed of the study."""
        return (self.study.seed,)

    def path(self, row: str, seed: int) -> Path:
        """See `CellTrial.path`."""
        return self.folder / row / RESULT

    def origin(self, row: str, seed: int) -> Origin:
        """See `CellTrial.origin`; that of the names, too, which the row `host` guesses."""
        data = fingerprint_of(self.world.fingerprint, self.questions.fingerprint)
        return {"settings": self.study.probe_settings_of(self.study.row(row)), "data": data}

    def run(self, row: str, seed: int) -> list[dict[str, Any]]:
        """Train a row and ask it everything; a value for each mode."""
        chosen = self.study.row(row)
        self.train(chosen)
        names = self.names()
        return [
            probe_mode(self.open(chosen, mode), chosen, self.study, self.questions, names,
                       self.folder) for mode in modes(chosen)
        ]  # fmt: skip

    def summary(self, row: str, seed: int, cell: list[dict[str, Any]]) -> str:
        """See `CellTrial.summary`."""
        scores = [(one["mode"], one["objects"]["all"]) for one in cell]
        lines = [f"  {mode}: P@1 {s['p_at_1']:.3f} of {s['n_scored']}" for mode, s in scores]
        return "\n".join([f"{row}:", *lines])

    def names(self) -> frozenset[str]:
        """Return the ids of the probed questions that LAMA-UHN keeps."""

        def make() -> dict[str, Any]:
            without = helpful_names(self.open(Row(HOST), "weights"), self.questions)
            return {"told": str(without), "kept": [item.id for item in without.items]}

        origin = self.origin(HOST, self.study.seed)
        return frozenset(stored_with(self.folder / NAMES, origin, make)["kept"])

    def open(self, row: Row, mode: Mode) -> ClozeModel:
        """Return a trained row; facts that are asked are shown where its graph has them."""
        self.trained(row)
        show_asked = mode == "graph" and row.knowledge == "given"
        graph = self.world.graphs[row.graph_setting()]
        model = open_model(self.folder / row.name, mode, graph, show_asked=show_asked)
        assert isinstance(model, ClozeModel)
        return model

    # ---- training --------------------------------------------------------------------------------
    def trained(self, row: Row) -> dict[str, Any] | None:
        """Return the record of a row's training, None before it."""
        record: dict[str, Any] | None = read_stored(self._record(row), self._training_origin(row))
        return record

    def _record(self, row: Row) -> Path:
        return self.folder / row.name / TRAINED

    def _training_origin(self, row: Row) -> Origin:
        return {"settings": self.study.settings_of(row), "data": self.world.fingerprint}

    def train(self, row: Row) -> dict[str, Any]:
        """Train a row to its end, or go on where it was cut; return what `trained.json` holds.

        Raises `ConfigError` where the host has not been pre-trained yet, `CheckpointError` where
        it or the row was trained with other settings or data.
        """
        record: dict[str, Any] = stored_with(
            self._record(row), self._training_origin(row), lambda: self._train(row)
        )
        return record

    def _train(self, row: Row) -> dict[str, Any]:
        study, folder, objectives = self.study, self.folder / row.name, self.study.objectives(row)
        model = self.new_model(row)
        corpus = self.world.corpus(row.graph_setting())
        data = corpus.data(row.kind, study.host, study.builder, objectives)
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"host": study.host, "graph": dataclasses.asdict(study.builder), "view": {}}
        write_json(folder / RUN_CONFIG, settings, force=True)
        hosts.load_tokenizer(study.host).save_pretrained(folder)
        config = study.training_of(row)
        ledger = Ledger(folder / SPENT, self.reporter)
        ledger.start()
        result = train(model, data, config, folder, reporter=ledger, resume=Resume.IF_ANY)
        ledger.write()
        return {
            "row": row.name,
            "objectives": {name: dict(values) for name, values in objectives.items()},
            "steps": result.step,
            "sentences": n_sentences(data, config, result.step),
            "cpu_minutes": ledger.cpu_seconds / 60,
            "losses": _last_losses(folder),
            "parameters": count_parameters(model),
            "data": str(data),
            "graph": corpus.graph.content_hash,
        }

    def new_model(self, row: Row) -> KnowledgeForPreTraining:
        """Return a row's model before its training, with the pre-trained weights but for `host`."""
        study, first = self.study, None if row.method == HOST else self._pretrained_host()
        host = hosts.load_host(study.host) if first is None else first.encoder.host
        graph, words = self.world.graphs[row.graph_setting()], hosts.load_tokenizer(study.host)
        with torch_draws(study.seed, "initial weights"):
            encoder = row.kind.new_encoder(
                host, graph, words, seed=study.seed, **study.plan(row).options
            )
            model = KnowledgeForPreTraining.of(encoder, study.objectives(row))
        if first is not None:
            copy_head(first, model)
        return model

    def _pretrained_host(self) -> KnowledgeForPreTraining:
        folder = self.folder / HOST
        if self.trained(Row(HOST)) is None:
            host = self.study.host
            raise ConfigError(f"{folder} holds no pre-trained {host}; run row {HOST!r} first")
        return KnowledgeForPreTraining.from_pretrained(folder)


def _last_losses(folder: Path) -> dict[str, float]:
    """Return means over the last tenth of the steps that were logged."""
    steps = [row["losses"] for row in read_log(folder / "log.jsonl") if row["kind"] == "step"]
    last = steps[-max(1, len(steps) // 10) :]
    names = dict.fromkeys(name for losses in last for name in losses)
    return {name: sum(losses.get(name, 0.0) for losses in last) / len(last) for name in names}


# ---- the command ---------------------------------------------------------------------------------
def chosen_rows(study: LamaStudy, name: str | None) -> list[Row]:
    """Return all rows, those of a method, or one; raises `ConfigError` for another name."""
    if name is None:
        return study.rows
    return [row for row in study.rows if row.method == name] or [study.row(name)]


def run(study: LamaStudy, arguments: argparse.Namespace) -> Results:
    """Read the world, write its audit, train and ask the rows; return the tables."""
    torch.set_num_threads(study.training.threads or torch.get_num_threads())
    rows = chosen_rows(study, arguments.method)
    if not arguments.tables:
        root = data_root()
        world = read_world(
            root, per_relation=study.facts_per_relation, n_texts=study.n_texts, seed=study.seed
        )
        announce(str(world))
        for knowledge in KNOWLEDGE:
            text = audit_table(world.audit(knowledge))
            write_text(arguments.out / f"audit-{knowledge}.md", text + "\n", force=True)
        questions = read_questions(root / "lama", study, world)
        trial = LamaTrial(study, arguments.out, world, questions, Printer())
        trial.run_missing(trial.keys([row.name for row in rows]), announce=announce)
    values = values_of(study, arguments.out)
    return to_markdown(study, values, arguments.out), values


if __name__ == "__main__":
    run_study(
        __doc__, LamaStudy, run,
        {"--method": {"help": "only the rows of this method, or this row"},
         "--tables": {"action": "store_true", "help": "run nothing, write the tables"}},
    )  # fmt: skip
