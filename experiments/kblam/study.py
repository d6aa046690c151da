"""The study: align, train, then measure attention, answers and refusals against graph size.

Every cell is a file of its own in the run's folder; what is there is not done again.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from entity_linking.parts import SentenceEncoder
from experiments.kblam.alignment import AlignmentPlan, align, read_states
from experiments.kblam.training import Learner, TrainingPlan
from experiments.kblam.world import PrivateWorld, private_world
from kept.decoders.kblam import KBLaM, KBLaMConfig
from kept.decoders.kblam_files import load_kblam, save_kblam
from kept.decoders.kblam_measures import by_layer
from kept.decoders.kblam_text import IN_CONTEXT_OR_REFUSE, Fact, prompt_in_context
from kept.decoders.knowledge_base import Answer, KnowledgeBase, Prompts, answers, unit_vectors
from kept.decoders.rectangular import FactTokens
from kept.randomness import generator, torch_draws
from kept.training.config import RunConfig
from kg_loaders.disk.writing import write_json

Cell = dict[str, Any]
ALIGNED, TRAINED = "aligned", "trained"


class KBLaMStudy(RunConfig):
    """`sizes` are numbers of facts; `n_words` numbers of facts in the baseline's prompt.

    Of each size at most `n_questions` facts are asked for, and as many that are not there.
    """

    host: str
    vectors_from: str
    seed: NonNegativeInt
    n_train: PositiveInt
    n_test: PositiveInt
    every: PositiveInt
    scale: PositiveFloat
    alignment: AlignmentPlan
    training: TrainingPlan
    sizes: list[PositiveInt]
    n_questions: PositiveInt
    n_words: list[NonNegativeInt]
    words_of: PositiveInt


@dataclass(frozen=True, eq=False)
class Bench:
    """The study's models, its world, and its folder."""

    study: KBLaMStudy
    host: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    encoder: SentenceEncoder
    folder: Path
    announce: Callable[[str], None] = field(default=lambda text: None)

    @cached_property
    def world(self) -> PrivateWorld:
        return private_world(self.study.seed, n_train=self.study.n_train, n_test=self.study.n_test)

    @cached_property
    def test(self) -> KnowledgeBase:
        """Facts of bearers that training never saw, mixed; the last ones are in no graph."""
        base = KnowledgeBase.of_graph(self.world.test, self.encoder)
        order = generator(self.study.seed, "kblam test facts").permutation(len(base.facts))
        names = list(dict.fromkeys(fact.name for fact in base.facts))
        away = set(names[-self.study.n_questions :])
        there = [i for i in order.tolist() if base.facts[i].name not in away]
        return base[there + [i for i in order.tolist() if base.facts[i].name in away]]

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

    # ---- training --------------------------------------------------------------------------------
    @cached_property
    def model(self) -> KBLaM:
        """Aligned and trained, from the run's folder as far as it is there."""
        if (self.folder / TRAINED).exists():
            return load_kblam(self.folder / TRAINED, self.host)
        study, base = self.study, KnowledgeBase.of_graph(self.world.train, self.encoder)
        if (self.folder / ALIGNED).exists():
            model = load_kblam(self.folder / ALIGNED, self.host)
        else:
            config = KBLaMConfig(
                vector_width=self.encoder.width, every=study.every, scale=study.scale
            )
            with torch_draws(study.seed, "initial weights"):
                model = KBLaM(self.host, config)
            read = read_states(model, self.tokenizer, base, study.alignment, study.seed)
            align(model, read, base, study.alignment, study.seed, self.announce)
            save_kblam(self.folder / ALIGNED, model)
        learner = Learner(model, self.tokenizer, base, study.training, study.seed)
        learner.run(self.folder, self.announce)
        save_kblam(self.folder / TRAINED, model)
        return model

    # ---- cells -----------------------------------------------------------------------------------
    def cell(self, name: str, make: Callable[[], Cell]) -> Cell:
        """The cell of that name, made if it is not there."""
        path = self.folder / "cells" / f"{name}.json"
        if not path.exists():
            made = make()
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, made)
            self.announce(f"{name}: {made}")
        found: Cell = json.loads(path.read_text("utf-8"))
        return found

    def of_size(self, size: int, model: KBLaM | None = None) -> Cell:
        """Attention, answers and refusals with a graph of `size` facts."""
        base, model = self.graph(size), model or self.model
        start = time.process_time()
        tokens = base.tokens(model)
        encoding = time.process_time() - start
        asked = list(base.facts[: self.study.n_questions])
        cell = self.answered(model, asked, tokens)
        return {
            "n_facts": size,
            "layers": self.attention(model, asked, tokens),
            **cell,
            "encoding_ms_a_fact": 1000 * encoding / size,
            "mib_of_facts": 2 * tokens.keys.numel() * tokens.keys.element_size() / 2**20,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }

    @torch.no_grad()
    def attention(
        self, model: KBLaM, asked: list[Fact], tokens: FactTokens
    ) -> dict[str, list[float]]:
        """Shares of questions whose fact is first and in the first five, by reading layer."""
        hits: dict[int, list[tuple[float, float]]] = {}
        for start in range(0, len(asked), 16):
            some = asked[start : start + 16]
            prompts = Prompts.of([fact.question() for fact in some], self.tokenizer)
            read = model.read(prompts.input_ids, prompts.node_mask, tokens)
            right = torch.arange(start, start + len(some))
            for layer, found in by_layer(read.fact_weights, prompts.node_mask, right).items():
                hits.setdefault(layer, []).append(
                    (found.first * len(some), found.in_five * len(some))
                )
        return {
            str(layer): [sum(each) / len(asked) for each in zip(*rows, strict=True)]
            for layer, rows in hits.items()
        }

    def answered(self, model: KBLaM, asked: list[Fact], tokens: FactTokens | None) -> Cell:
        """Exact answers to `asked`, refusals there and of facts that are missing, times."""
        start = time.process_time()
        found = answers(model, self.tokenizer, [fact.question() for fact in asked], tokens)
        spent = time.process_time() - start
        missing = [fact.question() for fact in self.missing]
        return scores(asked, found, answers(model, self.tokenizer, missing, tokens)) | {
            "ms_a_question": 1000 * spent / len(asked)
        }

    def edited(self, size: int) -> Cell:
        """Every value becomes that of another bearer; who follows, who says the old one."""
        base, draws = self.graph(size), generator(self.study.seed, "kblam edits")
        row = {fact: i for i, fact in enumerate(base.facts)}
        new = []
        for fact in base.facts:
            others = [f for f in base.facts if f.relation == fact.relation]
            new.append(row[others[int(draws.integers(len(others)))]])
        facts = tuple(
            Fact(f.name, f.relation, base.facts[i].value)
            for f, i in zip(base.facts, new, strict=True)
        )
        changed = KnowledgeBase(facts, base.key_vectors, base.value_vectors[new])
        n = self.study.n_questions
        which = [i for i in range(size) if facts[i].value != base.facts[i].value][:n]
        questions = [facts[i].question() for i in which]
        found = answers(self.model, self.tokenizer, questions, changed.tokens(self.model))
        return {
            "n": len(which),
            "new": share(a.value == facts[i].value for a, i in zip(found, which, strict=True)),
            "old": share(a.value == base.facts[i].value for a, i in zip(found, which, strict=True)),
        }

    def in_words(self, n_words: int) -> Cell:
        """The host alone with the `n_words` most alike facts in its prompt."""
        base = self.graph(self.study.words_of)
        asked = list(base.facts[: self.study.n_questions])
        start = time.process_time()
        prompts = [self._prompt(fact, base, n_words) for fact in [*asked, *self.missing]]
        retrieval = (time.process_time() - start) / len(prompts)
        lengths = [len(ids) for ids in self.tokenizer(prompts)["input_ids"]]
        start = time.process_time()
        found = answers(self.model, self.tokenizer, prompts, None)
        spent = (time.process_time() - start) / len(prompts)
        there, gone = found[: len(asked)], found[len(asked) :]
        return {
            "n_facts": self.study.words_of,
            "retrieved": share(
                fact.statement in prompt for fact, prompt in zip(asked, prompts, strict=False)
            ),
            "tokens": float(np.mean(lengths)),
            **scores(asked, there, gone),
            "ms_a_question": 1000 * (retrieval + spent),
        }

    def _prompt(self, fact: Fact, base: KnowledgeBase, n_words: int) -> str:
        if n_words == 0:
            return fact.question()
        alike = base.key_vectors @ unit_vectors([fact.question()], self.encoder)[0]
        best = alike.sort(descending=True, stable=True).indices[:n_words].tolist()
        return prompt_in_context(base[best].facts, fact.question(), IN_CONTEXT_OR_REFUSE)


def scores(asked: list[Fact], there: list[Answer], gone: list[Answer]) -> Cell:
    """Exact answers, values named anywhere; precision and recall of refusing what is missing."""
    refused_there, refused_gone = (sum(a.is_refusal for a in each) for each in (there, gone))
    refused = refused_there + refused_gone
    return {
        "n": len(asked),
        "exact": share(a.value == f.value for a, f in zip(there, asked, strict=True)),
        "named": share(f.value in a.written for a, f in zip(there, asked, strict=True)),
        "n_missing": len(gone),
        "refusal_precision": refused_gone / refused if refused else None,
        "refusal_recall": refused_gone / len(gone),
        "refused_wrongly": refused_there / len(there),
        "shown": [a.written for a in [*there[:2], *gone[:1]]],
    }


def share(hits: Any) -> float:
    """The mean of truth values."""
    return float(np.mean(list(hits)))


def run(bench: Bench) -> dict[str, Cell]:
    """Every cell of the study, by name."""
    study = bench.study
    bench.folder.mkdir(parents=True, exist_ok=True)
    model = bench.model
    made = {f"kblam-{size}": lambda size=size: bench.of_size(size) for size in study.sizes[:-1]}
    asked = list(bench.graph(study.words_of).facts[: study.n_questions])
    made["edited"] = lambda: bench.edited(study.sizes[min(1, len(study.sizes) - 1)])
    made |= {f"words-{n}": lambda n=n: bench.in_words(n) for n in study.n_words}
    made["off"] = lambda: bench.answered(model, asked, None)
    last = study.sizes[-1]
    made[f"kblam-{last}"] = lambda: bench.of_size(last)
    aligned = bench.folder / ALIGNED
    made["aligned"] = lambda: bench.of_size(study.words_of, load_kblam(aligned, bench.host))
    return {name: bench.cell(name, make) for name, make in made.items()}
