"""Relative references resolve as RFC 3986 says in its own examples (5.4), in every syntax."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kg_loaders import Source, load

BASE = "http://a/b/c/d;p?q"
# RFC 3986, 5.4.1 and 5.4.2
EXAMPLES = {
    "g:h": "g:h", "g": "http://a/b/c/g", "./g": "http://a/b/c/g", "g/": "http://a/b/c/g/",
    "/g": "http://a/g", "//g": "http://g", "?y": "http://a/b/c/d;p?y", "g?y": "http://a/b/c/g?y",
    "#s": "http://a/b/c/d;p?q#s", "g#s": "http://a/b/c/g#s", "g?y#s": "http://a/b/c/g?y#s",
    ";x": "http://a/b/c/;x", "g;x": "http://a/b/c/g;x", "g;x?y#s": "http://a/b/c/g;x?y#s",
    "": "http://a/b/c/d;p?q", ".": "http://a/b/c/", "./": "http://a/b/c/", "..": "http://a/b/",
    "../": "http://a/b/", "../g": "http://a/b/g", "../..": "http://a/", "../../": "http://a/",
    "../../g": "http://a/g", "../../../g": "http://a/g", "../../../../g": "http://a/g",
    "/./g": "http://a/g", "/../g": "http://a/g", "g.": "http://a/b/c/g.", ".g": "http://a/b/c/.g",
    "g..": "http://a/b/c/g..", "..g": "http://a/b/c/..g", "./../g": "http://a/b/g",
    "./g/.": "http://a/b/c/g/", "g/./h": "http://a/b/c/g/h", "g/../h": "http://a/b/c/h",
    "g;x=1/./y": "http://a/b/c/g;x=1/y", "g;x=1/../y": "http://a/b/c/y",
    "g?y/./x": "http://a/b/c/g?y/./x", "g?y/../x": "http://a/b/c/g?y/../x",
    "g#s/./x": "http://a/b/c/g#s/./x", "g#s/../x": "http://a/b/c/g#s/../x",
}  # fmt: skip
NAMES = ("x.ttl", "x.trig", "x.n3", "x.jsonld", "x.rdf")


def document(name: str, base: str) -> str:
    """A document that relates x to every reference, each by a relation of its own."""
    references = list(enumerate(EXAMPLES))
    if name == "x.jsonld":
        context: dict[str, object] = {
            f"r{n}": {"@id": f"http://r/r{n}", "@type": "@id"} for n, _ in references
        }
        context |= {"@base": base} if base else {}
        tails = {f"r{n}": reference for n, reference in references}
        return json.dumps({"@context": context, "@id": "http://x/x", **tails})
    if name == "x.rdf":
        tails_ = "".join(f'<r:r{n} rdf:resource="{reference}"/>' for n, reference in references)
        base_attribute = f' xml:base="{base}"' if base else ""
        return (
            '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:r="http://r/"'
            f'{base_attribute}><rdf:Description rdf:about="http://x/x">{tails_}</rdf:Description></rdf:RDF>'
        )
    lines = [f"<http://x/x> <http://r/r{n}> <{reference}> ." for n, reference in references]
    return "\n".join([f"@base <{base}> ."] * bool(base) + lines)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("base", [BASE, ""])
def test_every_syntax(name: str, base: str, tmp_path: Path) -> None:
    """With the base in the document, and as an option."""
    (tmp_path / name).write_text(document(name, base))
    options = {} if base else {"base_iri": BASE}
    graph, _ = load([Source(tmp_path / name, options=options)])
    actual = {relation: tail for _, relation, tail in graph.facts("http://x/x")}
    assert actual == {f"http://r/r{n}": expected for n, expected in enumerate(EXAMPLES.values())}
