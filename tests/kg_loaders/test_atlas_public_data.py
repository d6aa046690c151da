"""The atlas against public data: its facts, and its names."""

from __future__ import annotations

import csv
import gzip
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from kg_loaders import KnowledgeGraph, Triple, atlas

FUNCTIONAL = ("P17", "P19", "P20", "P30", "P36", "P38", "P50", "P57", "P86", "P170")
# CoDEx names a part or a whole of the same place: a borough, a district, a city or its region.
CONVENTIONS = {
    ("Q128297", "P19"),  # Maria Callas
    ("Q134456", "P19"),  # Yukio Mishima
    ("Q134456", "P20"),  # Yukio Mishima
    ("Q1779", "P20"),  # Louis Armstrong
    ("Q203643", "P20"),  # James McNeill Whistler
    ("Q25089", "P19"),  # Woody Allen
    ("Q37767", "P20"),  # T. S. Eliot
    ("Q38111", "P19"),  # Leonardo DiCaprio
    ("Q39212", "P20"),  # John Steinbeck
    ("Q40909", "P19"),  # Virginia Woolf
    ("Q4612", "P20"),  # Marlene Dietrich
    ("Q48987", "P20"),  # Jonathan Demme
    ("Q4985", "P19"),  # Herman Melville
    ("Q51506", "P20"),  # Richard Attenborough
    ("Q5383", "P20"),  # David Bowie
    ("Q5928", "P20"),  # Jimi Hendrix
    ("Q83155", "P20"),  # Jacques-Louis David
}


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return atlas.graph()


def codex(root: Path) -> dict[tuple[str, str], set[str]]:
    known = defaultdict(set)
    for part in ("codex-s", "codex-m"):
        for name in ("train", "valid", "test"):
            for line in lines(root / "codex" / part / f"{name}.txt"):
                head, relation, tail = line.split()
                known[head, relation].add(tail)
    return known


def lines(path: Path) -> Iterator[str]:
    zipped = path.with_name(f"{path.name}.gz")
    with gzip.open(zipped, "rt") if zipped.exists() else path.open() as stream:
        yield from stream


def say(capsys: pytest.CaptureFixture[str], *lines: str) -> None:
    with capsys.disabled():
        sys.stdout.write("\n" + "".join(f"{line}\n" for line in lines))


@pytest.mark.data
def test_facts_against_codex(
    data_root: Path, graph: KnowledgeGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    known = codex(data_root)
    ours = defaultdict(set)
    for triple in (t for t in atlas.records() if isinstance(t, Triple)):
        ours[triple.head, triple.relation].add(triple.tail)
    n_compared, n_agreeing = Counter[str](), Counter[str]()
    disagreeing = []
    for (head, relation), tails in sorted(ours.items()):
        theirs = known.get((head, relation))
        if theirs is None:
            continue
        n_compared[relation] += len(tails)
        n_agreeing[relation] += len(tails & theirs)
        if relation in FUNCTIONAL and not tails & theirs:
            disagreeing.append((head, relation))
    total, agree = n_compared.total(), n_agreeing.total()
    say(
        capsys,
        f"atlas against CoDEx-S/M: {total} facts compared, {agree} agreeing, "
        f"{total - agree} not in CoDEx, {len(disagreeing)} functional ones disagreeing",
        *(f"  {r}: {n_agreeing[r]} of {n_compared[r]}" for r in sorted(n_compared)),
        *(
            f"  {graph.label(graph.entities.id(h))} {r}: atlas {sorted(ours[h, r])}, "
            f"CoDEx {sorted(known[h, r])}"
            for h, r in disagreeing
        ),
    )
    assert n_compared.total() > 2000
    assert n_agreeing.total() / n_compared.total() > 0.85
    assert set(disagreeing) == CONVENTIONS
    for relation in ("P17", "P30", "P57"):
        assert n_agreeing[relation] == n_compared[relation], relation


@pytest.mark.data
def test_labels_against_wikidata_names(
    data_root: Path, graph: KnowledgeGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    names = defaultdict(set)
    for file in ("qid_labels", "qid_aliases"):
        with gzip.open(data_root / "wikidata_labels" / f"{file}.tsv.gz", "rt") as stream:
            reader = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
            next(reader)
            for qid, name, _ in reader:
                names[qid].add(name.casefold())
    unknown, agreeing, different = [], 0, []
    for entity in range(graph.n_entities):
        qid = graph.entities.name(entity)
        ours = {graph.label(entity), *(alias for alias, _ in graph.aliases(entity))}
        if qid not in names:
            unknown.append(graph.label(entity))
        elif {name.casefold() for name in ours} & names[qid]:
            agreeing += 1
        else:
            different.append((qid, graph.label(entity), sorted(names[qid])[:3]))
    say(
        capsys,
        f"atlas names: {agreeing} agreeing, {len(different)} other spellings, "
        f"{len(unknown)} identifiers that these sources do not hold",
        *(f"  {row}" for row in different),
    )
    assert agreeing > 2000
    assert len(different) <= 25
