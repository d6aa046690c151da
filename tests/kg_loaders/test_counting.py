"""Numbers with their nouns: "1 text", not "1 texts"."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted

ROOT = Path(__file__).resolve().parents[2]
NOUNS = "texts|links|triples|facts|entities|relations|questions|predictions"
PLURALS = re.compile(rf"(?<!of )(?<!the )\{{[^{{}}]+\}} (?:{NOUNS})(?=[\"),;:.]| in | of )")
"""A count in an f-string with a noun that is always in the plural, and no verb behind it."""


@pytest.mark.parametrize(
    ("n", "things", "words"),
    [
        (1, "texts", "1 text"),
        (0, "texts", "0 texts"),
        (2, "entities", "2 entities"),
        (1, "entities", "1 entity"),
        (1, "classes", "1 class"),
        (1, "word pieces", "1 word piece"),
        (1, "duplicates", "1 duplicate"),
    ],
)
def test_a_noun_is_in_the_singular_after_one_alone(n: int, things: str, words: str) -> None:
    assert counted(n, things) == words


def test_a_graph_of_one_triple_is_counted_in_the_singular() -> None:
    graph = KnowledgeGraph.from_triples([("Ada", "born in", "London")])
    assert repr(graph).startswith("KnowledgeGraph(2 entities, 1 relation, 1 triple, ")


def test_what_commands_print_is_counted_by_this_function() -> None:
    files = sorted((ROOT / "kept/apps/cli").rglob("*.py"))
    assert len(files) > 30
    echoed = re.compile(r"echo\((?:[^()]|\([^()]*\))*\)")
    uncounted = [
        f"{file.relative_to(ROOT)}: {match}"
        for file in files
        for call in echoed.findall(file.read_text(encoding="utf-8"))
        for match in PLURALS.findall(call)
    ]
    assert uncounted == []
