"""`python -m experiments kblam CONFIG -o RUN`: align and train, then measure against graph size.

Attention, answers and refusals of every graph size are one file a seed of training; what is there
is not made again. Writes results.md, results.json and results.png.

Axis legend: seed, question.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from safetensors.torch import load_file, save
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from entity_linking.parts import SentenceEncoder
from experiments.command import announce, run_study
from kept.decoders import load_decoder, logits
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
from kept.decoders.kblam.texts import ReadTexts, StoredVectors, drawn_texts, read_texts
from kept.decoders.kblam.values import HostWords
from kept.decoders.kblam.wording import (
    IN_CONTEXT_OR_REFUSE,
    UNKNOWN,
    Dialogue,
    Fact,
    prompt_in_context,
)
from kept.evaluation.crossed import Effect, effect
from kept.evaluation.paired import accuracy_counts, f1_value
from kept.hosts import load_tokenizer
from kept.lab.questions.worlds import PrivateWorld, private_world
from kept.lab.study.cells import PlainCellTrial, page_of
from kept.lab.study.tables import Table
from kept.linking.sentences import HostSentenceEncoder
from kept.randomness import generator, torch_draws
from kept.training.config import RunConfig
from kept.training.log import StepRecord
from kg_loaders.disk.writing import whole_file, write_bytes, write_json

Cell = dict[str, Any]
Cells = Mapping[str, Sequence[Mapping[str, Any]]]
"""By name, one cell a seed."""
ALIGNED, TRAINED, LOG, SIZED = "aligned", "trained", "training.json", "kblam-"
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
class KBLaMTrial(PlainCellTrial):
    """The cells of one seed of training; `folder` is the run's, shared by all seeds."""

    study: KBLaMStudy
    decoder: Decoder
    encoder: SentenceEncoder
    folder: Path
    seed: int
    announce: Callable[[str], None] = field(default=lambda text: None)
    form = Cell

    @property
    def rows(self) -> list[str]:
        """The names of the cells."""
        return [*self.computations]

    def seeds(self, row: str) -> tuple[int]:
        """See `CellTrial.seeds`."""
        return (self.seed,)

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
    def seed_folder(self) -> Path:
        """The folder of this seed."""
        return self.folder / f"seed-{self.seed}"

    # ---- training --------------------------------------------------------------------------------
    @cached_property
    def model(self) -> KBLaM:
        """Aligned and trained, from the run's folder as far as it is there."""
        if (self.seed_folder / TRAINED).exists():
            return load_kblam(self.seed_folder / TRAINED, self.decoder.host)
        base = KnowledgeBase.of_graph(self.world.train, self.encoder, self.words)
        seed = self.study.world_seed
        texts = drawn_texts(base, self.decoder.tokenizer, self.study.n_texts, seed)
        self.seed_folder.mkdir(parents=True, exist_ok=True)
        model = self._new()
        stored = ReadTexts(**self._stored("texts", lambda: vars(read_texts(model, texts))))
        if (self.seed_folder / ALIGNED).exists():
            model = load_kblam(self.seed_folder / ALIGNED, self.decoder.host)
        else:
            states = self._stored("read", lambda: vars(read_states(model, texts, stored, seed)))
            read, plan = ReadStates(**states), self.study.alignment
            aligned = self.seed_folder / "alignment"
            align(model, texts, read, base, plan, self.seed, aligned, reporter=self)
            unknown = unit_vectors([UNKNOWN.split(",")[0]], self.words)[0]
            say_values(model, read, plan, unknown)
            save_kblam(self.seed_folder / ALIGNED, model)
        learner = Learner(model, texts, stored, base, self.study.training, self.seed)
        ended = learner.run(self.seed_folder / "training", reporter=self)
        log = {"steps": ended.step, "cpu_seconds": round(ended.cpu_seconds)}
        write_json(self.seed_folder / LOG, log, force=True)
        save_kblam(self.seed_folder / TRAINED, model)
        return model

    def step(self, record: StepRecord) -> None:
        """Announce a step of training now and then."""
        if record.step % self.study.training.save_every == 0:
            state = f"loss {record.total_loss:.3f}, {record.seconds:.0f} s"
            self.announce(f"step {record.step} of {record.n_steps}: {state}")

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
    def path(self, row: str, seed: int) -> Path:
        """See `CellTrial.path`."""
        return self.seed_folder / "cells" / f"{row}.json"

    def run(self, row: str, seed: int) -> Cell:
        """Compute a cell from the trained model."""
        cell = self.computations[row](self.model)
        lists = {k: v for k, v in cell.items() if isinstance(v, list) and k != "shown"}
        means = {name: np.mean(values) for name, values in lists.items()}
        self.announce(f"seed {seed}, {row}: {means} {cell['shown']}")
        return cell

    def questions(self, base: KnowledgeBase) -> list[Fact]:
        """The first facts of a graph, which are those of the larger ones too."""
        return list(base.facts[: self.study.n_questions])

    def of_size(self, size: int, model: KBLaM) -> Cell:
        """Attention, answers and refusals with a graph of `size` facts."""
        base = self.graph(size)
        start = time.process_time()
        tokens = base.tokens(model)
        encoding = time.process_time() - start
        facts = self.questions(base)
        cell = self.answered(model, facts, tokens) | self.attention(model, facts, tokens)
        prompt = np.mean(
            [len(ids) for ids in self._ids(f.question() for f in self.questions(base))]
        )
        return cell | {
            "n_facts": size,
            "tokens": float(prompt) + min(size, model.config.top_k or size),
            "encoding_ms_a_fact": 1000 * encoding / size,
            "mib_of_facts": 2 * tokens.keys.numel() * tokens.keys.element_size() / 2**20,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }

    @torch.no_grad()
    def attention(self, model: KBLaM, facts: list[Fact], tokens: FactTokens) -> Cell:
        """Which questions have their fact first, and in the first five, by reading layer.

        Over the two nodes of the answer that know whom and what is asked. `share`: of the attention
        that facts get where the name ends. `begun`: the answer's beginning is given, and the
        value's first piece is the most probable of all.
        """
        cell: Cell = {}
        for start in range(0, len(facts), 8):
            some = facts[start : start + 8]
            dialogues = [Dialogue.about(fact, 1) for fact in some]
            ids, mask = padded(self._ids([each.prefix for each in dialogues]), 0)
            prompts = self._ids([each.prompt for each in dialogues])
            n_before = torch.tensor([len(prompt) - 1 for prompt in prompts])
            reading = mask & (torch.arange(ids.shape[1]) >= n_before[:, None])
            read = model.read(ids, mask, tokens, reading=reading)
            rows, last = torch.arange(len(ids)), mask.sum(dim=1) - 1
            counted = mask & (torch.arange(ids.shape[1]) >= last[:, None] - 1)
            right = torch.arange(start, start + len(some))
            written = logits(model.host, read.hidden_states[-1][rows, last])
            pieces = [each[0] for each in self._ids([f" {fact.value}" for fact in some])]
            hits = (written.argmax(-1) == torch.tensor(pieces)).tolist()
            cell.setdefault("begun", []).extend(hits)
            for layer, weights in read.fact_weights.items():
                order = attention_sums(weights, counted).sort(dim=1, descending=True).indices
                for name, n in (("first", 1), ("in five", 5)):
                    hits = (order == right[:, None])[:, :n].any(dim=1).tolist()
                    cell.setdefault(f"{name} {layer}", []).extend(hits)
                ends = weights[rows, :, last - 1].sum(dim=1)
                shares = ends[rows, right] / ends.sum(dim=1)
                cell.setdefault(f"share {layer}", []).extend(shares.tolist())
        return cell

    def _ids(self, texts: Iterable[str]) -> list[list[int]]:
        ids: list[list[int]] = self.decoder.tokenizer(list(texts))["input_ids"]
        return ids

    def answered(self, model: KBLaM, facts: list[Fact], tokens: FactTokens | None) -> Cell:
        """Exact answers about `facts`, refusals there and of facts that are missing, times."""
        start = time.process_time()
        replies = self._write(model, [fact.question() for fact in facts], tokens)
        spent = time.process_time() - start
        about_missing = self._write(model, [fact.question() for fact in self.missing], tokens)
        return scores(facts, replies, about_missing) | {"ms_a_question": 1000 * spent / len(facts)}

    def _write(self, model: KBLaM, questions: list[str], tokens: FactTokens | None) -> list[Answer]:
        tokenizer = self.decoder.tokenizer
        return answers(model, tokenizer, questions, tokens, n_new=N_NEW, batch_size=8)

    def edited(self, size: int, model: KBLaM) -> Cell:
        """Values become others of their relation; who follows, who says the old one."""
        base, draws = self.graph(size), generator(self.study.world_seed, "kblam edits")
        of_relation: dict[str, list[int]] = {}
        for row, fact in enumerate(base.facts):
            of_relation.setdefault(fact.relation, []).append(row)
        facts, rows = [], []
        for row, fact in enumerate(base.facts):
            others = [i for i in of_relation[fact.relation] if base.facts[i].value != fact.value]
            rows.append(others[int(draws.integers(len(others)))] if others else row)
            facts.append(Fact(fact.name, fact.relation, base.facts[rows[-1]].value))
        changed = KnowledgeBase(tuple(facts), base.key_vectors, base.value_vectors[rows])
        edits = [(new, old) for new, old in zip(facts, base.facts, strict=True) if new != old]
        edits = edits[: self.study.n_questions]
        replies = self._write(model, [new.question() for new, _ in edits], changed.tokens(model))
        pairs = list(zip(replies, edits, strict=True))
        return {
            "exact": [reply.value == new.value for reply, (new, _) in pairs],
            "old": [reply.value == old.value for reply, (_, old) in pairs],
            "shown": [reply.written for reply in replies[:2]],
        }

    def shuffled(self, size: int, model: KBLaM) -> Cell:
        """Values go to keys of other facts; right is what the true graph says."""
        base, draws = self.graph(size), generator(self.study.world_seed, "kblam shuffle")
        rows = draws.permutation(size).tolist()
        mixed = KnowledgeBase(base.facts, base.key_vectors, base.value_vectors[rows])
        return self.answered(model, self.questions(base), mixed.tokens(model))

    def in_words(self, n_words: int, model: KBLaM) -> Cell:
        """The host alone with the `n_words` most alike facts in its prompt."""
        base = self.graph(self.study.words_of)
        facts = self.questions(base)
        start = time.process_time()
        prompts = [self._prompt(fact, base, n_words) for fact in [*facts, *self.missing]]
        lengths = [len(ids) for ids in self._ids(prompts)]
        replies = self._write(model, prompts, None)
        spent = (time.process_time() - start) / len(prompts)
        pairs = zip(facts, prompts, strict=False)
        return {
            "n_facts": self.study.words_of,
            "retrieved": [fact.statement in prompt for fact, prompt in pairs],
            "tokens": float(np.mean(lengths)),
            **scores(facts, replies[: len(facts)], replies[len(facts) :]),
            "ms_a_question": 1000 * spent,
        }

    def _prompt(self, fact: Fact, base: KnowledgeBase, n_words: int) -> str:
        if n_words == 0:
            return fact.question()
        alike = base.key_vectors @ unit_vectors([fact.question()], self.encoder)[0]
        best = alike.sort(descending=True, stable=True).indices[:n_words].tolist()
        return prompt_in_context(base[best].facts, fact.question(), IN_CONTEXT_OR_REFUSE)

    @property
    def computations(self) -> dict[str, Callable[[KBLaM], Cell]]:
        """By name, what computes a cell from the trained model."""
        study = self.study
        middle = study.sizes[min(1, len(study.sizes) - 1)]
        return {
            **{f"{SIZED}{size}": partial(self.of_size, size) for size in study.sizes},
            "edited": partial(self.edited, middle),
            "shuffled": partial(self.shuffled, middle),
            "off": lambda model: self.answered(model, self.questions(self.test), None),
            "aligned": lambda _: self.of_size(
                middle, load_kblam(self.seed_folder / ALIGNED, self.decoder.host)
            ),
            **{f"words-{n}": partial(self.in_words, n) for n in study.n_words},
        }


def scores(facts: list[Fact], replies: list[Answer], about_missing: list[Answer]) -> Cell:
    """Right answers, values named anywhere, refusals of what is there and of what is missing."""
    pairs = list(zip(replies, facts, strict=True))
    return {
        "exact": [reply.value == fact.value for reply, fact in pairs],
        "named": [fact.value in reply.written for reply, fact in pairs],
        "refused": [reply.is_refusal for reply in replies],
        "refused missing": [reply.is_refusal for reply in about_missing],
        "shown": [reply.written for reply in [*replies[:2], *about_missing[:1]]],
    }


def all_cells(trials: list[KBLaMTrial]) -> dict[str, list[Cell]]:
    """Return every cell by name, one a seed; those without training of the first alone."""
    cells: dict[str, list[Cell]] = {}
    for number, trial in enumerate(trials):
        for name in trial.rows:
            if not number or not (name.startswith("words-") or name == "off"):
                cells.setdefault(name, []).append(trial.cell(name, trial.seed))
    return cells


# ---- the page --------------------------------------------------------------
def share(cells: Sequence[Mapping[str, Any]], measure: str) -> Effect:
    """Return the share of questions with `measure`, over seeds and questions."""
    return effect(accuracy_counts([cell[measure] for cell in cells]), f1_value)


def precision(cells: Sequence[Mapping[str, Any]]) -> float | None:
    """Of all refusals those of what is missing; None where nothing was refused."""
    wrong, right = (np.sum([c[k] for c in cells]) for k in ("refused", "refused missing"))
    return None if wrong + right == 0 else float(right / (wrong + right))


def sized(cells: Cells) -> dict[int, Sequence[Mapping[str, Any]]]:
    """Return the cells of graph sizes, smallest first."""
    sizes = sorted(int(name.removeprefix(SIZED)) for name in cells if name.startswith(SIZED))
    return {size: cells[f"{SIZED}{size}"] for size in sizes}


def layers(cells: Cells) -> list[str]:
    """Return the reading layers, best first in the smallest graph, of equals the lower."""
    smallest = next(iter(sized(cells).values()))
    start = "first "
    names = [name.removeprefix(start) for name in smallest[0] if name.startswith(start)]
    return sorted(names, key=lambda name: (-share(smallest, f"{start}{name}").estimate, int(name)))


def _interval(cells: Sequence[Mapping[str, Any]], measure: str) -> str:
    """A share with its interval of 95 %, within 0 and 1; "" where it was not measured."""
    if measure not in cells[0]:
        return ""
    interval = share(cells, measure).interval()
    return f"{interval.estimate:.2f} [{max(interval.low, 0):.2f}, {min(interval.high, 1):.2f}]"


def to_json(cells: Cells) -> dict[str, Any]:
    """Every share of every cell."""
    values: dict[str, Any] = {}
    for name, seeds in cells.items():
        measures = [k for k, v in seeds[0].items() if isinstance(v, list) and k != "shown"]
        shares = {measure: round(share(seeds, measure).estimate, 4) for measure in measures}
        values[name] = {**shares, "seeds": len(seeds), "n": len(seeds[0]["exact"])}
    return values


def to_markdown(cells: Cells, command: str, logs: Sequence[Mapping[str, Any]]) -> str:
    """Return the page: by graph size, the controls and facts in words, and layers."""
    smallest = next(iter(sized(cells).values()))
    steps = ", ".join(f"{log['steps']} in {log['cpu_seconds']}" for log in logs)
    layer = layers(cells)[0]
    about = (
        f"{len(smallest)} seeds of training; steps after the alignment, and their CPU "
        f"seconds: {steps}. At most {len(cells['edited'][0]['exact'])} questions a cell, and "
        "the same number about missing facts. Intervals of 95 % are over seeds and questions. "
        f"Attention at layer {layer}, the best in the smallest graph, at the last two nodes "
        "before the value. *Share*: the right fact's part of what facts get where the name "
        "ends. *Right*: the value after the last *is*, one in eight by chance. *Begun*: with the "
        "answer's beginning given, the value's first piece is the most probable. *Refused, "
        "though there*: of the questions that have a fact. *Tokens*: those of the question "
        "and the facts that a node reads."
    )
    edits = (
        "*edited*: every value changed without training, right is the new one (the old one: "
        f"{_interval(cells['edited'], 'old')}); *shuffled*: values at keys of other facts, right "
        "is the true one."
    )
    parts = (
        about,
        _size_table(cells, layer).markdown(), _control_table(cells).markdown(), edits,
        "The right fact first, where the answer is written:", _layer_table(cells).markdown(),
    )  # fmt: skip
    title = f"KBLaM against graph size\n<!-- written by {command} -->"
    return page_of(title, "", *parts)


def _size_table(cells: Cells, layer: str) -> Table:
    shares = ("exact", "begun", f"first {layer}", f"in five {layer}", f"share {layer}",
              "refused missing", "refused")  # fmt: skip
    costs = (("tokens", 0), ("ms_a_question", 0), ("mib_of_facts", 1), ("peak_mib", 0))
    columns = (
        "facts", "right", "begun", "first", "in five", "share", "missing ones refused",
        "refused, though there", "refusals that are right", "tokens", "ms a question",
        "MiB of facts", "peak MiB",
    )  # fmt: skip
    rows = []
    for size, seeds in sized(cells).items():
        right = precision(seeds)
        means = [f"{np.mean([cell[k] for cell in seeds]):.{places}f}" for k, places in costs]
        refusals = "none" if right is None else f"{right:.2f}"
        rows.append([size, *(_interval(seeds, name) for name in shares), refusals, *means])
    return Table(columns, rows)


def _control_table(cells: Cells) -> Table:
    """The host with facts as words, KBLaM without facts, aligned alone, edits and a shuffle."""
    columns = (
        "row", "facts", "seeds", "right", "value named", "missing ones refused", "retrieved",
        "tokens of a prompt", "ms a question",
    )  # fmt: skip
    rows = []
    for name in ("edited", "shuffled", "aligned", "off", *(n for n in cells if "words" in n)):
        first, *others = cells[name]
        shares = ("exact", "named", "refused missing", "retrieved")
        costs = [f"{first[k]:.0f}" if k in first else "" for k in ("tokens", "ms_a_question")]
        intervals = [_interval(cells[name], measure) for measure in shares]
        rows.append([name, first.get("n_facts", ""), 1 + len(others), *intervals, *costs])
    return Table(columns, rows)


def _layer_table(cells: Cells) -> Table:
    """The share of questions whose fact has most attention, by layer and size."""
    sizes, rows = sized(cells), []
    for layer in sorted(layers(cells), key=int):
        shares = [f"{share(seeds, f'first {layer}').estimate:.2f}" for seeds in sizes.values()]
        rows.append([layer, *shares])
    return Table(("layer", *(f"{size} facts" for size in sizes)), rows)


def draw(cells: Cells, path: Any) -> None:
    """The curves against graph size, as PNG."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    layer, rows = layers(cells)[0], sized(cells)
    figure, axes = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    for mark, measure, name in (
        ("o-", f"first {layer}", "right fact first"),
        ("s-", f"in five {layer}", "right fact in five"),
        ("^-", "exact", "right answers"),
        ("d-", "begun", "right value, answer begun"),
        ("x--", "refused missing", "missing facts refused"),
    ):
        shares = [share(seeds, measure).estimate for seeds in rows.values()]
        axes.semilogx(list(rows), shares, mark, label=name)
    axes.axhline(1 / 8, color="grey", linewidth=0.8)
    axes.set(xlabel="facts in the graph", ylabel="share of questions", ylim=(-0.02, 1.02))
    axes.legend(fontsize=8)
    figure.savefig(path, format="png", dpi=110)
    pyplot.close(figure)


def run(study: KBLaMStudy, arguments: argparse.Namespace) -> tuple[str, object]:
    """Make what is missing; return the page and every share."""
    decoder = Decoder(load_decoder(study.host, for_training=True), load_tokenizer(study.host))
    encoder = StoredVectors(HostSentenceEncoder(study.vectors_from), arguments.out / "vectors")
    trials = [
        KBLaMTrial(study, decoder, encoder, arguments.out, seed, announce) for seed in study.seeds
    ]
    cells = all_cells(trials)
    logs = [json.loads((trial.seed_folder / LOG).read_text("utf-8")) for trial in trials]
    with whole_file(arguments.out / "results.png", force=True) as part:
        draw(cells, part)
    return to_markdown(cells, arguments.command, logs), to_json(cells)


if __name__ == "__main__":
    run_study(__doc__, KBLaMStudy, run)
