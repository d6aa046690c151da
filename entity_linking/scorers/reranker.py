"""`Reranker`: a small trained model over the features of scorers, with NIL as an answer.

    logit(c)   = w x(c) + u tanh(W x(c) + b)      x(c): features of the candidate and its mention
    logit(NIL) = v g + t tanh(V g + d) + e        g: features of the mention
    p          = softmax over the candidates of a mention and NIL

It is a listwise ranker: the loss is the cross-entropy of a mention's whole list (as ListNet's, Cao
et al. 2007, with all weight on the gold entity), so candidates are compared with one another and
not judged alone. `hidden` 0 drops the tanh terms and leaves a log-linear model. Features are
brought to mean 0 and deviation 1 with the statistics of the training set. Several such networks may
answer together, or teach one (`RerankSettings`).

Train on annotated texts, with candidates from the source that the linker will use:

    texts = list(read_jsonl("gold.jsonl", DamageReport()))    # or the texts that read_trex gives
    texts = with_gold(DictionaryLinker(graph).disambiguate(texts), texts)
    train, held_out = split_by_text(texts, share=0.1, seed=0)
    model = Reranker.fit(default_scorers(graph), train, held_out, graph_hash=graph.content_hash)
    model.save("reranker")

and read it with NIL where its logit stands, at 0: `Decision(nil_score=0.0)` gives the confidence,
`Decision(nil_score=0.0, nil_below=0.5)` refuses links less likely than not. `kept link train` does
all of it. Using a trained model loads no torch.

Scorers named `dear` are asked only where a first stage, trained without them, is unsure
(`entity_linking.scorers.asking`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from entity_linking.errors import LinkIndexError, LinkingError
from entity_linking.mentions import LinkedText
from entity_linking.parts import Scorer, Scores
from entity_linking.scorers.asking import (
    MOST_MISSED,
    Asking,
    FirstStage,
    answers,
    fitted,
    sureness,
)
from entity_linking.scorers.rerank_logits import of_network, relative_logits
from entity_linking.scorers.rerank_parts import DEFAULTS, RerankRecord, RerankSettings, Weights
from entity_linking.scorers.rerank_table import RerankTable, feature_names, tabulate, targets
from kg_loaders.counting import counted
from kg_loaders.disk.columns import replaced
from kg_loaders.disk.seals import FolderFormat, open_sealed, seal
from kg_loaders.disk.writing import whole_folder

WEIGHTS = "weights.safetensors"
FIRST = "first."
"""Before the names of the first stage's weights."""
RERANKER = FolderFormat(
    kind="kept re-ranker",
    version=2,
    what="a re-ranker",
    remedy="train the re-ranker again: kept link train",
    make="train one: kept link train",
    mark=WEIGHTS,
    error=LinkIndexError,
)


class _Manifest(msgspec.Struct, frozen=True):
    scorers: tuple[str, ...]
    candidate_features: tuple[str, ...]
    mention_features: tuple[str, ...]
    record: RerankRecord
    asking: Asking | None = None


class Reranker:
    """A `Scorer`: for each candidate its logit less that of NIL.

    `scorers` must be those it was trained with, by name and order; they may read another graph.
    """

    def __init__(
        self,
        scorers: Mapping[str, Scorer],
        weights: Mapping[str, Scores],
        record: RerankRecord,
        asking: Asking | None = None,
    ) -> None:
        """With `asking` those of its dear scorers come last, `weights` has those of `FIRST` too."""
        self._weights, self.record, self.asking = weights, record, asking
        expensive = () if asking is None else asking.dear
        self._cheap = {name: each for name, each in scorers.items() if name not in expensive}
        self._expensive = {name: scorers[name] for name in expensive}
        self._first = {n.removeprefix(FIRST): w for n, w in weights.items() if n.startswith(FIRST)}
        self._full = {n: w for n, w in weights.items() if not n.startswith(FIRST)}

    def __repr__(self) -> str:
        names = ", ".join([*self._cheap, *self._expensive])
        note = "" if self.asking is None else f"; asks to {self.asking.most_sure:.4f}"
        return f"Reranker({names}; {counted(self.record.n_mentions, 'mentions')}{note})"

    @classmethod
    def fit(
        cls,
        scorers: Mapping[str, Scorer],
        texts: Sequence[LinkedText],
        held_out: Sequence[LinkedText],
        *,
        settings: RerankSettings = DEFAULTS,
        graph_hash: str = "",
        trained_on: str = "",
        expensive: Sequence[str] = (),
        most_missed: float = MOST_MISSED,
    ) -> Reranker:
        """Train on links that bear candidates and their gold entity (`with_gold`).

        The same texts, settings and scorers give the same weights on the same machine. `graph_hash`
        and `trained_on` (a name of the training set) are written into the record. The `expensive`
        scorers are used for as few mentions as possible, so that at most `most_missed` of the
        held-out answers differ from those with all scorers everywhere.
        """
        cheap = {name: each for name, each in scorers.items() if name not in expensive}
        if not cheap or not {*expensive} <= scorers.keys():
            raise LinkingError(
                f"scorers {', '.join(scorers) or 'none'}, expensive "
                f"{', '.join(expensive) or 'none'}; a re-ranker needs at least one cheap scorer; "
                "give {name: scorer}"
            )
        tables = [tabulate(cheap, part) for part in (texts, held_out)]
        weights, record = fit_tables(tables[0], tables[1], settings)
        asking = None
        if expensive:
            costly = {name: scorers[name] for name in scorers if name in expensive}
            before = relative_logits(weights, tables[1])
            tables = [table.with_scorers(costly) for table in tables]
            first = {f"{FIRST}{name}": values for name, values in weights.items()}
            weights, record = fit_tables(tables[0], tables[1], settings)
            full = relative_logits(weights, tables[1])
            asking = fitted(tables[1].rows, before, full, tuple(costly), most_missed)
            weights = {**weights, **first}
        record = replace(record, graph_hash=graph_hash, trained_on=trained_on)
        return cls(scorers, weights, record, asking)

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """As `Scorer`; above 0 the candidate is more likely than NIL."""
        table, logits = self._answered(texts)
        return table.rows.split(logits)

    def first_stage(self, texts: Sequence[LinkedText]) -> list[list[FirstStage]]:
        """For each link of each text whether dear scorers are asked about it, and why.

        Raises `LinkingError` where no scorer is dear.
        """
        if self.asking is None:
            raise LinkingError(f"{self} asks every scorer about every mention")
        table = tabulate(self._cheap, texts)
        sure = sureness(table.rows, relative_logits(self._first, table))
        is_asked = self.asking.is_asked(sure, table.rows)
        left = iter(zip(sure.tolist(), is_asked.tolist(), strict=True))
        return [[FirstStage(*next(left)) for _ in text.links] for text in table.rows.texts]

    def everywhere(self) -> Reranker:
        """The same weights, with every scorer asked about every mention."""
        if self.asking is None:
            return self
        asking = replace(self.asking, most_sure=1.0, asked=1.0, missed=0.0)
        return Reranker({**self._cheap, **self._expensive}, self._weights, self.record, asking)

    def accuracy(self, texts: Sequence[LinkedText]) -> float:
        """`table_accuracy` on links that bear candidates and their gold entity."""
        table, logits = self._answered(texts)
        return table_accuracy(table, logits, self.record.settings.absent)

    def _answered(self, texts: Sequence[LinkedText]) -> tuple[RerankTable, Scores]:
        """The cheap scorers' table, and logits less that of NIL `[candidate]`."""
        table = tabulate(self._cheap, texts)
        if self.asking is None:
            return table, relative_logits(self._full, table)
        logits = relative_logits(self._first, table)
        is_asked = self.asking.is_asked(sureness(table.rows, logits), table.rows)
        if is_asked.any():
            mine = is_asked[table.rows.mention_of]
            unsure = table.of(is_asked).with_scorers(self._expensive)
            logits[mine] = relative_logits(self._full, unsure)
        return table, logits

    # ---- disk --------------------------------------------------------------
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the folder, all or nothing; `force` replaces a re-ranker that is there already.

        Raises `WriteError`.
        """
        raw = save(dict(sorted(self._weights.items())))
        scorers = (*self._cheap, *self._expensive)
        manifest = _Manifest(scorers, *feature_names(scorers), self.record, self.asking)
        with whole_folder(path, **replaced(RERANKER), force=force) as part:
            (part / WEIGHTS).write_bytes(raw)
            seal(part, RERANKER, msgspec.to_builtins(manifest), [WEIGHTS])

    @classmethod
    def open(cls, path: str | Path, scorers: Mapping[str, Scorer]) -> Reranker:
        """Open a folder written by `save`; `LinkIndexError` when it or `scorers` do not fit."""
        folder = Path(path)
        manifest = _read_manifest(folder)
        if tuple(scorers) != manifest.scorers:
            raise LinkIndexError(
                f"{folder} was trained with the scorers {', '.join(manifest.scorers)}, not with "
                f"{', '.join(scorers) or 'none'}; give the same ones in this order, or train again"
            )
        try:
            weights = load((folder / WEIGHTS).read_bytes())
        except SafetensorError as error:
            raise LinkIndexError(f"{folder / WEIGHTS}: {error}; {RERANKER.remedy}") from error
        for name, values in weights.items():
            if not np.isfinite(values).all():
                raise LinkIndexError(
                    f"{folder / WEIGHTS} holds NaN or infinite weights in {name}; {RERANKER.remedy}"
                )
        _require_fitting(weights, manifest, folder)
        return cls(scorers, weights, manifest.record, manifest.asking)

    @staticmethod
    def scorer_names(path: str | Path) -> tuple[str, ...]:
        """The scorers that a saved re-ranker asks for, in order."""
        return _read_manifest(Path(path)).scorers


def with_gold(proposed: Sequence[LinkedText], gold: Sequence[LinkedText]) -> list[LinkedText]:
    """The candidates of `proposed` with the entities of `gold`, link by link: training examples."""
    if len(proposed) != len(gold):
        raise LinkingError(f"{len(proposed)} texts with candidates but {len(gold)} gold ones")
    examples = []
    for i, (linked, right) in enumerate(zip(proposed, gold, strict=True)):
        mentions = [[link.mention for link in text.links] for text in (linked, right)]
        if linked.text != right.text or mentions[0] != mentions[1]:
            raise LinkingError(f"text {i}, {right.text[:40]!r}, has other mentions than its gold")
        links = (
            replace(a, entity=b.entity, confidence=1.0)
            for a, b in zip(linked.links, right.links, strict=True)
        )
        examples.append(replace(linked, links=tuple(links)))
    return examples


def split_by_text(
    texts: Sequence[LinkedText], *, share: float, seed: int
) -> tuple[list[LinkedText], list[LinkedText]]:
    """Training and held-out texts; equal texts fall on the same side, whatever the others are."""
    if not 0.0 < share < 1.0:
        raise LinkingError(f"share is {share}; hold out more than nothing and less than all")
    parts: tuple[list[LinkedText], list[LinkedText]] = ([], [])
    for text in texts:
        digest = hashlib.sha256(f"{seed}\n{text.text}".encode(errors="surrogatepass")).digest()
        parts[int.from_bytes(digest[:8], "big") < share * 2**64].append(text)
    return parts


def ablation(
    scorers: Mapping[str, Scorer],
    texts: Sequence[LinkedText],
    held_out: Sequence[LinkedText],
    test: Sequence[LinkedText],
    *,
    settings: RerankSettings = DEFAULTS,
) -> dict[str, float]:
    """Accuracy on `test` of a re-ranker trained with all scorers ("") and without each one.

    Right is a mention whose gold entity has the highest logit of all, or that is NIL and NIL has.
    Mentions without a candidate are not counted. Each scorer is run once.
    """
    tables = [tabulate(scorers, part) for part in (texts, held_out, test)]
    accuracies = {}
    for name in ("", *scorers):
        train, held, tested = (table.without(name) for table in tables)
        weights, _ = fit_tables(train, held, settings)
        accuracies[name] = table_accuracy(tested, relative_logits(weights, tested), settings.absent)
    return accuracies


def table_accuracy(table: RerankTable, logits: Scores, absent: str) -> float:
    """Share of the mentions with a candidate that get their entity, or NIL, by `logits` above 0."""
    gold = targets(table.rows, absent=absent)
    counted = gold >= -1
    right = (answers(table.rows, logits) == gold)[counted]
    return float(np.mean(right)) if counted.any() else 0.0


def fit_tables(
    train: RerankTable, held_out: RerankTable, settings: RerankSettings
) -> tuple[Weights, RerankRecord]:
    """The weights and the record of the training; loads torch."""
    from entity_linking.scorers.rerank_training import train_weights

    return train_weights(train, held_out, settings)


def _read_manifest(folder: Path) -> _Manifest:
    sealed = open_sealed(folder, RERANKER)
    sealed.require_files([WEIGHTS])
    manifest = sealed.about(_Manifest)
    names = feature_names(manifest.scorers)
    if names != (manifest.candidate_features, manifest.mention_features):
        raise LinkIndexError(
            f"{folder / RERANKER.manifest} names other features than this version makes; "
            f"{RERANKER.remedy}"
        )
    sealed.remember()
    return manifest


def _require_fitting(weights: Mapping[str, Scores], manifest: _Manifest, folder: Path) -> None:
    """Raise `LinkIndexError` unless every network of every stage weighs every feature."""
    stages = {"": manifest.scorers}
    if manifest.asking is not None:
        expensive = manifest.asking.dear
        cheap = manifest.scorers[: -len(expensive)]
        if (*cheap, *expensive) != manifest.scorers or not cheap:
            raise LinkIndexError(
                f"{folder} names {', '.join(expensive)} as expensive, but they are not the last "
                f"of its scorers "
                f"{', '.join(manifest.scorers)}; {RERANKER.remedy}"
            )
        stages[FIRST] = cheap
    for prefix, names in stages.items():
        n_own, n_shared = map(len, feature_names(names))
        widths = (("candidate", n_own + n_shared), ("nil", n_shared))
        for i in range(manifest.record.settings.networks):
            for name, width in widths:
                wanted = f"{prefix}{of_network(i, f'{name}.linear')}"
                held = weights.get(wanted)
                if held is None or held.shape != (width,):
                    raise LinkIndexError(
                        f"{folder / WEIGHTS} does not hold {width} weights {wanted}; "
                        f"{RERANKER.remedy}"
                    )
