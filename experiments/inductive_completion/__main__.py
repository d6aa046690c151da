"""`python -m experiments.inductive_completion CONFIG -o RUN`: train, ask, write the tables.

Needs KEPT_DATA. Runs that RUN/runs.jsonl holds are not done again, so that a command that was cut
goes on where it stopped; the tables hold those of the configuration as it is now. `--kepler` first
trains the configuration's KEPLER run on each split.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.command import data_root, study_parser
from experiments.inductive_completion.tables import to_markdown
from kept.kgc.kepler_entities import kepler_plan, read_kepler_state, train_kepler
from kept.kge.inductive import InductiveSplit
from kept.lab.completion.inductive import run_method
from kept.lab.completion.inductive_config import InductiveConfig
from kept.lab.study.addresses import run_hash
from kept.lab.study.store import RunRecord, append_record, read_records
from kept.linking.sentences import HostSentenceEncoder
from kept.objectives.described_triples import entity_text
from kept.tasks.datasets.inductive import read_codex_unseen, read_grail, training_graph
from kept.training.config import differences
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.writing import claim, whole_file, write_text

CODEX = "codex-s-unseen"
HOST, N_PIECES = "minilm", 64


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("--splits", help="some of the configuration's, by comma")
    parser.add_argument("--methods", help="some of the configuration's, by comma")
    parser.add_argument("--seeds", type=int, help="the first so many seeds")
    parser.add_argument("--kepler", action="store_true", help="train RUN/kepler-SPLIT, too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config = InductiveConfig.read(arguments.config)
    root = data_root()
    splits = arguments.splits.split(",") if arguments.splits else list(config.splits)
    methods = arguments.methods.split(",") if arguments.methods else list(config.methods)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in splits:
        split = read_split(root, name, config)
        print(name, split, flush=True)
        text = text_vectors(split.graph, arguments.out)
        if arguments.kepler:
            kepler_run(config, split, arguments.out / f"kepler-{name}")
        for seed in config.seeds[: arguments.seeds]:
            for method in methods:
                run(config, name, split, text, method, seed, arguments.out)
    records = current_records(config, root, arguments.out)
    page = to_markdown(config, records, arguments.out)
    write_text(arguments.out / "results.md", page, force=True)
    rows = [asdict(record) for record in records]
    write_text(arguments.out / "results.json", json.dumps(rows, indent=1) + "\n", force=True)
    print(page)


class NotThereError(Exception):
    """A method reads a KEPLER run that does not stand in its folder."""


def read_split(root: Path, name: str, config: InductiveConfig) -> InductiveSplit:
    """A split by its name in a configuration."""
    if name == CODEX:
        if config.unseen is None:
            raise SystemExit(f"{config.name}: the split {CODEX} needs its shares under `unseen`")
        return read_codex_unseen(root, **config.unseen.model_dump())
    return read_grail(root, name)


def kepler_run(config: InductiveConfig, split: InductiveSplit, folder: Path) -> None:
    """Train it, or what is left of it."""
    if config.kepler is None:
        raise SystemExit(f"{config.name} says nothing under `kepler`")
    chosen = config.kepler
    result = train_kepler(
        training_graph(split), folder, host=chosen.host, options=chosen.options,
        training=chosen.training,
    )  # fmt: skip
    print(f"  KEPLER: {result.step} steps", flush=True)


def kepler_state(config: InductiveConfig, split: InductiveSplit, folder: Path) -> dict[str, Any]:
    """How the KEPLER run in `folder` was trained and how far; NotThereError unless as planned."""
    state = read_kepler_state(folder)
    if state is None or not (folder / "config.json").is_file():
        raise NotThereError(f"{folder} is not there yet; train it with --kepler")
    if config.kepler is not None:
        chosen = config.kepler
        plan = kepler_plan(training_graph(split), host=chosen.host, options=chosen.options,
                           training=chosen.training)  # fmt: skip
        if wrong := differences({name: state[name] for name in plan}, plan):
            raise NotThereError(
                f"{folder} was trained with {'; '.join(wrong)}; train it with --kepler, in an "
                "empty folder unless only its steps differ"
            )
    return state


def placed(method: Any, folder: Path) -> Any:
    """The method with its runs below `folder`, and released weights below KEPT_DATA."""
    fields = [field for field in ("folder", "text_from") if getattr(method, field, None)]
    update = {field: folder / getattr(method, field) for field in fields}
    if getattr(method, "weights", None):
        update["weights"] = data_root() / method.weights
    return method.model_copy(update=update)


def text_vectors(graph: KnowledgeGraph, folder: Path) -> NDArray[np.float32]:
    """MiniLM's vectors of "label: description", kept beside the runs by the texts' hash."""
    texts = [entity_text(graph, entity, "both") for entity in range(graph.n_entities)]
    key = hashlib.sha256(json.dumps([HOST, N_PIECES, texts]).encode()).hexdigest()[:12]
    path = folder / f"texts-{key}.npy"
    if not path.is_file():
        print(f"encoding {len(texts)} texts", flush=True)
        vectors = HostSentenceEncoder(HOST, max_length=N_PIECES).encode(texts)
        with whole_file(path) as part, part.open("wb") as sink:
            np.save(sink, vectors)
    stored_vectors: NDArray[np.float32] = np.load(path)
    return stored_vectors


def runs_under(config: InductiveConfig, method: str, seed: int) -> bool:
    """Whether the method is asked under this seed."""
    chosen = config.methods[method]
    learns = chosen.kind not in ("degree", "kepler") and not getattr(chosen, "weights", None)
    return learns or seed == config.seeds[0]


def settings_of(
    config: InductiveConfig,
    name: str,
    split: InductiveSplit,
    text: NDArray[np.float32],
    method: str,
    seed: int,
    folder: Path,
) -> dict[str, Any]:
    """All that a run's outcome depends on; NotThereError where its KEPLER run is not there."""
    chosen = config.methods[method]
    settings: dict[str, Any] = {
        "split": name, "method": chosen.model_dump(mode="json"), "seed": seed,
        "unseen": config.unseen and config.unseen.model_dump(),
        "sampled": config.sampled.model_dump(), "triples": split.graph.content_hash,
        "texts": hashlib.sha256(text.tobytes()).hexdigest()[:12],
    }  # fmt: skip
    needed = placed(chosen, folder)
    for path in (getattr(needed, "folder", None), getattr(needed, "text_from", None)):
        if path is not None:
            settings["kepler"] = kepler_state(config, split, path)
    if getattr(needed, "weights", None):
        settings["weights"] = hashlib.sha256(needed.weights.read_bytes()).hexdigest()
    return settings


def run(
    config: InductiveConfig,
    name: str,
    split: InductiveSplit,
    text: NDArray[np.float32],
    method: str,
    seed: int,
    folder: Path,
) -> None:
    """One run, unless it is recorded already; a method that learns nothing runs once."""
    if not runs_under(config, method, seed):
        return
    try:
        settings = settings_of(config, name, split, text, method, seed, folder)
    except NotThereError as error:
        print(f"  {method}: {error}", flush=True)
        return
    key = run_hash(settings)
    if key in read_records(folder):
        return
    needed = placed(config.methods[method], folder)
    with claim(folder / f"{key}.running"):
        scored = run_method(needed, split, text=text, sampled=config.sampled, seed=seed)
        np.savez_compressed(folder / f"{key}.npz", **scored.questions)  # type: ignore[arg-type]
        scores = {"parts": scored.scores, "skipped": scored.skipped, "counts": dict(split.counts)}
        record = RunRecord(
            run=key, experiment=f"{config.name}/{name}", method=method, knowledge="true", seed=seed,
            scores=scores, costs=scored.costs, settings=settings,
        )  # fmt: skip
        append_record(folder, record)
    summary = {
        part: f"MRR {own['filtered']['mrr']:.3f}, Hits@10 of 50 {own['sampled']['hits@10']:.3f}"
        for part, own in scored.scores.items()
    }
    print(f"  {method}, seed {seed}: {summary} {scored.costs.get('cpu_seconds')} s", flush=True)


def current_records(config: InductiveConfig, root: Path, folder: Path) -> list[RunRecord]:
    """Records that the configuration, the data and the KEPLER runs as they are now would make.

    The others stay in RUN/runs.jsonl and are counted on the screen alone: they are no more seeds.
    """
    by_run = read_records(folder)
    begun, keys = {record.experiment for record in by_run.values()}, set()
    for name in config.splits:
        if f"{config.name}/{name}" not in begun:
            continue
        split = read_split(root, name, config)
        text = text_vectors(split.graph, folder)
        for method in config.methods:
            for seed in config.seeds:
                if runs_under(config, method, seed):
                    with contextlib.suppress(NotThereError):
                        settings = settings_of(config, name, split, text, method, seed, folder)
                        keys.add(run_hash(settings))
    if n_stale := len(by_run.keys() - keys):
        print(f"left out, of other settings, data or weights: {n_stale} records", flush=True)
    return [record for key, record in by_run.items() if key in keys]


if __name__ == "__main__":
    main()
