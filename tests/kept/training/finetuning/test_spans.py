"""Answers as spans: windows over contexts, scores to characters, and a model that learns it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entity_linking.mentions import LinkedText, Mention
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig
from kept.graphs.cuts import UNCUT
from kept.graphs.words import encode_words, join_texts
from kept.heads.model import KnowledgeForTask
from kept.heads.span import Span, SpanOptions, Window, best_spans, score_of_none
from kept.inputs.views import builder_for
from kept.methods import METHODS
from kept.tasks.datasets.formats import TaskExample
from kept.tasks.kinds import SPAN, START_END, answer_of
from kept.training.finetuning.data import TaskData
from kept.training.finetuning.predictor import Predictor
from kept.training.finetuning.run import predict
from kept.training.finetuning.windows import windows
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import tiny_host

MIXED = st.text(st.sampled_from("ab é🗼巴e\u0301 .\n"), max_size=60)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=MIXED.filter(str.strip), context=MIXED.filter(str.strip), stride=st.integers(1, 9))
def test_windows_cover_the_context_once_in_order(
    tokenizer: Any, question: str, context: str, stride: int
) -> None:
    pair = join_texts(LinkedText(question, ()), LinkedText(context, ()))
    start = pair.pair_start
    assert start is not None
    (whole,) = encode_words([pair.text], tokenizer, max_words=UNCUT, pair_starts=[start])
    options = SpanOptions(stride=stride, max_question=4)
    windows_ = windows(whole, start, max_words=16, options=options)
    second = whole.spans[whole.spans[:, 0] >= start].tolist()
    seen: list[list[int]] = []
    for window in windows_:
        assert len(window.ids) <= 16
        own_spans = window.spans[window.spans[:, 0] >= start].tolist()
        at = second.index(own_spans[0]) if own_spans else 0
        assert second[at : at + len(own_spans)] == own_spans
        n_known = len(seen)
        assert at <= n_known
        seen += own_spans[n_known - at :]
        special = window.ids[window.spans[:, 0] < 0].tolist()
        assert special == whole.ids[whole.spans[:, 0] < 0].tolist()
        for piece, (first, end) in zip(window.ids, window.spans.tolist(), strict=True):
            if first >= 0 and piece != tokenizer.unk_token_id:
                assert pair.text[first:end].strip()
    assert seen == second


def test_a_question_may_not_fill_the_window(tokenizer: Any) -> None:
    (whole,) = encode_words(["a b c d e f"], tokenizer, max_words=99, pair_starts=[8])
    with pytest.raises(ConfigError, match=r"leaves no room .* max_words 7; raise it"):
        windows(whole, 8, max_words=7, options=SpanOptions())


@given(st.integers(0, 2**32 - 1))
def test_the_best_spans_are_those_of_a_loop(seed: int) -> None:
    draws = np.random.default_rng(seed)
    read = []
    for _ in range(2):
        at = np.sort(draws.choice(12, 6, replace=False))
        nodes = np.stack([at, at + 1], 1)
        nodes[draws.integers(6)] = 0
        spans = np.stack([np.arange(6) * 3, np.arange(6) * 3 + 2], 1).astype(np.int32)
        read.append(Window(draws.normal(size=(12, 2)).astype(np.float32), nodes, spans))
    expected: dict[tuple[int, int], float] = {}
    for window, i, j in itertools.product(read, range(6), range(6)):
        (a, a_end), (b, b_end) = window.nodes[i], window.nodes[j]
        if a == a_end or b == b_end or not 0 <= j - i < 3:
            continue
        key = (int(window.spans[i, 0]), int(window.spans[j, 1]))
        score = float(window.scores[a, 0] + window.scores[b, 1])
        expected[key] = max(score, expected.get(key, -np.inf))
    best = best_spans(read, SpanOptions(max_answer=3, n_best=40))
    assert {(s.start, s.end): s.score for s in best} == pytest.approx(expected)
    assert [s.score for s in best] == sorted((s.score for s in best), reverse=True)
    assert score_of_none(read) == min(float(w.scores[0].sum()) for w in read)


def test_no_answer_must_be_beaten_by_the_threshold() -> None:
    spans = [Span(0, 3, 2.0), Span(0, 0, 1.5)]
    assert answer_of("abc", spans, 0.0) == "abc"
    assert answer_of("abc", spans, 0.5) == ""
    assert answer_of("abc", spans[:1], 9.0) == "abc"
    assert answer_of("abc", spans[1:], -9.0) == ""


def example_of(text: LinkedText, question: str, answer: Mention | None) -> TaskExample:
    pair = join_texts(LinkedText(question, ()), text)
    shift = pair.pair_start or 0
    if answer is None:
        return TaskExample(pair, ("",))
    words = text.text[answer.start : answer.end]
    return TaskExample(pair, (words,), (Mention(answer.start + shift, answer.end + shift),))


Sets = tuple[list[TaskExample], TaskData, TaskData]
HEAD = {"stride": 5, "no_answer": True}
SMALL = BuilderConfig(max_neighbours=2, max_words=22, max_nodes=60, policy="degree")


def sets(method: str, graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]) -> Sets:
    """Four questions that are answered and one that is not; with labels, and without."""
    texts = [text for text in linked if len(text.links) > 1 and len(text.text) > 60][:2]
    examples = [
        *(
            example_of(text, f"Which {i}?", text.links[i].mention)
            for text in texts
            for i in range(2)
        ),
        example_of(texts[0], "Nothing at all", None),
    ]
    line = METHODS[method]
    parts: dict[str, Any] = {"builder": builder_for(line, SMALL, {}), "problem_type": SPAN}
    parts |= {"view": line.view.of(graph, tokenizer), "spans": SpanOptions(**HEAD)}
    train, test = (
        TaskData(examples, graph, tokenizer, labels=labels, **parts)
        for labels in ({"start": 0, "end": 1}, None)
    )
    return examples, train, test


def test_windows_are_as_long_as_what_the_view_shows(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    """E-BERT's builder keeps all words where the view has a maximum; windows keep to that."""
    long = LinkedText(" ".join(text.text for text in linked[:9]), ())
    example, line, options = example_of(long, "Which?", None), METHODS["ebert"], {"max_length": 30}
    parts: dict[str, Any] = {"builder": builder_for(line, SMALL, options), "problem_type": SPAN}
    parts |= {"view": line.view.of(small_graph, tokenizer, **options), "labels": None}
    data = TaskData([example], small_graph, tokenizer, spans=SpanOptions(**HEAD), **parts)
    lengths = [len(window.ids) for window in data._windows[0]]
    assert len(lengths) > 3
    assert max(lengths) == 30


@pytest.mark.parametrize("method", METHODS)
def test_the_labels_of_each_window_are_read_back_as_the_answer(
    method: str, small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    examples, train, test = sets(method, small_graph, tokenizer, linked)
    assert max(len(train.sample(i, epoch=0, seed=0)) for i in range(5)) > 1
    for i, example in enumerate(examples):
        trained, batch = (data.sample(i, epoch=0, seed=0) for data in (train, test))
        assert trained.same_as(batch, but=("labels", "target_spans"))
        assert len(trained) <= train.n_nodes(i)
        assert trained.node_ids.numel() <= train.n_nodes(i)
        assert trained.labels is not None
        scores = torch.zeros(*trained.node_ids.shape, 2)
        for row, (start, end) in enumerate(trained.labels.tolist()):
            scores[row, start, 0] = scores[row, end, 1] = 9.0 if end else 8.0
        assert bool(trained.labels.any()) == bool(example.targets)
        answers = test.answers(i, scores, batch)
        assert answer_of(example.linked.text, answers, 0.0) == example.labels[0]
        if example.targets:
            target, best = example.targets[0], next(span for span in answers if span.end)
            assert (best.start, best.end) == (target.start, target.end)


def test_a_model_learns_where_answers_stand(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    examples, train, test = sets("kbert", small_graph, tokenizer, linked)
    torch.manual_seed(0)
    host = tiny_host(n_words=len(tokenizer), n_positions=128)
    encoder = METHODS["kbert"].encoder.for_graph(host, small_graph, tokenizer, seed=0)
    model = KnowledgeForTask.of(encoder, "span", START_END, problem_type=SPAN, **HEAD)
    samples = [train.sample(i, epoch=0, seed=0) for i in range(len(train))]
    batch = train.collate(samples, epoch=0, seed=0, step=0)
    rate = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    for _ in range(200):
        loss = model(batch).losses["class"]
        if loss.item() < 0.02:
            break
        model.zero_grad()
        loss.backward()
        rate.step()
    gold = [example.labels for example in examples]
    predictions = predict(model, test, threshold=0.0)
    assert predictions == gold
    predictor = Predictor(model, tokenizer, task="span_or_none", builder=SMALL)
    assert predictor.predict(examples, small_graph) == gold
    with pytest.raises(ConfigError, match="is not a pair"):
        predictor.predict(["Where is it?"], small_graph)
    with pytest.raises(ConfigError, match="answers word by word"):
        predictor.explain(examples[0], small_graph)
