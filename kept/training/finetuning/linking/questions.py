"""E-BERT's entity linking: one text for each mention, with its candidates.

Poerner, Waltinger and Schütze 2020, "E-BERT" (Findings of EMNLP), section 4.3. A text is written
`... [MASK] / mention * ...`; what was linked in an earlier round stands in it as an entity.

Axis legend: batch, mention, candidate.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.batches import MASK_ROW, N_SPECIAL_ROWS, KnowledgeBatch
from kept.graphs.builder import BuilderConfig
from kept.graphs.graph import NodeKind
from kept.graphs.views import View
from kept.tasks.datasets.example import TaskExample
from kept.tasks.kinds import SINGLE
from kept.training.finetuning.data import TaskData
from kg_loaders import KnowledgeGraph

OPENS, CLOSES = " / ", " *"
"""After the mask, and after the mention."""


@dataclass(frozen=True, slots=True)
class Question:
    """A mention of a text, its candidates with their priors, and the right one.

    `linked` has the marks, and no link at the mention, whose place with its marks is `target`;
    `mention` is its place in the text as it was. `gold` counts from 1, 0 is none of them; it is
    None where what is right is not among them, or not known.
    """

    text: int
    linked: LinkedText
    target: Mention
    mention: Mention
    candidates: tuple[Candidate, ...]
    gold: int | None


def masked_text(linked: LinkedText, mention: Mention, mask: str) -> tuple[LinkedText, Mention]:
    """The text with its mask and marks, and where they stand; links that touch the mention go.

    >>> masked_text(LinkedText("In Paris.", ()), Mention(3, 8), "[MASK]")[0].text
    'In [MASK] / Paris *.'
    """
    before, after = f"{mask}{OPENS}", CLOSES
    text = (
        f"{linked.text[: mention.start]}{before}{linked.text[mention.start : mention.end]}{after}"
        f"{linked.text[mention.end :]}"
    )
    links = []
    for link in linked.links:
        span = link.mention
        if span.start >= mention.end:
            shift = len(before) + len(after)
            moved = Mention(span.start + shift, span.end + shift)
            links.append(dataclasses.replace(link, mention=moved))
        elif span.end <= mention.start:
            links.append(link)
    target = Mention(mention.start, mention.end + len(before) + len(after))
    return LinkedText(text, tuple(links), linked.id), target


def questions_of(
    proposed: Sequence[LinkedText],
    is_known: Callable[[str], bool],
    mask: str,
    *,
    gold: Sequence[LinkedText] | None = None,
    accepted: Sequence[Sequence[Link]] | None = None,
) -> list[Question]:
    """A question for each proposed link that has a known candidate.

    Of an entity that is proposed twice the first prior counts. `gold` are the same texts with what
    is right: a mention that is not annotated means none, and an annotation whose entity is not
    known is not an annotation, as in the original. The gold of a known entity that is not among the
    candidates is None. `accepted` are links by text that stand in
    it as entities; mentions that touch them are not asked again.
    """
    questions = []
    for i, text in enumerate(proposed):
        stand = tuple(accepted[i]) if accepted is not None else ()
        right = None
        if gold is not None:
            right = {k.mention: k.entity for k in gold[i].links if k.entity and is_known(k.entity)}
        for link in text.links:
            if any(touch(link.mention, other.mention) for other in stand):
                continue
            names = {c.entity: c for c in reversed(link.candidates) if is_known(c.entity)}
            candidates = tuple(c for c in link.candidates if names.get(c.entity) is c)
            if not candidates:
                continue
            linked, target = masked_text(LinkedText(text.text, stand, text.id), link.mention, mask)
            number = None
            if right is not None:
                entity = right.get(link.mention)
                candidate_names = [c.entity for c in candidates]
                number = 0 if entity is None else None
                if entity in candidate_names:
                    number = candidate_names.index(entity) + 1
            questions.append(Question(i, linked, target, link.mention, candidates, number))
    return questions


def touch(one: Mention, other: Mention) -> bool:
    """Whether two mentions share a character."""
    return one.start < other.end and other.start < one.end


class CandidateData:
    """Questions as batches for the head `candidates`; those without a `gold` have no label.

    The batch has one mention, the question's, whose first node is the mask. `prime`: the mask is an
    entity that E-BERT reads as the mean of the candidates. Questions whose mention is cut off with
    the text are left out (`questions` are those that stay).
    """

    def __init__(
        self,
        questions: Sequence[Question],
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
        *,
        builder: BuilderConfig,
        view: View,
        prime: bool = False,
    ) -> None:
        examples = [TaskExample(q.linked, ("",), (q.target,)) for q in questions]
        self._data = TaskData(
            examples, graph, tokenizer, builder=builder, view=view, problem_type=SINGLE, labels=None
        )
        self.questions = [questions[i] for i in self._data.indices.tolist()]
        self.graph, self.prime = graph, prime

    def __len__(self) -> int:
        return len(self.questions)

    def __repr__(self) -> str:
        return f"CandidateData({len(self)} questions)"

    @property
    def fingerprint(self) -> str:
        """SHA-256 over questions, graph, view and options."""
        content = repr((self.questions, self.prime, self._data.fingerprint))
        return hashlib.sha256(content.encode()).hexdigest()

    def n_nodes(self, index: int) -> int:
        """An upper bound of question `index`."""
        return self._data.n_nodes(index)

    def sample(self, index: int, *, epoch: int, seed: int) -> KnowledgeBatch:
        """Question `index` with its candidates, their priors, and the number of the right one."""
        batch, question = self._data.sample(index, epoch=epoch, seed=seed), self.questions[index]
        assert batch.target_spans is not None
        spans = batch.target_spans
        rows = self.graph.entities.ids([c.entity for c in question.candidates]) + N_SPECIAL_ROWS
        fields = {
            "target_spans": None,
            "mention_spans": spans,
            "candidate_ids": torch.tensor(np.asarray(rows, np.int64))[None, None],
            "candidate_priors": torch.tensor([[[c.prior for c in question.candidates]]]),
        }
        if question.gold is not None:
            fields["labels"] = torch.tensor([question.gold])
        if self.prime:
            at = int(spans[0, 0, 0])
            ids, kinds = batch.node_ids.clone(), batch.node_kinds.clone()
            ids[0, at], kinds[0, at] = MASK_ROW, int(NodeKind.ENTITY)
            fields |= {"node_ids": ids, "node_kinds": kinds}
        return batch.replace(**fields)

    def collate(
        self, samples: Sequence[KnowledgeBatch], *, epoch: int, seed: int, step: int
    ) -> KnowledgeBatch:
        """Stacked samples, as many candidates wide as the widest."""
        return self._data.collate(samples, epoch=epoch, seed=seed, step=step)
