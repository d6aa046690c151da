"""Tasks as data: one form of example for every task, and the readers that fill it.

A file format is one line of `FORMATS`, a task one line of `TASKS` (`kept.tasks.kinds`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from entity_linking.annotations import read_tagme
from entity_linking.annotations.relations import read_fewrel, read_trex, read_wiki80
from entity_linking.mentions import LinkedText, Mention
from kept.errors import ConfigError
from kept.graphs.words import join_texts
from kept.randomness import generator
from kept.tasks.datasets.atlas import read_atlas
from kept.tasks.datasets.class_labels import not_a_number
from kept.tasks.datasets.conll import tagged_sentences
from kept.tasks.datasets.docred import read_docred, thinned
from kept.tasks.datasets.example import TaskExample, from_relation, from_typing, word_places
from kept.tasks.datasets.glue import read_cola, read_stsb, read_wic
from kept.tasks.datasets.questions.choices import read_commonsenseqa, read_copa, read_lettered
from kept.tasks.datasets.questions.squad import read_squad, read_squad2
from kept.tasks.datasets.semeval import read_semeval, read_tacred
from kept.tasks.datasets.tables import CLASSIFICATION, KINDS, read_table
from kept.tasks.datasets.ultrafine import read_ultrafine
from kept.tasks.kinds import OUTSIDE, TASKS, Task
from kg_loaders import plugins
from kg_loaders.damage import DamageReport
from kg_loaders.plugins import Table
from kg_loaders.reading.lines import read_lines

__all__ = [
    "FORMATS",
    "OUTSIDE",
    "TASKS",
    "Format",
    "Task",
    "TaskExample",
    "for_training",
    "from_relation",
    "from_typing",
    "hold_out",
    "read_conll",
    "read_examples",
    "read_scores",
    "read_tsv",
    "require_task",
    "some_of",
]


def read_tsv(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """Texts with a label, a line each: columns by the header, or `label<TAB>text` without one.

    A header names a column `label` and one of `text_a`, `text`, `sentence`; with `text_b` an
    example is a pair of texts. Further columns are left alone.
    """
    return _read_table(path, report, "label")


def read_scores(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """As `read_tsv`, with a number in the place of the label; a header may call it `score`.

    A line whose score is not a finite number is rejected.
    """
    return _read_table(path, report, "score", refuse=not_a_number)


def _read_table(
    path: Path,
    report: DamageReport,
    name: str,
    refuse: Callable[[str], str | None] = lambda label: None,
) -> Iterator[TaskExample]:
    """`refuse` says what is wrong with a label, if anything is."""
    columns: list[int] = []
    for line, offset, raw in read_lines(path, report):
        if not raw.strip():
            report.n_blank += 1
            continue
        cells = [cell.strip() for cell in raw.decode().split("\t")]
        if not columns:
            columns, is_header = _columns(cells, name)
            if is_header:
                report.n_comment += 1
                continue
        if len(cells) <= max(columns):
            reason = f"{len(cells)} column(s), {max(columns) + 1} are needed"
        elif not all(cells[column] for column in columns):
            reason = "an empty label or text"
        elif fault := refuse(cells[columns[0]]):
            reason = fault
        else:
            report.n_texts += 1
            label, *texts = (cells[column] for column in columns)
            parts = [LinkedText(text, (), str(line)) for text in texts]
            yield TaskExample(parts[0] if len(parts) == 1 else join_texts(*parts), (label,))
            continue
        report.reject(str(path), line, offset, reason, raw)


def _columns(header: Sequence[str], name: str) -> tuple[list[int], bool]:
    """Columns of the label (`name`, or "label") and the texts, and whether the line is a header."""
    texts = [header.index(name) for name in ("text_a", "text", "sentence") if name in header]
    labels = [header.index(each) for each in (name, "label") if each in header]
    if labels and texts:
        second = [header.index("text_b")] if "text_b" in header else []
        return [labels[0], texts[0], *second], True
    return [0, 1], False


def read_conll(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """Words with tags: first and last column of a line, sentences apart by blank lines.

    The text is the words with one blank between them. Units are lines; a sentence is a text.
    """
    for line, words, tags in tagged_sentences(path, report):
        report.n_texts += 1
        report.n_further += 1
        report.skip("a word of a sentence", len(words))
        targets = [Mention(*span) for span in word_places(words)]
        yield TaskExample(LinkedText(" ".join(words), (), str(line)), tuple(tags), tuple(targets))


def _trex(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    return map(from_relation, read_trex(path, report, distinct=True))


def _fewrel(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    return map(from_relation, read_fewrel(path, report, distinct=True))


def _wiki80(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    return map(from_relation, read_wiki80(path, report, distinct=True))


def _tagme(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    return map(from_typing, read_tagme(path, report))


@dataclass(frozen=True)
class Format:
    """A file format: its task, its reader, and which of many examples are trained on.

    `also` are further tasks of which it can hold one, by what the file itself says.
    """

    task: str
    read: Callable[[Path, DamageReport], Iterator[TaskExample]]
    for_training: Callable[[Sequence[TaskExample], int], list[TaskExample]] | None = None
    also: tuple[str, ...] = ()

    @property
    def tasks(self) -> tuple[str, ...]:
        """Every task that a file of the format may hold."""
        return (self.task, *self.also)


_BUILT_IN: dict[str, Format] = {
    "table": Format(CLASSIFICATION, read_table, also=KINDS[1:]),
    "atlas": Format("relation", read_atlas),
    "trex": Format("relation", _trex),
    "fewrel": Format("relation", _fewrel),
    "wiki80": Format("relation", _wiki80),
    "semeval": Format("relation", read_semeval),
    "tacred": Format("relation", read_tacred),
    "docred": Format("document_relations", read_docred, thinned),
    "tagme": Format("typing", _tagme),
    "ultrafine": Format("typing", read_ultrafine),
    "tsv": Format("classification", read_tsv),
    "cola": Format("classification", read_cola),
    "wic": Format("classification", read_wic),
    "scores": Format("regression", read_scores),
    "stsb": Format("regression", read_stsb),
    "conll": Format("tagging", read_conll),
    "squad": Format("span", read_squad),
    "squad2": Format("span_or_none", read_squad2),
    "copa": Format("multiple_choice", read_copa),
    "lettered": Format("multiple_choice", read_lettered),
    "commonsenseqa": Format("multiple_choice", read_commonsenseqa),
}
FORMATS = Table(plugins.FORMATS, _BUILT_IN, kind=Format, what="format")
"""Every format of labelled texts by its name: those of kept, then those of plugins."""


def require_task(examples: Sequence[TaskExample], task: str, path: Path) -> None:
    """Raise `ConfigError` where examples have more or fewer targets than `task` asks about.

    Of a format that may hold several tasks the columns decide, of one file as of another.
    """
    line = TASKS[task]
    if line.head not in ("pooled", "targets") or not examples:
        return
    n_targets, n = line.head_options.get("n_targets", 0), len(examples[0].targets)
    if n != n_targets:
        kinds = {0: "classification", 1: "mention or typing", 2: "relation"}
        raise ConfigError(
            f"{path} has {n} target(s) a text, a {task} {n_targets}; its columns are those of "
            f"{kinds.get(n, 'tagging')}: give that as task, or "
            "see docs/reference/formats-of-texts.md"
        )


def read_examples(path: Path, format: str) -> list[TaskExample]:
    """Every example of a file; stops at a faulty line, raises `ConfigError` for an empty file."""
    report = DamageReport()
    examples = list(FORMATS[format].read(path, report))
    if not examples:
        raise ConfigError(f"{path} holds no example in the format {format}: {report}")
    return examples


def for_training(examples: Sequence[TaskExample], format: str, seed: int) -> list[TaskExample]:
    """Those of the examples that training takes, drawn by the seed where the format draws."""
    for_training = FORMATS[format].for_training
    return list(examples) if for_training is None else for_training(examples, seed)


def hold_out(
    examples: Sequence[TaskExample], share: float, seed: int, name: str
) -> tuple[list[TaskExample], list[TaskExample]]:
    """Split by groups: the rest, and about `share` of the examples, in their order."""
    groups = list(dict.fromkeys(example.group for example in examples))
    order = generator(seed, "held out", name).permutation(len(groups))
    sizes: dict[str, int] = {}
    for example in examples:
        sizes[example.group] = sizes.get(example.group, 0) + 1
    held_texts: dict[str, None] = {}
    n_held = 0
    for i in order:
        if n_held >= share * len(examples):
            break
        held_texts[groups[i]] = None
        n_held += sizes[groups[i]]
    rest = [example for example in examples if example.group not in held_texts]
    return rest, [example for example in examples if example.group in held_texts]


def some_of(examples: Sequence[TaskExample], most: int | None, seed: int) -> list[TaskExample]:
    """At most `most` of the examples, drawn by the seed, in their order; of documents, whole ones.

    A document of which a part is asked would count the facts of the other part as missed.
    """
    if most is None or len(examples) <= most:
        return list(examples)
    draws = generator(seed, "some of")
    if any(example.document_pair for example in examples):
        sizes = Counter(example.group for example in examples)
        kept, n = set[str](), 0
        names = list(sizes)
        for i in draws.permutation(len(names)):
            if n + sizes[names[i]] <= most:
                kept.add(names[i])
                n += sizes[names[i]]
        return [example for example in examples if example.group in kept]
    sample = draws.permutation(len(examples))[:most]
    return [examples[i] for i in sorted(sample.tolist())]
