"""`probe`: rank a model's answers to every item.

Two rankings, each item in both where it can be:

- *restricted* (Petroni et al. 2019, "Language Models as Knowledge Bases?", EMNLP, section 4.4): the
  logits at one mask, among the words of a list that are one piece each; longer answers
  are not ranked. Equal to `rank_cloze` of tests/reference/original_cloze.py without a window.
- *objects*: every object of the item's relation, of any number of pieces, by the mean
  log-probability of its pieces. "at_once" reads all candidates of k pieces from one pass with k
  masks (Kassner et al. 2021, "Multilingual LAMA", EACL, section 3): pieces of one answer are taken
  as independent, and the cost is one pass for each length. "one_by_one" puts the candidate in and
  masks one piece at a time (pseudo-log-likelihood; Salazar et al. 2020, "Masked Language Model
  Scoring", ACL, section 2): k passes for each candidate. There the sum is over the whole
  sentence; here the mean over the answer's pieces, so that long answers are not penalised.
  "truth" puts the candidate in and asks whether it is a true mention (`models.truth`): one pass
  for each candidate.

`kept.lab.probing.passes` does the passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kept.errors import ConfigError
from kept.lab.probing.candidates import Candidates, Pieces, spelled
from kept.lab.probing.decoders import DecoderLM, DecoderRunner
from kept.lab.probing.items.item import ClozeItem
from kept.lab.probing.models.base import ClozeModel
from kept.lab.probing.passes import Attempt, Contest, Runner
from kept.lab.probing.results import Likelihood, ProbeAnswer, ProbeResult, RankingName

NOT_REQUESTED = "this ranking was not requested"
NO_OBJECTS = "no objects are given for its relation"
UNKNOWN = "the tokenizer has no pieces for the answer"
OUTSIDE = {
    "restricted": "the answer is not in the vocabulary",
    "objects": "the answer is not an object of its relation",
}
LONG = "the answer has more than one piece"


def probe(
    model: ClozeModel | DecoderLM,
    items: Sequence[ClozeItem],
    *,
    vocabulary: Sequence[str] | None,
    objects: Mapping[str, Sequence[str]] | None,
    likelihood: Likelihood = "at_once",
    first_word: float = 0.0,
    n_top: int = 10,
    batch_size: int = 48,
    chunk_size: int = 1024,
) -> ProbeResult:
    """The model's answer to every item, in their order.

    `vocabulary`: the words of the restricted ranking, in the order that ties follow; `objects`: the
    candidates of each relation (`objects_of` makes them). None leaves that ranking out. `n_top`
    answers are kept. The sizes affect memory only. A decoder scores answers piece by piece
    ("left_to_right"), whatever `likelihood` says, where the hole is at the end. `first_word` is a
    weight of "truth". Raises `ConfigError` for a model that cannot tell the truth.
    """
    words = None
    if vocabulary is not None:
        words = Candidates.of(vocabulary, model.tokenizer, single=True)
    by_relation = {
        relation: Candidates.of(names, model.tokenizer)
        for relation, names in (objects or {}).items()
    }
    asker: Runner | DecoderRunner
    if isinstance(model, DecoderLM):
        if likelihood == "truth":
            raise ConfigError("a decoder has no mentions to hold true; leave --truth out")
        likelihood, asker = "left_to_right", DecoderRunner(model, words, n_top=n_top)
    else:
        asker = Runner(
            model,
            words,
            likelihood=likelihood,
            n_top=n_top,
            batch_size=batch_size,
            first_word=first_word,
        )
    cut = asker.cut(items) if isinstance(asker, Runner) else None
    pieces = _pieces(items, model)
    answers: list[ProbeAnswer] = []
    for start in range(0, len(items), chunk_size):
        chunk = [Attempt(item) for item in items[start : start + chunk_size]]
        for attempt in chunk:
            named = None if objects is None else by_relation.get(attempt.item.relation, NO_OBJECTS)
            _enter(attempt, "restricted", words, pieces)
            _enter(attempt, "objects", named, pieces)
        asker.run(chunk)
        answers.extend(attempt.answer() for attempt in chunk)
    left_out = {} if words is None else {f"words: {r}": n for r, n in words.left_out.items()}
    for candidates in by_relation.values():
        for reason, n in candidates.left_out.items():
            left_out[f"objects: {reason}"] = left_out.get(f"objects: {reason}", 0) + n
    return ProbeResult(
        model=model.name,
        method=model.method,
        mode=model.mode,
        asked_facts=model.asked_facts,
        likelihood=likelihood,
        answers=tuple(answers),
        left_out=left_out,
        cut=None if cut is None else cut.as_json(),
    )


def _pieces(items: Sequence[ClozeItem], model: ClozeModel | DecoderLM) -> dict[str, Pieces]:
    """The pieces of every right answer."""
    names = list(dict.fromkeys(name for i in items for name in (i.answer, *i.also_right)))
    return dict(zip(names, spelled(names, model.tokenizer), strict=True))


def _enter(
    attempt: Attempt,
    ranking: RankingName,
    candidates: Candidates | str | None,
    pieces: Mapping[str, Pieces],
) -> None:
    """The item's contest, or the reason why there is none."""
    answer_pieces = pieces[attempt.item.answer]
    if candidates is None or isinstance(candidates, str):
        attempt.skip(ranking, candidates or NOT_REQUESTED)
    elif not answer_pieces:
        attempt.skip(ranking, UNKNOWN)
    elif ranking == "restricted" and len(answer_pieces) > 1:
        attempt.skip(ranking, LONG)
    elif answer_pieces not in candidates.places:
        attempt.skip(ranking, OUTSIDE[ranking])
    else:
        gold = candidates.places[answer_pieces]
        right = (candidates.places.get(pieces[name], gold) for name in attempt.item.also_right)
        others = tuple(sorted(frozenset(right) - {gold}))
        attempt.contests[ranking] = Contest(candidates, gold, others)
