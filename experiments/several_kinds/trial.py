"""`python -m experiments several_kinds CONFIG -o RUN`: three kinds of knowledge in one host.

Adapters of three kinds on one frozen host, one by one; what each holds, and what all hold fused. A
linear probe asks the states of a row (`ROWS`) for each kind of knowledge. With them: adapters
before training, and one host that learns the three kinds one after the other (`SEQUENCE`). Needs
KEPT_DATA and WordNet 3.0. What is stored in RUN is not run again.

Axis legend: item (a question), name (host or adapter), width.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from experiments.command import CELL_OPTIONS, Results, announce, data_root, run_cells, run_study
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
    wordnet_pairs,
)
from experiments.several_kinds.tables import ALL, HOST, NEW, ROWS, SEQUENCE, RowAnswers, page
from kept import hosts
from kept.adapters.adapter import Adapter
from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.kadapter import KAdapter
from kept.graphs.words import Words
from kept.lab.probing.layers.linear import fit_on_heldout
from kept.lab.reading.cell import Budget, open_host
from kept.lab.study.cells import Cells, CellTrial, digits
from kept.lab.study.origins import Origin, fingerprint_of
from kept.methods import BASELINE, method
from kept.objectives.described_triples import text_batch
from kept.objectives.lexical.terms import Pair
from kept.objectives.model import KnowledgeForPreTraining
from kept.outputs import KnowledgeOutput
from kept.randomness import generator, torch_draws
from kept.training.config import RunConfig, TrainConfig
from kept.training.loop import train
from kg_loaders import graph_from_records
from kg_loaders.disk.writing import write_json

AT_ONCE = 32
Named = Mapping[str, Float[Tensor, "item width"]]


class Settings(RunConfig):
    """The settings; `adapter` are fields of `AdapterOptions`, `facts` … sizes of the data."""

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


@dataclass(frozen=True)
class KindsTrial(CellTrial):
    """The parts of the study, each run and stored by itself: the adapters, and the sequence."""

    settings: Settings
    kinds: Mapping[str, Kind]
    folder: Path
    rows = ("adapters", "sequence")

    def seeds(self, row: str) -> Sequence[int]:
        """See `CellTrial.seeds`."""
        return self.settings.seeds

    def path(self, row: str, seed: int) -> Path:
        """See `CellTrial.path`."""
        return self.folder / f"{row}-{seed}.json"

    def origin(self, row: str, seed: int) -> Origin:
        """See `CellTrial.origin`."""
        settings = self.settings.model_dump(mode="json", exclude={"seeds"})
        data = [kind.training.fingerprint for kind in self.kinds.values()]
        return {"settings": fingerprint_of(settings), "data": fingerprint_of(data)}

    def answers(self, cells: Cells) -> list[RowAnswers]:
        """Return by seed the answers of all parts that are there."""
        parts = [
            [of_row[seed] for of_row in cells.values() if seed in of_row]
            for seed in self.settings.seeds
        ]
        return [{row: of_row for part in of for row, of_row in part.items()} for of in parts if of]

    def run(self, row: str, seed: int) -> RowAnswers:
        """Return the answers of the rows of a part."""
        return (self._adapters if row == "adapters" else self._sequence)(seed)

    def _adapters(self, seed: int) -> RowAnswers:
        """Return the rows `ROWS`; the adapters are left in `folder`/adapters/SEED."""
        fused = adapters_of(self.settings, self.kinds, seed)
        for name in fused.names:
            fused.save_adapter(self.folder / "adapters" / str(seed) / name, name)
        answers: RowAnswers = {row: {} for row in ROWS}
        for kind in self.kinds.values():
            states = [named_states(fused, part) for part in (kind.probe, kind.questions)]
            for row in ROWS:
                features = [row_states(row, part) for part in states]
                answers[row][kind.name] = probe_answers(kind, features[0], features[1], seed)
        return answers

    def _sequence(self, seed: int) -> RowAnswers:
        """Return the rows `SEQUENCE`: one plain host learns the kinds one after the other.

        It is asked for all of them after each.
        """
        settings, answers = self.settings, RowAnswers()
        host, tokenizer = settings.opened(), hosts.load_tokenizer(settings.host)
        encoder = method(BASELINE).encoder.for_graph(
            host, graph_from_records([]), tokenizer, seed=seed
        )
        for row, kind in zip(SEQUENCE, self.kinds.values(), strict=True):
            with torch_draws(seed, "initial weights", "in sequence", kind.name):
                model = KnowledgeForPreTraining.of(encoder, kind.objectives)
            announce(f"seed {seed}, {row}: {learn(model, kind, settings, seed)}")
            encoder.eval()
            answers[row] = {}
            for probed in self.kinds.values():
                states = [
                    named_states(encoder, part)[HOST] for part in (probed.probe, probed.questions)
                ]
                answers[row][probed.name] = probe_answers(probed, states[0], states[1], seed)
        return answers


# ---- training --------------------------------------------------------------
def adapters_of(settings: Settings, kinds: Mapping[str, Kind], seed: int) -> KAdapter:
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
    named: list[dict[str, Tensor]] = [{} for _ in items]
    for start in range(0, len(shared), AT_ONCE):
        part = shared[start : start + AT_ONCE]
        states = _by_name(encoder, encoder(batch_of([items[numbers[0]].words for numbers in part])))
        for i, numbers in enumerate(part):
            for number in numbers:
                for name, state in states.items():
                    parts = [state[i, first:stop].mean(0) for first, stop in items[number].spans]
                    named[number][name] = torch.cat(parts)
    return {name: torch.stack([each[name] for each in named]) for name in named[0]}


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


def probe_answers(kind: Kind, fitted: Tensor, states: Tensor, seed: int) -> list[bool]:
    """Whether a linear probe, fitted on `kind.probe`, answers each question of `kind.asked`."""
    labels = {label: i for i, label in enumerate(sorted({item.label for item in kind.probe}))}
    classes = torch.tensor([labels[item.label] for item in kind.probe])
    order = generator(seed, "questions held out").permutation(len(classes))
    n_held = max(1, len(order) // 5)
    held, rest = torch.from_numpy(order[:n_held]), torch.from_numpy(order[n_held:])
    probe, _ = fit_on_heldout(fitted[rest], classes[rest], (fitted[held], classes[held]))
    gold = torch.tensor([labels.get(item.label, -1) for item in kind.questions])
    return [bool(right) for right in (probe.classes(states) == gold).tolist()]


# ---- the command ---------------------------------------------------------------------------------
def run(settings: Settings, arguments: argparse.Namespace) -> Results | None:
    """Run what is missing; return the page and which answers are right."""
    path = arguments.out / "pairs.json"
    if not path.exists():  # reading WordNet takes as long as a part
        write_json(path, wordnet_pairs(arguments.wordnet))
    pairs = [(one, other) for one, other in json.loads(path.read_text(encoding="utf-8"))]
    kinds = read_kinds(settings, data_root(), pairs, hosts.load_tokenizer(settings.host))
    trial = KindsTrial(settings, kinds, arguments.out)
    if (cells := run_cells(trial, arguments)) is None:
        return None
    of_seeds = trial.answers(cells)
    groups = {kind.name: [item.group for item in kind.questions] for kind in kinds.values()}
    data = [repr(kind) for kind in kinds.values()]
    right = [
        {
            row: {kind: digits(each) for kind, each in of_row.items()}
            for row, of_row in answers.items()
        }
        for answers in of_seeds
    ]
    return page(settings, of_seeds, groups, data, arguments.command), {
        "right": right,
        "groups": groups,
    }


def main() -> None:
    """Run the study."""
    options = {name: fields for name, fields in CELL_OPTIONS.items() if name != "--row"} | {
        "--part": {"dest": "row", "choices": KindsTrial.rows, "help": "only it, and no table"},
        "--wordnet": {"type": Path, "default": Path("/usr/share/wordnet")},
    }
    run_study(__doc__, Settings, run, options)


if __name__ == "__main__":
    main()
