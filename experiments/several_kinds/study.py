"""Adapters of three kinds on one frozen host, one by one; what each holds, and what all hold fused.

A linear probe asks the states of a row (`ROWS`) for each kind of knowledge. Beside them: adapters
before training, and one host that learns the three kinds one after the other (`SEQUENCE`).

Axis legend: item (a question), name (host or adapter), width.
"""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from experiments.several_kinds.kinds import (
    FACTS,
    GRAMMAR,
    KINDS,
    LEXICON,
    Item,
    Kind,
    facts_of,
    grammar_of,
    lexicon_of,
)
from kept import hosts
from kept.adapters.adapter import Adapter
from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.kadapter import KAdapter
from kept.graphs.words import Words
from kept.lab.probing.layers.linear import fit_on_heldout
from kept.lab.reading.cell import Budget, open_host
from kept.lab.study.origins import fingerprint_of, stored_with
from kept.methods import BASELINE, method
from kept.objectives.described_triples import text_batch
from kept.objectives.lexical.terms import Pair
from kept.objectives.model import KnowledgeForPreTraining
from kept.outputs import KnowledgeOutput
from kept.randomness import generator, torch_draws
from kept.training.config import TrainConfig
from kept.training.loop import train
from kg_loaders import graph_from_records

HOST, NEW, ALL = "host", "new", "all"
AT_ONCE = 32
ROWS = {
    HOST: "the host as it comes",
    f"+ {NEW}": "host + an adapter before training",
    **{f"+ {kind}": "host + this adapter" for kind in KINDS},
    f"+ three {NEW}": "host + three adapters before training",
    f"+ {ALL}": "host + all three",
    f"beside three {NEW}": "host and three adapters before training, concatenated",
    f"beside {ALL}": "host and all three, concatenated",
}
"""Rows of the probes of adapters. Before training every adapter returns the sum of the states that
it reads, but for its small random weights."""
SEQUENCE = {
    f"one host: {', '.join(KINDS[: n + 1])}": "all of its weights, one kind after the other"
    for n in range(len(KINDS))
}
RowAnswers = dict[str, dict[str, list[bool]]]
"""By row and kind: whether each answer is right."""
Named = Mapping[str, Float[Tensor, "item width"]]


class Settings(BaseModel):
    """All settings; `adapter` are fields of `AdapterOptions`, `facts` … sizes of the data."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    n_layers: PositiveInt | None
    seeds: tuple[int, ...]
    data_seed: NonNegativeInt
    adapter: dict[str, Any]
    adapter_steps: PositiveInt
    adapter_rate: PositiveFloat
    host_rate: PositiveFloat
    batch_size: PositiveInt
    warmup_steps: NonNegativeInt
    max_words: PositiveInt
    facts: dict[str, int]
    grammar: dict[str, int]
    lexicon: dict[str, int]

    def opened(self) -> PreTrainedModel:
        """The host, with at most its first `n_layers` layers."""
        return open_host(Budget(host=self.host, n_layers=self.n_layers))[0]

    def training(self, seed: int, rate: float) -> TrainConfig:
        """How one kind is learned."""
        return TrainConfig(
            seed=seed, steps=self.adapter_steps, batch_size=self.batch_size, learning_rate=rate,
            warmup_steps=self.warmup_steps, device="cpu", threads=1, gradient_norms_every=None,
            checkpoint_seconds=None, keep=1,
        )  # fmt: skip


def read_kinds(
    settings: Settings, root: Path, pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase
) -> dict[str, Kind]:
    """The data of the three kinds, the same for every seed."""
    seed, most = settings.data_seed, settings.max_words
    lexicon = {**settings.lexicon, "vectors_from": settings.host}
    return {
        FACTS: facts_of(root, tokenizer, settings.facts, most, seed),
        GRAMMAR: grammar_of(root, tokenizer, settings.grammar, most, seed),
        LEXICON: lexicon_of(pairs, tokenizer, lexicon, seed),
    }


def run_part(
    part: str, settings: Settings, kinds: Mapping[str, Kind], seed: int, out: Path,
    announce: Callable[[str], None],
) -> RowAnswers:  # fmt: skip
    """The answers of the rows of a part (`PARTS`); what is stored in `out` is not run again."""
    origin = {
        "settings": fingerprint_of(settings.model_dump(mode="json", exclude={"seeds"})),
        "data": fingerprint_of([kind.training.fingerprint for kind in kinds.values()]),
    }
    make = partial(PARTS[part], settings, kinds, seed, out, announce)
    answers: RowAnswers = stored_with(out / f"{part}-{seed}.json", origin, make)
    return answers


def of_adapters(
    settings: Settings, kinds: Mapping[str, Kind], seed: int, out: Path,
    announce: Callable[[str], None],
) -> RowAnswers:  # fmt: skip
    """The rows `ROWS`; the adapters are left in `out`/adapters/SEED."""
    fused = adapters_of(settings, kinds, seed, announce)
    for name in fused.names:
        fused.save_adapter(out / "adapters" / str(seed) / name, name)
    told: RowAnswers = {row: {} for row in ROWS}
    for kind in kinds.values():
        states = [named_states(fused, part) for part in (kind.probe, kind.asked)]
        for row in ROWS:
            features = [row_states(row, part) for part in states]
            told[row][kind.name] = ask(kind, features[0], features[1], seed)
    return told


# ---- training --------------------------------------------------------------
def adapters_of(
    settings: Settings, kinds: Mapping[str, Kind], seed: int, announce: Callable[[str], None]
) -> KAdapter:
    """One host with each kind's adapter, trained by itself, and one as all were before (`NEW`)."""
    fused = KAdapter.from_host(
        settings.opened(), graph_from_records([]), adapters={NEW: settings.adapter}, fusion="none"
    )
    for kind in kinds.values():
        with torch_draws(seed, "initial weights", kind.name):
            encoder = KAdapter.from_host(
                settings.opened(), kind.graph, adapters={kind.name: settings.adapter}
            )
            encoder.train_adapter(kind.name)
            model = KnowledgeForPreTraining.of(encoder, kind.objectives)
        before = copy.deepcopy(encoder.adapter(kind.name))
        announce(f"seed {seed}, adapter {kind.name}: {learn(model, kind, settings, seed)}")
        put(fused, kind.name, encoder.adapter(kind.name))
    fused.adapter(NEW).load_state_dict(before.state_dict())
    fused.eval()
    return fused


def put(encoder: KAdapter, name: str, adapter: Adapter) -> None:
    """A copy of `adapter` beside the others."""
    encoder.add_adapter(name, **dataclasses.asdict(adapter.options))
    encoder.adapter(name).load_state_dict(adapter.state_dict())


def learn(model: KnowledgeForPreTraining, kind: Kind, settings: Settings, seed: int) -> str:
    """Train on a kind; the first and the last loss in words."""
    is_adapter = isinstance(model.encoder, KAdapter)
    rate = settings.adapter_rate if is_adapter else settings.host_rate
    with tempfile.TemporaryDirectory(prefix="kept-kinds-") as folder:
        result = train(model, kind.training, settings.training(seed, rate), Path(folder))
    assert result.first is not None
    assert result.last is not None
    return f"loss {result.first.total_loss:.3f} to {result.last.total_loss:.3f}"


def in_sequence(
    settings: Settings, kinds: Mapping[str, Kind], seed: int, out: Path,
    announce: Callable[[str], None],
) -> RowAnswers:  # fmt: skip
    """The rows `SEQUENCE`: one plain host learns the kinds one after the other, and is asked for
    all of them after each."""
    told: RowAnswers = {}
    host, tokenizer = settings.opened(), hosts.load_tokenizer(settings.host)
    encoder = method(BASELINE).encoder.for_graph(host, graph_from_records([]), tokenizer, seed=seed)
    for row, kind in zip(SEQUENCE, kinds.values(), strict=True):
        with torch_draws(seed, "initial weights", "in sequence", kind.name):
            model = KnowledgeForPreTraining.of(encoder, kind.objectives)
        announce(f"seed {seed}, {row}: {learn(model, kind, settings, seed)}")
        encoder.eval()
        told[row] = {}
        for asked in kinds.values():
            states = [named_states(encoder, part)[HOST] for part in (asked.probe, asked.asked)]
            told[row][asked.name] = ask(asked, states[0], states[1], seed)
    return told


# ---- asking ----------------------------------------------------------------
@torch.no_grad()
def named_states(encoder: KnowledgeEncoder, items: Sequence[Item]) -> Named:
    """By name, the host's last states and those of each adapter: spans beside one another.

    Questions about one text are read at once.
    """
    texts: dict[bytes, list[int]] = {}
    for number, item in enumerate(items):
        key = item.words.ids.tobytes() + item.words.segment_ids.tobytes()
        texts.setdefault(key, []).append(number)
    shared = sorted(texts.values(), key=lambda numbers: len(items[numbers[0]].words.ids))
    found: list[dict[str, Tensor]] = [{} for _ in items]
    for start in range(0, len(shared), AT_ONCE):
        part = shared[start : start + AT_ONCE]
        states = _by_name(encoder, encoder(batch_of([items[numbers[0]].words for numbers in part])))
        for i, numbers in enumerate(part):
            for number in numbers:
                for name, state in states.items():
                    parts = [state[i, first:stop].mean(0) for first, stop in items[number].spans]
                    found[number][name] = torch.cat(parts)
    return {name: torch.stack([each[name] for each in found]) for name in found[0]}


def batch_of(texts: Sequence[Words]) -> KnowledgeBatch:
    """Texts as a batch, padded to the longest."""
    batch = text_batch([words.ids.tolist() for words in texts], pad_id=0)
    segments = torch.zeros_like(batch.node_ids)
    for i, words in enumerate(texts):
        segments[i, : len(words.ids)] = torch.from_numpy(words.segment_ids.astype("int64"))
    return batch.replace(segment_ids=segments)


def _by_name(encoder: KnowledgeEncoder, output: KnowledgeOutput) -> dict[str, Tensor]:
    if isinstance(encoder, KAdapter):
        return {HOST: output.hidden_states[-2], **output.adapter_states}
    return {HOST: output.node_states}


def row_states(row: str, named: Named) -> Float[Tensor, "item width"]:
    """The states that a row's probe reads: sums, or host and adapters beside one another."""
    if row == HOST:
        return named[HOST]
    how, which = row.split(" ", 1)
    names = {NEW: [NEW], f"three {NEW}": [NEW] * len(KINDS), ALL: list(KINDS)}.get(which, [which])
    parts = [named[HOST], *(named[name] for name in names)]
    return torch.cat(parts, 1) if how == "beside" else torch.stack(parts).sum(0)


def ask(kind: Kind, fitted: Tensor, asked: Tensor, seed: int) -> list[bool]:
    """Whether a linear probe, fitted on `kind.probe`, answers each question of `kind.asked`."""
    labels = {label: i for i, label in enumerate(sorted({item.label for item in kind.probe}))}
    classes = torch.tensor([labels[item.label] for item in kind.probe])
    order = generator(seed, "questions held out").permutation(len(classes))
    n_held = max(1, len(order) // 5)
    held, rest = torch.from_numpy(order[:n_held]), torch.from_numpy(order[n_held:])
    probe, _ = fit_on_heldout(fitted[rest], classes[rest], (fitted[held], classes[held]))
    gold = torch.tensor([labels.get(item.label, -1) for item in kind.asked])
    return [bool(right) for right in (probe.classes(asked) == gold).tolist()]


PARTS = {"adapters": of_adapters, "sequence": in_sequence}
"""What is run and stored by itself."""
