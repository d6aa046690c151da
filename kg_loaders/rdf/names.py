"""The RDF predicates whose literals are texts of a graph: labels, aliases and descriptions.

Vocabularies name the same thing differently: RDFS and SKOS, SKOS-XL (whose labels are resources of
their own, see `kg_loaders.rdf.structures`), OBO's ontologies, Dublin Core, FOAF, schema.org,
GeoNames, MADS, DOAP, Freebase, MeSH, EFO, UniProt, the GND, vCard, and Neo4j's export to RDF
(n10s). Others are named with `--names IRI=KIND`; `unread_names` says which those may be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from kg_loaders.errors import SourceError
from kg_loaders.records import TextKind

RDFS = "http://www.w3.org/2000/01/rdf-schema#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
SKOS_XL = "http://www.w3.org/2008/05/skos-xl#"
OBO_IN_OWL = "http://www.geneontology.org/formats/oboInOwl#"
OBO = "http://purl.obolibrary.org/obo/"
DC_TERMS = "http://purl.org/dc/terms/"
DC_ELEMENTS = "http://purl.org/dc/elements/1.1/"
FOAF = "http://xmlns.com/foaf/0.1/"
GEONAMES = "http://www.geonames.org/ontology#"
MADS = "http://www.loc.gov/mads/rdf/v1#"
DOAP = "http://usefulinc.com/ns/doap#"
FREEBASE = ("http://rdf.freebase.com/ns/", "https://rdf.freebase.com/ns/")
MESH = "http://id.nlm.nih.gov/mesh/vocab#"
EFO = "http://www.ebi.ac.uk/efo/"
UNIPROT = "http://purl.uniprot.org/core/"
GND = ("http://d-nb.info/standards/elementset/gnd#", "https://d-nb.info/standards/elementset/gnd#")
SCHEMA_ORG = ("http://schema.org/", "https://schema.org/")
NEO4J = ("neo4j://graph.schema#", "neo4j://vocabulary#")
"""The starts of the names of properties in n10s' exports, in its version 5 and before."""

_LABELS = (
    f"{RDFS}label", f"{SKOS}prefLabel", f"{SKOS_XL}prefLabel", f"{SKOS_XL}literalForm",
    f"{DC_TERMS}title", f"{DC_ELEMENTS}title", f"{FOAF}name", f"{GEONAMES}name",
    f"{MADS}authoritativeLabel", f"{DOAP}name", f"{MESH}prefLabel", f"{UNIPROT}scientificName",
    "http://www.w3.org/2006/vcard/ns#fn", "http://rdfs.org/sioc/ns#name",
    *(f"{start}type.object.name" for start in FREEBASE),
    *(f"{start}preferredName" for start in GND),
    *(f"{start}name" for start in (*SCHEMA_ORG, *NEO4J)),
    *(f"{start}{name}" for start in NEO4J for name in ("label", "title")),
)  # fmt: skip
_ALIASES = (
    f"{SKOS}altLabel", f"{SKOS}hiddenLabel", f"{SKOS_XL}altLabel", f"{SKOS_XL}hiddenLabel",
    *(f"{OBO_IN_OWL}has{kind}Synonym" for kind in ("", "Exact", "Narrow", "Broad", "Related")),
    f"{OBO}IAO_0000111", f"{OBO}IAO_0000118", f"{DC_TERMS}alternative", f"{FOAF}nick",
    *(f"{GEONAMES}{name}Name" for name in ("alternate", "official", "short", "colloquial",
                                          "historical")),
    f"{MADS}variantLabel", f"{MESH}altLabel", f"{EFO}alternative_term", f"{UNIPROT}commonName",
    f"{UNIPROT}otherName", "http://dbpedia.org/ontology/alias",
    *(f"{start}common.topic.alias" for start in FREEBASE),
    *(f"{start}variantName" for start in GND),
    *(f"{start}{name}" for start in SCHEMA_ORG for name in ("alternateName", "legalName")),
    *(f"{start}{name}" for start in NEO4J for name in ("alias", "aliases", "synonym", "synonyms")),
)  # fmt: skip
_DESCRIPTIONS = (
    f"{RDFS}comment", f"{SKOS}definition", f"{OBO}IAO_0000115", f"{DC_TERMS}description",
    f"{DC_TERMS}abstract", f"{DC_ELEMENTS}description", "http://dbpedia.org/ontology/abstract",
    f"{DOAP}shortdesc", f"{DOAP}description", f"{MESH}scopeNote", f"{EFO}definition",
    *(f"{start}common.topic.description" for start in FREEBASE),
    *(f"{start}{name}" for start in SCHEMA_ORG for name in ("description",
                                                            "disambiguatingDescription")),
    *(f"{start}description" for start in NEO4J),
)  # fmt: skip

TEXT_PREDICATES: Mapping[str, TextKind] = MappingProxyType(
    {
        **dict.fromkeys(_LABELS, TextKind.LABEL),
        **dict.fromkeys(_ALIASES, TextKind.ALIAS),
        **dict.fromkeys(_DESCRIPTIONS, TextKind.DESCRIPTION),
    }
)
_KINDS: Mapping[str, TextKind | None] = {
    "label": TextKind.LABEL,
    "alias": TextKind.ALIAS,
    "description": TextKind.DESCRIPTION,
    "none": None,
}
N_SHOWN = 3
LITERAL_OF = "literal of "
"""How a reader counts what it leaves out, with the predicate behind it."""
_LIKE_A_NAME = re.compile(
    r"(?i:name|label|title|aliase?|synonym|lemma|written_?rep)s?$|[a-z]Term$|_term$"
)
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|\\^`]+")


def text_predicates(
    names: Mapping[str, str | TextKind | None] | Iterable[str] = (),
    base: Mapping[str, TextKind] = TEXT_PREDICATES,
) -> dict[str, TextKind]:
    """Return `base` with the predicates in `names`: a mapping, or texts `IRI=KIND`.

    KIND is label, alias or description; none takes a predicate out of `base`. Raises `SourceError`
    for what is not an absolute IRI and for another kind.

    >>> len(text_predicates(["http://a.example/called=alias"])) - len(TEXT_PREDICATES)
    1
    """
    if not isinstance(names, Mapping):
        names = dict(_split(text) for text in names)
    predicates = dict(base)
    for iri, kind in names.items():
        if not _IRI.fullmatch(iri):
            raise SourceError(
                f"names: {iri!r} is not an absolute IRI; write it in full, as in "
                f"{RDFS}label=label (prefixes of a file are not known here)"
            )
        if isinstance(kind, str) and kind not in _KINDS:
            raise SourceError(f"names: {kind!r} is none of {', '.join(_KINDS)} (for {iri})")
        kind = _KINDS[kind] if isinstance(kind, str) else kind
        if kind is None:
            predicates.pop(iri, None)
        else:
            predicates[iri] = TextKind(kind)
    return predicates


def _split(text: str) -> tuple[str, str]:
    iri, equals, kind = text.rpartition("=")
    if not equals:
        raise SourceError(f"names: {text!r} has no =; write IRI=KIND, KIND one of "
                          f"{', '.join(_KINDS)}")  # fmt: skip
    return iri.strip("<>"), kind.strip().lower()


def unread_names(skipped: Mapping[str, int]) -> list[str]:
    """Return a line about the left-out literals whose predicates are called like names; or nothing.

    `skipped` is that of a report. The most frequent predicate comes first.

    >>> unread_names({"literal of http://a/fullName": 7, "literal of http://a/height": 9})[0][:52]
    'literals that may be names: 7 of http://a/fullName; '
    """
    counts = {
        reason.removeprefix(LITERAL_OF): n
        for reason, n in skipped.items()
        if reason.startswith(LITERAL_OF) and _LIKE_A_NAME.search(reason)
    }
    if not counts:
        return []
    first = sorted(counts, key=lambda iri: (-counts[iri], iri))[:N_SHOWN]
    listed = ", ".join(f"{counts[iri]:,} of {iri}" for iri in first)
    note = f"literals that may be names: {listed}; they were left out, --names {first[0]}=label"
    return [f"{note} (or alias) reads them"]
