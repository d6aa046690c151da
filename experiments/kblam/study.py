"""The study: align, train, then measure attention, answers and refusals against graph size.

Every cell is a file of its own in the run's folder, one a seed of training; what is there is not
done again.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from safetensors.torch import load_file, save
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from entity_linking.parts import SentenceEncoder
from kept.decoders import logits
from kept.decoders.kblam.alignment import (
    AlignmentPlan,
    ReadStates,
    align,
    read_states,
    say_values,
)
from kept.decoders.kblam.config import KBLaMConfig
from kept.decoders.kblam.files import load_kblam, save_kblam
from kept.decoders.kblam.knowledge_base import Answer, KnowledgeBase, answers, padded, unit_vectors
from kept.decoders.kblam.learner import Learner, TrainingPlan
from kept.decoders.kblam.measures import attention_sums
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.rectangular import FactTokens
from kept.decoders.kblam.texts import ReadTexts, drawn_texts, read_texts
from kept.decoders.kblam.values import HostWords
from kept.decoders.kblam.wording import (
    IN_CONTEXT_OR_REFUSE,
    UNKNOWN,
    Dialogue,
    Fact,
    prompt_in_context,
)
from kept.lab.questions.worlds import PrivateWorld, private_world
from kept.randomness import generator, torch_draws
from kept.training.config import RunConfig
from kept.training.log import StepRecord
from kg_loaders.disk.writing import write_bytes, write_json

Cell = dict[str, Any]
ALIGNED, TRAINED, LOG = "aligned", "trained", "training.json"
N_NEW = 16
"""Pieces that may be written: the longest answer has 13."""


class KBLaMStudy(RunConfig):
    """`sizes` are numbers of facts; `n_words` numbers of facts in the baseline's prompt.

    Of each size at most `n_questions` facts are asked for, and as many that are not there. `first`,
    `every` and `last` say which layers read; each node reads the `top_k` facts that it scores
    highest.
    """

    host: str
    vectors_from: str
    world_seed: NonNegativeInt
    seeds: list[NonNegativeInt]
    n_train: PositiveInt
    n_test: PositiveInt
    n_texts: PositiveInt
    first: NonNegativeInt
    every: PositiveInt
    last: PositiveInt
    scale: PositiveFloat
    top_k: PositiveInt
    alignment: AlignmentPlan
    training: TrainingPlan
    sizes: list[PositiveInt]
    n_questions: PositiveInt
    n_words: list[NonNegativeInt]
    words_of: PositiveInt


@dataclass(frozen=True, eq=False)
class Decoder:
    """A host and its tokenizer."""

    host: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


@dataclass(frozen=True, eq=False)
class Bench:
    """The study's host and world, the run's folder, and a seed of training."""

    study: KBLaMStudy
    decoder: Decoder
    encoder: SentenceEncoder
    folder: Path
    seed: int
    announce: Callable[[str], None] = field(default=lambda text: None)

    @cached_property
    def world(self) -> PrivateWorld:
        study = self.study
        return private_world(study.world_seed, n_train=study.n_train, n_test=study.n_test)

    @cached_property
    def test(self) -> KnowledgeBase:
        """Facts of bearers that training never saw, mixed; the last ones are in no graph."""
        base = KnowledgeBase.of_graph(self.world.test, self.encoder, self.words)
        order = generator(self.study.world_seed, "kblam test facts").permutation(len(base.facts))
        names = list(dict.fromkeys(fact.name for fact in base.facts))
        away = set(names[-self.study.n_questions :])
        there = [i for i in order.tolist() if base.facts[i].name not in away]
        return base[there + [i for i in order.tolist() if base.facts[i].name in away]]

    @cached_property
    def words(self) -> HostWords:
        """What makes the vectors of values."""
        return HostWords(self.decoder.host, self.decoder.tokenizer)

    def graph(self, size: int) -> KnowledgeBase:
        """The first `size` facts; raises `ValueError` where there are not so many."""
        n_there = len(self.test.facts) - 4 * self.study.n_questions
        if size > n_there:
            raise ValueError(f"a graph of {size} facts, but only {n_there}; raise n_test")
        return self.test[range(size)]

    @property
    def missing(self) -> list[Fact]:
        """Facts to ask for that are in no graph."""
        return list(self.test.facts[-self.study.n_questions :])

    @property
    def place(self) -> Path:
        """The folder of this seed."""
        return self.folder / f"seed-{self.seed}"

    # ---- training --------------------------------------------------------------------------------
    @cached_property
    def model(self) -> KBLaM:
        """Aligned and trained, from the run's folder as far as it is there."""
        if (self.place / TRAINED).exists():
            return load_kblam(self.place / TRAINED, self.decoder.host)
        base = KnowledgeBase.of_graph(self.world.train, self.encoder, self.words)
        seed = self.study.world_seed
        texts = drawn_texts(base, self.decoder.tokenizer, self.study.n_texts, seed)
        self.place.mkdir(parents=True, exist_ok=True)
        model = self._new()
        stored = ReadTexts(**self._stored("texts", lambda: vars(read_texts(model, texts))))
        if (self.place / ALIGNED).exists():
            model = load_kblam(self.place / ALIGNED, self.decoder.host)
        else:
            made = self._stored("read", lambda: vars(read_states(model, texts, stored, seed)))
            read, plan = ReadStates(**made), self.study.alignment
            aligned = self.place / "alignment"
            align(model, texts, read, base, plan, self.seed, aligned, reporter=self)
            unknown = unit_vectors([UNKNOWN.split(",")[0]], self.words)[0]
            say_values(model, read, plan, unknown)
            save_kblam(self.place / ALIGNED, model)
        learner = Learner(model, texts, stored, base, self.study.training, self.seed)
        ended = learner.run(self.place / "training", reporter=self)
        log = {"steps": ended.step, "cpu_seconds": round(ended.cpu_seconds)}
        write_json(self.place / LOG, log, force=True)
        save_kblam(self.place / TRAINED, model)
        return model

    def step(self, record: StepRecord) -> None:
        """Announce a step of training now and then."""
        if record.step % self.study.training.save_every == 0:
            told = f"loss {record.total_loss:.3f}, {record.seconds:.0f} s"
            self.announce(f"step {record.step} of {record.n_steps}: {told}")

    def notice(self, message: str) -> None:
        """Announce it."""
        self.announce(message)

    def _stored(self, name: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """Tensors of that name, the same for all seeds, made if they are not there."""
        path = self.folder / f"{name}.safetensors"
        if not path.exists():
            start = time.process_time()
            write_bytes(path, save(make()), force=True)
            self.announce(f"{name} states: {time.process_time() - start:.0f} s")
        return load_file(path)

    def _new(self) -> KBLaM:
        study = self.study
        config = KBLaMConfig(
            vector_width=self.encoder.width, value_width=self.words.width, first=study.first,
            last=study.last, every=study.every, scale=study.scale, top_k=study.top_k,
            top_k_by_node=True, prompt_reads=False,
        )  # fmt: skip
        with torch_draws(self.seed, "initial weights"):
            return KBLaM(self.decoder.host, config)

    # ---- cells -----------------------------------------------------------------------------------
    def cell(self, name: str, make: Callable[[KBLaM], Cell]) -> Cell:
        """The cell of that name, made if it is not there."""
        path = self.place / "cells" / f"{name}.json"
        if not path.exists():
            made = make(self.model)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, made)
            told = {k: np.mean(v) for k, v in made.items() if isinstance(v, list) and k != "shown"}
            self.announce(f"seed {self.seed}, {name}: {told} {made['shown']}")
        found: Cell = json.loads(path.read_text("utf-8"))
        return found

    def asked(self, base: KnowledgeBase) -> list[Fact]:
        """The first facts of a graph, which are those of the larger ones too."""
        return list(base.facts[: self.study.n_questions])

    def of_size(self, size: int, model: KBLaM) -> Cell:
        """Attention, answers and refusals with a graph of `size` facts."""
        base = self.graph(size)
        start = time.process_time()
        tokens = base.tokens(model)
        encoding = time.process_time() - start
        cell = self.answered(model, self.asked(base), tokens)
        cell |= self.attention(model, self.asked(base), tokens)
        prompt = np.mean([len(ids) for ids in self._ids(f.question() for f in self.asked(base))])
        return cell | {
            "n_facts": size,
            "tokens": float(prompt) + min(size, model.config.top_k or size),
            "encoding_ms_a_fact": 1000 * encoding / size,
            "mib_of_facts": 2 * tokens.keys.numel() * tokens.keys.element_size() / 2**20,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }

    @torch.no_grad()
    def attention(self, model: KBLaM, asked: list[Fact], tokens: FactTokens) -> Cell:
        """Which questions have their fact first, and in the first five, by reading layer.

        Over the two nodes of the answer that know whom and what is asked. `share`: of the attention
        that facts get where the name ends. `begun`: the answer's beginning is given, and the
        value's first piece is the most probable of all.
        """
        cell: Cell = {}
        for start in range(0, len(asked), 8):
            some = asked[start : start + 8]
            made = [Dialogue.about(fact, 1) for fact in some]
            ids, mask = padded(self._ids([each.begun for each in made]), 0)
            n_before = torch.tensor([len(x) - 1 for x in self._ids([each.prompt for each in made])])
            reading = mask & (torch.arange(ids.shape[1]) >= n_before[:, None])
            read = model.read(ids, mask, tokens, reading=reading)
            rows, last = torch.arange(len(ids)), mask.sum(dim=1) - 1
            counted = mask & (torch.arange(ids.shape[1]) >= last[:, None] - 1)
            right = torch.arange(start, start + len(some))
            written = logits(model.host, read.hidden_states[-1][rows, last])
            pieces = [each[0] for each in self._ids([f" {fact.value}" for fact in some])]
            found = (written.argmax(-1) == torch.tensor(pieces)).tolist()
            cell.setdefault("begun", []).extend(found)
            for layer, weights in read.fact_weights.items():
                order = attention_sums(weights, counted).sort(dim=1, descending=True).indices
                for name, n in (("first", 1), ("in five", 5)):
                    found = (order == right[:, None])[:, :n].any(dim=1).tolist()
                    cell.setdefault(f"{name} {layer}", []).extend(found)
                ends = weights[rows, :, last - 1].sum(dim=1)
                shares = ends[rows, right] / ends.sum(dim=1)
                cell.setdefault(f"share {layer}", []).extend(shares.tolist())
        return cell

    def _ids(self, texts: Iterable[str]) -> list[list[int]]:
        found: list[list[int]] = self.decoder.tokenizer(list(texts))["input_ids"]
        return found

    def answered(self, model: KBLaM, asked: list[Fact], tokens: FactTokens | None) -> Cell:
        """Exact answers to `asked`, refusals there and of facts that are missing, times."""
        start = time.process_time()
        found = self._write(model, [fact.question() for fact in asked], tokens)
        spent = time.process_time() - start
        gone = self._write(model, [fact.question() for fact in self.missing], tokens)
        return scores(asked, found, gone) | {"ms_a_question": 1000 * spent / len(asked)}

    def _write(self, model: KBLaM, questions: list[str], tokens: FactTokens | None) -> list[Answer]:
        return answers(
            model, self.decoder.tokenizer, questions, tokens, n_new=N_NEW, batch_size=8
        )  # fmt: skip

    def edited(self, size: int, model: KBLaM) -> Cell:
        """Values become others of their relation; who follows, who says the old one."""
        base, draws = self.graph(size), generator(self.study.world_seed, "kblam edits")
        facts, rows = [], []
        for row, fact in enumerate(base.facts):
            others = [
                i for i, f in enumerate(base.facts)
                if f.relation == fact.relation and f.value != fact.value
            ]  # fmt: skip
            rows.append(others[int(draws.integers(len(others)))] if others else row)
            facts.append(Fact(fact.name, fact.relation, base.facts[rows[-1]].value))
        changed = KnowledgeBase(tuple(facts), base.key_vectors, base.value_vectors[rows])
        asked = [(new, old) for new, old in zip(facts, base.facts, strict=True) if new != old]
        asked = asked[: self.study.n_questions]
        found = self._write(model, [new.question() for new, _ in asked], changed.tokens(model))
        pairs = list(zip(found, asked, strict=True))
        return {
            "exact": [answer.value == new.value for answer, (new, _) in pairs],
            "old": [answer.value == old.value for answer, (_, old) in pairs],
            "shown": [answer.written for answer in found[:2]],
        }

    def shuffled(self, size: int, model: KBLaM) -> Cell:
        """Values go to keys of other facts; right is what the true graph says."""
        base, draws = self.graph(size), generator(self.study.world_seed, "kblam shuffle")
        rows = draws.permutation(size).tolist()
        mixed = KnowledgeBase(base.facts, base.key_vectors, base.value_vectors[rows])
        return self.answered(model, self.asked(base), mixed.tokens(model))

    def in_words(self, n_words: int, model: KBLaM) -> Cell:
        """The host alone with the `n_words` most alike facts in its prompt."""
        base = self.graph(self.study.words_of)
        asked = self.asked(base)
        start = time.process_time()
        prompts = [self._prompt(fact, base, n_words) for fact in [*asked, *self.missing]]
        lengths = [len(ids) for ids in self._ids(prompts)]
        found = self._write(model, prompts, None)
        spent = (time.process_time() - start) / len(prompts)
        return {
            "n_facts": self.study.words_of,
            "retrieved": [
                fact.statement in prompt for fact, prompt in zip(asked, prompts, strict=False)
            ],
            "tokens": float(np.mean(lengths)),
            **scores(asked, found[: len(asked)], found[len(asked) :]),
            "ms_a_question": 1000 * spent,
        }

    def _prompt(self, fact: Fact, base: KnowledgeBase, n_words: int) -> str:
        if n_words == 0:
            return fact.question()
        alike = base.key_vectors @ unit_vectors([fact.question()], self.encoder)[0]
        best = alike.sort(descending=True, stable=True).indices[:n_words].tolist()
        return prompt_in_context(base[best].facts, fact.question(), IN_CONTEXT_OR_REFUSE)

    def cells(self) -> Iterator[tuple[str, Callable[[KBLaM], Cell]]]:
        """Names of cells and what makes them of the trained model."""
        study = self.study
        for size in study.sizes:
            yield f"kblam-{size}", lambda model, n=size: self.of_size(n, model)
        middle = study.sizes[min(1, len(study.sizes) - 1)]
        yield "edited", lambda model: self.edited(middle, model)
        yield "shuffled", lambda model: self.shuffled(middle, model)
        yield "off", lambda model: self.answered(model, self.asked(self.test), None)
        yield "aligned", lambda model: self.of_size(middle, self._aligned())
        for n in study.n_words:
            yield f"words-{n}", lambda model, n=n: self.in_words(n, model)

    def _aligned(self) -> KBLaM:
        return load_kblam(self.place / ALIGNED, self.decoder.host)


def scores(asked: list[Fact], there: list[Answer], gone: list[Answer]) -> Cell:
    """Right answers, values named anywhere, refusals of what is there and of what is missing."""
    pairs = list(zip(there, asked, strict=True))
    return {
        "exact": [answer.value == fact.value for answer, fact in pairs],
        "named": [fact.value in answer.written for answer, fact in pairs],
        "refused": [answer.is_refusal for answer in there],
        "refused missing": [answer.is_refusal for answer in gone],
        "shown": [answer.written for answer in [*there[:2], *gone[:1]]],
    }


def run(benches: list[Bench]) -> dict[str, list[Cell]]:
    """Every cell of the study by name, one a seed; those without training of the first alone."""
    found: dict[str, list[Cell]] = {}
    for number, bench in enumerate(benches):
        for name, make in bench.cells():
            if number and (name.startswith("words-") or name == "off"):
                continue
            found.setdefault(name, []).append(bench.cell(name, make))
    return found
