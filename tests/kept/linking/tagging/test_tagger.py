"""The tagger: learns, is saved whole, scores any span, and finds mentions for `kept link`."""

from __future__ import annotations

import gzip
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from entity_linking.errors import LinkIndexError, LinkingError
from kept.apps.cli import app
from kept.errors import ConfigError
from kept.hosts import load_tokenizer
from kept.linking.linkers import LinkerSettings, open_linker
from kept.linking.tagging import open_tagger
from kept.linking.tagging.marked import MarkedText, read_marked
from kept.linking.tagging.pieces import chunks_of
from kept.linking.tagging.tagger import Tagger, best_tags
from kept.linking.tagging.training import TaggerSettings, span_scores, train_tagger
from kg_loaders import KnowledgeGraph

CONLL = (
    "Paris B-location\nis O\nold O\n\nIn O\nNew B-location\nYork I-location\n, O\nAnn B-person\n"
)


def texts(n: int) -> list[MarkedText]:
    """Capitalised words inside a sentence are names."""
    texts_ = []
    for i in range(n):
        name = ("Paris", "Berlin", "Rome")[i % 3]
        text = f"the town of {name} is old ."
        texts_.append(MarkedText(text, ((12, 12 + len(name), "LOC"),)))
    return texts_


@pytest.fixture(scope="module")
def tagger(host: Path) -> Tagger:
    settings = TaggerSettings(
        host=str(host), n_layers=1, epochs=12, learning_rate=0.01, head_learning_rate=0.05
    )
    return train_tagger(texts(48), texts(6), settings, trained_on="made up")


def test_it_learns(tagger: Tagger) -> None:
    assert span_scores(texts(6), tagger.tag([text.text for text in texts(6)]))[2] > 0.9
    assert tagger.record.held_out_f1 > 0.9
    assert (tagger.record.n_texts, tagger.record.n_spans) == (48, 48)


def test_saved_and_opened_it_says_the_same(tagger: Tagger, tmp_path: Path) -> None:
    tagger.save(tmp_path / "tagger")
    again = Tagger.open(tmp_path / "tagger")
    (one,), (other,) = (each.tag(["the town of Rome is old ."]) for each in (tagger, again))
    assert np.allclose(one.probabilities, other.probabilities, atol=1e-2)  # half precision
    assert [(s.start, s.end, s.kind) for s in one.spans] == [(12, 16, "LOC")]
    assert again.record == tagger.record
    weights = tmp_path / "tagger" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(LinkIndexError, match=r"weights\.safetensors"):
        open_tagger(str(tmp_path / "tagger"))


def test_a_text_alone_and_among_others_is_tagged_alike(tagger: Tagger) -> None:
    words = ["the town of Rome is old .", "Paris", "", "of of of . Berlin is . " * 30]
    together = tagger.tag(words)
    for text, tagged in zip(words, together, strict=True):
        alone = tagger.tag([text])[0]
        assert np.allclose(alone.probabilities, tagged.probabilities, atol=1e-5)
        assert (tagged.starts < tagged.ends).all()
        assert len(tagged.starts) == len(tagged.probabilities)


def test_scores_of_spans_are_probabilities(tagger: Tagger) -> None:
    (words,) = tagger.tag(["the town of Rome"])
    p = words.probabilities
    assert words.score(12, 16) == pytest.approx(p[3, 1])
    assert words.score(9, 16) == pytest.approx(p[2, 1] * p[3, 2])
    assert words.score(9, 11) == pytest.approx(p[2, 1] * (1 - p[3, 2]))
    assert words.score(10, 16) == words.score(12, 15) == 0.0  # no words


def test_the_best_tags_are_those_of_all_sequences() -> None:
    draw = np.random.default_rng(0)
    for _ in range(20):
        p = draw.dirichlet(np.ones(5) / 2, size=4)
        allowed = [
            tags
            for tags in product(range(5), repeat=4)
            if all(
                tag % 2 or not tag or before in (tag - 1, tag)
                for before, tag in zip((0, *tags), tags, strict=False)
            )
        ]
        best = max(allowed, key=lambda tags: sum(np.log(p[i, t]) for i, t in enumerate(tags)))
        assert best_tags(p) == list(best)
    assert best_tags(np.zeros((0, 5))) == []


def test_chunks_end_with_sentences_and_cut_no_word(host: Path) -> None:
    text = "The town is old. " * 9 + "Rome " * 30
    chunks = chunks_of([text], load_tokenizer(host), most=20)
    assert all(len(chunk.pieces) <= 20 for chunk in chunks)
    assert all(text[chunk.ends[-1] - 1] == "." for chunk in chunks[:2])
    joined = [text[a:b] for chunk in chunks for a, b in zip(chunk.starts, chunk.ends, strict=True)]
    assert "".join(joined) == text.replace(" ", "")


def test_files_of_marked_texts(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text(CONLL)
    first, second = read_marked(tmp_path / "a.conll")
    assert [first.text[a:b] for a, b, _ in first.spans] == ["Paris"]
    assert [(second.text[a:b], kind) for a, b, kind in second.spans] == [
        ("New York", "LOC"), ("Ann", "PER"),
    ]  # fmt: skip
    (tmp_path / "b.conll").write_text("-DOCSTART- O\n\n" + CONLL)
    (whole,) = read_marked(tmp_path / "b.conll")
    assert whole.text == "Paris is old\nIn New York , Ann\n"
    row = {
        "sents": [["Ann", "in", "Rome"], ["1999"]],
        "vertexSet": [
            [{"pos": [0, 1], "type": "PER", "sent_id": 0}],
            [{"pos": [2, 3], "type": "LOC", "sent_id": 0}],
            [{"pos": [0, 1], "type": "TIME", "sent_id": 1}],
        ],
    }
    (tmp_path / "c.json.gz").write_bytes(gzip.compress(json.dumps([row]).encode()))
    (document,) = read_marked(tmp_path / "c.json.gz")
    assert document == MarkedText("Ann in Rome 1999 ", ((0, 3, "PER"), (7, 11, "LOC")))
    line = {"text": "In Rome", "mentions": [{"start": 3, "end": 7, "entity": None}]}
    (tmp_path / "d.jsonl").write_text(json.dumps(line))
    assert read_marked(tmp_path / "d.jsonl")[0].spans == ((3, 7, "NAME"),)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.conll", "Paris B-town\n", r"a\.conll:1: kind 'town'"),
        ("a.conll", "Paris\n", r"a\.conll:1: 'Paris' has no tag"),
        ("a.json", "{", "is not JSON"),
        ("a.json", "[{}]", "document 1"),
        ("a.jsonl", "{}", r"a\.jsonl:1: KeyError"),
        ("a.csv", "", "is called none of"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(LinkingError, match=message):
        read_marked(tmp_path / name)


def test_settings_that_are_wrong(host: Path) -> None:
    with pytest.raises(ConfigError, match="n_layers is 3; this host has 2"):
        train_tagger(texts(2), texts(1), TaggerSettings(host=str(host), n_layers=3))
    with pytest.raises(LinkingError, match="no name is marked"):
        train_tagger([MarkedText("a", ())], texts(1), TaggerSettings(host=str(host)))
    with pytest.raises(LinkingError, match="count below 1"):
        TaggerSettings(epochs=0)
    with pytest.raises(LinkingError, match="pronouns are linked to persons"):
        LinkerSettings(kg="kg", pronouns=True)


def test_trained_calibrated_and_linked_by_commands(
    host: Path, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    lines = [f"the O\ntown O\nof O\n{name} B-LOC\nis O\nold O\n" for name in ("Paris", "Rome") * 30]
    (tmp_path / "marked.conll").write_text("\n".join(lines))
    small_graph.save(tmp_path / "kg")

    def run(*words: object) -> str:
        result = CliRunner().invoke(app, ["link", *map(str, words)], env={"COLUMNS": "160"})
        assert result.exit_code == 0, result.output
        return result.stdout

    output = run(
        "train-tagger", tmp_path / "marked.conll", "-o", tmp_path / "tagger", "--host", host,
        "--layers", 1, "--epochs", 6,
    )  # fmt: skip
    assert "names in" in output
    gold = [
        {
            "id": str(i), "text": f"the town of {name} is old",
            "mentions": [{"start": 12, "end": 12 + len(name), "entity": entity}],
        }
        for i, (name, entity) in enumerate([("Paris", "Q90"), ("Rome", None)] * 10)
    ]  # fmt: skip
    (tmp_path / "gold.jsonl").write_text("\n".join(map(json.dumps, gold)))
    options = ("--kg", tmp_path / "kg", "--tagger", tmp_path / "tagger")
    fitted = run(
        "calibrate", tmp_path / "gold.jsonl", *options, "--find", "-o", tmp_path / "d.json"
    )
    assert "NIL from" in fitted
    linked = run("the town of Paris is old", *options, "--decision", tmp_path / "d.json", "--json")
    (mention,) = json.loads(linked)["mentions"]
    assert mention["entity"] == "Q90"
    refused = CliRunner().invoke(
        app, ["link", "Paris", "--kg", str(tmp_path / "kg"), "--decision", str(tmp_path / "d.json")]
    )
    assert "fitted with a tagger" in str(refused.output) + str(refused.exception)
    settings = LinkerSettings(
        kg=str(tmp_path / "kg"), tagger=str(tmp_path / "tagger"), pronouns=True
    )
    with pytest.raises(LinkingError, match="finds LOC, no persons"):
        open_linker(settings)
