"""From a user's files to linked splits that share no text and no pair, and what they are like.

Axis legend: item (an example).
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from entity_linking.mentions import Link, LinkedText, Mention
from entity_linking.names.identifiers import identifiers_note, nameless_note
from kept.errors import ConfigError
from kept.evaluation.leakage import answer_in_subject
from kept.lab.fitting.options import FitOptions
from kept.linking.given_mentions import link_given
from kept.linking.linkers import LinkerSettings, open_linker
from kept.randomness import generator
from kept.tasks.datasets.example import TaskExample, clusters, pair_of
from kept.tasks.datasets.tables import (
    QUESTION,
    RELATION,
    TAGGING,
    TYPING,
    Table,
    read_labelled,
    write_examples,
)
from kept.tasks.kinds import TASKS
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted

SPLITS = ("train", "dev", "test")
LEAST = {"train": 8, "dev": 4, "test": 4}
"""Examples without which a split says nothing."""
SURE = 0.6
"""Below this confidence a link is a choice among equals."""


@dataclass(frozen=True)
class FitData:
    """Linked examples by split, the task that they are of, and how they were made."""

    kind: str
    splits: dict[str, list[TaskExample]]
    linker: str
    notes: tuple[str, ...]
    link_method: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of the file, by what they are for."""

    def write(self, folder: Path, *, candidates: int | None) -> dict[str, Path]:
        """Write a file of each split, for the runs; return their paths.

        A link has at most so many `candidates`; None: all, which methods that choose among them
        read.
        """
        folder.mkdir(parents=True, exist_ok=True)
        paths = {name: folder / f"{name}.jsonl" for name in SPLITS}
        for name, path in paths.items():
            write_examples(
                self.splits[name], path, kind=self.kind, force=True, candidates=candidates
            )
        return paths


def read_data(options: FitOptions, graph: KnowledgeGraph) -> FitData:
    """Read, link and split the files of `options`.

    Raises `ConfigError` for files of different tasks, or too few examples, with a remedy.
    """
    tables = {"": read_labelled(options.data, options.columns)}
    for name in ("dev", "test"):
        path = getattr(options, name)
        if path is not None:
            tables[name] = read_labelled(path, options.columns)
    kind = _kind_of(tables)
    notes = list(dict.fromkeys(note for table in tables.values() for note in table.notes))
    examples = [example for table in tables.values() for example in table.examples]
    _require_classes(examples, kind, tables[""].columns)
    split_names = [s or name for name, table in tables.items() for s in table.splits]
    linked, method = _linked(examples, kind, options, graph)
    if method is not None:
        notes += filter(None, (nameless_note(graph), identifiers_note(graph)))
    linker = "links of the file" if method is None else f"kept link --method {method}"
    if kind in NAMED and not any(split_names):
        linked = _grouped_by_name(linked)
    notes += _alike(examples)
    splits, dropped = split(linked, split_names, options)
    if dropped:
        notes.append(
            f"{dropped} training examples have a text or a pair of dev or test, and are left out"
        )
    for name in SPLITS:
        if len(splits[name]) < LEAST[name]:
            raise ConfigError(
                f"{counted(len(splits[name]), 'examples')} of {name}, {LEAST[name]} are "
                "needed; give more "
                f"rows, or a larger share (--{name}-share)" if name != "train" else
                f"{counted(len(examples), 'rows')} of "
                f"{counted(len(set(clusters(linked))), 'different texts or names')} "
                f"give {len(splits[name])} training examples next to dev and test, since rows of "
                f"one text or name stay together; {LEAST[name]} are needed, and some 50 to learn "
                "from: give more rows"
            )  # fmt: skip
    return FitData(kind, splits, linker, tuple(notes), method, tables[""].columns)


MOST_CLASSES = 0.5
"""Share of all labels above which as many different ones are not classes."""
MOST_NUMBERS = 20
"""Different numbers above which labels are a quantity."""


def _require_classes(
    examples: Sequence[TaskExample], kind: str, columns: Mapping[str, str]
) -> None:
    """Raise `ConfigError` unless the labels are classes, several examples each."""
    if kind == QUESTION:
        return
    if kind == TAGGING:
        _require_names_of_tags(examples)
        return
    every = [label for example in examples for label in example.labels]
    labels = set(every)
    where = f"column {columns['label']!r} has {counted(len(labels), 'different labels')}"
    if len(labels) > MOST_NUMBERS and all(map(_is_number, labels)):
        raise ConfigError(
            f"{where}, all numbers: kept fit predicts classes; replace them by ranges, such as "
            "low and high (texts alone: kept finetune --task regression)"
        )
    if len(labels) < 2:
        raise ConfigError(f"{where}; at least 2 are needed: give rows of another class, too")
    if len(labels) > max(MOST_CLASSES * len(every), LEAST["train"]):
        raise ConfigError(
            f"{where} in {counted(len(examples), 'rows')}; a class needs several rows. Is the "
            "label in "
            "another column (--column label=NAME), or are text and label interchanged?"
        )


def _alike(examples: Sequence[TaskExample]) -> list[str]:
    """A note on labels that differ by upper and lower case alone."""
    labels = sorted({label for example in examples for label in example.labels})
    forms: dict[str, list[str]] = {}
    for label in labels:
        forms.setdefault(label.casefold(), []).append(label)
    pairs = [" and ".join(map(repr, alike)) for alike in forms.values() if len(alike) > 1]
    return [f"labels that differ by case alone: {', '.join(pairs[:3])}"] if pairs else []


def _require_names_of_tags(examples: Sequence[TaskExample]) -> None:
    """Raise `ConfigError` for tags that are numbers, whose spans and types nobody knows."""
    tags = sorted({tag for example in examples for tag in example.labels})
    if tags and all(tag.isdigit() for tag in tags):
        raise ConfigError(
            f"the tags are numbers ({', '.join(tags[:5])}); write their names, such as B-PER, "
            "I-PER and O"
        )


def _is_number(label: str) -> bool:
    try:
        return math.isfinite(float(label.replace(",", ".")))
    except ValueError:
        return False


NAMED = ("mention", TYPING)
"""Kinds that ask about a mention. A name in training and test could be answered from memory."""
LEAST_NAMES = 10
"""Fewer names than these are not kept apart: the splits would have too few."""


def _kind_of(tables: dict[str, Table]) -> str:
    kinds = {table.kind for table in tables.values()}
    if kinds == {"mention", TYPING}:
        return TYPING
    if len(kinds) > 1:
        raise ConfigError(
            f"the files are of different tasks ({', '.join(sorted(kinds))}); give them the same "
            "columns"
        )
    return kinds.pop()


def _grouped_by_name(examples: Sequence[TaskExample]) -> list[TaskExample]:
    """The examples with the name of the mention as what they are about; few names as they are."""
    names = [_surface(example).casefold() for example in examples]
    if len(set(names)) < LEAST_NAMES:
        return list(examples)
    return [
        dataclasses.replace(example, source=example.source or name)
        for example, name in zip(examples, names, strict=True)
    ]


def split(
    examples: Sequence[TaskExample], split_names: Sequence[str], options: FitOptions
) -> tuple[dict[str, list[TaskExample]], int]:
    """Return the examples by split, and how many of training were left out for a shared group.

    `split_names` has the split of each example, "" for none. Examples that share a text or a pair
    are of one group, and a group is in one split.
    """
    groups = clusters(examples)
    sets: dict[str, dict[str, None]] = {name: {} for name in SPLITS}
    for group, name in zip(groups, split_names, strict=True):
        if name in ("dev", "test"):
            sets[name][group] = None
    open_groups = [g for g, n in zip(groups, split_names, strict=True) if n in ("", "train")]
    sizes = Counter(g for g in open_groups if g not in sets["dev"] and g not in sets["test"])
    order = generator(options.seed, "splits of fit").permutation(len(sizes))
    names = list(sizes)
    for name, share in (("test", options.test_share), ("dev", options.dev_share)):
        if sets[name]:
            continue
        n_wanted = share * len(examples)
        for i in order:
            if n_wanted <= 0:
                break
            if names[i] not in sets["test"]:
                sets[name][names[i]] = None
                n_wanted -= sizes[names[i]]
    splits: dict[str, list[TaskExample]] = {name: [] for name in SPLITS}
    dropped = 0
    for example, group, name in zip(examples, groups, split_names, strict=True):
        where = "test" if group in sets["test"] else "dev" if group in sets["dev"] else "train"
        if name == "train" and where != "train":
            dropped += 1
        elif name in ("dev", "test"):
            splits[name].append(example)
        else:
            splits[where].append(example)
    return splits, dropped


def _linked(
    examples: Sequence[TaskExample], kind: str, options: FitOptions, graph: KnowledgeGraph
) -> tuple[list[TaskExample], str | None]:
    """Texts without links linked by the graph's names; and by which method, None for no text."""
    unlinked = [i for i, example in enumerate(examples) if not example.linked.links]
    texts = list(dict.fromkeys(examples[i].linked.text for i in unlinked))
    changed, method = list(examples), None
    if texts:
        linked_texts, method = _links_of(texts, options, graph)
        for i in unlinked:
            links = linked_texts[examples[i].linked.text].links
            linked = dataclasses.replace(examples[i].linked, links=links)
            changed[i] = dataclasses.replace(examples[i], linked=linked)
        if kind in (*NAMED, RELATION):
            new = [changed[i] for i in unlinked]
            texts_with_mentions = link_given(
                [each.linked for each in new], [each.targets for each in new], graph, options.case
            )
            for i, linked in zip(unlinked, texts_with_mentions, strict=True):
                changed[i] = dataclasses.replace(changed[i], linked=linked)
    if kind == RELATION:
        changed = [
            dataclasses.replace(e, pair=e.pair or pair_of(e.linked.links, e.targets))
            for e in changed
        ]
    if kind == QUESTION:
        changed = [
            dataclasses.replace(e, source=e.source or subject_of(e.linked.links, graph))
            for e in changed
        ]
    return changed, method


def subject_of(links: Sequence[Link], graph: KnowledgeGraph) -> str | None:
    """Return whom a question is about: the first linked entity with facts, else the first linked.

    Questions about one entity are of one group.
    """
    names = [link.entity for link in links if link.entity is not None]
    numbers = [graph.entities.find(name) for name in names]
    pairs = zip(names, numbers, strict=True)
    with_facts = [name for name, i in pairs if i is not None and len(graph.outgoing(i))]
    return next(iter([*with_facts, *names]), None)


def _links_of(
    texts: list[str], options: FitOptions, graph: KnowledgeGraph
) -> tuple[dict[str, LinkedText], str]:
    method = "prior" if options.linker == "auto" else options.linker
    settings = LinkerSettings(kg=str(options.kg), method=method, case=options.case)
    linked = open_linker(settings, graph).link(texts)
    if options.linker == "auto" and any(is_ambiguous(k) for t in linked for k in t.links):
        method = "mix"
        settings = dataclasses.replace(settings, method=method)
        linked = open_linker(settings, graph).link(texts)
    return dict(zip(texts, linked, strict=True)), method


def is_ambiguous(link: Link) -> bool:
    """Whether a link is a choice among candidates of which none is likely."""
    return len(link.candidates) > 1 and link.confidence < SURE


# ---- what the splits are like --------------------------------------------------------------------
@dataclass(frozen=True)
class Coverage:
    """Of `n` mentions that are asked about (or texts): shares linked, with facts, ambiguous."""

    of: str
    n: int
    linked: float
    with_facts: float
    ambiguous: float


def coverage(examples: Sequence[TaskExample], kind: str, graph: KnowledgeGraph) -> Coverage:
    """How much of what is asked about the graph knows."""
    degrees = np.diff(graph.out_offsets) + np.diff(graph.in_offsets)
    by_target = kind != QUESTION and bool(TASKS[kind].head_options.get("n_targets"))
    examples_to_link = [
        links
        for example in examples
        for links in (
            [_at(example.linked.links, target) for target in example.targets]
            if by_target
            else [example.linked.links]
        )
    ]
    counts = Counter[str]()
    for links in examples_to_link:
        numbers = [graph.entities.find(link.entity) for link in links if link.entity]
        known = [number for number in numbers if number is not None]
        counts["linked"] += bool(known)
        counts["facts"] += any(degrees[number] > 0 for number in known)
        counts["ambiguous"] += any(is_ambiguous(link) for link in links)
    n = max(1, len(examples_to_link))
    return Coverage(
        "mentions" if by_target else "texts", len(examples_to_link), counts["linked"] / n,
        counts["facts"] / n, counts["ambiguous"] / n,
    )  # fmt: skip


def unlinked(examples: Sequence[TaskExample], kind: str, n: int = 3) -> list[str]:
    """Return the words of the first `n` mentions that the labels are of and no link has."""
    names = dict.fromkeys(
        example.linked.text[target.start : target.end]
        for example in examples if kind != TAGGING
        for target in example.targets
        if not any(link.entity for link in _at(example.linked.links, target))
    )  # fmt: skip
    return list(names)[:n]


def _at(links: Sequence[Link], target: Mention) -> list[Link]:
    return [k for k in links if k.mention.start < target.end and target.start < k.mention.end]


def audit(data: FitData) -> list[str]:
    """Return what may give answers away, a line each; nothing where nothing was found."""
    lines = []
    test = data.splits["test"]
    if data.kind in ("classification", "mention", RELATION):
        n = sum(answer_in_subject(e.linked.text, e.labels[0]) for e in test)
        if n:
            lines.append(f"the label is written in the text of {n} of {len(test)} test examples")
    n = from_memory(data)
    if n:
        lines.append(
            f"{n} of {len(test)} test mentions have a name that is also in training, and can be "
            "answered from memory"
        )
    return lines


def from_memory(data: FitData) -> int:
    """Return how many test mentions have a name that a mention in training has."""
    if data.kind not in NAMED:
        return 0
    names = {_surface(example) for example in data.splits["train"]}
    return sum(_surface(example) in names for example in data.splits["test"])


def _surface(example: TaskExample) -> str:
    target = example.targets[0]
    return example.linked.text[target.start : target.end]


def as_fields(data: FitData) -> dict[str, Any]:
    """What `fit.json` says of the data."""
    return {
        "kind": data.kind,
        "linker": data.linker,
        "link_method": data.link_method or "prior",
        "links_given": data.link_method is not None,
        "columns": dict(data.columns),
        "n": {name: len(examples) for name, examples in data.splits.items()},
        "notes": list(data.notes),
    }
