"""CoLAKE as a completer: the open end of a fact is a masked entity node of a word-knowledge graph.

Sun et al. 2020, "CoLAKE" (COLING), sections 3.1 to 3.3. A question (head, relation, ?) is the
head's text with the head as an anchor, some of its known facts, and one fact more, whose tail is
masked; (?, relation, tail) is asked as the tail's fact of an inverse relation. Where we differ, so
that an entity which no training saw has an answer's row: rows of entities are never trained but
made of texts, as the paper only starts them (docs/decisions/0035).

Axis legend: batch, node, entity, relation (then inverse ones), width, embedding, candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from kept import hosts
from kept.batches import MASK_ROW, N_SPECIAL_ROWS
from kept.encoders.colake import CoLAKE
from kept.errors import CheckpointError, EvaluationError
from kept.evaluation.ranking import SLOTS, Direction, Filter, Triple, Triples
from kept.host_families import layer_norm_eps
from kept.hosts import load_host, load_tokenizer
from kept.kgc.completers.base import Reason
from kept.kgc.completers.parts import parts_behind
from kept.kgc.completers.paths import triple_in_words
from kept.kgc.completers.relations import RelationRows
from kept.kgc.completers.texts.beside import (
    require_texts,
    save_host,
    saved_host_config,
    saved_host_tokenizer,
)
from kept.kgc.completers.texts.colake_questions import Questions, Reader
from kept.kgc.training import HOST, by_recipe, encoder_settings, queries_of
from kept.kge.kinds import Trained, Training
from kept.kge.options import EncoderOptions
from kept.kge.resuming.epochs import run_epochs
from kept.kge.simkgc.texts import INVERSE, Texts
from kept.kge.training_config import TrainingConfig
from kept.layers.transform import Transform
from kept.model_files import require_finite
from kept.randomness import torch_draws, torch_generator
from kept.vectors import mean_pieces
from kg_loaders import KnowledgeGraph

NAME = "colake"
COLAKE_RECIPE = TrainingConfig(
    n_epochs=3, batch_size=32, learning_rate=1e-4, optimiser="adamw",
    objective="negative_sampling", n_negatives=4096, reject_known=True, validate_every=1,
    patience=1,
)  # fmt: skip
"""A triple is two questions; `n_negatives` entities answer a batch's wrongly, or all there are."""
N_TOKENS = 32
BATCH_SIZE = 64
SIDES: tuple[Direction, Direction] = ("tail", "head")


class CoLAKEModel(nn.Module):
    """What is trained: an encoder without entities, and the transform of its masked nodes.

    Its relation rows are those of `n_relations` relations, then of their inverses. `centre
    [embedding]` is the mean of the rows of the training's entities.
    """

    centre: Tensor

    def __init__(self, host: PreTrainedModel, n_relations: int) -> None:
        super().__init__()
        words, settings = hosts.word_table(host), host.config.to_dict()
        words.weight.requires_grad_(False)  # rows of entities are made of it
        config = CoLAKE.config_class(
            host=settings, n_relations=2 * n_relations, sparse_entities=False
        )
        self.encoder = CoLAKE(config, host=host)
        self.encoder.entity_embeddings.requires_grad_(False)
        self.transform = Transform(
            width=host.config.hidden_size,
            embedding=words.embedding_dim,
            epsilon=layer_norm_eps(host.config),
        )
        self.register_buffer("centre", torch.zeros(words.embedding_dim))

    def over(
        self, rows: Tensor, relations: nn.Embedding, *, n_relations: int, mask_id: int | None
    ) -> CoLAKE:
        """The encoder with other rows of entities `[entity embedding]` and of relations.

        A masked entity has the row of the word piece `mask_id`, zeros without one.
        """
        host = self.encoder.host
        config = CoLAKE.config_class(
            host=host.config.to_dict(),
            n_entities=len(rows),
            n_relations=2 * n_relations,
            sparse_entities=False,
        )
        with torch_draws(0, "rows that are all replaced"):
            encoder = CoLAKE(config, host=host)
        special = rows.new_zeros(N_SPECIAL_ROWS, rows.shape[1])
        if mask_id is not None:
            special[MASK_ROW] = hosts.word_table(host).weight[mask_id].detach()
        encoder.entity_embeddings = _frozen_table(torch.cat([special, rows]))
        encoder.relation_embeddings = relations
        encoder.kind_embeddings = self.encoder.kind_embeddings
        return encoder

    def masked(self, encoder: CoLAKE, questions: Questions) -> Tensor:
        """The transformed state of each question's masked node `[batch embedding]`."""
        states = encoder(questions.batch).node_states
        masked_states: Tensor = self.transform(states[torch.arange(len(states)), questions.masked])
        return masked_states


@dataclass(frozen=True, eq=False)
class CoLAKECompleter:
    """A trained CoLAKE; `relations` are the names of its relations, in order."""

    model: CoLAKEModel
    tokenizer: PreTrainedTokenizerBase
    relations: tuple[str, ...]
    n_tokens: int = N_TOKENS
    reads: ClassVar[Literal["texts"]] = "texts"

    def on(self, graph: KnowledgeGraph, context: Triples) -> CoLAKEScorer:
        return self.over(graph, context, self.texts(graph))

    def texts(self, graph: KnowledgeGraph) -> Texts:
        """What is read of a graph: a text of more words has more pieces than are read."""
        return Texts.of(graph, n_words=self.n_tokens)

    def over(self, graph: KnowledgeGraph, context: Triples, texts: Texts) -> CoLAKEScorer:
        """The scorer of a graph whose entities have these texts."""
        words = hosts.word_table(self.model.encoder.host).weight.detach()
        plain_names = [texts.plain(i) for i in range(graph.n_entities)]
        rows, _ = mean_pieces(plain_names, words, self.tokenizer)
        mask_id: Any = self.tokenizer.mask_token_id
        encoder = self.model.over(
            rows, self._relation_rows(graph), n_relations=graph.n_relations, mask_id=mask_id
        )
        reader = Reader.of(graph, context, texts, self.tokenizer, n_tokens=self.n_tokens)
        relation_ids = RelationRows.of(NAME, self.relations, graph)
        return CoLAKEScorer(self.model, encoder, reader, relation_ids, rows)

    def _relation_rows(self, graph: KnowledgeGraph) -> nn.Embedding:
        """The trained rows, in the order of a graph's relations and of their inverses.

        A relation that training did not have, which facts may show, has the row of its label.
        """
        trained = self.model.encoder.relation_embeddings
        assert isinstance(trained, nn.Embedding)
        if tuple(graph.relations) == self.relations:
            return trained
        weight, n, n_own = trained.weight.detach(), graph.n_relations, len(self.relations)
        rows = relation_rows(graph, self.model.encoder.host, self.tokenizer)
        rows_by_name = {name: i for i, name in enumerate(self.relations)}
        for i, name in enumerate(graph.relations):
            if name in rows_by_name:
                rows[i] = weight[N_SPECIAL_ROWS + rows_by_name[name]]
                rows[i + n] = weight[N_SPECIAL_ROWS + rows_by_name[name] + n_own]
        return _frozen_table(torch.cat([weight[:N_SPECIAL_ROWS], rows]))

    def reasons(
        self, graph: KnowledgeGraph, context: Triples, direction: Direction, triple: Triple
    ) -> list[Reason]:
        """Parts of both descriptions and facts that were shown, each left out in turn."""
        head, _, tail = triple
        query, answer = (tail, head) if direction == "head" else (head, tail)
        texts, question = self.texts(graph), torch.tensor([triple])

        def score(texts: Texts) -> float:
            scorer = self.over(graph, context, texts)
            return float(scorer.scores(direction, question)[0, answer])

        reasons, scorer = parts_behind(texts, query, answer, score), self.on(graph, context)
        whole = float(scorer.scores(direction, question)[0, answer])
        for fact in scorer.reader.facts(query):
            without_fact = CoLAKEScorer(
                scorer.model,
                scorer.encoder,
                scorer.reader.without(fact),
                scorer.relations,
                scorer.rows,
            )
            change = whole - float(without_fact.scores(direction, question)[0, answer])
            reasons.append(Reason("fact", triple_in_words(graph, fact), change))
        return sorted(reasons, key=lambda one: -one.change)

    def weights(self) -> dict[str, Tensor]:
        return dict(self.model.state_dict())

    def described(self) -> dict[str, Any]:
        return {
            "scorer": NAME,
            "width": len(self.model.centre),
            "relations": list(self.relations),
            "n_tokens": self.n_tokens,
        }

    def save_extra_files(self, folder: Path) -> list[str]:
        return save_host(folder, self.tokenizer, self.model.encoder.host.config)


@dataclass(frozen=True, eq=False)
class CoLAKEScorer:
    """Masked entities of a graph's questions against rows of all its entities."""

    model: CoLAKEModel
    encoder: CoLAKE
    reader: Reader
    relations: RelationRows
    rows: Tensor

    @torch.no_grad()
    def scores(self, direction: Direction, triples: Tensor, /) -> Tensor:
        """`[batch candidate]`; EvaluationError: a relation that training never saw, or ranked."""
        if direction == "relation":
            raise EvaluationError("CoLAKE ranks heads and tails; leave the direction relation out")
        self.relations.with_rows(triples)
        self.model.eval()
        self.encoder.eval()
        answers, blocks = answer_rows(self.rows, self.model.centre), []
        for start in range(0, len(triples), BATCH_SIZE):
            part = triples[start : start + BATCH_SIZE].numpy()
            questions = self.reader.questions(part, direction)
            blocks.append(self.model.masked(self.encoder, questions) @ answers.T)
        return torch.cat(blocks)


def answer_rows(rows: Tensor, centre: Tensor) -> Tensor:
    """Rows as answers `[entity embedding]`: less the mean, of length 1.

    Means of word pieces all point the same way; what tells them apart is the rest.
    """
    return normalize(rows - centre, dim=1)


def _frozen_table(rows: Tensor) -> nn.Embedding:
    """A table that is not trained."""
    table = nn.Embedding(len(rows), rows.shape[1], _weight=rows)
    return table.requires_grad_(False)


@torch.no_grad()
def relation_rows(
    graph: KnowledgeGraph, host: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> Tensor:
    """Rows of relations and of their inverses by their labels `[relation embedding]`."""
    labels = [graph.relation_label(i) for i in range(graph.n_relations)]
    words = hosts.word_table(host).weight
    rows, _ = mean_pieces([*labels, *(INVERSE + one for one in labels)], words, tokenizer)
    vectors: Tensor = rows.clone()
    return vectors


def train(training: Training) -> Trained:
    """Train CoLAKE over texts of entities. ConfigError: no entity has a text."""
    options, seed = training.options, training.seed
    assert isinstance(options, EncoderOptions)
    config, host = by_recipe(COLAKE_RECIPE, options), options.host or HOST
    graph, triples = training.splits.graph, training.splits.train
    require_texts(graph, NAME)
    tokenizer = load_tokenizer(host)
    with torch_draws(seed, "initial weights"):
        model = CoLAKEModel(load_host(host), graph.n_relations)
    completer = CoLAKECompleter(
        model, tokenizer, tuple(graph.relations), options.tokens or N_TOKENS
    )
    with torch.no_grad():
        rows = relation_rows(graph, model.encoder.host, tokenizer)
        model.encoder.relation_embeddings.weight[N_SPECIAL_ROWS:] = rows
    scorer = completer.on(graph, triples)
    model.centre.copy_(scorer.rows.mean(0))
    queries = queries_of(training)
    filter = Filter(
        {"train": np.asarray(triples)}, n_entities=graph.n_entities, n_relations=graph.n_relations
    )
    draws = torch_generator(seed, NAME)

    def loss_of(batch: Tensor) -> Tensor:
        scorer.encoder.train()
        seed_of_batch = int(torch.randint(2**31, (), generator=draws))
        with torch_draws(seed_of_batch, "negatives and dropout"):
            return _loss(scorer, queries[batch.numpy()], filter, config.n_negatives, seed_of_batch)

    with training.progress(config.n_epochs) as on_epoch:
        history = run_epochs(
            model,
            len(queries),
            loss_of,
            config=config,
            generator=draws,
            snapshots=training.snapshots,
            on_epoch=on_epoch,
            validate=lambda: training.validate(scorer),
        )
    model.eval()
    settings = encoder_settings(config, options)
    return Trained(scorer=completer, history=history, settings=settings)


def _loss(
    scorer: CoLAKEScorer, triples: NDArray[np.int64], filter: Filter, n_negatives: int, seed: int
) -> Tensor:
    """Mean cross entropy of both ends of triples `[triple 3]` among sampled entities and their own.

    Entities that answer a question by another training triple do not compete.
    """
    sampled = torch.randperm(filter.n_entities)[:n_negatives]
    ends = torch.from_numpy(triples[:, [0, 2]].ravel())
    pool = torch.unique(torch.cat([sampled, ends]))
    answers = answer_rows(scorer.rows[pool], scorer.model.centre)
    losses = []
    for direction in SIDES:
        questions = scorer.reader.questions(triples, direction, seed=seed)
        logits = scorer.model.masked(scorer.encoder, questions) @ answers.T
        gold = torch.from_numpy(triples[:, SLOTS[direction]].copy())
        is_other = torch.zeros(len(triples), filter.n_entities, dtype=torch.bool)
        is_other[filter.known(direction, triples)] = True
        is_other[torch.arange(len(gold)), gold] = False
        logits = logits.masked_fill(is_other[:, pool], -torch.inf)
        losses.append(cross_entropy(logits, torch.searchsorted(pool, gold)))
    return torch.stack(losses).mean()


def open_colake(folder: Path, described: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Any:
    """The completer that a folder holds; CheckpointError: weights of other sizes."""
    config = saved_host_config(folder)
    relations = tuple(described["relations"])
    with torch.device("cpu"):
        model = CoLAKEModel(AutoModel.from_config(config), len(relations))
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"{folder} holds no CoLAKE of these sizes: {error}") from error
    require_finite(model, folder)
    tokenizer = saved_host_tokenizer(folder)
    return CoLAKECompleter(model.eval(), tokenizer, relations, described["n_tokens"])
