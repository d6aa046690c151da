"""Which column of a table is for what: named by the user, known by its name, or seen in its cells.

Axis legend: row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kept.errors import ConfigError
from kept.suggestions import no_such

Row = Mapping[str, Any]
COLUMNS: dict[str, tuple[str, ...]] = {
    "text": ("text", "sentence", "text_a", "document", "content"),
    "label": ("label", "labels", "class", "category", "type", "types", "relation"),
    "mention": ("mention", "entity_mention", "span"),
    "start": ("start", "mention_start", "begin"),
    "end": ("end", "mention_end", "stop"),
    "head": ("head", "subject", "head_mention"),
    "tail": ("tail", "object", "tail_mention"),
    "tokens": ("tokens", "words"),
    "tags": ("tags", "bio", "bio_tags", "ner_tags"),
    "targets": ("targets",),
    "mentions": ("mentions",),
    "pair": ("pair",),
    "pair_start": ("pair_start",),
    "id": ("id",),
    "split": ("split", "set", "fold"),
    "question": ("question",),
    "answer": ("answer", "answers"),
    "entity": ("entity",),
    "second": ("text_b",),
    "context": ("context", "passage"),
    "choices": ("choices", "options"),
}
"""What a column is for, and the names by which it is known; the first that a file has is taken."""
SPLITS = {
    "train": "train", "training": "train",
    "dev": "dev", "development": "dev", "valid": "dev", "val": "dev", "validation": "dev",
    "eval": "dev", "test": "test", "testing": "test",
}  # fmt: skip
N_SAMPLE = 50
"""Rows from whose cells the use of a column is guessed."""
MOST = 0.9
"""Share of the cells of a column of mentions that occur in their text."""
PAIRS = (("start", "end"), ("head", "tail"))
TARGETS = ("mention", "start", "targets", "head")
"""Uses of columns that say what in a text the label is of."""


def columns_of(header: Sequence[str], names: Mapping[str, str], source: str) -> dict[str, str]:
    """Return the column of each use; raises `ConfigError` for one of `names` that is not there.

    >>> columns_of(["Sentence", "class"], {}, "a.csv")
    {'text': 'Sentence', 'label': 'class'}
    """
    by_name = {name.strip().casefold(): name for name in header}
    columns: dict[str, str] = {}
    for use, column_names in COLUMNS.items():
        if use in names:
            if names[use] not in header:
                raise ConfigError(
                    f"{source} has no column {names[use]!r} for {use}; it has {', '.join(header)}"
                )
            columns[use] = names[use]
            continue
        matching = [by_name[name] for name in column_names if name in by_name]
        matching = [name for name in matching if name not in names.values()]
        if matching:
            columns[use] = matching[0]
    return columns


def columns_by_use(options: Iterable[str]) -> dict[str, str]:
    """Return the columns of `options` such as text=review, by use.

    Raises `ConfigError` for anything else.

    >>> columns_by_use(["text=review", "label=genre"])
    {'text': 'review', 'label': 'genre'}
    """
    names = {}
    for each in options:
        use, separator, name = each.partition("=")
        if not (separator and name):
            raise ConfigError(f"--column {each}: write USE=NAME, such as text=sentence")
        if use not in COLUMNS and name in COLUMNS:
            raise ConfigError(f"--column {each}: the use comes first: --column {name}={use}")
        if use not in COLUMNS:
            raise no_such("use of a column", use, COLUMNS)
        names[use] = name
    return names


def columns_by_cells(
    columns: Mapping[str, str], names: Mapping[str, str], rows: Sequence[Row]
) -> dict[str, str]:
    """Return `columns` corrected by what the first rows hold, where the user gave no name.

    A column `entity` whose cells occur in the text is one of mentions; a column `split`, `set` or
    `fold` without any name of a split is none. A start without an end is not used, nor a head
    without a tail.
    """
    chosen = dict(columns)
    if "split" in chosen and "split" not in names:
        cells = {str(row.get(chosen["split"]) or "").strip().casefold() for row in rows} - {""}
        if cells and not cells & set(SPLITS):
            del chosen["split"]
    for pair in PAIRS:
        there = [use for use in pair if use in chosen]
        if len(there) == 1 and there[0] not in names:
            del chosen[there[0]]
    is_about_text = "text" in chosen and "question" not in chosen
    if is_about_text and "entity" in chosen and not any(use in chosen for use in TARGETS):
        name = chosen.pop("entity")
        if _in_text(name, chosen["text"], rows):
            chosen["mention"] = name
    return chosen


def notes_of(columns: Mapping[str, str], header: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Return in words which columns are read as what, which are not, and a mention among these."""
    used = [f"{use} from {name!r}" for use, name in columns.items() if use != "id"]
    unused = [name for name in header if name and name not in columns.values()]
    notes = [f"columns: {', '.join(used)}{_not_used(unused)}"]
    text = columns.get("text")
    if text is None or any(use in columns for use in (*TARGETS, "tags")):
        return notes
    for name in unused:
        if _in_text(name, text, rows):
            notes.append(
                f"column {name!r} holds words of the text; if the label is about them, give "
                f"--column {_quoted(f'mention={name}')}"
            )
    return notes


def suggestion(missing: Iterable[str], header: Sequence[str], rows: Sequence[Row]) -> str:
    """Return options for the `missing` uses by what the cells look like; "" for none.

    The text is the column with the longest cells, the label the one with the fewest values that
    repeat.

    >>> rows = [{"review": "I like it.", "genre": "x"}, {"review": "So do I.", "genre": "x"}]
    >>> suggestion(["text", "label"], ["review", "genre"], rows)
    '--column text=review --column label=genre'
    """
    cells = {name: [str(row.get(name) or "") for row in rows] for name in header if name.strip()}
    guesses: dict[str, Callable[[], str | None]] = {
        "text": lambda: max(cells, key=lambda name: sum(map(len, cells[name])), default=None),
        "label": lambda: min(
            (n for n in cells if 2 * len(set(cells[n])) <= len(rows)),
            key=lambda name: len(set(cells[name])), default=None,
        ),
    }  # fmt: skip
    options = []
    for use in missing:
        name = guesses[use]()
        if name is not None:
            options.append(f"--column {_quoted(f'{use}={name}')}")
            del cells[name]
    return " ".join(options)


def _not_used(names: Sequence[str]) -> str:
    return f"; not used: {', '.join(map(repr, names))}" if names else ""


def _in_text(name: str, text: str, rows: Sequence[Row]) -> bool:
    """Whether nearly all cells of a column that are not empty occur in the row's text."""
    pairs = [(str(row.get(name) or "").strip(), str(row.get(text) or "")) for row in rows]
    there = [cell.casefold() in words.casefold() for cell, words in pairs if cell]
    return bool(there) and sum(there) >= MOST * len(there)


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name
