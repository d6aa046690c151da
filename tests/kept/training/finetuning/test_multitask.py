"""Several tasks under one encoder: whose turn it is, what moves, and that it resumes."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from entity_linking import RelationExample
from kept.batches import KnowledgeBatch
from kept.errors import BatchError, ConfigError
from kept.heads.model import KnowledgeForTask
from kept.training.finetuning.assembly import assemble
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.multitask import TaskMixture, turns
from kept.training.finetuning.run import FinetuneRun
from kept.training.log import StepRecord, read_log
from kept.training.loop import Resume, train
from kept.training.stream import BatchStream
from kg_loaders import KnowledgeGraph


@pytest.fixture(scope="module")
def config(
    tmp_path_factory: pytest.TempPathFactory,
    examples: list[RelationExample],
    world: KnowledgeGraph,
    host: Path,
) -> FinetuneConfig:
    """Relations beside words to be tagged and texts to be classified."""
    folder = tmp_path_factory.mktemp("several")
    world.save(folder / "kg")
    rows = []
    for e in examples[:40]:
        tokens = e.linked.text.split()
        ends = [(e.head, e.head_mention), (e.tail, e.tail_mention)]
        places = [len(e.linked.text[: mention.start].split()) for _, mention in ends]
        h, t = ({"id": name, "pos": [p, p + 1]} for (name, _), p in zip(ends, places, strict=True))
        rows.append(json.dumps({"token": tokens, "h": h, "t": t, "relation": e.relation}))
    (folder / "relations.txt").write_text("\n".join(rows), encoding="utf-8")
    words = "\n\n".join(f"the O\nriver B-x\n{'ab'[i % 2]} O\n{i} O" for i in range(10))
    (folder / "words.conll").write_text(words, encoding="utf-8")
    texts = "\n".join(
        f"{'o' if i % 2 else 'n'}\t{'old' if i % 2 else 'near'} {i}" for i in range(9)
    )
    (folder / "texts.tsv").write_text(texts, encoding="utf-8")
    also = [
        {"name": "words", "task": "tagging", "format": "conll", "train": folder / "words.conll"},
        {"name": "texts", "task": "classification", "format": "tsv", "train": folder / "texts.tsv"},
    ]
    return FinetuneConfig.model_validate(
        {
            "task": "relation", "format": "wiki80", "train": folder / "relations.txt",
            "kg": folder / "kg", "method": "colake", "host": str(host), "mixing": 0.5,
            "also": [{**task, "dev_share": 0.3} for task in also], "layer_mix": {},
            "training": {
                "steps": 9, "batch_size": 4, "device": "cpu", "threads": 1, "log_every": 1,
                "learning_rate": 0.01, "evaluate_every": 9,
            },
        }
    )  # fmt: skip


class Stopper:
    """Ends a run after a step."""

    def __init__(self, at: int) -> None:
        self.at, self.step_now = at, 0

    def step(self, record: StepRecord) -> None:
        self.step_now = record.step

    def notice(self, message: str) -> None:
        pass

    def __call__(self) -> bool:
        return self.step_now >= self.at


def trained(config: FinetuneConfig, folder: Path, stop_at: int = 99, **how: Any) -> FinetuneRun:
    assembled, stop = assemble(config), Stopper(stop_at)
    train(
        assembled.model, assembled.data, config.training, folder, reporter=stop, should_stop=stop,
        evaluate=assembled.evaluate, **how,
    )  # fmt: skip
    return assembled


def test_a_run_of_three_tasks(config: FinetuneConfig, tmp_path: Path) -> None:
    """Losses by task in the log, scores by task, and bitwise the same when resumed."""
    whole = trained(config, tmp_path / "whole")
    rows = read_log(tmp_path / "whole/log.jsonl")
    losses = [tuple(row["losses"]) for row in rows if row["kind"] == "step"]
    assert all(len(names) == 1 for names in losses)
    assert set(losses) == {("class",), ("words",), ("texts",)}
    (scored,) = [row["scores"] for row in rows if row["kind"] == "evaluation"]
    assert {"accuracy", "words: accuracy", "texts: micro_f1", "weight of state 2"} <= set(scored)
    metrics, predictions = whole.metrics()
    assert list(predictions) == ["dev", "words/dev", "texts/dev"]
    assert {len(answer) for answer in predictions["words/dev"]} == {4}
    assert metrics["words/dev"]["n_scored"] == len(predictions["words/dev"])
    assert metrics["also"]["texts"]["labels"] == ["n", "o"]
    assert sum(metrics["also"]["words"]["layer_mix"]["weights"]) == pytest.approx(1)
    assert metrics["also"]["words"]["layer_mix"] != metrics["layer_mix"]
    again = KnowledgeForTask.from_pretrained(tmp_path / "whole").eval()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    assert again.question(2) == whole.model.question(2)
    assert again.question(2).labels == ("n", "o")
    trained(config, tmp_path / "cut", 4)
    resumed = trained(config, tmp_path / "cut", resume=Resume.LATEST)
    for name, value in resumed.model.state_dict().items():
        assert torch.equal(whole.model.state_dict()[name], value), name


def test_a_batch_moves_its_own_head(config: FinetuneConfig) -> None:
    assembled = assemble(config)
    stream = BatchStream(assembled.data, seed=0, batch_size=4)
    for number in range(stream.n_batches(0)):
        batch = stream[number]
        assert batch.task_ids is not None
        assert len(batch.task_ids.unique()) == 1
        assembled.model.zero_grad(set_to_none=True)
        (loss,) = assembled.model(batch).losses.values()
        loss.backward()
        moving = [n for n, p in assembled.model.further.named_parameters() if p.grad is not None]
        heads = {name.split(".")[0] for name in moving}
        is_main_head_moving = any(p.grad is not None for p in assembled.model.head.parameters())
        task = int(batch.task_ids[0])
        assert (is_main_head_moving, heads) == (
            task == 0,
            {"words"} if task == 1 else {"texts"} if task else set(),
        )


def test_turns_follow_the_weights(config: FinetuneConfig) -> None:
    assembled = assemble(config)
    mixture = assembled.data
    assert isinstance(mixture, TaskMixture)
    sizes = [len(part) for part in mixture.parts]
    shares = [size**0.5 / sum(s**0.5 for s in sizes) for size in sizes]
    assert sum(mixture.turns) == len(mixture) == sum(sizes)
    for n, share in zip(mixture.turns, shares, strict=True):
        assert abs(n - share * len(mixture)) <= 1
    starts = np.cumsum([0, *sizes])
    for epoch in range(2):
        for task, sample_ids in enumerate(mixture.strata(epoch=epoch, seed=1)):
            counts = Counter((sample_ids - starts[task]).tolist())
            assert sum(counts.values()) == mixture.turns[task]
            assert set(counts) <= set(range(sizes[task]))
            assert max(counts.values()) - min(counts.values(), default=0) <= 1
    stream = BatchStream(mixture, seed=1, batch_size=4)
    batches = [stream.locate(n)[1] for n in range(stream.n_batches(0))]
    sample_ids = np.sort(np.concatenate(batches))
    assert np.array_equal(sample_ids, np.sort(np.concatenate(mixture.strata(epoch=0, seed=1))))
    other = TaskMixture(mixture.parts, weights=[1.0, 1.0, 2.0])
    assert other.fingerprint != mixture.fingerprint
    assert turns([5, 5], [1.0, 1e-9]) == [9, 1]


def test_a_text_asked_of_one_task_trains_none(config: FinetuneConfig, tmp_path: Path) -> None:
    words = tmp_path / "words.conll"
    words.write_text("the O\nriver B-x\n\nold O\nb B-x\n\nnear O\n", encoding="utf-8")
    texts = tmp_path / "texts.tsv"
    texts.write_text("o\tthe river\nn\ta city\no\tand old", encoding="utf-8")
    evaluated = tmp_path / "asked.tsv"
    evaluated.write_text("o\told b", encoding="utf-8")
    one, two = config.also
    also = (
        one.model_copy(update={"train": words, "dev": words}),
        two.model_copy(update={"train": texts, "dev": evaluated}),
    )
    with pytest.raises(ConfigError, match="nothing is left of the train split"):
        assemble(config.model_copy(update={"also": also}))
    also = (one.model_copy(update={"train": words, "dev_share": 0.3}), also[1])
    assembled = assemble(config.model_copy(update={"also": also}))
    held = {e.linked.text for data in assembled.evaluation.values() for e in data.examples}
    for run in (assembled, *assembled.further.values()):
        assert not held & {e.linked.text for e in run.train.examples}
    assert assembled.facts["n_train_asked_of_other_tasks_dropped"] >= 1


def test_faults_of_batches_are_named(config: FinetuneConfig) -> None:
    assembled = assemble(config)
    sample = assembled.data.sample(0, epoch=0, seed=0)
    with pytest.raises(BatchError, match="task 3 does not exist; there are 0 to 2"):
        assembled.model(dataclasses.replace(sample, task_ids=torch.tensor([3])))
    mixed = KnowledgeBatch.stack([sample, dataclasses.replace(sample, task_ids=torch.tensor([1]))])
    with pytest.raises(BatchError, match=r"has examples of the tasks \[0, 1\]"):
        assembled.model(mixed)
    with pytest.raises(ConfigError, match="there is a task 'words' already"):
        assembled.model.add_task("words", "tagging", ["a"], problem_type="token_classification")


def test_contradictions_come_all_at_once() -> None:
    values: dict[str, Any] = {
        "task": "relation", "format": "wiki80", "train": "t", "kg": "k", "method": "none",
        "strategy": "features", "freeze": ["host"], "lora": {"rank": 2}, "houlsby": {},
        "mixing": 1.0, "training": {"steps": 1, "batch_size": 1, "rate_decay": 2.0},
    }  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        FinetuneConfig.read(None, values)
    for words in (
        "leave out freeze", "leave out lora", "leave out houlsby", "leave out training.rate_decay",
        "give one of lora, houlsby", "go with further tasks",
    ):  # fmt: skip
        assert words in str(caught.value)
    task = {"name": "a", "task": "tagging", "format": "conll", "train": "t"}
    values = {
        "task": "relation", "format": "wiki80", "train": "t", "kg": "k", "method": "none",
        "lora": {}, "train_only": ["tables"], "weight": 1.0, "also": [task, task],
        "training": {"steps": 1, "batch_size": 1, "objective_weights": {"class": 2.0}},
    }  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        FinetuneConfig.read(None, values)
    for words in (
        "add lora", "2 tasks are named 'a'", "give a weight to every task", "objective_weights",
    ):  # fmt: skip
        assert words in str(caught.value)
    also = [{**task, "name": "items"}, {**task, "format": "tsv"}]
    faulty = {"lora": {"rank": 0, "targets": ["heads"]}, "also": also}
    with pytest.raises(ConfigError) as caught:
        FinetuneConfig.read(None, values | faulty)
    for words in (
        "targets 'heads': one of",
        "rank 0: 1 or more",
        "lower-case letters",
        "also.1: format tsv",
    ):
        assert words in str(caught.value)
