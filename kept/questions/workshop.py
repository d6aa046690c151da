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
from kept.questions.items import QuestionSet
from kept.questions.prompts import Prompting
from kept.questions.showing import Shown
from kg_loaders.disk.writing import write_bytes

WEIGHTS = "weights.safetensors"


@dataclass(frozen=True, eq=False)
class Workshop:
    """`given`: what a row that trains on questions, or on facts, is trained on; `asked`: what it
    will be asked, as the true graph has it.

    `place` is the folder of the row's weights, shared by all conditions that differ when it is
    asked alone. `encoder` makes sentence vectors.
    """

    host: PreTrainedModel
    prompting: Prompting
    given: Shown
    asked: QuestionSet
    seed: int
    place: Path
    new_encoder: Callable[[], SentenceEncoder]
    announce: Callable[[str], None] = lambda text: None
    should_stop: Callable[[], bool] = lambda: False

    @cached_property
    def encoder(self) -> SentenceEncoder:
        """Opened when it is first needed."""
        return self.new_encoder()

    def stored(self) -> dict[str, Tensor] | None:
        """Finished weights; None where there are none yet."""
        path = self.place / WEIGHTS
        return load_file(path) if path.exists() else None

    def store(self, state: Mapping[str, Tensor]) -> None:
        """Keep finished weights."""
        self.place.mkdir(parents=True, exist_ok=True)
        plain = {key: value.detach().contiguous() for key, value in state.items()}
        write_bytes(self.place / WEIGHTS, save(plain), force=True)
