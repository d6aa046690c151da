"""`kept fit` on questions with answers: which way of answering from a graph is right, and by what.

Each way (`kept.lab.questions.fitted`) answers dev, with the true facts alone; knowledge is taken
only if it is better than the decoder alone by more than chance. Test is answered by the choice and
by
the decoder alone; by the choice with another entity's facts; and over the graph without the facts
that answer, where the choice should refuse.

Axis legend: question.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import torch

from entity_linking.annotations.linked_texts import MOST_CANDIDATES
from entity_linking.parts import SentenceEncoder
from kept.decoders.answering.answer import LEAST_CONFIDENCE, Answer
from kept.errors import KeptError, NoControlError
from kept.lab.fitting.data import SPLITS, Coverage, as_fields, is_ambiguous, read_data
from kept.lab.fitting.options import FitOptions
from kept.lab.fitting.run import (
    FIT,
    SEARCH,
    Announce,
    FitResult,
    end_search,
    refuse_foreign,
    request_of,
    stored_part,
)
from kept.lab.fitting.search import SURE, Candidate, Choice, Trial, sign_test, trial_of
from kept.lab.fitting.search import as_fields as trial_fields
from kept.lab.fitting.verdict import Findings, verdict
from kept.lab.questions.answering import is_right
from kept.lab.questions.fitted import (
    WAYS,
    AnswerSettings,
    EntityQuestion,
    FittedAnswerer,
    Way,
    sentence_encoder,
    write_settings,
)
from kept.lab.questions.items import Item, QuestionSet, entity_number, values_of
from kept.lab.questions.showing import absent, other_entities
from kept.methods import BASELINE
from kept.model_files import seal_model
from kept.suggestions import no_such
from kept.tasks.datasets.example import TaskExample
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted
from kg_loaders.disk.writing import claim, write_json, write_lines

ANSWERS, DATA = "answers.jsonl", "data"
ENCODER, DECODER = "minilm", "smollm2"
"""The host of `FitOptions` where none is given, which writes nothing; and what answers instead."""
WITHOUT_DECODER = "values"
DEV_SHARE, TEST_SHARE = 0.4, 0.5
"""Of the time, for answering dev in all ways, and test."""
N_TIMED, N_CALIBRATED = 8, 300
"""Questions by which an answer is timed, and by which the confidence of refusals is chosen."""


@dataclass(frozen=True, eq=False)
class LabelledQuestion:
    """A question with its answers, and the relation by which the graph has one of them, if any."""

    question: EntityQuestion
    answers: tuple[str, ...]
    relation: str | None = None
    is_ambiguous: bool = False

    def is_right(self, answer: Answer, way: str) -> bool:
        """Whether one of the answers is given, and no more values than there are answers."""
        if answer.refusal or not answer.values:
            return False
        if way == BASELINE:
            return any(is_right(answer.values[0], each) for each in self.answers)
        known = {each.casefold() for each in self.answers}
        answers = {each.casefold() for each in answer.values}
        return bool(answers & known) and len(answers) <= len(known)

    @property
    def item(self) -> Item:
        """The same for controls of `kept.lab.questions`."""
        question = self.question
        return Item(
            question.text, question.name, question.entity or "", self.relation or "", self.answers
        )


def labelled(example: TaskExample, graph: KnowledgeGraph) -> LabelledQuestion:
    """Return a question of a table with whom it is about; `ConfigError` for an unknown entity."""
    number = None if example.source is None else entity_number(graph, example.source)
    entity = None if number is None else graph.entities.name(number)
    question = EntityQuestion.of(example.linked, entity, graph)
    doubtful = any(is_ambiguous(link) for link in example.linked.links)
    relation = None if number is None else _relation_of(graph, number, example.labels)
    return LabelledQuestion(question, example.labels, relation, doubtful)


def _relation_of(graph: KnowledgeGraph, entity: int, answers: Sequence[str]) -> str | None:
    """The first relation by which an entity has one of the answers."""
    known = {answer.casefold() for answer in answers}
    for relation in dict.fromkeys(graph.outgoing(entity)[:, 1].tolist()):
        if known & {value.casefold() for value in values_of(graph, entity, relation)}:
            return graph.relations.name(relation)
    return None


def coverage_of(questions: Sequence[LabelledQuestion]) -> Coverage:
    """How many questions name an entity, and of how many the graph has the answer."""
    n = max(1, len(questions))
    return Coverage(
        "questions",
        len(questions),
        sum(each.question.entity is not None for each in questions) / n,
        sum(each.relation is not None for each in questions) / n,
        sum(each.is_ambiguous for each in questions) / n,
    )


def ways_of(names: str) -> list[Way]:
    """Ways to choose among beside the decoder alone; raises `ConfigError` for an unknown name.

    >>> ways_of("nodes, words")
    ['words', 'nodes']
    """
    known: list[Way] = [way for way in WAYS if way != BASELINE]
    if names.strip() == "all":
        return known
    chosen = {name.strip() for name in names.split(",") if name.strip()} - {BASELINE}
    for name in sorted(chosen):
        if name not in known:
            raise no_such("way to answer questions", name, known)
    return [way for way in known if way in chosen]


def best_threshold(present: Sequence[float], missing: Sequence[float]) -> float:
    """Return the confidence that parts questions with their fact from the same ones without.

    The one with the highest mean share of answers to the first and refusals of the second; of
    equally good ones the nearest to `LEAST_CONFIDENCE`, which is also taken where there are none.

    >>> best_threshold([0.9, 0.8, 0.95], [0.3, 0.75])
    0.775
    """
    if not present or not missing:
        return LEAST_CONFIDENCE
    values = sorted({*present, *missing})
    middles = [(a + b) / 2 for a, b in pairwise(values)]

    def gain(least: float) -> float:
        answers, refusals = (x >= least for x in present), (x < least for x in missing)
        return fmean(answers) + fmean(refusals)

    best = max([LEAST_CONFIDENCE, *middles], key=lambda t: (gain(t), -abs(t - LEAST_CONFIDENCE)))
    return round(best, 4)


def choice_of(trials: Sequence[Trial]) -> Choice:
    """Return the choice: the decoder alone, unless a way is better by more than chance.

    The first trial is the decoder's alone; the others are in the order of `WAYS`.
    """
    base, *others = trials
    usable = [trial for trial in others if not trial.error]
    rival = max(usable, key=lambda trial: trial.score, default=None)
    if rival is None:
        why = "no way can read the graph here"
        return Choice(base.candidate, base.candidate, None, tuple(trials), why)
    chance = sign_test(rival.right, base.right)
    scores = f"{rival.score:.3f} with {rival.candidate}, {base.score:.3f} with the decoder alone"
    if rival.score > base.score and chance < SURE:
        why, winner = f"on dev {scores} (p = {chance:.2g})", rival
    else:
        why, winner = f"on dev {scores}: no more than chance (p = {chance:.2g})", base
    return Choice(winner.candidate, base.candidate, rival.candidate, tuple(trials), why)


# ---- a fit -----------------------------------------------------------------
def fit(
    options: FitOptions,
    announce: Announce = lambda line: None,
    *,
    encoder: SentenceEncoder | None = None,
) -> FitResult:
    """Choose a way to answer questions from a graph, evaluate it and write its folder.

    `encoder` gives vectors of sentences (default: MiniLM). Raises what `kept.lab.fitting.run.fit`
    does.
    """
    ways = ways_of(options.methods)
    refuse_foreign(options.output, options)
    options.output.mkdir(parents=True, exist_ok=True)
    with claim(options.output):
        return _QuestionFit(options, announce, encoder, ways).run()


class _QuestionFit:
    """One fit: what it reads, and its answers."""

    def __init__(
        self,
        options: FitOptions,
        announce: Announce,
        encoder: SentenceEncoder | None,
        ways: Sequence[Way],
    ) -> None:
        self.options, self.announce, self.output = options, announce, options.output
        self.ways, self.started, self.seconds = ways, time.monotonic(), options.budget * 60
        if options.threads is not None:
            torch.set_num_threads(options.threads)
        self.graph = KnowledgeGraph.open(options.kg)
        self.encoder = encoder or sentence_encoder(options.threads or 2)

    def run(self) -> FitResult:
        self.data = read_data(self.options, self.graph)
        (self.output / SEARCH).mkdir(parents=True, exist_ok=True)
        write_json(self.output / SEARCH / "options.json", request_of(self.options), force=True)
        self.data.write(self.output / DATA, candidates=MOST_CANDIDATES)
        self.splits = {
            name: [labelled(example, self.graph) for example in self.data.splits[name]]
            for name in SPLITS
        }
        self.coverage = coverage_of(self.splits["test"])
        self._announce_data()
        least = self._stored("least", self._least_confidence)
        self.announce(f"questions are refused below a confidence of {least:.2f}")
        self.answerer = FittedAnswerer(self._settings(least), self.graph, self.encoder)
        choice = choice_of([self._trial(way) for way in ("none", *self.ways)])
        self.announce(f"chosen: {choice.chosen}; {choice.why}")
        return self._finish(choice)

    def _announce_data(self) -> None:
        counts = ", ".join(f"{len(each)} {name}" for name, each in self.splits.items())
        coverage = self.coverage
        self.announce(f"task: questions with answers; {counts}")
        self.announce(
            f"test: {coverage.linked:.0%} of {counted(coverage.n, 'questions')} name an entity "
            f"({self.data.linker}); of {coverage.with_facts:.0%} the graph has a fact with the "
            "answer"
        )
        for line in self.data.notes:
            self.announce(line)

    def _settings(self, least: float) -> AnswerSettings:
        host, linker = self.options.host, self.data.linker.rpartition(" ")[2]
        decoder = str(Path(host).resolve()) if Path(host).is_dir() else host
        return AnswerSettings(
            way="none",
            kg=str(self.options.kg.resolve()),
            decoder=DECODER if host == ENCODER else decoder,
            linker="prior" if linker == "file" else linker,
            case=self.options.case,
            least=least,
        )

    def _stored(self, name: str, compute: Callable[[], Any]) -> Any:
        """What an earlier command of this fit computed, else what `compute` returns, stored."""
        path = self.output / SEARCH / f"{name}.json"
        if not path.is_file():
            write_json(path, compute())
        return stored_part(path)

    def _least_confidence(self) -> float:
        known = [each for name in ("train", "dev") for each in self.splits[name] if each.relation]
        known = known[:N_CALIBRATED]
        if not known:
            return LEAST_CONFIDENCE
        answerer = FittedAnswerer(self._settings(0.0), self.graph, self.encoder)
        questions = [each.question for each in known]
        present, missing = (
            [answer.confidence for answer in answerer.values(questions, graph, least=0.0)]
            for graph in (self.graph, without_answers(known, self.graph))
        )
        return best_threshold(present, missing)

    # ---- choosing ----------------------------------------------------------
    def _n_affordable(self, split: str, share: float, n_passes: int) -> int:
        """How many questions of a split can be answered so often in a share of the time."""

        def count() -> int:
            some = [each.question for each in self.splits[split][:N_TIMED]]
            self.answerer.answers(some[:1], way="none")  # opens the decoder
            started = time.monotonic()
            self.answerer.answers(some, way="none")
            per_question = (time.monotonic() - started) / len(some)
            n = int(share * self.seconds / max(1, n_passes) / max(per_question, 1e-6))
            return max(N_TIMED, min(len(self.splits[split]), n))

        n = int(self._stored(f"n-{split}", count))
        if n < len(self.splits[split]):
            self.announce(
                f"the budget is for {n} of the "
                f"{counted(len(self.splits[split]), 'questions')} of {split}; a "
                "longer one (--budget) takes more"
            )
        return n

    def _trial(self, way: Way) -> Trial:
        """The right answers to dev; a trial that an earlier command finished is read."""
        n_passes = 1 + sum(each != WITHOUT_DECODER for each in self.ways)
        n = self._n_affordable("dev", DEV_SHARE, n_passes) if way == BASELINE else int(
            self._stored("n-dev", lambda: len(self.splits["dev"]))
        )  # fmt: skip
        trial = trial_of(self._stored(way, lambda: trial_fields(self._tried(way, n))))
        self.announce(
            f"{way}: {trial.error or f'{trial.score:.3f} on dev'} ({counted(n, 'questions')}, "
            f"{trial.seconds:.0f} s)"
        )
        return trial

    def _tried(self, way: Way, n: int) -> Trial:
        started, some = time.monotonic(), self.splits["dev"][:n]
        try:
            right = self._right(some, way)
        except KeptError as error:
            if way == BASELINE:
                raise
            seconds = time.monotonic() - started
            return Trial(Candidate(way), 0, 0.0, seconds, error=str(error))
        score, seconds = fmean(right), time.monotonic() - started
        return Trial(Candidate(way), 0, score, seconds, dict(enumerate(right)))

    def _right(
        self,
        some: Sequence[LabelledQuestion],
        way: Way,
        questions: Sequence[EntityQuestion] | None = None,
    ) -> list[bool]:
        answers = self.answerer.answers(questions or [each.question for each in some], way=way)
        return [each.is_right(answer, way) for each, answer in zip(some, answers, strict=True)]

    # ---- the end -----------------------------------------------------------
    def _finish(self, choice: Choice) -> FitResult:
        way = cast(Way, choice.chosen.method)
        n_passes = 2 if way in (BASELINE, WITHOUT_DECODER) else 4
        test = self.splits["test"][: self._n_affordable("test", TEST_SHARE, n_passes)]
        scores = self._stored("scores", lambda: self._scores(way, test))
        finished = [trial for trial in choice.trials if not trial.error]
        on_dev = {trial.candidate: trial.score for trial in finished}
        findings = Findings(
            score=scores["chosen"],
            none=scores["none"],
            majority=scores["majority"],
            wrong=None if way == BASELINE else scores.get("wrong facts", scores["none"]),
            n=len(test),
            coverage=self.coverage,
            rival_on_dev=None if choice.rival is None else on_dev[choice.rival],
            none_on_dev=on_dev[choice.baseline],
        )
        result = FitResult(
            output=self.output, kind=self.data.kind, method=way, scores=scores,
            verdict=verdict(findings), leaks=(), why=choice.why,
            seconds=time.monotonic() - self.started, trials=choice.trials,
        )  # fmt: skip
        settings = dataclasses.replace(self.answerer.settings, way=way)
        write_settings(settings, self.output)
        fields = result.as_json() | {"data": as_fields(self.data)}
        write_json(self.output / FIT, fields, indent=1, force=True)
        seal_model(self.output)
        end_search(self.output)
        return result

    def _scores(self, way: Way, test: Sequence[LabelledQuestion]) -> dict[str, float]:
        questions = [each.question for each in test]
        answers = self.answerer.answers(questions, way=way)
        right = [each.is_right(answer, way) for each, answer in zip(test, answers, strict=True)]
        rows = zip(test, answers, right, strict=True)
        lines = (json.dumps(_row(*row), ensure_ascii=False).encode() + b"\n" for row in rows)
        write_lines(self.output / ANSWERS, lines, force=True)
        frequent = Counter(answer for each in self.splits["train"] for answer in each.answers)
        ((most, _),) = frequent.most_common(1)
        scores = {
            "chosen": fmean(right),
            "none": fmean(right if way == BASELINE else self._right(test, "none")),
            "majority": fmean(most in each.answers for each in test),
        }
        return scores if way == BASELINE else scores | self._controls(way, test, answers)

    def _controls(
        self, way: Way, test: Sequence[LabelledQuestion], answers: Sequence[Answer]
    ) -> dict[str, float]:
        """Scores with another entity's facts, and refusals with and without the fact."""
        known = [each for each in test if each.relation]
        if not known:
            return {}
        refusals = {
            "refused with the fact": [
                bool(answer.refusal)
                for each, answer in zip(test, answers, strict=True)
                if each.relation
            ],
            "refused without it": [
                bool(answer.refusal)
                for answer in self.answerer.answers(
                    [each.question for each in known],
                    way=way,
                    graph=without_answers(known, self.graph),
                )
            ],
        }
        shares = {name: fmean(each) for name, each in refusals.items()}
        try:
            others = other_entities(_set_of(known, self.graph), self.options.seed)
        except NoControlError as error:
            self.announce(f"another entity's facts were not tried: {error}")
            return shares
        with_others = [
            dataclasses.replace(
                each.question, entity=others.get(each.question.entity or "", each.question.entity)
            )
            for each in test
        ]
        return {"wrong facts": fmean(self._right(test, way, with_others)), **shares}


def without_answers(known: Sequence[LabelledQuestion], graph: KnowledgeGraph) -> KnowledgeGraph:
    """The graph without the facts that answer the questions."""
    return absent(_set_of(known, graph)).graph


def _set_of(known: Sequence[LabelledQuestion], graph: KnowledgeGraph) -> QuestionSet:
    return QuestionSet(graph, tuple(each.item for each in known), {})


def _row(question: LabelledQuestion, answer: Answer, is_right: bool) -> Mapping[str, Any]:
    return {
        "question": question.question.text,
        "answers": question.answers,
        "values": answer.values,
        "refusal": answer.refusal,
        "confidence": round(answer.confidence, 4),
        "is_right": is_right,
    }
