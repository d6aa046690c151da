"""Readers of templates, facts and whole collections, on a miniature of LAMA's folder."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from kept.errors import ConfigError, EvaluationError
from kept.lab.probing.items.collections import (
    COLLECTIONS,
    Draw,
    pararel_facts,
    read_collection,
    trex_facts,
)
from kept.lab.probing.items.facts import (
    ClozeFact,
    answers_by_subject,
    draw_facts,
    questions,
    read_facts,
    with_answers_of,
)
from kept.lab.probing.items.item import HOLE
from kept.lab.probing.items.sources import lines
from kept.lab.probing.items.templates import Template, first_of_each, read_templates
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import DamageError, SourceError
from tests.kept.tiny_lama import jsonl, write_lama, write_tar


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_lama(tmp_path / "lama")


def skipping() -> DamageReport:
    return DamageReport(DamagePolicy.SKIP)


# ---- templates ---------------------------------------------------------------
@pytest.mark.parametrize("text", ["[X] lies in [Y] .", "[Y] holds [X]", "[X][Y]"])
@pytest.mark.parametrize("subject", ["A", "Buenos Aires", "naïve 😀 x"])
def test_a_filled_template_knows_its_places(text: str, subject: str) -> None:
    linked, hole = Template("P1", text).fill(subject, "Q1", "7")
    assert linked.text == text.replace("[X]", subject)
    assert linked.text[hole.start : hole.end] == HOLE
    (link,) = linked.links
    assert (linked.text[link.mention.start : link.mention.end], link.entity) == (subject, "Q1")
    assert linked.id == "7"


@pytest.mark.parametrize("text", ["", "[X] only", "[Y] only", "[X] [Y] [Y]", "[X] [X] [Y]"])
def test_a_template_has_one_subject_and_one_hole(text: str) -> None:
    with pytest.raises(EvaluationError, match="P9 needs"):
        Template("P9", text)


def test_templates_of_lama_and_pararel(folder: Path) -> None:
    report = DamageReport()
    templates = read_templates(folder / "relations.jsonl", report)
    assert [t.text for t in templates["P17"]] == ["[X] lies in [Y] ."]
    assert (templates["P17"][0].label, templates["P17"][0].kind) == ("country", "N-1")
    assert (report.n_lines, report.n_texts) == (3, 3)
    patterns = read_templates(folder / "pararel_patterns.tar.gz", DamageReport())
    assert {name: len(texts) for name, texts in patterns.items()} == {"P17": 3, "P37": 2}


def test_templates_of_lpaqa_in_its_three_folders(folder: Path) -> None:
    archive = folder / "lpaqa_prompts.tar.gz"
    mined = read_templates(archive, DamageReport(), inside="mine")
    assert [t.weight for t in mined["P17"]] == [0.2, 0.7]
    assert first_of_each(mined)["P17"][0].text == "[X] in [Y] ."
    report = skipping()
    manual = read_templates(archive, report, inside="prompt/manual_paraphrase")
    assert [t.text for t in manual["P17"]] == ["[X] lies in [Y] ."]
    assert (report.n_lines, report.n_texts, report.n_duplicates) == (4, 1, 1)
    assert (report.n_blank, report.n_rejected) == (1, 1)
    report.check()
    with pytest.raises(DamageError, match=r"manual_paraphrase/P17.txt, line 4 .*\[X\]"):
        read_templates(archive, DamageReport(), inside="manual_paraphrase")
    with pytest.raises(SourceError, match="below elsewhere"):
        read_templates(archive, DamageReport(), inside="elsewhere")


def test_a_line_that_is_no_template_is_named(tmp_path: Path) -> None:
    path = tmp_path / "P1.jsonl"
    path.write_bytes(b'{"template": "[X] [Y]"}\n{"template": 7}\n\xff\n{}')
    report = skipping()
    assert len(read_templates(path, report)["P1"]) == 1
    assert [r.line for r in report.rejections] == [2, 3, 4]
    report.check()


# ---- sources -----------------------------------------------------------------
def test_sources_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="holds no lines"):
        list(lines(tmp_path / "empty", DamageReport()))
    (tmp_path / "cut.tar.gz").write_bytes(b"no archive")
    with pytest.raises(SourceError, match=r"cut.tar.gz cannot be read"):
        list(lines(tmp_path / "cut.tar.gz", DamageReport()))
    with pytest.raises(SourceError):
        list(lines(tmp_path / "nothing.jsonl", DamageReport()))


def test_lines_of_an_archive_come_by_name(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar.gz", {"x/b": b"2\r\n\n3\n", "x/a": b"1", "y/c": b"3"})
    report = DamageReport()
    rows = list(lines(tmp_path / "a.tar.gz", report, "x"))
    assert [(Path(name).name, *rest) for name, *rest in rows] == [
        ("a", 1, 0, b"1"), ("b", 1, 0, b"2"), ("b", 3, 4, b"3"),
    ]  # fmt: skip
    assert (report.n_lines, report.n_blank) == (4, 1)


# ---- facts -------------------------------------------------------------------
def test_facts_of_the_three_forms(folder: Path, tmp_path: Path) -> None:
    trex = trex_facts(folder)
    assert len(trex) == 6
    assert trex[0] == ClozeFact("P17-u0", "P17", "Paris", "France", "Q90", "Q142")
    assert trex[0].triple == ("Q90", "P17", "Q142")
    joined = pararel_facts(folder)
    assert [fact.head for fact in joined] == ["Q90", "Q64", "", "", ""]
    assert joined[2].triple is None
    path = tmp_path / "P5.jsonl"
    path.write_text(
        '{"sub_uri": "Q1", "obj_uri": "Q2", "sub_label": "a", "obj_label": "b"}\n'
        '{"sub_label": " ", "obj_label": "b"}\n\n{"sub_label": "c"}\n'
    )
    report = skipping()
    assert list(read_facts(path, report)) == [ClozeFact("P5-1", "P5", "a", "b", "Q1", "Q2")]
    assert (report.n_lines, report.n_rejected, report.n_blank) == (4, 2, 1)
    report.check()


def test_drawn_facts_depend_on_the_seed_and_keep_their_order() -> None:
    facts = [ClozeFact(str(i), f"P{i % 2}", "s", "a") for i in range(40)]
    sample = draw_facts(facts, 5, seed=0)
    assert [sum(f.relation == r for f in sample) for r in ("P0", "P1")] == [5, 5]
    assert [int(f.id) for f in sample] == sorted(int(f.id) for f in sample)
    assert sample == draw_facts(facts, 5, seed=0) != draw_facts(facts, 5, seed=1)
    assert draw_facts(facts, None, seed=0) == facts


def test_further_answers_never_hold_the_answer_itself() -> None:
    facts = [
        ClozeFact("1", "P1", "Ada", "x", "Q1", "Q7"), ClozeFact("2", "P1", "Ada L.", "y", "Q1"),
        ClozeFact("3", "P1", "Ada", "z", "Q2"), ClozeFact("4", "P2", "Ada", "x", "Q1"),
    ]  # fmt: skip
    items = questions(facts, {"P1": [Template("P1", "[X] [Y]")]}, report := DamageReport())
    assert [item.also_right for item in items] == [("y",), ("x",), ()]
    assert report.skipped == {"no template of the relation": 1}
    assert answers_by_subject(facts)["P1", "Q1"] == ("x", "y")


def test_a_fact_in_several_templates_is_one_group(folder: Path) -> None:
    items = read_collection("pararel", folder, report := DamageReport())
    assert len(items) == 6
    assert {item.group for item in items} == {"P17/P17-u0", "P17/P17-u1"}
    assert len({item.id for item in items}) == 6
    assert report.skipped == {"no template of the relation": 3}
    report.check()


def test_a_subject_with_a_hole_is_skipped() -> None:
    facts = [ClozeFact("1", "P1", "what [Y]", "x")]
    templates = {"P1": [Template("P1", "[X] [Y]")]}
    assert questions(facts, templates, report := DamageReport()) == []
    assert report.skipped == {"[Y] in the subject": 1}


def test_answers_that_a_graph_knows(small_graph: KnowledgeGraph) -> None:
    facts = [
        ClozeFact("1", "P47", "France", "Germany", "Q142", "Q183"),
        ClozeFact("2", "P17", "Paris", "Europe", "Q90", "Q46"),
        ClozeFact("3", "P17", "Nowhere", "Europe", "Q-no", "Q46"),
    ]
    templates = {name: [Template(name, "[X] [Y]")] for name in ("P47", "P17")}
    items = with_answers_of(questions(facts, templates, DamageReport()), small_graph)
    assert [item.also_right for item in items] == [(), ("France",), ()]


# ---- collections -------------------------------------------------------------
@pytest.mark.parametrize("name", COLLECTIONS)
def test_every_collection(name: str, folder: Path) -> None:
    items = read_collection(name, folder, report := DamageReport())
    report.check()
    assert items
    for item in items:
        assert item.linked.text.count(HOLE) == 1
        assert item.linked.text[item.hole.start : item.hole.end] == HOLE
        assert HOLE not in item.answer
    assert len({item.id for item in items}) == len(items)


def test_a_drawn_collection_and_its_relations(folder: Path) -> None:
    draw = Draw(1, 0, ("P37",))
    (item,) = read_collection("trex", folder, DamageReport(), draw)
    assert (item.relation, item.fact is not None) == ("P37", True)
    with pytest.raises(ConfigError, match=r"no fact of relation 'P5'.*P17, P37"):
        read_collection("trex", folder, DamageReport(), Draw(relations=("P5",)))
    with pytest.raises(ConfigError, match="SQuAD questions have no relations"):
        read_collection("squad", folder, DamageReport(), Draw(relations=("P5",)))
    with pytest.raises(ConfigError, match="'nothing'; there are trex, "):
        read_collection("nothing", folder, DamageReport())


def test_relations_that_only_pararel_hands_on(folder: Path) -> None:
    items = read_collection("trex-nameless", folder, report := DamageReport())
    assert [item.linked.text for item in items] == ["[Y] is near A .", "[Y] is near B ."]
    assert [item.fact for item in items] == [None, None]
    assert report.skipped == {"no template of the relation": 1}


# ---- the real files ------------------------------------------------------------
@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "n_items", "n_relations", "n_facts"),
    [
        ("trex", 22_881, 28, 22_881), ("trex-nameless", 9_540, 13, 0), ("squad", 302, 1, 0),
        ("trex-autoprompt", 22_881, 28, 22_881), ("trex-lpaqa", 22_881, 28, 22_881),
        ("trex-mined", 22_881, 28, 22_881), ("trex-paraphrased", 22_881, 28, 22_881),
    ],
)  # fmt: skip
def test_counts_of_the_real_collections(
    name: str, n_items: int, n_relations: int, n_facts: int, data_root: Path
) -> None:
    items = read_collection(name, data_root / "lama", report := DamageReport())
    report.check()
    assert len(items) == len({item.id for item in items}) == n_items
    assert len({item.relation for item in items}) == n_relations
    assert sum(item.fact is not None for item in items) == n_facts
    assert sum(bool(item.also_right) for item in items) == (749 if n_facts else 0) or not n_facts


@pytest.mark.data
def test_counts_of_the_real_templates(data_root: Path) -> None:
    counts = {}
    for inside in ("mine", "paraphrase", "manual_paraphrase"):
        archive = data_root / "lama/lpaqa_prompts.tar.gz"
        counts[inside] = sum(
            map(len, read_templates(archive, DamageReport(), inside=inside).values())
        )
    assert counts == {"mine": 1166, "paraphrase": 1073, "manual_paraphrase": 1018}
    patterns = read_templates(data_root / "lama/pararel_patterns.tar.gz", DamageReport())
    assert (len(patterns), sum(map(len, patterns.values()))) == (39, 329)
    assert len(pararel_facts(data_root / "lama")) == 29_411


def test_answers_that_were_not_drawn_are_right_as_well(folder: Path) -> None:
    """Of a subject with two answers one question is drawn: the other answer is no mistake."""
    path = folder / "TREx" / "P17.jsonl.gz"
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    other = {**rows[0], "obj_label": "Gaul", "obj_uri": "Q38060", "uuid": "another"}
    path.write_bytes(gzip.compress(jsonl([rows[0], other])))
    (one,) = read_collection(
        "trex", folder, DamageReport(), Draw(per_relation=1, relations=("P17",))
    )
    assert {one.answer, *one.also_right} == {"France", "Gaul"}
    with pytest.raises(ConfigError, match="no fact of relation 'P99'; there are P17, P37"):
        read_collection("trex", folder, DamageReport(), Draw(relations=("P99",)))
    with pytest.raises(ConfigError, match="SQuAD questions have no relations"):
        read_collection("squad", folder, DamageReport(), Draw(relations=("P17",)))
