"""The three kinds of knowledge: what trains each, what a probe learns from, what it is asked.

Axis legend: item (a question of a probe), word (word pieces).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from entity_linking.annotations.relations import RelationExample, read_trex
from entity_linking.mentions import LinkedText
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import WORDS_ONLY, LinkedWordsView, WordsView
from kept.graphs.words import Words, encode_words
from kept.lab.probing.layers.edges import edges_of
from kept.objectives.lexical.terms import Lexicon, Pair, graph_pairs
from kept.randomness import generator
from kept.tasks.datasets.conllu import Sentence, read_conllu
from kept.training.pretraining.data import WordGraphData
from kept.training.pretraining.treebanks import DependencyData, first_pieces
from kept.training.stream import PretrainingData
from kg_loaders import (
    KnowledgeGraph,
    Record,
    Source,
    Text,
    TextKind,
    Triple,
    graph_from_records,
    load,
)
from kg_loaders.damage import DamageReport

FACTS, GRAMMAR, LEXICON = "facts", "grammar", "lexicon"
KINDS = (FACTS, GRAMMAR, LEXICON)
TREEBANK = "linguistic/ud_english_ewt"
JOINED = "joined"


@dataclass(frozen=True)
class Item:
    """A question: one text, the nodes that are read (each the mean of its states), the answer.

    Items of one `group` are not independent.
    """

    words: Words
    spans: tuple[tuple[int, int], ...]
    label: str
    group: str


@dataclass(frozen=True)
class Kind:
    """Data of one kind; `objectives` are by name with their options, as in `kept pretrain`."""

    name: str
    graph: KnowledgeGraph
    training: PretrainingData
    objectives: Mapping[str, Mapping[str, Any]]
    probe: Sequence[Item]
    questions: Sequence[Item]

    def __repr__(self) -> str:
        return (
            f"Kind({self.name}: {self.training}; {len(self.probe)} questions to fit, "
            f"{len(self.questions)} asked, {len({i.label for i in self.probe})} labels)"
        )


# ---- facts -----------------------------------------------------------------
def facts_of(
    root: Path, tokenizer: PreTrainedTokenizerBase, sizes: Mapping[str, Any], max_words: int,
    seed: int,
) -> Kind:  # fmt: skip
    """Which relation joins two mentions; subjects of the three parts differ."""
    files = sorted((root / "lama/TREx").glob("P*.jsonl.gz"))
    if not files:
        raise ConfigError(f"{root / 'lama/TREx'} holds no P*.jsonl.gz; is KEPT_DATA right?")
    examples = [e for file in files for e in _of_relation(file, sizes["per_relation"])]
    parts = split_by([e.head for e in examples], sizes, generator(seed, "subjects"))
    train, probe, questions = ([examples[i] for i in part] for part in parts)
    graph = graph_from_records(_records(train))
    training = WordGraphData(
        [e.linked for e in train],
        graph,
        tokenizer,
        builder=BuilderConfig(max_words=max_words, drop_probability=0.0, **WORDS_ONLY),
        view=LinkedWordsView(),
        objectives={"relation_pairs": {}},
    )
    return Kind(
        FACTS, graph, training, {"relation_pairs": {"n_relations": graph.n_relations}},
        *(_mentions(part, tokenizer, max_words) for part in (probe, questions)),
    )  # fmt: skip


def _of_relation(file: Path, most: int) -> Iterator[RelationExample]:
    """The first `most` sentences of a relation, each of another subject."""
    heads: set[str] = set()
    for example in read_trex(file, DamageReport(), distinct=True):
        if len(heads) == most:
            return
        if example.head and example.tail and example.head not in heads:
            heads.add(example.head)
            yield example


def _records(examples: Sequence[RelationExample]) -> Iterator[Record]:
    names: dict[str, str] = {}
    for e in examples:
        yield Triple(e.head, e.relation, e.tail)
        for name, mention in ((e.head, e.head_mention), (e.tail, e.tail_mention)):
            names.setdefault(name, e.linked.text[mention.start : mention.end])
    for name, label in names.items():
        yield Text(name, TextKind.LABEL, label, "en")


def _mentions(
    examples: Sequence[RelationExample], tokenizer: PreTrainedTokenizerBase, max_words: int
) -> list[Item]:
    texts = encode_words([e.linked.text for e in examples], tokenizer, max_words=max_words)
    items = []
    for e, words in zip(examples, texts, strict=True):
        spans = tuple(_pieces(words, m.start, m.end) for m in (e.head_mention, e.tail_mention))
        if all(start < stop for start, stop in spans):
            items.append(Item(words, spans, e.relation, e.head))
    return items


def _pieces(words: Words, start: int, end: int) -> tuple[int, int]:
    """The pieces that touch the characters from `start` to `end`; (0, 0) where none does."""
    touched = np.flatnonzero((words.spans[:, 0] < end) & (words.spans[:, 1] > start))
    return (int(touched[0]), int(touched[-1]) + 1) if len(touched) else (0, 0)


# ---- grammar ---------------------------------------------------------------
def grammar_of(
    root: Path, tokenizer: PreTrainedTokenizerBase, sizes: Mapping[str, Any], max_words: int,
    seed: int,
) -> Kind:  # fmt: skip
    """Which relation a word has to its head; the parts are the treebank's train, dev and test."""
    names = ("train_from_sources", "en_ewt-ud-dev", "en_ewt-ud-test")
    train, dev, test = (list(read_conllu(root / TREEBANK / f"{n}.conllu.gz")) for n in names)
    order = generator(seed, "trees").permutation(len(train))[: sizes["train"]]
    training = DependencyData([train[i] for i in order], tokenizer, max_words=max_words)
    return Kind(
        GRAMMAR, graph_from_records([]), training, {"dependency_heads": {"n_positions": 128}},
        edge_items(dev, tokenizer, sizes["probe"], max_words, seed),
        edge_items(test, tokenizer, sizes["asked"], max_words, seed),
    )  # fmt: skip


def edge_items(
    sentences: Sequence[Sentence], tokenizer: PreTrainedTokenizerBase, most: int, max_words: int,
    seed: int,
) -> list[Item]:  # fmt: skip
    """Words with their heads, both given, and the relation between them."""
    items: list[Item] = []
    texts: dict[int, tuple[Words, list[int]]] = {}
    for edge in edges_of("relation", sentences, 2 * most, seed=seed):
        sentence = sentences[edge.sentence]
        if edge.sentence not in texts:
            (words,) = encode_words([sentence.text], tokenizer, max_words=max_words)
            texts[edge.sentence] = words, first_pieces(sentence, words.spans).tolist()
        words, first = texts[edge.sentence]
        assert edge.head is not None
        places = first[edge.word], first[edge.head]
        if min(places) >= 0:
            spans = tuple((position, position + 1) for position in places)
            items.append(Item(words, spans, edge.label.split(":")[0], str(edge.sentence)))
    return items[:most]


# ---- the lexicon -----------------------------------------------------------
def lexicon_of(
    pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase, sizes: Mapping[str, Any], seed: int
) -> Kind:
    """Whether a lexicon joins two terms; no term stands in two parts. Steps are of pairs alone."""
    parts = split_terms(pairs, sizes, generator(seed, "terms"))
    graph = graph_from_records(_joined(parts[0]))
    objectives = {
        "lexical": {
            "relations": [JOINED], "every": 1, "n_pairs": sizes["n_pairs"],
            "vectors_from": sizes["vectors_from"],
        }
    }  # fmt: skip
    texts = [LinkedText(graph.label(i), ()) for i in range(graph.n_entities)]
    training = WordGraphData(
        texts, graph, tokenizer, builder=BuilderConfig(drop_probability=0.0, **WORDS_ONLY),
        view=WordsView(), objectives=objectives, require_links=False,
    )  # fmt: skip
    return Kind(
        LEXICON, graph, training, objectives,
        *(term_items(part, pairs, tokenizer, generator(seed, "strangers", i))
          for i, part in enumerate(parts[1:])),
    )  # fmt: skip


def split_terms(
    pairs: Sequence[Pair], sizes: Mapping[str, Any], draws: np.random.Generator
) -> list[list[Pair]]:
    """Pairs that train, fit and ask, at most as many as `sizes` says; pairs across are left out."""
    terms = sorted({term for pair in pairs for term in pair})
    part_of = dict(zip(terms, draws.choice(3, len(terms), p=(0.6, 0.2, 0.2)).tolist(), strict=True))
    order = draws.permutation(len(pairs)).tolist()
    parts: list[list[Pair]] = [[], [], []]
    for one, other in (pairs[i] for i in order):
        if part_of[one] == part_of[other]:
            parts[part_of[one]].append((one, other))
    most = sizes["train"], sizes["probe"] // 2, sizes["asked"] // 2
    return [part[:n] for part, n in zip(parts, most, strict=True)]


def term_items(
    part: Sequence[Pair], pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase,
    draws: np.random.Generator,
) -> list[Item]:  # fmt: skip
    """Each pair, and its first term beside the second of another pair; read at the first node."""
    lexicon = Lexicon(pairs)
    others = [part[i][1] for i in draws.permutation(len(part))]
    term_pairs = [(one, other, "joined") for one, other in part]
    term_pairs += [
        (one, other, "not joined")
        for (one, _), other in zip(part, others, strict=True)
        if one != other and not lexicon.joins(one, other)
    ]
    texts = encode_words(
        [f"{one} {other}" for one, other, _ in term_pairs], tokenizer, max_words=32,
        pair_starts=[len(one) + 1 for one, *_ in term_pairs],
    )  # fmt: skip
    rows = zip(term_pairs, texts, strict=True)
    return [Item(words, ((0, 1),), label, one) for (one, _, label), words in rows]


def _joined(pairs: Sequence[Pair]) -> Iterator[Record]:
    for one, other in pairs:
        yield Triple(one, JOINED, other)
    for term in sorted({term for pair in pairs for term in pair}):
        yield Text(term, TextKind.LABEL, term, "en")


def wordnet_pairs(folder: Path) -> list[Pair]:
    """Synonyms and direct hypernyms of WordNet whose terms are one plain word each."""
    graph, _ = load([Source(folder, "wordnet")])
    return sorted({p for p in graph_pairs(graph) if all(t.isalpha() and t.isascii() for t in p)})


# ---- both ------------------------------------------------------------------
def split_by(
    keys: Sequence[str], sizes: Mapping[str, Any], draws: np.random.Generator
) -> list[list[int]]:
    """The places of `keys` in three parts of at most `train`, `probe` and `asked`; keys stay
    together."""
    names = sorted(set(keys))
    rank = {names[i]: rank_of for rank_of, i in enumerate(draws.permutation(len(names)).tolist())}
    order = sorted(range(len(keys)), key=lambda i: (rank[keys[i]], i))
    parts: list[list[int]] = []
    start = 0
    for name in ("asked", "probe", "train"):
        stop = min(start + sizes[name], len(order))
        while 0 < stop < len(order) and keys[order[stop]] == keys[order[stop - 1]]:
            stop += 1
        parts.append(order[start:stop])
        start = stop
    return parts[::-1]
