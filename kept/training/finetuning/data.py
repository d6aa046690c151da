"""Examples of any task as training data for any method.

Axis legend: item (an example), target, class, word (word pieces).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress, islice, pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from entity_linking.alignment import pieces_of_all
from entity_linking.mentions import LinkedText, Mention
from kept import hosts
from kept.batches import IGNORE, KnowledgeBatch
from kept.errors import ConfigError, NoControlError
from kept.graphs.builder import BuilderConfig, Exclusion, join_all, join_words
from kept.graphs.coverage import Coverage, coverage_of, require_read
from kept.graphs.cuts import TEXTS_PER_CALL, UNCUT, cut_of, cut_of_rows, longer_texts
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.places import target_spans
from kept.graphs.views import View
from kept.graphs.views.base import row
from kept.graphs.windows import Long, TextWindow, around_targets, windows_of
from kept.graphs.words import Words, encode_words
from kept.heads.span import Span, SpanOptions, Window, best_spans, score_of_none
from kept.inputs.controls.conditions import EntityMap, Knowledge, controlled_text
from kept.inputs.flat_texts import (
    encode_texts,
    linked_entities,
    node_bounds,
    without_candidates,
)
from kept.randomness import generator, is_unused
from kept.tasks.datasets.class_labels import listed
from kept.tasks.datasets.formats import TaskExample
from kept.tasks.kinds import OUTSIDE, task_kind
from kept.training.finetuning.markers import MARKERS, mark_targets
from kept.training.finetuning.windows import choice_pieces, choice_rows, n_pieces, windows
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted

CUT = "a target was cut off with the text"
SAMPLES_COMPARED = 64
MOST_STORED = 1 << 14
"""Samples that are kept from one epoch to the next: some 100 MB of texts of fifty nodes."""
LINK_FIELDS = frozenset({"mention_spans", "mention_labels", "mention_weights"})
"""What a view of the words alone says about links: for objectives; no encoder reads it."""


def apply_condition(
    examples: Sequence[TaskExample],
    *,
    markers: str,
    knowledge: Knowledge,
    entities: EntityMap | None = None,
) -> list[TaskExample]:
    """Examples with marked targets and the links that `knowledge` leaves (see `controlled_text`).

    Pair and unmarked text stay: they also say which examples are not independent.
    """
    changed = []
    for example in examples:
        linked = controlled_text(example.linked, knowledge, entities)
        linked, targets = mark_targets(linked, example.targets, MARKERS[markers])
        changed.append(
            dataclasses.replace(example, linked=linked, targets=targets, source=example.unmarked)
        )
    return changed


class TaskData:
    """Word-knowledge graphs of `examples` as a method's `view` shows them, with their labels.

    Facts between the two entities of an example's pair are never shown. A batch has
    `target_spans` and, unless `labels` (class to number) is None, what the task's loss reads.
    `relink` changes the links of a text, and no word, whenever it is read, by a generator of the
    sample and epoch.
    A text whose target lies behind `max_words` is read in a window around its targets. Where these
    are too far apart, or the text is a pair, the example is left out, counted in `skipped` and put
    into `cut_off`; where the *view* then cuts a target, it is read at the first node. A word
    without a node is not evaluated.
    `long` "windows": a text of which tags or one answer are wanted, without targets in it, is read
    in windows where it is too long (`kept.graphs.windows`). For one answer these are rows of its
    sample, numbered by `window_ids`; for tags each is an example in training, with the words that
    it is nearest to, and a row in evaluation. "cut": its first pieces are read.
    For spans (`spans`) a sample is a row a window of its context, none is cut; `labels` are the
    first and last node of the answer, (0, 0) where a window does not hold it, and without labels
    `target_spans` are the nodes of each piece of the context. Of choices it is a row a choice.
    """

    def __init__(
        self,
        examples: Sequence[TaskExample],
        graph: KnowledgeGraph,
        tokenizer: Any,
        *,
        builder: BuilderConfig,
        view: View,
        problem_type: str,
        labels: Mapping[str, int] | None,
        relink: Callable[[LinkedText, np.random.Generator], LinkedText] | None = None,
        spans: SpanOptions | None = None,
        long: Long = "cut",
    ) -> None:
        self.graph, self.builder, self.view = graph, builder, view
        self._relink = relink
        self.problem_type, self.labels = problem_type, labels
        self.kind = kind = task_kind(problem_type)
        self._word_pad_id = hosts.padding_id(tokenizer)
        texts = [example.linked for example in examples]
        self.spans = spans or SpanOptions() if kind.rows == "windows" else None
        self._most_words = view.most_words(builder)
        has_windows = kind.rows != "one"
        n_words = UNCUT if has_windows else builder.max_words
        flat, offsets = encode_texts(texts, tokenizer, n_words)
        words = [flat[slice(start, stop)] for start, stop in pairwise(offsets.tolist())]
        sure = words
        if not has_windows and self._most_words < n_words:  # the view cuts after the builder
            n_words = self._most_words
            flat, offsets = encode_texts(texts, tokenizer, n_words)
            sure = [flat[slice(start, stop)] for start, stop in pairwise(offsets.tolist())]
        self.cut, lost = cut_of(texts, flat, offsets, tokenizer, n_words)
        fits: list[bool] = [
            not kind.needs_whole_targets or _are_whole(targets_found, example.targets)
            for targets_found, example in zip(sure, examples, strict=True)
        ]
        if not all(fits):
            self._move_windows(examples, words, fits, tokenizer, lost)
        self.indices = np.flatnonzero(fits)
        cut_off = np.flatnonzero(~np.array(fits, np.bool_)).tolist()
        self.cut_off = [_slim(examples[i], view) for i in cut_off]
        self.skipped = {CUT: len(cut_off)} if cut_off else {}
        self.examples = [_slim(examples[i], view) for i in self.indices.tolist()]
        self._words = [words[i] for i in self.indices.tolist()]
        of_text = np.repeat(np.arange(len(texts)), [len(text.links) for text in texts])
        self._lost_links = lost[np.isin(of_text, self.indices)]
        self._windows = [[whole] for whole in self._words]
        if self.spans is not None:
            self._windows = [
                windows(whole, context_of(e), max_words=self._most_words, options=self.spans)
                for whole, e in zip(self._words, self.examples, strict=True)
            ]
        elif kind.rows == "choices":
            self._windows = [
                choice_rows(whole, context_of(e), e.targets, max_words=self._most_words)
                for whole, e in zip(self._words, self.examples, strict=True)
            ]
        self._text_windows: dict[int, list[TextWindow]] = {}
        if has_windows:
            every = self._words
            if kind.rows == "choices":
                every = [
                    choice_pieces(whole, context_of(e), e.targets)
                    for whole, e in zip(self._words, self.examples, strict=True)
                ]
            self.cut, self._lost_links = cut_of_rows(
                self._texts,
                every,
                self._windows,
                builder.max_words,
                are_windows=self.spans is not None,
            )
        elif long == "windows":
            self._open_windows(tokenizer)
        self._hidden = [exclusion(example, graph) for example in self.examples]
        self._stored: dict[int, list[KnowledgeBatch]] = {}
        self._teacher: Tensor | None = None
        self._bounds = self._node_bounds()

    def _move_windows(
        self,
        examples: Sequence[TaskExample],
        words: list[Words],
        fits: list[bool],
        tokenizer: Any,
        lost: NDArray[np.bool_],
    ) -> None:
        """Put a window around the targets that were cut off into `words`, where there is one.

        `fits`, the links that are `lost` and their number follow.
        """
        texts = [example.linked for example in examples]
        first_links = np.cumsum([0, *(len(text.links) for text in texts)])
        cut_off = [i for i, fit in enumerate(fits) if not fit and texts[i].pair_start is None]
        most = min(self._most_words, self.builder.max_words)
        for start in range(0, len(cut_off), TEXTS_PER_CALL):
            chunk = cut_off[start : start + TEXTS_PER_CALL]
            wholes = encode_words([texts[i].text for i in chunk], tokenizer, max_words=UNCUT)
            for i, whole in zip(chunk, wholes, strict=True):
                window = around_targets(whole, examples[i].targets, max_words=most)
                if window is None:
                    continue
                words[i], fits[i] = window, True
                _, lost_here = cut_of_rows([texts[i]], [whole], [[window]], most)
                lost[first_links[i] : first_links[i + 1]] = lost_here
        self.cut = dataclasses.replace(self.cut, n_links_lost=int(lost.sum()))

    def _open_windows(self, tokenizer: Any) -> None:
        """Read the texts that were cut in windows, where they have no targets but words to tag."""
        most, texts = min(self._most_words, self.builder.max_words), self._texts
        first_links = np.cumsum([0, *(len(text.links) for text in texts)])
        cut_off = [
            i
            for i, (words, example) in enumerate(zip(self._words, self.examples, strict=True))
            if len(words.ids) >= most and (self.kind.labels_nodes or not example.targets)
        ]
        n_pieces_found = 0
        for start in range(0, len(cut_off), TEXTS_PER_CALL):
            chunk = cut_off[start : start + TEXTS_PER_CALL]
            pairs = [texts[i].pair_start for i in chunk]
            wholes = encode_words(
                [texts[i].text for i in chunk], tokenizer, max_words=UNCUT, pair_starts=pairs
            )
            for i, whole, pair_start in zip(chunk, wholes, pairs, strict=True):
                opened = windows_of(whole, max_words=most, pair_start=pair_start)
                if len(opened) < 2:
                    continue
                self._text_windows[i] = opened
                self._windows[i] = [window.words for window in opened]
                n_pieces_found += len(whole.ids) - most
                self._lost_links[first_links[i] : first_links[i + 1]] = [
                    not any(window.holds(texts[i].text, link.mention) for window in opened)
                    for link in texts[i].links
                ]
        self.cut = dataclasses.replace(
            self.cut,
            n_windowed=len(self._text_windows),
            n_windows=sum(map(len, self._text_windows.values())),
            n_cut=self.cut.n_cut - len(self._text_windows),
            n_pieces_lost=self.cut.n_pieces_lost - n_pieces_found,
            n_links_lost=int(self._lost_links.sum()),
        )
        if self._text_windows and self.kind.labels_nodes and self.labels is not None:
            self._part_examples()

    def _part_examples(self) -> None:
        """Make an example of each window, with the words that belong to it and their labels."""
        numbers: list[int] = []
        examples: list[TaskExample] = []
        words: list[Words] = []
        lost: list[NDArray[np.bool_]] = []
        ends = np.cumsum([len(text.links) for text in self._texts])
        of_text = np.split(self._lost_links, ends[:-1])
        for i, (example, whole) in enumerate(zip(self.examples, self._words, strict=True)):
            opened = self._text_windows.get(i)
            lost += [of_text[i]] * len(opened or [whole])
            if opened is None:
                numbers.append(i)
                examples.append(example)
                words.append(whole)
                continue
            for window in opened:
                is_inside = [*map(window.owns, example.targets)]
                part = dataclasses.replace(
                    example,
                    linked=window.text(example.linked),
                    targets=tuple(compress(example.targets, is_inside)),
                    labels=tuple(compress(example.labels, is_inside)),
                )
                numbers.append(i)
                examples.append(part)
                words.append(window.words)
        self.indices, self.examples, self._words = self.indices[numbers], examples, words
        self._windows, self._text_windows = [[whole] for whole in words], {}
        self._lost_links = np.concatenate(lost)

    def __len__(self) -> int:
        return len(self.examples)

    def __repr__(self) -> str:
        n_links = sum(len(example.linked.links) for example in self.examples)
        n_words = sum(len(words.ids) for words in self._words)
        return (
            f"TaskData({counted(len(self), 'texts')}, {counted(n_links, 'links')}, "
            f"{counted(n_words, 'word pieces')})"
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 over graph, examples, word pieces, view and every option."""
        digest = hashlib.sha256(self.graph.content_hash.encode())
        options = (dataclasses.asdict(self.builder), self.view.fingerprint, self.problem_type)
        policy = self.builder.policy
        name = policy if isinstance(policy, str) else f"{policy.__module__}.{policy.__qualname__}"
        options[0]["policy"] = name
        digest.update(repr((options, self.labels)).encode())
        if self.spans is not None:
            digest.update(repr(self.spans).encode())
        if self._relink is not None:
            digest.update(repr(self._relink).encode())
        if self._teacher is not None:
            digest.update(self._teacher.numpy().tobytes())
        for example, words in zip(self.examples, self._words, strict=True):
            digest.update(repr(example).encode())
            digest.update(words.ids.tobytes())
        for opened in self._text_windows.values():
            for window in opened:
                digest.update(window.words.ids.tobytes())
        return digest.hexdigest()

    def learn_from(self, logits: Float[Tensor, "item class"]) -> None:
        """Samples bring a teacher's logits too; a row for each of the examples that were given."""
        self._teacher = logits[torch.from_numpy(self.indices)]

    @cached_property
    def coverage(self) -> Coverage:
        """The number of examples in which the method is shown anything of the graph."""
        texts, targets = self._texts, [example.targets for example in self.examples]
        has_two = self.kind.asks_about_targets and all(
            len(targets_found) == 2 for targets_found in targets
        )
        entities = np.where(self._lost_links, -1, linked_entities(texts, self.graph)[0])
        coverage = coverage_of(
            texts,
            entities,
            self.graph,
            targets=targets if has_two and targets else None,
            exclude=self._hidden,
            is_read=self._is_read if self.view.reads_graph else None,
        )
        return dataclasses.replace(coverage, cut=self.cut)

    def require_some(self, of: str, n_positions: int) -> None:
        """Raise `ConfigError` where no example of the set named `of` is left, with the remedy."""
        if len(self):
            return
        n = sum(self.skipped.values())
        remedy = longer_texts(self.builder, n_positions)
        remedy = remedy or "give texts whose targets are nearer to each other"
        raise ConfigError(
            f"{of}: 0 of {n} examples can be read: {CUT} after {self._most_words} word "
            f"pieces; {remedy}"
        )

    def cut_warnings(self, of: str, n_positions: int) -> list[str]:
        """Return what the cut takes of the labels: of words, and classes of which none is left."""
        if not self.cut.n_cut:
            return []
        remedy = longer_texts(self.builder, n_positions)
        remedy = f"{remedy} reads more" if remedy else "give parts of the texts"
        cut = f"the cut at {self._most_words} word pieces"
        read = [self._read_labels(i) for i in range(len(self))]
        lines = []
        n, n_read = (
            sum(label != OUTSIDE for labels in each for label in labels)
            for each in ([example.labels for example in self.examples], read)
        )
        if n_read < n:
            lines.append(f"{of}: {n - n_read} of {n} tagged words are behind {cut}; {remedy}")
        every = self.kind.classes([e.labels for e in (*self.examples, *self.cut_off)])
        left = set(self.kind.classes(read))
        lost = [label for label in every if label not in left]
        if self.labels is not None and lost:
            alone = ", and only one class is left: nothing can be learned" if len(left) == 1 else ""
            lines.append(f"{of}: {cut} leaves no example of {listed(lost)}{alone}; {remedy}")
        return lines

    def _read_labels(self, index: int) -> tuple[str, ...]:
        """The labels of an example; where they are those of words, of the words before the cut."""
        example = self.examples[index]
        if not self.kind.labels_nodes:
            return example.labels
        end = self._words[index].spans[: self._most_words, 1].max(initial=0)
        pairs = zip(example.labels, example.targets, strict=True)
        return tuple(label for label, word in pairs if word.start < end)

    def require_read(self, of: str, *, is_linked: bool, needs_facts: bool) -> None:
        """Raise `NoKnowledgeError` where a view that reads the graph shows nothing of it."""
        require_read(
            self.coverage,
            self._texts,
            self.graph,
            self.view,
            of=of,
            is_linked=is_linked,
            needs_facts=needs_facts,
        )

    @property
    def _texts(self) -> list[LinkedText]:
        return [example.linked for example in self.examples]

    def _is_read(self, index: int) -> bool:
        """Whether the view shows something of the graph in an example of which nothing is left out
        by chance."""
        builder = dataclasses.replace(self.builder, drop_probability=0.0)
        graphs = (self._joined(index, 0, 0, builder, n) for n in range(len(self._windows[index])))
        return any(self.view.contains_knowledge(each, self.view(each)) for each in graphs)

    def n_rows(self, index: int) -> int:
        """How many rows a sample of example `index` has."""
        return len(self._windows[index])

    def word_places(self, index: int, spans: Tensor, n_nodes: int) -> list[list[int]]:
        """Where each word of example `index` is among the nodes of its rows, one after another.

        `spans [row target 2]` are those of its sample, of `n_nodes` nodes a row.
        """
        targets, opened = self.examples[index].targets, self._text_windows.get(index)
        spans = spans[:, : len(targets)]
        owners = [0] * len(targets)
        if opened is not None:
            owners = [[window.owns(each) for window in opened].index(True) for each in targets]
        rows = torch.tensor(owners, dtype=torch.long)
        of_rows: Tensor = spans[rows, torch.arange(len(rows))] + n_nodes * rows[:, None]
        places: list[list[int]] = of_rows.tolist()
        return places

    def n_nodes(self, index: int) -> int:
        """An upper bound for example `index` in every epoch."""
        return int(self._bounds[index])

    def sample(self, index: int, *, epoch: int, seed: int) -> KnowledgeBatch:
        """The graph of example `index` as drawn in `epoch`, with targets and labels."""
        return self.samples([index], epoch=epoch, seed=seed)[0]

    def samples(self, indices: Sequence[int], *, epoch: int, seed: int) -> list[KnowledgeBatch]:
        """`sample` of each; graphs are built in one pass, and once if nothing in them is random."""
        missing = [index for index in dict.fromkeys(indices) if index not in self._stored]
        rows_of = dict(zip(missing, self._rows(missing, epoch, seed), strict=True))
        batches = []
        for index in indices:
            rows = rows_of[index] if index in rows_of else self._stored[index]
            if self._teacher is not None:
                rows = [each.replace(teacher_logits=self._teacher[index][None]) for each in rows]
            is_one = len(rows) == 1
            batches.append(
                rows[0] if is_one else self.collate(rows, epoch=epoch, seed=seed, step=0)
            )
        return batches

    def _rows(self, indices: list[int], epoch: int, seed: int) -> Iterator[list[KnowledgeBatch]]:
        """The rows of each example; stored if building them drew no random number."""
        n_rows = [len(self._windows[index]) for index in indices]
        places = [(i, window) for i, n in zip(indices, n_rows, strict=True) for window in range(n)]
        draws = [self._generator(index, epoch, seed, window) for index, window in places]
        linked = {index: self._linked(index, epoch, seed) for index in indices}
        graphs = join_all(
            [self._in_window(linked[index], index, window) for index, window in places],
            [self._windows[index][window] for index, window in places],
            self.graph,
            generators=draws,
            config=self.builder,
            exclude=[self._hidden[index] for index, _ in places],
        )
        pieces = zip(places, graphs, map(is_unused, draws), strict=True)
        for index, n in zip(indices, n_rows, strict=True):
            rows, is_fixed = [], self._relink is None
            for (_, window), word_graph, is_same in islice(pieces, n):
                rows.append(self.encode_graph(index, word_graph, window))
                is_fixed &= is_same
            if is_fixed and len(self._stored) < MOST_STORED:
                self._stored[index] = rows
            yield rows

    def encode_graph(
        self, index: int, word_graph: WordKnowledgeGraph, window: int = 0
    ) -> KnowledgeBatch:
        """A word-knowledge graph of example `index` as the view shows it, with targets, labels."""
        example, batch = self.examples[index], self.view(word_graph)
        if self.spans is not None:
            return batch.replace(**self._of_span(index, window, word_graph, batch))
        if self.kind.rows == "choices":
            return batch.replace(**self._of_choice(example, window))
        if self._text_windows and self.labels is not None:
            batch = batch.replace(window_ids=torch.tensor([window]))
        if not example.targets:
            return batch.replace(**self._labels(example, batch, None))
        spans = target_spans(word_graph, self.view.places(word_graph, batch), example.targets)
        if not self.kind.labels_nodes:
            spans[spans[:, 0] >= spans[:, 1]] = (0, 1)
        return batch.replace(target_spans=row(spans), **self._labels(example, batch, spans))

    def fact_nodes(self, word_graph: WordKnowledgeGraph, relation: int) -> NDArray[np.int64]:
        """Where the view shows the fact whose relation is this node of `word_graph`: `[node]`."""
        return self.view.fact_nodes(word_graph, self.view(word_graph), relation)

    def sample_graph(
        self, index: int, *, epoch: int, seed: int, window: int = 0
    ) -> WordKnowledgeGraph:
        """The word-knowledge graph of a window of example `index`, before the view."""
        return self._joined(index, epoch, seed, self.builder, window)

    def _joined(
        self, index: int, epoch: int, seed: int, builder: BuilderConfig, window: int = 0
    ) -> WordKnowledgeGraph:
        return join_words(
            self._in_window(self._linked(index, epoch, seed), index, window),
            self._windows[index][window],
            self.graph,
            generator=self._generator(index, epoch, seed, window),
            config=builder,
            exclude=self._hidden[index],
        )

    def _linked(self, index: int, epoch: int, seed: int) -> LinkedText:
        linked = self.examples[index].linked
        if self._relink is None:
            return linked
        return self._relink(linked, generator(seed, "relinked", epoch, index))

    def _in_window(self, linked: LinkedText, index: int, window: int) -> LinkedText:
        """A text of example `index` with the links that lie in a window of it."""
        opened = self._text_windows.get(index)
        return linked if opened is None else opened[window].text(linked)

    def _generator(self, index: int, epoch: int, seed: int, window: int) -> np.random.Generator:
        return generator(seed, "graph", epoch, index, *([window] if window else []))

    def collate(
        self, samples: Sequence[KnowledgeBatch], *, epoch: int, seed: int, step: int
    ) -> KnowledgeBatch:
        """Stacked samples."""
        return KnowledgeBatch.stack(samples, word_pad_id=self._word_pad_id)

    def _labels(
        self, example: TaskExample, batch: KnowledgeBatch, spans: NDArray[np.int64] | None
    ) -> dict[str, Any]:
        if self.labels is None:
            return {}
        return self.kind.label_fields(example.labels, self.labels, batch.node_ids, spans)

    def answers(self, index: int, scores: Tensor, batch: KnowledgeBatch) -> list[Span]:
        """The best spans for question `index`, from `scores [window node 2]` of its sample `batch`.

        A span without characters is not an answer, which its score is then the score of.
        """
        assert self.spans is not None
        assert batch.target_spans is not None
        read = [
            Window(row.numpy(), nodes[: len(spans)].numpy(), spans)
            for row, nodes, words in zip(
                scores, batch.target_spans, self._windows[index], strict=True
            )
            for spans in (self._context_spans(index, words),)
        ]
        best_span_rows = best_spans(read, self.spans)
        if best_span_rows and not self.spans.no_answer:
            return best_span_rows
        return sorted(
            [*best_span_rows, Span(0, 0, score_of_none(read))], key=lambda span: -span.score
        )

    def _context_spans(self, index: int, words: Words) -> NDArray[np.int32]:
        return words.spans[words.spans[:, 0] >= context_of(self.examples[index])]

    def _of_choice(self, example: TaskExample, window: int) -> dict[str, Any]:
        if self.labels is None:
            return {}
        return {"labels": torch.tensor([IGNORE if window else int(example.labels[0]) - 1])}

    def _of_span(
        self, index: int, window: int, word_graph: WordKnowledgeGraph, batch: KnowledgeBatch
    ) -> dict[str, Any]:
        words, targets = self._windows[index][window], self.examples[index].targets
        positions = self.view.places(word_graph, batch)
        if self.labels is None:
            pieces = [Mention(*span) for span in self._context_spans(index, words).tolist()]
            return {"target_spans": row(target_spans(word_graph, positions, pieces))}
        first, end = 0, 1
        if targets and n_pieces(words, targets[0]) == n_pieces(self._words[index], targets[0]) > 0:
            first, end = target_spans(word_graph, positions, targets)[0].tolist()
        return {"labels": torch.tensor([[first, max(end - 1, first)]])}

    def _node_bounds(self) -> NDArray[np.int64]:
        entities, link_offsets = linked_entities(self._texts, self.graph)
        longest = [max(len(window.ids) for window in each) for each in self._windows]
        n_words, n_windows = np.array(longest, np.int64), np.array([*map(len, self._windows)])
        return n_windows * node_bounds(
            entities, link_offsets, n_words, self.graph, self.builder, self.view
        )


def pair_ids(examples: Sequence[TaskExample], graph: KnowledgeGraph) -> NDArray[np.int32]:
    """The pairs of examples by entity id, `[pair 2]`; pairs outside the graph are left out."""
    pairs = []
    for example in examples:
        ends = [graph.entities.find(name) for name in example.pair or ()]
        if ends and None not in ends:
            pairs.append(ends)
    return np.array(pairs, np.int32).reshape(-1, 2)


def exclusion(example: TaskExample, graph: KnowledgeGraph) -> Exclusion | None:
    """The facts that an example never shows: those between the two entities of its pair."""
    pairs = pair_ids([example], graph)
    return Exclusion(pairs=pairs) if len(pairs) else None


def context_of(example: TaskExample) -> int:
    """Where the context of a question begins; ConfigError for a text that is not a pair."""
    start = example.linked.pair_start
    if start is None:
        raise ConfigError(
            f"{example.linked.text[:60]!r} is not a pair: answers are in the second of two "
            f"texts; give a question and its context or choices"
        )
    return start


def _are_whole(words: Words, targets: Sequence[Mention]) -> bool:
    """Whether each target has a word piece, and its first one was not cut off."""
    if not targets:
        return True
    spans = np.array([(target.start, target.end) for target in targets], np.int32)
    pieces = pieces_of_all(words.spans, spans)
    return bool((pieces[:, 0] < pieces[:, 1]).all())


def _slim(example: TaskExample, view: View) -> TaskExample:
    linked: LinkedText = example.linked
    return (
        example
        if view.reads_candidates
        else dataclasses.replace(example, linked=without_candidates(linked))
    )


def require_difference(ours: TaskData, true: TaskData, knowledge: Knowledge) -> None:
    """Raise `NoControlError` when a control shows the model just what the true graph shows."""
    for i in range(min(SAMPLES_COMPARED, len(ours), len(true))):
        one, other = (data.sample(i, epoch=0, seed=0) for data in (ours, true))
        if not one.same_as(other, but=() if ours.view.reads_graph else LINK_FIELDS):
            return
    raise NoControlError(
        f"knowledge={knowledge!r} changes nothing in the first examples as this method sees them: "
        "it would not be a control; pre-train a model with that knowledge and give it as model"
    )
