"""`train_decoders.py HOST FOLDER`: every training of a decoder, in Python.

One process, or one of several where RANK and WORLD_SIZE say so; several train each twice, the
second time with the layers shared out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.distributed.tensor import DTensor

from kept.decoders import load_decoder
from kept.decoders.adapters import DecoderAdapter
from kept.decoders.kblam.alignment import AlignmentPlan, aligning, read_states
from kept.decoders.kblam.config import KBLaMConfig
from kept.decoders.kblam.knowledge_base import KnowledgeBase
from kept.decoders.kblam.learner import Learner, TrainingPlan
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.texts import drawn_texts, read_texts
from kept.decoders.kblam.values import HostWords
from kept.decoders.learning import Training
from kept.decoders.soft_prompts import GraphPrompter, LabelSentences, SoftPromptOptions
from kept.lab.questions import training as of_questions
from kept.lab.questions.readers import SoftPromptReader
from kept.lab.questions.showing import items_under
from kept.lab.questions.training import AdapterPlan, ReadingPlan, RememberingPlan, SoftPromptPlan
from kept.lab.questions.trial import QuestionTrial
from kept.randomness import torch_draws
from kept.training import loop
from kept.training.config import Shard
from kept.training.loop import Resume, train
from kept.training.processes import shards
from kept.training.processes.launch import rank_and_size
from kept.training.processes.together import leave_processes
from tests.kept.tiny_chat import WordVectors
from tests.kept.tiny_questions import plan_of

KINDS = (
    "words-lora", "nodes-lora", "lora", "adapter", "prompt-words", "prompt-answers",
    "kblam-alignment", "kblam",
)  # fmt: skip
TOGETHER = ("kblam", "kblam-alignment")
"""Those that compute inside the host's layers, or hold no host."""


def training_of(kind: str, host_folder: Path) -> Training:
    """Three steps or more on six questions, of batches of odd sizes, around a host of its own."""
    runs = QuestionTrial(plan_of(host_folder), host_folder, host_folder)
    host, prompting = load_decoder(host_folder), runs.prompting
    items = items_under(runs.test_questions, "true", 0)
    if kind in ("words-lora", "nodes-lora"):
        plan = ReadingPlan(n_steps=3, batch_size=3)
        facts_as = "words" if kind == "words-lora" else "nodes"
        reader_host = of_questions.with_lora(host, 0)
        return of_questions.reading(reader_host, prompting, facts_as, items, plan, 0)
    if kind == "lora":  # the second batch of an epoch has one fact: none for a second process
        plan = RememberingPlan(n_epochs=2, batch_size=5)
        return of_questions.remembering(
            of_questions.with_lora(host, 0), prompting, items, plan, 0
        )  # fmt: skip
    if kind == "adapter":
        adapter_plan = AdapterPlan(n_epochs=2, batch_size=5)
        sizes = {"layers": (1, 2, 3), "width": 12, "n_heads": 3, "n_layers": 1, "dropout": 0.0}
        with torch_draws(0, "initial weights"):
            adapter = DecoderAdapter(host, sizes).eval()
        return of_questions.remembering_with_adapter(
            host, adapter, prompting, items, adapter_plan, 0
        )
    if kind.startswith("prompt"):
        soft = SoftPromptPlan(n_steps=3, n_aligned=4, width=8, batch_size=3)
        vectors = LabelSentences.of(items.graph, WordVectors())
        with torch_draws(0, "initial weights"):
            prompter = GraphPrompter(
                host, SoftPromptOptions(vector_width=WordVectors.width, n_soft=8, width=8)
            ).eval()
        reader = SoftPromptReader(host, prompting, prompter, vectors)
        make = of_questions.prompting_by_words
        if kind == "prompt-answers":
            make = of_questions.prompting_by_answers
        return make(reader, items, soft, 0)
    words = HostWords(host, prompting.tokenizer)
    base = KnowledgeBase.of_graph(runs.sets[0].graph, WordVectors(), words)
    texts = drawn_texts(base, prompting.tokenizer, 16, 0)
    config = KBLaMConfig(
        vector_width=WordVectors.width, value_width=words.width, first=1, last=2, every=1,
        scale=4.0, top_k=4, top_k_by_node=True, prompt_reads=False,
    )  # fmt: skip
    with torch_draws(0, "initial weights"):
        model = KBLaM(host, config)
    stored = read_texts(model, texts)
    if kind == "kblam":
        kblam = TrainingPlan(
            n_steps=3, batch_size=5, n_refusals=2, n_context=12, learning_rate=1e-3,
            value_rate=1e-2, cpu_seconds=1000,
        )  # fmt: skip
        return Learner(model, texts, stored, base, kblam, 0).training()
    alignment = AlignmentPlan(
        n_steps=3, batch_size=7, n_facts=16, mass=0.6, learning_rate=0.01, strength=0.3
    )
    return aligning(model, texts, read_states(model, texts, stored, 0), base, alignment, 0)


def run(kind: str, host: Path, folder: Path, shard: tuple[Shard, ...] = ()) -> None:
    """Train, from the last checkpoint in `folder` if there is one; it gets what is held here."""
    learner, lessons, config = training_of(kind, host)
    config = config.model_copy(update={"shard": shard, "checkpoint_steps": 2, "keep": 9})
    train(learner, lessons, config, folder, resume=Resume.IF_ANY)
    local = [p.to_local() if isinstance(p, DTensor) else p for p in learner.parameters()]
    (folder / f"held-{rank_and_size().rank}").write_text(str(sum(each.numel() for each in local)))


def run_all(host: Path, folder: Path) -> None:
    n = rank_and_size().n
    for kind in KINDS:
        run(kind, host, folder / f"{kind}-{n}")
        if n > 1:
            run(kind, host, folder / f"{kind}-layers", ("layers",))


if __name__ == "__main__":
    loop.draw_curves = lambda log, png: png.touch()  # as in the tests' own process
    shards.SMALL = 64  # no tensor of a tiny model is large
    torch.set_num_threads(1)
    run_all(Path(sys.argv[1]), Path(sys.argv[2]))
    leave_processes()
