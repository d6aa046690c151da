"""`python -m experiments inductive_completion CONFIG -o RUN`: train, evaluate, write the tables.

Needs KEPT_DATA. Runs that RUN/runs.jsonl holds are not done again, so that a command that was cut
goes on where it stopped; the tables hold those of the configuration as it is now. `--kepler` first
trains the configuration's KEPLER run on each split.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.command import Options, announce, data_root, run_study
from experiments.inductive_completion.tables import to_markdown
from kept.errors import ConfigError
from kept.kgc.kepler_entities import kepler_plan, read_kepler_state, train_kepler
from kept.kge.inductive import InductiveSplit
from kept.lab.completion.inductive import run_method
from kept.lab.completion.inductive_config import InductiveConfig
from kept.lab.study.design import RunKey
from kept.lab.study.run import Study, run_all
from kept.lab.study.store import RunRecord, read_records
from kept.lab.study.trial import Answers, Trial
from kept.linking.sentences import HostSentenceEncoder
from kept.objectives.described_triples import entity_text
from kept.tasks.datasets.inductive import read_codex_unseen, read_grail, training_graph
from kept.training.config import differences
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.writing import whole_file

CODEX = "codex-s-unseen"
HOST, N_PIECES = "minilm", 64


class NotThereError(ConfigError):
    """A method reads a KEPLER run that is not in its folder."""


@dataclass(frozen=True, eq=False)
class InductiveTrial(Trial):
    """The runs of a configuration on one split; `text` are vectors of the entities' texts."""

    config: InductiveConfig
    split_name: str
    split: InductiveSplit
    text: NDArray[np.float32]
    folder: Path

    @property
    def plan(self) -> InductiveConfig:
        """The configuration, under the name of the split."""
        return self.config

    @classmethod
    def of(cls, config: InductiveConfig, split_name: str, folder: Path) -> InductiveTrial:
        """Return the trial of a split of the configuration."""
        split = read_split(data_root(), split_name, config)
        plan = config.model_copy(update={"name": f"{config.name}/{split_name}"})
        return cls(plan, split_name, split, text_vectors(split.graph, folder), folder)

    def keys(self, methods: list[str], seeds: tuple[int, ...]) -> list[RunKey]:
        """Return the runs; a method that learns nothing has the first seed alone."""
        chosen = self.config.methods
        first = [name for name in methods if not learns(chosen[name])]
        return [
            RunKey(name, "true", seed)
            for seed in seeds
            for name in methods
            if name not in first or seed == self.config.seeds[0]
        ]

    def possible(self, keys: list[RunKey]) -> dict[RunKey, str]:
        """Return the runs whose KEPLER run is there, with their addresses; says which is not."""
        runs: dict[RunKey, str] = {}
        for key in keys:
            try:
                runs[key] = Study(self).of(key).name
            except NotThereError as error:
                announce(f"  {key.method}: {error}")
        return runs

    def settings(self, key: RunKey) -> dict[str, Any]:
        """See `Trial.settings`; NotThereError where the KEPLER run of a method is not there."""
        method, config = self.config.methods[key.method], self.config
        settings: dict[str, Any] = {
            "split": self.split_name, "method": method.model_dump(mode="json"), "seed": key.seed,
            "unseen": config.unseen and config.unseen.model_dump(),
            "sampled": config.sampled.model_dump(), "triples": self.split.graph.content_hash,
            "texts": hashlib.sha256(self.text.tobytes()).hexdigest()[:12],
        }  # fmt: skip
        needed = placed(method, self.folder)
        for path in (getattr(needed, "folder", None), getattr(needed, "text_from", None)):
            if path is not None:
                settings["kepler"] = kepler_state(config, self.split, path)
        if getattr(needed, "weights", None):
            settings["weights"] = hashlib.sha256(needed.weights.read_bytes()).hexdigest()
        return settings

    def run(self, key: RunKey, run_folder: Path) -> Answers:
        """See `Trial.run`; the questions are beside the folder of the run."""
        method = placed(self.config.methods[key.method], self.folder)
        sampled = self.config.sampled
        scored = run_method(method, self.split, text=self.text, sampled=sampled, seed=key.seed)
        np.savez_compressed(run_folder.with_suffix(".npz"), **scored.questions)  # type: ignore[arg-type]
        summary = {
            part: f"MRR {mrr['filtered']['mrr']:.3f}, Hits@10 of 50 {mrr['sampled']['hits@10']:.3f}"
            for part, mrr in scored.scores.items()
        }
        announce(f"  {summary} {scored.costs.get('cpu_seconds')} s")
        counts = dict(self.split.counts)
        scores = {"parts": scored.scores, "skipped": scored.skipped, "counts": counts}
        return Answers([], scores, scored.costs)


def learns(method: Any) -> bool:
    """Return whether a seed changes anything in a method."""
    return method.kind not in ("degree", "kepler") and not getattr(method, "weights", None)


def read_split(root: Path, name: str, config: InductiveConfig) -> InductiveSplit:
    """Return a split by its name in a configuration."""
    if name == CODEX:
        if config.unseen is None:
            raise ConfigError(f"{config.name}: the split {CODEX} needs its shares under `unseen`")
        return read_codex_unseen(root, **config.unseen.model_dump())
    return read_grail(root, name)


def kepler_run(config: InductiveConfig, split: InductiveSplit, folder: Path) -> None:
    """Train the KEPLER run, or what is left of it."""
    if config.kepler is None:
        raise ConfigError(f"{config.name} has no field `kepler`: give one, or leave out --kepler")
    fields = {name: getattr(config.kepler, name) for name in ("host", "options", "training")}
    result = train_kepler(training_graph(split), folder, **fields)
    announce(f"  KEPLER: {result.step} steps")


def kepler_state(config: InductiveConfig, split: InductiveSplit, folder: Path) -> dict[str, Any]:
    """Return how the KEPLER run in `folder` was trained and how far; NotThereError: not so."""
    state = read_kepler_state(folder)
    if state is None or not (folder / "config.json").is_file():
        raise NotThereError(f"{folder} is not there yet; train it with --kepler")
    if config.kepler is not None:
        fields = {name: getattr(config.kepler, name) for name in ("host", "options", "training")}
        plan = kepler_plan(training_graph(split), **fields)
        if wrong := differences({name: state[name] for name in plan}, plan):
            raise NotThereError(
                f"{folder} was trained with {'; '.join(wrong)}; train it with --kepler, in an "
                "empty folder unless only its steps differ"
            )
    return state


def placed(method: Any, folder: Path) -> Any:
    """Return the method with its runs below `folder`, and released weights below KEPT_DATA."""
    fields = [field for field in ("folder", "text_from") if getattr(method, field, None)]
    update = {field: folder / getattr(method, field) for field in fields}
    if getattr(method, "weights", None):
        update["weights"] = data_root() / method.weights
    return method.model_copy(update=update)


def text_vectors(graph: KnowledgeGraph, folder: Path) -> NDArray[np.float32]:
    """Return MiniLM's vectors of "label: description", stored under the hash of the texts."""
    texts = [entity_text(graph, entity, "both") for entity in range(graph.n_entities)]
    key = hashlib.sha256(json.dumps([HOST, N_PIECES, texts]).encode()).hexdigest()[:12]
    path = folder / f"texts-{key}.npy"
    if not path.is_file():
        announce(f"encoding {len(texts)} texts")
        vectors = HostSentenceEncoder(HOST, max_length=N_PIECES).encode(texts)
        with whole_file(path) as part, part.open("wb") as sink:
            np.save(sink, vectors)
    stored_vectors: NDArray[np.float32] = np.load(path)
    return stored_vectors


def run(config: InductiveConfig, arguments: argparse.Namespace) -> tuple[str, object]:
    """Run what is missing of the chosen part; return the page of all runs of the configuration."""
    splits, methods = arguments.splits or [*config.splits], arguments.methods or [*config.methods]
    trials = {}
    for name in splits:
        trial = trials[name] = InductiveTrial.of(config, name, arguments.out)
        announce(f"{name} {trial.split}")
        if arguments.kepler:
            kepler_run(config, trial.split, arguments.out / f"kepler-{name}")
        runs = trial.possible(trial.keys(methods, config.seeds[: arguments.seeds]))
        run_all(Study(trial), list(runs), announce=announce)
    records = current_records(config, arguments.out, trials)
    return to_markdown(config, records, arguments.out), [asdict(record) for record in records]


def current_records(
    config: InductiveConfig, folder: Path, trials: dict[str, InductiveTrial]
) -> list[RunRecord]:
    """Return the records of the configuration, the data and the KEPLER runs as they are now.

    The others stay in RUN/runs.jsonl and are counted on the screen alone: they are no more seeds.
    """
    by_run = read_records(folder)
    experiments, keys = {record.experiment for record in by_run.values()}, set[str]()
    for name in config.splits:
        if f"{config.name}/{name}" in experiments:
            trial = trials.get(name) or InductiveTrial.of(config, name, folder)
            keys |= {*trial.possible(trial.keys([*config.methods], config.seeds)).values()}
    if n_stale := len(by_run.keys() - keys):
        announce(f"left out, of other settings, data or weights: {n_stale} records")
    return [record for key, record in by_run.items() if key in keys]


def _names(text: str) -> list[str]:
    return text.split(",")


def main(arguments: list[str] | None = None) -> None:
    """Run the study."""
    options: Options = {
        "--splits": {"type": _names, "help": "some of the configuration's, by comma"},
        "--methods": {"type": _names, "help": "some of the configuration's, by comma"},
        "--seeds": {"type": int, "help": "the first so many seeds"},
        "--kepler": {"action": "store_true", "help": "train RUN/kepler-SPLIT, too"},
    }
    run_study(__doc__, InductiveConfig, run, options, arguments=arguments)


if __name__ == "__main__":
    main()
