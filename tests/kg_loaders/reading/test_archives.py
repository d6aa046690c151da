"""xz, and files in zip archives: found by name, bounded, and no name leads anywhere."""

from __future__ import annotations

import io
import lzma
import warnings
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
from kg_loaders import DamageReport, KgError, KnowledgeGraph, SourceError, load
from kg_loaders.build import resolve_format
from kg_loaders.errors import BudgetError
from kg_loaders.reading import unpacking
from kg_loaders.reading.lines import read_lines
from kg_loaders.reading.unpacking import data_name, is_packed

TEXT = "a\tr\tb\nb\tr\tc\n"
TURTLE = "@prefix u: <u:> . u:a u:r u:b ."


def archive(path: Path, members: dict[str, str | bytes], method: int = 8) -> Path:
    with zipfile.ZipFile(path, "w", method) as sink, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in members.items():
            sink.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_the_one_file_of_an_archive(tmp_path: Path, method: int) -> None:
    (tmp_path / "x.tsv").write_text(TEXT)
    expected, _ = load([tmp_path / "x.tsv"])
    members = {"d/": "", "d/x.tsv": TEXT, "__MACOSX/d/._x.tsv": "no", "d/.DS_Store": b"\0"}
    path = archive(tmp_path / "data.ZIP", members, method)
    for source in (path, tmp_path / "data.ZIP::d/x.tsv", path / "d/x.tsv"):
        graph, report = load([source], n_workers=2)
        report.check()
        assert graph.content_hash == expected.content_hash


@pytest.mark.parametrize(
    ("member", "text", "format"),
    [
        ("x.ttl", TURTLE, ("rdf", {})), ("x.bin", TURTLE, ("rdf", {"format": "ttl"})),
        ("x.csv", "a,r,b\n", ("csv", {})), ("x.json", '[["a","r","b"]]', ("json", {})),
        ("x.obo", "[Term]\nid: a\nname: A\n", ("obo", {})),
        ("x.nt", "<u:a> <u:r> <u:b> .\n", ("rdf", {})),
    ],
)  # fmt: skip
def test_the_format_is_that_of_the_member(
    tmp_path: Path, member: str, text: str, format: tuple[str, dict[str, str]]
) -> None:
    path = archive(tmp_path / "x.zip", {member: text})
    (tmp_path / f"{member}.xz").write_bytes(lzma.compress(text.encode()))
    for packed in (path, Path(f"{path}::{member}"), tmp_path / f"{member}.xz"):
        assert resolve_format(packed) == format
        assert is_packed(packed)
        assert data_name(packed) == member
        assert load([packed])[0].n_entities in (1, 2)


def test_tables_of_texts(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(TEXT)
    names = archive(tmp_path / "names.zip", {"n.csv": 'a,"A, the first"\n'})
    command = ["kg", "build", str(tmp_path / "x.tsv"), "--labels", str(names)]
    done = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "kg")])
    assert done.exit_code == 0, done.output
    assert KnowledgeGraph.open(tmp_path / "kg")["a"].label == "A, the first"


@pytest.mark.parametrize(
    ("path", "members", "message"),
    [
        ("x.zip", {"a.tsv": TEXT, "b.tsv": TEXT},
         r"holds 2 files \('a.tsv', 'b.tsv'\); name one of them: .*x.zip::MEMBER"),
        ("x.zip", {f"{n}.tsv": TEXT for n in range(30)}, r"holds 30 files .*'7.tsv', \.\.\.\)"),
        ("x.zip", {}, "holds no file"),
        ("x.zip::no.tsv", {"a.tsv": TEXT}, "has no member 'no.tsv'"),
        ("x.zip", {"a.tsv.gz": TEXT}, "is itself packed; unpack the archive"),
        ("x.zip", {"b.zip": TEXT}, "is itself packed; unpack the archive"),
        ("x.zip", {"a.parquet": b"PAR1" + bytes(9) + b"PAR1"}, "Parquet is not read from a packed"),
        ("no.zip::a.tsv", {"a.tsv": TEXT}, "does not exist"),
    ],
)  # fmt: skip
def test_what_is_refused(
    tmp_path: Path, path: str, members: dict[str, str | bytes], message: str
) -> None:
    archive(tmp_path / "x.zip", members)
    with pytest.raises(SourceError, match=message):
        load([tmp_path / path])


def test_the_command_takes_a_member(tmp_path: Path) -> None:
    archive(tmp_path / "x.zip", {"d/x.tsv": TEXT, "b.txt": "no"})
    for path, code, words in (
        ("x.zip::d/x.tsv", 0, "2 triples"),
        ("x.zip::no.tsv", 1, "x.zip has no member 'no.tsv'"),
        ("x.zip::no", 1, "x.zip has no member 'no'"),
        ("y.zip::d/x.tsv", 1, "y.zip does not exist; did you mean"),
        ("x.zip", 1, "holds 2 files ('d/x.tsv', 'b.txt')"),
    ):
        command = ["kg", "build", str(tmp_path / path), "--force", "-o", str(tmp_path / "kg")]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == code, done.output or done.exception
        assert words in (done.output + str(done.exception)).replace("\n", " ")


HOSTILE_NAMES = (
    "../../../../etc/evil.tsv", "/etc/evil.tsv", "C:\\evil.tsv", "..\\evil.tsv", "a\n\x1b[31m.tsv",
    "x" * 5000 + ".tsv", "\u202egpj.tsv", "con.tsv", "~/evil.tsv", "a::b.tsv", " .tsv", "-rf.tsv",
    "file:///etc/passwd.tsv", "a/./b/../c.tsv", "$(id).tsv", "%s%n.tsv",
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_name_leads_nowhere(tmp_path: Path, name: str) -> None:
    """The member is read, whatever it is called, and no other file comes to be."""
    (tmp_path / "in").mkdir()
    path = archive(tmp_path / "in/x.zip", {name: TEXT})
    graph, _ = load([path], out=tmp_path / "out")
    assert graph.n_triples == 2
    assert {each.name for each in tmp_path.iterdir()} == {"in", "out"}
    assert [each.name for each in (tmp_path / "in").iterdir()] == ["x.zip"]
    archive(tmp_path / "in/x.zip", {name: TEXT, "b.tsv": TEXT})
    with pytest.raises(SourceError, match="holds 2 files") as refused:
        load([path])
    assert str(refused.value).isprintable(), "no control character reaches the terminal"


def test_two_members_of_one_name_are_no_one_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as sink, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sink.writestr("a.tsv", TEXT)
        sink.writestr("a.tsv", TEXT + TEXT)
    with pytest.raises(SourceError, match="holds 2 files"):
        load([tmp_path / "x.zip"])


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_bomb_is_refused(tmp_path: Path, method: int) -> None:
    path = archive(tmp_path / "x.zip", {"a.tsv": bytes(100_000_000)}, method)
    assert path.stat().st_size < 200_000
    for source in (path, Path(f"{path}::a.tsv")):
        with pytest.raises(BudgetError, match="the limit expansion is 200"):
            list(read_lines(source, DamageReport("skip"), max_line_bytes=1000))  # type: ignore[arg-type]


def test_xz_that_asks_for_too_much_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is lowered here: a file that asks for more than 1 GiB takes as much to write."""
    monkeypatch.setattr(unpacking, "XZ_MEMORY", 1 << 20)
    (tmp_path / "x.tsv.xz").write_bytes(lzma.compress(TEXT.encode()))
    with pytest.raises(SourceError, match="ask for more memory than 1 MiB; unpack it yourself"):
        load([tmp_path / "x.tsv.xz"])


@pytest.mark.parametrize("cut", [0, 3, 10, 40, 60, -1, -10])
def test_a_damaged_archive_is_named(tmp_path: Path, cut: int) -> None:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as packed:
        packed.writestr("a.tsv", TEXT)
    for path in ("x.zip", "x.zip::a.tsv"):
        (tmp_path / "x.zip").write_bytes(sink.getvalue()[:cut])
        with pytest.raises(KgError, match=r"x\.zip.*zip data are damaged"):
            load([tmp_path / path])
