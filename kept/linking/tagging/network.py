"""The network of the tagger: a host's first layers that also see how words are written.

    h = layers(embed(word pieces) + shape(word));  p(tag | word) = softmax(W h(its first piece))

Devlin et al. 2019 (NAACL), section 5.3, tag by the first piece of each word; the shapes are ours,
as hosts that lower-case text cannot tell "Bank" from "bank". They begin with no effect.

Axis legend: chunk, piece, word, width, tag.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from kept.hosts import n_positions, word_table
from kept.linking.first_layers import cut
from kept.linking.tagging.pieces import MOST_PIECES, Chunk, Shape


class TaggerNetwork(nn.Module):
    """`n_layers` of `host` (cut in place) and a linear layer over `n_tags`.

    The host's embeddings stay as they are: they learn nothing from a few thousand names, and are
    not saved with the rest (`trained`).
    """

    def __init__(self, host: PreTrainedModel, *, n_layers: int, n_tags: int) -> None:
        super().__init__()
        cut(host, n_layers)
        self.host = host
        self.shapes = nn.Embedding(len(Shape), word_table(host).embedding_dim)
        nn.init.zeros_(self.shapes.weight)
        self.dropout = nn.Dropout(0.1)
        self.tags = nn.Linear(int(host.config.hidden_size), n_tags)
        nn.init.normal_(self.tags.weight, std=0.02)
        nn.init.zeros_(self.tags.bias)

    @property
    def most_pieces(self) -> int:
        """Of a chunk: `MOST_PIECES`, or what the host has positions for."""
        return min(MOST_PIECES, n_positions(self.host) - 2)

    def trained(self) -> dict[str, Tensor]:
        """The weights that training changes, by name."""
        frozen = {f"host.embeddings.{name}" for name in self.host.embeddings.state_dict()}
        state = self.state_dict()
        return {name: state[name].detach() for name in sorted(state) if name not in frozen}

    def load_trained(self, weights: dict[str, Tensor]) -> None:
        """Take over what `trained` gave; `RuntimeError` when names or shapes differ."""
        if weights.keys() != self.trained().keys():
            raise RuntimeError(f"weights {sorted(weights.keys() ^ self.trained().keys())} differ")
        self.load_state_dict(weights, strict=False)

    def forward(self, pieces: Tensor, shapes: Tensor, keep: Tensor) -> Tensor:
        """Logits `[chunk piece tag]`; `keep` is True at real pieces."""
        vectors = word_table(self.host)(pieces) + self.shapes(shapes)
        mask = None if bool(keep.all()) else keep
        states = self.host(inputs_embeds=vectors, attention_mask=mask).last_hidden_state
        logits: Tensor = self.tags(self.dropout(states))
        return logits


def batch_of(
    chunks: Sequence[Chunk], *, first: int, last: int, padding: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Pieces between the special ones `first` and `last`, shapes, and what is real: all
    `[chunk piece]`."""
    widest = max(len(chunk.pieces) for chunk in chunks) + 2
    pieces = torch.full((len(chunks), widest), padding)
    shapes = torch.zeros((len(chunks), widest), dtype=torch.int64)
    for row, chunk in enumerate(chunks):
        n = len(chunk.pieces)
        pieces[row, : n + 2] = torch.tensor([first, *chunk.pieces, last])
        shapes[row, 1 : n + 1] = torch.tensor(chunk.piece_shapes)
    return pieces, shapes, pieces != padding
