"""Sentences a second of every method beside its host alone and a plain eager formulation.

    python benchmarks/models/encoders.py [--threads 1] [--methods colake,kbert] [--repeats 5]

Host: MiniLM. Sentences: T-REx with the CoDEx-S graph where KEPT_DATA is set, else the atlas.

1. Full rows: texts of joined sentences whose graphs have 0.9 L to L nodes in the method's view,
   padded to L. "host, L words" is the host alone on as many words; "host, its words" is the host
   alone on the words of the same texts, padded to the longest (so a method pays for its nodes).
2. The length mix of real sentences in batches of 32: padded eager, padded SDPA, `kept` as it is
   (samples share rows inside `hosts.run`), and rows made beforehand by `kept.batches.pack`.
3. "step per node", for each method: a training step over the same sentences compared with one of
   the host alone over their words, which share rows as well; seconds per node over those per word.

"Eager" is the same encoder with the host's eager attention (additive float masks) and padding.
Forward runs in evaluation mode; a step is forward and backward of the encoder with dropout off, or
with the host's own dropout ("dropout"), where SDPA has no fused kernel on a CPU. Each figure is the
median of `--repeats` rounds; a round runs every variant once, so that noise hits all alike. All
variants are checked to give the same states. JSON lines: `times_as_fast` is over eager, `of_host`
what it costs beside the host. The exponents: a forward pass by length, and a step by sentences.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn
from transformers.utils.logging import disable_progress_bar

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.measuring import growth, three_sizes, write_line
from entity_linking.mentions import LinkedText, Mention
from experiments.pretraining.data import read_corpus
from kept import hosts
from kept.batches import KnowledgeBatch, pack
from kept.encoders.base import KnowledgeEncoder
from kept.errors import BatchError
from kept.graphs.builder import BuilderConfig, build_many
from kept.graphs.graph import NodeKind
from kept.inputs.views import builder_for
from kept.layers import packing
from kept.methods import METHODS
from kept.tasks.datasets.atlas import linked_texts
from kg_loaders import KnowledgeGraph, atlas

MODES = ("forward", "step", "dropout")
MIX = BuilderConfig(max_neighbours=4, max_words=96, max_nodes=192, policy="degree")
ROOMY = BuilderConfig(max_neighbours=2, max_words=250, max_nodes=500, policy="degree")
BATCH = 32

Variant = Callable[[], Tensor]


# ---- data -----------------------------------------------------------------------------------
def read_texts() -> tuple[KnowledgeGraph, list[LinkedText], str]:
    root = os.environ.get("KEPT_DATA")
    if root is None:
        return atlas.graph(), linked_texts(atlas.sentences()), "atlas"
    corpus = read_corpus(Path(root), "P1[039]*.jsonl.gz")
    texts = [text for document in corpus.documents for text in document]
    return corpus.graph, texts, "T-REx with CoDEx-S"


def joined(texts: Sequence[LinkedText]) -> LinkedText:
    """Texts side by side, as one."""
    whole, links = "", []
    for text in texts:
        links += [
            replace(k, mention=Mention(k.mention.start + len(whole), k.mention.end + len(whole)))
            for k in text.links
        ]
        whole += text.text + " "
    return LinkedText(whole.rstrip(), tuple(links))


class Samples:
    """Texts as a method sees them, and their words alone."""

    def __init__(
        self, name: str, texts: list[LinkedText], graph: KnowledgeGraph, builder: BuilderConfig
    ) -> None:
        self.tokenizer = hosts.load_tokenizer("minilm")
        config = builder_for(METHODS[name], builder, {})
        view = METHODS[name].view.of(graph, self.tokenizer)
        built = build_many(texts, self.tokenizer, graph, seed=0, config=config)
        self.batches = [view(one) for one in built]
        self.sizes = np.array([batch.node_ids.shape[1] for batch in self.batches])
        encoded = self.tokenizer(
            [text.text for text in texts], truncation=True, max_length=config.max_words
        )
        self.words: list[list[int]] = encoded["input_ids"]

    def stack(self, chosen: Sequence[int]) -> KnowledgeBatch:
        batches = [self.batches[i] for i in chosen]
        return KnowledgeBatch.stack(batches, word_pad_id=self.tokenizer.pad_token_id)

    def words_of(self, chosen: Sequence[int], length: int | None = None) -> dict[str, Tensor]:
        """Input of the bare host: the texts' words, or `length` words for each of them."""
        rows = [self.words[i] for i in chosen]
        if length is not None:
            rows = [(row * (length // len(row) + 1))[:length] for row in rows]
        return dict(self.tokenizer.pad({"input_ids": rows}, return_tensors="pt"))


# ---- variants -------------------------------------------------------------------------------
def as_it_is() -> AbstractContextManager[Any]:
    return nullcontext()


def padded() -> AbstractContextManager[Any]:
    """Inside, no samples share rows."""
    return patch.object(packing, "WORTH", 0.0)


def variant(
    model: nn.Module, batches: Sequence[Any], mode: str, where: Callable[[], Any] = as_it_is
) -> Variant:
    """One pass over `batches`; gives the states of the last one."""
    is_host = not isinstance(model, KnowledgeEncoder)

    def states(batch: Any) -> Tensor:
        output: Tensor = model(**batch)[0] if is_host else model(batch).node_states
        return output

    def run() -> Tensor:
        model.train(mode == MODES[2])
        with where():
            for batch in batches:
                if mode == "forward":
                    with torch.no_grad():
                        last = states(batch)
                else:
                    model.zero_grad(set_to_none=True)
                    last = states(batch)
                    last.square().mean().backward()
        return last.detach()

    return run


def medians(variants: dict[str, Variant], repeats: int) -> dict[str, float]:
    """Seconds of each variant (of processor time, with one thread); one round warms up."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in variants}
    for round_ in range(repeats + 1):
        for name, run in variants.items():
            start = clock()
            run()
            if round_:
                times[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def same_states(one: Tensor, other: Tensor, mask: Tensor) -> None:
    torch.testing.assert_close(one[mask], other[mask], atol=1e-4, rtol=1e-4)


def new_encoder(name: str, graph: KnowledgeGraph) -> KnowledgeEncoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return METHODS[name].new_encoder("minilm", graph, hosts.load_tokenizer("minilm"), seed=0)


def encoders(name: str, graph: KnowledgeGraph) -> tuple[KnowledgeEncoder, KnowledgeEncoder]:
    """A new encoder on MiniLM, and its eager twin."""
    encoder = new_encoder(name, graph)
    twin = copy.deepcopy(encoder)
    twin.set_attn_implementation("eager")
    assert twin.host.config._attn_implementation == "eager"
    assert encoder.host.config._attn_implementation == "sdpa"
    return encoder, twin


# ---- tables ---------------------------------------------------------------------------------
def full_rows(
    name: str,
    texts: list[LinkedText],
    graph: KnowledgeGraph,
    pair: tuple[KnowledgeEncoder, KnowledgeEncoder],
    options: argparse.Namespace,
) -> None:
    draws = np.random.default_rng(0)
    pieces = [draws.integers(1, 9) for _ in range(400)]
    long = [joined([texts[i] for i in draws.integers(len(texts), size=n)]) for n in pieces]
    samples = Samples(name, long, graph, ROOMY)
    host, of_length = hosts.load_host("minilm"), dict[int, tuple[float, float]]()
    for length in options.lengths:
        rows = np.flatnonzero((samples.sizes <= length) & (samples.sizes >= 0.9 * length))
        chosen = rows[: max(options.nodes // length, 1)].tolist()
        if not chosen:
            write_line(
                row="full rows", method=name, nodes=length, skipped="no text has so many nodes"
            )
            continue
        batch = samples.stack(chosen).pad_to(length)
        words, full = samples.words_of(chosen), samples.words_of(chosen, length)
        ours, eager = pair
        same_states(variant(ours, [batch], MODES[0])(), variant(eager, [batch], MODES[0])(),
                    batch.node_mask)  # fmt: skip
        share = words["attention_mask"].sum().item() / batch.node_mask.sum().item()
        for mode in options.modes:
            seconds = medians(
                {
                    "ours": variant(ours, [batch], mode),
                    "eager": variant(eager, [batch], mode, padded),
                    "host": variant(host, [full], mode),
                    "words": variant(host, [words], mode),
                },
                options.repeats,
            )
            write_line(
                row="full rows", method=name, mode=mode, nodes=length, texts=len(chosen),
                words_by_nodes=round(share, 2),
                **relative_to_host(seconds, len(chosen)),
                of_host_on_as_many=round(seconds["ours"] / seconds["host"], 2), equal=True,
            )  # fmt: skip
            if mode == MODES[0]:
                of_length[length] = seconds["ours"] / len(chosen), seconds["host"] / len(chosen)
    if of_length:
        growth("full rows, forward, beside the host", "nodes", list(of_length),
               *zip(*of_length.values(), strict=True), method=name)  # fmt: skip


def relative_to_host(seconds: dict[str, float], n_sentences: int) -> dict[str, float]:
    """Seconds of ours and of padded eager, and what ours costs beside the host on its words."""
    return {
        "sentences_a_second": round(n_sentences / seconds["ours"], 1),
        "kept_s": round(seconds["ours"], 3), "peer_s": round(seconds["eager"], 3),
        "times_as_fast": round(seconds["eager"] / seconds["ours"], 2),
        "of_host": round(seconds["ours"] / seconds["words"], 2),
    }  # fmt: skip


def length_mix(
    name: str,
    texts: list[LinkedText],
    graph: KnowledgeGraph,
    pair: tuple[KnowledgeEncoder, KnowledgeEncoder],
    options: argparse.Namespace,
) -> None:
    draws = np.random.default_rng(1)
    chosen = [texts[i] for i in draws.integers(len(texts), size=options.sentences)]
    samples = Samples(name, chosen, graph, MIX)
    groups = [list(range(i, min(i + BATCH, len(chosen)))) for i in range(0, len(chosen), BATCH)]
    batches = [samples.stack(group) for group in groups]
    words = [samples.words_of(group) for group in groups]
    ours, eager = pair
    host = hosts.load_host("minilm")
    reference = variant(eager, batches, MODES[0], padded)()
    for where in (as_it_is, padded):
        same_states(variant(ours, batches, MODES[0], where)(), reference, batches[-1].node_mask)
    packed = packed_rows(samples, groups, ours, reference)
    real = sum(int(batch.node_mask.sum()) for batch in batches)
    places = sum(batch.node_mask.numel() for batch in batches)
    for mode in options.modes:
        variants = {
            "eager": variant(eager, batches, mode, padded),
            "sdpa": variant(ours, batches, mode, padded),
            "ours": variant(ours, batches, mode),
            "words": variant(host, words, mode),
        }
        if packed is not None:
            variants["packed"] = variant(ours, packed, mode)
        seconds = medians(variants, options.repeats)
        more = {
            f"{k}_times_as_fast": round(seconds["eager"] / seconds[k], 2)
            for k in ("sdpa", "packed")
            if k in seconds
        }
        write_line(
            row="length mix", method=name, mode=mode, sentences=len(chosen),
            nodes_a_sentence=round(real / len(chosen), 1), real_of_padded=round(real / places, 2),
            **relative_to_host(seconds, len(chosen)), **more, equal=True,
        )  # fmt: skip
    counts, steps = three_sizes(len(chosen)), {}
    for n in counts:
        parts = [[i for i in group if i < n] for group in groups]
        steps[str(n)] = variant(ours, [samples.stack(part) for part in parts if part], "step")
    spent = medians(steps, options.repeats)
    growth("length mix, step", "sentences", counts, list(spent.values()), method=name)


def step_per_node(
    name: str, texts: list[LinkedText], graph: KnowledgeGraph, options: argparse.Namespace
) -> None:
    """A step of a method, and of the host alone without padding, per node."""
    draws = np.random.default_rng(1)
    chosen = [texts[i] for i in draws.integers(len(texts), size=options.node_sentences)]
    steps, nodes = {}, {}
    for kind in dict.fromkeys(("none", name)):
        samples = Samples(kind, chosen, graph, MIX)
        batch = samples.stack(range(len(chosen)))
        steps[kind] = variant(new_encoder(kind, graph), [batch], MODES[1])
        nodes[kind] = int(batch.node_mask.sum())
    seconds = medians(steps, options.repeats)
    per_node = {kind: spent / nodes[kind] for kind, spent in seconds.items()}
    write_line(
        row="step per node", method=name, sentences=len(chosen), nodes=nodes[name],
        words=nodes["none"], kept_s=round(seconds[name], 3), host_s=round(seconds["none"], 3),
        of_packed_host=round(per_node[name] / per_node["none"], 2),
    )  # fmt: skip


def packed_rows(
    samples: Samples, groups: list[list[int]], ours: KnowledgeEncoder, reference: Tensor
) -> list[KnowledgeBatch] | None:
    """The same batches as rows of `kept.batches.pack`; None where the method cannot take them."""
    try:
        encoders = [
            pack([samples.batches[i] for i in group], int(samples.sizes[group].max()))
            for group in groups
        ]
        states = variant(ours, [encoders[-1].batch], MODES[0])()
    except BatchError:
        return None
    if samples.batches[0].node_kinds.unique().tolist() == [int(NodeKind.WORD)]:
        return [one.batch for one in encoders]  # such methods may read a row's other fields
    for alone, padded_states in zip(encoders[-1].unpack(states), reference, strict=True):
        torch.testing.assert_close(alone, padded_states[: len(alone)], atol=1e-4, rtol=1e-4)
    return [one.batch for one in encoders]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--per-node", default=",".join(METHODS), help="methods of the third part")
    parser.add_argument("--node-sentences", type=int, default=16, help="of the third part")
    parser.add_argument("--modes", default=",".join(MODES[:2]), help="of forward, step, dropout")
    parser.add_argument("--lengths", default="64,128,256", help="of full rows; may be empty")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=1024, help="nodes of a batch of full rows")
    parser.add_argument("--sentences", type=int, default=64, help="of the length mix")
    options = parser.parse_args()
    options.modes = options.modes.split(",")
    options.lengths = [int(length) for length in options.lengths.split(",") if length]
    torch.set_num_threads(options.threads)
    disable_progress_bar()
    graph, texts, source = read_texts()
    print(f"{source}: {len(texts)} sentences, {graph}; {options.threads} thread(s)\n")
    for name in filter(None, options.per_node.split(",")):
        step_per_node(name, texts, graph, options)
    for name in filter(None, options.methods.split(",")):
        pair = encoders(name, graph)
        if options.lengths:
            full_rows(name, texts, graph, pair, options)
        length_mix(name, texts, graph, pair, options)


if __name__ == "__main__":
    main()
