"""K-BERT: facts written into the sentence, separated by soft positions and a visible matrix.

Liu et al. 2020, "K-BERT: Enabling Language Representation with Knowledge Graph" (AAAI), section 3.
The knowledge is in the batch (`kept.graphs.views.kbert`): a sentence tree, flattened, with soft
positions and a visible matrix. The model is the host itself and adds no parameters, so that it
works in fine-tuning and at inference without any pre-training.

Axis legend: batch, node, width, embedding.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from kept import hosts
from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeConfig, KnowledgeEncoder
from kept.encoders.pieces import piece_vectors
from kept.errors import BatchError, ConfigError
from kept.host_families import n_segments
from kept.layers.uer_norm import use_uer_norm
from kept.outputs import KnowledgeOutput

UER_HIDDEN = -10_000.0


class KBERTConfig(KnowledgeConfig):
    """Differences from the released model; the defaults are the host's own.

    `layer_norm`: "host", or "uer" (`UERLayerNorm` everywhere, as released weights need). `mask`:
    "host" masks completely; "uer" adds -10000 to the scores of masked nodes, and padded nodes see
    nothing, so they attend to everything evenly (equation 3; released code). `segment_offset`: row
    of the segment table for the first text; with 1, row 0 is left to padding (the released code
    hands its mask, 0 at padding, then 1 and 2, to the segment table). `pooler`: whether the host
    keeps its pooler; UER encoders have none.
    """

    model_type = "kept-kbert"

    def __init__(
        self,
        *,
        layer_norm: str = "host",
        mask: str = "host",
        segment_offset: int = 0,
        pooler: bool = True,
        **options: Any,
    ) -> None:
        faults = [
            f"{name} {value!r}: 'host' or 'uer'"
            for name, value in (("layer_norm", layer_norm), ("mask", mask))
            if value not in ("host", "uer")
        ]
        if segment_offset not in (0, 1):
            faults.append(f"segment_offset {segment_offset}: 0 or 1")
        if faults:
            raise ConfigError("KBERTConfig: " + "; ".join(faults))
        self.layer_norm, self.mask = layer_norm, mask
        self.segment_offset, self.pooler = segment_offset, pooler
        super().__init__(**options)


class KBERT(KnowledgeEncoder):
    """The host over words and verbalised facts, whose `node_ids` are all word pieces.

    Where we differ from the released code: masked nodes are masked completely, not by -10000, and a
    padded node sees itself instead of everything; both are options of `KBERTConfig`.
    """

    config_class = KBERTConfig

    holds_rows = False

    def __init__(self, config: KBERTConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        if config.mask != "host":
            hosts.require_bert_layers(self.host, f"K-BERT with mask={config.mask!r}")
        if config.layer_norm == "uer":
            use_uer_norm(self.host)
        if not config.pooler:
            self.host.pooler = None
        n_rows = n_segments(self.host.config)
        if config.segment_offset >= n_rows:
            raise ConfigError(f"segment_offset 1 needs a host with 2 segments, this has {n_rows}")
        self.post_init()

    def word_vectors(self, batch: KnowledgeBatch) -> Float[Tensor, "batch node embedding"]:
        """The host's own embedding of every node; raises `BatchError` for an unknown piece."""
        return piece_vectors(self.host, batch)

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """Return the states of every node; those of padding are meaningless."""
        segments = batch.segment_ids + self.config.segment_offset * batch.node_mask
        positions = hosts.own_positions(self.host, batch.positions)
        hidden = hosts.embed(self.host, self.word_vectors(batch), positions, segments)
        if self.config.mask == "host":
            states = hosts.run(
                self.host,
                hidden,
                batch.visibility,
                batch.node_mask,
                batch.node_weights,
                positions=batch.positions,
            )
        else:
            states = self._run_released(hidden, batch)
        return KnowledgeOutput.of(states)

    def _run_released(self, hidden: Tensor, batch: KnowledgeBatch) -> tuple[Tensor, ...]:
        """`hosts.run` with -10000 added where a node is masked; padded nodes see everything."""
        if batch.node_weights is not None:
            raise BatchError("the released mask cannot weigh links; use mask='host'")
        visible = batch.visibility.mask & batch.node_mask[:, :, None]
        added = (~visible).unsqueeze(1).to(self.host.dtype) * UER_HIDDEN
        states = [hidden]
        for layer in hosts.layers(self.host):
            states.append(layer(states[-1], added))
        return tuple(states)
