"""What a build will take, beside what it took."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
from kg_loaders import Source, SourceError, load
from kg_loaders import forecast as module
from kg_loaders.forecast import forecast, free_memory


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hundred thousand triples in random order, names, and the triples in order of heads."""
    folder, draws = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    heads, tails = draws.integers(0, 40_000, (2, 200_000)).tolist()
    rows = [f"/m/{h}\tr{h % 7}\t/m/{t}\n" for h, t in zip(heads, tails, strict=True)]
    (folder / "t.tsv").write_text("".join(rows))
    (folder / "sorted.tsv").write_text("".join(sorted(rows)))
    (folder / "packed.tsv.gz").write_bytes(gzip.compress("".join(rows).encode()))
    names = [f"/m/{i}\tname of {i}\n" for i in range(40_000)]
    (folder / "n.tsv").write_text("".join(names))
    return folder


@pytest.mark.parametrize(
    "names", [["t.tsv"], ["sorted.tsv"], ["packed.tsv.gz"], ["t.tsv", "n.tsv"]]
)
def test_a_sample_says_what_the_whole_holds(
    names: list[str], files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kg_loaders.reading.lines.LINE_BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr("kg_loaders.reading.unpacking.BLOCK_BYTES", 1 << 16, raising=False)
    sources = [Source(files / n, "texts" if n == "n.tsv" else None) for n in names]
    output = forecast(sources, sample_bytes=1 << 19)
    graph, _ = load(sources, out=tmp_path / "kg")
    disk = sum(path.stat().st_size for path in (tmp_path / "kg").rglob("*") if path.is_file())
    assert output.n_triples == pytest.approx(graph.n_triples, rel=0.2)
    assert output.n_entities == pytest.approx(graph.n_entities, rel=0.2)
    assert output.n_texts == pytest.approx(len(graph.entity_texts), rel=0.2)
    assert output.disk_bytes == pytest.approx(disk, rel=0.2)
    assert output.seconds > 0
    assert "GB of memory" in str(output)


def test_a_file_that_fits_is_counted(files: Path) -> None:
    output = forecast([files / "t.tsv"])
    graph, _ = load([files / "t.tsv"])
    assert abs(output.n_triples - 200_000) <= 0
    assert output.n_entities == graph.n_entities


def test_the_command_says_it(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = ["kg", "build", str(files / "t.tsv"), "-o", str(files / "kg")]
    outcome = CliRunner().invoke(app, [*line, "--forecast"])
    assert outcome.exit_code == 0
    assert "forecast: about 200,000 triples" in outcome.stdout
    assert not (files / "kg").exists()
    assert "forecast" not in CliRunner().invoke(app, line).output
    monkeypatch.setattr(module, "LARGE_BYTES", 1000)
    monkeypatch.setattr(module, "free_memory", lambda: 1)
    outcome = CliRunner().invoke(app, [*line, "--force"])
    assert outcome.exit_code == 0
    assert "forecast: about 200,000 triples" in outcome.stderr
    assert "warning: 0.0 GB of memory are free" in outcome.stderr


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        forecast([tmp_path / "gone.tsv"])
    assert (free_memory() or 1) > 0
