"""A tiny decoder in a folder, and plans of questions to it over a private world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kept.decoders.kblam.knowledge_base import facts_of_graph
from kept.decoders.kblam.wording import CHATML, UNKNOWN
from kept.lab.questions.plan import QuestionPlan
from kept.lab.questions.worlds import VALUES, private_world
from tests.kept.tiny_chat import chat_tokenizer
from tests.kept.tiny_decoders import tiny_decoder

N_TRAIN, N_TEST = 8, 6
ALIGNMENT = {
    "n_steps": 3, "batch_size": 8, "n_facts": 16, "mass": 0.6, "learning_rate": 0.002,
    "strength": 0.3,
}  # fmt: skip
TRAINING = {
    "n_steps": 4, "batch_size": 4, "n_refusals": 1, "n_context": 12, "learning_rate": 1e-5,
    "value_rate": 1e-3, "cpu_seconds": 100, "save_every": 1,
}  # fmt: skip
SMALL: dict[str, dict[str, Any]] = {
    "words": {},
    "branches": {},
    "nodes": {},
    "words-lora": {"n_steps": 2, "batch_size": 4},
    "branches-lora": {"n_steps": 1, "batch_size": 2},
    "nodes-lora": {"n_steps": 1, "batch_size": 2},
    "soft-prompt": {"n_steps": 2, "n_aligned": 100, "width": 8, "batch_size": 2},
    "kblam": {
        "n_texts": 16, "first": 1, "last": 1, "top_k": 4, "alignment": ALIGNMENT,
        "training": TRAINING,
    },
    "lora": {"n_epochs": 2},
    "adapter": {"n_epochs": 1, "width": 12, "n_heads": 3},
}  # fmt: skip
"""Every row at the least budget."""


def write_decoder(folder: Path) -> Path:
    """A tiny Llama of random weights that has a piece for every word of the world."""
    world = private_world(0, n_train=N_TRAIN, n_test=N_TEST)
    facts = [*facts_of_graph(world.train), *facts_of_graph(world.test)]
    texts = [CHATML.dialogue(fact.question(), fact.answer) for fact in facts]
    values = [f" {value}" for of_relation in VALUES.values() for value in of_relation]
    tokenizer = chat_tokenizer([*texts, *values, " " + " ".join(VALUES), f" {UNKNOWN}."])
    tiny_decoder("llama", vocab_size=len(tokenizer), max_position_embeddings=256).save_pretrained(
        folder
    )
    tokenizer.save_pretrained(folder)
    return folder


def plan_of(host: Path, **fields: Any) -> QuestionPlan:
    """Six questions to the decoder of a folder, by every row."""
    questions = {"world": "bearers", "n_train": N_TRAIN, "n_test": N_TEST, "max_asked": 6}
    values = {
        "name": "small", "questions": questions, "host": str(host), "chat": "chatml", "seeds": 2,
        "methods": SMALL,
    }  # fmt: skip
    return QuestionPlan.model_validate(values | fields)
