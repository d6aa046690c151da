"""SentiLARE: lexicons, what words bring, what is hidden and asked for, and ratings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.batches import IGNORE, NONE, KnowledgeBatch
from kept.errors import BatchError, ConfigError, NoKnowledgeError
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.sentiment import (
    NEGATIVE,
    NEUTRAL,
    PARTS,
    POSITIVE,
    Sense,
    SentimentLexicon,
    polarity,
    prior_score,
    sense_weights,
)
from kept.graphs.views import WORDS_ONLY, SentiLAREView, WordsView
from kept.graphs.views.sentilare import PART, POLARITY, RATING
from kept.objectives.base import PreparationContext
from kept.objectives.lexical.sentiment import (
    SentimentOptions,
    SentimentPreparation,
    hides,
    read_ratings,
)
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph, Text, TextKind, graph_from_records
from kg_loaders.errors import DamageError, SourceError
from tests.kept.tiny_hosts import FAMILIES, method_encoder

PLAIN = BuilderConfig(max_words=60, **WORDS_ONLY)
LINES = (
    '# a comment\na\t1\t0.625\t0\told#1\thaving years; "an old man"\n'
    "a\t2\t0\t0.75\told#2 aged#1\tof no use\ns\t3\t0\t0.25\tnear#1\tmean\n"
    "n\t4\t0\t0\tcity#1\ta town\n"
)


@pytest.fixture
def lexicon(tmp_path: Path) -> Path:
    file = tmp_path / "lexicon.txt"
    file.write_text(LINES, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def wordnet() -> KnowledgeGraph:
    """Four synsets, named as WordNet's are."""
    names = {"wn:00000001-a": "old", "wn:00000003-a": "near", "wn:00000004-n": "city"}
    names["wn:00000005-r"] = "through"
    return graph_from_records([Text(n, TextKind.LABEL, word, "en") for n, word in names.items()])


def text_of(words: dict[str, str], text: str) -> LinkedText:
    links = []
    for word, name in words.items():
        start = text.index(word)
        mention = Mention(start, start + len(word))
        links.append(Link(mention, (Candidate(name, 1.0, 1.0),), name, 1.0))
    return LinkedText(text, tuple(sorted(links, key=lambda link: link.mention.start)))


TEXT = text_of(
    {"old": "wn:00000001-a", "city": "wn:00000004-n", "near": "wn:00000003-a"},
    "the old city near a river",
)


def batch_of(graph: KnowledgeGraph, tokenizer: Any, lexicon: Path | None) -> KnowledgeBatch:
    graph_ = build(TEXT, tokenizer, graph, generator=generator(0, "x"), config=PLAIN)
    return SentiLAREView.of(graph, tokenizer, lexicon=lexicon)(graph_)


def test_sentiwordnets_lines(lexicon: Path) -> None:
    lexicon_ = SentimentLexicon.read(lexicon)
    assert lexicon_.senses("old", "a") == (
        Sense(1, 0.625, 0, "having years"), Sense(2, 0, 0.75, "of no use"),
    )  # fmt: skip
    assert lexicon_.senses("Nearer", "a") == lexicon_.senses("near", "a"), "by its base form"
    assert lexicon_.senses("near", "n") == ()
    weights = np.exp([1 / 2, 1 / 4])
    wanted = weights @ [0.625, -0.75] / weights.sum()
    assert prior_score(lexicon_.senses("old", "a")) == pytest.approx(wanted)
    near = prior_score(lexicon_.senses("old", "a"), [-1.0, 1.0])
    assert near < wanted, "the gloss that is nearer counts more"
    assert sense_weights([1, 2, 3]).sum() == pytest.approx(1)
    assert [polarity(x) for x in (0.1, -0.1, 0.0)] == [POSITIVE, NEGATIVE, NEUTRAL]


def test_lists_of_words_and_faulty_lines(tmp_path: Path) -> None:
    file = tmp_path / "words.tsv"
    file.write_text("; words\ngood\t1.9\t0.5\t[1, 2]\nhot dog\t-1\tn\n\n", encoding="utf-8")
    lexicon_ = SentimentLexicon.read(file)
    assert [prior_score(lexicon_.senses("good", part)) for part in PARTS] == [1.9] * 4
    assert prior_score(lexicon_.senses("Hot dogs", "n")) == -1
    assert lexicon_.senses("hot dog", "v") == ()
    for line, fault in (("good", "neither"), ("good\tvery", "very"), ("x\t1\t0\t0\tgood#1", "'x'")):
        file.write_text(f"fine\t1\n{line}\n", encoding="utf-8")
        with pytest.raises(DamageError, match=rf"words.tsv, line 2 .*{fault}"):
            SentimentLexicon.read(file)
    with pytest.raises(SourceError, match="is not a file"):
        SentimentLexicon.read(tmp_path / "nothing")


def test_linked_words_bring_part_and_polarity(
    wordnet: KnowledgeGraph, tokenizer: Any, lexicon: Path
) -> None:
    batch = batch_of(wordnet, tokenizer, lexicon)
    pieces = tokenizer.convert_ids_to_tokens(batch.node_ids[0])
    assert batch.extra_ids is not None
    labels = {
        piece: (part, sign)
        for piece, part, sign in zip(
            pieces, *(batch.extra_ids[n][0, :, 0].tolist() for n in (PART, POLARITY)), strict=True
        )
        if part != NONE
    }
    a, n = PARTS["a"], PARTS["n"]
    assert labels == {"old": (a, POSITIVE), "city": (n, NEUTRAL), "near": (a, NEGATIVE)}
    plain = batch_of(wordnet, tokenizer, None)
    assert plain.extra_ids is not None
    assert set(plain.extra_ids[POLARITY].unique().tolist()) == {NONE, NEUTRAL}


def test_words_with_a_polarity_are_hidden_twice_as_often() -> None:
    draws = np.random.default_rng(0).random(20_000)
    is_polar = np.arange(20_000) % 2 == 0
    is_hidden = hides(draws, is_polar, SentimentOptions())
    assert is_hidden[is_polar].mean() == pytest.approx(0.3, abs=0.02)
    assert is_hidden[~is_polar].mean() == pytest.approx(0.15, abs=0.02)


def test_hidden_words_lose_their_labels_and_are_asked_for_them(
    wordnet: KnowledgeGraph, tokenizer: Any, lexicon: Path, tmp_path: Path
) -> None:
    ratings = tmp_path / "ratings.tsv"
    ratings.write_text(f"4\t{TEXT.text}\n2\tanother text\n", encoding="utf-8")
    world = PreparationContext(wordnet, tokenizer, np.zeros(3))
    options = SentimentOptions(neutral=0.5, polar=0.5, ratings=str(ratings))
    preparation = SentimentPreparation.of(options, world)
    labelled, n_late, n_kept = batch_of(wordnet, tokenizer, lexicon), 0, 0
    for seed in range(200):
        hidden = preparation.mark(labelled, generator(seed, "marks"))
        assert hidden.node_labels is not None
        assert hidden.extra_ids is not None
        assert hidden.extra_labels is not None
        assert labelled.extra_ids is not None
        chosen = hidden.node_labels[0] != IGNORE
        changed = hidden.node_ids[0] != labelled.node_ids[0]
        n_kept += int((chosen & ~changed).sum())
        for name in (PART, POLARITY):
            before, ids = labelled.extra_ids[name][0, :, 0], hidden.extra_ids[name][0, :, 0]
            labels = hidden.extra_labels[name][0, :, 0]
            assert torch.equal(ids, before.masked_fill(changed, NONE))
            assert torch.equal(labels, before.masked_fill(~chosen | (before == NONE), IGNORE))
        ids, labels = hidden.extra_ids[RATING][0, :, 0], hidden.extra_labels[RATING][0, :, 0]
        is_late = bool((ids == NONE).all())
        n_late += is_late
        assert ids.tolist() == [NONE, *[NONE if is_late else 3] * (len(ids) - 2), NONE]
        assert labels.tolist() == [3 if is_late else IGNORE, *[IGNORE] * (len(ids) - 1)]
    assert 20 < n_late < 60
    assert n_kept > 20
    plain = SentimentPreparation.of(SentimentOptions(), world)
    unrated = plain.mark(labelled, generator(0, "marks"))
    assert unrated.extra_ids is not None
    assert (unrated.extra_ids[RATING] == NONE).all()
    assert plain.fingerprint != preparation.fingerprint


def test_ratings_are_whole_numbers_from_one(tmp_path: Path) -> None:
    file = tmp_path / "ratings.tsv"
    for line in ("0\tbad", "good", "4.5\tgood"):
        file.write_text(f"5\tgood\n{line}\n", encoding="utf-8")
        with pytest.raises(DamageError, match=r"ratings.tsv, line 2 .* not a rating from 1"):
            read_ratings(file)
    with pytest.raises(SourceError, match="is not a file"):
        read_ratings(tmp_path / "nothing")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_loss_reaches_every_host(
    family: str, wordnet: KnowledgeGraph, tokenizer: Any, lexicon: Path, tmp_path: Path
) -> None:
    ratings = tmp_path / "ratings.tsv"
    ratings.write_text(f"1\t{TEXT.text}\n", encoding="utf-8")
    objectives = {"mlm": {}, "sentiment": {"ratings": str(ratings), "late": 1.0, "polar": 1.0}}
    data = WordGraphData(
        [TEXT] * 4, wordnet, tokenizer, builder=PLAIN,
        view=SentiLAREView.of(wordnet, tokenizer, lexicon=lexicon), objectives=objectives,
    )  # fmt: skip
    encoder = method_encoder("sentilare", wordnet, tokenizer, family=family)
    model = KnowledgeForPreTraining.of(encoder, objectives)
    samples = [data.sample(i, epoch=0, seed=0) for i in range(4)]
    losses = model(data.collate(samples, epoch=0, seed=0, step=0)).losses
    assert list(losses) == ["mlm", PART, POLARITY, RATING]
    assert all(loss > 0 for loss in losses.values())
    torch.stack(list(losses.values())).sum().backward()
    for name in (PART, POLARITY, RATING):
        gradient = encoder.table(name).vectors.weight.grad
        assert gradient is not None
        assert gradient.any()
    assert json.loads(encoder.config.to_json_string())["n_ratings"] == 5


def test_what_cannot_be_had_is_refused(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    with pytest.raises(ConfigError, match=r"polar 2: from 0 to 1"):
        SentimentOptions(polar=2)
    plain = method_encoder("none", small_graph, tokenizer)
    with pytest.raises(ConfigError, match="sentiment needs SentiLARE; Plain has no labels"):
        KnowledgeForPreTraining.of(plain, {"sentiment": {}})
    data = WordGraphData(
        linked, small_graph, tokenizer, builder=PLAIN, view=WordsView(),
        objectives={"sentiment": {}},
    )  # fmt: skip
    with pytest.raises(BatchError, match="use SentiLAREView"):
        data.sample(0, epoch=0, seed=0)
    linked_nowhere = [LinkedText("the old city", ())]
    with pytest.raises((ConfigError, NoKnowledgeError)):
        WordGraphData(
            linked_nowhere, small_graph, tokenizer, builder=PLAIN,
            view=SentiLAREView.of(small_graph, tokenizer), objectives={"sentiment": {}},
        )  # fmt: skip
