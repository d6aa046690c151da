"""Reading annotated senses, candidates, baselines, glosses and the score."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from entity_linking import DictionaryLinker, Link, LinkedText, LinkingError, Mention
from entity_linking.pipeline import Pipeline
from entity_linking.scorers.features import PriorScorer
from entity_linking.senses.candidates import FirstSense, GlossScorer, SenseCandidates, definition
from entity_linking.senses.corpus import (
    SenseText,
    answers,
    correct,
    gold_synsets,
    read_senses,
    score_senses,
)
from kg_loaders import KnowledgeGraph
from kg_loaders.formats.wordnet_lexicon import Lexicon
from tests.entity_linking.mini_wordnet import (
    DATA,
    FLOW,
    KEYS,
    LEND,
    LENDER,
    MONEY,
    RIVER,
    SHORE,
    SLOPE,
    SYNSET_OF,
    mini_graph,
    mini_lexicon,
    write_corpus,
)


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return mini_graph()


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> list[SenseText]:
    return read_senses(*write_corpus(tmp_path_factory.mktemp("senses")))


def pipeline(graph: KnowledgeGraph, texts: Sequence[SenseText], scorer: object) -> Pipeline:
    source = SenseCandidates(graph, mini_lexicon(), texts)
    return Pipeline(DictionaryLinker(graph), source, scorer)  # type: ignore[arg-type]


def test_documents_are_read(texts: list[SenseText]) -> None:
    first, second = texts
    assert first.text == "The banks of the river flow xyzzy\nSoon ran water"
    assert [first.text[w.mention.start : w.mention.end] for w in first.words] == [
        "banks", "river", "flow", "xyzzy", "Soon", "ran", "water",
    ]  # fmt: skip
    assert (first.words[5].lemma, first.words[5].part, first.words[5].id) == (
        "run",
        "v",
        "d0.s1.t0",
    )
    assert first.words[5].keys == ("run%2:38:00::", "flow%2:38:01::")
    assert [w.id for w in first.words if w.id] == ["d0.s0.t0", "d0.s0.t1", "d0.s1.t0"]
    assert (second.id, second.text) == ("d1", "Bank lends money to a bank")
    assert all(link.entity is None for link in second.linked.links)


def test_compressed_data_and_no_keys(texts: list[SenseText], tmp_path: Path) -> None:
    path = tmp_path / "mini.data.xml.gz"
    path.write_bytes(gzip.compress(DATA.encode()))
    without = read_senses(path)
    assert [t.text for t in without] == [t.text for t in texts]
    assert all(word.keys == () for text in without for word in text.words)


@pytest.mark.parametrize(
    ("data", "keys", "message"),
    [
        (DATA.replace("</corpus>", ""), KEYS, "not well-formed"),
        (DATA.replace("d1.s0.t2", "d1.s0.t1"), KEYS, "instance id twice"),
        (DATA, KEYS.replace("d1.s0.t2", "d1.s0.t3"), "2 instances .* 'd1.s0.t2'"),
        (DATA, KEYS + "d1.s0.t9\n", "line 7: instance 'd1.s0.t9' has no sense key"),
        (DATA.replace('"river" pos="NOUN"', '"river" pos="DET"'), KEYS, "'d0.s0.t1' .* 'DET'"),
        (DATA.replace(">river<", "> <"), KEYS, "'d0.s0' has an empty token"),
    ],
)
def test_broken_files_are_told(data: str, keys: str, message: str, tmp_path: Path) -> None:
    one, other = write_corpus(tmp_path)
    one.write_text(data, encoding="utf-8")
    other.write_text(keys, encoding="utf-8")
    with pytest.raises(LinkingError, match=message):
        read_senses(one, other)


def test_candidates_stand_in_wordnets_order(graph: KnowledgeGraph, texts: list[SenseText]) -> None:
    source = SenseCandidates(graph, mini_lexicon(), texts)
    (first,) = source.candidates([texts[0].linked])
    banks, _, flow, unknown, _, run_verb, _ = first
    assert [c.entity for c in banks] == [SHORE, LENDER, SLOPE]
    assert [c.prior for c in banks] == pytest.approx([21 / 48, 26 / 48, 1 / 48])
    assert [c.entity for c in flow] == [c.entity for c in run_verb] == [FLOW]
    assert unknown == ()
    assert "6 words" not in repr(source)


def test_words_without_annotation_are_read_by_morphology(graph: KnowledgeGraph) -> None:
    source = SenseCandidates(graph, mini_lexicon(), max_candidates=3)
    text = LinkedText(
        "banks ran", tuple(Link(m, (), None, 1.0) for m in (Mention(0, 5), Mention(6, 9)))
    )
    ((banks, run_verb),) = source.candidates([text])
    assert [c.entity for c in banks] == [SHORE, LENDER, SLOPE]
    assert [c.entity for c in run_verb] == [FLOW]
    assert [c.entity for c in SenseCandidates(graph, mini_lexicon()).candidates([text])[0][0]] == [
        SHORE, LENDER, SLOPE, LEND,
    ]  # fmt: skip
    with pytest.raises(LinkingError, match="max_candidates is 0"):
        SenseCandidates(graph, mini_lexicon(), max_candidates=0)


def test_first_sense_and_prior_and_their_score(
    graph: KnowledgeGraph, texts: list[SenseText]
) -> None:
    linked = pipeline(graph, texts, FirstSense()).disambiguate([t.linked for t in texts])
    actual = answers(texts, linked)
    assert actual == {
        "d0.s0.t0": SHORE, "d0.s0.t1": RIVER, "d0.s1.t0": FLOW,
        "d1.s0.t0": SHORE, "d1.s0.t1": MONEY, "d1.s0.t2": SHORE,
    }  # fmt: skip
    score = score_senses(texts, actual, SYNSET_OF)
    assert (score.n_gold, score.n_predicted, score.n_correct) == (6, 6, 4)
    by_prior = pipeline(graph, texts, PriorScorer()).disambiguate([t.linked for t in texts])
    assert answers(texts, by_prior)["d0.s0.t0"] == LENDER
    assert correct(texts, answers(texts, by_prior), SYNSET_OF)["d1.s0.t2"]


def test_an_answer_that_is_missing_costs_recall_alone(texts: list[SenseText]) -> None:
    answers = {"d0.s0.t0": SHORE, "d0.s0.t1": None, "d0.s1.t0": FLOW, "d1.s0.t0": SHORE}
    score = score_senses(texts, answers, SYNSET_OF)
    assert (score.precision, score.recall) == pytest.approx((2 / 3, 2 / 6))
    assert score.f1 == pytest.approx(2 * (2 / 3) * (1 / 3) / (2 / 3 + 1 / 3))


def test_answers_must_belong_to_the_words(texts: list[SenseText]) -> None:
    linked = [text.linked for text in texts]
    other = replace(linked[0], links=linked[0].links[1:] + linked[0].links[-1:])
    with pytest.raises(LinkingError, match="stands for"):
        answers(texts, [other, linked[1]])


class _Letters:
    """Counts the letters "w" and "m" of a text."""

    name, width = "letters", 3
    texts: list[str]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts = list(texts)
        rows = np.array([[t.count("w"), t.count("m"), 0.5] for t in texts], np.float32)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def test_glosses_are_compared_with_the_sentence(
    graph: KnowledgeGraph, texts: list[SenseText]
) -> None:
    encoder = _Letters()
    steps = pipeline(graph, texts, GlossScorer(graph, encoder, scale=2.0))
    proposed = steps.propose([t.linked for t in texts])
    (first, second) = GlossScorer(graph, encoder, scale=2.0).scores(proposed)
    assert encoder.texts == [
        'The "banks" of the river flow xyzzy',
        f"banks : {graph.description(graph.entities.find(SHORE) or 0)}",
        "banks : an institution that lends money",
        "banks : a bank",
        '"Bank" lends money to a bank',
        'Bank : sloping land beside a body of water; "they sat on the bank of the river"',
        "Bank : an institution that lends money",
        "Bank : a bank",
        'Bank lends money to a "bank"',
        'bank : sloping land beside a body of water; "they sat on the bank of the river"',
        "bank : an institution that lends money",
        "bank : a bank",
    ]
    vectors = encoder.encode(encoder.texts)
    np.testing.assert_allclose(first[0], 2 * vectors[1:4] @ vectors[0], atol=1e-6)
    assert [s.tolist() for s in first[1:]] == [[0.0], [0.0], [], [0.0], [0.0], [0.0]]
    assert answers(texts, steps.decide(proposed))["d1.s0.t0"] == LENDER
    short = GlossScorer(graph, encoder, examples=False)
    short.scores(proposed[:1])
    assert encoder.texts[1] == "banks : sloping land beside a body of water"
    assert len(second) == 4
    with pytest.raises(LinkingError, match="scale is 0"):
        GlossScorer(graph, encoder, scale=0)


def test_definitions_lose_their_examples() -> None:
    assert definition('move; "the boat moved"; "it ran"') == "move"
    assert definition('"hello" is said first') == '"hello" is said first'
    assert definition("plain") == "plain"


@pytest.mark.data
@pytest.mark.wordnet
@pytest.mark.slow
def test_first_sense_of_the_real_thing(data_root: Path, wordnet: KnowledgeGraph) -> None:
    """Raganato et al. 2017, WordNet's first sense: 63.0 and 67.8."""
    lexicon, synset_of = Lexicon.open(), gold_synsets()
    for name, ending, n, published in (
        ("semeval2013", ".gz", 1644, 0.630),
        ("semeval2015", "", 1022, 0.678),
    ):
        folder = data_root / "linguistic" / "wsd" / name
        texts = read_senses(folder / f"{name}.data.xml{ending}", folder / f"{name}.gold.key.txt")
        assert all(k in synset_of for t in texts for w in t.words for k in w.keys)
        source = SenseCandidates(wordnet, lexicon, texts)
        linked = Pipeline(DictionaryLinker(mini_graph()), source, FirstSense()).disambiguate(
            [text.linked for text in texts]
        )
        score = score_senses(texts, answers(texts, linked), synset_of)
        assert (score.n_gold, score.n_predicted) == (n, n)
        assert round(score.f1, 3) == published
