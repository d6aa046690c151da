"""A question to a decoder with the facts of a graph in view: the answer, and what each fact did.

The question's mentions are linked, the facts of the linked entities are shown as words, branches
or nodes (`kept.decoders.trees`), and the decoder writes. Every fact is then left out in turn: what
the answer loses in log-probability is that fact's part in it. Where no fact is found nothing is
written: an answer would be the decoder's guess.

Axis legend: variant (of the facts in view), node, new (words written).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from entity_linking.mentions import Link, LinkedText, Linker, Mention
from entity_linking.parts import SentenceEncoder
from kept.batches import KnowledgeBatch
from kept.decoders.answering.relations import RelationChoice, RelationMatcher
from kept.decoders.llama_cpp import LlamaCppDecoder
from kept.decoders.trees import LabelVectors, chances, knowledge_tree, write
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig, Exclusion, build_many
from kept.graphs.explain import fact_in_words
from kept.graphs.views.base import View
from kept.graphs.views.colake import CoLAKEView
from kept.graphs.views.kbert import KBERTView
from kept.graphs.views.words import WordsView
from kg_loaders import KnowledgeGraph, graph_from_records
from kg_loaders.records import Record, Text, TextKind, Triple

FactsAs = Literal["words", "branches", "nodes"]
Directions = Literal["head", "both"]
Order = Callable[[str, Sequence[str]], Sequence[int]]
"""From a question and facts in words to their places, best first."""
PREPOSITIONS = frozenset(
    {"after", "as", "at", "by", "for", "from", "in", "into", "of", "on", "to", "with"}
)
"""Last words of relations that are followed by their value: "educated at"."""
N_RANKED = 512
"""Facts of one entity that are put in order; of a hub the first ones of the graph."""


@dataclass(frozen=True, kw_only=True)
class AskOptions:
    """How a question is put; raises `ConfigError` naming every fault.

    `facts_as`: sentences before the question, K-BERT's branches or CoLAKE's nodes at the mention.
    At most `max_facts` facts are shown, those that `order` has first. `directions` "both" takes the
    facts that end in an entity, too. `begin` is the beginning of the answer, `n_new` the most word
    pieces that are written.
    """

    facts_as: FactsAs = "words"
    max_facts: int = 4
    directions: Directions = "both"
    begin: str = ""
    n_new: int = 24

    def __post_init__(self) -> None:
        faults = []
        if self.facts_as not in get_args(FactsAs):
            faults.append(f"facts as {self.facts_as!r}: one of {', '.join(get_args(FactsAs))}")
        if self.directions not in get_args(Directions):
            faults.append(f"directions {self.directions!r}: 'head' or 'both'")
        for name in ("max_facts", "n_new"):
            if getattr(self, name) < 1:
                faults.append(f"{name} {getattr(self, name)}: 1 or more")
        if faults:
            raise ConfigError("ask: " + "; ".join(faults))


@dataclass(frozen=True)
class ShownFact:
    """A fact in view. `change`: what the answer's log-probability loses without it, in nats.

    `without` is what is written then; `row` is the fact's row in the graph.
    """

    fact: str
    row: int
    change: float
    without: str


@dataclass(frozen=True)
class Reply:
    """What came of a question: an `answer` and its facts, most helpful first, or a `refusal`.

    `probability` is that of each word piece of the answer, the geometric mean; `without_facts` is
    what the decoder writes with no fact in view, and `change` what the answer loses then.
    `left_out` counts the facts of the linked entities that were not shown.
    """

    question: str
    answer: str | None
    refusal: str = ""
    entities: tuple[str, ...] = ()
    probability: float | None = None
    facts: tuple[ShownFact, ...] = ()
    without_facts: str = ""
    change: float | None = None
    left_out: int = 0
    n_nodes: int = 0

    def as_json(self) -> dict[str, Any]:
        """All fields."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, eq=False)
class Asker:
    """A decoder, a graph, and the linker and the order that find facts for a question.

    With a `matcher`, facts whose relation the question may ask about come first, one of each
    relation before a second one of any, so that many values of one relation hide no other; `order`
    says how alike the facts of a relation are. A decoder of llama.cpp reads facts as words alone.
    """

    host: PreTrainedModel | LlamaCppDecoder
    tokenizer: PreTrainedTokenizerBase
    graph: KnowledgeGraph
    linker: Linker
    order: Order
    matcher: RelationMatcher | None = None

    def ask(self, question: str, options: AskOptions) -> Reply:
        """The decoder's reply to one question; raises `ConfigError` where it does not fit.

        For an example see docs/how-to/decoders.md.
        """
        question = question.strip()
        (linked,) = self.linker.link([question])
        links, entities = self.known(linked)
        labels = tuple(self.graph.label(entity) for entity in entities)
        if not entities:
            return Reply(question, None, "no entity of the graph was found in the question")
        rows, left_out = self.facts(question, entities, options)
        if not rows:
            reason = f"the graph has no fact of {', '.join(labels)}"
            return Reply(question, None, reason, labels)
        read = self._read(question, links, rows, options)
        first = read.texts[0]
        if not first:
            reason = "the decoder ended before it wrote a word"
            return Reply(question, None, reason, labels, left_out=left_out)
        total = read.log_chances
        facts = [
            ShownFact(fact_in_words(self.graph, row), row, float(total[0] - total[i]), text)
            for i, (row, text) in enumerate(zip(rows, read.texts[1:], strict=False), 1)
        ]
        return Reply(
            question,
            first,
            entities=labels,
            probability=float((total[0] / read.n_words).exp()),
            facts=tuple(sorted(facts, key=lambda fact: -fact.change)),
            without_facts=read.texts[-1],
            change=float(total[0] - total[-1]),
            left_out=left_out,
            n_nodes=read.n_nodes,
        )

    def known(self, linked: LinkedText) -> tuple[list[Link], dict[int, str]]:
        """Return the links to entities of the graph, and these, each with its first surface."""
        surfaces, links = dict[int, str](), list[Link]()
        for link in linked.links:
            number = None if link.entity is None else self.graph.entities.find(link.entity)
            if number is not None:
                links.append(link)
                surfaces.setdefault(number, linked.text[link.start : link.end])
        return links, surfaces

    def facts(
        self, question: str, entities: Mapping[int, str], options: AskOptions
    ) -> tuple[list[int], int]:
        """Return the rows of the facts to show, best first, and how many more there are.

        `entities` are those of the question, by their surfaces in it.
        """
        graph, candidates = self.graph, list[int]()
        for entity in entities:
            candidates += np.arange(*graph.out_offsets[entity : entity + 2])[:N_RANKED].tolist()
            if options.directions == "both":
                candidates += graph.in_order[slice(*graph.in_offsets[entity : entity + 2])][
                    :N_RANKED
                ].tolist()
        candidates = list(dict.fromkeys(candidates))
        if not candidates:
            return [], 0
        order = self.order(question, [sentence(graph, row) for row in candidates])
        rows = [candidates[index] for index in order]
        if self.matcher is not None:
            rows = self._by_relation(question, entities, rows)
        return rows[: options.max_facts], max(len(rows) - options.max_facts, 0)

    def _by_relation(
        self, question: str, entities: Mapping[int, str], rows: Sequence[int]
    ) -> list[int]:
        """The rows in rounds, one of each entity and relation, the likeliest relation first."""
        assert self.matcher is not None
        scores = dict[tuple[int, RelationChoice], float]()
        for entity, surface in entities.items():
            match = self.matcher.match(question, surface, entity)
            if match is not None:
                scores |= {(entity, choice): share for choice, share in match.shares.items()}
        groups: dict[tuple[int, RelationChoice], list[int]] = {}
        for row in rows:
            head, relation, tail = self.graph.triples[row].tolist()
            ends = ((head, RelationChoice(relation, False)), (tail, RelationChoice(relation, True)))
            known = [end for end in ends if end in scores]
            best = max(known, key=lambda end: scores[end], default=ends[0])
            groups.setdefault(best, []).append(row)
        ordered = sorted(groups, key=lambda end: -scores.get(end, -1.0))
        most = max(map(len, groups.values()), default=0)
        return [
            groups[end][turn] for turn in range(most) for end in ordered if turn < len(groups[end])
        ]

    def _read(
        self, question: str, links: Sequence[Link], rows: Sequence[int], options: AskOptions
    ) -> _Written:
        """What is written with all facts, without each of them, and without any."""
        if isinstance(self.host, LlamaCppDecoder):
            return self._read_words(self.host, question, links, rows, options)
        batch, small = self._variants(question, links, rows, options)
        vectors = None
        if options.facts_as == "nodes":
            vectors = LabelVectors.of(small, self.host, self.tokenizer)
        tree = knowledge_tree(self.host, batch, vectors=vectors)
        end = self.tokenizer.eos_token_id
        words = write(self.host, tree, n_new=options.n_new, end_id=end).words
        texts = self.tokenizer.batch_decode(words, skip_special_tokens=True)
        answer = words[0][words[0] != end]
        total = torch.zeros(len(words))
        if len(answer):
            expanded = answer.expand(len(words), -1)
            with torch.no_grad():
                total = chances(self.host, tree, expanded).sum(dim=1)
        n_nodes = int(batch.node_mask[0].sum())
        return _Written(tuple(t.strip() for t in texts), total, len(answer), n_nodes)

    def _read_words(
        self,
        host: LlamaCppDecoder,
        question: str,
        links: Sequence[Link],
        rows: Sequence[int],
        options: AskOptions,
    ) -> _Written:
        """The same by llama.cpp, which reads facts as words."""
        if options.facts_as != "words":
            raise ConfigError(
                f"llama.cpp reads facts as words, not as {options.facts_as}; choose the decoder "
                "backend torch"
            )
        texts = self._texts(question, links, _leaving_out(rows), options)
        self._require_short(texts, options)
        read = [self.tokenizer(text.text)["input_ids"] for text in texts]
        written = host.write(read, options.n_new)
        end = self.tokenizer.eos_token_id
        answer = [word for word in written[0].words if word != end]
        totals = [
            sum(host.log_chances(text, answer, known))
            for text, known in zip(read, written, strict=True)
        ]
        words = self.tokenizer.batch_decode(
            [each.words for each in written], skip_special_tokens=True
        )
        return _Written(
            tuple(text.strip() for text in words), torch.tensor(totals), len(answer), len(read[0])
        )

    def _variants(
        self, question: str, links: Sequence[Link], rows: Sequence[int], options: AskOptions
    ) -> tuple[KnowledgeBatch, KnowledgeGraph]:
        """A row for all facts, for all but each, for none; and the graph of these facts alone."""
        small = excerpt(self.graph, rows)
        kept = _leaving_out(rows)
        texts = self._texts(question, links, kept, options)
        limit = self._require_short(texts, options)
        config = BuilderConfig(
            policy="file",
            max_neighbours=options.max_facts,
            directions=options.directions,
            replace_mentions=False,
            drop_probability=0.0,
            repeats="first",
            max_words=limit,
            max_nodes=4 * limit,
        )
        fact_ids = {row: _ids(self.graph, row, small) for row in rows}
        exclude = [
            Exclusion(
                triples=np.array(
                    [fact_ids[row] for row in rows if row not in some], np.int32
                ).reshape(-1, 3)
            )
            for some in kept
        ]
        built = build_many(texts, self.tokenizer, small, seed=0, config=config, exclude=exclude)
        view = self._view(small, options, 4 * limit)
        pad = self.tokenizer.pad_token_id or 0
        return KnowledgeBatch.stack([view(each) for each in built], word_pad_id=pad), small

    def _texts(
        self,
        question: str,
        links: Sequence[Link],
        variants: Sequence[Sequence[int]],
        options: AskOptions,
    ) -> list[LinkedText]:
        """The prompt of each variant; the facts stand in it where they are words."""
        if options.facts_as == "words":
            context = [sentences(self.graph, rows) for rows in variants]
            return [prompt(self.tokenizer, question, (), s, options.begin) for s in context]
        text = prompt(self.tokenizer, question, links, "", options.begin)
        return [text] * (len(variants) - 1) + [dataclasses.replace(text, links=())]

    def _view(self, small: KnowledgeGraph, options: AskOptions, max_nodes: int) -> View:
        if options.facts_as == "words":
            return WordsView()
        if options.facts_as == "nodes":
            return CoLAKEView()
        n = options.max_facts
        return KBERTView(small, self.tokenizer, max_branches=n, max_nodes=max_nodes)

    def _require_short(self, texts: Sequence[LinkedText], options: AskOptions) -> int:
        """How many word pieces a text may have; raises `ConfigError` for a longer one."""
        n_positions = _n_positions(self.host)
        limit = n_positions - options.n_new
        if limit < 3:
            raise ConfigError(
                f"{options.n_new} new word pieces leave no room for a question among the decoder's "
                f"{n_positions} positions; give at most {n_positions - 3} (--new, n_new)"
            )
        longest = max(len(ids) for ids in self.tokenizer([t.text for t in texts])["input_ids"])
        if longest > limit:
            raise ConfigError(
                f"the question with its facts has {longest} word pieces; the decoder "
                f"reads {limit} and writes {options.n_new}; shorten the question, or show fewer "
                "facts (--max-facts, max_facts)"
            )
        return limit


@dataclass(frozen=True, eq=False)
class _Written:
    """Texts `[variant]`, the log-probability of the first one's words `[variant]`, sizes."""

    texts: tuple[str, ...]
    log_chances: torch.Tensor
    n_words: int
    n_nodes: int


def _leaving_out(rows: Sequence[int]) -> list[list[int]]:
    """All rows, all but each, and none."""
    return [list(rows), *([r for r in rows if r != row] for row in rows), []]


def _n_positions(host: PreTrainedModel | LlamaCppDecoder) -> int:
    if isinstance(host, LlamaCppDecoder):
        return host.n_positions
    config = host.config
    window = getattr(config, "sliding_window", None) or config.max_position_embeddings
    return min(int(config.max_position_embeddings), int(window))


def excerpt(graph: KnowledgeGraph, rows: Sequence[int]) -> KnowledgeGraph:
    """The graph of the facts in `rows` alone, with their labels; its ids are its own.

    >>> from kept import atlas
    >>> excerpt(atlas.graph(), [0, 1]).n_triples
    2
    """
    triples = [graph.triples[row].tolist() for row in rows]
    records: list[Record] = []
    for entity in dict.fromkeys(end for head, _, tail in triples for end in (head, tail)):
        name = graph.entities.name(entity)
        records.append(Text(name, TextKind.LABEL, graph.label(entity)))
    for relation in dict.fromkeys(relation for _, relation, _ in triples):
        name = graph.relations.name(relation)
        label = graph.relation_label(relation)
        records.append(Text(name, TextKind.LABEL, label, is_relation=True))
    for head, relation, tail in triples:
        names = graph.entities.name(head), graph.relations.name(relation)
        records.append(Triple(*names, graph.entities.name(tail)))
    return graph_from_records(records)


def _ids(graph: KnowledgeGraph, row: int, small: KnowledgeGraph) -> list[int]:
    """The ids of a fact of `graph` in its excerpt."""
    head, relation, tail = graph.triples[row].tolist()
    return [
        small.entities.id(graph.entities.name(head)),
        small.relations.id(graph.relations.name(relation)),
        small.entities.id(graph.entities.name(tail)),
    ]


def sentence(graph: KnowledgeGraph, row: int) -> str:
    """Return a fact as a sentence: "The country of Rouen is France.", "Eva member of Rotary."."""
    head, relation, tail = graph.triples[row].tolist()
    subject, label, value = graph.label(head), graph.relation_label(relation), graph.label(tail)
    if label.split()[-1:] and label.split()[-1] in PREPOSITIONS:
        return f"{subject} {label} {value}."
    return f"The {label} of {subject} is {value}."


def sentences(graph: KnowledgeGraph, rows: Sequence[int]) -> str:
    """Return facts as a text before a question, the first of `rows` last.

    A small decoder answers best from what it read last: 60 of 75 dev questions of
    `experiments/popular_questions` against 55 with the best fact first.
    """
    return "".join(f"{sentence(graph, row)} " for row in reversed(rows))


def prompt(
    tokenizer: Any, question: str, links: Sequence[Link], context: str, begin: str
) -> LinkedText:
    """The question in the tokenizer's chat format, `context` before it, `begin` of the answer
    behind.

    A tokenizer without a chat format gets "Question: …" and "Answer:". `links` are those of the
    question, and move with it. Raises `ConfigError` where a chat format changes the question.
    """
    if tokenizer.chat_template:
        text = _in_chat_format(tokenizer, f"{context}{question}")
        mark = tokenizer.bos_token
        if mark and tokenizer("")["input_ids"][:1] == [tokenizer.bos_token_id]:
            text = text.removeprefix(mark)  # the tokenizer adds it once more
    else:
        text = f"{context}\nQuestion: {question}\nAnswer:".lstrip("\n")
    start = text.rfind(question)
    if start < 0:
        raise ConfigError(f"the decoder's chat format changes the question {question!r}")
    moved = []
    for link in links:
        mention = Mention(start + link.mention.start, start + link.mention.end)
        moved.append(dataclasses.replace(link, mention=mention))
    return LinkedText(f"{text}{begin}", tuple(moved))


def _in_chat_format(tokenizer: Any, text: str) -> str:
    """The text as a person's turn; ConfigError for a chat format that cannot be filled in."""
    message = [{"role": "user", "content": text}]
    try:
        return str(
            tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        )
    except Exception as error:  # a stranger's program, which may raise anything
        reason = ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
        raise ConfigError(
            f"the decoder's chat format cannot be filled in ({reason}); mend chat_template.jinja, "
            "or chat_template in tokenizer_config.json, or remove it"
        ) from error


def by_likeness(encoder: SentenceEncoder) -> Order:
    """Facts most like the question first, by the cosine of their vectors."""

    def order(question: str, facts: Sequence[str]) -> Sequence[int]:
        vectors = encoder.encode([question, *facts])
        alike = vectors[1:] @ vectors[0]
        order: list[int] = np.argsort(-alike, kind="stable").tolist()
        return order

    return order


def in_order(question: str, facts: Sequence[str]) -> Sequence[int]:
    """Facts as they stand in the graph."""
    return range(len(facts))
