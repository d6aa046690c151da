"""Runs of every task that no training has seen, with weights that tell texts apart."""

from __future__ import annotations

from typing import Any

import torch

from kept.graphs.builder import BuilderConfig
from kept.heads.model import KnowledgeForTask
from kept.tasks.datasets.formats import TASKS
from kept.tasks.kinds import CHOICE, REGRESSION, SCORE, SPAN, START_END
from kept.training.finetuning.predictor import Predictor
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import method_encoder

CLASSES = ("river", "city", "state")


def tiny_predictor(task: str, graph: KnowledgeGraph, tokenizer: Any) -> Predictor:
    """A K-BERT of `task` with the classes `CLASSES`."""
    line = TASKS[task]
    labels = CLASSES
    if line.problem_type in (REGRESSION, CHOICE):
        labels = (SCORE,)
    elif line.problem_type == SPAN:
        labels = START_END
    torch.manual_seed(4)
    model = KnowledgeForTask.of(
        method_encoder("kbert", graph, tokenizer), line.head, labels,
        problem_type=line.problem_type, **line.head_options,
    )  # fmt: skip
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim == 2:
                weights.mul_(6)
    builder = BuilderConfig(policy="degree", max_words=40, max_nodes=80)
    return Predictor(model, tokenizer, task=task, builder=builder)
