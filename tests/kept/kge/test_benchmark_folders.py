"""Benchmark folders in the forms that are in the wild: found, read alike, or refused by name."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from kept.kge.splits import Splits, read_negatives, read_splits
from kg_loaders import SourceError, TextKind

TRAIN = [("a", "r", "b"), ("b", "s", "c"), ("c", "r", "a")]
ROWS = {"train": TRAIN, "valid": [("a", "s", "c")], "test": [("b", "r", "c")]}


def lines(rows: list[tuple[str, str, str]], order: str = "hrt") -> str:
    return "".join("\t".join(row["hrt".index(one)] for one in order) + "\n" for row in rows)


def read(path: Path) -> Splits:
    return read_splits(path, holdout=0.25, seed=0)


def named(splits: Splits) -> dict[str, list[tuple[str, str, str]]]:
    graph = splits.graph
    return {
        name: [(graph.entities.name(h), graph.relations.name(r), graph.entities.name(t))
               for h, r, t in rows.tolist()]
        for name, rows in splits.as_mapping().items()
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ending", "order", "header"),
    [
        (".txt", "hrt", ""),
        (".tsv", "hrt", "head\trelation\ttail\n"),
        (".txt", "htr", "Subject\tObject\tPredicate\n"),
        (".triples", "htr", ""),
    ],
)
def test_columns_are_found_by_ending_and_header(
    ending: str, order: str, header: str, tmp_path: Path
) -> None:
    for name, rows in ROWS.items():
        stem = "dev" if name == "valid" else name
        (tmp_path / f"{stem}{ending}").write_text(header + lines(rows, order))
    assert named(read(tmp_path)) == ROWS


def test_a_triple_that_only_looks_like_a_header_is_kept(tmp_path: Path) -> None:
    first = [("head", "r", "tail"), *TRAIN]
    for name, rows in (ROWS | {"train": first}).items():
        (tmp_path / f"{name}.txt").write_text(lines(rows))
    assert named(read(tmp_path))["train"] == first


def test_simkgc_s_json_is_a_split_with_texts(tmp_path: Path) -> None:
    for name, rows in ROWS.items():
        objects = [{"head_id": h, "head": h, "relation": r, "tail_id": t, "tail": t}
                   for h, r, t in rows]  # fmt: skip
        (tmp_path / f"{name}.txt.json").write_text(json.dumps(objects))
    entities = [{"entity_id": "a", "entity": "Ann", "entity_desc": "a person"}]
    (tmp_path / "entities.json").write_text(json.dumps(entities))
    splits = read(tmp_path)
    assert named(splits) == ROWS
    assert (splits.graph.label(0), splits.graph.description(0)) == ("Ann", "a person")
    (tmp_path / "train.txt.json").write_text('[{"head": 1}]')
    with pytest.raises(SourceError, match=r"train.txt.json is not a list of head_id"):
        read(tmp_path)


def test_wikidata5m_is_chosen_by_its_prefix(tmp_path: Path) -> None:
    for kind in ("transductive", "inductive"):
        for name, rows in ROWS.items():
            more = [("a", kind, "b")] if name == "train" else []
            (tmp_path / f"wikidata5m_{kind}_{name}.txt").write_text(lines([*rows, *more]))
    (tmp_path / "wikidata5m_entity.txt").write_text("a\tAnn\tAnnie\nz\tZoe\n")
    (tmp_path / "wikidata5m_relation.txt").write_text("r\tknows\n")
    text = gzip.compress(b"a\tAnn is a person.\n")
    (tmp_path / "wikidata5m_text.txt.gz").write_bytes(text)
    with pytest.raises(SourceError, match=r"give one of .*wikidata5m_inductive, "):
        read(tmp_path)
    graph = read(tmp_path / "wikidata5m_inductive").graph
    assert list(graph.relations) == ["inductive", "r", "s"]
    assert (graph.label(0), graph.description(0)) == ("Ann", "Ann is a person.")
    assert graph.entity_texts.of(0, TextKind.ALIAS) == [("Annie", 0)]
    assert graph.relation_label(1) == "knows"
    for path in tmp_path.glob("*transductive*"):
        path.unlink()
    assert "inductive" in read(tmp_path).graph.relations
    (tmp_path / "wikidata5m_entity.txt").write_text("a\n")
    with pytest.raises(SourceError, match=r"wikidata5m_entity.txt, line 1: 'a' has no text"):
        read(tmp_path)


def test_names_of_nell_are_read_where_no_text_is(tmp_path: Path) -> None:
    for name in ROWS:
        row = [("concept:person:ryan_whitney", "concept:livesin", "concept_city_milan")]
        (tmp_path / f"{name}.triples").write_text(lines(row, "htr"))
    graph = read(tmp_path).graph
    assert [graph.label(i) for i in range(2)] == ["ryan whitney", "milan"]
    assert graph.entity_texts.of(1, TextKind.TYPE) == [("city", 0)]
    (tmp_path / "entity2text.txt").write_text("concept_city_milan\tMilan\n")
    graph = read(tmp_path).graph
    assert [graph.label(i) for i in range(2)] == ["concept:person:ryan_whitney", "Milan"]


def test_splits_that_are_missing_are_cut_and_told(tmp_path: Path) -> None:
    rows = [(f"e{i:02}", "r", f"e{i + 1:02}") for i in range(20)]
    (tmp_path / "train.txt").write_text(lines(rows))
    splits = read(tmp_path)
    assert [len(part) for part in splits.as_mapping().values()] == [10, 5, 5]
    assert sorted(row for part in named(splits).values() for row in part) == rows
    assert "has no valid and no test: 25% of train" in splits.notes[0]
    (tmp_path / "test.txt").write_text(lines(ROWS["test"]))
    splits = read(tmp_path)
    assert [len(part) for part in splits.as_mapping().values()] == [15, 5, 1]
    (tmp_path / "train.txt").rename(tmp_path / "valid.txt")
    with pytest.raises(SourceError, match=r"nor a benchmark folder: train\{.txt"):
        read(tmp_path)


def test_grail_s_second_graph_is_told(tmp_path: Path) -> None:
    for folder in (tmp_path / "v1", tmp_path / "v1_ind"):
        folder.mkdir()
        for name, rows in ROWS.items():
            (folder / f"{name}.txt").write_text(lines(rows))
    assert "v1_ind is the test graph" in read(tmp_path / "v1").notes[0]
    assert read(tmp_path / "v1_ind").notes == ()


def test_codex_and_kopa_bring_false_triples(tmp_path: Path) -> None:
    codex, kopa = tmp_path / "codex", tmp_path / "kopa"
    for folder in (codex, kopa):
        folder.mkdir()
    for name, rows in ROWS.items():
        (codex / f"{name}.txt").write_text(lines(rows))
    (codex / "relations.json").write_text('{"r": {"label": "knows", "description": ""}}')
    splits = read(codex)
    assert splits.graph.relation_label(0) == "knows"
    with pytest.raises(SourceError, match="neither valid_negatives"):
        read_negatives(kopa, splits)
    (kopa / "entity2id.txt").write_text("3\nc\t0\nb\t1\na\t2\n")
    (kopa / "relation2id.txt").write_text("2\nr\t0\ns\t1\n")
    for name in ("valid", "test"):
        rows = [{"input": "", "output": "True", "embedding_ids": [2, 0, 1]},
                {"input": "", "output": "False", "embedding_ids": [0, 1, 2]}]  # fmt: skip
        (kopa / f"UMLS-{name}.json").write_text(json.dumps(rows))
    negatives = read_negatives(kopa, splits)
    assert negatives["test"].tolist() == [[2, 1, 0]]
    (codex / "valid_negatives.txt").write_text(lines([("c", "s", "a")]))
    (codex / "test_negatives.txt").write_text(lines([("c", "s", "a")]))
    assert read_negatives(codex, splits)["test"].tolist() == negatives["test"].tolist()
    wrong = [{"output": "False", "embedding_ids": [9, 1, 2]}]
    (kopa / "UMLS-test.json").write_text(json.dumps(wrong))
    with pytest.raises(SourceError, match=r"row 1: .*a number without a name"):
        read_negatives(kopa, splits)
