"""Readers of public files on hand-made ones, and the graphs that are made of them."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kept.errors import ConfigError
from kept.tasks.datasets import public_files as files
from kept.tasks.datasets.public_graphs import TYPE, public_graph, public_texts
from kg_loaders import Triple
from kg_loaders.errors import DamageError


def write(path: Path, text: str, *, packed: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if packed:
        path = path.with_name(f"{path.name}.gz")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())


def rows(*values: dict[str, Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of public files with two or three lines each."""
    codex = tmp_path / "codex"
    write(codex / "codex-s/train.txt", "Q1\tP1\tQ2\n\nQ2\tP2\tQ3\n", packed=True)
    write(codex / "codex-s/valid.txt", "Q3\tP1\tQ1\n")
    write(codex / "codex-s/test.txt", "Q1\tP2\tQ3\n")
    for split in ("train", "valid", "test"):
        write(codex / f"codex-m/{split}.txt", "Q1\tP1\tQ2\n")
    text = 'qid\tdescription\textract\nQ1\tcity\t"Says ""hello"".\nTwice."\nQ2\t\t\n'
    write(codex / "codex-s/entity_text.tsv", text)
    write(codex / "relations_en.json", json.dumps({"P1": {"label": "part of"}}))
    write(codex / "entity2types.json", json.dumps({"Q1": ["Q9"], "Q8": ["Q9", "Q7"]}))
    write(codex / "types_en.json", json.dumps({"Q9": {"label": "river"}}))
    labels = tmp_path / "wikidata_labels"
    write(labels / "qid_labels.tsv", 'qid\tlabel\nQ1\t"Seine\nQ2\t\n')
    write(labels / "qid_aliases.tsv", "qid\talias\nQ1\tLa Seine\n")
    freebase = {
        "/m/1": {"wikidata_id": "Q8", "description": "a stream"},
        "/m/2": {"wikidata_id": "Q1", "description": ""},
    }
    write(labels / "fb_entity2wikidata.json", json.dumps(freebase))
    lama = tmp_path / "lama"
    fact = {"sub_uri": "Q1", "predicate_id": "P7", "obj_uri": "Q5"}
    write(lama / "TREx/P7.jsonl", rows(fact), packed=True)
    names = [{"relation": "P1", "label": "belongs to"}, {"relation": "P7", "label": "near"}]
    write(lama / "relations.jsonl", rows(*names))
    with tarfile.open(lama / "lpaqa_TREx_train.tar.gz", "w:gz") as archive:
        for name in ("b/P7.jsonl", "a/P6.jsonl", "a/README"):
            data = rows({"sub_uri": "Q6", "obj_uri": "Q5"}).encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return tmp_path


def test_facts(root: Path) -> None:
    assert list(files.codex_triples(root, ("s",))) == [
        Triple("Q1", "P1", "Q2"), Triple("Q2", "P2", "Q3"),
    ]  # fmt: skip
    every = files.codex_triples(root, ("s", "m"), ("train", "valid", "test"))
    assert len(list(every)) == 7
    assert list(files.trex_facts(root)) == [Triple("Q1", "P7", "Q5")]
    facts = list(files.lpaqa_facts(root))
    assert facts == [Triple("Q6", "P6", "Q5"), Triple("Q6", "P7", "Q5")]


def test_a_line_that_is_no_triple_is_named(root: Path) -> None:
    write(root / "codex/codex-s/valid.txt", "Q3\tP1\tQ1\n\nQ3 P1 Q1\n")
    with pytest.raises(DamageError, match=r"valid\.txt:3: 'Q3 P1 Q1'.*fetch"):
        list(files.codex_triples(root, ("s",), ("valid",)))


def test_texts_and_names(root: Path) -> None:
    assert files.codex_descriptions(root) == {"Q1": 'city. Says "hello".\nTwice'}
    assert files.freebase_descriptions(root) == {"Q8": "a stream"}
    assert files.relation_names(root) == {"P1": "part of", "P7": "near"}  # CoDEx's name first


def test_a_packed_file_is_read_where_there_is_one(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "plain")
    assert files.content(tmp_path / "a.txt") == "plain"
    write(tmp_path / "a.txt", "packed", packed=True)
    assert files.content(tmp_path / "a.txt") == "packed"


def test_graphs(root: Path) -> None:
    types = public_graph("codex-types", root)
    labels = {name: types.label(types.entities.id(name)) for name in types.entities}
    assert labels == {"Q1": '"Seine', "Q9": "river", "Q8": "Q8", "Q7": "Q7"}  # nothing is unquoted
    assert types.n_triples == 3
    assert list(types.relations) == [TYPE]
    around = public_graph("codex-types", root, around=["Q1"])
    assert (around.n_triples, sorted(around.entities)) == (1, ["Q1", "Q9"])
    whole = public_graph("wikidata", root)
    assert whole.n_triples == 4 + 1 + 2 + 3  # CoDEx-M's own is in S
    assert public_graph("codex-s", root).n_triples == 2


WORDNET = {
    "noun": [
        "00000001 05 n 02 dog 0 domestic_dog 0 002 @ 00000002 n 0000 %p 00000003 n 0000 | barks",
        "00000002 05 n 01 canine 0 001 ~ 00000001 n 0000 | has teeth",
        "00000003 05 n 01 flag 0 002 #p 00000001 n 0000 + 00000004 v 0101 | a tail",
    ],
    "verb": ["00000004 38 v 01 flag 0 001 + 00000003 n 0101 01 + 08 00 | signal"],
    "adj": ["00000005 00 a 01 canine 0 001 \\ 00000002 n 0101 | of dogs"],
    "adv": ["00000006 02 r 01 doggedly 0 000 | with tenacity"],
}


def test_wordnet_is_a_graph_of_synsets(root: Path) -> None:
    for part, lines in WORDNET.items():
        write(root / f"wordnet/data.{part}", "".join(f"{line}\n" for line in lines))
    write(root / "wordnet/cntlist.rev", "dog%1:05:00:: 1 42\n")
    dog = "wn:00000001-n"
    graph = public_graph("wordnet", root, around=[dog])
    names = [graph.entities.name(i) for i in range(graph.n_entities)]
    assert sorted(names) == [dog, "wn:00000002-n", "wn:00000003-n"]
    relations = {graph.relations.name(i) for i in range(graph.n_relations)}
    assert relations == {"hypernym", "hyponym", "part_meronym", "part_holonym"}
    whole = public_graph("wordnet", root)
    assert {whole.entities.name(i) for i in range(whole.n_entities)} >= {
        "wn:00000004-v", "wn:00000005-a",
    }  # fmt: skip
    entity = graph.entities.find(dog)
    assert entity is not None
    assert "domestic dog" in [name for name, _ in graph.aliases(entity)]
    for make_files, faulty in ((public_graph, "codex-l"), (public_texts, "wiki")):
        with pytest.raises(ConfigError, match=faulty):
            make_files(faulty, root)
