"""The names that files give to a head, a relation, a tail, an identifier, a label and so on.

One list for every format: columns of CSV, TSV and Parquet, properties of Neo4j, data of GraphML,
keys of JSON. A name is compared without case, and `subjectId`, `Subject ID` and `subject-id` are
`subject_id`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from kg_loaders.records import TextKind

ENDS = (
    ("head", "tail", "relation"), ("subject", "object", "predicate"),
    ("source", "target", "metaedge"), ("from", "to", "relation"), ("h", "t", "r"), ("s", "o", "p"),
    ("node1", "node2", "label"), (":start_id", ":end_id", ":type"), ("start", "end", "relation"),
    ("subj", "obj", "pred"), ("subject_id", "object_id", "predicate_id"),
    ("source_id", "target_id", "relation"), ("head_id", "tail_id", "relation"),
    ("from_id", "to_id", "relation"), ("start_id", "end_id", "relation"),
    ("_start", "_end", "_type"), ("x_id", "y_id", "relation"), ("entity1", "entity2", "relation"),
    ("entity_1", "entity_2", "relation"), ("node_1", "node_2", "relation"),
    ("node1_id", "node2_id", "relation"), ("head_entity", "tail_entity", "relation"),
    ("source_node", "target_node", "relation"), ("subject_entity", "object_entity", "predicate"),
    ("source_entity", "target_entity", "relation"), ("start_node", "end_node", "relation"),
    ("head_name", "tail_name", "relation"), ("subject_name", "object_name", "predicate"),
    ("source_name", "target_name", "relation"), ("src", "dst", "relation"),
    ("arg1", "arg2", "relation"), ("e1", "e2", "relation"), ("concept1", "concept2", "relation"),
    ("source", "destination", "relation"), ("src", "dest", "relation"), ("sub", "obj", "pred"),
)  # fmt: skip
"""Names of a head and a tail that belong together, and of the relation that is theirs first."""
HEADS = tuple(dict.fromkeys(head for head, _, _ in ENDS))
TAILS = tuple(dict.fromkeys(tail for _, tail, _ in ENDS))
RELATIONS = (
    "relation", "predicate", "property", "r", "p", "label", ":type", "type", "pred", "rel",
    "predicate_id", "relation_id", "property_id", "rel_id", "_type", "edge", "metaedge",
    "edge_label", "edge_type", "relationship", "relation_type", "relationship_type", "rel_type",
    "interaction", "verb", "link", "link_type", "relation_name", "predicate_name",
    "predicate_label", "relation_label", "relationship_name", "label_e",
)  # fmt: skip
SURE_RELATIONS = frozenset(RELATIONS) - {
    "property", "r", "p", "label", ":type", "type", "edge", "interaction", "verb", "link", "rel",
    "relationship",
}  # fmt: skip
"""Those of `RELATIONS` that are hardly a relation themselves."""
LONG_RELATIONS = frozenset(
    {"property", "attribute", "relation", "predicate", "relationship", "field", "feature", "key"}
    | {"characteristic", "property_name", "attribute_name", "variable"}
)
LONG_TAILS = frozenset({"value", "property_value", "attribute_value"})
"""Names of the relation and the tail in a long table; its head is named after what it is of."""
IDS = (
    "id", ":id", "_id", "node_id", "identifier", "entity_id", "qid", "curie", "iri", "uri",
    "concept_id", "item_id", "term_id", "synset_id", "cui", "wikidata_id", "node", "entity",
    "relation_id", "predicate_id", "property_id", "relation", "predicate", "property", "item",
    "concept",
)  # fmt: skip
SURE_IDS = frozenset(IDS[: IDS.index("node")])
"""Those of `IDS` that are hardly an identifier themselves."""
RELATION_IDS = frozenset(
    {"relation", "relation_id", "predicate", "predicate_id", "property", "property_id"}
)
"""Those of `IDS` that identify relations."""
LABELS = (
    "label", "name", "title", "preferred_label", "pref_label", "display_name", "entity_name",
    "node_name", "entity_label", "node_label", "preferred_name", "rdfs:label", "skos:pref_label",
    "relation_label", "property_label", "relation_name", "lbl",
)  # fmt: skip
ALIASES = (
    "aliases", "alias", "synonym", "synonyms", "alternative_names", "alternative_name",
    "alt_label", "alt_labels", "also_known_as", "other_names", "exact_synonym", "skos:alt_label",
)  # fmt: skip
DESCRIPTIONS = (
    "description", "definition", "entity_description", "comment", "gloss", "abstract", "summary",
    "rdfs:comment", "skos:definition", "text",
)  # fmt: skip
TYPES = (
    "type", "types", "category", "categories", "entity_type", "node_type", "kind", "class",
    "labels", ":label", "_labels", "semantic_type", "instance_of", "rdf:type", "label_v",
)  # fmt: skip
COUNTS = ("count", "frequency", "freq", "n")
LANGUAGES = ("language", "lang")

TEXTS: Mapping[TextKind, tuple[str, ...]] = {
    TextKind.LABEL: LABELS,
    TextKind.ALIAS: ALIASES,
    TextKind.DESCRIPTION: DESCRIPTIONS,
    TextKind.TYPE: TYPES,
}

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BREAK = re.compile(r"[\s.\-]+")

Value = TypeVar("Value")


def plain_name(name: str) -> str:
    """Return a field's name as the lists above write it.

    >>> plain_name(" subjectId"), plain_name("#Entity 1"), plain_name(":START_ID(Person)")
    ('subject_id', 'entity_1', ':start_id')
    >>> plain_name("n:ID(Person){label:Person}")
    'n:id'
    """
    plain = name.strip().strip("\ufeff").strip("\"' ").removeprefix("#").removeprefix("~").strip()
    if plain.endswith("}") and ":" in plain and "{" in plain:
        plain = plain[: plain.index("{")]
    if plain.endswith(")") and ":" in plain:
        plain = plain[: plain.rindex("(")] if "(" in plain else plain
    return _BREAK.sub("_", _HUMP.sub("_", plain)).lower()


def first_of(names: Iterable[str], fields: Mapping[str, Value]) -> tuple[str, Value] | None:
    """Return the first of `names` that `fields` (by plain name) holds, and its value.

    >>> first_of(LABELS, {"title": "Weir", "name": "Mill"})
    ('name', 'Mill')
    """
    return next(((name, fields[name]) for name in names if name in fields), None)
