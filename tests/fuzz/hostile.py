"""Files that ask for more than they are: small here, or made when they are needed, never committed.

Each case is a file name and the bytes of it, by a function of the size; `LARGE` gives sizes at
which an unguarded parser crashes, swells or runs for minutes.
"""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

import zstandard

RDF = b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:a="http://a/">'
END = b"</rdf:RDF>"
ABOUT = b'<rdf:Description rdf:about="a:a">'
TRIX = b'<TriX xmlns="http://www.w3.org/2004/03/trix/trix-1/"><graph><triple><uri>a:a</uri>'


def _entities(levels: int) -> bytes:
    """Each entity is ten of the one before."""
    first = [b'<!ENTITY a0 "aaaaaaaaaa">']
    rest = [b'<!ENTITY a%d "%b">' % (i, b"&a%d;" % (i - 1) * 10) for i in range(1, levels)]
    return b"<!DOCTYPE r [" + b"".join(first + rest) + b"]>"


def entities_xml(n: int) -> bytes:
    """Entities of entities in RDF/XML."""
    use = ABOUT + b"<a:p>&a%d;</a:p></rdf:Description>" % (n - 1)
    return _entities(n) + RDF + use + END


def entities_trix(n: int) -> bytes:
    """Entities of entities in TriX."""
    literal = b"<uri>a:b</uri><plainLiteral>&a%d;</plainLiteral></triple></graph></TriX>"
    return _entities(n) + TRIX + literal % (n - 1)


def external_entity(n: int) -> bytes:
    """A file of this machine as an entity."""
    text = b'<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/hostname">]>' + TRIX
    return text + b"<uri>a:b</uri><plainLiteral>&x;</plainLiteral></triple></graph></TriX>"


def hidden_entity(n: int) -> bytes:
    """A declaration that only a decoder of ISO-2022-JP sees."""
    text = entities_xml(max(n, 2)).replace(b"<!ENTITY", b"<!EN\x1b(BTITY")
    return b'<?xml version="1.0" encoding="ISO-2022-JP"?>' + text


def nested_xml(n: int) -> bytes:
    """Elements in elements: pyoxigraph's time grows as the square."""
    return RDF + b"<rdf:Description><a:p>" * n + b"</a:p></rdf:Description>" * n + END


def attributes_xml(n: int) -> bytes:
    """An element with many attributes: the square again."""
    return RDF + ABOUT[:-1] + b"".join(b' a:p%d="x"' % i for i in range(n)) + b"/>" + END


def text_xml(n: int) -> bytes:
    """One text."""
    return RDF + ABOUT + b"<a:p>" + b"x" * n + b"</a:p></rdf:Description>" + END


def nul(n: int) -> bytes:
    """Zeros."""
    return bytes(n)


def objects_json(n: int) -> bytes:
    """Objects in objects."""
    return b'{"a:b":' * n + b"1" + b"}" * n


def lists_json(n: int) -> bytes:
    """Lists in lists."""
    return b'{"@id":"a:a","a:b":' + b'{"@list":[' * n + b"1" + b"]}" * n + b"}"


def array_json(n: int) -> bytes:
    """One array of many values."""
    return b'{"@id":"a:a","a:b":[' + b"{}," * n + b"1]}"


def triples_of_triples(n: int) -> bytes:
    """Quoted triples in quoted triples."""
    return b"<a:a> <a:b> " + b"<<( <a:a> <a:b> " * n + b"<a:c>" + b" )>>" * n + b" .\n"


def nested_turtle(n: int) -> bytes:
    """Blank nodes in blank nodes."""
    return b"<a:a> <a:b> " + b"[ <a:b> " * n + b"<a:c>" + b"]" * n + b" .\n"


def formulas_n3(n: int) -> bytes:
    """Formulas in formulas."""
    return b"{" * n + b"}" * n


def digits_tsv(n: int) -> bytes:
    """A count of many digits, and one of many zeros."""
    return b"Q1\tone\t" + b"9" * n + b"\nQ2\ttwo\t" + b"0" * n + b"7\n"


def digits_openke(n: int) -> bytes:
    """Numbers of many digits."""
    return b"1\n" + b"1" * n + b" 0 0\n"


def brackets_wikidata(n: int) -> bytes:
    """An entity whose sitelinks nest."""
    return b'{"id":"Q1","sitelinks":' + b"[" * n + b"]" * n + b"}\n"


def brackets_jsonl(n: int) -> bytes:
    """A value that nests."""
    return b'{"id":"Q1","label":' + b"[" * n + b"]" * n + b"}\n"


def languages_jsonl(n: int) -> bytes:
    """A label in each of many languages."""
    return b"".join(b'{"id":"Q1","label":"x","language":"x-%d"}\n' % i for i in range(n))


def zip_encrypted(n: int) -> bytes:
    """A member that says that it is encrypted."""
    return _zip_with(6, 0x1, 8, 0x1)


def zip_unknown(n: int) -> bytes:
    """A member in a compression that nobody knows."""
    return _zip_with(8, 98, 10, 98)


def _zip_with(local: int, local_value: int, central: int, central_value: int) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("x.tsv", "a\tr\tb\n")
    data = bytearray(sink.getvalue())
    data[local] = local_value
    data[data.index(b"PK\x01\x02") + central] = central_value
    return bytes(data)


def zip_bomb(n: int) -> bytes:
    """A member that unfolds a thousand times."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.tsv", bytes(n))
    return sink.getvalue()


def sparse_tar(n: int) -> bytes:
    """A member that claims to be large and has no content."""
    member = tarfile.TarInfo("P1.jsonl")
    member.pax_headers = {
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "P1.jsonl",
        "GNU.sparse.realsize": str(n),
    }  # fmt: skip
    content = b"0\n".ljust(512, b"\0")
    member.size = len(content)
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member, io.BytesIO(content))
    return sink.getvalue()


def of_rows(n: int) -> bytes:
    """A JSON array of many values, where documents are wanted."""
    return b"[" + b"0," * n + b"0]"


@dataclass(frozen=True)
class Hostile:
    """A file: its name, its bytes by size, sizes small and large, and the compression of it."""

    file: str
    make: Callable[[int], bytes]
    small: int
    large: int
    compress: Callable[[bytes], bytes] = bytes

    def bytes_of(self, size: int) -> bytes:
        """The file of that size."""
        return self.compress(self.make(size))


CASES: dict[str, Hostile] = {
    "entities of RDF/XML": Hostile("x.rdf", entities_xml, 3, 9),
    "entities of TriX": Hostile("x.trix", entities_trix, 3, 9),
    "external entity": Hostile("x.trix", external_entity, 1, 1),
    "hidden entities": Hostile("x.owl", hidden_entity, 3, 9),
    "NUL in .rdf.gz": Hostile("x.rdf.gz", nul, 1000, 1 << 30, gzip.compress),
    "NUL in .nt.zst": Hostile("x.nt.zst", nul, 1000, 1 << 28, zstandard.compress),
    "NUL in .ttl.bz2": Hostile("x.ttl.bz2", nul, 1000, 1 << 27, bz2.compress),
    "RDF/XML of one text": Hostile("x.rdf", text_xml, 1000, 600_000_000),
    "nested RDF/XML": Hostile("x.rdf", nested_xml, 100, 400_000),
    "attributes of RDF/XML": Hostile("x.rdf", attributes_xml, 100, 400_000),
    "nested JSON-LD": Hostile("x.jsonld", objects_json, 100, 1_000_000),
    "nested lists of JSON-LD": Hostile("x.jsonld", lists_json, 100, 1_000_000),
    "JSON-LD of 100 MB": Hostile("x.jsonld", array_json, 100, 33_000_000),
    "quoted triples of N-Triples": Hostile("x.nt", triples_of_triples, 100, 200_000),
    "quoted triples of N-Quads": Hostile("x.nq", triples_of_triples, 100, 200_000),
    "quoted triples of Turtle": Hostile("x.ttl", triples_of_triples, 100, 200_000),
    "nested Turtle": Hostile("x.ttl", nested_turtle, 100, 20_000_000),
    "nested TriG": Hostile("x.trig", nested_turtle, 100, 20_000_000),
    "nested N3": Hostile("x.n3", nested_turtle, 100, 1_000_000),
    "formulas of N3": Hostile("x.n3", formulas_n3, 100, 1_000_000),
    "brackets of Wikidata": Hostile("x.json", brackets_wikidata, 100, 5000),
    "brackets of JSON lines": Hostile("x.jsonl", brackets_jsonl, 100, 5000),
    "languages": Hostile("x.jsonl", languages_jsonl, 100, 40_000),
    "encrypted member": Hostile("x.zip", zip_encrypted, 1, 1),
    "unknown compression": Hostile("x.zip", zip_unknown, 1, 1),
    "member of zeros": Hostile("x.zip", zip_bomb, 1000, 1 << 28),
}
"""What a graph is built from; a `.zip` by its member `x.tsv`."""
