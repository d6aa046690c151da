"""What layers hold: questions of treebanks, states of words, linear probes, rows, the command."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from typer.testing import CliRunner

from entity_linking import DictionaryLinker
from kept.apps.cli import app
from kept.auto import AutoEncoder
from kept.errors import ConfigError, EvaluationError
from kept.graphs.builder import BuilderConfig
from kept.lab.probing.layers import study
from kept.lab.probing.layers.edges import FARTHEST, TASKS, Edge, edges_of
from kept.lab.probing.layers.linear import PENALTIES, fit, fit_on_heldout
from kept.lab.probing.layers.states import _covering, edge_states
from kept.lab.probing.layers.study import (
    MAJORITY,
    OF_FORM,
    ProbedEncoder,
    Size,
    ask_layers,
    measure,
)
from kept.tasks.datasets.conllu import Sentence, Word
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import method_encoder, tiny_host

TAGS = {
    "the": "DET", "old": "ADJ", "river": "NOUN", "flows": "VERB", "near": "ADP", "Paris": "PROPN",
    "of": "ADP", "city": "NOUN",
}  # fmt: skip
FORMS = list(TAGS)


def sentence(forms: list[str], heads: list[int]) -> Sentence:
    words, at = [], 0
    for form, head in zip(forms, heads, strict=True):
        relation = "root" if head == 0 else f"of-{TAGS[form].lower()}"
        words.append(Word(form, at, at + len(form), head, relation, TAGS[form]))
        at += len(form) + 1
    return Sentence(" ".join(forms), tuple(words))


def treebank(n: int, seed: int) -> list[Sentence]:
    draws = np.random.default_rng(seed)
    sentences = []
    for _ in range(n):
        forms = draws.permutation(FORMS)[: int(draws.integers(2, 8))].tolist()
        order = draws.permutation(len(forms)).tolist()
        heads = [0] * len(forms)
        for i in range(1, len(forms)):  # each hangs on one that is in the tree already
            heads[order[i]] = 1 + order[int(draws.integers(i))]
        sentences.append(sentence(forms, heads))
    return sentences


def test_questions_by_hand() -> None:
    one = sentence(["the", "old", "river", "flows"], [3, 3, 4, 0])
    edges = {task: edges_of(task, [one], 100, seed=0) for task in TASKS}
    assert [edge.label for edge in edges["pos"]] == ["DET", "ADJ", "NOUN", "VERB"]
    assert [(e.word, e.head, e.label) for e in edges["relation"]] == [
        (0, 2, "of-det"), (1, 2, "of-adj"), (2, 3, "of-noun"),
    ]  # fmt: skip
    assert [(e.word, e.head, e.label) for e in edges["distance"]] == [
        (0, None, "+2"), (1, None, "+1"), (2, None, "+1"),
    ]  # fmt: skip
    far = sentence(["of", *["old"] * (FARTHEST + 3)], [FARTHEST + 4] + [1] * (FARTHEST + 2) + [0])
    labels = [edge.label for edge in edges_of("distance", [far], 100, seed=0)]
    assert labels[0] == f"+{FARTHEST}"
    assert labels[1:3] == ["-1", "-2"]
    assert labels[-1] == f"-{FARTHEST}"


def test_a_control_label_is_the_forms_whatever_the_sentence() -> None:
    edges = edges_of("control", treebank(40, 1), 1000, seed=3)
    labels: dict[str, set[str]] = {}
    for edge in edges:
        labels.setdefault(edge.form, set()).add(edge.label)
    assert all(len(of_form) == 1 for of_form in labels.values())
    assert len(set().union(*labels.values())) > 2


def test_sentences_are_taken_whole_in_an_order_of_the_seed() -> None:
    bank = treebank(50, 2)
    few, many = (edges_of("pos", bank, n, seed=0) for n in (10, 1000))
    assert few == many[:10]
    assert len(many) == sum(len(s.words) for s in bank)
    assert edges_of("pos", bank, 10, seed=1) != few
    with pytest.raises(ConfigError, match="no task of layers 'syntax'"):
        edges_of("syntax", bank, 10, seed=0)


@pytest.mark.parametrize(("n", "width"), [(120, 6), (20, 40)])
def test_a_probe_is_ridge_regression(n: int, width: int) -> None:
    """As scikit-learn's, where there are more items than directions, and fewer."""
    draws = np.random.default_rng(n)
    states, classes = draws.normal(size=(n, width)), draws.integers(3, size=n)
    states[np.arange(n), classes] += 1
    tested = draws.normal(size=(50, width))
    mean, spread = states.mean(0), states.std(0, ddof=1)
    ridge = Ridge(alpha=0.05 * n).fit((states - mean) / spread, np.eye(3)[classes])
    wanted = ridge.predict((tested - mean) / spread).argmax(1)
    probe = fit(torch.from_numpy(states), torch.from_numpy(classes), penalty=0.05)
    assert probe.classes(torch.from_numpy(tested)).tolist() == wanted.tolist()


def test_the_penalty_is_chosen_on_held_out_items() -> None:
    draws = torch.Generator().manual_seed(0)
    states = torch.randn(60, 50, generator=draws)
    classes = (states[:, 0] > 0).long()
    held = torch.randn(400, 50, generator=draws)
    gold = (held[:, 0] > 0).long()
    right = {p: (fit(states, classes, penalty=p).classes(held) == gold).sum() for p in PENALTIES}
    _, penalty = fit_on_heldout(states, classes, (held, gold))
    assert right[penalty] == max(right.values())
    assert min(right.values()) < max(right.values())


@pytest.fixture
def encoder(small_graph: KnowledgeGraph, tokenizer: Any) -> AutoEncoder:
    return AutoEncoder(method_encoder("none", small_graph, tokenizer), tokenizer)


def test_states_are_means_of_a_words_pieces(encoder: AutoEncoder) -> None:
    bank = treebank(5, 3)
    edges = edges_of("relation", bank, 1000, seed=0)
    states, read = edge_states(encoder, bank, edges, None)
    assert read == edges
    n_layers = len(encoder.encoder.host.encoder.layer) + 1
    width = encoder.encoder.host.config.hidden_size
    assert states.shape == (n_layers, len(edges), 2 * width)
    for i, edge in enumerate(edges):
        (text,) = encoder.encode([bank[edge.sentence].text], layers=True)
        for half, at in enumerate((edge.word, edge.head)):
            assert at is not None
            word = bank[edge.sentence].words[at]
            pieces = [n for n, (start, end) in enumerate(text.token_spans.tolist())
                      if start < word.end and end > word.start]  # fmt: skip
            mean = text.layers[:, pieces].mean(1)
            torch.testing.assert_close(
                states[:, i, half * width : (half + 1) * width], mean, rtol=1e-4, atol=1e-5
            )


def test_words_that_are_cut_off_are_left_out(encoder: AutoEncoder) -> None:
    bank = [sentence(["of"] * 12, [2, *[1] * 10, 0])]
    short = AutoEncoder(encoder.encoder, encoder.tokenizer, builder=BuilderConfig(max_words=6))
    edges = edges_of("pos", bank, 100, seed=0)
    states, read = edge_states(short, bank, edges, None)
    assert 0 < len(read) < 12
    assert read == edges[: len(read)]
    assert states.shape[1] == len(read)


def test_layers_hold_what_a_probe_finds_in_them() -> None:
    draws = np.random.default_rng(0)
    labels = draws.choice(["a", "b", "c"], size=400).tolist()
    edges = [Edge(i // 4, i % 4, None, "x", label) for i, label in enumerate(labels)]
    class_ids = torch.tensor(["abc".index(label) for label in labels])
    noise = torch.randn(400, 5, generator=torch.Generator().manual_seed(0))
    states = torch.stack([noise, torch.nn.functional.one_hot(class_ids, 5) + 0.01 * noise])
    nothing, everything = ask_layers(
        (states[:, :300], edges[:300]), (states[:, 300:], edges[300:]), seed=0
    )
    assert np.mean(nothing.right) < 0.5
    assert np.mean(everything.right) == 1
    new = [dataclasses.replace(edge, label="unknown") for edge in edges[300:]]
    assert not any(
        ask_layers((states[:, :300], edges[:300]), (states[:, 300:], new), seed=0)[1].right
    )
    with pytest.raises(EvaluationError, match="19 training and 100 test questions"):
        ask_layers((states[:, :19], edges[:19]), (states[:, 300:], edges[300:]), seed=0)


def test_a_study_of_two_encoders(
    encoder: AutoEncoder, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    other = AutoEncoder(method_encoder("colake", small_graph, tokenizer), tokenizer)
    readers = {
        "host": ProbedEncoder(encoder),
        "colake": ProbedEncoder(other, small_graph, DictionaryLinker(small_graph)),
    }
    banks = treebank(60, 4), treebank(30, 5)
    rows, n_left = measure(readers, banks, "pos", Size(train=200, test=80, seed=0))
    assert n_left == 0
    by_key = {(row.encoder, row.layer): row for row in rows}
    n_layers = len(encoder.encoder.host.encoder.layer) + 1
    assert [row.layer for row in rows if not row.encoder] == [MAJORITY, OF_FORM]
    assert len(rows) == 2 + 2 * n_layers
    assert by_key["", OF_FORM].accuracy.estimate == 1  # each form has one tag here
    assert by_key["", MAJORITY].accuracy.estimate < 0.5
    for layer in map(str, range(n_layers)):
        ours, theirs = by_key["colake", layer], by_key["host", layer]
        assert theirs.difference is None
        assert ours.difference is not None
        change = ours.accuracy.estimate - theirs.accuracy.estimate
        assert ours.difference.estimate == pytest.approx(change)
        assert theirs.accuracy.low <= theirs.accuracy.estimate <= theirs.accuracy.high
    assert by_key["host", "0"].accuracy.estimate > 0.9


def write_treebank(path: Path, sentences: list[Sentence]) -> Path:
    lines = []
    for each in sentences:
        for i, word in enumerate(each.words):
            lines.append(f"{i + 1}\t{word.form}\t_\t{word.tag}\t_\t_\t{word.head}\t{word.relation}"
                         "\t_\t_")  # fmt: skip
        lines.append("")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_command(tmp_path: Path, small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    for name in ("none", "colake"):
        method_encoder(name, small_graph, tokenizer).save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    tiny_host(n_words=len(tokenizer), n_positions=128).save_pretrained(tmp_path / "host")
    tokenizer.save_pretrained(tmp_path / "host")
    small_graph.save(tmp_path / "kg")
    banks = [
        "--train", str(write_treebank(tmp_path / "train.conllu", treebank(40, 6))),
        "--test", str(write_treebank(tmp_path / "test.conllu", treebank(20, 7))),
    ]  # fmt: skip
    out = tmp_path / "out"

    def run(*models: str, more: tuple[str, ...] = ()) -> Any:
        names = [str(tmp_path / name) for name in models]
        line = ["check", "layers", *names, *banks, "-o", str(out), *more]
        return CliRunner().invoke(app, line)

    done = run("host", "none", "colake", more=("--kg", str(tmp_path / "kg"), "--tasks", "pos"))
    assert done.exit_code == 0, done.output
    values = json.loads((out / "layers.json").read_text())
    assert {row["encoder"] for row in values["rows"]} == {
        "", *(str(tmp_path / name) for name in ("host", "none", "colake"))
    }  # fmt: skip
    page = (out / "layers.md").read_text()
    assert "majority of the form" in page
    assert "--kg" in values["command"]
    assert (out / "layers.png").read_bytes()[:4] == b"\x89PNG"
    again = run("none")
    assert again.exit_code == 1
    assert "exists" in again.output
    refused = {
        "reads a graph: give --kg": run("colake", more=("--force",)),
        "leave --kg out": run("none", more=("--force", "--kg", str(tmp_path / "kg"))),
        "named twice": run("none", "none", more=("--force",)),
        "no task of layers 'trees'": run("none", more=("--force", "--tasks", "trees")),
    }
    for message, result in refused.items():
        assert result.exit_code == 1, result.output
        assert message in " ".join(result.output.split())


def test_an_encoder_below_the_majority_says_so() -> None:
    from kept.evaluation.statistics import Interval
    from kept.lab.probing.layers.study import MAJORITY, LayerRow
    from kept.lab.probing.layers.tables import shortfalls

    def row(encoder: str, layer: str, value: float) -> LayerRow:
        return LayerRow(encoder, "pos", layer, dataclasses.replace(share, estimate=value))

    share = Interval(0.5, 0.4, 0.6, 0.95, n=9, method="bootstrap")
    rows = [row("", MAJORITY, 0.4), row("a", "0", 0.2), row("a", "1", 0.5), row("b", "0", 0.4)]
    (line,) = shortfalls(rows)
    assert line.startswith("b, pos: the best layer (0.400)")
    assert "--train-questions" in line


def test_a_tenth_of_the_training_questions_chooses_the_penalty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two hundred questions: twenty are held out, and no question is on both sides."""
    states = torch.arange(220.0)[None, :, None]
    edges = [Edge(i, 0, None, "abc"[i % 3], f"form{i}") for i in range(220)]
    fit_of: list[tuple[list[float], list[float]]] = []

    def fit_and_note(rest: Any, classes: Any, held: Any) -> Any:
        fit_of.append((rest[:, 0].tolist(), held[0][:, 0].tolist()))
        return fit_on_heldout(rest, classes, held)

    monkeypatch.setattr(study, "fit_on_heldout", fit_and_note)
    train = states[:, :200], edges[:200]
    (one,) = ask_layers(train, (states[:, 200:], edges[200:]), seed=0)
    ((rest, held),) = fit_of
    assert (len(rest), len(held)) == (180, 20)
    assert sorted(rest + held) == [float(i) for i in range(200)]
    ask_layers(train, (states[:, 200:], edges[200:]), seed=1)
    assert fit_of[1][1] != held
    assert len(one.right) == 20
    assert one.penalty in PENALTIES


@pytest.mark.parametrize(
    ("start", "end", "covering"),
    [(0, 3, [False, True, False, False]), (3, 6, [False, False, True, False]),
     (2, 4, [False, True, True, False]), (6, 7, [False, False, False, True])],
)  # fmt: skip
def test_a_token_covers_a_word_only_where_they_share_a_character(
    start: int, end: int, covering: list[bool]
) -> None:
    """Not where one ends as the other begins; a special token has the span (0, 0)."""
    spans = torch.tensor([(0, 0), (0, 3), (3, 6), (6, 7)])
    word = Word("word", start, end, 0, "root", "NOUN")
    assert _covering(spans, word).tolist() == covering
