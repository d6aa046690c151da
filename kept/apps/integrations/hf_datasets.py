"""Hugging Face data sets in and out: linked texts as rows, vectors as a column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entity_linking.mentions import Link, LinkedText, Mention
from kept.auto import AutoEncoder
from kept.errors import ConfigError, MissingExtraError
from kg_loaders import KnowledgeGraph

if TYPE_CHECKING:
    from datasets import Dataset

LINKS = "links"


def to_dataset(texts: Iterable[LinkedText]) -> Dataset:
    """Return a data set of `text` and `links`: start, end, entity ("" for NIL), confidence.

    Candidates are left out; `write_jsonl` keeps them. Raises `MissingExtraError`.
    """
    rows = [
        {"text": each.text, LINKS: [
            {"start": link.mention.start, "end": link.mention.end, "entity": link.entity or "",
             "confidence": link.confidence} for link in each.links]}
        for each in texts
    ]  # fmt: skip
    from_list = _datasets().Dataset.from_list
    return from_list(rows, features=_features())


def from_dataset(data: Dataset, *, text: str = "text") -> Iterator[LinkedText]:
    """Yield the texts of a column, with the links of `to_dataset` where there are some.

    `kept link` and `kept pretrain` read them once `entity_linking.annotations.write_jsonl` has
    written them. Raises `ConfigError` for a column that is missing or holds no texts.
    """
    if text not in data.column_names:
        raise ConfigError(f"there is no column {text!r}; there are {', '.join(data.column_names)}")
    for number, row in enumerate(data):
        if not isinstance(row[text], str):
            raise ConfigError(f"row {number}: {text} holds {row[text]!r}, no text")
        yield LinkedText(row[text], tuple(_link(link) for link in row.get(LINKS) or ()))


def add_vectors(
    data: Dataset,
    encoder: AutoEncoder,
    kg: KnowledgeGraph | str | Path | None = None,
    *,
    text: str = "text",
    column: str = "vector",
    batch_size: int = 32,
) -> Dataset:
    """Return `data` with the vector of each text in `column`; linked where it holds links."""
    texts: list[LinkedText | str] = [
        linked if LINKS in data.column_names else linked.text
        for linked in from_dataset(data, text=text)
    ]
    vectors = encoder.encode(texts, kg=kg, batch_size=batch_size).sentences.tolist()
    return data.add_column(column, vectors)


def _link(row: Any) -> Link:
    return Link(
        Mention(int(row["start"]), int(row["end"])), (), row["entity"] or None,
        float(row["confidence"]),
    )  # fmt: skip


def _features() -> Any:
    library = _datasets()
    value = library.Value
    link = {"start": value("int64"), "end": value("int64"), "entity": value("string"),
            "confidence": value("float64")}  # fmt: skip
    return library.Features({"text": value("string"), LINKS: [link]})


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("this needs datasets: pip install 'kept[datasets]'") from error
    return datasets
