"""Texts longer than a model reads: windows in every task, and the same bits for texts that fit."""

from __future__ import annotations

import dataclasses
import logging
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from entity_linking.annotations import gold_link
from entity_linking.mentions import LinkedText, Mention
from kept.auto import AutoEncoder
from kept.auto.sentence_modules import SentenceModules
from kept.errors import BatchError, ConfigError
from kept.graphs.builder import BuilderConfig
from kept.graphs.cuts import UNCUT
from kept.graphs.windows import OVERLAP, parts_of, windows_of
from kept.graphs.words import Words, encode_words, join_texts
from kept.heads.model import KnowledgeForTask, mean_of_windows
from kept.hosts import load_tokenizer
from kept.inputs.views import builder_for
from kept.lab.probing.models.base import words_around_masks
from kept.methods import METHODS
from kept.tasks.datasets.formats import TaskExample
from kept.tasks.kinds import MULTI, OUTSIDE, REGRESSION, SINGLE, TAGGING
from kept.training.finetuning import recipes as finetuning
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.data import TaskData
from kept.training.finetuning.predictor import Predictor
from kept.training.finetuning.run import class_logits, predictions
from kept.training.pretraining import recipes as pretraining
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import method_encoder
from tests.kept.training.tiny_pretraining import write_host

MAX_WORDS = 16
BUILDER = BuilderConfig(policy="degree", max_words=MAX_WORDS, max_nodes=96, max_neighbours=2)
LABELS = {"a": 0, "b": 1}
WORDS = ("the", "old", "people", "lies", "near", "capital")


def text_of(n: int, linked_at: dict[int, str] | None = None, seed: int = 0) -> LinkedText:
    """A text of `n` words of one piece; those `linked_at` are one letter, linked to an entity."""
    draws = np.random.default_rng(seed)
    names = linked_at or {}
    words = ["x" if i in names else str(draws.choice(WORDS)) for i in range(n)]
    starts = np.cumsum([0, *(len(word) + 1 for word in words)])
    links = [gold_link(int(starts[i]), int(starts[i]) + 1, name) for i, name in names.items()]
    return LinkedText(" ".join(words), tuple(links))


def words_of(text: LinkedText) -> tuple[Mention, ...]:
    """The words of a text, as a tagging reads them."""
    ends = np.cumsum([len(word) + 1 for word in text.text.split(" ")])
    starts = [0, *ends[:-1].tolist()]
    return tuple(Mention(a, int(b) - 1) for a, b in zip(starts, ends, strict=True))


def tagged(text: LinkedText, **fields: Any) -> TaskExample:
    targets = words_of(text)
    labels = tuple("ab"[i % 2] for i in range(len(targets)))
    return TaskExample(text, labels, targets, **fields)


def data_of(
    examples: list[TaskExample],
    graph: KnowledgeGraph,
    tokenizer: Any,
    kind: str = SINGLE,
    method: str = "kbert",
    **changes: Any,
) -> TaskData:
    options: dict[str, Any] = {
        "builder": builder_for(METHODS[method], BUILDER, {}),
        "view": METHODS[method].view.of(graph, tokenizer),
        "problem_type": kind,
        "labels": None,
        "long": "windows",
    }
    return TaskData(examples, graph, tokenizer, **{**options, **changes})


def model_of(
    graph: KnowledgeGraph, tokenizer: Any, kind: str = SINGLE, method: str = "kbert"
) -> KnowledgeForTask:
    """A model whose weights are large enough to tell texts apart."""
    head = "tagging" if kind == TAGGING else "pooled"
    classes = ("score",) if kind == REGRESSION else tuple(LABELS)
    torch.manual_seed(3)
    encoder = method_encoder(method, graph, tokenizer)
    model = KnowledgeForTask.of(encoder, head, classes, problem_type=kind)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim == 2:
                weights.mul_(4)
    return model.eval()


@pytest.fixture(scope="module")
def words() -> Any:
    """The tokenizer whose words are pieces."""
    from tests.kept.training.tiny_pretraining import tokenizer

    return tokenizer()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_host(tmp_path_factory.mktemp("host"))


# ---- windows ---------------------------------------------------------------------------------
def pieces(n: int) -> Words:
    """`n` pieces of two characters each, a special piece at each end."""
    spans = np.array([[-1, -1], *((2 * i, 2 * i + 1) for i in range(n)), [-1, -1]], np.int32)
    return Words(np.arange(n + 2, dtype=np.int32), spans)


@pytest.mark.parametrize("max_words", [3, 4, 5, 9, 16, 64])
@pytest.mark.parametrize("n", [1, 2, 6, 7, 14, 15, 62, 63, 200])
def test_windows_against_loops(n: int, max_words: int) -> None:
    """Every piece in one at least, all windows as long, and each piece read where it is nearest to
    the middle: counted by loops."""
    whole, room = pieces(n), max_words - 2
    windows = windows_of(whole, max_words=max_words)
    if n <= room:
        assert [window.words.ids.tolist() for window in windows] == [whole.ids.tolist()]
        return
    rows = [window.words.ids.tolist() for window in windows]
    assert {len(row) for row in rows} == {max_words}
    assert all(row[0] == 0 and row[-1] == n + 1 for row in rows)
    assert {piece for row in rows for piece in row} == set(range(n + 2))
    inner = [row[1:-1] for row in rows]
    for before, after in pairwise(inner):
        assert len({*before} & {*after}) >= room // OVERLAP
    for piece in range(1, n + 1):
        owners = [
            i for i, window in enumerate(windows) if window.owns((2 * piece - 2, 2 * piece - 1))
        ]
        assert len(owners) == 1
        margins = [
            min(row.index(piece), len(row) - 1 - row.index(piece)) if piece in row else -1
            for row in inner
        ]
        first_or_last = {0, len(rows) - 1} & {*owners}
        assert margins[owners[0]] >= max(margins) - 1 or first_or_last
        if first_or_last:  # an end of the text is no border: all context there is is read
            assert margins[owners[0]] >= 0


def test_a_window_of_a_pair_has_all_of_the_shorter_text(words: Any) -> None:
    pair = join_texts(text_of(4), text_of(40, seed=1))
    (whole,) = encode_words([pair.text], words, max_words=UNCUT, pair_starts=[pair.pair_start])
    for each, start in ((pair, pair.pair_start), (join_texts(text_of(40), text_of(4)), None)):
        (whole,) = encode_words([each.text], words, max_words=UNCUT, pair_starts=[each.pair_start])
        windows = windows_of(whole, max_words=20, pair_start=each.pair_start)
        assert len(windows) > 2
        for window in windows:
            second = window.words.spans[:, 0] >= (each.pair_start or 0)
            n_second, n_first = int(second.sum()), int((~second).sum()) - 3
            assert (n_first, n_second)[0 if start is not None else 1] == 4
            assert len(window.words.ids) == 20
    both = join_texts(text_of(30), text_of(30))
    (whole,) = encode_words([both.text], words, max_words=UNCUT, pair_starts=[both.pair_start])
    assert windows_of(whole, max_words=20, pair_start=both.pair_start) == []


def test_a_window_has_the_links_that_lie_in_it(words: Any) -> None:
    text = text_of(40, {0: "Q90", 20: "Q64", 39: "Q142"})
    (whole,) = encode_words([text.text], words, max_words=UNCUT)
    windows = windows_of(whole, max_words=MAX_WORDS)
    seen = [[link.entity for link in window.text(text).links] for window in windows]
    assert seen[0] == ["Q90", None, None]
    assert seen[-1] == [None, None, "Q142"]
    assert all(len(each) == 3 for each in seen)
    assert sum(each[1] == "Q64" for each in seen) >= 1
    long_name = dataclasses.replace(text, links=(gold_link(0, len(text.text), "Q90"),))
    assert all(window.text(long_name).links[0].entity is None for window in windows)


def test_parts_are_the_text_and_are_read_whole(words: Any) -> None:
    text = text_of(50, {10: "Q90", 49: "Q64"})
    name = gold_link(*_word_span(text, 13, 15), "Q2")  # a mention where a border would be
    text = dataclasses.replace(text, links=(text.links[0], name, text.links[1]))
    parts = parts_of(text, words, max_words=MAX_WORDS)
    assert "".join(part.text for part in parts) == text.text
    encoded = encode_words([part.text for part in parts], words, max_words=UNCUT)
    assert max(len(each.ids) for each in encoded) <= MAX_WORDS
    mentions = [part.text[link.start : link.end] for part in parts for link in part.links]
    assert mentions == [text.text[link.start : link.end] for link in text.links]
    assert [link.entity for part in parts for link in part.links] == ["Q90", "Q2", "Q64"]
    assert parts_of(text_of(14), words, max_words=MAX_WORDS) == [text_of(14)]
    unbroken = LinkedText("a" * 100, ())
    assert "".join(p.text for p in parts_of(unbroken, words, max_words=MAX_WORDS)) == unbroken.text
    assert len(parts_of(unbroken, words, max_words=MAX_WORDS)) > 1


def _word_span(text: LinkedText, first: int, last: int) -> tuple[int, int]:
    places = words_of(text)
    return places[first].start, places[last].end


# ---- texts that fit --------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
def test_texts_that_fit_are_the_same_bits(
    method: str, small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    """Samples, fingerprint and count, of both settings: nothing says that there are windows."""
    roomy = {"builder": builder_for(METHODS[method], BuilderConfig(policy="degree"), {})}
    for kind, examples in (
        (SINGLE, [TaskExample(text, ("a",), ()) for text in linked]),
        (TAGGING, [TaskExample(t, ("a",), (Mention(0, 1),)) for t in linked]),
    ):
        ours, cut = (
            data_of(
                examples, small_graph, tokenizer, kind, method, labels=LABELS, long=long, **roomy
            )
            for long in ("windows", "cut")
        )
        assert ours.fingerprint == cut.fingerprint
        assert ours.cut == cut.cut
        for index in range(len(cut)):
            sample = ours.sample(index, epoch=1, seed=2)
            assert sample.same_as(cut.sample(index, epoch=1, seed=2))
            assert sample.window_ids is None


def test_encoded_texts_that_fit_are_the_same_bits(host: Path, small_graph: KnowledgeGraph) -> None:
    encoder = AutoEncoder.from_host("kbert", host, small_graph, builder=BUILDER)
    texts = [text_of(n, {0: "Q90"}) for n in (1, 5, 13, 14)]
    ours, cut = (encoder.encode(texts, small_graph, long=long) for long in ("windows", "cut"))
    assert torch.equal(ours.sentences, cut.sentences)
    assert all(torch.equal(a.tokens, b.tokens) for a, b in zip(ours, cut, strict=True))
    assert ours.cut == cut.cut


def test_new_runs_of_the_commands_read_windows_and_no_address_knows() -> None:
    """A paper's run, a file of an older version and the library cut; the default is not written."""
    fields = {"task": "tagging", "format": "conll", "train": "t", "kg": "k", "method": "none"}
    assert finetuning.with_defaults(fields)["long"] == "windows"
    assert finetuning.with_defaults(fields | {"long": "cut"})["long"] == "cut"
    assert "long" not in finetuning.with_defaults(fields | {"as_published": True})
    assert pretraining.with_defaults({"method": "ernie"})["long"] == "windows"
    assert "long" not in pretraining.with_defaults({"treebank": ["t.conllu"]})
    config = FinetuneConfig.read(None, fields | {"training": {"steps": 1, "batch_size": 1}})
    assert config.long == "cut"
    assert "long" not in config.model_dump(exclude_defaults=True)
    with pytest.raises(ConfigError, match="long"):
        FinetuneConfig.read(None, fields | {"long": "sometimes"})


# ---- tags ------------------------------------------------------------------------------------
def test_each_word_of_a_long_text_is_learned_once(small_graph: KnowledgeGraph, words: Any) -> None:
    short, long = tagged(text_of(8)), tagged(text_of(60, {3: "Q90", 30: "Q64"}))
    data = data_of([short, long], small_graph, words, TAGGING, labels=LABELS)
    assert len(data) > 4
    assert data.indices.tolist() == [0, *[1] * (len(data) - 1)]
    assert data.sample(0, epoch=0, seed=0).same_as(
        data_of([short], small_graph, words, TAGGING, labels=LABELS).sample(0, epoch=0, seed=0)
    )
    learned = []
    for index in range(1, len(data)):
        sample = data.sample(index, epoch=0, seed=0)
        assert len(sample) == 1
        assert sample.node_labels is not None
        learned += [int(n) for n in sample.node_labels[0] if n >= 0]
    assert learned == [LABELS[label] for label in long.labels]
    assert str(data.coverage.cut) == (
        f"1 of 2 texts read in {len(data) - 1} windows of {MAX_WORDS} word pieces"
    )
    assert data.coverage.as_json()["cut"]["n_windowed"] == 1


@pytest.mark.parametrize("method", ["none", "kbert", "ernie", "colake"])
def test_a_word_has_the_tag_of_the_window_where_it_has_most_context(
    method: str, small_graph: KnowledgeGraph, words: Any
) -> None:
    """Every window on its own, as a text, and the answers put together by hand."""
    example = tagged(text_of(60, {3: "Q90", 30: "Q64", 59: "Q142"}))
    data = data_of([tagged(text_of(5)), example], small_graph, words, TAGGING, method)
    model = model_of(small_graph, words, TAGGING, method)
    predicted = predictions(model, data, threshold=0.0)[1]
    assert len(predicted.labels) == 60
    assert len({*predicted.labels}) == 2
    (whole,) = encode_words([example.linked.text], words, max_words=UNCUT)
    windows = windows_of(whole, max_words=MAX_WORDS)
    expected = []
    for number, window in enumerate(windows):
        graph = data.sample_graph(1, epoch=0, seed=0, window=number)
        batch = data.encode_graph(1, graph, number)
        with torch.no_grad():
            logits = model(batch).class_logits[0]
        assert batch.target_spans is not None
        for span, target in zip(batch.target_spans[0].tolist(), example.targets, strict=True):
            if window.owns(target):
                expected.append("ab"[int(logits[span[0]].argmax())])
    agreed = sum(a == b for a, b in zip(predicted.labels, expected, strict=True))
    assert agreed == 60


def test_the_cut_leaves_words_untagged_and_windows_do_not(
    small_graph: KnowledgeGraph, words: Any
) -> None:
    example = tagged(text_of(60))
    model = model_of(small_graph, words, TAGGING)
    for long, n_without in (("windows", 0), ("cut", 60 - (MAX_WORDS - 2))):
        data = data_of([example], small_graph, words, TAGGING, long=long)
        (answer,) = predictions(model, data, threshold=0.0)
        assert sum(share is None for share in answer.confidence) == n_without
        assert answer.labels.count(OUTSIDE) == n_without


# ---- one answer ------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [SINGLE, MULTI, REGRESSION])
def test_the_answer_to_a_long_text_is_by_the_mean_of_its_windows(
    kind: str, small_graph: KnowledgeGraph, words: Any
) -> None:
    texts = [text_of(60, {3: "Q90", 40: "Q64"}), text_of(9), text_of(30, seed=5)]
    label = "0.5" if kind == REGRESSION else "a"
    examples = [TaskExample(text, (label,), ()) for text in texts]
    classes = None if kind == REGRESSION else LABELS
    data = data_of(examples, small_graph, words, kind, labels=classes or {"score": 0})
    model = model_of(small_graph, words, kind)
    rows = [data.sample(i, epoch=0, seed=0) for i in range(3)]
    assert [len(row) for row in rows] == [data.n_rows(i) for i in range(3)]
    assert len(rows[0]) > len(rows[2]) > len(rows[1]) == 1
    with torch.no_grad():
        by_hand = torch.cat([model(row).class_logits.mean(0, keepdim=True) for row in rows])
        batch = data.collate(rows, epoch=0, seed=0, step=0)
        output = model(batch)
    torch.testing.assert_close(class_logits(model, data), by_hand, atol=1e-5, rtol=0)
    labels = torch.cat([row.labels[:1] for row in rows if row.labels is not None])
    expected = data.kind.loss(by_hand, labels)
    torch.testing.assert_close(output.losses["class"], expected, atol=1e-5, rtol=0)
    teacher = torch.randn(3, by_hand.shape[1], generator=torch.Generator().manual_seed(2))
    data.learn_from(teacher)
    with_teacher = data.collate(data.samples([0, 1, 2], epoch=0, seed=0), epoch=0, seed=0, step=0)
    with torch.no_grad():
        loss = model(with_teacher).losses["teacher"]
    torch.testing.assert_close(loss, ((by_hand - teacher) ** 2).mean(), atol=1e-5, rtol=0)
    with pytest.raises(BatchError, match="window_ids need shape"):
        batch.replace(window_ids=torch.zeros(1, dtype=torch.long))
    assert len(predictions(model, data, threshold=0.0)) == 3


def test_what_is_behind_the_cut_decides_once_it_is_read(
    small_graph: KnowledgeGraph, words: Any
) -> None:
    """A positive control: texts differ in their last words alone."""
    examples = [
        TaskExample(LinkedText(f"{text_of(40).text} {word * 6}", ()), (label,), ())
        for word, label in ((" flows", "a"), (" speaks", "b"))
    ]
    losses = {}
    for long in ("windows", "cut"):
        data = data_of(examples, small_graph, words, labels=LABELS, long=long)
        torch.manual_seed(5)
        encoder = method_encoder("kbert", small_graph, words)
        model = KnowledgeForTask.of(encoder, "pooled", tuple(LABELS), read="mean").train()
        optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
        batch = data.collate(data.samples([0, 1], epoch=0, seed=0), epoch=0, seed=0, step=0)
        for _ in range(60):
            optimiser.zero_grad()
            loss = model(batch).losses["class"]
            loss.backward()
            optimiser.step()
        answers = predictions(model.eval(), data, threshold=0.0)
        losses[long] = loss.item(), [answer.labels for answer in answers]
    assert losses["windows"][1] == [("a",), ("b",)]
    assert losses["windows"][0] < 0.3
    assert losses["cut"][0] > 0.6
    assert losses["cut"][1][0] == losses["cut"][1][1]


def test_means_of_windows_by_loops() -> None:
    draws = torch.Generator().manual_seed(1)
    numbers = torch.tensor([0, 1, 2, 0, 0, 1])
    logits = torch.randn(6, 3, generator=draws, dtype=torch.float64)
    expected = torch.stack([logits[:3].mean(0), logits[3], logits[4:].mean(0)])
    torch.testing.assert_close(mean_of_windows(logits, numbers), expected)
    assert torch.equal(mean_of_windows(logits, torch.zeros(6, dtype=torch.long)), logits)


# ---- a predictor -----------------------------------------------------------------------------
def test_a_predictor_explains_each_fact_of_a_long_text(
    small_graph: KnowledgeGraph, words: Any, caplog: pytest.LogCaptureFixture
) -> None:
    text = text_of(60, {3: "Q90", 30: "Q64", 59: "Q142"})
    model = model_of(small_graph, words)
    predictor = Predictor(model, words, task="classification", builder=BUILDER, long="windows")
    with caplog.at_level(logging.INFO, logger="kept"):
        (answer,) = predictor.predictions([text], small_graph)
    assert "1 of 1 text read in" in caplog.text
    assert "cut at" not in caplog.text
    explanation = predictor.explain(text, small_graph)
    assert (explanation.label,) == answer.labels
    assert explanation.scores[explanation.label] == pytest.approx(answer.confidence[0], abs=1e-5)
    of_links = {each.link for each in explanation.influences if each.kind == "fact"}
    assert of_links == {0, 1, 2}
    assert all(each.link in (0, 1, 2) for each in explanation.influences)
    reading = predictor.read(text, small_graph)
    assert reading.label == explanation.label
    assert len(reading.batch) == 1
    assert predictor.explain(text_of(9, {3: "Q90"}), small_graph).influences


# ---- vectors ---------------------------------------------------------------------------------
def test_vectors_of_a_long_text_are_those_of_its_windows(
    host: Path, small_graph: KnowledgeGraph
) -> None:
    encoder = AutoEncoder.from_host("kbert", host, small_graph, builder=BUILDER)
    tokenizer = load_tokenizer(host)
    text = text_of(50, {2: "Q90", 25: "Q64", 49: "Q142"})
    (encoded,) = encoder.encode([text], small_graph, layers=True)
    assert len(encoded.tokens) == len(encoded.token_spans) == 50
    assert encoded.token_spans[:, 0].tolist() == [m.start for m in words_of(text)]
    assert [link.entity for link in encoded.links] == ["Q90", "Q64", "Q142"]
    assert torch.equal(encoded.sentence, encoded.tokens.mean(0))
    assert encoded.layers is not None
    assert torch.equal(encoded.layers[-1], encoded.tokens)
    (whole,) = encode_words([text.text], tokenizer, max_words=UNCUT)
    windows = windows_of(whole, max_words=MAX_WORDS)
    view, _ = encoder._tools(small_graph, needs_linker=False)
    texts = [window.text(text) for window in windows]
    parts = [*encoder._encode(texts, [w.words for w in windows], small_graph, view, layers=False)]
    for start, vector in zip(encoded.token_spans[:, 0].tolist(), encoded.tokens, strict=True):
        owner = [window.owns((start, start + 1)) for window in windows].index(True)
        row = parts[owner].token_spans[:, 0].tolist().index(start)
        torch.testing.assert_close(vector, parts[owner].tokens[row], atol=1e-5, rtol=0)
    for link, vector in zip(encoded.links, encoded.mentions, strict=True):
        row = encoded.token_spans[:, 0].tolist().index(link.start)
        torch.testing.assert_close(vector, encoded.tokens[row])
    cut = encoder.encode([text], small_graph, long="cut")
    assert len(cut[0].tokens) == MAX_WORDS - 2


@pytest.mark.parametrize("method", METHODS)
def test_every_method_encodes_a_long_text(
    method: str, small_graph: KnowledgeGraph, host: Path
) -> None:
    """With short ones around it, whose vectors do not change; two calls give the same bits."""
    encoder = AutoEncoder.from_host(method, host, small_graph, untrained=True, builder=BUILDER)
    long = text_of(50, {2: "Q90", 25: "Q64", 49: "Q142"})
    texts = [text_of(3, {1: "Q90"}), long, text_of(4)]
    encoded = encoder.encode(texts, small_graph)
    again = encoder.encode(texts, small_graph)
    assert torch.equal(encoded.sentences, again.sentences)
    assert encoded.sentences.isfinite().all()
    assert encoded.cut is not None
    assert (encoded.cut.n_texts, encoded.cut.n_windowed, encoded.cut.n_links_lost) == (3, 1, 0)
    assert "1 of 3 texts read in" in repr(encoded)
    assert [link.entity for link in encoded[1].links] == ["Q90", "Q64", "Q142"]
    assert encoded[1].token_spans[-1, 1] == len(long.text)
    alone = encoder.encode([texts[0]], small_graph)
    torch.testing.assert_close(alone.sentences[0], encoded.sentences[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_pooled_sentences_are_means_by_tokens(
    pooling: Any, host: Path, small_graph: KnowledgeGraph
) -> None:
    encoder = AutoEncoder.from_host("none", host, small_graph, builder=BUILDER)
    encoder.sentence_modules = SentenceModules(pooling, normalize=True)
    text = text_of(50)
    (cut,) = encoder.encode([text], small_graph)
    assert len(cut.tokens) < MAX_WORDS  # as sentence-transformers reads it
    (encoded,) = encoder.encode([text], small_graph, long="windows")
    assert float(encoded.sentence.norm()) == pytest.approx(1.0, abs=1e-5)
    (whole,) = encode_words([text.text], load_tokenizer(host), max_words=UNCUT)
    windows = windows_of(whole, max_words=MAX_WORDS)
    view, _ = encoder._tools(small_graph, needs_linker=False)
    expected = torch.zeros_like(encoded.sentence)
    for window in windows:
        (part,) = encoder._encode([text], [window.words], small_graph, view, layers=False)
        n = sum(window.owns(mention) for mention in words_of(text))
        expected += n / 50 * part.sentence
    expected /= expected.norm()
    torch.testing.assert_close(encoded.sentence, expected, atol=1e-5, rtol=0)


# ---- pre-training ----------------------------------------------------------------------------
def pretraining_data(
    texts: list[LinkedText], graph: KnowledgeGraph, tokenizer: Any, **changes: Any
) -> WordGraphData:
    method = METHODS["kbert"]
    options: dict[str, Any] = {
        "builder": builder_for(method, BUILDER, {}),
        "view": method.view.of(graph, tokenizer),
        "objectives": {"mlm": {}},
        "long": "windows",
    }
    return WordGraphData(texts, graph, tokenizer, **{**options, **changes})


def test_a_long_text_is_several_examples_of_pretraining(
    small_graph: KnowledgeGraph, words: Any
) -> None:
    long = text_of(60, {2: "Q90", 30: "Q64", 59: "Q142"})
    texts = [text_of(9, {1: "Q90"}), long, text_of(5, seed=4)]
    data = pretraining_data(texts, small_graph, words)
    assert len(data) == 2 + data.cut.n_windows > 5
    assert (data.cut.n_texts, data.cut.n_windowed, data.cut.n_cut) == (3, 1, 0)
    assert data.cut.n_links_lost == 0
    assert "1 of 3 texts read in" in str(data.coverage)
    n_read = sum(len(data._words_of(i).ids) - 2 for i in range(len(data)))
    assert n_read == 9 + 60 + 5
    cut = pretraining_data(texts, small_graph, words, long="cut")
    assert (len(cut), cut.cut.n_links_lost) == (3, 2)
    fitting = [texts[0], texts[2]]
    ours, theirs = (
        pretraining_data(fitting, small_graph, words, long=each) for each in ("windows", "cut")
    )
    assert ours.fingerprint == theirs.fingerprint
    assert ours.cut == theirs.cut
    for index in range(2):
        sample = ours.sample(index, epoch=1, seed=3)
        assert sample.same_as(theirs.sample(index, epoch=1, seed=3))


def test_parts_of_a_text_stay_in_its_document(small_graph: KnowledgeGraph, words: Any) -> None:
    texts = [text_of(5, {1: "Q90"}), text_of(40, seed=1), text_of(5, seed=2), text_of(5, seed=3)]
    options = {"objectives": {"mlm": {}, "sop": {}}, "documents": [2, 2]}
    data = pretraining_data(texts, small_graph, words, **options)
    assert len(data) == 3 + data.cut.n_windows
    for index in range(len(data)):
        assert data.sample(index, epoch=0, seed=0).pair_labels is not None


# ---- a probe ---------------------------------------------------------------------------------
def test_a_probe_reads_the_part_around_the_hole(words: Any) -> None:
    """A hole behind the cut, at any place: all masks and the links next to them are read; a text
    that fits, one whose hole is read, and a pair stay as they are."""
    filler = text_of(40).text
    start = f"{filler} x [MASK] [MASK]"
    far = LinkedText(
        f"{start} {filler}",
        (gold_link(0, 3, "Q64"), gold_link(len(filler) + 1, len(filler) + 2, "Q90")),
    )
    near, short = LinkedText(f"[MASK] {filler}", ()), LinkedText("the [MASK]", ())
    split = LinkedText(f"{text_of(13).text} [MASK] [MASK] {filler}", ())
    pair = join_texts(text_of(40), LinkedText("the [MASK]", ()))
    texts = [far, near, short, split, pair]
    linked, encoded = words_around_masks(texts, words, MAX_WORDS)
    n_masks = [int((each.ids == words.mask_token_id).sum()) for each in encoded]
    assert n_masks == [2, 1, 1, 2, 1]
    assert [link.entity for link in linked[0].links] == [None, "Q90"]
    assert linked[1:3] == [near, short]
    plain = encode_words(
        [each.text for each in texts],
        words,
        max_words=MAX_WORDS,
        pair_starts=[each.pair_start for each in texts],
    )
    for i in (1, 2, 4):
        assert encoded[i].ids.tolist() == plain[i].ids.tolist()
    apart = LinkedText(f"{filler} [MASK] {filler} [MASK]", ())
    (same,) = words_around_masks([apart], words, MAX_WORDS)[1]
    assert same.spans[1, 0] == 0
