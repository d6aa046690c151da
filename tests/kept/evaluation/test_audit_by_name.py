"""`kept audit` of facts without identifiers: they are looked up by their names."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from kept.apps.cli.comparing.audit_sets import cloze_part, triples_part
from kept.evaluation.audit import AuditPart, audit
from kept.evaluation.fact_lookup import look_up
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from tests.kept.evaluation.auditing import counts, kept

N_PEOPLE = 12
BORN = "/people/person/place_of_birth"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of people, each born in a town of the same number."""
    facts = [Triple(f"Q1{i}", "P19", f"Q2{i}") for i in range(N_PEOPLE)]
    texts = [Text("P19", TextKind.LABEL, "place of birth", "en", 0, True)]
    for i in range(N_PEOPLE):
        texts += [
            Text(f"Q1{i}", TextKind.LABEL, f"Person {i}"),
            Text(f"Q2{i}", TextKind.ALIAS, f"Town {i}"),
        ]
    folder = tmp_path_factory.mktemp("people")
    graph_from_records([*facts, *texts]).save(folder / "kg")
    return folder


def google_re(i: int, **changes: Any) -> dict[str, Any]:
    """A question in the form of LAMA's Google-RE: Freebase's identifiers, a passage, a sentence."""
    passage = f"Person {i} is a poet. Person {i} was born in Town {i}. So it goes."
    sentence = f"Person {i} was born in Town {i} ."
    question = {
        "pred": BORN, "sub": f"/m/p{i}", "obj": f"/m/t{i}", "sub_w": None, "obj_w": None,
        "evidences": [{"url": "", "snippet": passage, "considered_sentences": [sentence]}],
        "judgments": [{"rater": "1", "judgment": "yes"}], "sub_label": f"Person {i}",
        "sub_aliases": [], "obj_label": f"Town {i}", "uuid": str(i),
        "masked_sentences": [sentence.replace(f"Town {i}", "[MASK]")],
    }  # fmt: skip
    return {name: value for name, value in (question | changes).items() if value != "drop"}


def audit_people(people: Path, rows: list[dict[str, Any]], *flags: object) -> tuple[int, Any]:
    file, out = people / "re.jsonl", people / "re.json"
    out.unlink(missing_ok=True)  # what is there is not replaced
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result = kept("--kg", people / "kg", "--cloze", file, *flags, "-o", out)
    assert result.exit_code in (0, 1, 3), result.output
    return result.exit_code, {
        code: counts_of_check for (code, _), counts_of_check in counts(out).items()
    }


NO_IDS = {"sub": "drop", "obj": "drop", "sub_w": "drop", "obj_w": "drop"}


@pytest.mark.parametrize(
    "changes",
    [
        [{}],  # identifiers of another graph
        [NO_IDS],
        [NO_IDS, {"sub_uri": "Q1{}", "obj_uri": "Q2{}", "predicate_id": "P19"}],  # of half of them
        [{"sub_w": "Q1{}", "obj": "drop"}, {"obj_w": "Q2{}", "sub": "drop"}],
    ],
)
def test_facts_without_identifiers_are_looked_up_by_name(
    people: Path, changes: list[dict[str, str]]
) -> None:
    changed = [
        {name: value.format(i) for name, value in changes[i % len(changes)].items()}
        for i in range(N_PEOPLE)
    ]
    rows = [google_re(i, **change) for i, change in enumerate(changed)]
    code, counts_of_checks = audit_people(people, rows)
    assert code == 1
    assert counts_of_checks["triple-in-graph"] == (N_PEOPLE, N_PEOPLE)
    assert counts_of_checks["pair-in-graph"] == (N_PEOPLE, 0)
    assert "fact-not-checked" not in counts_of_checks


def test_what_cannot_be_checked_is_a_line_and_an_exit_code(people: Path) -> None:
    rows = [google_re(i, sub_label=f"Nobody {i}", **NO_IDS) for i in range(3)]
    rows += [google_re(3, obj_label="Town 4", **NO_IDS), google_re(4, sub_label="", **NO_IDS)]
    code, counts_of_checks = audit_people(people, rows)
    assert code == 3
    assert counts_of_checks["triple-in-graph"] == (1, 0)
    assert counts_of_checks["fact-not-checked"] == (5, 4)
    assert counts_of_checks["question-not-checked"] == (5, 1)
    granted = ("--allow", "fact-not-checked=0.8", "--allow", "question-not-checked=0.2")
    assert audit_people(people, rows, *granted)[0] == 0
    assert audit_people(people, rows, "--allow", "fact-not-checked=0.7")[0] == 3
    assert audit_people(people, [*rows, google_re(5, **NO_IDS)], *granted)[0] == 1  # a leak is more
    result = kept("--kg", people / "kg", "--cloze", people / "re.jsonl")
    assert "| fact-not-checked | re.jsonl | 6 | 4 | 66.67% |" in result.stdout
    assert "3 with a name that no entity bears; 1 without identifier or name of an end" in (
        result.stdout
    )


def test_an_ambiguous_name_is_decided_where_its_readings_agree() -> None:
    texts = [Text(node, TextKind.LABEL, "Paris") for node in ("Q90", "Q830149")]
    texts += [Text("Q142", TextKind.LABEL, "France"), Text("Q64", TextKind.LABEL, "Berlin")]
    graph = graph_from_records(
        [Triple("Q90", "P17", "Q142"), Triple("Q830149", "P1", "Q142"), Triple("Q64", "P1", "Q90"),
         *texts]
    )  # fmt: skip
    names = [("Paris", "France"), ("Paris", "Berlin"), ("Berlin", "Paris")]
    part = AuditPart("test", "cloze", facts=[("", "P17", "")] * 3, names=names)
    counts_of_checks = {
        c.code: (c.n_checked, c.n_found, c.note) for c in audit([part], graph=graph)
    }
    assert counts_of_checks["triple-in-graph"][:2] == (
        2,
        0,
    )  # Paris, France: in the graph in one reading
    assert counts_of_checks["inverse-in-graph"][:2] == (
        2,
        0,
    )  # Paris, Berlin: joined in one reading
    assert counts_of_checks["pair-in-graph"][:2] == (1, 0)
    assert counts_of_checks["fact-not-checked"] == (3, 3, "3 with an ambiguous name")
    twice = [Text(name, TextKind.LABEL, "country", "en", 0, True) for name in ("P17", "P1")]
    graph = graph_from_records([Triple("a", "P17", "b"), Triple("b", "P1", "a"), *twice])
    part = AuditPart(
        "test", "cloze", facts=[("a", "country", "b"), ("a", "?", "b"), ("a", "", "x")]
    )
    counts_of_checks = {
        c.code: (c.n_checked, c.n_found, c.note) for c in audit([part], graph=graph)
    }
    assert counts_of_checks["triple-in-graph"][:2] == (1, 0)
    assert counts_of_checks["fact-not-checked"][:2] == (3, 2)
    assert (
        "1 of a relation that it does not know, whose ends it joins"
        in (counts_of_checks["fact-not-checked"][2])
    )


def test_an_identifier_outside_the_graph_is_not_another_entity_of_that_name(
    people: Path,
) -> None:
    graph = KnowledgeGraph.open(people / "kg")
    facts, names = [("Q10", "P19", "Q20"), ("Q999", "P19", "Q21")], [("", ""), ("Person 1", "")]
    part = AuditPart("test", "cloze", facts=facts, names=names)
    counts_of_checks = {c.code: (c.n_checked, c.n_found) for c in audit([part], graph=graph)}
    assert counts_of_checks["triple-in-graph"] == (2, 1)
    assert "fact-not-checked" not in counts_of_checks


def test_passages_are_read_and_empty_evidences_are_not_counted(people: Path) -> None:
    text = people / "training.txt"
    lines = ["person 0 was born in TOWN 0.", google_re(1)["evidences"][0]["snippet"], "other"]
    text.write_text("\n".join(lines), encoding="utf-8")
    rows = [google_re(i) for i in range(4)]
    _, counts_of_checks = audit_people(people, rows, "--text", text)
    assert counts_of_checks["text-in-training"] == (4, 2)  # one sentence, one passage; not 2 of 8
    assert "text-not-checked" not in counts_of_checks
    rows[2] = google_re(2, evidences=[])
    rows[3] = google_re(3, evidences=[{}, {"masked_sentence": " "}], masked_sentences=[])
    rows += [google_re(0, evidences=[{"snippet": lines[1]}], masked_sentences="drop")]
    rows += [google_re(0, evidences=None, masked_sentences=None)]
    _, counts_of_checks = audit_people(people, rows, "--text", text)
    assert counts_of_checks["text-in-training"] == (4, 3)
    assert counts_of_checks["text-not-checked"] == (7, 3)


def test_a_task_without_entities_is_not_clean(people: Path, tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("1\tgood\n0\tbad\n", encoding="utf-8")
    flags = ("--kg", people / "kg", "--format", "tsv", "--dev", tmp_path / "dev.tsv")
    result = kept(*flags)
    assert result.exit_code == 3, result.output
    assert "| fact-not-checked | dev | 2 | 2 | 100.00% |" in result.stdout
    assert kept(*flags, "--allow", "fact-not-checked=1").exit_code == 0


def test_targets_without_entities_are_looked_up_by_their_words(
    people: Path, tmp_path: Path
) -> None:
    rows = [
        {"token": ["Person", str(i), "from", "Town", str(j)], "h": {"pos": [0, 2]},
         "t": {"pos": [3, 5]}, "relation": "place of birth"}
        for i, j in ((1, 1), (2, 3))
    ]  # fmt: skip
    (tmp_path / "dev.txt").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    out = tmp_path / "table.json"
    flags = ("--format", "semeval", "--dev", tmp_path / "dev.txt")
    assert kept("--kg", people / "kg", *flags, "-o", out).exit_code == 1
    assert counts(out)["triple-in-graph", "dev"] == (2, 1)


@pytest.mark.data
def test_lama_by_name_finds_what_it_finds_by_identifier(data_root: Path) -> None:
    part = cloze_part("P19", data_root / "lama/TREx/P19.jsonl.gz")
    facts = dict(zip(part.facts, part.names, strict=True))
    texts = [
        Text(node, TextKind.LABEL, name)
        for (head, _, tail), names in facts.items()
        for node, name in zip((head, tail), names, strict=True)
    ]
    graph = graph_from_records([*(Triple(*fact) for fact in facts), *dict.fromkeys(texts)])
    half = [fact if i % 2 else ("", fact[1], "") for i, fact in enumerate(part.facts)]
    counts_of_checks = {}
    for name, part_facts in (
        ("ids", part.facts),
        ("half", half),
        ("none", [("", "P19", "")] * len(half)),
    ):
        checks = audit([dataclasses.replace(part, facts=part_facts)], graph=graph)
        counts_of_checks[name] = {check.code: (check.n_checked, check.n_found) for check in checks}
    n = len(part.facts)
    assert counts_of_checks["ids"]["triple-in-graph"] == (n, n)
    for name, n_shared in (("half", 49), ("none", 97)):  # names that two people or towns share
        assert counts_of_checks[name]["fact-not-checked"] == (n, n_shared)
        assert counts_of_checks[name]["triple-in-graph"] == (n - n_shared, n - n_shared)


@pytest.mark.data
def test_codex_gives_away_what_its_inverses_say(data_root: Path) -> None:
    folder = data_root / "codex/codex-s"
    files = {"train": "train.txt.gz", "valid": "valid.txt", "test": "test.txt"}
    parts = [triples_part(name, folder / file) for name, file in files.items()]
    counts_of_checks = {(c.code, c.part): (c.n_checked, c.n_found) for c in audit(parts)}
    assert counts_of_checks["triple-in-graph", "test"] == (1828, 0)
    assert counts_of_checks["inverse-in-graph", "test"] == (1828, 258)
    assert counts_of_checks["pair-in-graph", "test"] == (1828, 29)
    assert counts_of_checks["repeated-triple", ""] == (36543, 0)


@pytest.mark.data
def test_answers_inside_subjects_of_lama(data_root: Path) -> None:
    files = sorted((data_root / "lama/TREx").glob("*.jsonl.gz"))
    parts = [cloze_part(file.name, file) for file in files]
    (n_found, n_checked) = map(
        sum, zip(*((c.n_found, c.n_checked) for c in audit(parts)), strict=True)
    )
    assert (n_checked, n_found) == (22881, 2624)


@pytest.mark.parametrize("swapped", [False, True])
def test_identifiers_of_nell_match_in_both_forms(swapped: bool) -> None:
    """NELL-995 is passed on as `concept:city:oslo` and as `concept_city_oslo`."""
    with_colons = ("concept:city:oslo", "concept:citylocatedincountry", "concept:country:norway")
    without = ("concept_city_oslo", "concept_citylocatedincountry", "concept_country_norway")
    ours, theirs = (without, with_colons) if swapped else (with_colons, without)
    looked = look_up([ours, ("concept:city:rome", ours[1], ours[2])], [], one_fact(theirs))
    assert looked.rows.tolist()[0] == [
        one_fact(theirs).entities.id(theirs[0]), 0, one_fact(theirs).entities.id(theirs[2])
    ]  # fmt: skip
    assert looked.rows.tolist()[1][0] == -1


def test_forms_of_nell_that_are_of_two_entities_are_none() -> None:
    graph = graph_from_records([
        Triple("concept:city:new_york", "r", "x"), Triple("concept:city:new:york", "r", "x"),
    ])  # fmt: skip
    looked = look_up([("concept_city_new_york", "r", "x")], [], graph)
    assert looked.rows.tolist()[0][0] == -1


def one_fact(fact: tuple[str, str, str]) -> KnowledgeGraph:
    return graph_from_records([Triple(*fact)])
