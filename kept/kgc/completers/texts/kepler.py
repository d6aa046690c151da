"""KEPLER as a completer: entities are what a language model makes of their descriptions.

Wang et al. 2021, "KEPLER" (TACL), section "Knowledge Embedding"; the encoder and the loss are those
of `kept pretrain` (`kept.objectives.knowledge_embedding`), here without its masked words: a run of
both is taken as it is (`open_kepler_run`). Relations have a vector each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModel, PreTrainedTokenizerBase

from kept.auto import saved_tokenizer
from kept.auto.saved import saved_settings
from kept.encoders.kepler import KEPLER
from kept.errors import CheckpointError, ConfigError, EvaluationError
from kept.evaluation.ranking import Direction, Triple, Triples
from kept.hosts import load_host, load_tokenizer
from kept.kgc.completers.base import Reason
from kept.kgc.completers.parts import parts_behind
from kept.kgc.completers.relations import RelationRows
from kept.kgc.completers.texts.beside import (
    require_texts,
    save_host,
    saved_host_config,
    saved_host_tokenizer,
)
from kept.kgc.description_links import encode_sequences
from kept.kgc.training import HOST, by_recipe, encoder_settings, queries_of
from kept.kge.encoded import table_scorer
from kept.kge.kinds import Trained, Training
from kept.kge.options import KeplerOptions
from kept.kge.resuming.epochs import run_epochs
from kept.kge.scorers import Scorer
from kept.kge.simkgc.texts import Texts
from kept.kge.training_config import TrainingConfig
from kept.model_files import require_finite
from kept.objectives.described_triples import Questions, negatives_of
from kept.objectives.knowledge_embedding import (
    FirstKnowledgeEmbedding,
    FirstPreparation,
    KnowledgeEmbedding,
    KnowledgeEmbeddingOptions,
    sequences_of,
    word_pieces,
)
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator, torch_draws, torch_generator
from kg_loaders import KnowledgeGraph

KEPLER_RECIPE = TrainingConfig(
    n_epochs=3, batch_size=32, learning_rate=5e-5, optimiser="adamw",
    objective="negative_sampling", loss="log_sigmoid", n_negatives=16, reject_known=True,
    validate_every=1, patience=1,
)  # fmt: skip
"""For processors; the paper has one negative a side, of the whole graph, and far more steps."""
N_TOKENS, GAMMA = 32, 4.0
NAME = "kepler"


@dataclass(frozen=True, eq=False)
class KeplerCompleter:
    """A trained KEPLER; `relations` are the names of its relation vectors, in order."""

    encoder: KEPLER
    objective: KnowledgeEmbedding
    tokenizer: PreTrainedTokenizerBase
    relations: tuple[str, ...]
    reads: ClassVar[Literal["texts"]] = "texts"

    def texts(self, graph: KnowledgeGraph) -> Texts:
        """What is read of a graph: a text of more words has more pieces than are read."""
        return Texts.of(graph, n_words=self.objective.options.n_tokens)

    def on(self, graph: KnowledgeGraph, context: Triples) -> KeplerScorer:
        del context
        texts = self.texts(graph)
        vectors = self.encode([texts.plain(i) for i in range(graph.n_entities)])
        return KeplerScorer(self, vectors, RelationRows.of(NAME, self.relations, graph))

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Vectors of texts `[text width]`, in evaluation mode."""
        options = self.objective.options
        rules = sequences_of(options, self.tokenizer)
        pieces = word_pieces(list(texts), self.tokenizer, options.n_tokens)
        pad_id: Any = self.tokenizer.pad_token_id
        rows = [rules.entity(one) for one in pieces]
        vectors: Tensor = encode_sequences(self.encoder, rows, pad_id=pad_id)
        return vectors

    def scorer(self, entities: Tensor) -> Scorer:
        """The score of the training over vectors of entities `[entity width]`."""
        options = self.objective.options
        extra = {"norm": options.norm} if options.score == "transe" else {}
        relations = self.objective.relations.detach().float()
        return table_scorer(options.score, entities, relations, **extra)

    def reasons(
        self, graph: KnowledgeGraph, context: Triples, direction: Direction, triple: Triple
    ) -> list[Reason]:
        """Parts of both descriptions, left out one at a time."""
        del context
        head, relation, tail = triple
        query, answer = (tail, head) if direction == "head" else (head, tail)
        relation_row = self.relations.index(graph.relations.name(relation))

        @torch.no_grad()
        def score(texts: Texts) -> float:
            pair = self.encode([texts.plain(head), texts.plain(tail)])
            scores = self.scorer(pair).scores("tail", torch.tensor([[0, relation_row, 1]]))
            return float(scores[0, 1])

        return parts_behind(self.texts(graph), query, answer, score)

    def weights(self) -> dict[str, Tensor]:
        encoder = {f"encoder.{name}": value for name, value in self.encoder.state_dict().items()}
        return encoder | {"relations": self.objective.relations}

    def described(self) -> dict[str, Any]:
        options = self.objective.options
        return {
            "scorer": NAME,
            "width": self.encoder.host.config.hidden_size,
            "relations": list(self.relations),
            "score": options.score,
            "norm": options.norm,
            "gamma": options.gamma,
            "n_tokens": options.n_tokens,
            "zero_padding": self.encoder.config.zero_padding,
        }

    def save_extra_files(self, folder: Path) -> list[str]:
        return save_host(folder, self.tokenizer, self.encoder.host.config)


@dataclass(frozen=True, eq=False)
class KeplerScorer:
    """Scores over vectors that were read from texts `[entity width]`."""

    completer: KeplerCompleter
    vectors: Tensor
    relations: RelationRows

    @torch.no_grad()
    def scores(self, direction: Direction, triples: Tensor, /) -> Tensor:
        """`[batch candidate]`; EvaluationError: a relation that training never saw, or ranked."""
        if direction == "relation":
            raise EvaluationError("KEPLER ranks heads and tails; leave the direction relation out")
        scorer = self.completer.scorer(self.vectors)
        return scorer.scores(direction, self.relations.with_rows(triples))

    def of(self, entities: NDArray[np.integer]) -> KeplerScorer:
        """The same for some entities alone, whose ids are then their places."""
        entity_ids = torch.as_tensor(np.asarray(entities, np.int64))
        return KeplerScorer(self.completer, self.vectors[entity_ids], self.relations)


def train(training: Training) -> Trained:
    """Train KEPLER on the source, or take a run of `kept pretrain` as it is (`weights`).

    Negatives are entities of the same batch, of which no training triple is true. ConfigError: no
    entity has a text.
    """
    options = training.options
    assert isinstance(options, KeplerOptions)
    if options.weights is None:
        return _trained(training, options)
    others = options.model_fields_set - {"weights", "literals"}
    if others:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(others))
        raise ConfigError(f"{options.weights} is taken as it was trained: leave out {flags}")
    settings = {"weights": str(options.weights)}
    return Trained(scorer=open_kepler_run(options.weights), history=None, settings=settings)


def _trained(training: Training, given: KeplerOptions) -> Trained:
    graph, triples, seed = training.splits.graph, training.splits.train, training.seed
    config, host = by_recipe(KEPLER_RECIPE, given), given.host or HOST
    require_texts(graph, NAME)
    trained_on = graph.with_triples(np.asarray(triples, np.int32), note="training triples")
    options = KnowledgeEmbeddingOptions(
        gamma=GAMMA,
        n_triples=config.batch_size,
        n_negatives=config.n_negatives,
        negatives="batch",
        n_tokens=given.tokens or N_TOKENS,
        n_relation_tokens=3,
    )
    tokenizer = load_tokenizer(host)
    with torch_draws(seed, "initial weights"):
        encoder = KEPLER.from_host(load_host(host), trained_on)
        objective = FirstKnowledgeEmbedding.for_encoder(encoder, options)
    completer = KeplerCompleter(encoder, objective, tokenizer, tuple(graph.relations))
    if not training.snapshots.is_there:
        _start_relations(completer, graph, np.asarray(triples, np.int64))
    rows = queries_of(training)
    preparation = FirstPreparation(options, trained_on, tokenizer)
    draws = torch_generator(seed, NAME)

    def loss_of(batch: Tensor) -> Tensor:
        seed_of_batch = int(torch.randint(2**31, (), generator=draws))
        questions = _questions(trained_on, rows[batch.numpy()], seed_of_batch, config.n_negatives)
        read = preparation.read(questions)
        with torch_draws(seed_of_batch, "dropout"):
            states = encoder(read.texts)
            losses = objective(states, read.texts.replace(triples=read), encoder)
        loss: Tensor = losses[objective.task]
        return loss

    with training.progress(config.n_epochs) as on_epoch:
        history = run_epochs(
            torch.nn.ModuleDict({"encoder": encoder, "objective": objective}),
            len(rows),
            loss_of,
            config=config,
            generator=draws,
            snapshots=training.snapshots,
            on_epoch=on_epoch,
            validate=lambda: training.validate(completer.on(graph, triples)),
        )
    encoder.eval()
    settings = encoder_settings(config, given)
    return Trained(scorer=completer, history=history, settings=settings)


@torch.no_grad()
def _start_relations(
    completer: KeplerCompleter, graph: KnowledgeGraph, triples: NDArray[np.int64]
) -> None:
    """Relations start as the mean of tail less head of their triples, by the untrained encoder.

    So few steps as a processor takes hardly move a row that starts anywhere else.
    """
    texts = completer.texts(graph)
    vectors = completer.encode([texts.plain(i) for i in range(graph.n_entities)])
    heads, relations, tails = torch.from_numpy(triples).T
    sums = torch.zeros_like(completer.objective.relations)
    sums.index_add_(0, relations, vectors[tails] - vectors[heads])
    counts = torch.bincount(relations, minlength=len(sums)).clamp_min(1)
    completer.objective.relations.copy_(sums / counts[:, None])


def _questions(
    graph: KnowledgeGraph, triples: NDArray[np.int64], seed: int, n_negatives: int
) -> Questions:
    """Triples with negatives of the batch's own entities."""
    draws, pool = generator(seed, "negatives"), np.unique(triples[:, [0, 2]])
    heads, tails = (
        negatives_of(graph, triples, slot, n_negatives, draws, pool, reject_known=True)
        for slot in (0, 2)
    )
    return Questions(triples, heads, tails)


def open_kepler(folder: Path, described: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Any:
    """The completer that a folder holds; CheckpointError: weights of other sizes."""
    config = saved_host_config(folder)
    relations = tuple(described["relations"])
    options = KnowledgeEmbeddingOptions(
        score=described["score"],
        norm=described["norm"],
        gamma=described["gamma"],
        n_tokens=described["n_tokens"],
        n_relation_tokens=3,
    )
    with torch.device("cpu"):
        host = AutoModel.from_config(config)
    sizes = {"n_entities": 0, "n_relations": len(relations), "id_space_hash": ""}
    kepler_config = KEPLER.config_class(
        host=config.to_dict(), zero_padding=described["zero_padding"], **sizes
    )
    encoder = KEPLER(kepler_config, host=host)
    objective = FirstKnowledgeEmbedding(
        options, width=config.hidden_size, n_relations=len(relations)
    )
    try:
        encoder.load_state_dict(
            {
                name.removeprefix("encoder."): value
                for name, value in weights.items()
                if name.startswith("encoder.")
            }
        )
        objective.load_state_dict({"relations": weights["relations"]})
    except (KeyError, RuntimeError) as error:
        raise CheckpointError(f"{folder} holds no KEPLER of these sizes: {error}") from error
    require_finite(encoder, folder)
    return KeplerCompleter(encoder.eval(), objective, saved_host_tokenizer(folder), relations)


def open_kepler_run(folder: Path) -> KeplerCompleter:
    """The completer of a run of `kept pretrain --method kepler`, its relations' names with it.

    They are those of the run's graph. ConfigError: no such run, relations that are read from texts,
    or another KEPLER's objective. GraphMismatchError: the graph changed since.
    """
    model = KnowledgeForPreTraining.from_pretrained(folder)
    objective = dict(model.objectives.items()).get("ke")
    if not isinstance(model.encoder, KEPLER) or not isinstance(objective, KnowledgeEmbedding):
        raise ConfigError(f"{folder} is no run of KEPLER's `ke`; give one of `kept pretrain`")
    if objective.options.relations != "table":
        raise ConfigError(
            f"{folder} was trained with relations {objective.options.relations!r}; kgc asks those "
            "with a vector per relation (relations: table)"
        )
    kg_folder, settings = folder / "kg", saved_settings(folder).get("kg")
    kg = kg_folder if kg_folder.is_dir() else objective.options.kg or settings
    if kg is None:
        raise ConfigError(
            f"{folder} does not say on which graph it was trained: lay it in {kg_folder}"
        )
    graph = KnowledgeGraph.open(kg)
    if objective.options.id_space_hash is None:
        model.require_graph(graph)
    else:
        graph.require_id_space(objective.options.id_space_hash, of="the relation table")
    model.eval()
    return KeplerCompleter(
        model.encoder, objective, saved_tokenizer(folder), tuple(graph.relations)
    )
