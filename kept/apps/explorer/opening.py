"""From the options of `kept explore` to an explorer and its texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from entity_linking.names.rules.case import Case
from kept.apps.explorer.explorer import Explorer
from kept.apps.explorer.questions import MAX_TEXT
from kept.apps.explorer.readers import Reader, method_readers, run_reader
from kept.auto import AutoEncoder
from kept.errors import ConfigError
from kept.hosts import load_tokenizer
from kept.linking.linkers import open_graph, open_pipeline, settings_of
from kg_loaders.disk.kinds import file_or_text

MAX_TEXTS = 200
MAX_FILE = 10_000_000


def open_explorer(
    kg: Path,
    models: Sequence[Path],
    *,
    tokenizer: str,
    reranker: Path | None = None,
    index: Path | None = None,
    gold: Path | None = None,
    case: Case | None = None,
) -> Explorer:
    """Return the explorer of a graph's folder; runs come first among its readers.

    `case` is how case counts in links by names; None: that of `index`, else that of the runs.

    Raises what opening a graph, a run (`CheckpointError`), an index or a tokenizer raises, and
    `GraphMismatchError` for a run of other ids.
    """
    runs = [run_reader(folder, number) for number, folder in enumerate(models)]
    if index is None and case is None:
        case = case_of(runs)
    settings = settings_of(kg, index=index, reranker=reranker, case=case)
    graph = open_graph(settings)
    for run in runs:
        if run.predictor is not None:
            run.predictor.model.encoder.require_graph(graph)
    readers = [*runs, *method_readers(load_tokenizer(tokenizer))]
    return Explorer(graph, open_pipeline(settings, graph), readers, gold)


def case_of(readers: Sequence[Reader], encoder: AutoEncoder | None = None) -> Case | None:
    """Return the case with which runs and `encoder` were trained; None where nothing was.

    Raises `ConfigError` where they were trained with several: a text is linked once for all.

    >>> case_of([])
    """
    cases = {each.name: each.predictor.case for each in readers if each.predictor is not None}
    if encoder is not None and encoder.is_trained:
        cases["the encoder"] = encoder.case
    if len(set(cases.values())) > 1:
        pairs = ", ".join(f"{name}: {case}" for name, case in cases.items())
        raise ConfigError(f"the runs link by different case ({pairs}); say which with --case")
    return next(iter(cases.values()), None)


def read_texts(name: str) -> list[str]:
    """Return the texts of a file, one per line, or the text itself; empty lines are left out.

    Raises `ConfigError` for a text that is too long, too many of them, and a file of no text,
    `SourceError` for what only the name of a file can be and is none.
    """
    path = file_or_text(name)
    if path is not None:
        if path.stat().st_size > MAX_FILE:
            raise ConfigError(f"{path} has more than {MAX_FILE:,} bytes; give some of its lines")
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is not text in UTF-8: {error}") from error
        texts, where = [line.strip() for line in lines if line.strip()], str(path)
    else:
        texts, where = [name], "--text"
    if not texts or len(texts) > MAX_TEXTS:
        raise ConfigError(f"{where} holds {len(texts)} texts; give from 1 to {MAX_TEXTS}")
    longest = max(map(len, texts))
    if longest > MAX_TEXT:
        raise ConfigError(f"{where} has a text of {longest} characters; {MAX_TEXT} at most")
    return texts
