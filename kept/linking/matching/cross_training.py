"""Training of a `CrossScorer`: the right card among the few that names propose first.

    loss = CE over the candidates of a mention, s(m, c) of `kept.linking.matching.cross`

as Wu et al. 2020 (section 4.3), AdamW with a linear decay after a warm-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from entity_linking.dense.cards import CardOptions
from entity_linking.dense.context import contexts_of
from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText
from entity_linking.randomness import generator
from kept.hosts import load_tokenizer
from kept.linking.first_layers import batches_by_length, embeddings_hash, learn
from kept.linking.matching.cross import (
    Cards,
    CrossNetwork,
    CrossRecord,
    CrossScorer,
    Pair,
    marked,
    new_network,
    tokenized,
)
from kg_loaders import KnowledgeGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossSettings:
    """How a cross-encoder is trained; `most` candidates of a mention are read.

    `most_trained` of them are in training, the right one and those with the best priors.
    """

    n_layers: int = 2
    epochs: int = 1
    seed: int = 0
    window: int = 8
    most: int = 3
    most_trained: int = 3
    most_pieces: int = 48
    mentions_per_step: int = 16
    learning_rate: float = 2e-4
    head_learning_rate: float = 2e-3
    weight_decay: float = 0.01
    warm_up: float = 0.1

    def __post_init__(self) -> None:
        counts = (self.n_layers, self.epochs, self.mentions_per_step, self.window + 1)
        if min(counts) < 1 or min(self.most, self.most_trained) < 2 or self.learning_rate <= 0:
            raise LinkingError(f"{self} has a count that is too small or a rate not above 0")


Example = list[Pair]
"""The pairs of a mention, the right one first."""


def train_cross(
    host: str,
    graph: KnowledgeGraph,
    train: Sequence[LinkedText],
    held_out: Sequence[LinkedText],
    settings: CrossSettings = CrossSettings(),
    *,
    cards: CardOptions = CardOptions(),  # noqa: B008 - frozen
    trained_on: str = "",
    announce: Callable[[str], None] = lambda _: None,
) -> CrossScorer:
    """The cross-encoder of the epoch with the best accuracy on `held_out`.

    Links bear candidates and gold (`entity_linking.scorers.reranker.with_gold`). Raises
    `LinkingError` where no mention has its entity and another one among its best candidates.
    """
    tokenizer = load_tokenizer(host)
    cards_of = Cards(graph, cards)
    teaches = examples_of(train, cards_of, settings.window, settings.most_trained)
    tests = examples_of(held_out, cards_of, settings.window, settings.most)
    with torch.random.fork_rng(devices=[]):  # new weights draw from the global state
        torch.manual_seed(settings.seed)
        network = new_network(host, settings.n_layers)
        record = CrossRecord(
            host=host,
            host_hash=embeddings_hash(network.host),
            n_layers=settings.n_layers,
            window=settings.window,
            most=settings.most,
            most_pieces=settings.most_pieces,
            trained_on=trained_on,
            n_mentions=len(teaches),
            n_epochs=0,
            seed=settings.seed,
            before=_by_prior(held_out, settings.most),
            after=-1.0,
        )
        best: dict[str, Tensor] = {}
        for epoch, loss in enumerate(_epochs(network, teaches, settings, tokenizer), 1):
            network.eval()
            score = _accuracy(network, tests, settings, tokenizer)
            announce(
                f"epoch {epoch}: loss {loss:.4f}, held-out accuracy {score:.4f} "
                f"({record.before:.4f})"
            )
            if score > record.after:
                record = replace(record, n_epochs=epoch, after=score)
                best = {name: each.clone() for name, each in network.trained().items()}
    network.load_trained(best)
    return CrossScorer(network, tokenizer, record, graph, cards)


def examples_of(
    texts: Sequence[LinkedText], cards_of: Cards, window: int, most: int
) -> list[Example]:
    """The mentions that have their entity and another one among their `most` best candidates."""
    mentions: list[tuple[str, list[str]]] = []
    for text, contexts in zip(texts, contexts_of(texts, window), strict=True):
        for link, context in zip(text.links, contexts, strict=True):
            names = [c.entity for c in link.candidates[:most]]
            if link.entity in names and len(names) > 1:
                others = [name for name in names if name != link.entity]
                mentions.append((marked(context), [str(link.entity), *others]))
    if not mentions:
        raise LinkingError(
            "no mention has its entity and another one among its best candidates, so there "
            "is nothing to learn; give texts with ambiguous names"
        )
    card_texts = iter(
        cards_of.of([entity for _, candidate_ids in mentions for entity in candidate_ids])
    )
    return [
        [(context, next(card_texts)) for _ in candidate_ids] for context, candidate_ids in mentions
    ]


def _by_prior(texts: Sequence[LinkedText], most: int) -> float:
    """How often the best prior is right where there is a choice."""
    firsts = [
        names[0] == link.entity
        for text in texts
        for link in text.links
        for names in [[c.entity for c in link.candidates[:most]]]
        if link.entity in names and len(names) > 1
    ]
    return sum(firsts) / max(len(firsts), 1)


def _scores(
    network: CrossNetwork,
    examples: Sequence[Example],
    settings: CrossSettings,
    tokenizer: PreTrainedTokenizerBase,
) -> Tensor:
    """Scores `[mention candidate]`, minus infinity where there is none."""
    pairs = [pair for pairs_of in examples for pair in pairs_of]
    flat = network(tokenized(tokenizer, pairs, settings.most_pieces))
    sizes = [len(pairs_of) for pairs_of in examples]
    return nn.utils.rnn.pad_sequence(
        list(torch.split(flat, sizes)), batch_first=True, padding_value=-torch.inf
    )


@torch.no_grad()
def _accuracy(
    network: CrossNetwork,
    examples: Sequence[Example],
    settings: CrossSettings,
    tokenizer: PreTrainedTokenizerBase,
) -> float:
    n_right = 0
    for some in _batches(examples, settings.mentions_per_step, range(len(examples))):
        n_right += int((_scores(network, some, settings, tokenizer).argmax(dim=1) == 0).sum())
    return n_right / len(examples)


def _batches(
    examples: Sequence[Example], size: int, order: Sequence[int]
) -> Iterator[list[Example]]:
    for at in range(0, len(order), size):
        yield [examples[i] for i in order[at : at + size]]


def _epochs(
    network: CrossNetwork,
    examples: Sequence[Example],
    settings: CrossSettings,
    tokenizer: PreTrainedTokenizerBase,
) -> Iterator[float]:
    """Train an epoch, give its mean loss."""
    lengths = [max(len(a) + len(b) for a, b in mention_pairs) for mention_pairs in examples]

    def batches_of(epoch: int) -> list[list[Example]]:
        draw = generator(settings.seed, "cross-encoder", epoch)
        return batches_by_length(examples, lengths, settings.mentions_per_step, draw, jitter=40)

    def loss_of(batch: list[Example]) -> Tensor:
        scores = _scores(network, batch, settings, tokenizer)
        return nn.functional.cross_entropy(scores, torch.zeros(len(batch), dtype=torch.long))

    return learn(network, network.score.parameters(), settings, batches_of, loss_of)
