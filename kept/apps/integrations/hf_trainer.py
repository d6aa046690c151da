"""transformers' `Trainer` on an encoder of kept: a data set of linked texts, a collator, a model.

kept's commands have another loop (docs/decisions/0003); this is for projects that have a Trainer.
Axis legend: batch, class.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils.data import Dataset

from entity_linking.mentions import LinkedText, Linker
from kept.auto import AutoEncoder
from kept.batches import KnowledgeBatch
from kept.batches.tensors import batch_of, tensors_of
from kept.errors import ConfigError
from kept.heads.model import MAIN_LOSS, KnowledgeForTask
from kept.inputs.views import view_for
from kept.layers.host_table import HostTable
from kept.tasks.datasets.formats import TaskExample
from kept.tasks.kinds import SINGLE, task_kind
from kept.training.finetuning.data import TaskData
from kg_loaders import KnowledgeGraph

LABELS = "labels"
Text = str | LinkedText | TaskExample


class KnowledgeDataset(Dataset[KnowledgeBatch]):
    """Texts with the facts that an encoder reads with them, and a label each.

    `texts` are strings, which `linker` links (by default the names of the graph), linked texts, or
    examples with targets (`TaskExample`), which have their labels already. `classes`
    are the labels in the order of the model's outputs. Facts that the encoder samples are sampled
    anew in every epoch, which Trainer sets; the same `seed` and epoch give the same facts. A text
    whose target is cut off is left out, and counted in `data.skipped`.
    Raises `ConfigError` for labels that are missing or none of `classes`.
    """

    def __init__(
        self,
        encoder: AutoEncoder,
        kg: KnowledgeGraph | str | Path,
        texts: Sequence[Text],
        labels: Sequence[str] | None = None,
        *,
        classes: Sequence[str],
        problem_type: str = SINGLE,
        linker: Linker | None = None,
        seed: int = 0,
    ) -> None:
        graph = kg if isinstance(kg, KnowledgeGraph) else KnowledgeGraph.open(kg)
        encoder.encoder.require_graph(graph)
        examples = _examples(encoder, graph, texts, labels, linker)
        known = set(classes)
        wrong = next((label for e in examples for label in e.labels if label not in known), None)
        if wrong is not None:
            raise ConfigError(f"the label {wrong!r} is none of the classes {', '.join(classes)}")
        self.data = TaskData(
            examples,
            graph,
            encoder.tokenizer,
            builder=encoder.builder,
            view=view_for(encoder.method, graph, encoder.tokenizer, encoder.view),
            problem_type=problem_type,
            labels={label: number for number, label in enumerate(classes)},
        )
        self._label = "node_labels" if task_kind(problem_type).labels_nodes else LABELS
        self._seed, self._epoch = seed, 0

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> KnowledgeBatch:
        """Return text `index` of the epoch at hand, as a batch of one."""
        if not 0 <= index < len(self):
            raise IndexError(f"text {index} of {len(self)}")
        return self.data.sample(index, epoch=self._epoch, seed=self._seed)

    def set_epoch(self, epoch: int) -> None:
        """Have the facts of another epoch; Trainer calls it before each."""
        self._epoch = epoch

    @property
    def collator(self) -> Callable[[Sequence[KnowledgeBatch]], dict[str, Tensor]]:
        """What stacks texts into the keyword arguments of `KnowledgeClassifier`."""
        return KnowledgeCollator(self.data, self._label)


class KnowledgeCollator:
    """Texts of a `KnowledgeDataset` to one dictionary of tensors, padded; `labels` among them."""

    def __init__(self, data: TaskData, label: str = LABELS) -> None:
        self._data, self._label = data, label

    def __call__(self, samples: Sequence[KnowledgeBatch]) -> dict[str, Tensor]:
        tensors = tensors_of(self._data.collate(samples, epoch=0, seed=0, step=0))
        if self._label != LABELS:
            tensors[LABELS] = tensors.pop(self._label)
        return tensors


class KnowledgeClassifier(nn.Module):
    """A copy of an encoder under a new head, as Trainer calls a model: tensors in, loss and logits
    out.

    Its checkpoints are Trainer's; `save_pretrained` writes what `KnowledgeForTask.from_pretrained`
    opens, and `AutoEncoder.from_pretrained`, for the encoder alone. `options` are the head's.
    A table of entities has gradients for every row here: the loop of `kept finetune` reads
    and changes the rows of a batch alone, which counts from about a million entities on.
    Raises `ConfigError` for a table that stays on the host's memory, which Trainer cannot change.
    """

    accepts_loss_kwargs = False
    """Trainer: the loss is the mean over a batch, whatever is accumulated."""

    def __init__(
        self,
        encoder: AutoEncoder,
        classes: Sequence[str],
        *,
        head: str = "pooled",
        problem_type: str = SINGLE,
        **options: Any,
    ) -> None:
        super().__init__()
        if any(isinstance(each, HostTable) for each in encoder.encoder.modules()):
            raise ConfigError(
                "the table of entities stays in the host's memory (entity_table 'host'), where "
                "Trainer does not change it; use kept finetune"
            )
        self.model = KnowledgeForTask.of(
            copy.deepcopy(encoder.encoder), head, classes, problem_type=problem_type, **options
        )
        for module in self.model.modules():
            if isinstance(module, nn.Embedding):
                module.sparse = False  # Trainer clips and adapts whole gradients
        self._tokenizer = encoder.tokenizer
        self._is_by_node = task_kind(problem_type).labels_nodes

    def forward(self, labels: Tensor | None = None, **tensors: Tensor) -> dict[str, Tensor]:
        """Return `logits` `[batch class]` (of each node for tags), and with labels the `loss`."""
        if labels is not None:
            tensors["node_labels" if self._is_by_node else LABELS] = labels
        output = self.model(batch_of(tensors))
        loss = {"loss": output.losses[MAIN_LOSS]} if output.losses else {}
        return {**loss, "logits": output.class_logits}

    def save_pretrained(self, folder: str | Path) -> None:
        """Write encoder, head and tokenizer to `folder`, sealed."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._tokenizer.save_pretrained(folder)
        self.model.save_pretrained(folder)


def _examples(
    encoder: AutoEncoder,
    graph: KnowledgeGraph,
    texts: Sequence[Text],
    labels: Sequence[str] | None,
    linker: Linker | None,
) -> list[TaskExample]:
    """The texts as examples; plain ones are linked."""
    if labels is None:
        missing = next((text for text in texts if not isinstance(text, TaskExample)), None)
        if missing is not None:
            raise ConfigError(f"{missing!r} has no label; give labels, one for each text")
        return [text for text in texts if isinstance(text, TaskExample)]
    if len(labels) != len(texts):
        raise ConfigError(f"{len(labels)} labels for {len(texts)} texts; give one for each")
    plain = [text.linked if isinstance(text, TaskExample) else text for text in texts]
    linked = encoder.linked(plain, graph, linker)
    return [TaskExample(one, (str(label),)) for one, label in zip(linked, labels, strict=True)]
