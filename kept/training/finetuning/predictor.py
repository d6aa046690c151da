"""`Predictor`: the answers of a fine-tuned run for new texts, and the influence of each fact.

Axis legend: item, class.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from entity_linking.completing import with_links
from entity_linking.dictionary import DictionaryLinker
from entity_linking.mentions import LinkedText, Linker, Mention
from entity_linking.names.rules.case import CASES, Case
from kept import hosts
from kept.auto import saved_builder, saved_tokenizer, saved_view
from kept.batches import KnowledgeBatch
from kept.errors import CheckpointError, ConfigError
from kept.graphs.builder import BuilderConfig
from kept.graphs.cuts import Cut, report_cut
from kept.graphs.edit import without_fact
from kept.graphs.explain import fact_in_words
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.views import View
from kept.graphs.windows import LONG, Long
from kept.heads.model import KnowledgeForTask
from kept.heads.span import SpanOptions
from kept.inputs.views import builder_for, view_for
from kept.linking.given_mentions import link_given
from kept.linking.linkers import METHODS as LINK_METHODS
from kept.linking.linkers import LinkerSettings, Method, open_linker
from kept.methods import method_of
from kept.model_settings import settings_text
from kept.tasks.datasets.example import pair_of, question
from kept.tasks.datasets.formats import TaskExample
from kept.tasks.kinds import TASKS, Prediction, TaskKind, task_kind
from kept.training.finetuning.attention import gives_weights, rollout
from kept.training.finetuning.data import TaskData, apply_condition
from kept.training.finetuning.markers import MARKERS
from kept.training.finetuning.run import class_logits, predictions
from kg_loaders import KnowledgeGraph
from kg_loaders.notebook import table

Question = str | LinkedText | TaskExample
CONFIG_FILE, FIT_FILE = "finetune.json", "fit.json"
BY_NAMES: Method = "prior"
NOTHING_SHOWN = (
    "the model was shown nothing of %s, so the answer is by the words alone: no name in the text "
    "is in the graph, or none has facts; `kept link TEXT --kg KG` shows which names are found"
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Influence:
    """One piece of knowledge and the answer without it.

    `kind` is "fact" or "link", `what` says it in words, `row` is the fact's row in the graph and
    `link` the index of the link that brought it. `score` is that of the class in question without
    it, `change` the score with everything minus that: above 0, it spoke for the class.
    `label` is the answer without it. `attention` is the fact's share in what the head reads, by
    attention rollout over the host's layers; None for a link, and where facts are not nodes.
    """

    kind: str
    what: str
    row: int | None
    link: int
    score: float
    change: float
    label: str
    attention: float | None = None


@dataclass(frozen=True)
class GroupInfluence:
    """What an answer was without several facts of link `link` at once.

    `why`: "say the same" (they lead to the same thing, so that leaving out one changes nothing), or
    "all of its facts". `what` are the facts in words, otherwise as `Influence`.
    """

    why: str
    what: tuple[str, ...]
    rows: tuple[int, ...]
    link: int
    score: float
    change: float
    label: str


@dataclass(frozen=True)
class Explanation:
    """The answer to one text, the scores of all classes and every influence, the largest first.

    Scores are probabilities; of a regression, its number. `about` is the class whose score the
    influences change. `label` is "" where no type is likely enough. `groups` are facts left out
    together.
    """

    text: str
    label: str
    about: str
    scores: dict[str, float]
    influences: tuple[Influence, ...]
    groups: tuple[GroupInfluence, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """All of it, for a file."""
        return dataclasses.asdict(self)

    def _repr_html_(self) -> str:
        rows = [
            (i.kind, i.what, f"{i.score:.3f}", f"{i.change:+.3f}", i.label) for i in self.influences
        ]
        columns = ("kind", "what is left out", f"{self.about} without it", "change", "answer")
        return table(f"{self.text} → {self.label}", columns, rows, len(rows))


class Reading(NamedTuple):
    """What a model reads of one text, and its answer: scores of all classes, as in `Explanation`.

    `batch` is the `view` of `word_graph`, with the task's marks in the text.
    """

    label: str
    scores: dict[str, float]
    word_graph: WordKnowledgeGraph
    batch: KnowledgeBatch
    view: View


WINDOWS = "give shorter texts, or windows of them, each predicted on its own"


class Predictor:
    """A fine-tuned model with its tokenizer and the settings it was trained with.

    >>> predictor = Predictor.from_pretrained("runs/roles")           # doctest: +SKIP
    >>> example = question("Padre met Jasper.", "Padre")
    >>> predictor.explain(example, kg="kg/").influences[0].what         # doctest: +SKIP
    'Padre — works as → welder'
    """

    def __init__(
        self,
        model: KnowledgeForTask,
        tokenizer: PreTrainedTokenizerBase,
        *,
        task: str,
        markers: str | None = None,
        builder: BuilderConfig | None = None,
        view: Mapping[str, Any] | None = None,
        threshold: float = 0.0,
        case: Case = "smart",
        link_method: Method = BY_NAMES,
        long: Long = "cut",
        links_given: bool = False,
    ) -> None:
        self.model, self.tokenizer, self.task = model.eval(), tokenizer, task
        self.case: Case = case
        self.link_method: Method = link_method
        self.long: Long = long
        self.links_given = links_given
        self.markers, self.threshold = markers or TASKS[task].markers, threshold
        self.method = method_of(model.encoder)
        self.view = dict(view or {})
        settings = builder_for(self.method, builder or BuilderConfig(), self.view)
        self.builder = dataclasses.replace(settings, drop_probability=0.0)

    def __repr__(self) -> str:
        return f"Predictor({self.task}, {type(self.model.encoder).__name__}, {self.builder})"

    @property
    def kind(self) -> TaskKind:
        """The kind of its task."""
        return task_kind(self.model.question().problem_type)

    @classmethod
    def from_pretrained(cls, folder: str | Path, *, case: Case | None = None) -> Predictor:
        """Return the model of a `kept finetune` run; raises `CheckpointError` for other folders.

        `case` is how case counts where texts are linked by names; None: as in the training.
        """
        path = Path(folder) / CONFIG_FILE
        if not path.is_file():
            raise CheckpointError(
                f"{folder} has no {CONFIG_FILE}: give a folder of kept finetune or kept fit"
            )
        try:
            config = json.loads(settings_text(path))
            task, markers = config["task"], config.get("markers")
            threshold = float(config.get("threshold", 0.0))
            own_case, long = config.get("case", "smart"), config.get("long", "cut")
            _require_known(task, markers, threshold, own_case, long)
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
            OSError,
        ) as error:
            raise CheckpointError(f"{path} is not what a run wrote: {error}") from error
        return cls(
            KnowledgeForTask.from_pretrained(folder),
            saved_tokenizer(folder),
            task=task,
            markers=markers,
            builder=saved_builder(folder),
            view=saved_view(folder),
            threshold=threshold,
            case=case or own_case,
            link_method=_link_method(Path(folder) / FIT_FILE),
            long=long,
            links_given=bool(_data_of_fit(Path(folder) / FIT_FILE).get("links_given", False)),
        )

    def predict(
        self,
        questions: Sequence[Question],
        kg: KnowledgeGraph | str | Path,
        linker: Linker | None = None,
    ) -> list[tuple[str, ...]]:
        """Return the labels of every question, in their order; of a regression the number as text.

        Of a tagging one for each word; a question without targets is parted into runs of letters
        and digits, and every other sign alone. Of a span its words: the question is a pair of texts
        (`kept.graphs.words.join_texts`). Of choices
        (`kept.tasks.datasets.questions.choices.choice_example`) the number of the best, from 1.

        Texts without links are linked by `linker`, without one by the names of `kg` in the `case`
        of the training. What is cut of long texts is counted in the log; a text is read around its
        targets. Raises `ConfigError` where one is missing, or where they are too far apart, and
        `GraphMismatchError` for a graph whose rows are not the model's.
        """
        return [each.labels for each in self.predictions(questions, kg, linker)]

    def predictions(
        self,
        questions: Sequence[Question],
        kg: KnowledgeGraph | str | Path,
        linker: Linker | None = None,
        *,
        cuts: list[Cut] | None = None,
    ) -> list[Prediction]:
        """Return the labels of every question with their confidence; raises what `predict` does.

        What is cut of long texts is put into `cuts`, where it is given, instead of into the log.
        """
        graph = self._graph(kg)
        data = self._data(self._examples(questions, graph, linker), graph)
        if cuts is None:
            report_cut(data.cut, self.remedy_for_cuts())
            if len(questions) == 1 and data.coverage.read == 0:
                _log.warning(NOTHING_SHOWN, graph)
        else:
            cuts.append(data.cut)
        return predictions(self.model, data, threshold=self.threshold)

    def linker(self, graph: KnowledgeGraph) -> Linker:
        """Return the linker that the training had: by names, unless `kept fit` took another."""
        if self.link_method == BY_NAMES:
            return DictionaryLinker(graph, case=self.case)
        graph_name = str(graph.folder or "a graph in memory")
        settings = LinkerSettings(kg=graph_name, method=self.link_method, case=self.case)
        return open_linker(settings, graph)

    def classes_for(self, task: str, labels: Sequence[str]) -> list[str]:
        """The model's classes, for a model that learns from it; raises `ConfigError` where it was
        trained for another task, or `labels` has a class that is not among them."""
        names = list(self.model.question().labels)
        if task != self.task:
            raise ConfigError(f"the teacher was trained for {self.task}, not {task}")
        if unknown := sorted(set(labels).difference(names)):
            raise ConfigError(f"the teacher has no class {unknown[0]!r}; it has {', '.join(names)}")
        return names

    def logits(
        self, examples: Sequence[TaskExample], graph: KnowledgeGraph
    ) -> Float[Tensor, "item class"]:
        """A row for each example with its own links, NaN where its targets are cut off.

        Raises `ConfigError` for a task without one answer a text, otherwise as `predict`.
        """
        self._one_class()
        data = self._data(examples, self._graph(graph), is_whole=False)
        rows = torch.full((len(examples), len(self.model.question().labels)), math.nan)
        rows[torch.from_numpy(data.indices)] = class_logits(self.model, data)
        return rows

    @torch.no_grad()
    def explain(
        self,
        question: Question,
        kg: KnowledgeGraph | str | Path,
        linker: Linker | None = None,
        *,
        about: str | None = None,
    ) -> Explanation:
        """Return the answer, and the answer without each fact and without each link.

        Everything is predicted in one batch. Without a link, its facts are gone too and the text
        stands there as words; where the builder draws facts at random, those of later links are
        drawn anew. Where the view shows fewer facts than the graph has, the next one may take the
        place of one left out. `about` is the class whose score is followed, by default the answer's
        (of several types the likeliest). Raises as `predict` does, and for a task that tags words.
        """
        graph, kind = self._graph(kg), self._one_class()
        (example,) = self._examples([question], graph, linker)
        data = self._reported([example], graph)
        graphs = [data.sample_graph(0, epoch=0, seed=0, window=w) for w in range(data.n_rows(0))]
        facts = _in_windows(graphs, [[("", [n]) for n in _shown_facts(each)] for each in graphs])
        groups = _in_windows(graphs, [_groups(each, _shown_facts(each)) for each in graphs])
        links = example.linked.links
        linked = [i for i, link in enumerate(links) if link.entity or link.candidates]
        whole = data.sample(0, epoch=0, seed=0)
        without = [
            {w: data.encode_graph(0, _without_facts(graphs[w], gone), w) for w, gone in at.items()}
            for _, at in (*facts, *groups)
        ]
        scores = self._scores(
            whole,
            [
                {},
                *without[: len(facts)],
                *(_rows(each) for each in self._without_links(example, linked, graph)),
                *without[len(facts) :],
            ],
            kind,
        )
        names = self.model.question().labels
        if about is not None and about not in names:
            raise ConfigError(f"{about!r} is not a class; there are {', '.join(names)}")
        best = int(scores[0].argmax())
        followed = best if about is None else names.index(about)
        labels = [self._label(row, kind) for row in scores]

        def influence(
            kind: str, what: str, row: int | None, link: int, index: int, attention: float | None
        ) -> Influence:
            score = float(scores[index, followed])
            change = float(scores[0, followed]) - score
            return Influence(kind, what, row, link, score, change, labels[index], attention)

        shares: dict[tuple[int, int], float | None] = {}
        for w, each in enumerate(graphs):
            nodes = _shown_facts(each)
            places = [data.fact_nodes(each, node) for node in nodes]
            row = self._attention(whole.take(slice(w, w + 1)), places)
            shares |= {(w, node): share for node, share in zip(nodes, row, strict=True)}
        influences = []
        for i, (_, at) in enumerate(facts):
            w, (node,) = next(iter(at.items()))
            link, fact, _ = graphs[w].origins[node].tolist()
            attention = shares[w, node]
            what = fact_in_words(graph, fact)
            influences.append(influence("fact", what, fact, link, 1 + i, attention))
        n_before = 1 + len(facts)
        influences += [
            influence("link", _link_in_words(example.linked, i), None, i, n_before + n, None)
            for n, i in enumerate(linked)
        ]
        n_single = n_before + len(linked)
        together = []
        for index, (why, at) in enumerate(groups, n_single):
            w, nodes = next(iter(at.items()))
            rows = graphs[w].origins[nodes, 1].tolist()
            score = float(scores[index, followed])
            together.append(
                GroupInfluence(
                    why,
                    tuple(fact_in_words(graph, each) for each in rows),
                    tuple(rows),
                    int(graphs[w].origins[nodes[0], 0]),
                    score,
                    float(scores[0, followed]) - score,
                    labels[index],
                )
            )
        return Explanation(
            text=example.linked.text,
            label=labels[0],
            about=names[followed],
            scores=dict(zip(names, scores[0].tolist(), strict=True)),
            influences=tuple(sorted(influences, key=lambda one: -abs(one.change))),
            groups=tuple(together),
        )

    @torch.no_grad()
    def read(
        self,
        question: Question,
        kg: KnowledgeGraph | str | Path,
        linker: Linker | None = None,
    ) -> Reading:
        """Return the answer to one text and what was read for it; raises as `explain` does.

        Of a text in several windows the graph and the batch are those of the first.
        """
        graph, kind = self._graph(kg), self._one_class()
        data = self._reported(self._examples([question], graph, linker), graph)
        word_graph, batch = data.sample_graph(0, epoch=0, seed=0), data.sample(0, epoch=0, seed=0)
        scores = self._scores(batch, [{}], kind)[0]
        named = dict(zip(self.model.question().labels, scores.tolist(), strict=True))
        first = batch.take(slice(0, 1))
        return Reading(self._label(scores, kind), named, word_graph, first, data.view)

    def _one_class(self) -> TaskKind:
        """The kind of the task; raises `ConfigError` for one that has no score of each class."""
        if not self.kind.has_one_answer:
            raise ConfigError(
                f"{self.task} answers word by word, or by choices; this function is for one class"
            )
        return self.kind

    def _graph(self, kg: KnowledgeGraph | str | Path) -> KnowledgeGraph:
        graph = kg if isinstance(kg, KnowledgeGraph) else KnowledgeGraph.open(kg)
        self.model.encoder.require_graph(graph)
        return graph

    def _examples(
        self, questions: Sequence[Question], graph: KnowledgeGraph, linker: Linker | None
    ) -> list[TaskExample]:
        if isinstance(questions, str | LinkedText | TaskExample):
            raise ConfigError(f"{str(questions)[:60]!r} is one text; give a list of texts")
        examples = [_example(each) for each in questions]
        used_linker = linker or self.linker(graph)
        texts = with_links([each.linked for each in examples], used_linker)
        if self.links_given:
            mentions = [() if each.linked.links else each.targets for each in examples]
            texts = link_given(texts, mentions, graph, self.case)
        n_targets = self.model.config.head.get("n_targets", 0)
        kind = self.kind
        examples = [
            dataclasses.replace(each, linked=text)
            for each, text in zip(examples, texts, strict=True)
        ]
        if kind.labels_nodes:
            examples = [_in_words(each) for each in examples]
        for each in examples:
            if len(each.targets) != n_targets and kind.has_one_answer:
                raise ConfigError(
                    f"{self.task} needs {n_targets} mention(s) in a text, "
                    f"{each.linked.text[:60]!r} comes with {len(each.targets)}; name each with "
                    "--target NAME (in Python target=NAME, or kept.question(text, NAME))"
                )
        if n_targets == 2 and kind.has_one_answer:
            examples = [_with_pair(each) for each in examples]
        return examples

    def _data(
        self, examples: Sequence[TaskExample], graph: KnowledgeGraph, *, is_whole: bool = True
    ) -> TaskData:
        data = TaskData(
            apply_condition(examples, markers=self.markers, knowledge="true"),
            graph,
            self.tokenizer,
            builder=self.builder,
            view=view_for(self.method, graph, self.tokenizer, self.view),
            problem_type=self.model.question().problem_type,
            labels=None,
            spans=self._span_options(),
            long=self.long,
        )
        if data.cut_off and is_whole:
            raise ConfigError(
                f"the targets of {data.cut_off[0].unmarked[:60]!r} are more than "
                f"{data.view.most_words(self.builder)} word pieces apart, or in a pair of texts "
                "that is longer; give a part of the text that has them"
            )
        return data

    def _reported(self, examples: Sequence[TaskExample], graph: KnowledgeGraph) -> TaskData:
        """The data of `examples`; what is cut of them is counted in the log."""
        data = self._data(examples, graph)
        report_cut(data.cut, self.remedy_for_cuts())
        return data

    def remedy_for_cuts(self) -> str:
        """Return what to do about texts of which not all is read."""
        if self.kind.rows == "windows":
            return (
                "the context is read in windows, whole; of the question the head's max_question "
                "pieces, a setting of kept finetune"
            )
        return "give a shorter question" if self.kind.rows == "choices" else WINDOWS

    def _span_options(self) -> SpanOptions | None:
        head = self.model.config.head
        names = {field.name for field in dataclasses.fields(SpanOptions)}
        if head["name"] != "span":
            return None
        return SpanOptions(**{name: value for name, value in head.items() if name in names})

    def _without_links(
        self, example: TaskExample, links: Sequence[int], graph: KnowledgeGraph
    ) -> Iterator[KnowledgeBatch]:
        """The example without each link, every one number 0 of its set: the draws stay."""
        for removed in links:
            kept = tuple(link for i, link in enumerate(example.linked.links) if i != removed)
            linked = dataclasses.replace(example.linked, links=kept)
            data = self._data([dataclasses.replace(example, linked=linked)], graph)
            yield data.sample(0, epoch=0, seed=0)

    def _attention(
        self, batch: KnowledgeBatch, nodes: Sequence[NDArray[np.int64]]
    ) -> list[float | None]:
        """Of each group of nodes, its share of what is read; of several targets their mean.

        None where the host's layers do not give their weights.
        """
        if not any(len(group) for group in nodes) or not gives_weights(self.model):
            return [None] * len(nodes)
        batch = batch.to(self.model.device)
        spans = batch.target_spans
        read = [0] if spans is None else spans[0, :, 0].tolist()
        shares = rollout(self.model, batch)[read].mean(0)
        return [float(shares[group].sum()) if len(group) else None for group in nodes]

    def _scores(
        self,
        whole: KnowledgeBatch,
        changed: Sequence[Mapping[int, KnowledgeBatch]],
        kind: TaskKind,
    ) -> Tensor:
        """`[change class]`: probabilities, or the number of a regression.

        `whole` is a text, a row for each window; a change says what is read in the place of some.
        """
        rows = [whole, *(row for each in changed for row in each.values())]
        pad_id = hosts.padding_id(self.tokenizer)
        batch = KnowledgeBatch.stack(rows, word_pad_id=pad_id).to(self.model.device)
        logits = self.model(batch).class_logits.double().cpu()
        others = iter(logits[len(whole) :])
        texts = []
        for each in changed:
            windows = logits[: len(whole)].clone()
            for window in each:
                windows[window] = next(others)
            texts.append(windows.mean(0))
        return kind.shares(torch.stack(texts))

    def _label(self, scores: Tensor, kind: TaskKind) -> str:
        return kind.answer(scores, self.model.question().labels, self.threshold)


def _example(given_question: Question) -> TaskExample:
    return given_question if isinstance(given_question, TaskExample) else question(given_question)


def _with_pair(example: TaskExample) -> TaskExample:
    """The example of a relation with the entities of its ends: facts that join them stay hidden.

    The training never showed them.
    """
    pair = example.pair or pair_of(example.linked.links, example.targets)
    return dataclasses.replace(example, pair=pair)


def _in_words(example: TaskExample) -> TaskExample:
    """The example with its words as targets, where it has none: a tagger answers word by word."""
    if example.targets:
        return example
    text = example.linked.text
    words = tuple(Mention(*match.span()) for match in re.finditer(r"\w+|[^\w\s]", text))
    if not words:
        raise ConfigError(f"{text!r} has no word to tag; give a text with words")
    return dataclasses.replace(example, targets=words)


def _link_in_words(linked: LinkedText, index: int) -> str:
    link = linked.links[index]
    surface = linked.text[link.mention.start : link.mention.end]
    return f"“{surface}” → {link.entity or 'its candidates'}"


def columns_of_fit(folder: str | Path) -> dict[str, str]:
    """Return the columns that `kept fit` was given by name, by what they are for.

    Empty for any other run. Raises `CheckpointError` for a file that `kept fit` did not write.
    """
    path = Path(folder) / FIT_FILE
    columns = _data_of_fit(path).get("columns", {})
    if not isinstance(columns, dict) or not all(isinstance(v, str) for v in columns.values()):
        raise CheckpointError(f"{path}: columns {columns!r} are not names by use"[:300])
    return columns


def _data_of_fit(path: Path) -> dict[str, Any]:
    """What `kept fit` wrote of its data; nothing for any other run."""
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(settings_text(path))["data"])
    except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        raise CheckpointError(f"{path} is not what kept fit wrote: {error}") from error


def _link_method(path: Path) -> Method:
    """The method with which `kept fit` linked the texts; `BY_NAMES` for any other run."""
    method = _data_of_fit(path).get("link_method", BY_NAMES)
    if method not in LINK_METHODS or method == "trained":
        raise CheckpointError(f"{path}: link_method {method!r} is none of kept link's")
    return cast(Method, method)


def _require_known(task: Any, markers: Any, threshold: float, case: Any, long: Any) -> None:
    """Raise `ValueError` for settings that no run of `kept finetune` writes."""
    tables = (
        ("task", task, TASKS),
        ("markers", markers, MARKERS),
        ("case", case, CASES),
        ("long", long, LONG),
    )
    for what, name, names in tables:
        if name not in [*names, *([None] if what == "markers" else [])]:
            raise ValueError(f"{what} {name!r} is none of {', '.join(names)}")
    if not math.isfinite(threshold):
        raise ValueError(f"threshold is {threshold}, which is not a finite number")


def _shown_facts(word_graph: WordKnowledgeGraph) -> list[int]:
    """Relation nodes of facts that links bring."""
    nodes = (word_graph.kinds == NodeKind.RELATION).nonzero()[0]
    return [int(node) for node in nodes if word_graph.origins[node, 1] >= 0]


def _groups(
    word_graph: WordKnowledgeGraph, relations: Sequence[int]
) -> list[tuple[str, list[int]]]:
    """Relation nodes of facts that lead from a mention to the same thing, and of all its facts."""
    by_link: dict[int, list[int]] = {}
    by_end: dict[tuple[int, int], list[int]] = {}
    for node in relations:
        link = int(word_graph.origins[node, 0])
        by_link.setdefault(link, []).append(node)
        for end in _far_ends(word_graph, node):
            by_end.setdefault((link, end), []).append(node)
    same = [("say the same", nodes) for nodes in by_end.values() if len(nodes) > 1]
    whole = [("all of its facts", nodes) for nodes in by_link.values() if len(nodes) > 1]
    return same + [each for each in whole if each[1] not in [nodes for _, nodes in same]]


def _far_ends(word_graph: WordKnowledgeGraph, relation: int) -> list[int]:
    """The entities, by id, that a relation node joins to the entity that brought it."""
    edges = word_graph.edges[(word_graph.edges == relation).any(axis=1)]
    ends = [int(node) for node in np.unique(edges) if node != relation]
    return [int(word_graph.ids[node]) for node in ends if word_graph.origins[node, 1] >= 0]


def _rows(batch: KnowledgeBatch) -> dict[int, KnowledgeBatch]:
    return {row: batch.take(slice(row, row + 1)) for row in range(len(batch))}


def _in_windows(
    graphs: Sequence[WordKnowledgeGraph], groups: Sequence[Sequence[tuple[str, list[int]]]]
) -> list[tuple[str, dict[int, list[int]]]]:
    """Groups of relation nodes, by window, as one for all windows that show the same facts."""
    joined: dict[Any, tuple[str, dict[int, list[int]]]] = {}
    for w, (word_graph, of_window) in enumerate(zip(graphs, groups, strict=True)):
        for why, nodes in of_window:
            facts = tuple(map(tuple, word_graph.origins[nodes, :2].tolist()))
            number = 0  # of the same facts in this window
            while w in joined.get((why, facts, number), ("", {}))[1]:
                number += 1
            joined.setdefault((why, facts, number), (why, {}))[1][w] = nodes
    return list(joined.values())


def _without_facts(word_graph: WordKnowledgeGraph, relations: Sequence[int]) -> WordKnowledgeGraph:
    """The graph without several facts; nodes move when one goes, so each is looked up anew."""
    if len(relations) == 1:
        return without_fact(word_graph, relations[0])
    origins = [tuple(word_graph.origins[node, :2].tolist()) for node in relations]
    for link, row in origins:
        nodes = np.flatnonzero(
            (word_graph.kinds == NodeKind.RELATION)
            & (word_graph.origins[:, 0] == link)
            & (word_graph.origins[:, 1] == row)
        )
        if len(nodes):
            word_graph = without_fact(word_graph, int(nodes[0]))
    return word_graph
