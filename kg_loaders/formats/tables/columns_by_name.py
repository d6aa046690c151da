"""Which columns of a table are head, relation and tail, by the names that tables give them."""

from __future__ import annotations

from collections.abc import Sequence

NAMES = (
    ("head", "subject", "source", "from", "h", "s", "node1", ":start_id", "start", "subj"),
    ("relation", "predicate", "property", "r", "p", "label", ":type", "type", "pred", "rel"),
    ("tail", "object", "target", "to", "t", "o", "node2", ":end_id", "end", "obj"),
)
"""Names of heads, relations and tails; of several that stand in a table the first one counts.

Those of kept's own Parquet files, of Neo4j (`:START_ID`, `:TYPE`, `:END_ID`), of KGTK (`node1`,
`label`, `node2`) and everyday ones.
"""


def places_of(columns: Sequence[str]) -> tuple[int, int, int] | None:
    """Return the places of head, relation and tail among `columns`; None where one is missing.

    >>> places_of(["id", "Object", "Subject", "predicate"])
    (2, 3, 1)
    """
    known = [name.strip().lower() for name in columns]
    found = [next((known.index(n) for n in names if n in known), None) for names in NAMES]
    head, relation, tail = found
    if head is None or relation is None or tail is None:
        return None
    return head, relation, tail
