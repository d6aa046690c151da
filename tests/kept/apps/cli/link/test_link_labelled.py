"""`kept link` on labelled texts: labels go along, and its lines are labelled texts again."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.tasks.datasets.tables import read_labelled
from kg_loaders import Text, TextKind, Triple, graph_from_records


@pytest.fixture
def kg(tmp_path: Path) -> Path:
    texts = [Text(f"P{i}", TextKind.LABEL, name) for i, name in enumerate(("Anna", "Bo"))]
    graph_from_records([*texts, Triple("P0", "knows", "P1")]).save(tmp_path / "kg")
    return tmp_path / "kg"


TABLES = {
    "mention.csv": "text,mention,label\nAnna left Bo.,Anna,x\n",
    "relation.tsv": "text\thead\ttail\tlabel\nAnna left Bo.\tAnna\tBo\tx\n",
    "typing.csv": "text,start,end,labels\nAnna left Bo.,0,4,x|y\n",
    "classification.jsonl": '{"text": "Anna left Bo.", "label": "x"}\n',
    "mention.jsonl": '{"text": "Anna left Bo.", "targets": [[0, 4]], "label": "x"}\n',
}


@pytest.mark.parametrize("name", TABLES)
def test_labels_go_along(name: str, kg: Path, tmp_path: Path) -> None:
    source, target = tmp_path / name, tmp_path / "linked.jsonl"
    source.write_text(TABLES[name], encoding="utf-8")
    done = CliRunner().invoke(app, ["link", str(source), "--kg", str(kg), "-o", str(target)])
    assert done.exit_code == 0, done.output
    before, after = read_labelled(source), read_labelled(target)
    assert after.kind == before.kind == name.partition(".")[0]
    (one,), (other,) = before.examples, after.examples
    assert (one.labels, one.targets) == (other.labels, other.targets)
    assert [link.entity for link in other.linked.links] == ["P0", "P1"]


def test_a_table_without_texts_is_refused_and_one_without_a_header_is_lines(
    kg: Path, tmp_path: Path
) -> None:
    path, target = tmp_path / "a.csv", tmp_path / "linked.jsonl"
    path.write_text("Anna left.\nBo came.\n", encoding="utf-8")
    arguments = ["link", str(path), "--kg", str(kg), "-o", str(target)]
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, len(target.read_text(encoding="utf-8").splitlines())) == (0, 2)
    done = CliRunner().invoke(app, [*arguments, "--format", "table", "--force"])
    assert done.exit_code == 1
    assert "no column of texts" in done.output
