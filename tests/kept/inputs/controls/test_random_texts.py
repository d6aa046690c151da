"""False texts, word by word: what is drawn, from where, and that it is the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from kept.inputs.controls.conditions import controlled_graph, random_entities
from kept.inputs.controls.random_texts import random_words, texts_of_others
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.errors import GraphMismatchError
from kg_loaders.texts import Texts

NAMES = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"]


def texts_of(*rows: tuple[str, TextKind, str]) -> Texts:
    triples = [Triple(node, "r", node) for node in dict.fromkeys(row[0] for row in rows)]
    return graph_from_records([*triples, *(Text(*row, "en") for row in rows)]).entity_texts


def of_kind(texts: Texts, kind: TextKind) -> list[str]:
    values = texts.values.to_pylist()
    return [
        value
        for value, kind_of_value in zip(values, texts.kinds.tolist(), strict=True)
        if kind_of_value == kind
    ]


def test_every_word_is_another_of_its_length_and_of_its_kind_of_text() -> None:
    rows = [(f"n{i}", TextKind.LABEL, f"{name} of {name}{name}") for i, name in enumerate(NAMES)]
    rows += [(f"n{i}", TextKind.DESCRIPTION, "pig" if i % 2 else "cow") for i in range(8)]
    texts = texts_of(*rows)
    labels, descriptions, made_anew = [], [], set()
    for seed in range(10):
        changed = random_words(texts, seed, "entities")
        labels.append(of_kind(changed, TextKind.LABEL))
        for value, original in zip(labels[-1], of_kind(texts, TextKind.LABEL), strict=True):
            (short, of, long), (own_short, local_rows, own_long) = (
                value.split(" "),
                original.split(" "),
            )
            assert short in NAMES
            assert short != own_short
            assert (len(long), len(of)) == (6, 2)
            assert long[:3] == long[3:] != own_long[:3], "a word of these texts, not made anew"
            assert set(of) <= set("".join(NAMES) + local_rows), "the only one of its length"
            made_anew.add(of)
        descriptions.append(of_kind(changed, TextKind.DESCRIPTION))
        expected = ["cow" if i % 2 else "pig" for i in range(8)]
        assert descriptions[-1] == expected, "of two words of one length each is the other"
    assert len(made_anew) > 9, "of random characters, each time anew"
    assert len(set(map(tuple, labels))) == 10
    assert {row[0].split(" ")[0] for row in labels} <= {*NAMES[1:]}
    first_words = [value.split(" ")[0] for value in labels[0]]
    assert len(set(first_words)) > 2, "each occurrence is drawn for itself"


def test_the_words_of_a_seed_are_always_the_same() -> None:
    """Also where strings are hashed differently: no set decides."""
    rows = [(f"n{i}", TextKind.LABEL, f"{name} {'xy'[i % 2] * 9}") for i, name in enumerate(NAMES)]
    rows.append(("n0", TextKind.ALIAS, "alone"))
    values = random_words(texts_of(*rows), 3, "entities").values.to_pylist()
    assert values == [
        "dog yyyyyyyyy", "nonne", "cat xxxxxxxxx", "dog yyyyyyyyy", "ant xxxxxxxxx",
        "gnu yyyyyyyyy", "eel xxxxxxxxx", "bee yyyyyyyyy", "bee xxxxxxxxx",
    ]  # fmt: skip


def test_empty_words_stay() -> None:
    texts = texts_of(("a", TextKind.LABEL, "up  down"), ("b", TextKind.LABEL, "to  fro"))
    for value, original in zip(
        random_words(texts, 0, "w").values.to_pylist(), texts.values.to_pylist(), strict=True
    ):
        assert [*map(len, value.split(" "))] == [*map(len, original.split(" "))]


def test_texts_keep_their_order_at_the_other_node() -> None:
    rows = [(f"n{i}", TextKind.LABEL, name) for i, name in enumerate(NAMES)]
    rows += [("n3", TextKind.ALIAS, f"alias {i:02d}") for i in range(40)]
    texts = texts_of(*rows)
    others = np.roll(np.arange(8), 3)
    moved = texts_of_others(texts, others)
    values, theirs = texts.values.to_pylist(), moved.values.to_pylist()
    for node, other in enumerate(others.tolist()):
        texts_of_node = slice(texts.offsets[node], texts.offsets[node + 1])
        at = slice(moved.offsets[other], moved.offsets[other + 1])
        assert theirs[at] == values[texts_of_node]
        assert moved.kinds[at].tolist() == texts.kinds[texts_of_node].tolist()


def test_a_map_of_another_graph_moves_no_text(
    small_graph: KnowledgeGraph, world: KnowledgeGraph
) -> None:
    with pytest.raises(GraphMismatchError, match="the map of random entities"):
        controlled_graph(
            small_graph, "random-entity", 0, entities=random_entities(world, 0), reads="texts"
        )
