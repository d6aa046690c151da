"""`kept audit`: every leak is found once, in one table with one exit code."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from entity_linking.annotations import gold_link
from entity_linking.mentions import LinkedText, Mention
from kept.apps.cli.comparing.audit_sets import of_items
from kept.errors import ConfigError
from kept.evaluation.audit import AuditPart, audit, fact_ids
from kept.evaluation.leakage import CODES, LeakCheck, audit_table, repeated_pairs, repeated_texts
from kept.lab.probing.items.item import HOLE, ClozeItem
from kg_loaders import KnowledgeGraph
from tests.kept.evaluation.auditing import counts, kept


def row(words: str, head: str, tail: str, relation: str) -> dict[str, Any]:
    token = words.split()
    ends = {
        "h": {"id": head, "pos": [0, 1]},
        "t": {"id": tail, "pos": [len(token) - 1, len(token)]},
    }
    return {"token": token, "relation": relation, **ends}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    small_graph.save(folder / "kg")
    sets = {
        "train": [row("Paris lies in France", "Q90", "Q142", "country")],
        "dev": [
            row("PARIS lies  in France", "Q142", "Q90", "capital"),
            row("Bonn speaks German", "Q2", "Q188", "official language"),
        ],
    }
    for name, rows in sets.items():
        (folder / f"{name}.txt").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / "a.tsv").write_text("a\tr\tb\nb\tr\tc\nc\ts\ta\n", encoding="utf-8")
    (folder / "b.tsv").write_text("a\tr\tb\nc\tr\tb\na\ts\tb\nx\tr\ta\n", encoding="utf-8")
    questions = [
        {"sub_label": "Bank of France", "obj_label": "France", "sub_uri": "Q90", "obj_uri": "Q142",
         "predicate_id": "P17", "evidences": [{"masked_sentence": "It is in [MASK] .",
                                              "obj_surface": "french France"}]},
        {"sub_label": "Seine", "obj_label": "Paris", "masked_sentences": ["It flows", "to [MASK]."],
         },
    ]  # fmt: skip
    (folder / "lama.jsonl").write_text("\n".join(map(json.dumps, questions)), encoding="utf-8")
    (folder / "read.txt").write_text("it flows to paris.\n\nother\n", encoding="utf-8")
    (folder / "read.jsonl").write_text(
        json.dumps({"text": "It is in french France .", "mentions": []}) + "\n", encoding="utf-8"
    )
    return folder


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
    dev = AuditPart("dev", "task", texts=["one", "three"], facts=[("one", "r", "y")])
    counts_of_checks = {c.code: (c.n_checked, c.n_found) for c in audit([*tasks, dev])}
    assert counts_of_checks == {
        "text-in-training": (2, 2), "repeated-text": (2, 2), "repeated-pair": (1, 1),
    }  # fmt: skip
    assert len(audit([*tasks, dev, AuditPart("dev", "task", texts=["x"])])) == 3
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
    checks = audit(
        [of_items("x", items)], graph=small_graph, training_texts=["paris is in FRANCE ."]
    )
    assert [(c.code, c.n_checked, c.n_found) for c in checks][-2:] == [
        ("text-in-training", 2, 2), ("answer-in-subject", 2, 0),
    ]  # fmt: skip
    assert (checks[0].n_checked, checks[0].n_found) == (1, 1)


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
