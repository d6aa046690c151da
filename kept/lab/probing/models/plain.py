"""Any masked LM of Hugging Face as a `ClozeModel`.

After the last attention only the states at the masks are computed: a hook keeps them. The output
embedding is taken out of the model, to be multiplied for the candidates alone. This holds for any
family; a trial at the start compares the result with the model's own.

Axis legend: sample, node, mask, word, embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoModelForMaskedLM, PreTrainedModel

from entity_linking.mentions import LinkedText
from kept import hosts
from kept.decoders.hosts import FAMILIES as DECODERS
from kept.errors import HostError
from kept.lab.probing.models.base import (
    MAX_WORDS,
    REMEDY,
    ClozeModel,
    Question,
    Sample,
    mask_places,
    words_around_masks,
)
from kept.lab.probing.results import Mode
from kept.model_files import require_finite
from kept.model_settings import model_type_of


class PlainMaskedLM(ClozeModel):
    """A host with its own head; it has only its weights."""

    method = "masked-lm"
    mode: Mode = "weights"
    asked_facts = "none"
    max_words: int

    def __init__(self, model: PreTrainedModel, tokenizer: Any, *, name: str = "") -> None:
        if tokenizer.mask_token_id is None:
            raise HostError(f"{type(tokenizer).__name__} has no mask token; give a masked LM")
        self.name, self.tokenizer = name or type(model).__name__, tokenizer
        self._model = model.eval()
        n_positions = getattr(model.config, "max_position_embeddings", MAX_WORDS)
        n_positions -= hosts.own_position_offset(model)
        self.max_words = min(MAX_WORDS, n_positions, int(tokenizer.model_max_length))
        self._masks: Tensor | None = None
        expected = self._own_logits()
        self._decoder = self._take_decoder()
        _last_place(model.base_model).register_forward_hook(self._keep_masks)
        self._check(expected)

    @classmethod
    def open(cls, name: str) -> PlainMaskedLM:
        """Raises `HostError` where the head over words was never trained."""
        with hosts.only_errors():
            try:
                model, info = hosts.open_pretrained(
                    AutoModelForMaskedLM, name, output_loading_info=True
                )
            except HostError as error:
                if isinstance(error.__cause__, ValueError):
                    raise _no_masked_lm(name, error) from error
                raise
        missing = sorted(info["missing_keys"])
        if missing:
            raise HostError(
                f"{name} has no trained head over words (missing: {', '.join(missing)}); {REMEDY}"
            )
        require_finite(model, name)
        return cls(model, hosts.load_tokenizer(name), name=name)

    def samples(self, questions: Sequence[Question]) -> list[Sample]:
        texts = [question.linked for question in questions]
        _, encoded = words_around_masks(texts, self.tokenizer, self.max_words or MAX_WORDS)
        samples = []
        for words in encoded:
            ids = torch.from_numpy(words.ids).long()
            segments = torch.from_numpy(words.segment_ids).long()
            samples.append(Sample(ids, mask_places(ids, self.tokenizer), segments))
        return samples

    @torch.inference_mode()
    def states(self, samples: Sequence[Sample]) -> Float[Tensor, "sample mask embedding"]:
        pad = nn.utils.rnn.pad_sequence
        ids = [sample.ids for sample in samples]
        inputs = {
            "input_ids": pad(ids, batch_first=True, padding_value=self.tokenizer.pad_token_id),
            "attention_mask": pad([torch.ones_like(row) for row in ids], batch_first=True),
        }
        if any(bool(sample.body.any()) for sample in samples):
            inputs["token_type_ids"] = pad([sample.body for sample in samples], batch_first=True)
        self._masks = torch.tensor([sample.masks for sample in samples])
        try:
            on_device = {name: value.to(self._model.device) for name, value in inputs.items()}
            logits: Tensor = self._model(**on_device).logits
        finally:
            self._masks = None
        return logits

    def words(self) -> tuple[Float[Tensor, "word embedding"], Float[Tensor, " word"] | None]:
        return self._decoder.weight.detach(), (
            None if self._decoder.bias is None else self._decoder.bias.detach()
        )

    def _keep_masks(self, module: nn.Module, args: Any, output: Any) -> Any:
        """The module's output, with the states at the masks alone."""
        assert self._masks is not None
        rows = torch.arange(len(self._masks))[:, None]
        if isinstance(output, Tensor):
            return output[rows, self._masks]
        if isinstance(output, tuple):
            return output[0][rows, self._masks], *output[1:]
        output.last_hidden_state = output.last_hidden_state[rows, self._masks]
        return output

    def _take_decoder(self) -> nn.Linear:
        decoder = self._model.get_output_embeddings()
        names = [name for name, module in self._model.named_modules() if module is decoder]
        if not isinstance(decoder, nn.Linear) or not names:
            raise HostError(
                f"{type(self._model).__name__} has no linear layer over words at its end"
            )
        for module_name in names:
            self._model.set_submodule(module_name, nn.Identity())
        return decoder

    @torch.inference_mode()
    def _own_logits(self) -> Tensor:
        """The model's own logits at one mask, before anything is taken out of it."""
        (sample,) = self.samples([_trial(self.tokenizer)])
        logits: Tensor = self._model(input_ids=sample.ids[None].to(self._model.device)).logits
        return logits[0, list(sample.masks)]

    def _check(self, expected: Tensor) -> None:
        """Ours must equal the model's own logits: some heads do more after their matrix."""
        states = self.states(self.samples([_trial(self.tokenizer)]))[0]
        weight, bias = self.words()
        fits = states.shape[-1] == weight.shape[1]
        if not fits or not torch.allclose(F.linear(states, weight, bias), expected, atol=1e-3):
            raise HostError(
                f"the head of {type(self._model).__name__} is more than a layer before a matrix of "
                "words; it cannot be probed"
            )


def _no_masked_lm(name: str, error: HostError) -> HostError:
    """The error that a model is of a kind that cannot be probed, by its model type."""
    kind = model_type_of(name)
    if not kind:
        return HostError(f"{name} is not a masked LM: {error}; {REMEDY}")
    return HostError(
        f"{name} has model type {kind!r}, which is not a masked LM and none of the decoders "
        f"that can "
        f"be probed ({', '.join(DECODERS)}); give a model of one of these types, or {REMEDY}"
    )


def _last_place(base: nn.Module) -> nn.Module:
    """Return the last module that mixes nodes: the last layer's attention, else the base model.

    After it nodes are independent, so that the masks alone suffice.
    """
    layers = getattr(getattr(base, "encoder", None), "layer", None)
    return getattr(layers[-1], "attention", base) if layers else base


def _trial(tokenizer: Any) -> Question:
    return Question(LinkedText(f"a {tokenizer.mask_token} .", ()), "trial")
