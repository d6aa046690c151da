"""Wikipedia2Vec: words and entities in one space, by three skip-grams that share their vectors.

Yamada, Shindo, Takeda and Takefuji 2016, "Joint Learning of the Embedding of Words and Entities
for Named Entity Disambiguation" (CoNLL), sections 3.1 to 3.3; Yamada et al. 2020, "Wikipedia2Vec"
(EMNLP demonstrations), section 3: a word predicts the words around it, an entity its neighbours in
the link graph, and a link's entity and the words around the link each other.

Axis legend: text, token, link, place (of a window), pair, negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.joint.corpus import Corpus, Ints
from kept.joint.skip_gram import Tables, keep_table, noise_table, sigmoids, update
from kept.joint.training import chunks, permutation
from kept.randomness import generator

MAX_NOISE = 10_000_000


@dataclass(frozen=True, eq=False)
class Pairs:
    """Items `inputs [pair]` that predict `outputs [pair]`; `places [pair]` say for which text."""

    inputs: Ints
    outputs: Ints
    places: Ints

    @classmethod
    def of(
        cls, inputs: NDArray[np.integer], outputs: NDArray[np.integer], positions: Ints
    ) -> Pairs:
        """Of items of any kind of integer."""
        return cls(*(np.asarray(part, np.int64) for part in (inputs, outputs, positions)))

    @classmethod
    def concatenate(cls, *parts: Pairs) -> Pairs:
        """All pairs, by place; of one place, in the order of the parts."""
        columns = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("inputs", "outputs", "places")
        )
        inputs, outputs, positions = columns
        order = np.argsort(positions, kind="stable")
        return cls(inputs[order], outputs[order], positions[order])


class Keep:
    """Which tokens stay: each time that one is asked for, it is drawn anew."""

    def __init__(self, corpus: Corpus, sample: float) -> None:
        self._last = keep_table(corpus.word_counts, sample)

    def __call__(self, words: NDArray[np.integer], draws: np.random.Generator) -> NDArray[np.bool_]:
        """Bool of the shape of `words`, word ids; False for -1."""
        random_bits = draws.integers(0, 1 << 32, words.shape, np.uint32)
        kept: NDArray[np.bool_] = (words >= 0) & (random_bits <= self._last[words])
        return kept


def word_pairs(
    corpus: Corpus, texts: Ints, *, window: int, keep: Keep, draws: np.random.Generator
) -> Pairs:
    """A word and each word around it (2016, equation 1), in windows of 1 to `window` tokens.

    Window sizes are drawn evenly, for each word anew; the released code lets them only shrink
    within a page.
    """
    begin, end = corpus.text_offsets[texts], corpus.text_offsets[texts + 1]
    text_rows = np.repeat(np.arange(len(texts)), end - begin)
    centre = _ranges(begin, end)
    words = corpus.tokens[centre]
    sizes = draws.integers(1, window, len(centre), endpoint=True)
    steps = np.concatenate([np.arange(-window, 0), np.arange(1, window + 1)])
    around = centre[:, None] + steps
    inside = (around >= begin[text_rows][:, None]) & (around < end[text_rows][:, None])
    inside &= (np.abs(steps) <= sizes[:, None]) & keep(words, draws)[:, None]
    others = np.where(inside, corpus.tokens[np.where(inside, around, 0)], -1)
    row, column = np.nonzero(keep(others, draws))
    return Pairs.of(words[row], others[row, column], text_rows[row])


def link_pairs(
    corpus: Corpus, texts: Ints, *, window: int, keep: Keep, draws: np.random.Generator
) -> Pairs:
    """A link's entity and each word around the link (2016, equation 4), both ways in turn."""
    begin, end = corpus.link_offsets[texts], corpus.link_offsets[texts + 1]
    text_rows = np.repeat(np.arange(len(texts)), end - begin)
    entity, first, last = corpus.links[_ranges(begin, end)].T
    sizes = draws.integers(1, window, len(entity), endpoint=True)[:, None]
    left, right = np.arange(-window, 0), np.arange(window)
    around = np.concatenate([first[:, None] + left, last[:, None] + right], 1)
    far = np.concatenate([-left, right + 1])
    inside = around >= corpus.text_offsets[texts][text_rows][:, None]
    inside &= (around < corpus.text_offsets[texts + 1][text_rows][:, None]) & (far <= sizes)
    others = np.where(inside, corpus.tokens[np.where(inside, around, 0)], -1)
    row, column = np.nonzero(keep(others, draws))
    both = np.stack([entity[row], others[row, column]], 1)
    return Pairs.of(both.ravel(), both[:, ::-1].ravel(), np.repeat(text_rows[row], 2))


def edge_pairs(corpus: Corpus, entities: Ints, positions: Ints) -> Pairs:
    """Entities (items) and each of their neighbours in the graph (2016, equation 3)."""
    rows = entities - len(corpus.words)
    begin, end = corpus.edge_offsets[rows], corpus.edge_offsets[rows + 1]
    edges = corpus.edges[_ranges(begin, end)]
    return Pairs.of(edges[:, 0], edges[:, 1], np.repeat(positions, end - begin))


@dataclass(frozen=True, kw_only=True)
class Wikipedia2VecSettings:
    """Hyper-parameters; those of the toolkit, but for `entities_per_page` (there 10).

    A page here is mostly a sentence; a step takes `pages_per_step`. `batch_pairs` pairs read the
    same vectors; one by one they are the released code's. 0 `entities_per_page` leaves the graph
    out.
    """

    window: int = 5
    negatives: int = 5
    epochs: int = 5
    learning_rate: float = 0.025
    min_learning_rate: float = 0.0001
    sample: float = 1e-4
    word_power: float = 0.75
    entity_power: float = 0.0
    entities_per_page: int = 1
    batch_pairs: int = 512
    pages_per_step: int = 256


class Wikipedia2Vec:
    """The model over a corpus: its tables, and steps over pages.

    Draws are named by `seed` and the step, so that a step is the same in any process.
    """

    def __init__(
        self, corpus: Corpus, settings: Wikipedia2VecSettings, tables: Tables, *, seed: int
    ) -> None:
        self.corpus, self.settings, self.tables, self.seed = corpus, settings, tables, seed
        self.keep = Keep(corpus, settings.sample)
        n_words, counts = len(corpus.words), (corpus.word_counts, corpus.entity_counts)
        sizes = [min(MAX_NOISE, max(100_000, 200 * len(part))) for part in counts]
        words, entities = (
            noise_table(part, power, size)
            for part, power, size in zip(
                counts, (settings.word_power, settings.entity_power), sizes, strict=True
            )
        )
        self._noise = words, n_words + entities
        self._sigmoids = sigmoids()
        self.n_pages = int(corpus.pages.max()) + 1
        self._by_page = np.argsort(corpus.pages, kind="stable")
        self._parts = chunks(self.n_pages, settings.pages_per_step)
        self.n_steps = len(self._parts)

    def step(self, epoch: int, number: int, done: float) -> tuple[float, int]:
        """See `kept.joint.training.Space`."""
        settings, begin, end = self.settings, *self._parts[number]
        pages = permutation(self.seed, "pages", epoch, self.n_pages)[begin:end]
        numbers = epoch * self.n_pages + np.arange(begin, end)
        n_all = settings.epochs * self.n_pages
        rates = page_rates(numbers, n_all, settings.learning_rate, settings.min_learning_rate)
        return self.train(pages, rates, self.schedule(numbers), epoch, number)

    def schedule(self, numbers: Ints) -> Ints:
        """The entities (items) that go before the pages of these `numbers`, of all passes.

        All entities in a permutation, then in another: `[page entities_per_page]`.
        """
        n, n_entities = self.settings.entities_per_page, len(self.corpus.entities)
        positions = numbers[:, None] * n + np.arange(n)
        turns = {
            int(turn): permutation(self.seed, "entities", int(turn), n_entities)
            for turn in np.unique(positions // n_entities)
        }
        targets = [turns[at // n_entities][at % n_entities] for at in positions.ravel().tolist()]
        return len(self.corpus.words) + np.array(targets, np.int64).reshape(positions.shape)

    def state(self) -> dict[str, Tensor]:
        """See `kept.joint.training.Space`."""
        return vars(self.tables)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """See `kept.joint.training.Space`."""
        for name, tensor in self.state().items():
            tensor.copy_(state[name])

    def train(
        self, pages: Ints, rates: NDArray[np.float64], entities: Ints, *key: int
    ) -> tuple[float, int]:
        """Train on `pages [page]`, each at its rate; returns the sum of losses and their number.

        `entities [page entities_per_page]` are the items whose neighbours go before each page's
        texts. `key` names the draws.
        """
        draws = generator(self.seed, "joint", *key)
        pairs = self.pairs(pages, entities, draws)
        page_rates = torch.from_numpy(rates[pairs.places]).float()
        negatives = torch.from_numpy(self.negatives(pairs.outputs, draws))
        inputs, outputs = torch.from_numpy(pairs.inputs), torch.from_numpy(pairs.outputs)
        total, n, step = 0.0, 0, self.settings.batch_pairs
        for start in range(0, len(inputs), step):
            rows = slice(start, start + step)
            loss, n_used = update(
                self.tables,
                inputs[rows],
                outputs[rows],
                negatives[rows],
                page_rates[rows],
                self._sigmoids,
            )
            total, n = total + float(loss), n + n_used
        return total, n

    def pairs(self, pages: Ints, entities: Ints, draws: np.random.Generator) -> Pairs:
        """All pairs of these pages in turn: of the graph, then text by text, words before links."""
        texts, positions = self._texts(pages)
        window, keep = self.settings.window, self.keep
        words = word_pairs(self.corpus, texts, window=window, keep=keep, draws=draws)
        links = link_pairs(self.corpus, texts, window=window, keep=keep, draws=draws)
        by_text = Pairs.concatenate(words, links)
        by_page = Pairs(by_text.inputs, by_text.outputs, positions[by_text.places])
        each = np.repeat(np.arange(len(pages)), entities.shape[1])
        return Pairs.concatenate(edge_pairs(self.corpus, entities.ravel(), each), by_page)

    def negatives(self, outputs: Ints, draws: np.random.Generator) -> Ints:
        """Items of the kind of each output, `[pair negative]`."""
        n_words, shape = len(self.corpus.words), (len(outputs), self.settings.negatives)
        negatives = np.empty(shape, np.int64)
        for is_kind, noise in zip(
            (outputs < n_words, outputs >= n_words), self._noise, strict=True
        ):
            rows = draws.integers(0, len(noise), (int(is_kind.sum()), shape[1]))
            negatives[is_kind] = noise[rows]
        return negatives

    def _texts(self, pages: Ints) -> tuple[Ints, Ints]:
        """The texts of the pages in turn, and the place of each one's page."""
        order = self._by_page
        numbers = self.corpus.pages[order]
        begin, end = (np.searchsorted(numbers, pages, side) for side in ("left", "right"))
        return order[_ranges(begin, end)], np.repeat(np.arange(len(pages)), end - begin)


def page_rates(
    numbers: NDArray[np.integer], n: int, first: float, least: float
) -> NDArray[np.float64]:
    """The learning rates of the pages `numbers` among all `n` of all passes: falling to `least`."""
    return np.maximum(least, first * (1 - numbers / n))


def _ranges(begin: Ints, end: Ints) -> Ints:
    """All whole numbers from each `begin` to below its `end`, one range after another."""
    lengths = end - begin
    shifts = np.repeat(begin - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return np.asarray(shifts + np.arange(lengths.sum()), np.int64)
