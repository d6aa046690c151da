"""Looking test facts up in a graph: by identifier, else by name.

A name is a label or alias, or an identifier that is written as one. A name that several entities
share gives a fact several readings; where these disagree, nothing is decided.

Axis legend: fact, reading (of a fact), triple.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.vocabulary import Vocabulary

Fact = tuple[str, str, str]
MOST_READINGS = 1024
"""Readings of one fact: with more it is ambiguous and not looked up."""
NAMELESS = "without identifier or name of an end"
FOREIGN = "whose identifiers and names are none of the graph"
NO_SUCH_NAME = "with a name that no entity bears"
AMBIGUOUS = "with an ambiguous name"
OTHER_RELATION = "of a relation that it does not know, whose ends it joins"


@dataclass(frozen=True, eq=False)
class Lookup:
    """Facts as ids of a graph.

    `rows [reading 3]` holds -1 for an end or relation that the graph does not have, `owners
    [reading]` the fact that a reading is of; a fact without readings could not be looked up, and
    `faults` says why. `n_by_name` facts have an end that was found by its name.
    `may_be_unknown [fact]`: the relation may be in the graph under another name.
    """

    rows: NDArray[np.int32]
    owners: NDArray[np.int64]
    faults: Mapping[int, str]
    n_by_name: int
    may_be_unknown: NDArray[np.bool_]

    @property
    def n_facts(self) -> int:
        return len(self.may_be_unknown)

    def decide(self, hit: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """`[fact]` twice, from `hit [reading]`: those whose readings agree, and those all hit."""
        n_readings = np.bincount(self.owners, minlength=self.n_facts)
        n_hits = np.bincount(self.owners[hit], minlength=self.n_facts)
        has_any = n_readings > 0
        return has_any & ((n_hits == 0) | (n_hits == n_readings)), has_any & (n_hits == n_readings)

    def first_rows(self, facts: NDArray[np.bool_]) -> NDArray[np.int32]:
        """The first reading of each of `facts [fact]` that has any, `[fact 3]`."""
        _, first = np.unique(self.owners, return_index=True)
        return self.rows[first[facts[self.owners[first]]]]


def look_up(
    facts: Sequence[Fact],
    names: Sequence[tuple[str, str]],
    graph: KnowledgeGraph,
    *,
    same_ids: bool = False,
) -> Lookup:
    """Look up `facts` by identifiers ("" where there is none), else by `names` of head and tail.

    Where the graph has any of the identifiers, or with `same_ids`, an unknown one is outside of it;
    else they are another graph's, and names are tried. Relations are known by identifier or label.
    """
    names = names or [("", "")] * len(facts)
    ids_by_name = _ids_by_name(
        {name for head, _, tail in facts for name in (head, tail) if name}, graph
    )
    is_own = same_ids or bool(ids_by_name)
    bearers = entities_by_name({name for pair in names for name in pair if name}, graph)
    relations, own_relations = _relations({relation for _, relation, _ in facts}, graph)
    own_relations |= same_ids
    rows: list[tuple[int, ...]] = []
    owners: list[int] = []
    faults: dict[int, str] = {}
    n_by_name = 0
    for number, (fact, called) in enumerate(zip(facts, names, strict=True)):
        pair = fact[0], fact[2]
        ends = [_end(i, n, ids_by_name, is_own, bearers) for i, n in zip(pair, called, strict=True)]
        readings = _readings(ends[0], relations[fact[1]], ends[1])
        if isinstance(readings, str):
            faults[number] = readings
            continue
        n_by_name += any(
            i not in ids_by_name and end != (-1,) for i, end in zip(pair, ends, strict=True)
        )
        rows += readings
        owners += [number] * len(readings)
    unknown = [relations[name] == (-1,) and not (name and own_relations) for _, name, _ in facts]
    return Lookup(
        rows=np.array(rows, np.int32).reshape(-1, 3),
        owners=np.array(owners, np.int64),
        faults=faults,
        n_by_name=n_by_name,
        may_be_unknown=np.array(unknown, np.bool_),
    )


Ids = tuple[int, ...]


def _readings(head: Ids | str, relation: Ids, tail: Ids | str) -> list[tuple[int, ...]] | str:
    """Every combination, or why there is none."""
    if isinstance(head, str):
        return head
    if isinstance(tail, str):
        return tail
    if len(head) * len(relation) * len(tail) > MOST_READINGS:
        return AMBIGUOUS
    return list(product(head, relation, tail))


def _end(
    identifier: str,
    name: str,
    ids_by_name: Mapping[str, int],
    is_own: bool,
    bearers: Mapping[str, Ids],
) -> Ids | str:
    """Return the entities that an end of a fact may be, (-1,) for one outside; or why none."""
    if identifier in ids_by_name:
        return (ids_by_name[identifier],)
    if identifier and is_own:
        return (-1,)
    if entities := bearers.get(name):
        return entities
    if identifier:
        return FOREIGN
    return NO_SUCH_NAME if name else NAMELESS


def _ids_by_name(names: Iterable[str], graph: KnowledgeGraph) -> dict[str, int]:
    ordered = sorted(names)
    ids = graph.entities.ids(ordered).tolist() if ordered else []
    ids_by_name = {name: number for name, number in zip(ordered, ids, strict=True) if number >= 0}
    return ids_by_name | _in_other_form(
        [name for name in ordered if name not in ids_by_name], graph.entities
    )


def nell_form(name: str) -> str | None:
    """An identifier of NELL in the one of its two forms that has no colons; None for any other.

    >>> nell_form("concept:city:oslo"), nell_form("concept_city_oslo"), nell_form("Q585")
    ('concept_city_oslo', 'concept_city_oslo', None)
    """
    return name.replace(":", "_") if name.startswith(("concept:", "concept_")) else None


def _in_other_form(names: Iterable[str], vocabulary: Vocabulary) -> dict[str, int]:
    """The numbers of NELL's identifiers that `vocabulary` has in NELL's other form.

    A form that is that of several is none.
    """
    forms = {name: form for name in names if (form := nell_form(name)) is not None}
    if not forms:
        return {}
    numbers: dict[str, list[int]] = {}
    targets = set(forms.values())
    for number in range(len(vocabulary)):
        form = nell_form(vocabulary.name(number))
        if form in targets:
            numbers.setdefault(form, []).append(number)
    return {n: numbers[form][0] for n, form in forms.items() if len(numbers.get(form, ())) == 1}


def entities_by_name(names: Iterable[str], graph: KnowledgeGraph) -> dict[str, tuple[int, ...]]:
    """Return the entities by name: label, alias or identifier, in any language."""
    ordered = sorted(names)
    if not ordered:
        return {}
    called: dict[str, set[int]] = {name: {i} for name, i in _ids_by_name(ordered, graph).items()}
    texts = graph.entity_texts
    among = pc.is_in(texts.values, value_set=pa.array(ordered, pa.large_string()))
    are_names = np.isin(texts.kinds, (TextKind.LABEL, TextKind.ALIAS))
    rows = np.flatnonzero(np.asarray(among.to_numpy(zero_copy_only=False), np.bool_) & are_names)
    nodes = np.searchsorted(texts.offsets, rows, "right") - 1
    for row, node in zip(rows.tolist(), nodes.tolist(), strict=True):
        called.setdefault(str(texts.values[row].as_py()), set()).add(node)
    return {name: tuple(sorted(entities)) for name, entities in called.items()}


def _relations(
    names: Iterable[str], graph: KnowledgeGraph
) -> tuple[dict[str, tuple[int, ...]], bool]:
    """By name, the relations that it may be, (-1,) for none; and whether any is an identifier.

    `/people/person/place_of_birth` also means the relation with the label "place of birth".
    """
    labelled: dict[str, list[int]] = {}
    for relation in range(graph.n_relations):
        labelled.setdefault(graph.relation_label(relation).casefold(), []).append(relation)
    mapped, any_exact = dict[str, tuple[int, ...]](), False
    names = list(names)
    others = _in_other_form(names, graph.relations)
    for name in names:
        exact = graph.relations.find(name)
        exact = others.get(name) if exact is None else exact
        any_exact |= exact is not None
        last = name.rpartition("/")[2].replace("_", " ")
        labels = labelled.get(name.casefold()) or labelled.get(last.casefold()) or [-1]
        mapped[name] = tuple(labels) if exact is None else (exact,)
    return mapped, any_exact


def reasons(counts: Mapping[str, int]) -> str:
    """Counts by reason as one note, the frequent first.

    >>> reasons({"without a name": 1, "of another graph": 3})
    '3 of another graph; 1 without a name'
    """
    return "; ".join(f"{n} {reason}" for reason, n in Counter(counts).most_common() if n)
