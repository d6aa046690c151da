"""What every format promises: lazy, repeatable records, exact counts, damage with its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow.csv import read_csv

from kg_loaders import (
    FORMATS,
    DamageReport,
    KgError,
    Record,
    Source,
    SourceError,
    Text,
    Triple,
    load,
)

GARBAGE = b"\xff\xfe garbage\0\n"
ITEM = (
    '{"type":"item","id":"Q90","labels":{"en":{"language":"en","value":"Paris"}},'
    '"descriptions":{},"aliases":{"en":[{"language":"en","value":"City of Light"}]},'
    '"claims":{"P17":[{"type":"statement","rank":"normal","mainsnak":{"snaktype":"value",'
    '"property":"P17","datatype":"wikibase-item","datavalue":{"type":"wikibase-entityid",'
    '"value":{"entity-type":"item","numeric-id":142,"id":"Q142"}}}}]}}'
)
WORDNET = {
    "data.noun": "00000001 05 n 01 dog 0 001 @ 00000002 n 0000 | barks\n"
    "00000002 05 n 01 animal 0 001 ~ 00000001 n 0000 | lives\n",
    "index.noun": "dog n 1 1 @ 1 1 00000001\nanimal n 1 1 ~ 1 0 00000002\n",
    **{f"{stem}.{part}": "" for stem in ("data", "index") for part in ("verb", "adj", "adv")},
    **{f"{part}.exc": "" for part in ("noun", "verb", "adj", "adv")},
    "cntlist.rev": "dog%1:05:00:: 1 42\n",
}
PARQUET = "head,relation,tail\na,r,b\na,r,b\n"
"""As CSV, which is turned into the file."""
OF_A_FOLDER = ("wordnet", "graphrag")
# format: the files of a sample; the first of them is read, of `OF_A_FOLDER` their folder
SAMPLES: dict[str, dict[str, str]] = {
    "tsv": {"x.tsv": "a\tr\tb\nb\tr\tc\n\n# c\na\tr\tb\n"},
    "texts": {"x.tsv": "a\tA\tthe first\nb\tB\n"},
    "jsonl": {"x.jsonl": '{"id": "a", "label": "A", "aliases": ["x", ["y", 2]], "types": ["t"]}\n'},
    "openke": {
        "train2id.txt": "2\n0 1 0\n1 0 0\n",
        "entity2id.txt": "2\na\t0\nb\t1\n",
        "relation2id.txt": "1\nr\t0\n",
    },
    "rdf": {"x.nt": '<u:a> <u:r> <u:b> .\n<u:a> <http://schema.org/name> "A"@en .\n'},
    "wikidata": {"x.json": f"[\n{ITEM}\n]\n"},
    "wordnet": WORDNET,
    "spo": {"x.spo": "a\tr\tb\n"},
    "neo4j": {
        "x.csv": '"_id","_labels","name","_start","_end","_type"\n"1",":City","Paris",,,\n'
        '"2",,"Lyon, ""the\nsecond""",,,\n,,,"1","2","NEAR"\n'
    },
    "wikidata5m": {"wikidata5m_entity.txt": "Q1\tParis\tCity of Light\nQ2\tFrance\n"},
    "csv": {"x.csv": 'a,r,b\nb,r,"c, d"\n\na,r,b\n'},
    "parquet": {"x.parquet": PARQUET},
    "conceptnet": {"assertions.csv": "/a/1\t/r/IsA\t/c/en/dog\t/c/en/animal\t{}\n"},
    "graphml": {
        "x.graphml": '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        '<key id="d0" for="edge" attr.name="relation"/><graph><node id="a"/><node id="b"/>'
        '<edge source="a" target="b"><data key="d0">r</data></edge></graph></graphml>'
    },
    "llamaindex": {"graph_store.json": '{"graph_dict": {"a": [["r", "b"], ["s", "c"]]}}'},
    "neo4j-graphrag": {
        "x.json": '{"nodes": [{"id": "0", "label": "City", "properties": {"name": "Paris"}}],'
        '"relationships": [{"start_node_id": "0", "type": "IN", "end_node_id": "1"}]}'
    },
    "graphrag": {
        "entities.parquet": "title,type,description\nParis,city,old\nSeine,river,\n",
        "relationships.parquet": "source,target,description\nParis,Seine,on it\nSeine,Paris,\n",
    },
    "json": {"x.json": '[["a", "r", "b"], {"id": "a", "name": "A"}]'},
    "obo": {"x.obo": "format-version: 1.2\n\n[Term]\nid: a\nname: A\nis_a: b ! B\nis_a: b\n"},
    "umls": {
        "MRCONSO.RRF": "C0000001|ENG|P|L1|PF|S1|Y|A1||||MSH|MH|D1|Fever|0|N||\n"
        "C0000001|ENG|S|L2|PF|S2|N|A2||||MSH|ET|D1|Pyrexia|0|N||\n"
    },
    "wnlmf": {
        "x.xml": '<LexicalResource><Lexicon language="en"><LexicalEntry id="e">'
        '<Lemma writtenForm="dog" partOfSpeech="n"/><Sense id="s" synset="a"/></LexicalEntry>'
        '<Synset id="a" partOfSpeech="n"><SynsetRelation relType="hypernym" target="b"/>'
        "<Definition>barks</Definition></Synset></Lexicon></LexicalResource>"
    },
}


def test_complete() -> None:
    assert list(SAMPLES) == list(FORMATS), "every format has a sample, in the order of FORMATS"


@pytest.fixture(params=SAMPLES)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    name: str = request.param
    for file, text in SAMPLES[name].items():
        (tmp_path / file).write_text(text)
        if file.endswith(".parquet"):
            pq.write_table(read_csv(tmp_path / file), tmp_path / file)
    first = tmp_path / next(iter(SAMPLES[name]))
    return Source(tmp_path if name in OF_A_FOLDER else first, name)


def test_records(source: Source) -> None:
    records = source.read(DamageReport())
    assert isinstance(records, Iterator)
    kinds: dict[type[Record], int] = {}
    for record in records:
        kinds[type(record)] = kinds.get(type(record), 0) + 1
        names = record if isinstance(record, Triple) else (record.node, record.value)
        assert all(isinstance(name, str) and name for name in names)
    assert set(kinds) <= {Triple, Text}
    assert kinds


def test_reading_again_gives_the_same(source: Source) -> None:
    assert list(source.read(DamageReport())) == list(source.read(DamageReport()))


def test_the_count_is_exact(source: Source) -> None:
    graph, report = load([source])
    report.check()
    assert report.n_triples == graph.n_triples
    assert report.n_rejected == 0
    twice, again = load([source, source])
    assert twice.content_hash == graph.content_hash
    assert again.n_lines == 2 * report.n_lines
    assert again.n_duplicates == 2 * report.n_duplicates + report.n_triples + report.n_texts


def test_missing_file(source: Source, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nothing-here"):
        load([Source(tmp_path / "nothing-here", source.format)])


def test_damage_is_named_and_counted(source: Source) -> None:
    good, _ = load([source])
    damaged = source.path
    if source.path.is_dir():
        damaged /= "data.noun" if source.format == "wordnet" else "entities.parquet"
    damaged.write_bytes(damaged.read_bytes() + GARBAGE)
    with pytest.raises(KgError, match=damaged.name):
        load([source])
    if damaged.suffix == ".parquet":  # whose index stands at its end: it is whole or nothing
        with pytest.raises(SourceError, match="cannot be read as Parquet"):
            load([source], policy="skip")
        return
    graph, report = load([source], policy="skip")
    assert graph.content_hash == good.content_hash
    assert report.n_rejected >= 1
    assert report.rejections[-1].file == str(damaged)
