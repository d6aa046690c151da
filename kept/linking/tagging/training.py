"""Training of a tagger on texts whose names are all marked.

Words of which a mark covers a part are inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from entity_linking.detection import Tagged
from entity_linking.errors import LinkingError
from entity_linking.randomness import generator
from kept.hosts import load_tokenizer
from kept.linking.first_layers import batches_by_length, embeddings_hash, learn
from kept.linking.tagging.marked import MarkedText
from kept.linking.tagging.network import TaggerNetwork, batch_of
from kept.linking.tagging.pieces import Chunk, chunks_of
from kept.linking.tagging.tagger import Tagger, TaggerRecord, new_network

IGNORED = -100


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggerSettings:
    """How a tagger is trained."""

    host: str = "minilm"
    n_layers: int = 2
    epochs: int = 2
    seed: int = 0
    chunks_per_step: int = 16
    learning_rate: float = 2e-4
    head_learning_rate: float = 2e-3
    weight_decay: float = 0.01
    warm_up: float = 0.1

    def __post_init__(self) -> None:
        if min(self.epochs, self.chunks_per_step, self.n_layers) < 1 or self.learning_rate <= 0:
            raise LinkingError(f"{self} has a count below 1 or a rate that is not above 0")


def train_tagger(
    train: Sequence[MarkedText],
    held_out: Sequence[MarkedText],
    settings: TaggerSettings = TaggerSettings(),
    *,
    trained_on: str = "",
    announce: Callable[[str], None] = lambda _: None,
) -> Tagger:
    """The tagger of the epoch with the best F1 of spans (kinds aside) on `held_out`.

    Raises `LinkingError` where no name is marked.
    """
    kinds = tuple(sorted({kind for each in train for *_, kind in each.spans}))
    if not kinds or not held_out:
        raise LinkingError("no name is marked in the training texts, or no text is held out")
    tokenizer = load_tokenizer(settings.host)
    with torch.random.fork_rng(devices=[]):  # dropout and new weights draw from the global state
        torch.manual_seed(settings.seed)
        network = new_network(settings.host, settings.n_layers, kinds)
        n_spans = sum(len(each.spans) for each in train)
        record = TaggerRecord(
            host=settings.host,
            host_hash=embeddings_hash(network.host),
            n_layers=settings.n_layers,
            kinds=kinds,
            trained_on=trained_on,
            n_texts=len(train),
            n_spans=n_spans,
            n_epochs=0,
            seed=settings.seed,
            held_out_f1=-1.0,
        )
        tagger = Tagger(network, tokenizer, record)
        words = [each.text for each in train]
        chunks = chunks_of(words, tokenizer, most=network.most_pieces)
        examples = examples_of(train, chunks, kinds)
        best: dict[str, torch.Tensor] = {}
        for epoch, loss in enumerate(_epochs(network, examples, settings, tokenizer), 1):
            network.eval()
            score = span_scores(held_out, tagger.tag([text.text for text in held_out]))[2]
            announce(f"epoch {epoch}: loss {loss:.4f}, held-out F1 of spans {score:.4f}")
            if score > record.held_out_f1:
                record = replace(record, n_epochs=epoch, held_out_f1=score)
                best = {name: each.clone() for name, each in network.trained().items()}
    network.load_trained(best)
    return Tagger(network, tokenizer, record)


def tags_of(chunk: Chunk, text: MarkedText, kinds: Sequence[str]) -> list[int]:
    """The tag of each word: O is 0, B-k 2k + 1, I-k 2k + 2; of overlapping names the first."""
    tags = [0] * len(chunk.starts)
    for start, end, kind in text.spans:
        inside = [
            i
            for i, (a, b) in enumerate(zip(chunk.starts, chunk.ends, strict=True))
            if a < end and start < b
        ]
        if any(tags[i] for i in inside):
            continue
        for i in inside:
            tags[i] = 2 * kinds.index(kind) + 1 + (i > inside[0])
    return tags


def examples_of(
    texts: Sequence[MarkedText], chunks: Sequence[Chunk], kinds: Sequence[str]
) -> list[tuple[Chunk, list[int]]]:
    """Chunks with the tags of their words."""
    return [(chunk, tags_of(chunk, texts[chunk.text], kinds)) for chunk in chunks]


def span_scores(gold: Sequence[MarkedText], tagged: Sequence[Tagged]) -> tuple[float, float, float]:
    """Precision, recall and F1 of spans, kinds aside."""
    right = n_gold = n_found = 0
    for expected, predicted in zip(gold, tagged, strict=True):
        marked = {(start, end) for start, end, _ in expected.spans}
        ours = {(span.start, span.end) for span in predicted.spans}
        right, n_gold = right + len(marked & ours), n_gold + len(marked)
        n_found += len(ours)
    return right / max(n_found, 1), right / max(n_gold, 1), 2 * right / max(n_found + n_gold, 1)


def _epochs(
    network: TaggerNetwork,
    examples: Sequence[tuple[Chunk, list[int]]],
    settings: TaggerSettings,
    tokenizer: PreTrainedTokenizerBase,
) -> Iterator[float]:
    """Train an epoch, give its mean loss."""
    lengths = [len(chunk.pieces) for chunk, _ in examples]

    def batches_of(epoch: int) -> list[list[tuple[Chunk, list[int]]]]:
        draw = generator(settings.seed, "tagger epoch", epoch)
        return batches_by_length(examples, lengths, settings.chunks_per_step, draw, jitter=8)

    new_parts = [*network.shapes.parameters(), *network.tags.parameters()]
    return learn(
        network, new_parts, settings, batches_of, lambda batch: _loss(network, batch, tokenizer)
    )


def _loss(
    network: TaggerNetwork,
    examples: Sequence[tuple[Chunk, list[int]]],
    tokenizer: PreTrainedTokenizerBase,
) -> torch.Tensor:
    pieces, shapes, keep = batch_of(
        [chunk for chunk, _ in examples],
        first=tokenizer.cls_token_id,
        last=tokenizer.sep_token_id,
        padding=tokenizer.pad_token_id,
    )
    gold = torch.full_like(pieces, IGNORED)
    for row, (chunk, tags) in enumerate(examples):
        gold[row, 1 + torch.tensor(chunk.firsts)] = torch.tensor(tags)
    logits = network(pieces, shapes, keep)
    return nn.functional.cross_entropy(logits.flatten(0, 1), gold.flatten(), ignore_index=IGNORED)
