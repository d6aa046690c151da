"""Views of word-knowledge graphs in a decoder: K-BERT's branches and CoLAKE's nodes by masks.

A view's batch (`kept.graphs.views`) becomes a tree that is read left to right: masks and repeated
positions, no change of the host. `readers` says who reads an injected node. "mention" is the views'
own visibility, as published for encoders (Liu et al. 2020, K-BERT, section 3.3; Sun et al. 2020,
CoLAKE, section 3.1), with words that see no later word; a mention and its facts see one another,
which no decoder has learnt. "later" is ours: a branch goes on from the text up to its mention as
any text would, and all words behind the mention read it. Nodes that are not word pieces are the
mean of the host's embeddings of their label, so that nothing needs training.

Axis legend: batch, node, width (of the host), word (of the vocabulary), entity, relation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch, Visibility
from kept.decoders import hosts
from kept.errors import BatchError, ConfigError
from kept.graphs.graph import NodeKind
from kept.layers.means import mean_of
from kg_loaders import KnowledgeGraph

Readers = Literal["mention", "later"]


@dataclass(frozen=True, eq=False)
class LabelVectors:
    """Vectors of a graph's entities and relations: the mean of the embeddings of their labels."""

    entities: Float[Tensor, "entity width"]
    relations: Float[Tensor, "relation width"]

    @classmethod
    def of(
        cls, graph: KnowledgeGraph, host: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
    ) -> LabelVectors:
        """Those of every entity and relation of `graph`, each label as a word within a text."""
        entities = [graph.label(i) for i in range(graph.n_entities)]
        relations = [graph.relation_label(i) for i in range(graph.n_relations)]
        return cls(_means(entities, host, tokenizer), _means(relations, host, tokenizer))


@torch.no_grad()
def _means(
    labels: Sequence[str], host: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> Tensor:
    table = host.get_input_embeddings()  # called, since Gemma's scales its rows
    means: Tensor = table.weight.new_zeros(len(labels), table.weight.shape[1])
    for row, label in enumerate(labels):
        ids = tokenizer(f" {label}", add_special_tokens=False)["input_ids"]
        means[row] = table(torch.tensor(ids, device=table.weight.device)).mean(dim=0)
    return means


@dataclass(frozen=True, eq=False)
class Tree:
    """What a decoder reads of a batch. `read_on`: the nodes that words written after it see."""

    vectors: Float[Tensor, "batch node width"]
    positions: Int[Tensor, "batch node"]
    visibility: Visibility
    read_on: Bool[Tensor, "batch node"]
    next_position: Int[Tensor, " batch"]
    last: Int[Tensor, " batch"]

    def __repr__(self) -> str:
        n_batch, n_nodes, width = self.vectors.shape
        return f"Tree(batch={n_batch}, node={n_nodes}, width={width})"


def knowledge_tree(
    host: PreTrainedModel,
    batch: KnowledgeBatch,
    *,
    readers: Readers = "later",
    vectors: LabelVectors | None = None,
) -> Tree:
    """The tree of a view's batch, padded at the end of each row.

    `vectors` are needed where entities and relations are nodes (CoLAKE), and must be absent where
    all nodes are word pieces (K-BERT, words alone). Raises `ConfigError` for other `readers`.
    """
    if readers not in get_args(Readers):
        raise ConfigError(f"readers is {readers!r}; choose one of {', '.join(get_args(Readers))}")
    trunk = trunk_of(batch)
    mask = _as_published(batch, trunk) if readers == "mention" else _left_to_right(batch, trunk)
    readers_mask = trunk if readers == "mention" else batch.node_mask
    order = batch.positions.masked_fill(~trunk, -1)
    return Tree(
        _vectors(host, batch, vectors),
        batch.positions,
        Visibility(mask),
        readers_mask,
        order.amax(dim=1) + 1,
        order.argmax(dim=1),
    )


def trunk_of(batch: KnowledgeBatch) -> Bool[Tensor, "batch node"]:
    """The nodes that are the text itself: words, and anchors in the place of words."""
    trunk = (batch.node_kinds == NodeKind.WORD) & batch.node_mask
    if batch.mention_spans is None:
        return trunk
    positions = torch.arange(trunk.shape[1], device=trunk.device)
    starts, ends = batch.mention_spans.unbind(dim=2)
    inside = (positions >= starts[..., None]) & (positions < ends[..., None])
    return trunk | inside.any(dim=1)


def _before(batch: KnowledgeBatch) -> Tensor:
    """`[batch node node]`: whether the second stands no later than the first; ties by number."""
    positions, n_nodes = batch.positions, batch.positions.shape[1]
    earlier = positions[:, None, :] < positions[:, :, None]
    tied = positions[:, None, :] == positions[:, :, None]
    causal = torch.ones(n_nodes, n_nodes, dtype=torch.bool, device=positions.device).tril()
    before: Tensor = earlier | (tied & causal)
    return before


def _as_published(batch: KnowledgeBatch, trunk: Tensor) -> Tensor:
    later_word = trunk[:, :, None] & trunk[:, None, :] & ~_before(batch)
    mask: Tensor = batch.visibility.mask & ~later_word
    return mask


def _left_to_right(batch: KnowledgeBatch, trunk: Tensor) -> Tensor:
    """Branches go on from the words before them; words read the branches that begin before them."""
    injected, before = batch.node_mask & ~trunk, _before(batch)
    together = batch.visibility.mask & injected[:, :, None] & injected[:, None, :]
    positions = batch.positions
    far = int(positions.max()) + 1
    begins = positions[:, None, :].masked_fill(~together, far).amin(dim=2)
    among_words = trunk[:, :, None] & trunk[:, None, :] & before
    to_words = injected[:, :, None] & trunk[:, None, :]
    to_words = to_words & (positions[:, None, :] < begins[:, :, None])
    to_branches = trunk[:, :, None] & injected[:, None, :]
    to_branches = to_branches & (positions[:, :, None] >= begins[:, None, :])
    is_self = torch.eye(trunk.shape[1], dtype=torch.bool, device=trunk.device)
    visible: Tensor = among_words | to_words | to_branches | (together & before) | is_self
    return visible


def _vectors(host: PreTrainedModel, batch: KnowledgeBatch, vectors: LabelVectors | None) -> Tensor:
    table = host.get_input_embeddings()
    if vectors is None:
        n_words = table.weight.shape[0]
        if int(batch.node_ids.max()) >= n_words:
            raise BatchError(
                f"node {int(batch.node_ids.max())} is not a word of the host's {n_words}; give "
                "LabelVectors for a view whose nodes are entities and relations"
            )
        pieces: Tensor = table(batch.node_ids)
        return pieces
    words: Tensor = table(batch.node_ids.masked_fill(batch.node_kinds != NodeKind.WORD, 0))
    rows = (batch.node_ids - N_SPECIAL_ROWS).clamp(min=0)
    for kind, kind_vectors in (
        (NodeKind.ENTITY, vectors.entities),
        (NodeKind.RELATION, vectors.relations),
    ):
        of_kind = batch.node_kinds == kind
        vectors_of_kind = kind_vectors[rows.masked_fill(~of_kind, 0)].to(words)
        words = torch.where(of_kind[..., None], vectors_of_kind, words)
    return words


def read_tree(
    host: PreTrainedModel, tree: Tree, cache: DynamicCache | None = None
) -> Float[Tensor, "batch node width"]:
    """The host's finished states at every node."""
    hidden = hosts.embed(host, tree.vectors, tree.positions)
    return hosts.run(host, hidden, tree.visibility, tree.positions, cache)[-1]


@dataclass(frozen=True, eq=False)
class Continuation:
    """Words written after a text, and the host's scores of every word as the first of them."""

    words: Int[Tensor, "batch new"]
    first_scores: Float[Tensor, "batch word"]


@torch.no_grad()
def write(
    host: PreTrainedModel,
    tree: Tree,
    *,
    n_new: int,
    end_id: int | None = None,
    draws: torch.Generator | None = None,
    temperature: float = 1.0,
) -> Continuation:
    """`n_new` words after each tree's text, each the most probable; after `end_id` only `end_id`.

    With `draws` each is drawn by its probability, scores divided by `temperature`. The nodes are
    read once; new words see those of `read_on` and one another. Raises `ConfigError` for a
    temperature that is not above 0.
    """
    if not temperature > 0:
        raise ConfigError(
            f"temperature {temperature} is not above 0; for the most probable word at each step "
            "leave out draws"
        )
    cache = DynamicCache(config=host.config)
    states = read_tree(host, tree, cache)
    rows = torch.arange(len(states), device=states.device)
    visible = tree.read_on
    scores = first_scores = hosts.logits(host, states[rows, tree.last])
    words: list[Tensor] = []
    stopped = torch.zeros(len(states), dtype=torch.bool, device=states.device)
    for number in range(n_new):
        word = _next(scores, draws, temperature)
        if end_id is not None:
            word = word.masked_fill(stopped, end_id)
            stopped = stopped | (word == end_id)
        words.append(word)
        if number == n_new - 1 or bool(stopped.all()):
            break
        visible = functional.pad(visible, (0, 1), value=True)
        positions = (tree.next_position + number)[:, None]
        hidden = hosts.embed(host, host.get_input_embeddings()(word[:, None]), positions)
        mask = _row_mask(host, visible)
        step = hosts.masked_stepper(host, mask, positions, cache)
        for layer in hosts.layers(host):
            hidden = step(layer, hidden)
        scores = hosts.logits(host, hosts.finish(host, hidden)[:, 0])
    return Continuation(torch.stack(words, dim=1), first_scores)


def _next(scores: Tensor, draws: torch.Generator | None, temperature: float) -> Tensor:
    if draws is None:
        return scores.argmax(dim=-1)
    shares = (scores.float() / temperature).softmax(dim=-1)
    return torch.multinomial(shares, 1, generator=draws)[:, 0]


def chances(
    host: PreTrainedModel, tree: Tree, words: Int[Tensor, "batch new"]
) -> Float[Tensor, "batch new"]:
    """The log-probability of each of `words`, written one after another behind each tree's text.

    They see what words of `write` see. Raises `BatchError` for another number of rows, or none.
    """
    n_rows, n_nodes = tree.positions.shape
    n_new = words.shape[1]
    if len(words) != n_rows or n_new == 0:
        raise BatchError(
            f"words have shape {tuple(words.shape)}; {tree} needs {n_rows} rows of one word or more"
        )
    steps = torch.arange(n_new, device=words.device)
    mask = torch.zeros(n_rows, n_nodes + n_new, n_nodes + n_new, dtype=torch.bool)
    mask = mask.to(words.device)
    mask[:, :n_nodes, :n_nodes] = tree.visibility.mask
    mask[:, n_nodes:, :n_nodes] = tree.read_on[:, None]
    mask[:, n_nodes:, n_nodes:] = steps[None, :] <= steps[:, None]
    longer = dataclasses.replace(
        tree,
        vectors=torch.cat([tree.vectors, host.get_input_embeddings()(words)], dim=1),
        positions=torch.cat([tree.positions, tree.next_position[:, None] + steps], dim=1),
        visibility=Visibility(mask),
    )
    states = read_tree(host, longer)
    rows = torch.arange(n_rows, device=words.device)
    before = torch.cat([states[rows, tree.last][:, None], states[:, n_nodes:-1]], dim=1)
    scores = hosts.logits(host, before).float().log_softmax(dim=-1)
    return scores.gather(2, words[..., None])[..., 0]


def _row_mask(host: PreTrainedModel, visible: Tensor) -> Tensor:
    """Numbers `[batch 1 1 node]` that are added to the scores of one new node."""
    least = torch.finfo(host.dtype).min
    mask = torch.zeros(visible.shape, dtype=host.dtype, device=visible.device)
    return mask.masked_fill(~visible, least)[:, None, None]


def answer_loss(
    host: PreTrainedModel, tree: Tree, batch: KnowledgeBatch, n_answer: Int[Tensor, " batch"]
) -> Float[Tensor, ""]:
    """Mean cross-entropy of the last `n_answer` words of each text, given all before them.

    Words stand in their order in `batch`, as every view has them.
    """
    states = read_tree(host, tree)
    is_word = (batch.node_kinds == NodeKind.WORD) & batch.node_mask
    n_words = is_word.sum(dim=1)
    number = is_word.cumsum(dim=1) - 1
    is_learned = is_word & (number >= (n_words - n_answer)[:, None])
    rows, inverse = is_learned.nonzero(as_tuple=True)
    if not len(inverse) or int((n_words - n_answer).min()) < 1:
        raise BatchError(f"answers of {n_answer.tolist()} words need texts with a word before each")
    scores = hosts.logits(host, states[rows, inverse - 1]).float()
    expected = batch.node_ids[rows, inverse]
    total = functional.cross_entropy(scores, expected, reduction="sum")
    return mean_of(total, len(expected))
