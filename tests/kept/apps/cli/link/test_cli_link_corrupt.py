"""`kept link corrupt`: what it writes, replaces and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from entity_linking.annotations import gold_link, read_jsonl, write_jsonl
from entity_linking.mentions import LinkedText
from kept.apps.cli import app
from kg_loaders.damage import DamageReport


def corrupt(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["link", "corrupt", *map(str, arguments)])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    texts = [LinkedText(f"Paris {i}", (gold_link(0, 5, "Q90"),)) for i in range(20)]
    write_jsonl(texts, tmp_path / "links.jsonl")
    return tmp_path / "links.jsonl"


def n_links(path: Path) -> int:
    return sum(len(text.links) for text in read_jsonl(path, DamageReport()))


def test_a_share_of_the_links_is_removed(source: Path, tmp_path: Path) -> None:
    done = corrupt(source, "-o", tmp_path / "half.jsonl", "--drop", 0.5)
    assert done.exit_code == 0, done.output
    assert n_links(tmp_path / "half.jsonl") == 10
    assert f"20 texts in {tmp_path / 'half.jsonl'}" in done.stdout.replace("\n", "")
    corrupt(source, "-o", tmp_path / "none.jsonl")
    assert n_links(tmp_path / "none.jsonl") == 20


def test_an_existing_file_is_replaced_with_force_alone(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("mine", encoding="utf-8")
    refused = corrupt(source, "-o", out, "--drop", 1)
    assert refused.exit_code == 1
    assert out.read_text(encoding="utf-8") == "mine"
    assert corrupt(source, "-o", out, "--drop", 1, "--force").exit_code == 0
    assert n_links(out) == 0


def test_its_own_input_is_never_replaced(source: Path) -> None:
    before = source.read_bytes()
    assert corrupt(source, "-o", source, "--drop", 1, "--force").exit_code == 1
    assert source.read_bytes() == before


def test_an_output_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    """Of a long file this would be known only in the end."""
    source, out = tmp_path / "damaged.jsonl", tmp_path / "out.jsonl"
    source.write_text("no JSON\n", encoding="utf-8")
    out.write_text("mine", encoding="utf-8")
    refused = corrupt(source, "-o", out, "--drop", 1)
    assert refused.exit_code == 1
    assert "out.jsonl" in refused.stderr.replace("\n", "")
    assert "no JSON" not in refused.stderr
