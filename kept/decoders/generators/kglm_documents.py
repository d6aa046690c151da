"""Documents as of Linked WikiText-2, labelled token by token, and the aliases to copy from.

Logan et al. 2019, section 4 and rloganiv/kglm-model: a mention's entity, parents and relations
stand at each of its tokens; in the generative form one step earlier, to describe the next token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Int
from torch import Tensor

from kept.errors import BatchError

PADDING, NEW_RELATION = "@@PADDING@@", "@@NEW@@"
SHARED = {"T": "@@DATE@@", "V": "@@QUANTITY@@"}
"""Entities by the first letter of their id of which there are too many to tell apart."""
NAMED = ("Q", "P")
N_PARENTS, N_ALIASES, N_ALIAS_TOKENS = 10, 4, 8


@dataclass(frozen=True)
class Mention:
    """Tokens `start` to `end` (exclusive) name an entity, new or by facts about its parents."""

    start: int
    end: int
    entity: str
    parents: tuple[str, ...]
    relations: tuple[str, ...]

    @property
    def is_new(self) -> bool:
        """Whether no fact leads to it."""
        return self.relations == (NEW_RELATION,)


@dataclass(frozen=True, eq=False)
class Labels:
    """What each token of a document is labelled with, by name; `shortlist` are its entities."""

    source: list[str]
    target: list[str]
    mention_type: list[int]
    raw_entity_ids: list[str]
    entity_ids: list[str]
    parent_ids: list[list[str]]
    relations: list[list[str]]
    shortlist: list[str]
    shortlist_inds: list[int]
    alias_copy_inds: list[int] = field(default_factory=list)


def shared_entity(raw: str) -> str | None:
    """The id under which an entity is predicted; None for one of no known kind.

    >>> shared_entity("T1871"), shared_entity("Q42"), shared_entity("C9")
    ('@@DATE@@', 'Q42', None)
    """
    return SHARED.get(raw[:1], raw if raw[:1] in NAMED else None)


def label(
    tokens: Sequence[str],
    mentions: Sequence[Mention],
    *,
    is_generative: bool,
    local_ids: Mapping[str, Mapping[str, int]] | None = None,
) -> Labels:
    """Return the labels of a document; mentions of no known kind are left out.

    `local_ids` number the tokens of each entity's aliases. Raises `BatchError` for a mention that
    has no place: of the first token in the generative form, of the last one in the other.
    """
    n = len(tokens) - 1
    labels = Labels(
        source=list(tokens[:-1]),
        target=list(tokens[1:]) if is_generative else [],
        mention_type=[0] * n,
        raw_entity_ids=[PADDING] * n,
        entity_ids=[PADDING] * n,
        parent_ids=[[PADDING]] * n,
        relations=[[PADDING]] * n,
        shortlist=[PADDING],
        shortlist_inds=[0] * n,
        alias_copy_inds=[0] * n if is_generative else [],
    )
    for mention in mentions:
        entity = shared_entity(mention.entity)
        if entity is None:
            continue
        start, end = mention.start - is_generative, mention.end - is_generative
        if not 0 <= start < end <= n:
            raise BatchError(f"{mention} is not within the {n} tokens that have labels")
        if entity not in labels.shortlist:
            labels.shortlist.append(entity)
        for position in range(start, end):
            labels.raw_entity_ids[position], labels.entity_ids[position] = mention.entity, entity
            labels.mention_type[position] = 3 if position > start else 1 if mention.is_new else 2
            if mention.is_new:
                labels.shortlist_inds[position] = labels.shortlist.index(entity)
            else:
                labels.parent_ids[position] = list(mention.parents[:N_PARENTS])
                labels.relations[position] = list(mention.relations[:N_PARENTS])
            if is_generative and local_ids is not None:
                entity_labels = local_ids.get(mention.entity, {})
                labels.alias_copy_inds[position] = entity_labels.get(labels.target[position], 0)
    return labels


class AliasTable:
    """The tokens of each raw entity's first aliases, and their numbers within the entity.

    Numbers are given: the released program draws them from a set, so they cannot be made again.
    """

    def __init__(
        self,
        entities: Sequence[str],
        tokens: Mapping[str, int],
        aliases: Mapping[str, Sequence[str]],
        local_ids: Mapping[str, Mapping[str, int]],
        *,
        unknown: int = 1,
    ) -> None:
        shape = (len(entities), N_ALIASES, N_ALIAS_TOKENS)
        self.tokens = torch.zeros(shape, dtype=torch.long)
        self.local_ids = torch.zeros(shape, dtype=torch.long)
        for row, entity in enumerate(entities):
            for a, alias in enumerate(aliases.get(entity, ())[:N_ALIASES]):
                for i, token in enumerate(alias.split()[:N_ALIAS_TOKENS]):
                    self.tokens[row, a, i] = tokens.get(token, unknown)
                    self.local_ids[row, a, i] = local_ids[entity][token]

    def __call__(
        self, raw_entity_ids: Int[Tensor, "batch node"]
    ) -> tuple[Int[Tensor, "batch node alias slot"], Int[Tensor, "batch node alias slot"]]:
        """Tokens and numbers of each node's entity; zeros where there is none."""
        return self.tokens[raw_entity_ids], self.local_ids[raw_entity_ids]
