"""Graphs with entities held out: which triples are trained on, read, and tested, and their texts.

A *world* is a graph under one split, as arrays alone: a file that another machine reads without the
data and without a tokenizer. `write_pack` makes the files from the public data, `World.read` opens
one.

Axis legend: entity, relation, triple, question, piece (of a text).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kept.evaluation.ranking import Filter
from kept.randomness import generator

if TYPE_CHECKING:
    from kept.kge.splits import Splits
    from kg_loaders import KnowledgeGraph

Ids = NDArray[np.int64]
LEFT_OUT, TRAIN, VALID_CONTEXT, VALID, TEST_CONTEXT, TEST, SEEN_ALONE = range(7)
"""What a triple is for. `SEEN_ALONE`: of the benchmark's own valid and test, among seen entities;
it is only known, so that no answer of it counts as wrong."""
CONTEXT = {VALID: VALID_CONTEXT, TEST: TEST_CONTEXT}
NAMES = {VALID: "valid", TEST: "test"}
TEXT_KINDS = ("true", "cut", "words")
N_PIECES, N_RELATION_PIECES = 47, 16
"""Word pieces that are kept of an entity's text and of a relation's name."""
WORDS, SCALE = "embeddings.word_embeddings.weight", "scale of words"
"""The word table in a pack, and what its rows are multiplied by."""
LEAST_NAME = 4
"""Letters of a name that is cut from descriptions."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Texts as word pieces: those of text i are `ids[starts[i] : starts[i + 1]]`."""

    ids: NDArray[np.uint16]
    starts: NDArray[np.int32]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], n: int) -> Pieces:
        """Return the first `n` pieces of each text."""
        lengths = [min(len(row), n) for row in rows]
        flat = [piece for row in rows for piece in row[:n]]
        return cls(np.array(flat, np.uint16), np.cumsum([0, *lengths]).astype(np.int32))

    def padded(self) -> tuple[Ids, Ids]:
        """Return `[text piece]`, zeros behind each text, and the lengths `[text]`."""
        lengths = np.diff(self.starts).astype(np.int64)
        table = np.zeros((len(lengths), int(lengths.max(initial=1))), np.int64)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        columns = np.arange(len(self.ids)) - np.repeat(self.starts[:-1], lengths)
        table[rows, columns] = self.ids
        return table, lengths


@dataclass(frozen=True, eq=False)
class SplitGraph:
    """A graph under a split.

    `triples [triple 3]` with what each is for, `use [triple]`; `group [entity]`: 1 held out for
    validation, 2 for the test, 0 seen; `queries`: which rows of `triples` are questions, by VALID
    and TEST; `texts` of entities by kind, `relation_texts` likewise.
    """

    name: str
    split: int
    n_relations: int
    triples: Ids
    use: NDArray[np.uint8]
    group: NDArray[np.uint8]
    queries: dict[int, Ids]
    texts: dict[str, Pieces]
    relation_texts: Pieces

    @property
    def n_entities(self) -> int:
        """All entities; those without a training triple that are not held out are no candidates."""
        return len(self.group)

    @cached_property
    def train(self) -> Ids:
        """The training triples `[triple 3]`."""
        return np.asarray(self.triples[self.use == TRAIN])

    @cached_property
    def trained(self) -> NDArray[np.bool_]:
        """Whether an entity has a training triple `[entity]`."""
        is_trained = np.zeros(self.n_entities, np.bool_)
        is_trained[self.train[:, [0, 2]]] = True
        return is_trained

    def facts(self, part: int) -> Ids:
        """Return the triples of the held-out entities of a part that may be read."""
        return np.asarray(self.triples[self.use == CONTEXT[part]])

    def context(self, part: int) -> Ids:
        """Return all triples that may be read with the queries of a part."""
        return np.concatenate([self.train, self.facts(part)])

    def questions(self, part: int) -> Ids:
        """Return the triples of a part that are queries, for their head and for their tail."""
        return np.asarray(self.triples[self.queries[part]])

    def candidates(self, part: int) -> Ids:
        """Return the seen entities and those held out for the part, in ascending order."""
        return np.flatnonzero(self.trained | (self.group == (1 if part == VALID else 2)))

    def filter(self, part: int) -> Filter:
        """Return the known answers of a part: everything that is true among its candidates."""
        known = np.isin(self.use, (TRAIN, SEEN_ALONE, part, CONTEXT[part]))
        return Filter(
            {"all true triples of seen entities and of the part": self.triples[known]},
            n_entities=self.n_entities, n_relations=self.n_relations,
        )  # fmt: skip

    def check(self) -> None:
        """Raise ValueError where a held-out entity is in training, or a question is trained on."""
        if self.group[self.train[:, [0, 2]]].any():
            raise ValueError(f"{self.name}, split {self.split}: a held-out entity is trained on")
        for part in (VALID, TEST):
            rows = self.queries[part]
            wrong = (self.use[rows] != part).any()
            if wrong or not self.group[self.triples[rows][:, [0, 2]]].any(1).all():
                raise ValueError(f"{self.name}, split {self.split}: a question of no unseen entity")

    @cached_property
    def digest(self) -> str:
        """A hash of triples, split, questions and texts."""
        state = hashlib.sha256()
        arrays = [
            self.triples,
            self.use,
            self.group,
            *self.queries.values(),
            self.relation_texts.ids,
        ]
        arrays += [array for text in self.texts.values() for array in (text.ids, text.starts)]
        for array in arrays:
            state.update(np.ascontiguousarray(array).tobytes())
        return state.hexdigest()[:16]

    @classmethod
    def read(cls, folder: Path, name: str, split: int) -> SplitGraph:
        """Return a world of a pack."""
        with np.load(folder / f"{name}.npz") as stored:
            arrays = {key: stored[key] for key in stored.files}
        texts = {kind: _pieces(arrays, kind) for kind in TEXT_KINDS}
        world = cls(
            name, split, int(arrays["n_relations"]), arrays["triples"].astype(np.int64),
            arrays[f"use-{split}"], arrays[f"group-{split}"],
            {part: arrays[f"queries-{split}-{NAMES[part]}"].astype(np.int64)
             for part in (VALID, TEST)},
            texts, _pieces(arrays, "relations"),
        )  # fmt: skip
        world.check()
        return world


def _pieces(arrays: dict[str, NDArray[Any]], name: str) -> Pieces:
    return Pieces(arrays[f"{name}-ids"], arrays[f"{name}-starts"])


# ---- from the public data ------------------------------------------------------------------------
@dataclass(frozen=True)
class SplitSettings:
    """Shares of `split_unseen`, and how many triples of each part are queries."""

    valid_share: float
    test_share: float
    context_share: float
    n_valid: int
    n_test: int


def read_benchmark(root: Path, name: str) -> tuple[Splits, list[str]]:
    """Return the splits of a graph and a description for each entity, "" where there is none."""
    from kept.kge.splits import read_splits

    folder = {"codex-s": "codex/codex-s", "fb15k-237": "kgc/fb15k237", "wn18rr": "kgc/wn18rr"}
    splits = read_splits(root / folder[name], holdout=0.1, seed=0)
    graph = splits.graph
    descriptions = [graph.description(i) or "" for i in range(graph.n_entities)]
    if name == "fb15k-237":
        descriptions = _wikidata_descriptions(root, graph)
    if name == "codex-s":
        extracts = _extracts(root / folder[name])
        pairs = zip(descriptions, graph.entities, strict=True)
        descriptions = [f"{text}. {extracts.get(name, '')}".strip(" .") for text, name in pairs]
    return splits, descriptions


def _wikidata_descriptions(root: Path, graph: KnowledgeGraph) -> list[str]:
    """Return Wikidata's short descriptions of Freebase's entities."""
    from kept.tasks.datasets.public_files import json_of

    rows = json_of(root / "wikidata_labels/fb_entity2wikidata.json")
    return [rows.get(name, {}).get("description") or "" for name in graph.entities]


def _extracts(folder: Path) -> dict[str, str]:
    """Return the beginning of the Wikipedia article of each entity of CoDEx-S."""
    from kept.tasks.datasets.public_files import table

    rows = table(folder / "entity_text.tsv", is_quoted=True)
    return {row["qid"]: " ".join(row["extract"].split()[:60]) for row in rows if row["extract"]}


def cut_names(graph: KnowledgeGraph, descriptions: Sequence[str]) -> list[str]:
    """Return descriptions without the names of entities that share a triple with theirs.

    Whatever the triple is for, and whichever of both is the answer: no text says an answer's name.
    Names of fewer than four letters stay.
    """
    neighbours: dict[int, set[int]] = {}
    for head, _, tail in np.asarray(graph.triples).tolist():
        neighbours.setdefault(head, set()).add(tail)
        neighbours.setdefault(tail, set()).add(head)
    labels = [graph.label(i).casefold() for i in range(graph.n_entities)]
    cut = []
    for entity, text in enumerate(descriptions):
        folded = text.casefold()
        inside = {labels[other] for other in neighbours.get(entity, ()) if labels[other] in folded}
        names = sorted((name for name in inside if len(name) >= LEAST_NAME), key=len, reverse=True)
        for name in names:
            text = re.sub(rf"\b{re.escape(name)}\b", "", text, flags=re.IGNORECASE)
        cut.append(" ".join(text.split()))
    return cut


def shuffle_words(texts: Sequence[str], seed: int) -> list[str]:
    """Return each text with its words in a random order."""
    draws = generator(seed, "words of texts")
    return [" ".join(draws.permutation(text.split()).tolist()) for text in texts]


SplitArrays = tuple[Ids, NDArray[np.uint8], NDArray[np.uint8], dict[int, Ids]]


def split_arrays(splits: Splits, settings: SplitSettings, seed: int) -> SplitArrays:
    """Return triples, what each is for, the group of each entity, and the questions of a split."""
    from kept.kge.inductive import split_unseen

    graph = splits.graph
    split = split_unseen(
        splits, valid_share=settings.valid_share, test_share=settings.test_share,
        context_share=settings.context_share, seed=seed,
    )  # fmt: skip
    sizes = (graph.n_entities, graph.n_relations, graph.n_entities)
    every = np.concatenate([*splits.as_mapping().values()]).astype(np.int64)
    keys = np.unique(np.ravel_multi_index(tuple(every.T), sizes))
    triples = np.stack(np.unravel_index(keys, sizes), 1)
    use = np.full(len(keys), LEFT_OUT, np.uint8)

    def mark(rows: Ids, ids: Ids, what: int) -> None:
        whole = np.stack([ids[rows[:, 0]], rows[:, 1], ids[rows[:, 2]]])
        use[np.searchsorted(keys, np.ravel_multi_index(tuple(whole), sizes))] = what

    for name in ("transductive", "transductive valid"):
        mark(split.parts[name].queries, split.parts[name].entities, SEEN_ALONE)
    for part, name in NAMES.items():
        mark(split.parts[name].context, split.parts[name].entities, CONTEXT[part])
        mark(split.parts[name].queries, split.parts[name].entities, part)
    mark(split.train.context, split.train.entities, TRAIN)
    group = np.zeros(graph.n_entities, np.uint8)
    for number, part in ((1, VALID), (2, TEST)):
        entities = split.parts[NAMES[part]].entities
        group[np.setdiff1d(entities, split.train.entities)] = number
    queries = {}
    for part, n in ((VALID, settings.n_valid), (TEST, settings.n_test)):
        rows = np.flatnonzero(use == part)
        draws = generator(seed, "questions", NAMES[part])
        queries[part] = np.sort(draws.permutation(rows)[:n])
    return triples, use, group, queries


PieceRows = dict[str, list[list[int]]]
"""Word pieces of each text by kind; "relations" are the names of relations and of inverses."""


def write_pack(
    folder: Path, root: Path, names: Sequence[str], settings: SplitSettings, n_splits: int,
    announce: Callable[[str], None],
) -> None:  # fmt: skip
    """Write a file for each graph, and the host with the rows of its word table that occur."""
    from kept.hosts import load_host, load_tokenizer

    tokenizer, host = load_tokenizer("minilm"), load_host("minilm")
    special = [tokenizer.pad_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id]
    packs: dict[str, tuple[PieceRows, list[SplitArrays]]] = {}
    for name in names:
        splits, descriptions = read_benchmark(root, name)
        rows = _pieces_of(splits.graph, descriptions, tokenizer)
        packs[name] = rows, [split_arrays(splits, settings, seed) for seed in range(n_splits)]
        n_cut = sum(a != b for a, b in zip(rows["true"], rows["cut"], strict=True))
        announce(f"{name}: {splits.graph.n_entities} entities, names are cut from {n_cut} texts")
    every = (rows for pieces, _ in packs.values() for rows in pieces.values())
    used = {piece for rows in every for row in rows for piece in row}
    vocabulary = special + sorted(used - {*special})
    new = {old: i for i, old in enumerate(vocabulary)}
    for name, (pieces, of_splits) in packs.items():
        renamed = {kind: [[new[piece] for piece in row] for row in rows]
                   for kind, rows in pieces.items()}  # fmt: skip
        write_graph(folder / f"{name}.npz", renamed, of_splits)
    write_host(folder, host, vocabulary)


def _pieces_of(graph: KnowledgeGraph, descriptions: list[str], tokenizer: Any) -> PieceRows:
    """Return the pieces of all texts, as they are and as the controls read them."""
    from kept.kge.simkgc.texts import INVERSE, name_and_description

    labels = [graph.label(i) for i in range(graph.n_entities)]
    texts = {
        "true": descriptions,
        "cut": cut_names(graph, descriptions),
        "words": shuffle_words(descriptions, 0),
    }
    rows = {
        kind: [name_and_description(*pair) for pair in zip(labels, of_kind, strict=True)]
        for kind, of_kind in texts.items()
    }
    names = [graph.relation_label(i) for i in range(graph.n_relations)]
    rows["relations"] = [*names, *(INVERSE + name for name in names)]
    return {
        kind: tokenizer(of_kind, add_special_tokens=False)["input_ids"]
        for kind, of_kind in rows.items()
    }


def write_graph(path: Path, pieces: PieceRows, of_splits: Sequence[SplitArrays]) -> None:
    """Write what `World.read` opens: the texts of a graph, and its splits."""
    arrays: dict[str, NDArray[Any]] = {"n_relations": np.array(len(pieces["relations"]) // 2)}
    for kind, rows in pieces.items():
        n = N_RELATION_PIECES if kind == "relations" else N_PIECES
        entity_pieces = Pieces.of(rows, n)
        arrays |= {f"{kind}-ids": entity_pieces.ids, f"{kind}-starts": entity_pieces.starts}
    arrays["triples"] = of_splits[0][0].astype(np.uint16)
    for number, (_, use, group, queries) in enumerate(of_splits):
        arrays |= {f"use-{number}": use, f"group-{number}": group}
        for part, own_rows in queries.items():
            arrays[f"queries-{number}-{NAMES[part]}"] = own_rows.astype(np.int32)
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]


def write_host(folder: Path, host: Any, vocabulary: list[int]) -> None:
    """Write the host's weights: these rows of its word table in 8 bits, all else in float16."""
    weights = {name: value.detach() for name, value in host.state_dict().items()
               if value.is_floating_point()}  # fmt: skip
    words = weights.pop(WORDS)[vocabulary]
    scale = words.abs().amax(1, keepdim=True) / 127
    arrays = {name: value.half().numpy() for name, value in weights.items()}
    arrays |= {WORDS: (words / scale).round().char().numpy(), SCALE: scale.numpy()}
    np.savez(folder / "host.npz", **arrays)
    config = host.config.to_dict() | {"vocab_size": len(vocabulary), "dtype": "float32"}
    (folder / "host.json").write_text(json.dumps(config), encoding="utf-8")


def with_facts(world: SplitGraph, n: int) -> SplitGraph:
    """Return the world in which at most `n` facts of each held-out entity may be read.

    The others stay known. A fact of two held-out entities counts for both, and is read where both
    have room.
    """
    use = world.use.copy()
    for part, what in CONTEXT.items():
        rows = np.flatnonzero(use == what)
        rows = generator(world.split, "facts", NAMES[part]).permutation(rows)
        n_read = np.zeros(world.n_entities, np.int64)
        for row in rows.tolist():
            ends = [end for end in world.triples[row, [0, 2]].tolist() if world.group[end]]
            if max(n_read[end] for end in ends) < n:
                n_read[ends] += 1
            else:
                use[row] = SEEN_ALONE
    return replace(world, use=use)
