"""Files packed in odd ways, documents in other encodings: read, or named with what to do."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from kg_loaders import KgError, Source, SourceError, load

TSV = b"Mira\tvisits\tWeir\n"
FACT = ("Mira", "visits", "Weir")
RDF = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:a="http://a/">'
    '<rdf:Description rdf:about="http://a/é"><a:r rdf:resource="http://a/b"/>'
    "</rdf:Description></rdf:RDF>"
)
GRAPHML = (
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="d" for="edge" '
    'attr.name="label"/><graph edgedefault="directed"><edge source="http://a/é" '
    'target="http://a/b"><data key="d">http://a/r</data></edge></graph></graphml>'
)
JSON_LD = json.dumps(
    {"@context": {"@vocab": "http://a/"}, "@id": "http://a/é", "r": {"@id": "http://a/b"}},
    ensure_ascii=False,
)
TURTLE = "@prefix a: <http://a/> .\na:é a:r a:b ."
TRIX = (
    '<TriX xmlns="http://www.w3.org/2004/03/trix/trix-1/"><graph><triple><uri>http://a/é</uri>'
    "<uri>http://a/r</uri><uri>http://a/b</uri></triple></graph></TriX>"
)
TRIPLES = '[["http://a/é", "http://a/r", "http://a/b"]]'


def tarred(data: bytes) -> bytes:
    """An archive of one file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("x.tsv")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def zipped(*members: tuple[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


zst: Callable[[bytes], bytes] = zstandard.compress
PACKED = [
    ("x.tsv.gz", gz(b"") + gz(TSV) + gz(b"")),
    ("x.tsv.gz", gz(TSV[:5]) + gz(TSV[5:])),
    ("x.tsv.gz", gz(TSV) + bytes(512)),
    ("x.tsv.bz2", bz2.compress(b"") + bz2.compress(TSV)),
    ("x.tsv.xz", lzma.compress(TSV[:3]) + lzma.compress(TSV[3:])),
    ("x.tsv.zst", zst(TSV[:3]) + zst(TSV[3:])),
    ("x.TSV.GZ", gz(TSV)),
    ("x.zip", zipped(("x.tsv", TSV))),
    ("x.tsv.zip", zipped(("x.tsv", TSV), how=zipfile.ZIP_STORED)),
    ("x.zip", zipped(("x.tsv", TSV), how=zipfile.ZIP_LZMA)),
    ("x.zip", zipped(("x.tsv", TSV), how=zipfile.ZIP_BZIP2)),
    ("x.zip", zipped(("__MACOSX/._x.tsv", b"1"), ("x.tsv", TSV), (".DS_Store", b"2"))),
    ("x.zip", zipped(("a/", b""), ("a/x.tsv", TSV))),
    ("x.zip", zipped(("../../x.tsv", TSV))),
    ("x.zip", b"#!/bin/sh\n" + zipped(("x.tsv", TSV))),
]


@pytest.mark.parametrize(("name", "data"), PACKED)
def test_packed_and_read(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    assert load([tmp_path / name])[0].facts("Mira") == [FACT]
    assert sorted(each.name for each in tmp_path.rglob("*")) == [name], "no member is written"


NAMED = [
    ("x.tsv.gz", gz(lzma.compress(TSV)), r"packed twice, xz .*gzip -dc \S+ > x\.tsv\.xz\)"),
    ("x.tsv.gz", gz(gz(TSV)), r"packed twice, gzip .*gzip -dc \S+ > once-x\.tsv\.gz\)"),
    ("x.tsv.gz.gz", gz(gz(TSV)), r"packed twice.*gzip -dc \S+ > x\.tsv\.gz\)"),
    ("x.tsv.xz", lzma.compress(bz2.compress(TSV)), r"packed twice, bzip2 .*xz -dc"),
    ("x.tsv.zst", zst(zst(TSV)), r"packed twice, Zstandard .*zstd -dc"),
    ("x.tsv.bz2", bz2.compress(gz(TSV)), r"packed twice, gzip .*bzip2 -dc"),
    ("x.tar", tarred(TSV), r"a tar archive.*tar -xf \S+x\.tar\)"),
    ("x.tar.gz", gz(tarred(TSV)), "a tar archive"),
    ("x.tsv", tarred(TSV), "a tar archive"),
    ("x.tgz", gz(tarred(TSV)), r"a tar archive.*tar -xf"),
    ("x.txz", lzma.compress(tarred(TSV)), "a tar archive"),
    ("x.tsv.Z", b"\x1f\x9d\x90abc", r"compress.*gzip -dc \S+ > x\.tsv\)"),
    ("x.tsv", b"\x04\x22\x4d\x18ab\tr\tc\n", r"LZ4 data.*lz4 -dc"),
    ("x.tsv.lzma", lzma.compress(TSV, format=lzma.FORMAT_ALONE), r"LZMA data.*xz -dc"),
    ("x.tsv.sz", b"\xff\x06\0\0sNaPpYabc", "Snappy data"),
    ("x.zip", zipped(("x.tsv.gz", gz(TSV))), "is itself packed"),
    ("x.zip", zipped(("x.zip", zipped(("x.tsv", TSV)))), "is itself packed"),
    ("x.zip", zipped(("x.tsv", TSV), ("y.tsv", TSV)), r"holds 2 files .*x\.zip::MEMBER"),
    ("x.zip", zipped(), "holds no file"),
    ("x.zip", zipped(("x.tsv", TSV))[:-9], "zip data are damaged"),
    ("x.tsv.gz", b"", "end early"),
    ("x.tsv.gz", TSV, "not gzip data"),
    ("x.tsv.gz", gz(TSV)[:-9], "end early"),
    ("x.tsv.gz", gz(TSV) + b"junk", "junk after the gzip data"),
    ("x.tsv", b"a\tr\tb\rc\tr\td\r", r"lines end in CR.*tr '\\r' '\\n' < \S+ > x-lf\.tsv\)"),
    ("x.csv", b"source,edge,target\ra,r,b\rc,r,d\r", "lines end in CR"),
    ("x.xml", b"<note><to>Mira</to></note>", r"XML of another kind \(its root is <note>\)"),
    ("x.xml", b'<?xml version="1.0"?>\n<records/>', r"its root is <records>"),
]


@pytest.mark.parametrize(("name", "data", "words"), NAMED)
def test_packed_and_named(name: str, data: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(KgError, match=words):
        load([tmp_path / name])


def marked(encoding: str) -> Callable[[str], bytes]:
    return lambda text: text.encode(encoding)


def declared(name: str, codec: str = "") -> Callable[[str], bytes]:
    return lambda text: f'<?xml version="1.0" encoding="{name}"?>\n{text}'.encode(codec or name)


DOCUMENTS = [
    (name, text, how)
    for name, text in (("x.rdf", RDF), ("x.graphml", GRAPHML), ("x.trix", TRIX))
    for how in (
        marked("utf-8-sig"), declared("UTF-8", "utf-8-sig"), declared("ISO-8859-1"),
        declared("windows-1252"), declared("iso-8859-15"), declared("UTF-16"),
        declared("utf-16", "utf-16-le"), declared("UTF-16", "utf-16-be"), declared("UTF-32"),
        declared("ISO-8859-1", "utf-16"),
    )
] + [
    (name, text, marked(codec))
    for name, text in (
        ("x.jsonld", JSON_LD), ("x.json", JSON_LD), ("x.ttl", TURTLE), ("x.trig", TURTLE),
        ("x.n3", TURTLE), ("x.json", TRIPLES),
    )
    for codec in ("utf-8-sig", "utf-16", "utf-32")
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "how"), DOCUMENTS)
def test_documents_in_other_encodings(
    name: str, text: str, how: Callable[[str], bytes], tmp_path: Path
) -> None:
    for path, data in ((tmp_path / name, how(text)), (tmp_path / f"{name}.gz", gz(how(text)))):
        path.write_bytes(data)
        graph, report = load([path])
        assert [tuple(fact)[1:] for fact in graph.facts("http://a/é")] == [
            ("http://a/r", "http://a/b")
        ]
        assert report.n_rejected == 0


def test_an_encoding_that_nobody_knows(tmp_path: Path) -> None:
    for name, text in (("x.rdf", RDF), ("x.graphml", GRAPHML)):
        (tmp_path / name).write_bytes(declared("EBCDIC-NONE", "utf-8")(text))
        with pytest.raises(SourceError, match="its encoding is 'EBCDIC-NONE'"):
            load([tmp_path / name])


def test_a_document_that_is_cut_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "x.rdf").write_bytes(declared("UTF-16")(RDF)[:-1])
    with pytest.raises(KgError, match=r"x\.rdf"):
        load([tmp_path / "x.rdf"])
    (tmp_path / "x.rdf").write_bytes(declared("UTF-16")(RDF) + b"\xd8")
    assert load([tmp_path / "x.rdf"], policy="skip")[0].n_triples == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"head": "a", "head": "z", "relation": "r", "tail": "b"}', "'head' occurs twice"),
        ('{"head": "\\ud800", "relation": "r", "tail": "b"}', "half of a character"),
        ('{"id": "a", "label": "\\udc00"}', "not JSON|half of a character"),
        (f'{{"head": {"9" * 5000}, "relation": "r", "tail": "b"}}', "more than 4300 digits"),
        ('{"id": "a", "lable": "b"}', "unknown field `lable`"),
    ],
)
def test_lines_of_json_name_their_own_fault(line: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(line + "\n")
    with pytest.raises(KgError, match=words) as error:
        load([tmp_path / "x.jsonl"])
    assert "set_int_max_str_digits" not in str(error.value)
    (tmp_path / "x.json").write_text(f'[["a", "r", {"1" * 5000}]]')
    with pytest.raises(KgError, match="more than 4300 digits"):
        load([Source(tmp_path / "x.json", "json")])
