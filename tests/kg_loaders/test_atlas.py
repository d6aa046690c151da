"""The atlas: its counts, its gold spans, its splits, and its facts against CoDEx."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from kg_loaders import KnowledgeGraph, TextKind, Triple, atlas
from kg_loaders.atlas.compose import compose
from kg_loaders.atlas.tables import DERIVED, load
from kg_loaders.atlas.wording import Surfaces
from kg_loaders.errors import SourceError

FOLDER = files("kg_loaders.atlas")
DATA_FILES = ("triples.tsv", "entities.jsonl", "sentences.jsonl", "splits.json", "probes.jsonl")


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return atlas.graph()


@pytest.fixture(scope="module")
def parts() -> atlas.AtlasSplits:
    return atlas.splits()


@pytest.fixture(scope="module")
def texts() -> list[atlas.AtlasSentence]:
    return atlas.sentences()


def pairs(triples: tuple[Triple, ...]) -> set[frozenset[str]]:
    return {frozenset((t.head, t.tail)) for t in triples}


def test_sizes_reach_what_is_promised(
    graph: KnowledgeGraph, parts: atlas.AtlasSplits, texts: list[atlas.AtlasSentence]
) -> None:
    assert graph.n_entities >= 1000
    assert graph.n_relations >= 12
    assert graph.n_triples >= 4000
    assert len(texts) >= 3000
    assert len(parts.inductive_entities) >= 60
    assert len(atlas.probes()) >= 200
    assert sum((FOLDER / name).stat().st_size for name in DATA_FILES) < 2_500_000


def test_readme_states_the_counts(
    graph: KnowledgeGraph, parts: atlas.AtlasSplits, texts: list[atlas.AtlasSentence]
) -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    stated = {
        name.strip(): int(number.replace(",", ""))
        for name, number in re.findall(r"^\| ([a-z ,()]+) \| ([\d,]+) \|$", readme, re.M)
    }
    by_split = Counter(sentence.split for sentence in texts)
    assert stated == {
        "entities": graph.n_entities,
        "relations": graph.n_relations,
        "triples": graph.n_triples,
        "aliases": sum(len(graph.aliases(e)) for e in range(graph.n_entities)),
        "sentences": len(texts),
        "sentences, train": by_split["train"],
        "sentences, valid": by_split["valid"],
        "sentences, test": by_split["test"],
        "mentions": sum(len(sentence.mentions) for sentence in texts),
        "triples, train": len(parts.train),
        "triples, valid": len(parts.valid),
        "triples, test": len(parts.test),
        "triples, inductive": len(parts.inductive),
        "inductive entities": len(parts.inductive_entities),
        "probes": len(atlas.probes()),
    }


def test_every_entity_has_its_texts(graph: KnowledgeGraph) -> None:
    seen: dict[tuple[str, str], str] = {}
    for entity in range(graph.n_entities):
        name = graph.entities.name(entity)
        assert re.fullmatch(r"Q[1-9]\d*", name)
        assert len(graph.entity_texts.of(entity, TextKind.LABEL)) == 1
        assert len(graph.entity_texts.of(entity, TextKind.DESCRIPTION)) == 1
        description = graph.description(entity) or ""
        assert re.fullmatch(r"[A-Z0-9ÁÉÍÓÖŁŻØÅ'ʻ].{12,}\.", description), (name, description)
        assert len(graph.outgoing(entity)) + len(graph.incoming(entity)) > 0, name
        assert not {alias for alias, _ in graph.aliases(entity)} & {graph.label(entity)}
        namesake = seen.setdefault((graph.label(entity), description), name)
        assert namesake == name, "two entities that nothing tells apart"
    for relation in range(graph.n_relations):
        assert re.fullmatch(r"P[1-9]\d*", graph.relations.name(relation))
        assert graph.relation_label(relation) != graph.relations.name(relation)


def test_types_are_the_p31_tails(graph: KnowledgeGraph) -> None:
    for entity in range(graph.n_entities):
        tails = [
            graph.entities.name(int(tail))
            for _, relation, tail in graph.outgoing(entity)
            if graph.relations.name(int(relation)) == "P31"
        ]
        assert sorted(graph.types(entity)) == sorted(tails)


def test_labels_are_ambiguous_where_the_world_is(graph: KnowledgeGraph) -> None:
    owners = defaultdict(set)
    for entity in range(graph.n_entities):
        for name in (graph.label(entity), *(alias for alias, _ in graph.aliases(entity))):
            owners[name].add(graph.entities.name(entity))
    assert owners["Paris"] == {"Q90", "Q830149"}
    assert owners["Congo"] == {"Q3503", "Q974", "Q971"}
    assert owners["Niger"] == {"Q1032", "Q3542"}
    assert owners["Georgia"] == {"Q230", "Q1428"}
    assert len(owners["Cambridge"]) == 3
    assert sum(len(entities) > 1 for entities in owners.values()) >= 60


def test_every_span_is_a_name_of_its_entity(
    graph: KnowledgeGraph, texts: list[atlas.AtlasSentence]
) -> None:
    n_alias, seen = 0, set()
    for sentence in texts:
        assert sentence.id not in seen
        seen.add(sentence.id)
        end_before = 0
        assert sentence.mentions
        assert sentence.facts
        for start, end, entity in sentence.mentions:
            assert end_before <= start < end <= len(sentence.text)
            end_before = end
            surface, index = sentence.text[start:end], graph.entities.id(entity)
            names = [graph.label(index), *(alias for alias, _ in graph.aliases(index))]
            assert surface in names, (sentence.id, surface, names)
            n_alias += surface != names[0]
            assert not sentence.text[start - 1 : start].isalnum()
            assert not sentence.text[end : end + 1].isalnum()
    assert n_alias >= 1000


def test_texts_state_facts_of_the_graph_about_their_mentions(
    parts: atlas.AtlasSplits, texts: list[atlas.AtlasSentence]
) -> None:
    known = {*parts.train, *parts.valid, *parts.test, *parts.inductive}
    for sentence in texts:
        mentioned = {entity for _, _, entity in sentence.mentions}
        for fact in sentence.facts:
            assert fact in known, (sentence.id, fact)
            assert {fact.head, fact.tail} <= mentioned, (sentence.id, fact)


def test_no_name_in_a_phrase_is_left_unmarked(texts: list[atlas.AtlasSentence]) -> None:
    surfaces = Surfaces(load())
    actual = {
        s.id: unmarked for s in texts if (unmarked := surfaces.unmarked(s.text, list(s.mentions)))
    }
    assert actual == {}


def test_texts_differ_and_phrases_vary(texts: list[atlas.AtlasSentence]) -> None:
    assert len({sentence.text for sentence in texts}) == len(texts)
    frames = defaultdict(set)
    for sentence in texts:
        frame = sentence.text
        for start, end, _ in reversed(sentence.mentions):
            frame = f"{frame[:start]}_{frame[end:]}"
        for fact in sentence.facts:
            frames[fact.relation].add(re.sub(r"\b(?:[Tt]he|an?) _", "_", frame))
    assert {relation: len(f) for relation, f in frames.items() if len(f) < 5} == {}
    assert sum(sentence.id.startswith("passage") for sentence in texts) >= 50
    pronouns = re.compile(r"^(?:He|She|They|It) ", re.M)
    assert not [s.text for s in texts if pronouns.search(s.text) and "passage" not in s.id]


def test_split_is_a_partition_without_leaks(
    graph: KnowledgeGraph, parts: atlas.AtlasSplits
) -> None:
    together = [*parts.train, *parts.valid, *parts.test, *parts.inductive]
    assert len(together) == len(set(together)) == graph.n_triples
    seen_entities = {name for t in parts.train for name in (t.head, t.tail)}
    seen_relations = {t.relation for t in parts.train}
    for held in (parts.valid, parts.test):
        assert not pairs(held) & pairs(parts.train)
        for t in held:
            assert {t.head, t.tail} <= seen_entities
            assert t.relation in seen_relations
            assert t.relation != "P31"
    assert not pairs(parts.valid) & pairs(parts.test)
    n_held = len(parts.valid) + len(parts.test)
    assert n_held / (n_held + len(parts.train)) == pytest.approx(0.12, abs=0.01)


def test_inverses_and_symmetric_twins_stand_together(parts: atlas.AtlasSplits) -> None:
    n_twins = 0
    for part in (parts.train, parts.valid, parts.test, parts.inductive):
        members = set(part)
        for t in part:
            if t.relation in DERIVED:
                assert Triple(t.tail, DERIVED[t.relation], t.head) in members
                n_twins += 1
    assert n_twins > 800


def test_inductive_entities_are_unseen(
    graph: KnowledgeGraph, parts: atlas.AtlasSplits, texts: list[atlas.AtlasSentence]
) -> None:
    unseen = set(parts.inductive_entities)
    for t in (*parts.train, *parts.valid, *parts.test):
        assert not {t.head, t.tail} & unseen
    assert unseen == {n for t in parts.inductive for n in (t.head, t.tail)} & unseen
    assert all({t.head, t.tail} & unseen for t in parts.inductive)
    for sentence in texts:
        if sentence.split != "test":
            assert not {entity for _, _, entity in sentence.mentions} & unseen
    report = {e for s in texts for _, _, e in s.mentions} & unseen
    assert report == unseen, "every reserved entity has a sentence of its own"


def test_training_texts_never_bring_a_held_out_pair_together(
    parts: atlas.AtlasSplits, texts: list[atlas.AtlasSentence]
) -> None:
    held = {"valid": pairs(parts.valid), "test": pairs(parts.test)}
    n_test = 0
    for sentence in texts:
        entities = sorted({entity for _, _, entity in sentence.mentions})
        together = {frozenset((a, b)) for a in entities for b in entities if a < b}
        if sentence.split == "train":
            assert not together & (held["valid"] | held["test"]), sentence.id
        if sentence.split == "valid":
            assert not together & held["test"], sentence.id
        n_test += bool(together & held["test"])
    assert n_test >= 300


def test_descriptions_do_not_name_held_out_tails(
    graph: KnowledgeGraph, parts: atlas.AtlasSplits
) -> None:
    names = {graph.entities.name(e): graph.label(e) for e in range(graph.n_entities)}
    generated = ("P17", "P206", "P69")
    for t in (*parts.valid, *parts.test):
        if t.relation in generated:
            report = graph.description(graph.entities.id(t.head)) or ""
            assert not re.search(rf"\b(?:in|on) (?:the )?{re.escape(names[t.tail])}\b", report), t
            back = graph.description(graph.entities.id(t.tail)) or ""
            assert f"among them {names[t.head]}." not in back, t


def test_probes_ask_facts_of_the_graph(graph: KnowledgeGraph, parts: atlas.AtlasSplits) -> None:
    known = {*parts.train, *parts.valid, *parts.test, *parts.inductive}
    rows = atlas.probes()
    assert len({(p.subject, p.relation, p.object) for p in rows}) == len(rows)
    for probe in rows:
        assert Triple(probe.subject, probe.relation, probe.object) in known
        assert probe.template.count("[X]") == probe.template.count("[Y]") == 1
    per_relation = Counter(p.relation for p in rows)
    assert len(per_relation) >= 20
    assert max(per_relation.values()) == 20


def test_sentences_can_be_asked_for_by_split(texts: list[atlas.AtlasSentence]) -> None:
    for name in ("train", "valid", "test"):
        assert atlas.sentences(name) == [s for s in texts if s.split == name]


def test_graph_restricted_to_training_keeps_the_id_space(
    graph: KnowledgeGraph, parts: atlas.AtlasSplits
) -> None:
    rows = [
        (graph.entities.id(h), graph.relations.id(r), graph.entities.id(t))
        for h, r, t in parts.train
    ]
    train = graph.with_triples(np.array(rows, np.int32), note="train")
    assert train.n_triples == len(parts.train)
    assert train.id_space_hash == graph.id_space_hash
    test_rows = [
        (graph.entities.id(h), graph.relations.id(r), graph.entities.id(t))
        for h, r, t in parts.test
    ]
    assert not train.contains(np.array(test_rows, np.int32)).any()
    assert graph.contains(np.array(test_rows, np.int32)).all()


def test_composing_again_gives_the_same_bytes(tmp_path: Path) -> None:
    compose(tmp_path)
    for name in DATA_FILES:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name


def test_tables_name_the_row_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    from kg_loaders.atlas import tables

    row = {"id": "Q1", "name": "A", "kind": "city", "aliases": "", "P17": "Nowhere"}
    monkeypatch.setattr(tables, "TABLES", ("one",))
    monkeypatch.setattr(tables, "rows", lambda name: iter([row]))
    with pytest.raises(SourceError, match=r"A, P17: no row is named 'Nowhere'"):
        tables.load()
