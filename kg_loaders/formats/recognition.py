"""`recognise`: what a file is by its first bytes, before a parser speaks.

A name may be wrong (Turtle in .owl) or say little (.json, .xml, .txt). Each kind of file has a
reader here, or the next step of whoever has such a file. Nothing is said of a table, and of text
that could be several things: there the name of the file decides.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kg_loaders.damage import DamageReport
from kg_loaders.formats.tables.start import start_bytes
from kg_loaders.reading.unpacking import COMPRESSED

ROBOT = "convert it with ROBOT (robot convert -i {path} -o {stem}.ttl) and read that"
GRAPHML = "save it as GraphML there, or with networkx (networkx.write_graphml), and read that"


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file: its name, the reader and its options; or no reader, and the next step.

    `{path}` and `{stem}` in `next_step` are the file and its name without the suffix. What is not
    sure is said only where the name of a file says nothing, or its reader failed.
    """

    name: str
    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    next_step: str = ""
    is_sure: bool = True

    def advice(self, path: Path, formats: Container[str]) -> str:
        """The next step for `path`; for a file that one of `formats` reads, the option for it."""
        if self.format not in formats:
            return self.next_step.format(path=path, stem=path.stem, suffix=path.suffix)
        return f"read it with --format {self.options.get('format', self.format)}"


def _rdf(name: str, syntax: str) -> FileKind:
    return FileKind(name, "rdf", {"format": syntax})


def _none(name: str, next_step: str) -> FileKind:
    return FileKind(name, next_step=next_step)


_UNPACK = "give it the ending {suffix}, by which it is unpacked (mv {{path}} {{path}}{suffix})"
_UNPACKED = "unpack it ({tool} -dc {{path}} > {{stem}}) and read that"
_TAR = _none("a tar archive", "unpack it (tar -xf {path}) and read a file of it")
_TAR_PLACE = 257
_TAR_ENDINGS = (".tgz", ".tbz", ".tbz2", ".txz")
_BINARY: tuple[tuple[bytes, FileKind], ...] = (
    (b"PAR1", FileKind("Parquet", "parquet")),
    (b"$HDT", _none("HDT", "convert it with hdt2rdf (hdt2rdf {path} {stem}.nt) and read that")),
    (b"\x1f\x8b", _none("gzip data", _UNPACK.format(suffix=".gz"))),
    (b"BZh", _none("bzip2 data", _UNPACK.format(suffix=".bz2"))),
    (b"\x28\xb5\x2f\xfd", _none("Zstandard data", _UNPACK.format(suffix=".zst"))),
    (b"\xfd7zXZ\0", _none("xz data", _UNPACK.format(suffix=".xz"))),
    (b"\x1f\x9d", _none("data of compress", _UNPACKED.format(tool="gzip"))),
    (b"\x04\x22\x4d\x18", _none("LZ4 data", _UNPACKED.format(tool="lz4"))),
    (b"\x5d\0\0", _none("LZMA data", _UNPACKED.format(tool="xz"))),
    (b"\xff\x06\0\0sNaPpY", _none("Snappy data", "unpack it and read that")),
    (b"7z\xbc\xaf\x27\x1c", _none("a 7-Zip archive", "unpack it (7z x {path}) and read a file")),
    (b"Rar!", _none("a RAR archive", "unpack it (unrar x {path}) and read a file of it")),
    (b"PK\x03\x04", _none("a zip archive", _UNPACK.format(suffix=".zip") + "; a workbook of "
                          "Excel is one, too: save it as CSV UTF-8")),
    (b"SQLite format 3\0", _none("an SQLite database", "write its triples as CSV (sqlite3 -header "
                                 "-csv {path} 'SELECT ...' > {stem}.csv) and read that")),
    (b"Obj\x01", _none("Avro", "convert it to Parquet or CSV and read that")),
    (b"ORC", _none("ORC", "convert it to Parquet (pyarrow.orc, pyarrow.parquet) and read that")),
    (b"ARROW1\0", _none("an Arrow file", "write it as Parquet (pyarrow.parquet.write_table)")),
    (b"\x89HDF\r\n", _none("HDF5", "write its triples as CSV and read that")),
    (b"%PDF-", _none("a PDF", "a graph is read from data: look for the file that it describes")),
    (b"\x89PNG", _none("a picture", "a graph is read from data")),
    (b"\xd0\xcf\x11\xe0", _none("a workbook of an old Excel", "save it as CSV UTF-8 there")),
    (b"\x93NUMPY", _none("a NumPy array", "write names, not numbers, as TSV and read that")),
    (b"\x80\x02", _none("a Python pickle", "it may run code when it is opened: write it as TSV")),
    (b"\x80\x03", _none("a Python pickle", "it may run code when it is opened: write it as TSV")),
    (b"\x80\x04", _none("a Python pickle", "it may run code when it is opened: write it as TSV")),
    (b"\x80\x05", _none("a Python pickle", "it may run code when it is opened: write it as TSV")),
)  # fmt: skip

RDF_NAMESPACE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
OWL_NAMESPACE = "http://www.w3.org/2002/07/owl#"
_ROOTS: Mapping[str, FileKind] = {
    "RDF": _rdf("RDF/XML", "rdf"),
    "TriX": _rdf("TriX", "trix"),
    "graphml": FileKind("GraphML", "graphml"),
    "LexicalResource": FileKind("WN-LMF, the format of wordnets", "wnlmf"),
    "Ontology": _none("an ontology in OWL/XML", ROBOT),
    "gexf": _none("GEXF, Gephi's format", GRAPHML),
    "xgmml": _none("XGMML, Cytoscape's format", GRAPHML),
    "sparql": _none("the answer of a SPARQL endpoint", "ask for s, p and o as CSV (Accept: "
                    "text/csv), or query it with kept: kept kg build --sparql URL --query FILE"),
    "html": _none("a web page", "it is not data: fetch the file itself, perhaps after a login"),
    "svg": _none("a drawing (SVG)", "a graph is read from data"),
    "mediawiki": _none("a dump of a wiki's pages", "its facts are in Wikidata's or DBpedia's dump"),
    "DescriptorRecordSet": _none("MeSH in XML", "read MeSH in RDF, mesh.nt.gz of "
                                 "https://nlmpubs.nlm.nih.gov/projects/mesh/rdf/"),
}  # fmt: skip
"""Kinds of XML by the name of the root."""

_SPARQL_JSON = _none("the answer of a SPARQL endpoint in JSON", _ROOTS["sparql"].next_step)
_JSON: tuple[tuple[str, FileKind], ...] = (
    (r'"@(?:context|graph|id)"\s*:', _rdf("JSON-LD", "jsonld")),
    (r'\{\s*"head"\s*:\s*\{\s*(?:"link"\s*:[^{}]*)?"vars"', _SPARQL_JSON),
    (r'"entities"\s*:\s*\{\s*"[A-Z][0-9]+"', FileKind("entities of Wikidata", "wikidata")),
    (r'\{(?=[^{}\[\]]*"type"\s*:\s*"(?:item|property|lexeme)")(?=[^{}\[\]]*"id"\s*:\s*"[A-Z][0-9])',
     FileKind("entities of Wikidata", "wikidata")),
    (r'\{\s*"graphs?"\s*:\s*[\[{]', FileKind("a graph in JSON", "json")),
    (r'"graph_dict"\s*:', FileKind("a graph of LlamaIndex", "llamaindex")),
    (r'\{\s*"nodes"\s*:\s*\{', FileKind("a property graph of LlamaIndex", "llamaindex")),
    (r'"start_node_id"\s*:', FileKind("a graph of neo4j-graphrag", "neo4j-graphrag")),
    (r'\{\s*"elements"\s*:\s*[\[{]', _none("a network of Cytoscape in JSON", GRAPHML)),
    (r'\{\s*"[a-z]+:[^"]*"\s*:\s*\{\s*"[a-z]+:[^"]*"\s*:\s*\[\s*\{\s*"(?:value|type)"',
     _none("RDF/JSON", "convert it to N-Triples (riot --syntax=rdf/json --output=nt {path} > "
           "{stem}.nt) and read that")),
    (r'\{\s*"type"\s*:\s*"(?:FeatureCollection|Topology)"',
     _none("GeoJSON", "write its facts as CSV and read that")),
)  # fmt: skip
"""Kinds of JSON by what is in the first bytes."""

_HTML = re.compile(r"\s*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_TERM = r'(?:<[^<>"\s]*>|_:\S+)'
_STATEMENT = rf'{_TERM}[ \t]*<[^<>"\s]*>[ \t]*(?:{_TERM}|"(?:[^"\\]|\\.)*"(?:@[\w-]+|\^\^<[^>]*>)?)'
_OBO = (
    r"(?:(?!format-version)[a-z][\w-]*: [^\n]*\n|![^\n]*\n|[ \t\r]*\n)*+"
    r"(?:format-version:|\[(?:Term|Typedef)\])"
)
_CYPHER = (
    r"(?i:CREATE|MERGE|UNWIND|MATCH)\s*[(\[:]|:begin\b|(?i:LOAD\s+CSV|COPY\s+\w+\s+FROM)\b"
    r"|(?i:CREATE\s+(?:(?:[A-Z]+\s+)?(?:INDEX|CONSTRAINT)|(?:NODE|REL)\s+TABLE))\b"
    r"(?![^\n]*[\t,;|]\w)"
)
_TYPEQL = (
    r"(?:define|insert)[ \r\n]+"
    r"(?:\$\w+ |[\w-]+ (?:sub|owns|plays|relates) |(?:entity|relation|attribute) )"
)
_TEXT: tuple[tuple[str, FileKind], ...] = (
    (r"version https://git-lfs\.github\.com/spec", _none(
        "a pointer of Git LFS, not the file", "fetch the file itself (git lfs pull)")),
    (_OBO, FileKind("OBO, an ontology's format", "obo")),
    (r"(?:Prefix|Ontology)\s*\(", _none("an ontology in OWL functional syntax", ROBOT)),
    (r"(?:Prefix|Ontology):\s", _none("an ontology in Manchester syntax", ROBOT)),
    (r"[CA][0-9]{7,8}\|(?:[^|\n]*\|){3,}", FileKind("a table of the UMLS (RRF)", "umls")),
    (rf"{_STATEMENT}[ \t]*\.[ \t]*(?:#[^\n]*)?(?:\n|$)", _rdf("N-Triples", "nt")),
    (rf"{_STATEMENT}[ \t]*{_TERM}[ \t]*\.[ \t]*(?:#[^\n]*)?(?:\n|$)", _rdf("N-Quads", "nq")),
    (r"(?:@(?:prefix|base)\s|(?i:PREFIX|BASE)\s+(?:[\w.-]*:\s*)?<)", _rdf("Turtle", "ttl")),
    (r"<[a-z][a-z0-9+.-]*:[^<>\"\s]*>[ \n]+(?:a[ \n]|<)", _rdf("Turtle", "ttl")),
    (r"(?:Creator[^\n]*\n)?graph\s*\[", _none("GML", GRAPHML)),
    (r"(?:strict\s+)?(?:di)?graph\b[^\n{]*\{", _none("a graph in DOT", GRAPHML)),
    (r"(?i:\*vertices)", _none("a network of Pajek", GRAPHML)),
    (_CYPHER, _none(
         "Cypher, commands for a graph database", "export the graph as CSV (in Neo4j with "
         "apoc.export.csv.all) and read that")),
    (_TYPEQL, _none(
        "TypeQL, commands for TypeDB", "write its relations as CSV and read that")),
    (r"/a/\[[^\t\n]*\]\t/r/[^\t\n]*\t/c/", FileKind("ConceptNet's assertions", "conceptnet")),
    (r"(?i:CREATE TABLE|INSERT INTO|DROP TABLE|-- MySQL dump|-- PostgreSQL)", _none(
        "commands of SQL", "write the table as CSV and read that")),
    (r"1 This software and database is being provided", _none(
        "a file of WordNet's database", "name the folder that it is in")),
)  # fmt: skip
"""Kinds of text by how it begins, comments (#) aside; of .n3, .trig the file's name says more."""
_JSON_KINDS = [(re.compile(pattern), kind) for pattern, kind in _JSON]
_TEXT_KINDS = [(re.compile(pattern), kind) for pattern, kind in _TEXT]
_XML_SKIPPED = re.compile(
    r"\s*(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>)", re.DOTALL
)
_XML_ROOT = re.compile(r"\s*<(?:([\w.-]+):)?([\w.-]+)([^>]*)>?", re.DOTALL)
_COMMENTS = re.compile(r"(?:[ \t\r]*(?:#[^\n]*)?\n)*+[ \t]*")
SAME_FAMILY = (
    frozenset({"nt", "ntriples", "nq", "nquads", "ttl", "turtle", "trig", "n3"}),
    frozenset({"rdf", "owl", "xml", "rdfxml"}),
    frozenset({"jsonld", "json-ld"}),
    frozenset({"trix"}),
)
"""Syntaxes that look alike at the start: there the name of a file decides."""


def recognise(path: Path, report: DamageReport | None = None) -> FileKind | None:
    """Return what a file is by its first bytes, unpacked; None where they leave it open."""
    if path.suffix.lower() in _TAR_ENDINGS:
        return _TAR
    kind = kind_of(start_bytes(path, report or DamageReport())[0])
    if kind is None or kind.name not in _TOOLS or path.suffix.lower() not in COMPRESSED:
        return kind
    return _packed_twice(path, kind)


_TOOLS = {"gzip data": ".gz", "bzip2 data": ".bz2", "Zstandard data": ".zst", "xz data": ".xz"}
_UNPACKERS = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd", ".xz": "xz"}


def _packed_twice(path: Path, inner: FileKind) -> FileKind:
    """A file that is packed inside, too: the next step unpacks it once."""
    ending = _TOOLS[inner.name]
    target = "{stem}" if path.stem.lower().endswith(ending) else f"{{stem}}{ending}"
    if target.format(stem=path.stem) == path.name:
        target = f"once-{target}"
    tool = _UNPACKERS[path.suffix.lower()]
    return _none(
        f"packed twice, {inner.name} in it",
        f"unpack it once ({tool} -dc {{path}} > {target}) and read that",
    )


def kind_of(start: bytes) -> FileKind | None:
    """Return what a file is that begins with `start`.

    >>> kind_of(b"Prefix(:=<http://a/>)").name
    'an ontology in OWL functional syntax'
    """
    for magic, kind in _BINARY:
        if start.startswith(magic):
            return kind
    if start[_TAR_PLACE:].startswith(b"ustar"):
        return _TAR
    if start[:1024].count(b"\0") * 20 > len(start[:1024]):
        return FileKind(
            "binary data", next_step="it is not text: write TSV, CSV or N-Triples", is_sure=False
        )
    text = start.decode("utf-8", "replace")
    first = text.lstrip()[:1]
    if _HTML.match(text):
        return _ROOTS["html"]
    if first == "<" and (of_root := _xml_kind(text)) is not None:
        return of_root
    if first in ("{", "[") and (of_json := _json_kind(text.lstrip())) is not None:
        return of_json
    rest = text[len(_COMMENTS.match(text)[0]) :]  # type: ignore[index]
    of_text = next((kind for pattern, kind in _TEXT_KINDS if pattern.match(rest)), None)
    return of_text or (_MAC if text.count("\r") > 1 and "\n" not in text else None)


_MAC = FileKind(
    "text whose lines end in CR, as on an old Mac",
    next_step="end them in LF (tr '\\r' '\\n' < {path} > {stem}-lf{suffix}) and read that",
    is_sure=False,
)


def _xml_kind(text: str) -> FileKind | None:
    """The kind of XML by its root; None for what is none, and for roots that say nothing."""
    position = 0
    while match := _XML_SKIPPED.match(text, position):
        position = match.end()
    match = _XML_ROOT.match(text, position)
    if match is None:
        return None
    prefix, name, attributes = match.groups()
    declared = f"xmlns:{prefix}" if prefix else "xmlns"
    space = re.search(rf"""\b{re.escape(declared)}\s*=\s*["']([^"']*)""", attributes)
    if name == "RDF" and space is not None and space[1] != RDF_NAMESPACE:
        return None
    if name == "Ontology" and (space is None or space[1] != OWL_NAMESPACE):
        return None
    is_tag = attributes[:1] in ("", "/") or attributes[:1].isspace()
    if name in _ROOTS or prefix or space is not None or not (is_tag and _is_xml(text)):
        return _ROOTS.get(name)
    return FileKind(
        f"XML of another kind (its root is <{name[:40]}>)",
        next_step="write its facts as CSV or RDF and read that",
        is_sure=False,
    )


def _is_xml(text: str) -> bool:
    """Whether a text that begins with "<" is XML, and no row of names in angle brackets."""
    return text.lstrip().startswith("<?xml") or "\t" not in text.partition("\n")[0]


_ARRAY = re.compile(r"\[\s*[\[{]")
_JSON_LINES = re.compile(r"\{.*\}[ \t\r]*\n\s*\{")
_KEYS = re.compile(r'"((?:[^"\\]|\\.){1,60})"\s*:')


def _json_kind(text: str) -> FileKind | None:
    kind = next((kind for pattern, kind in _JSON_KINDS if pattern.search(text)), None)
    if kind is not None:
        return kind
    keys = {*_KEYS.findall(text)}
    if "nodes" in keys and keys & {"links", "edges", "relationships"}:
        return FileKind("nodes and links in JSON", "json")
    if _ARRAY.match(text) or keys & {"triples", "triplets", "facts", "edges", "links"}:
        return FileKind("triples or nodes in JSON", "json")
    if not _JSON_LINES.match(text):
        return None
    if keys & {"claims", "sitelinks"}:
        return FileKind("entities of Wikidata", "wikidata")
    return FileKind("lines of JSON", "jsonl")
