"""`kept link calibrate`: confidences calibrated on annotated texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from kept.apps.cli.declared import argument, option, required, switch, takes
from kept.apps.cli.options import LinkCase
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_SEED
from kept.help_texts import FORCE_FILE, KG, LINK_INDEX, LINK_METHOD, LINK_MODEL, SEED
from kg_loaders.counting import counted

if TYPE_CHECKING:
    from entity_linking.calibration.acceptance import Favour, Wish
    from entity_linking.calibration.answers import Answer
    from entity_linking.calibration.fitting import CrossValidated
    from entity_linking.decision import Decision
    from entity_linking.detection import EndToEnd
    from entity_linking.mentions import LinkedText
    from entity_linking.pipeline import Pipeline
    from entity_linking.scoring import Known
    from kept.linking.linkers import LinkerSettings

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Coverages that are printed, or the nearest that a threshold gives."""


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions:
    """What the command is given; a field is an option."""

    gold: Path = argument("File of annotated texts on which no part of the linker was trained.")
    kg: Path = required(KG)
    output: Path = required("File to write, for `kept link --decision`.", "--output", "-o")
    index: Path | None = option(LINK_INDEX, metavar="FOLDER")
    method: str = option(LINK_METHOD, default="prior")
    model: Path | None = option(LINK_MODEL)
    find: bool = switch(
        "Let the linker find the mentions itself. Those that GOLD does not mark count as NIL."
    )
    tagger: str | None = option(
        "With --find: also find names with a tagger, a folder made by `kept link "
        "train-tagger`, spacy:NAME, or gliner:NAME=type,type."
    )
    favour: str = option(
        "What the confidence threshold is chosen for: "
        "{entity_linking.calibration.acceptance:Favour}.",
        default="f1",
    )
    target: float | None = option(
        "With --favour precision or recall: the smallest value of it that the threshold "
        "must reach.",
        bounds=(0, 1),
    )
    folds: int = option("Number of folds of the cross-validation.", default=5, bounds=(2, 1000))
    like: Path | None = option(
        "Decision of `kept link train --also … --decision`. Adapts it to the texts of "
        "GOLD by the share of the names that are linked. Annotations of GOLD are not read."
    )
    case: LinkCase = None
    seed: int = option(SEED, default=0, bounds=(0, MAX_SEED))
    plot: Path | None = option("PNG file for a reliability diagram.")
    force: bool = switch(FORCE_FILE)


@takes(CalibrateOptions)
def calibrate(options: CalibrateOptions) -> None:
    """Fit the decision of a linker (temperature, NIL, curve, threshold) on annotated texts.

    Without --find the mentions of GOLD are used, as is right for texts in which only some mentions
    are annotated. The printed scores are cross-validated; the decision is fitted on all of GOLD. If
    names and priors alone have the better F1, the decision uses them instead. If a trained model
    with --find and without a fitted threshold has it, the decision uses that, with NIL where it is
    likeliest. Both cases are printed.

    With --like no annotations are needed: where fewer of the names are linked, links are taken to
    be right less often, as they were on the kinds of text that were left out in training.

    Example: kept link calibrate gold.jsonl --kg kg/ -o decision.json
    """
    from entity_linking.annotations import read_jsonl
    from entity_linking.calibration.acceptance import Wish
    from entity_linking.calibration.fitting import FittedDecision, save_decision
    from entity_linking.calibration.reliability import draw_reliability, reliability
    from entity_linking.errors import LinkingError
    from kept.linking.linkers import open_graph, open_linker, settings_from
    from kept.plotting import require_plotting
    from kg_loaders.damage import DamageReport
    from kg_loaders.disk.writing import refuse_file

    if options.plot is not None:
        require_plotting()
    for path in (options.output, options.plot):
        if path is not None:
            refuse_file(path, force=options.force, inputs=[options.gold])
    if options.tagger is not None and not options.find:
        raise LinkingError("a tagger finds mentions; give --find with it")
    wish = Wish(cast("Favour", options.favour), options.target)
    settings = settings_from(options)
    if options.like is not None:
        _refuse_with_like(options)
        _adapt(options.like, options.gold, settings, options.output, force=options.force)
        return
    texts = list(read_jsonl(options.gold, DamageReport()))
    graph = open_graph(settings)
    fitting = Fitting(
        options.gold.name, texts, graph.entities, options.find, options.folds, options.seed, wish
    )
    linker = open_linker(settings, graph)
    best = fitting.of(linker)
    instead_of, method = "", options.method
    if method != "prior":
        plain = replace(settings, method="prior", model=None)
        fallback = fitting.of(open_linker(plain, graph))
        echo(f"F1: {method} {best.f1:.4f}, names + prior {fallback.f1:.4f}")
        if best.f1 < fallback.f1:
            best, instead_of = fallback, repr(linker.scorer)
            echo(f"names + prior are better here: the decision falls back to them, not {method}")
    fitted = FittedDecision(
        best.decision,
        graph.content_hash,
        best.scorer,
        options.gold.name,
        best.n_answers,
        instead_of=instead_of,
        tagger=best.tagger,
    )
    save_decision(fitted, options.output, force=options.force, inputs=[options.gold])
    _print_report(best.checked, best.decision)
    if options.plot is not None:
        checked, title = best.checked, f"{method}, cross-validated"
        before = reliability(checked.raw, checked.correct)
        after = reliability(checked.calibrated, checked.correct)
        draw_reliability(before, after, options.plot, title=title, force=options.force)
    echo(
        f"{counted(best.n_answers, 'mentions')} with candidates in "
        f"{counted(best.n_texts, 'texts')}; in {options.output}"
    )


class Fitted(NamedTuple):
    """A decision, how a fitted one did on folds that it was not fitted on, and its own F1."""

    decision: Decision
    checked: CrossValidated
    f1: float
    scorer: str
    n_answers: int
    n_texts: int
    tagger: str


@dataclass(frozen=True)
class Fitting:
    """Annotated texts and how decisions are fitted on them."""

    name: str
    texts: Sequence[LinkedText]
    known: Known
    find: bool
    n_folds: int
    seed: int
    wish: Wish

    def of(self, linker: Pipeline | EndToEnd) -> Fitted:
        """The decision of a linker on these texts."""
        from entity_linking.calibration.fitting import EVERY_STEP, STEPS, cross_validated, fit
        from entity_linking.detection import EndToEnd
        from entity_linking.errors import ScoreError

        seen = self._answers(linker)
        has_tagger = isinstance(linker, EndToEnd)
        steps = EVERY_STEP if has_tagger else STEPS
        n_texts = len({each.text for each in seen})
        if n_texts < self.n_folds:
            raise ScoreError(
                f"{self.name}: {n_texts} texts have mentions with candidates, too few for "
                f"{self.n_folds} folds; annotate more, or give fewer --folds"
            )
        n_missed = self._n_missed(seen)
        checked = cross_validated(
            seen,
            linker.decision,
            n_folds=self.n_folds,
            seed=self.seed,
            n_missed=n_missed,
            steps=steps,
            wish=self.wish,
        )
        decision = fit(seen, linker.decision, steps=steps, n_missed=n_missed, wish=self.wish)
        tagger = repr(linker.detector) if isinstance(linker, EndToEnd) else ""
        fitted = Fitted(
            decision, checked, checked.f1, repr(linker.scorer), len(seen), n_texts, tagger
        )
        return self._or_unfitted(fitted, seen, linker.decision)

    def _or_unfitted(self, fitted: Fitted, seen: Sequence[Answer], start: Decision) -> Fitted:
        """The linker's decision as it was, NIL competing, where that has the better F1 of links.

        Only for mentions that are found, a scorer that knows NIL, and whoever wants the best F1.
        """
        from entity_linking.calibration.acceptance import Wish
        from entity_linking.calibration.fitting import f1_of
        from entity_linking.decision import LIKELIEST

        if not self.find or start.nil_score is None or self.wish != Wish():
            return fitted
        plain = replace(start, nil_from=LIKELIEST)
        f1 = f1_of(seen, plain, n_missed=self._n_missed(seen))
        echo(f"F1: fitted {fitted.f1:.4f}, not fitted (NIL where it is likeliest) {f1:.4f}")
        if f1 <= fitted.f1:
            return fitted
        echo("nothing is fitted, which is better here; what is cross-validated would be fitted")
        return fitted._replace(decision=plain, f1=f1)

    def _n_missed(self, seen: Sequence[Answer]) -> int:
        """Gold entities of the graph for which no mention is among the answers."""
        from entity_linking.scoring.links import predicate

        entities = (k.entity for text in self.texts for k in text.links if k.entity is not None)
        n_gold = sum(map(predicate(self.known), entities))
        return max(n_gold - sum(each.has_entity for each in seen), 0)

    def _answers(self, linker: Pipeline | EndToEnd) -> list[Answer]:
        """What the linker makes of the marked mentions, or of those that it finds."""
        from entity_linking.calibration.answers import answers
        from entity_linking.detection import EndToEnd

        if not self.find:
            linked = linker.disambiguate(self.texts)
            return answers(self.texts, linked, unmarked="skip", known=self.known)
        words = [text.text for text in self.texts]
        if not isinstance(linker, EndToEnd):
            return answers(self.texts, linker.link(words), unmarked="nil", known=self.known)
        detected = linker.detect(words)
        spans = [each.scores for each in detected]
        linked = linker.decide(detected)
        return answers(self.texts, linked, unmarked="nil", known=self.known, spans=spans)


def _refuse_with_like(options: CalibrateOptions) -> None:
    """Raise `LinkingError` for options that ask for annotations."""
    from entity_linking.errors import LinkingError

    asks = {"--find": options.find, "--target": options.target is not None}
    asks |= {"--favour": options.favour != "f1", "--plot": options.plot is not None}
    for option_name, is_there in asks.items():
        if is_there:
            raise LinkingError(
                f"--like reads no annotations, which {option_name} needs; leave one out"
            )


def _adapt(like: Path, texts: Path, settings: LinkerSettings, output: Path, *, force: bool) -> None:
    """Write a decision for other kinds of text as it should be for these texts."""
    from entity_linking.calibration.fitting import load_decision, save_decision
    from entity_linking.calibration.other_kinds import adapted, raw_links, share_linked
    from entity_linking.errors import LinkingError
    from kept.apps.cli.link.run import items_of
    from kept.linking.linkers import open_graph, open_pipeline
    from kg_loaders.damage import DamageReport

    graph = open_graph(settings)
    fitted = load_decision(like, graph)
    if fitted.above_linked is None:
        raise LinkingError(
            f"{like} was fitted on {fitted.fitted_on}, not for other kinds of text; make one that "
            "is: kept link train GOLD --also FILE --decision FILE"
        )
    pipeline = open_pipeline(replace(settings, decision=str(like)), graph)
    items, _ = items_of(str(texts), None, DamageReport())
    words = [item.linked.text for item in items]
    proposed = pipeline.propose(pipeline.mentions.link(words))
    raw = raw_links(pipeline.scorer, fitted.decision, proposed)
    decision = adapted(fitted.decision, fitted.above_linked, raw)
    fitted_on = f"{fitted.fitted_on}; adapted to {texts.name}"
    save_decision(
        replace(fitted, decision=decision, fitted_on=fitted_on, above_linked=None),
        output, force=force, inputs=[texts, like],
    )  # fmt: skip
    echo(
        f"{share_linked(raw):.3f} of the names in {counted(len(words), 'texts')} are linked; "
        "on kinds of text "
        f"that were left out the share of right links was {fitted.above_linked:+.3f} above that "
        f"share; in {output}"
    )


def _print_report(checked: CrossValidated, decision: Decision) -> None:
    echo(f"before: {checked.before}")
    echo(f"after:  {checked.after}")
    nil = "no share" if decision.nil_score is None else f"score {decision.nil_score:.3f}"
    echo(
        f"temperature {decision.temperature:.3f}, NIL with {nil}, "
        f"a curve of {len(decision.curve)} points, "
        f"NIL below {decision.nil_below:.3f}"
        + ("" if decision.nil_from is None else f", NIL from {decision.nil_from:.3f}")
    )
    curve = checked.curve
    echo(f"risk and coverage, cross-validated (mean risk {curve.area:.4f}):")
    echo("accept from  coverage  precision  recall     F1")
    columns = (curve.thresholds, curve.coverage, curve.precision, curve.recall, curve.f())
    for share in SHARES:
        index = int(abs(curve.coverage - share).argmin())
        row = [float(column[index]) for column in columns]
        echo(f"{row[0]:11.3f} {row[1]:9.3f} {row[2]:10.3f} {row[3]:7.3f} {row[4]:6.3f}")
