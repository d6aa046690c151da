"""Few-shot relation classification: N-way K-shot episodes over relations that training never saw.

Snell et al. 2017 (NeurIPS, section 2): a class is the mean of its K examples, a question goes to
the nearest mean by squared Euclidean distance. FewRel (Han et al. 2018, EMNLP, section 4) asks 5
and 10 classes with 1 and 5 examples each. An example is what the encoder makes of it: the states of
head and tail side by side, whatever the method. Unlike the networks there, ours are not trained in
episodes: they learn to classify the other relations, or nothing.

Axis legend: item (an example), width, class, shot, question, episode.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt, field_validator

from kept.errors import EvaluationError
from kept.evaluation.published import Published
from kept.evaluation.statistics import bootstrap_interval
from kept.heads.model import KnowledgeForTask
from kept.layers.spans import target_states
from kept.randomness import generator
from kept.tasks.datasets.formats import FORMATS, TaskExample, read_examples
from kept.training.config import RunConfig
from kept.training.finetuning.assembly import assemble, linked
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.data import TaskData
from kept.training.log import Reporter
from kept.training.loop import Resume, train
from kg_loaders import KnowledgeGraph

Floats = NDArray[np.float64]


class FewshotConfig(RunConfig):
    """Episodes over the relations of `novel`, and the fine-tuning that comes before them.

    `task` are fields of `FinetuneConfig`; its `leave_out` names the relations of `novel` as the
    training file writes them. `trained` false evaluates the encoder untrained. `max_novel` draws
    as many examples. An episode has `n_queries` questions per class.
    """

    name: str
    task: dict[str, Any]
    trained: bool = True
    novel: Path
    novel_format: str = "fewrel"
    max_novel: PositiveInt | None = None
    ways: tuple[PositiveInt, ...] = (5, 10)
    shots: tuple[PositiveInt, ...] = (1, 5)
    n_queries: PositiveInt = 5
    n_episodes: int = Field(2000, ge=2)
    seed: NonNegativeInt = 0
    published: tuple[Published, ...] = ()
    differs: str = ""
    notes: tuple[str, ...] = ()

    @field_validator("novel_format")
    @classmethod
    def _of_relations(cls, name: str) -> str:
        formats = sorted(n for n, line in FORMATS.items() if line.task == "relation")
        if name not in formats:
            raise ValueError(f"one of {formats}")
        return name


def run_fewshot(
    config: FewshotConfig, folder: Path, *, reporter: Reporter | None = None
) -> dict[str, Any]:
    """Train (or resume in `folder`), then evaluate; return scores by setting, and what is left out.

    Facts between two entities of a novel example are in no graph, and no novel text is trained on.
    Novel examples are linked, controlled and corrupted as those of an evaluation split. Raises
    `EvaluationError` before training where they are too few, `UnfinishedError` where a budget ended
    training.
    """
    novel = read_examples(config.novel, config.novel_format)
    task = FinetuneConfig.read(None, config.task)
    if task.link:
        novel = linked(task, {"novel": novel}, KnowledgeGraph.open(task.kg))["novel"]
    assembled = assemble(task, hidden=novel)
    data = assembled.evaluation_data(_some(novel, config))
    labels = [example.labels[0] for example in data.examples]
    settings = [(way, shot) for way in config.ways for shot in config.shots]
    for way, shot in settings:
        _pools(labels, way, shot, config.n_queries)
    if config.trained:
        train(
            assembled.model,
            assembled.train,
            assembled.config.training,
            folder,
            reporter=reporter,
            resume=Resume.IF_ANY,
        ).require_end()
    vectors = representations(assembled.model, data)
    scores = {
        f"{way}-way {shot}-shot": _score(labels, vectors, way, shot, config)
        for way, shot in settings
    }
    return {
        "name": config.name,
        "n_asked": len(labels),
        "skipped": data.skipped,
        "n_relations": len(set(labels)),
        "trained": config.trained,
        **assembled.facts,
        "coverage": assembled.facts["coverage"] | {"novel": data.coverage.as_json()},
        "scores": scores,
    }


@torch.no_grad()
def representations(model: KnowledgeForTask, data: TaskData, *, batch_size: int = 32) -> Floats:
    """`[item 2*width]`: states of the first nodes of head and tail, in the encoder's last layer."""
    was_training = model.training
    model.eval()
    rows: dict[int, Floats] = {}
    order = sorted(range(len(data)), key=lambda i: (data.n_nodes(i), i))
    for start in range(0, len(order), batch_size):
        chunk = order[start : start + batch_size]
        samples = [data.sample(i, epoch=0, seed=0) for i in chunk]
        batch = data.collate(samples, epoch=0, seed=0, step=0).to(model.device)
        states = target_states(model.encoder(batch).node_states, batch.target_spans)
        for item, row in zip(chunk, states.flatten(1).double().cpu().numpy(), strict=True):
            rows[item] = row
    model.train(was_training)
    return np.stack([rows[i] for i in range(len(data))])


def episode_accuracies(
    labels: Sequence[str],
    vectors: Floats,
    *,
    way: int,
    shot: int,
    n_queries: int,
    n_episodes: int,
    seed: int,
) -> Floats:
    """`[episode]`: share of right answers. An episode is drawn by its number, whatever the vectors.

    Raises `EvaluationError` where relations or examples are too few.
    """
    pools = _pools(labels, way, shot, n_queries)
    accuracies = np.empty(n_episodes)
    for episode in range(n_episodes):
        draws = generator(seed, "episode", way, shot, episode)
        sample = [
            draws.choice(pools[k], shot + n_queries, replace=False)
            for k in draws.choice(len(pools), way, replace=False)
        ]
        episodes = vectors[np.stack(sample)]
        centres = episodes[:, :shot].mean(axis=1)
        questions = episodes[:, shot:].reshape(way * n_queries, -1)
        distances = (centres**2).sum(1) - 2 * questions @ centres.T
        right = distances.argmin(axis=1) == np.repeat(np.arange(way), n_queries)
        accuracies[episode] = right.mean()
    return accuracies


def _pools(labels: Sequence[str], way: int, shot: int, n_queries: int) -> list[NDArray[np.int64]]:
    """Items of each class; EvaluationError where classes or items are too few."""
    items: dict[str, list[int]] = {}
    for i, label in enumerate(labels):
        items.setdefault(label, []).append(i)
    pools = [np.array(items[label]) for label in sorted(items)]
    if len(pools) < way or min(map(len, pools)) < shot + n_queries:
        raise EvaluationError(
            f"{way} classes of {shot} + {n_queries} examples are requested, there are {len(pools)} "
            f"with {min(map(len, pools), default=0)} or more; request fewer or read more"
        )
    return pools


def _score(
    labels: Sequence[str], vectors: Floats, way: int, shot: int, config: FewshotConfig
) -> dict[str, Any]:
    """Mean and interval over episodes; guessing is right once in `way`."""
    accuracies = episode_accuracies(
        labels,
        vectors,
        way=way,
        shot=shot,
        n_queries=config.n_queries,
        n_episodes=config.n_episodes,
        seed=config.seed,
    )
    draws = generator(config.seed, "bootstrap", way, shot)
    interval = bootstrap_interval(accuracies, generator=draws)
    return dataclasses.asdict(interval) | {"baseline": 1 / way}


def _some(novel: Sequence[TaskExample], config: FewshotConfig) -> list[TaskExample]:
    if config.max_novel is None or len(novel) <= config.max_novel:
        return list(novel)
    order = generator(config.seed, "novel").permutation(len(novel))[: config.max_novel]
    return [novel[i] for i in sorted(order.tolist())]
