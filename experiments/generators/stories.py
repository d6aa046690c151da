"""Guan et al. on GLUCOSE's stories: a knowledge step on triples in words, then the stories.

The host is a small GPT-2 over byte pairs, made here; both are learnt from the training parts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel

from experiments.generators.sentences import NONE, SHUFFLED
from kept.decoders.generators.guan import StoryTrainer, StoryWriter, perplexity, story_batch, write
from kept.decoders.generators.stories import Story, fakes, split
from kept.decoders.generators.story_scores import distinct, repetition, words_of
from kept.decoders.generators.verbalising import CONCEPTNET, verbalise
from kept.randomness import generator, torch_draws
from kept.tasks.datasets.public_files import lines
from kept.training.config import RunConfig

END = "<|endoftext|>"
MAX_PIECES = 120


class StoryPlan(RunConfig):
    """The host's sizes; steps on triples, then on stories with their fakes."""

    width: PositiveInt
    n_layers: PositiveInt
    n_pieces: PositiveInt
    n_triples: PositiveInt
    knowledge_steps: NonNegativeInt
    story_steps: PositiveInt
    batch_size: PositiveInt
    learning_rate: PositiveFloat
    n_written: PositiveInt


Triple = tuple[str, str, str]


def read_triples(path: Path, n: int, seed: int) -> list[Triple]:
    """So many triples of ConceptNet (Li et al. 2016, `relation head tail score`), drawn."""
    rows = [line.split("\t") for line in lines(path)]
    known = [(head, relation, tail) for relation, head, tail, *_ in rows if relation in CONCEPTNET]
    order = generator(seed, "triples").permutation(len(known))[:n]
    return [known[i] for i in order.tolist()]


def shuffled_tails(triples: Sequence[Triple], seed: int) -> list[Triple]:
    """The tails of each relation dealt anew."""
    mixed = list(triples)
    for relation in sorted({r for _, r, _ in triples}):
        places = [i for i, (_, r, _) in enumerate(triples) if r == relation]
        order = generator(seed, "tails", relation).permutation(places).tolist()
        for row, other in zip(places, order, strict=True):
            mixed[row] = (triples[row][0], relation, triples[other][2])
    return mixed


@dataclass(frozen=True, eq=False)
class Stories:
    """Stories by part, triples, and a tokenizer made of the training texts."""

    stories: dict[str, list[Story]]
    triples: list[Triple]
    tokenizer: ByteLevelBPETokenizer

    @classmethod
    def of(cls, stories: list[Story], triples: list[Triple], n_pieces: int) -> Stories:
        parts = split(stories)
        texts = [" ".join(s) for s in parts["train"]] + [verbalise(*t) for t in triples]
        tokenizer = ByteLevelBPETokenizer()
        tokenizer.train_from_iterator(
            texts, vocab_size=n_pieces, special_tokens=[END], show_progress=False
        )
        return cls(parts, triples, tokenizer)

    def ids(self, text: str) -> list[int]:
        """Pieces of a text, at most `MAX_PIECES`."""
        pieces: list[int] = self.tokenizer.encode(text).ids[:MAX_PIECES]
        return pieces


def story_scores(stories: Stories, condition: str, plan: StoryPlan, seed: int) -> dict[str, float]:
    """Train under a condition of triples; the test stories' perplexity, and what is written."""
    end = stories.tokenizer.token_to_id(END)
    config = GPT2Config(
        vocab_size=stories.tokenizer.get_vocab_size(), n_embd=plan.width, n_layer=plan.n_layers,
        n_head=4, n_positions=2 * MAX_PIECES, bos_token_id=end, eos_token_id=end,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    with torch_draws(seed, "initial weights"):
        model = StoryWriter(GPT2LMHeadModel(config))
    trainer = StoryTrainer(model, learning_rate=plan.learning_rate)
    if condition != NONE:
        triples = stories.triples
        if condition == SHUFFLED:
            triples = shuffled_tails(triples, seed)
        texts = [stories.ids(verbalise(*triple)) for triple in triples]
        for step in range(plan.knowledge_steps):
            some = generator(seed, "triples step", step).integers(len(texts), size=plan.batch_size)
            trainer.step(story_batch([texts[i] for i in some.tolist()], end), multi_task=False)
    mixed = list(fakes(stories.stories["train"], seed))
    items = [(stories.ids(" ".join(story)), kind) for story, kind in mixed]
    for step in range(plan.story_steps):
        some = generator(seed, "stories step", step).integers(len(items), size=plan.batch_size)
        pieces, kinds = zip(*(items[i] for i in some.tolist()), strict=True)
        trainer.step(story_batch(pieces, end, kinds), multi_task=True)
    tested = [stories.ids(" ".join(story)) for story in stories.stories["test"]]
    batches = [story_batch(tested[i : i + 8], end) for i in range(0, len(tested), 8)]
    return {"perplexity": perplexity(model, batches)} | _written(stories, model, end, plan, seed)


def _written(
    stories: Stories, model: StoryWriter, end: int, plan: StoryPlan, seed: int
) -> dict[str, float]:
    """Distinct-4 and repetition-4 of what follows first sentences of the test."""
    draws = torch.Generator().manual_seed(
        int(generator(seed, "story sampling").integers(2**31 - 1))
    )
    texts = []
    for story in stories.stories["test"][: plan.n_written]:
        new = write(model, stories.ids(story[0]), end, draws, n_tokens=60)
        texts.append(words_of(stories.tokenizer.decode(new)))
    return {"distinct 4": distinct(texts, 4), "repetition 4": repetition(texts, 4)}
