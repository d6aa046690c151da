"""Multiple choice: rows of a question, its loss against a loop, and a model that learns it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from entity_linking.dictionary import DictionaryLinker
from kept.batches import IGNORE
from kept.errors import BatchError, ConfigError
from kept.graphs.builder import BuilderConfig
from kept.graphs.cuts import UNCUT
from kept.graphs.words import encode_words
from kept.heads.model import KnowledgeForTask, task_loss
from kept.inputs.views import builder_for
from kept.methods import METHODS
from kept.tasks.datasets.questions.choices import choice_example
from kept.tasks.kinds import CHOICE, SCORE
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.data import TaskData
from kept.training.finetuning.predictor import Predictor
from kept.training.finetuning.run import predict
from kept.training.finetuning.windows import choice_rows
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import tiny_host

SMALL = BuilderConfig(max_neighbours=2, max_words=22, max_nodes=60, policy="degree")
QUESTIONS = [
    choice_example("the old city of", ["paris near", "the river", "old"], right=2),
    choice_example("near the river", ["city", "paris"], right=1),
    choice_example("old", ["the city of paris", "river", "near", "of"], right=4),
]


def test_each_row_is_the_question_and_one_choice(tokenizer: Any) -> None:
    for example in QUESTIONS:
        text, start = example.linked.text, example.linked.pair_start
        assert start is not None
        (whole,) = encode_words([text], tokenizer, max_words=UNCUT, pair_starts=[start])
        rows = choice_rows(whole, start, example.targets, max_words=64)
        for target, row in zip(example.targets, rows, strict=True):
            choice = text[target.start : target.end]
            question = text[: start - 1]
            pair = f"{question} {choice}"
            (alone,) = encode_words([pair], tokenizer, max_words=64, pair_starts=[start])
            assert row.ids.tolist() == alone.ids.tolist()
            assert row.segment_ids.tolist() == alone.segment_ids.tolist()
        (first, *_) = choice_rows(whole, start, example.targets[-1:], max_words=len(rows[-1].ids))
        assert first.ids.tolist() == rows[-1].ids.tolist()
        if len(question.split()) > 1:
            cut = choice_rows(whole, start, example.targets[-1:], max_words=len(first.ids) - 1)
            assert cut[0].ids.tolist() == [first.ids[0], *first.ids[2:].tolist()]
    with pytest.raises(ConfigError, match="leaves no room for its question within max_words 4"):
        choice_rows(whole, start, example.targets, max_words=4)


def test_signs_between_choices_are_no_loss(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    """A text is cut where a piece of its question is in no row, not where a "|" is in none."""
    line = METHODS["none"]
    view = line.view.of(small_graph, tokenizer)
    long = choice_example("the " * 30 + "city", ["paris", "river"], right=1)
    counts = []
    for questions in (QUESTIONS, [*QUESTIONS, long]):
        data = TaskData(
            questions, small_graph, tokenizer, builder=SMALL, view=view, problem_type=CHOICE,
            labels={SCORE: 0},
        )  # fmt: skip
        counts.append((data.cut.n_cut, data.cut.n_pieces_lost))
        assert data.cut.n_texts == len(questions)
    n_read = SMALL.max_words - len(["[CLS]", "[SEP]", "river", "[SEP]"])
    assert counts == [(0, 0), (1, 31 - n_read)]


def test_the_loss_is_that_of_each_question() -> None:
    torch.manual_seed(0)
    sizes, right = [3, 2, 5], [2, 0, 4]
    scores = torch.randn(sum(sizes), 1)
    labels = torch.full((sum(sizes),), IGNORE)
    start, total = 0, 0.0
    for size, number in zip(sizes, right, strict=True):
        labels[start] = number
        question_scores = scores[start : start + size, 0]
        total += F.cross_entropy(question_scores[None], torch.tensor([number])).item() / len(sizes)
        start += size
    assert task_loss(CHOICE, scores, labels).item() == pytest.approx(total)
    with pytest.raises(BatchError, match="the batch begins with -100"):
        task_loss(CHOICE, scores[1:], labels[1:])
    with pytest.raises(BatchError, match="one output, but this head has 2"):
        task_loss(CHOICE, scores.expand(-1, 2), labels)


def test_a_task_may_be_written_with_a_dash() -> None:
    fields = {"format": "copa", "train": "x", "kg": "kg", "method": "none"}
    training = {"steps": 1, "batch_size": 1}
    config = FinetuneConfig.read(None, {**fields, "task": "multiple-choice", "training": training})
    assert config.task == "multiple_choice"
    with pytest.raises(ConfigError, match="show where the answers are"):
        FinetuneConfig.read(
            None, {**fields, "task": "multiple_choice", "training": training, "markers": "kadapter"}
        )


@pytest.mark.parametrize("method", ["none", "kbert", "ktnet"])
def test_a_model_learns_to_choose(method: str, small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    line = METHODS[method]
    linker = DictionaryLinker(small_graph)
    parts: dict[str, Any] = {"builder": builder_for(line, SMALL, {}), "problem_type": CHOICE}
    parts["view"] = line.view.of(small_graph, tokenizer)
    train, test = (
        TaskData(QUESTIONS, small_graph, tokenizer, labels=labels, **parts)
        for labels in ({SCORE: 0}, None)
    )
    torch.manual_seed(0)
    host = tiny_host(n_words=len(tokenizer), n_positions=128)
    encoder = line.encoder.for_graph(host, small_graph, tokenizer, seed=0)
    model = KnowledgeForTask.of(encoder, "pooled", [SCORE], problem_type=CHOICE)
    samples = [train.sample(i, epoch=0, seed=0) for i in range(len(train))]
    assert [len(sample) for sample in samples] == [3, 2, 4]
    assert all(sample.node_ids.numel() <= train.n_nodes(i) for i, sample in enumerate(samples))
    batch = train.collate(samples, epoch=0, seed=0, step=0)
    assert batch.labels.tolist() == [1, -100, -100, 0, -100, 3, -100, -100, -100]
    rate = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    for _ in range(300):
        loss = model.eval()(batch).losses["class"]
        if loss.item() < 0.02:
            break
        model.zero_grad()
        loss.backward()
        rate.step()
    gold = [example.labels for example in QUESTIONS]
    assert predict(model, test, threshold=0.0) == gold
    predictor = Predictor(model, tokenizer, task="multiple_choice", builder=SMALL)
    assert predictor.predict(QUESTIONS, small_graph, linker) == gold
    with pytest.raises(ConfigError, match="or by choices"):
        predictor.explain(QUESTIONS[0], small_graph)
    with pytest.raises(ConfigError, match="is not a pair"):
        predictor.predict(["Where is it?"], small_graph)
