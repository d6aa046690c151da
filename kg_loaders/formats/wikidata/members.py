"""Items that are instances of a class, over any number of subclasses, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.damage import DamageReport
from kg_loaders.formats.wikidata.selection import CHOSEN, INSTANCE_OF, SUBCLASS_OF, Selection
from kg_loaders.reading.blocks import Block, TextBlock, TripleBlock, numbers_behind, taken

Mask = NDArray[np.bool_]


def only_members(
    blocks: Iterable[Block], notes: Iterable[TripleBlock], selection: Selection,
    report: DamageReport,
) -> Iterator[Block]:  # fmt: skip
    """Yield what is said of the items that `notes` and `selection` choose; count the rest."""
    is_member = members(notes, selection.instances_of)
    for block in blocks:
        if isinstance(block, TextBlock):
            good = np.ones(len(block.kinds), np.bool_)
            if not block.is_relation:
                good = _of_items(block.nodes, is_member)[block.node_ids]
            rest: Block = _texts(block, good)
        else:
            good = _heads(block, is_member, selection.inner)
            rest = _triples(block, good)
        report.skip("said of an item that is not chosen", int((~good).sum()))
        yield rest


def members(notes: Iterable[TripleBlock], classes: Iterable[str]) -> Mask:
    """Which numbers are of items that are chosen, bool `[number]`.

    Such an item has a note `CHOSEN` and, where there are `classes`, one `INSTANCE_OF` a class from
    which notes `SUBCLASS_OF` lead to one of them.
    """
    rows: dict[str, list[NDArray[np.int32]]] = {CHOSEN: [], INSTANCE_OF: [], SUBCLASS_OF: []}
    for block in notes:
        for row, name in enumerate(block.relations.to_pylist()):
            rows[name].append(block.ends[block.relation_ids == row])
    nothing = np.zeros((0, 2), np.int32)
    chosen, instances, subclasses = (
        np.concatenate([nothing, *rows[name]]) for name in (CHOSEN, INSTANCE_OF, SUBCLASS_OF)
    )
    roots = numbers_behind("Q", pa.array(list(classes), pa.string()))
    top = max((int(part.max()) for part in (chosen, instances, subclasses, roots) if part.size),
              default=0)  # fmt: skip
    is_chosen = np.zeros(top + 1, np.bool_)
    is_chosen[chosen[:, 0]] = True
    if not len(roots):
        return is_chosen
    is_class = np.zeros(top + 1, np.bool_)
    is_class[roots] = True
    while True:
        below = subclasses[is_class[subclasses[:, 1]], 0]
        if is_class[below].all():
            break
        is_class[below] = True
    is_instance = np.zeros(top + 1, np.bool_)
    is_instance[instances[is_class[instances[:, 1]], 0]] = True
    return is_chosen & is_instance


def _of_items(names: pa.StringArray, is_member: Mask) -> Mask:
    """Which names are of members; `Q42$...` is a statement about Q42."""
    if not len(names):
        return np.zeros(0, np.bool_)
    items = pc.list_element(pc.split_pattern(names, "$", max_splits=1), 0)
    return _are(numbers_behind("Q", pc.utf8_upper(items)), is_member)


def _are(numbers: NDArray[np.int32], is_member: Mask) -> Mask:
    are_members = np.zeros(numbers.shape, np.bool_)
    inside = (numbers >= 0) & (numbers < len(is_member))
    are_members[inside] = is_member[numbers[inside]]
    return are_members


def _heads(block: TripleBlock, is_member: Mask, inner: bool) -> Mask:
    """Which triples are about members, and lead to them if `inner`."""
    if isinstance(block.entities, str):
        good: Mask = _are(block.ends, is_member)
    else:
        good = _of_items(block.entities, is_member)[block.ends]
    return np.asarray(good.all(axis=1) if inner else good[:, 0], np.bool_)


def _texts(block: TextBlock, good: Mask) -> TextBlock:
    nodes, node_ids = taken(block.nodes, block.node_ids[good])
    return replace(
        block, nodes=nodes, node_ids=node_ids, kinds=block.kinds[good],
        values=block.values.filter(pa.array(good)), language_ids=block.language_ids[good],
    )  # fmt: skip


def _triples(block: TripleBlock, good: Mask) -> TripleBlock:
    relations, relation_ids = taken(block.relations, block.relation_ids[good])
    ends = block.ends[good]
    if isinstance(block.entities, str):
        return TripleBlock(ends, relation_ids, block.entities, relations)
    entities, ends = taken(block.entities, ends)
    return TripleBlock(ends, relation_ids, entities, relations)
