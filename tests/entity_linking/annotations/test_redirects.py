"""Redirects in linked text: read, followed to the end, counted; faults by file and line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from entity_linking.annotations.redirects import Redirects
from entity_linking.errors import LinkingError
from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.apps.cli import app
from kg_loaders import KnowledgeGraph
from tests.kept.training.tiny_pretraining import write_everything

CHAIN = {"U.S.": "USA", "USA": "United_States", "Big Apple": "New York City"}


def run(*flags: object) -> Result:
    return CliRunner().invoke(app, [*map(str, flags)], env={"COLUMNS": "200"})


@pytest.mark.parametrize(
    ("name", "known", "target"),
    [
        ("U.S.", (), "United_States"),
        ("USA", (), "United_States"),
        ("Big_Apple", (), "New York City"),
        ("Big Apple", (), "New York City"),
        ("Paris", (), "Paris"),
        ("U.S.", ("USA",), "USA"),
        ("U.S.", ("U.S.", "USA"), "U.S."),
        ("U.S.", ("United States",), "United States"),
        ("Big Apple", ("New_York_City",), "New_York_City"),
        ("usa", (), "usa"),
        ("", (), ""),
    ],
)
def test_where_a_name_leads(name: str, known: tuple[str, ...], target: str) -> None:
    assert Redirects(CHAIN).target(name, known.__contains__) == target


@pytest.mark.parametrize(
    "circle", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "b"}, {"a b": "a_b"}]
)
def test_a_circle_is_refused(circle: dict[str, str]) -> None:
    with pytest.raises(LinkingError, match="leads in a circle"):
        Redirects(circle)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\nc\n", "line 2: 'c' is not from<TAB>to"),
        ("a\tb\tc\n", "line 1"),
        ("a\t\n", "line 1"),
        ("a\tb\n\n", "line 2"),
        ("a\tb\na\tc\n", "line 2: 'a' leads to 'c' here and to 'b' before"),
        ("a\tb\nb\ta\n", "leads in a circle"),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "redirects.tsv"
    path.write_text(text)
    with pytest.raises(LinkingError) as error:
        Redirects.read(path)
    assert message in str(error.value)
    assert "redirects.tsv" in str(error.value)


def test_a_file_may_be_compressed_and_repeat_a_line(tmp_path: Path) -> None:
    path = tmp_path / "redirects.tsv.gz"
    path.write_bytes(gzip.compress("Zürich (Stadt)\tZürich\nZürich_(Stadt)\tZürich\n".encode()))
    redirects = Redirects.read(path)
    assert len(redirects) == 1
    assert redirects.target("Zürich (Stadt)") == "Zürich"


def test_candidates_that_become_one_share_a_place() -> None:
    candidates = (Candidate("U.S.", 0.4, 2.0), Candidate("x", 0.3, 1.0), Candidate("USA", 0.2, 0.5))
    link = Link(Mention(0, 4), candidates, "U.S.", 0.4)
    actual = Redirects(CHAIN).resolve([LinkedText("U.S. and x", (link,))])
    assert (actual.n_resolved, actual.n_links) == (1, 1)
    (new,) = actual.texts[0].links
    assert new.entity == "United_States"
    assert [(c.entity, c.score) for c in new.candidates] == [("United_States", 2.0), ("x", 1.0)]
    assert new.candidates[0].prior == pytest.approx(0.6)


def test_nil_and_other_links_stay() -> None:
    links = (Link(Mention(0, 1), (), None, 0.9), Link(Mention(2, 3), (), "Paris", 0.5))
    actual = Redirects(CHAIN).resolve([LinkedText("a b", links)])
    assert actual.n_resolved == 0
    assert actual.texts[0].links == links


# ---- commands ------------------------------------------------------------------------------------
@pytest.fixture
def files(tmp_path: Path, small_graph: KnowledgeGraph) -> Path:
    """Texts of which half lead to a redirect of Q90, and the file of redirects."""
    settings = write_everything(tmp_path, small_graph)
    (tmp_path / "pretrain.yaml").write_text(yaml.safe_dump(settings))
    rows = [
        {"id": str(i), "text": "Paris is old and large.",
         "mentions": [{"start": 0, "end": 5, "entity": "Q90" if i % 2 else "Ville_Lumiere"}]}
        for i in range(12)
    ]  # fmt: skip
    (tmp_path / "linked.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "redirects.tsv").write_text("Ville Lumiere\tParis\nParis\tQ90\n")
    return tmp_path


def test_pre_training_resolves_and_counts(files: Path) -> None:
    line = ("pretrain", "-c", files / "pretrain.yaml", "--text", files / "linked.jsonl", "--kg",
            files / "kg", "--steps", 1)  # fmt: skip
    shares = {}
    for name, flags in (("without", ()), ("with", ("--redirects", files / "redirects.tsv"))):
        done = run(*line, "-o", files / name, *flags)
        assert done.exit_code == 0, done.output
        stderr = " ".join(done.stderr.split())
        assert ("6 of 12 links were redirects and are resolved" in stderr) is bool(flags)
        shares[name] = json.loads((files / name / "coverage.json").read_text())["with_link"]
    assert shares == {"without": 6, "with": 12}


def test_vectors_are_trained_on_targets(files: Path) -> None:
    done = run(
        "vectors", "train", "--kg", files / "kg", "--text", files / "linked.jsonl", "--redirects",
        files / "redirects.tsv", "--set", "min_word_count=1", "--width", 4, "--epochs", 1, "-o",
        files / "space",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "6 of 12 links were redirects and are resolved" in " ".join(done.stderr.split())


def test_a_re_ranker_is_trained_on_targets(files: Path) -> None:
    done = run(
        "link", "train", files / "linked.jsonl", "--kg", files / "kg", "--redirects",
        files / "redirects.tsv", "--epochs", 1, "-o", files / "reranker",
    )  # fmt: skip
    assert "6 of 12 links were redirects" in done.output


def test_a_missing_file_is_named(files: Path) -> None:
    done = run("pretrain", "-c", files / "pretrain.yaml", "--redirects", files / "no.tsv", "-o",
               files / "x")  # fmt: skip
    assert done.exit_code != 0
    assert "no.tsv" in done.output
