"""The released K-BERT preparation, step by step, with its quirks.

Liu et al., AAAI 2020, repository autoliuweijie/K-BERT. For comparison with the original and for
feeding its fine-tuned checkpoints; training uses `kept.graphs.views.kbert`. The quirks: the objects
of a subject were a Python set, whose order changes with string hashing (here: order of the file,
without duplicates, which is the order that the reference numbers were taken with); without
predicates two facts with one object are one; a sentence that is too long is cut wherever that is,
in the middle of a branch or before its last [SEP]; a padded row sees nothing, stands at the last
position, and padding cannot be turned off. A faulty line of a graph's file made the original go on
with the line before; here it is refused when the file is read.

Axis legend: batch, node, word (of the segmented sentence).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from kept.batches import IGNORE, KnowledgeBatch, Visibility
from kept.errors import BatchError
from kept.graphs.graph import NodeKind
from kept.graphs.views.kbert import visible

PAD, UNKNOWN, CLS, SEP, MASK, ENTITY = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[ENT]"
SPECIAL_TAGS = (PAD, UNKNOWN, CLS, SEP, MASK, ENTITY, "[SUB]", "[PRE]", "[OBJ]")
UNKNOWN_ID = 100
PAD_LABEL, ENTITY_LABEL = 0, 1

Lookup = Mapping[str, Sequence[str]]


def lookup(triples: Iterable[tuple[str, str, str]], *, predicate: bool) -> dict[str, list[str]]:
    """What each subject's branches say, in file order; each text once.

    >>> lookup([("a", "is", "b"), ("a", "was", "b")], predicate=False)
    {'a': ['b']}
    """
    objects: dict[str, dict[str, None]] = {}
    for subject, relation, object_ in triples:
        text = relation + object_ if predicate else object_
        objects.setdefault(subject, {})[text] = None
    return {subject: list(texts) for subject, texts in objects.items()}


def longest_match(sentence: str, lexicon: Collection[str]) -> list[str]:
    """Words of `sentence`: at each place the longest of `lexicon`, else one character; no blanks.

    Stands for pkuseg with the subjects as its user dictionary. Words that are not looked up are
    taken to characters anyway, so the two differ only where a subject crosses a word's border.
    Runs of Latin letters and digits stay whole, so that "tim" is not found in "time".
    """
    widest = max(map(len, lexicon), default=1)
    cuts = [0, *_cuts(sentence), len(sentence)]
    words, start = [], 0
    while start < len(cuts) - 1:
        stops = [s for s in range(start + 1, len(cuts)) if cuts[s] - cuts[start] <= widest]
        known = (s for s in reversed(stops) if sentence[cuts[start] : cuts[s]] in lexicon)
        stop = next(known, start + 1)
        words.append(sentence[cuts[start] : cuts[stop]])
        start = stop
    return [word for word in words if word.strip()]


def _cuts(sentence: str) -> list[int]:
    """Where a word may end: everywhere but inside a run of Latin letters and digits."""
    inside = [char.isascii() and char.isalnum() for char in sentence]
    return [i for i in range(1, len(sentence)) if not (inside[i - 1] and inside[i])]


@dataclass(frozen=True, eq=False)
class SentenceTree:
    """One flattened tree, all `[node]`; `injected` tells branches from the trunk.

    `visible [node node]` has empty rows and columns at padding.
    """

    tokens: tuple[str, ...]
    positions: NDArray[np.int64]
    injected: NDArray[np.int64]
    visible: NDArray[np.int64]


def sentence_tree(
    words: Sequence[str], texts: Lookup, *, max_branches: int = 2, max_length: int = 128
) -> SentenceTree:
    """The tree of a segmented sentence, flattened as word, its branches, next word.

    Everything but special tags is taken to characters. Always `max_length` long.
    """
    tokens: list[str] = []
    positions: list[int] = []
    branch: list[int] = []
    mention: list[int] = []
    position = n_branches = 0
    for number, word in enumerate(words):
        characters = [word] if word in SPECIAL_TAGS else list(word)
        parts = [(characters, -1)]
        for text in list(texts.get(word, ()))[:max_branches]:
            parts.append((list(text), n_branches))
            n_branches += 1
        for characters, part in parts:
            start = position if part == -1 else position + len(parts[0][0])
            tokens += characters
            positions += range(start, start + len(characters))
            branch += [part] * len(characters)
            mention += [number] * len(characters)
        position += len(parts[0][0])
    return _sized(tokens, positions, np.array(branch, np.int64), np.array(mention), max_length)


def _sized(
    tokens: list[str],
    positions: list[int],
    branch: NDArray[np.int64],
    mention: NDArray[np.int64],
    max_length: int,
) -> SentenceTree:
    n_kept = min(len(tokens), max_length)
    n_pads = max_length - n_kept
    seen = visible(branch, mention)[:n_kept, :n_kept].astype(np.int64)
    return SentenceTree(
        tokens=(*tokens[:n_kept], *[PAD] * n_pads),
        positions=np.array([*positions[:n_kept], *[max_length - 1] * n_pads], np.int64),
        injected=np.pad((branch[:n_kept] >= 0).astype(np.int64), (0, n_pads)),
        visible=np.pad(seen, (0, n_pads)),
    )


def segment_ids(tokens: Sequence[str], *, tagging: bool = False) -> list[int]:
    """What the released code hands to the segment table.

    Classification: 0 at padding, 1 up to and with the first [SEP], 2 after it. Tagging: 1
    everywhere, padding too.
    """
    if tagging:
        return [1] * len(tokens)
    ids, segment = [], 1
    for token in tokens:
        ids.append(0 if token == PAD else segment)
        segment += token == SEP
    return ids


def tag_labels(tree: SentenceTree, labels: Sequence[int]) -> list[int]:
    """The released labels `[node]`: 0 at padding, 1 ([ENT]) where injected, else the data's.

    Raises `BatchError` when the trunk has more characters than there are labels.
    """
    with_padding, rest = [], iter(labels)
    for token, injected in zip(tree.tokens, tree.injected.tolist(), strict=True):
        label = PAD_LABEL if token == PAD else ENTITY_LABEL if injected else next(rest, None)
        if label is None:
            raise BatchError(f"{len(labels)} labels for the characters of {''.join(tree.tokens)!r}")
        with_padding.append(label)
    return with_padding


def tree_batch(
    trees: Sequence[SentenceTree],
    vocabulary: Mapping[str, int],
    segments: Sequence[Sequence[int]],
    *,
    tags: Sequence[Sequence[int]] | None = None,
) -> KnowledgeBatch:
    """Trees of one length as a batch; unknown tokens are `UNKNOWN_ID`, padded nodes see themselves.

    `segments [batch node]` are rows of the original's segment table, whose row 0 is for padding; a
    batch counts real nodes from 0, so the encoder wants `segment_offset=1`. `tags [batch node]`
    become `node_labels`, with `PAD_LABEL` not asked for.
    """
    ids = [[vocabulary.get(token, UNKNOWN_ID) for token in tree.tokens] for tree in trees]
    node_ids = torch.tensor(ids)
    node_mask = torch.tensor([[token != PAD for token in tree.tokens] for tree in trees])
    seen = torch.from_numpy(np.stack([tree.visible for tree in trees])).bool()
    labels = None
    if tags is not None:
        wanted = torch.tensor([list(row) for row in tags])
        labels = wanted.where(wanted != PAD_LABEL, IGNORE)
    return KnowledgeBatch(
        node_ids=node_ids,
        node_kinds=torch.from_numpy(
            np.stack([tree.injected for tree in trees]) * int(NodeKind.ENTITY)
        ),
        node_mask=node_mask,
        positions=torch.from_numpy(np.stack([tree.positions for tree in trees])),
        segment_ids=torch.tensor([list(row) for row in segments]) - node_mask.long(),
        visibility=Visibility(seen | torch.eye(seen.shape[1], dtype=torch.bool)),
        node_labels=labels,
    )
