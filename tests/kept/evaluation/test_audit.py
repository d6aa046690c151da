"""`kept audit`: every leak is found once, in one table with one exit code."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from entity_linking.annotations import gold_link
from entity_linking.mentions import LinkedText, Mention
from kept.cli import app
from kept.cli.comparing.audit_sets import cloze_part, of_items, triples_part
from kept.errors import ConfigError
from kept.evaluation.audit import AuditPart, audit, fact_ids
from kept.evaluation.leakage import CODES, LeakCheck, audit_table, repeated_pairs, repeated_texts
from kept.probing.items.item import HOLE, ClozeItem
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records


def kept(*flags: object) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, flags)])


def row(words: str, head: str, tail: str, relation: str) -> dict[str, Any]:
    token = words.split()
    ends = {
        "h": {"id": head, "pos": [0, 1]},
        "t": {"id": tail, "pos": [len(token) - 1, len(token)]},
    }
    return {"token": token, "relation": relation, **ends}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    made = tmp_path_factory.mktemp("audit")
    small_graph.save(made / "kg")
    sets = {
        "train": [row("Paris lies in France", "Q90", "Q142", "country")],
        "dev": [
            row("PARIS lies  in France", "Q142", "Q90", "capital"),
            row("Bonn speaks German", "Q2", "Q188", "official language"),
        ],
    }
    for name, rows in sets.items():
        (made / f"{name}.txt").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (made / "a.tsv").write_text("a\tr\tb\nb\tr\tc\nc\ts\ta\n", encoding="utf-8")
    (made / "b.tsv").write_text("a\tr\tb\nc\tr\tb\na\ts\tb\nx\tr\ta\n", encoding="utf-8")
    questions = [
        {"sub_label": "Bank of France", "obj_label": "France", "sub_uri": "Q90", "obj_uri": "Q142",
         "predicate_id": "P17", "evidences": [{"masked_sentence": "It is in [MASK] .",
                                              "obj_surface": "french France"}]},
        {"sub_label": "Seine", "obj_label": "Paris", "masked_sentences": ["It flows", "to [MASK]."],
         },
    ]  # fmt: skip
    (made / "lama.jsonl").write_text("\n".join(map(json.dumps, questions)), encoding="utf-8")
    (made / "read.txt").write_text("it flows to paris.\n\nother\n", encoding="utf-8")
    (made / "read.jsonl").write_text(
        json.dumps({"text": "It is in french France .", "mentions": []}) + "\n", encoding="utf-8"
    )
    return made


def counts(path: Path) -> dict[tuple[str, str], tuple[int, int]]:
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {(r["code"], r["set"]): (r["n_checked"], r["n_found"]) for r in rows}


def test_a_task_against_graph_and_training_set(folder: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"table{ending}" for ending in (".md", ".json", ".csv")]
    result = kept(
        "--kg", folder / "kg", "--format", "wiki80", "--train", folder / "train.txt",
        "--dev", folder / "dev.txt", *(flag for file in files for flag in ("-o", file)),
    )  # fmt: skip
    assert result.exit_code == 1, result.output
    assert counts(files[1]) == {
        ("triple-in-graph", "dev"): (2, 1),
        ("inverse-in-graph", "dev"): (2, 1),
        ("pair-in-graph", "dev"): (2, 0),
        ("text-in-training", "dev"): (2, 1),
        ("repeated-text", ""): (2, 1),
        ("repeated-pair", ""): (2, 1),
    }
    assert files[0].read_text(encoding="utf-8") == result.stdout
    assert "| France / capital / Paris |" in result.stdout
    with files[2].open(encoding="utf-8", newline="") as file:
        assert [r["n_found"] for r in csv.DictReader(file)] == ["1", "1", "0", "1", "1", "1"]


def test_limits_by_code(folder: Path) -> None:
    flags = ["--triples", f"train={folder / 'a.tsv'}", "--triples", f"test={folder / 'b.tsv'}"]
    limits = {"triple-in-graph": 0.25, "inverse-in-graph": 0.25, "pair-in-graph": 0.25}
    granted = [f for code, share in limits.items() for f in ("--allow", f"{code}={share}")]
    almost = kept(*flags, *granted)
    assert almost.exit_code == 1  # a triple stands in both splits
    assert "1 with an end outside the graph" in almost.stdout
    assert kept(*flags, *granted, "--allow", f"repeated-triple={1 / 7}").exit_code == 0


def test_two_files_of_one_set_are_one(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other.tsv").write_text("q\tr\tw\n", encoding="utf-8")
    out = tmp_path / "table.json"
    names = [("train", folder / "a.tsv"), ("train", tmp_path / "other.tsv")]
    for order in (names, names[::-1]):
        flags = [
            x for n, f in [*order, ("test", folder / "a.tsv")] for x in ("--triples", f"{n}={f}")
        ]
        codes = ("triple-in-graph", "inverse-in-graph", "pair-in-graph")
        allowed = [flag for code in codes for flag in ("--allow", f"{code}=1")]
        assert kept(*flags, *allowed, "-o", out).exit_code == 1
        assert counts(out)["repeated-triple", ""] == (7, 3)
    texts = [["one", "two"], ["three"]]
    tasks = [AuditPart("train", "task", texts=t, facts=[(x, "r", "y") for x in t]) for t in texts]
    asked = AuditPart("dev", "task", texts=["one", "three"], facts=[("one", "r", "y")])
    found = {c.code: (c.n_checked, c.n_found) for c in audit([*tasks, asked])}
    assert found == {
        "text-in-training": (2, 2), "repeated-text": (2, 2), "repeated-pair": (1, 1),
    }  # fmt: skip
    assert len(audit([*tasks, asked, AuditPart("dev", "task", texts=["x"])])) == 3
    questions = [AuditPart("lama.jsonl", "cloze", questions=[("a", b)]) for b in "ab"]
    assert [c.n_found for c in audit(questions)] == [1, 0]


def test_cloze_questions(folder: Path, tmp_path: Path) -> None:
    texts = ["--text", folder / "read.txt", "--text", folder / "read.jsonl"]
    out = tmp_path / "table.json"
    kept("--kg", folder / "kg", "--cloze", folder / "lama.jsonl", *texts, "-o", out)
    assert counts(out) == {
        ("triple-in-graph", "lama.jsonl"): (2, 1),
        ("inverse-in-graph", "lama.jsonl"): (1, 1),  # one Paris lies on the Seine, one does not
        ("pair-in-graph", "lama.jsonl"): (2, 1),  # Paris is the capital of France, too
        ("fact-not-checked", "lama.jsonl"): (2, 1),
        ("text-in-training", "lama.jsonl"): (2, 2),
        ("answer-in-subject", "lama.jsonl"): (2, 1),
    }


def test_items_of_a_probe(small_graph: KnowledgeGraph) -> None:
    linked = LinkedText(f"Paris is in {HOLE} .", (gold_link(0, 5, "Q90"),))
    fact = ("Q90", "P17", "Q142")
    items = [
        ClozeItem(f"i{i}", "P17", linked, Mention(12, 15), "Paris", "France", fact=fact)
        for i in range(2)
    ]
    found = audit(
        [of_items("x", items)], graph=small_graph, training_texts=["paris is in FRANCE ."]
    )
    assert [(c.code, c.n_checked, c.n_found) for c in found][-2:] == [
        ("text-in-training", 2, 2), ("answer-in-subject", 2, 0),
    ]  # fmt: skip
    assert (found[0].n_checked, found[0].n_found) == (1, 1)


def test_what_is_unknown_is_never_found(small_graph: KnowledgeGraph) -> None:
    facts = [("nobody", "P17", "Q142"), ("Q90", "no relation", "Q142"), ("Q142", "P17", "nobody")]
    assert (fact_ids(facts, small_graph) < 0).sum() == 3
    last = small_graph.entities.name(small_graph.n_entities - 1)
    wraps = [(small_graph.entities.name(1), "P17", "nobody"), ("nobody", "P17", last)]
    checks = audit([AuditPart("test", "triples", facts=[*facts, *wraps])], graph=small_graph)
    assert [check.n_found for check in checks] == [0, 1, 1]  # of the pair that is joined
    assert checks[0].note.endswith("1 of a relation that it does not know")


def test_earlier_sets_count_and_own_repeats_do_not() -> None:
    texts = {"train": ["a b", "a b"], "dev": ["A  b", "c"], "test": ["c", "c", "d"]}
    assert (repeated_texts(texts).n_checked, repeated_texts(texts).n_found) == (5, 3)
    pairs = {"train": [("x", "y")], "test": [("y", "x"), ("x", "z"), ("x", "z")]}
    assert (repeated_pairs(pairs).n_checked, repeated_pairs(pairs).n_found) == (3, 1)


def test_every_code_is_a_check_and_long_examples_are_cut_in_the_table() -> None:
    for code, name in CODES.items():
        assert LeakCheck(name, 1, 0).code == code
    assert LeakCheck("own", 1, 1).allowed({"own": 1.0}) == 1.0
    part = AuditPart("test", "task", texts=["x" * 500])
    (check,) = audit([part], training_texts=["x" * 500])
    assert check.examples == ("x" * 500,)
    assert f"| {'x' * 100}… |" in audit_table([check], allowed={})


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "nothing to check"),
        (["--allow", "leaks=1"], "no check 'leaks'"),
        (["--allow", "pair-in-graph=2"], "from 0 to 1"),
        (["--allow", "pair-in-graph=x"], "is not a number"),
        (["--allow", "pair-in-graph"], "write --allow CHECK=SHARE"),
        (["--dev", __file__], "--format is missing"),
        (["--dev", __file__, "--format", "wiki8"], "no format 'wiki8'"),
        (["-o", "x.txt"], "must be one of .md"),
    ],
)
def test_faults_end_in_one_message(flags: list[str], message: str) -> None:
    result = kept(*flags)
    assert result.exit_code == 1
    assert message in result.stderr.replace("\n", " ")


def test_there_must_be_something_to_check() -> None:
    with pytest.raises(ConfigError, match="nothing to check"):
        audit([AuditPart("train", "task", texts=["a"])])


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
    made = tmp_path_factory.mktemp("people")
    graph_from_records([*facts, *texts]).save(made / "kg")
    return made


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
    return result.exit_code, {code: found for (code, _), found in counts(out).items()}


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
    own = [
        {name: value.format(i) for name, value in changes[i % len(changes)].items()}
        for i in range(N_PEOPLE)
    ]
    rows = [google_re(i, **change) for i, change in enumerate(own)]
    code, found = audit_people(people, rows)
    assert code == 1
    assert found["triple-in-graph"] == (N_PEOPLE, N_PEOPLE)
    assert found["pair-in-graph"] == (N_PEOPLE, 0)
    assert "fact-not-checked" not in found


def test_what_cannot_be_checked_is_a_line_and_an_exit_code(people: Path) -> None:
    rows = [google_re(i, sub_label=f"Nobody {i}", **NO_IDS) for i in range(3)]
    rows += [google_re(3, obj_label="Town 4", **NO_IDS), google_re(4, sub_label="", **NO_IDS)]
    code, found = audit_people(people, rows)
    assert code == 3
    assert found["triple-in-graph"] == (1, 0)
    assert found["fact-not-checked"] == (5, 4)
    assert found["question-not-checked"] == (5, 1)
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
    found = {c.code: (c.n_checked, c.n_found, c.note) for c in audit([part], graph=graph)}
    assert found["triple-in-graph"][:2] == (2, 0)  # Paris, France: in the graph in one reading
    assert found["inverse-in-graph"][:2] == (2, 0)  # Paris, Berlin: joined in one reading
    assert found["pair-in-graph"][:2] == (1, 0)
    assert found["fact-not-checked"] == (3, 3, "3 with an ambiguous name")
    twice = [Text(name, TextKind.LABEL, "country", "en", 0, True) for name in ("P17", "P1")]
    graph = graph_from_records([Triple("a", "P17", "b"), Triple("b", "P1", "a"), *twice])
    part = AuditPart(
        "test", "cloze", facts=[("a", "country", "b"), ("a", "?", "b"), ("a", "", "x")]
    )
    found = {c.code: (c.n_checked, c.n_found, c.note) for c in audit([part], graph=graph)}
    assert found["triple-in-graph"][:2] == (1, 0)
    assert found["fact-not-checked"][:2] == (3, 2)
    assert (
        "1 of a relation that it does not know, whose ends it joins"
        in (found["fact-not-checked"][2])
    )


def test_an_identifier_outside_the_graph_is_not_another_entity_of_that_name(
    people: Path,
) -> None:
    graph = KnowledgeGraph.open(people / "kg")
    facts, names = [("Q10", "P19", "Q20"), ("Q999", "P19", "Q21")], [("", ""), ("Person 1", "")]
    part = AuditPart("test", "cloze", facts=facts, names=names)
    found = {c.code: (c.n_checked, c.n_found) for c in audit([part], graph=graph)}
    assert found["triple-in-graph"] == (2, 1)
    assert "fact-not-checked" not in found


def test_passages_are_read_and_empty_evidences_are_not_counted(people: Path) -> None:
    text = people / "training.txt"
    lines = ["person 0 was born in TOWN 0.", google_re(1)["evidences"][0]["snippet"], "other"]
    text.write_text("\n".join(lines), encoding="utf-8")
    rows = [google_re(i) for i in range(4)]
    _, found = audit_people(people, rows, "--text", text)
    assert found["text-in-training"] == (4, 2)  # one sentence, one passage; not 2 of 8
    assert "text-not-checked" not in found
    rows[2] = google_re(2, evidences=[])
    rows[3] = google_re(3, evidences=[{}, {"masked_sentence": " "}], masked_sentences=[])
    rows += [google_re(0, evidences=[{"snippet": lines[1]}], masked_sentences="drop")]
    rows += [google_re(0, evidences=None, masked_sentences=None)]
    _, found = audit_people(people, rows, "--text", text)
    assert found["text-in-training"] == (4, 3)
    assert found["text-not-checked"] == (7, 3)


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
    found = {}
    for name, own in (("ids", part.facts), ("half", half), ("none", [("", "P19", "")] * len(half))):
        checks = audit([dataclasses.replace(part, facts=own)], graph=graph)
        found[name] = {check.code: (check.n_checked, check.n_found) for check in checks}
    n = len(part.facts)
    assert found["ids"]["triple-in-graph"] == (n, n)
    for name, n_shared in (("half", 49), ("none", 97)):  # names that two people or towns share
        assert found[name]["fact-not-checked"] == (n, n_shared)
        assert found[name]["triple-in-graph"] == (n - n_shared, n - n_shared)


@pytest.mark.data
def test_codex_gives_away_what_its_inverses_say(data_root: Path) -> None:
    folder = data_root / "codex/codex-s"
    files = {"train": "train.txt.gz", "valid": "valid.txt", "test": "test.txt"}
    parts = [triples_part(name, folder / file) for name, file in files.items()]
    found = {(c.code, c.part): (c.n_checked, c.n_found) for c in audit(parts)}
    assert found["triple-in-graph", "test"] == (1828, 0)
    assert found["inverse-in-graph", "test"] == (1828, 258)
    assert found["pair-in-graph", "test"] == (1828, 29)
    assert found["repeated-triple", ""] == (36543, 0)


@pytest.mark.data
def test_answers_inside_subjects_of_lama(data_root: Path) -> None:
    files = sorted((data_root / "lama/TREx").glob("*.jsonl.gz"))
    parts = [cloze_part(file.name, file) for file in files]
    (n_found, n_checked) = map(
        sum, zip(*((c.n_found, c.n_checked) for c in audit(parts)), strict=True)
    )
    assert (n_checked, n_found) == (22881, 2624)
