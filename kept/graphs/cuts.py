"""What is lost where texts are cut to a number of word pieces: pieces, and mentions behind the cut.

Axis legend: text, link (of all texts).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entity_linking.alignment import pieces_of_all
from entity_linking.mentions import LinkedText
from kept.graphs.builder import BuilderConfig
from kept.graphs.words import Words, encode_words
from kg_loaders.counting import counted

UNCUT = 1 << 24
"""A number of word pieces that cuts no text."""
TEXTS_PER_CALL = 1024


_log = logging.getLogger("kept")


@dataclass(frozen=True)
class Cut:
    """How many of `n_texts` were cut at `max_words` word pieces, and what that lost.

    Pieces are those of the texts, without special ones; of `n_links_lost` of `n_links` no piece is
    left. `n_windowed` texts were read in `n_windows` windows, of at most that length.
    """

    max_words: int
    n_texts: int
    n_cut: int
    n_pieces: int
    n_pieces_lost: int
    n_links: int
    n_links_lost: int
    n_windowed: int = 0
    n_windows: int = 0

    @property
    def has_long(self) -> bool:
        """Whether any text was too long to be read at once."""
        return bool(self.n_cut or self.n_windowed)

    def __add__(self, other: Cut) -> Cut:
        """The counts of both together, cut at the same number of word pieces."""
        sums = {name: n + getattr(other, name) for name, n in asdict(self).items()}
        return Cut(**sums | {"max_words": self.max_words})

    def as_json(self) -> dict[str, int]:
        """The counts, as metrics files hold them; those of windows where there are any."""
        of_windows = () if self.n_windowed else ("n_windowed", "n_windows")
        return {name: n for name, n in asdict(self).items() if name not in of_windows}

    def __str__(self) -> str:
        share = self.n_pieces_lost / max(self.n_pieces, 1)
        cut = (
            f"{self.n_cut} of {counted(self.n_texts, 'texts')} cut at "
            f"{counted(self.max_words, 'word pieces')} "
            f"({share:.0%} of the pieces, {self.n_links_lost} of "
            f"{counted(self.n_links, 'links')} lost)"
        )
        if not self.n_windowed:
            return cut
        windows = (
            f"{self.n_windowed} of {counted(self.n_texts, 'texts')} read in "
            f"{counted(self.n_windows, 'windows')} of "
            f"{self.max_words} word pieces"
        )
        return f"{windows}; {cut}" if self.n_cut else windows


def cut_of(
    texts: Sequence[LinkedText],
    words: Words,
    offsets: NDArray[np.int64],
    tokenizer: Any,
    max_words: int,
) -> tuple[Cut, NDArray[np.bool_]]:
    """Return what the pieces of `texts`, cut to `max_words`, have lost, and which links: `[link]`.

    `words` are flat, text `i` has those from `offsets[i]` to `offsets[i + 1]`. Only texts that fill
    `max_words` are encoded once more, whole.
    """
    full = np.flatnonzero(np.diff(offsets) >= max_words).tolist()
    n_kept = int((words.spans[:, 0] >= 0).sum())
    n_lost = n_cut = 0
    first_links = np.cumsum([0, *(len(text.links) for text in texts)])
    lost_links = np.zeros(first_links[-1], np.bool_)
    for start in range(0, len(full), TEXTS_PER_CALL):
        chunk = full[start : start + TEXTS_PER_CALL]
        wholes = encode_words(
            [texts[i].text for i in chunk],
            tokenizer,
            max_words=UNCUT,
            pair_starts=[texts[i].pair_start for i in chunk],
        )
        for i, whole in zip(chunk, wholes, strict=True):
            kept = words.spans[offsets[i] : offsets[i + 1]]
            lost = int((whole.spans[:, 0] >= 0).sum() - (kept[:, 0] >= 0).sum())
            n_lost, n_cut = n_lost + lost, n_cut + (lost > 0)
            if lost:
                lost_links[first_links[i] : first_links[i + 1]] = _without_pieces(texts[i], kept)
    cut = Cut(
        max_words=max_words,
        n_texts=len(texts),
        n_cut=n_cut,
        n_pieces=n_kept + n_lost,
        n_pieces_lost=n_lost,
        n_links=len(lost_links),
        n_links_lost=int(lost_links.sum()),
    )
    return cut, lost_links


def cut_of_each(
    texts: Sequence[LinkedText], words: Sequence[Words], tokenizer: Any, max_words: int
) -> Cut:
    """Return `cut_of` of texts whose pieces are apart, `words` of each."""
    offsets = np.cumsum([0, *(len(each.ids) for each in words)], dtype=np.int64)
    spans = [np.zeros((0, 2), np.int32), *(each.spans for each in words)]
    flat = Words(np.zeros(int(offsets[-1]), np.int32), np.concatenate(spans))
    return cut_of(texts, flat, offsets, tokenizer, max_words)[0]


def cut_of_rows(
    texts: Sequence[LinkedText],
    words: Sequence[Words],
    rows: Sequence[Sequence[Words]],
    max_words: int,
    *,
    are_windows: bool = False,
) -> tuple[Cut, NDArray[np.bool_]]:
    """Return what is in no row of texts that are read in several: windows, or a row a choice.

    `words` are all the pieces of each text, `rows` its rows of at most `max_words` pieces. Texts of
    several rows are counted where these `are_windows`.
    """
    n_pieces = n_lost = n_cut = 0
    lost_links = []
    for text, whole, of_text in zip(texts, words, rows, strict=True):
        spans = np.unique(np.concatenate([row.spans for row in of_text]), axis=0)
        in_text = np.unique(whole.spans[whole.spans[:, 0] >= 0], axis=0)
        n = len(in_text) - int((spans[:, 0] >= 0).sum())
        n_pieces, n_lost, n_cut = n_pieces + len(in_text), n_lost + n, n_cut + (n > 0)
        is_lost = _without_pieces(text, spans) if n else np.zeros(len(text.links), np.bool_)
        lost_links.append(is_lost)
    lost = np.concatenate([np.zeros(0, np.bool_), *lost_links])
    several = [len(of_text) for of_text in rows if are_windows and len(of_text) > 1]
    counts = (len(texts), n_cut, n_pieces, n_lost, len(lost), int(lost.sum()))
    return Cut(max_words, *counts, len(several), sum(several)), lost


def _without_pieces(text: LinkedText, spans: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Which links of a text have no piece among `spans [word 2]`: `[link]`."""
    mentions = [(link.mention.start, link.mention.end) for link in text.links]
    pieces = pieces_of_all(spans, np.array(mentions, np.int64).reshape(-1, 2))
    return pieces[:, 0] >= pieces[:, 1]


def longer_texts(builder: BuilderConfig, n_positions: int) -> str:
    """Return the settings with which a host of `n_positions` reads texts of that length; "" where
    they are read already."""
    if n_positions <= builder.max_words:
        return ""
    n_nodes = n_positions if builder.replace_mentions else 2 * n_positions
    settings = f"--set graph.max_words={n_positions}"
    if n_nodes > builder.max_nodes:
        settings += f" --set graph.max_nodes={n_nodes}"
    return settings


def report_cut(cut: Cut, remedy: str) -> None:
    """Log what was cut, and what helps; what was read in windows is no warning."""
    if cut.n_cut:
        _log.warning("%s; %s", cut, remedy)
    elif cut.n_windowed:
        _log.info("%s", cut)
