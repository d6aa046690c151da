"""What a row is made with: the decoder, what it may be trained on, and a folder for its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from safetensors.torch import load_file, save
from torch import Tensor
from transformers import PreTrainedModel

from entity_linking.parts import SentenceEncoder
from kept.decoders.learning import Training
from kept.lab.questions.items import QuestionSet
from kept.lab.questions.prompts import Prompting
from kept.lab.questions.showing import ItemSet
from kept.lab.study.store import remove_other_files
from kept.training.log import Reporter
from kept.training.loop import Resume, train
from kept.training.processes.together import processes
from kg_loaders.disk.writing import write_bytes

WEIGHTS = "weights.safetensors"


@dataclass(frozen=True, eq=False)
class TrainingContext:
    """What a row that trains needs.

    `train_items` are the questions or facts that it is trained on, `questions` those of the test
    over the true graph. `folder` has the row's weights, which conditions that differ only in the
    test share; below it each training has its folder. `encoder` makes sentence vectors.
    Where a launcher has started several processes, each has the same, and the first writes.
    """

    host: PreTrainedModel
    prompting: Prompting
    train_items: ItemSet
    questions: QuestionSet
    seed: int
    folder: Path
    new_encoder: Callable[[], SentenceEncoder]
    reporter: Reporter | None = None
    should_stop: Callable[[], bool] = lambda: False

    @cached_property
    def encoder(self) -> SentenceEncoder:
        """Opened when it is first needed."""
        return self.new_encoder()

    def train(self, name: str, training: Training) -> bool:
        """Train, or go on from the last checkpoint; False where it was stopped."""
        ended = train(
            *training,
            self.folder / name,
            reporter=self.reporter,
            resume=Resume.IF_ANY,
            should_stop=self.should_stop,
        )
        return ended.stopped == "finished"

    def stored(self) -> dict[str, Tensor] | None:
        """Finished weights; None where there are none yet."""
        path = self.folder / WEIGHTS
        return load_file(path) if processes().from_first(path.exists) else None

    def store(self, state: Mapping[str, Tensor]) -> None:
        """Keep finished weights, and of their trainings what a person reads."""
        plain = {key: value.detach().contiguous() for key, value in state.items()}

        def write() -> None:
            write_bytes(self.folder / WEIGHTS, save(plain), force=True)
            for training in self.folder.iterdir():
                if training.is_dir():
                    remove_other_files(training)

        processes().from_first(write)
