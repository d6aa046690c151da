"""A folder like KEPT_DATA with every file that the linking experiment reads, a few rows in each."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.entity_linking.inputs.benchmarks import FILES
from experiments.entity_linking.inputs.graph import WIKI80

CITIES = ("Arden", "Borough", "Calder", "Dunmore", "Elsby", "Farrow", "Garth", "Holm")
N_PEOPLE = 48
PLANTED = "The old harbour of Arden was painted by nobody we know of"


def person(i: int) -> tuple[str, str]:
    """A person's identifier and name; surnames repeat."""
    first = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn")[i % 6]
    last = ("Moor", "North", "Oakes", "Pike", "Quill", "Reeve", "Stone", "Thorn")[i // 6]
    return f"Q{1000 + i}", f"{first} {last}"


def city(i: int) -> tuple[str, str]:
    return f"Q{1 + i % len(CITIES)}", CITIES[i % len(CITIES)]


def write_root(root: Path) -> Path:
    """Write everything; the annotated text holds one sentence of a benchmark, `PLANTED`."""
    people, cities = [person(i) for i in range(N_PEOPLE)], [city(i) for i in range(len(CITIES))]
    labels = [(*row, "elevant") for row in [*cities, *people]]
    labels.append(("Q900", "river mouth", "fewrel-surface"))
    _table(root / "wikidata_labels/qid_labels.tsv.gz", ("qid", "label", "source"), labels)
    aliases = [("Q1", "City of Oaks", "kamel-objects"), ("Q77", "unknown", "kamel-objects")]
    _table(root / "wikidata_labels/qid_aliases.tsv.gz", ("qid", "alias", "source"), aliases)
    freebase = {"wikidata_id": "Q2", "label": "Borough", "description": "city on a hill"}
    _zipped(root / "wikidata_labels/fb_entity2wikidata.json.gz", json.dumps({"/m/0": freebase}))
    _codex(root / "codex")
    _lama(root / "lama")
    _relations(root / "re")
    _annotated(root)
    _benchmarks(root / "el")
    _fully_marked(root / "typing")
    return root


def _fully_marked(folder: Path) -> None:
    articles = [
        f"Arden I-LOC\nmet O\nAda I-PER\nMoor I-PER\n. O\n\nHolm I-LOC\n{word} O\n\n-DOCSTART- O\n"
        for word in ("fell", "and O\nBorough", "rose")
    ]
    _zipped(folder / "wikigold/wikigold.conll.txt.gz", "\n".join(articles))
    posts = "in\tO\nCalder\tB-location\nGarth\tB-location\nPark\tI-location\n\nno\tO\n\n"
    (folder / "wnut17").mkdir(parents=True)
    (folder / "wnut17/emerging.dev.conll").write_text(posts)


def _codex(folder: Path) -> None:
    for size in ("s", "m"):
        triples = "".join(f"{person(i)[0]}\tP106\tQ8\n" for i in range(0, N_PEOPLE, 2))
        _zipped(folder / f"codex-{size}/train.txt.gz", triples + "Q1\tP17\tQ5555\n")
    columns = ("id", "qid", "name", "ent_type", "description", "extract")
    _table(
        folder / "codex-s/entity_text.tsv.gz", columns, [("0", "Q1", "Arden", "", "port", "Old.")]
    )
    types = {"Q515": {"label": "city", "description": "large place", "wiki": ""}}
    _zipped(folder / "types_en.json.gz", json.dumps(types))
    _zipped(folder / "entity2types.json.gz", json.dumps({"Q1": ["Q515"], "Q9999": ["Q515"]}))
    (folder / "relations_en.json").write_text(json.dumps({"P106": {"label": "occupation"}}))


def _lama(folder: Path) -> None:
    facts = []
    for i in range(N_PEOPLE):
        (subject, name), (town, where) = person(i), city(i)
        sentences = [
            f"{name} was born in [MASK] and wrote letter number {i}.",
            f"In [MASK] they still speak of {name}, who left in {1900 + i}.",
        ]
        facts.append(
            {
                "uuid": f"u{i}", "sub_uri": subject, "obj_uri": town, "predicate_id": "P19",
                "evidences": [
                    {"sub_surface": name, "obj_surface": where, "masked_sentence": sentence}
                    for sentence in sentences
                ],
            }
        )  # fmt: skip
    planted = {"sub_surface": "Arden", "obj_surface": "nobody"}
    planted["masked_sentence"] = PLANTED.replace("nobody", "[MASK]")
    facts.append(
        {"uuid": "planted", "sub_uri": "Q1", "obj_uri": "Q2", "predicate_id": "P19",
         "evidences": [planted]}
    )  # fmt: skip
    _zipped(folder / "TREx/P19.jsonl.gz", "".join(json.dumps(fact) + "\n" for fact in facts))
    (folder / "relations.jsonl").write_text('{"relation": "P19", "label": "place of birth"}\n')
    data = b'{"sub_uri": "Q3", "obj_uri": "Q4"}\n'
    with tarfile.open(folder / "lpaqa_TREx_train.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("TREx_train/P190.jsonl")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))


def _relations(folder: Path) -> None:
    row = {
        "token": ["Holm", "lies", "by", "the", "river", "mouth", "."],
        "h": {"name": "holm", "id": "Q8", "pos": [0, 1]},
        "t": {"name": "river mouth", "id": "Q900", "pos": [4, 6]},
        "relation": "located by water",
    }
    for name in WIKI80:
        _zipped(folder / "wiki80" / name, json.dumps(row) + "\n")
    fewrel = {
        "P206": [
            {"tokens": ["Garth", "is", "near", "Holm"], "h": ["garth", "Q7", [[0]]],
             "t": ["holm", "Q8", [[3]]]}
        ]
    }  # fmt: skip
    _zipped(folder / "fewrel/val_wiki.json.gz", json.dumps(fewrel))
    names = {"P206": ["located by water", "next to a body of water"]}
    (folder / "fewrel/pid2name.json").write_text(json.dumps(names))


def _annotated(root: Path) -> None:
    ernie = root / "text/ernie_pretrain_sample"
    _zipped(ernie / "wiki_token.gz", "1\t3\t5\t6\t7\n")
    _zipped(ernie / "wiki_entity.gz", "1\t3\tQ1\t#UNK#\t#UNK#\n")
    row = {"sent": "Dunmore wins", "start": 0, "end": 7, "labels": [], "ents": [["Q4", 0, 7, 0.9]]}
    _zipped(root / "typing/open_entity_wiki/ernie_9types/train.json.gz", json.dumps([row]))


def _benchmarks(folder: Path) -> None:
    for name, file in FILES.items():
        articles = []
        for i, text in enumerate((f"Moor met Reeve in Calder, {name}.", PLANTED, "Who is Zork?")):
            spans = {"Moor": "Q1000", "Reeve": "Q1031", "Calder": "Q3", "Arden": "Q1"}
            spans |= {"Zork": "<NIL>"}
            labels = [
                {"id": number, "span": [text.index(s), text.index(s) + len(s)], "entity_id": entity,
                 "type": "Q215627" if entity > "Q1" else "OTHER"}
                for number, (s, entity) in enumerate(spans.items())
                if s in text
            ]  # fmt: skip
            article = {"id": i, "text": text, "labels": labels, "evaluation_span": [0, len(text)]}
            articles.append(json.dumps(article) + "\n")
        path = folder / file
        if file.endswith(".gz"):
            _zipped(path, "".join(articles))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(articles))
    candidates = [{"qid": "Q1001", "name": "", "systems": ["a"]}]
    candidates.append({"qid": "Q1000", "name": "", "systems": ["a", "b"]})
    row = json.dumps({"mention": "Moor", "candidates": candidates}) + "\n"
    _zipped(folder / "candidates_elevant.jsonl.gz", row)
    counted = [("Calder", "Q3", "5"), ("calder", "Q2", "9")]
    _table(folder / "mention_prior_trex.tsv.gz", ("surface", "qid", "count"), counted)


def _table(path: Path, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    _zipped(path, "".join("\t".join(row) + "\n" for row in [columns, *rows]))


def _zipped(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
