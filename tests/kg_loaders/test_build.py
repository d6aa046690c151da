"""`load`: formats, the damage suite per policy, all or nothing, the same bytes everywhere."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kg_loaders import (
    FORMATS,
    DamageError,
    DamageReport,
    KgError,
    KnowledgeGraph,
    Record,
    Source,
    SourceError,
    Text,
    TextKind,
    Triple,
    load,
)
from kg_loaders.build import Format, resolve_format
from kg_loaders.errors import ExistsError

GOOD = b"a\tr\tb\nb\tr\tc\n"
N_GOOD_LINES = 200_000


def many() -> bytes:
    return b"".join(b"e%d\tr\te%d\n" % (i, i + 1) for i in range(N_GOOD_LINES))


def cut(data: bytes) -> bytes:
    return gzip.compress(data)[:-2000]


# name of the case: (file name, bytes, reason, n_triples, n_rejected); None for what is no damage
CASES: dict[str, tuple[str, bytes, str | None, int, int]] = {
    "two fields": ("x.tsv", GOOD + b"a\tr\n", "2 fields instead of 3", 2, 1),
    "four fields": ("x.tsv", GOOD + b"a\tr\tb\tc\n", "4 fields instead of 3", 2, 1),
    "a lone word": ("x.tsv", GOOD + b"word\n", "1 field instead of 3", 2, 1),
    "empty field": ("x.tsv", GOOD + b"a\t\tb\n\t\t\n", "empty field", 2, 2),
    "invalid UTF-8": ("x.tsv", GOOD + b"caf\xe9\tr\tb\n", "not UTF-8", 2, 1),
    "UTF-16": ("x.tsv", "a\tr\tb\n".encode("utf-16"), None, 1, 0),
    "cut UTF-16": ("x.tsv", "a\tr\tb\n".encode("utf-16") + b"c", "not utf-16", 1, 1),
    "NUL": ("x.tsv", GOOD + b"a\0\tr\tb\n", None, 3, 0),
    "a block of zeros": ("x.tsv", GOOD + bytes(4096), "1 field instead of 3", 2, 1),
    "17 MB literal": ("x.tsv", GOOD + b"a\tr\t" + b"x" * 17_000_000 + b"\n", "longer than", 2, 1),
    "junk after gzip": ("x.tsv.gz", gzip.compress(GOOD) + b"junk", "junk after", 2, 1),
    "plain text named .gz": ("x.tsv.gz", GOOD, "not gzip data", 0, 1),
    "cut gzip": ("x.tsv.gz", cut(many()), "cut", -1, 1),
    "two members": ("x.tsv.gz", gzip.compress(GOOD) + gzip.compress(b"c\tr\td"), None, 3, 0),
    "BOM": ("x.tsv", b"\xef\xbb\xbf" + GOOD, None, 2, 0),
    "CRLF": ("x.tsv", GOOD.replace(b"\n", b"\r\n"), None, 2, 0),
    "no last line end": ("x.tsv", GOOD[:-1], None, 2, 0),
    "10 million characters": ("x.tsv", GOOD + b"a\tr\t" + b"y" * 10_000_000, None, 3, 0),
    "unclosed quote": ("x.tsv", b'"a\tr\tb\n' + many(), None, N_GOOD_LINES + 1, 0),
    "quotes": ("x.tsv", b'"Weird Al" Yankovic\tr\t"Heroes"\nHeroes\tr\t""\n', None, 2, 0),
    "NA and numbers": ("x.tsv", b"NA\t007\tnan\n7\t07\tnull\n", None, 2, 0),
    "spaces": ("x.tsv", b" a \t r\tb\na\tr\t \n", None, 2, 0),
    "comments": ("x.tsv", b"# said so\n#1 hit\tby\tX\n#\ty\tz\n\n \n", None, 2, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_damage_suite(tmp_path: Path, name: str) -> None:
    file, data, reason, n_triples, n_rejected = CASES[name]
    path = tmp_path / file
    path.write_bytes(data)
    out, bad = tmp_path / "kg", tmp_path / "bad.tsv"
    start = time.perf_counter()
    if reason is None:
        graph, report = load([path], out=out)
        assert (graph.n_triples, report.n_rejected) == (n_triples, 0)
    else:
        with pytest.raises((DamageError, SourceError), match=reason) as caught:
            load([path], out=out)
        assert str(path) in str(caught.value)
        assert "byte" in str(caught.value)
        assert sorted(os.listdir(tmp_path)) == [file]
    for policy, quarantine in (("skip", None), ("quarantine", bad)):
        if n_triples == 0:
            with pytest.raises(SourceError, match="no triple"):
                load([path], out=out, policy=policy, quarantine=quarantine, force=True)
            assert sorted(os.listdir(tmp_path)) == [file]
            continue
        graph, report = load([path], out=out, policy=policy, quarantine=quarantine, force=True)
        assert report.n_rejected == n_rejected
        assert graph.n_triples == (n_triples if n_triples >= 0 else report.n_lines - 1)
        assert graph.n_triples > 0
        if reason is not None:
            assert reason in next(iter(report.reasons))
    if n_triples:
        rejected = bad.read_bytes()
        assert rejected.count(b"\n") == n_rejected
        assert all(line in data + b"\n" for line in rejected.splitlines()) or "gz" in file
    assert time.perf_counter() - start < 30


def test_names_come_back_byte_for_byte(tmp_path: Path) -> None:
    for name in ("quotes", "NA and numbers", "spaces", "comments"):
        path = tmp_path / "x.tsv"
        path.write_bytes(CASES[name][1])
        graph, _ = load([path])
        rows = [
            "\t".join((graph.entities.name(h), graph.relations.name(r), graph.entities.name(t)))
            for h, r, t in graph.triples.tolist()
        ]
        lines = [line for line in path.read_text().split("\n") if "\t" in line]
        assert sorted(rows) == sorted(lines)


def test_identity_over_several_files(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(GOOD + GOOD + b"\n# x\nbad\n")
    (tmp_path / "l.tsv").write_text("a\tA\tfirst\na\tA\nq\tQ\n\nq\t\n")
    graph, report = load(
        [tmp_path / "a.tsv", Source(tmp_path / "l.tsv", "texts")], policy="skip", licence="CC0-1.0"
    )
    counts = report.counts()
    assert counts == {
        "n_lines": 12, "n_further": 1, "n_triples": 2, "n_texts": 3, "n_duplicates": 3,
        "n_blank": 2, "n_comment": 1, "n_rejected": 1, "n_skipped": 1,
    }  # fmt: skip
    report.check()
    assert graph.manifest.sources == ("a.tsv", "l.tsv")
    assert graph.manifest.load_counts == counts
    assert graph.entities.find("q") is not None
    report.n_blank += 1
    with pytest.raises(KgError, match="does not add up"):
        report.check()


def test_all_or_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(GOOD)
    load([tmp_path / "a.tsv"], out=tmp_path / "kg")
    before = KnowledgeGraph.open(tmp_path / "kg").content_hash
    (tmp_path / "b.tsv").write_bytes(b"x\ty\tz\nbad\n")
    with pytest.raises(ExistsError, match="--force"):
        load([tmp_path / "b.tsv"], out=tmp_path / "kg", policy="skip")
    with pytest.raises(DamageError, match=r"b\.tsv, line 2"):
        load([tmp_path / "a.tsv", tmp_path / "b.tsv"], out=tmp_path / "kg", force=True)
    assert KnowledgeGraph.open(tmp_path / "kg", verify=True).content_hash == before
    assert sorted(os.listdir(tmp_path)) == ["a.tsv", "b.tsv", "kg"]


def test_quarantine_is_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(GOOD)
    (tmp_path / "bad").write_text("mine")
    with pytest.raises(ExistsError, match="choose another name"):
        load([tmp_path / "a.tsv"], policy="quarantine", quarantine=tmp_path / "bad")
    source = tmp_path / "a.tsv"
    with pytest.raises(ExistsError, match="is the input"):
        load([source], policy="quarantine", quarantine=source, force=True)
    assert (tmp_path / "bad").read_text() == "mine"
    assert (tmp_path / "a.tsv").read_bytes() == GOOD
    with pytest.raises(DamageError, match="needs a quarantine file"):
        load([tmp_path / "a.tsv"], policy="quarantine")


HASHER = """
import hashlib, sys
from pathlib import Path
from kg_loaders import Source, load
folder = Path(sys.argv[1])
load([folder / "t.tsv", folder / "n.jsonl"], out=folder / sys.argv[2])
print(hashlib.sha256(b"".join(
    f.read_bytes() for f in sorted((folder / sys.argv[2]).rglob("*")) if f.is_file()
)).hexdigest())
"""


def test_same_bytes_under_any_hash_seed(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 50, (500, 3))
    (tmp_path / "t.tsv").write_text("".join(f"e{h}\tr{r % 7}\te{t}\n" for h, r, t in rows))
    (tmp_path / "n.jsonl").write_text(
        "".join(
            f'{{"id":"e{h}","label":"L{r}","aliases":["x",["y",{t}]],"language":"x-{t % 9}"}}\n'
            for h, r, t in rows
        )
    )
    digests = [
        subprocess.run(
            [sys.executable, "-c", HASHER, tmp_path, f"kg{seed}"],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True,
        ).stdout
        for seed in ("0", "1", "2")
    ]  # fmt: skip
    assert len(digests[0]) == 65
    assert len(set(digests)) == 1


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.tsv", "tsv"), ("a.TXT.gz", "tsv"), ("train2id.txt", "openke"), ("a.nt.bz2", "rdf"),
        ("a.ttl", "rdf"), ("dump.json.zst", "wikidata"), ("a.jsonl", "jsonl"), ("a.spo", "spo"),
    ],
)  # fmt: skip
def test_guess_format(tmp_path: Path, name: str, format: str) -> None:
    (tmp_path / name).touch()
    assert resolve_format(tmp_path / name)[0] == format


def test_formats_that_cannot_be_told(tmp_path: Path) -> None:
    (tmp_path / "x.doc").touch()
    (tmp_path / "triples.tsv").touch()
    for source, message in (
        (Source(tmp_path / "x.doc"), "cannot tell"),
        (Source(tmp_path), "cannot tell"),
        (Source(tmp_path / "none.tsv"), "does not exist"),
        (Source(tmp_path / "tripels.tsv"), "does not exist; did you mean triples.tsv"),
        (Source(tmp_path / "x.doc", "excel"), "'excel' is none of tsv"),
    ):
        with pytest.raises(SourceError, match=message):
            load([source])
    (tmp_path / "data.noun").touch()
    assert resolve_format(tmp_path)[0] == "wordnet"


def test_text_columns_and_a_reader_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path, report: DamageReport, *, languages: tuple[str, ...]) -> Iterator[Record]:
        report.units = "items"
        report.n_lines += 2
        yield Triple("a", "r", "b")
        yield Text("a", TextKind.LABEL, languages[0])

    monkeypatch.setattr(sys.modules[__name__], "read", read, raising=False)
    monkeypatch.setitem(FORMATS.built_in, "mine", Format(__name__, takes_languages=True))
    (tmp_path / "t.tsv").write_bytes(GOOD)
    graph, report = load(
        [Source(tmp_path / "t.tsv", "mine"), tmp_path / "t.tsv"], languages=["de", "en"]
    )
    assert graph.label(0) == "de"
    assert report.units == "items and lines"
    assert str(report).startswith("4 items and lines = 2 triples + 1 text + 1 duplicate")
