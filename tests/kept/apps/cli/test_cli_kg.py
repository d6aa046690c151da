"""`kept kg` as a user meets it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from kept.apps.cli import main
from kg_loaders import KnowledgeGraph


@pytest.fixture
def kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> object:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.tsv").write_text("Q1\tP1\tQ2\nQ2\tP2\tQ3\nQ1\tP1\tQ2\n")
    (tmp_path / "bad.tsv").write_text("Q1\tP1\tQ2\nQ2\tP2\n")
    (tmp_path / "l.tsv").write_text("Q1\tParis\tcity\nQ2\tFrance\n")
    (tmp_path / "a.tsv").write_text("Q1\tCity of Light\t3\n")
    (tmp_path / "r.tsv").write_text("P1\tcapital of\n")

    def run(command: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["kept", *command.split()])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


BUILD = "kg build t.tsv --labels l.tsv --aliases a.tsv --relation-labels r.tsv -o kg"


def test_build_and_info(kept) -> None:  # type: ignore[no-untyped-def]
    code, out, err = kept(BUILD + " --licence CC0-1.0 --language fr")
    assert (code, err) == (0, "")
    assert "7 lines + 1 further record = 2 triples + 5 texts + 1 duplicate" in out
    assert "3 entities, 2 relations, 2 triples" in out
    code, out, _ = kept("kg info kg --json")
    facts = json.loads(out)
    assert facts["n_label"] == 2
    assert facts["n_alias"] == facts["n_description"] == facts["n_relation_texts"] == 1
    assert facts["languages"] == ["fr"]
    assert facts["sources"] == ["t.tsv", "l.tsv", "a.tsv", "r.tsv"]
    assert facts["content_hash"] in kept("kg info kg")[1]


def test_errors_are_one_message(kept) -> None:  # type: ignore[no-untyped-def]
    for command, message in (
        ("kg build bad.tsv -o kg", "bad.tsv, line 2 (byte 9): 2 fields instead of 3"),
        ("kg build none.tsv -o kg", "none.tsv does not exist"),
        ("kg build t.tsv --order xyz -o kg", "order 'xyz' is none of"),
        ("kg info nowhere", "nowhere does not exist"),
        ("kg build t.tsv --format doc -o kg", "format 'doc' is none of"),
        ("kg build t.tsv --damage quarantine -o kg", "needs a quarantine file"),
    ):
        code, out, err = kept(command)
        assert (code, out) == (1, "")
        assert err.startswith("error: ")
        assert message in err
        assert err.count("\n") == 1


def test_damage_policies(kept, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, err = kept("kg build bad.tsv -o kg --damage skip --json")
    assert json.loads(out)["load"]["n_rejected"] == 1
    code, out, err = kept("kg build bad.tsv -o kg --force --quarantine q.tsv --order rht")
    assert (code, "rejected: bad.tsv, line 2" in err) == (0, True)
    assert (tmp_path / "q.tsv").read_text() == "Q2\tP2\n"


def test_check(kept) -> None:  # type: ignore[no-untyped-def]
    kept(BUILD)
    code, out, _ = kept("kg check kg")
    assert (code, "W402 entities of triples without a label: 1 of 3: Q3" in out) == (0, True)
    code, out, _ = kept("kg check kg --split kg --json")
    assert code == 1
    assert {row["code"] for row in json.loads(out)} >= {"E201", "W301", "W403"}


@pytest.mark.parametrize("suffix", ["tsv", "jsonl", "nt"])
def test_export(kept, tmp_path: Path, suffix: str) -> None:  # type: ignore[no-untyped-def]
    kept(BUILD)
    code, out, _ = kept(f"kg export kg -o x.{suffix}")
    n_lines = {"tsv": 2, "jsonl": 5, "nt": 7}[suffix]
    assert (code, out) == (0, f"{n_lines} written to x.{suffix}\n")
    assert (tmp_path / f"x.{suffix}").read_text().count("\n") == (
        3 if suffix == "jsonl" else n_lines
    )


@pytest.mark.parametrize("command", ["build", "info", "check", "export"])
def test_help_has_an_example(kept, command: str) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = kept(f"kg {command} --help")
    assert (code, f"Example: kept kg {command}" in " ".join(out.split())) == (0, True)


@pytest.mark.parametrize(("kind", "n_triples"), [("triple", 2), ("text", 1), ("both", 2)])
def test_rdf_types(kept, tmp_path: Path, kind: str, n_triples: int) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "x.ttl").write_text("@prefix e: <http://e/> . e:Tim a e:Person ; e:leads e:Apple .")
    assert kept(f"kg build x.ttl --rdf-types {kind} -o kg")[0] == 0
    graph = KnowledgeGraph.open(tmp_path / "kg")
    types = graph.types(graph.entities.id("http://e/Tim"))
    assert (graph.n_triples, types) == (n_triples, [] if kind == "triple" else ["http://e/Person"])
    assert kept("kg export kg -o again.ttl")[0] == 0
    assert "kept:" in (tmp_path / "again.ttl").read_text()


def test_a_file_that_workers_cannot_part_is_told(kept, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    facts = b"<u:x> <u:p> <u:y> .\n"
    (tmp_path / "x.nt").write_bytes(facts)
    (tmp_path / "x.nt.gz").write_bytes(gzip.compress(facts))
    code, _, err = kept("kg build x.nt -o one --workers 2")
    assert (code, "note" in err) == (0, False)
    code, _, err = kept("kg build x.nt.gz -o two --workers 2 --json")
    assert code == 0
    assert "note: x.nt.gz is compressed and was read by one process" in " ".join(err.split())


def test_commas_are_recognised(kept, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "c.tsv").write_text("Q1,P1,Q2\nQ2,P2,Q3\n")
    code, _, err = kept("kg build c.tsv -o kg")
    assert code == 1
    hint = "looks comma-separated: name the file .csv, or put TABs between its columns"
    assert hint in " ".join(err.split())
    (tmp_path / "c.csv").write_text("Q1,P1,Q2\n")
    assert kept("kg build c.csv -o kg")[0] == 0
    (tmp_path / "one.tsv").write_text("word\n")
    assert "comma" not in kept("kg build one.tsv -o kg")[2]


def test_columns_in_another_order_are_noticed(kept, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "rht.tsv").write_text("P1\tQ1\tQ2\nP2\tQ2\tQ3\n")
    code, _, err = kept("kg build rht.tsv --labels l.tsv -o kg")
    assert code == 0
    output = " ".join(err.split())
    assert "W407 relations that are entities with a label: 2 of 2" in output
    assert "see --order" in output
    assert "W407" not in kept("kg build rht.tsv --order rht --labels l.tsv -o kg2")[2]
    assert "W407" in kept("kg check kg")[1]


RDF_WITH_ENTITY = """<!DOCTYPE rdf:RDF [<!ENTITY at "http://a/"><!ENTITY town "&at;town">]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:a="http://a/">
<rdf:Description rdf:about="http://a/Paris"><a:is rdf:resource="&town;"/></rdf:Description>
</rdf:RDF>
"""


def test_limits_are_an_option_of_every_command(kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT_LIMITS", "depth=9")  # put back after the test
    Path("x.rdf").write_text(RDF_WITH_ENTITY)
    code, _, errors = kept("kg build x.rdf -o kg")
    assert code == 1
    assert "kept --limits entities=NUMBER" in errors
    code, _, errors = kept("--limits entity=1 kg build x.rdf -o kg")
    assert code == 1
    assert "'entity=1' is not a limit" in errors
    assert kept("--limits entities=1 kg build x.rdf -o kg")[0] == 0
    assert KnowledgeGraph.open("kg").entities.find("http://a/town") is not None


def test_what_a_table_is_can_be_said_in_build_and_add(kept, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "x.csv").write_bytes("von;nach;art\nMüller;Weir;besucht\n".encode("latin-1"))
    (tmp_path / "y.tsv").write_text("who\thow\twhom\nMira\tbesucht\tWeir\n")
    code, _, err = kept("kg build x.csv -o kg --encoding latin-1 --order von,art,nach")
    assert (code, err) == (0, "")
    assert KnowledgeGraph.open(tmp_path / "kg").facts("Müller") == [("Müller", "besucht", "Weir")]
    code, _, err = kept("kg add kg y.tsv -o kg2 --header yes")
    assert code == 0
    assert "passed over as a header" in err
    assert KnowledgeGraph.open(tmp_path / "kg2").n_triples == 2
    code, _, err = kept("kg add kg y.tsv -o kg3 --order htr")
    assert (code, err) == (0, "")
    assert ("Mira", "Weir", "besucht") in KnowledgeGraph.open(tmp_path / "kg3").facts("Mira")
    code, _, err = kept("kg build x.csv -o kg4 --header perhaps")
    assert code == 2


def test_headers_of_files_of_texts(kept, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "hl.tsv").write_text("id\tname\tkind\nQ1\tParis\tcity\n")
    (tmp_path / "ha.csv").write_text("id,synonym\nQ1,City of Light\n")
    (tmp_path / "ht.tsv").write_text("node\ttype\nQ2\tcountry\n")
    (tmp_path / "hd.tsv").write_text("qid\tdefinition\nQ1\ton the Seine\n")
    (tmp_path / "hr.tsv").write_text("relation\tlabel\nP1\tcapital of\n")
    code, _, err = kept(
        "kg build t.tsv --labels hl.tsv --aliases ha.csv --types ht.tsv --descriptions hd.tsv "
        "--relation-labels hr.tsv -o kg"
    )
    assert (code, err) == (0, "")
    graph = KnowledgeGraph.open(tmp_path / "kg")
    assert list(graph.entities) == ["Q1", "Q2", "Q3"], "no header is an entity"
    assert list(graph.relations) == ["P1", "P2"]
    assert graph.manifest.load_counts["n_texts"] == 6


@pytest.mark.parametrize(("flags", "n"), [((), 1), (("--no-types-of-facts",), 0)])
def test_types_of_facts_are_the_default(  # type: ignore[no-untyped-def]
    kept, tmp_path: Path, flags: tuple[str, ...], n: int
) -> None:
    (tmp_path / "x.tsv").write_text("anna\tinstance of\thuman\nanna\tknows\tbert\n")
    code, _, errors = kept(f"kg build x.tsv -o kg {' '.join(flags)}")
    assert code == 0
    assert ("1 type of 1 entity taken from the facts" in errors) is bool(n)
    graph = KnowledgeGraph.open(tmp_path / "kg")
    assert graph.n_triples == 2
    assert len(graph["anna"].types) == n
