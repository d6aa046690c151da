"""The model card of an encoder: what it was made of and whether that helped, or "not known".

Numbers come from files that kept wrote: the run's own, those of `kept compare`, `kept audit`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kept.encoders.base import KnowledgeEncoder
from kept.errors import CheckpointError, ConfigError
from kept.graphs.coverage import summary
from kept.methods import BASELINE, METHODS, method_of, title
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted

NOT_KNOWN = "not known"
_MARKUP = re.compile(r"([\\`*_\[\]<>|#&])")


@dataclass(frozen=True, kw_only=True)
class About:
    """What is told of a model beside what its folder says.

    `graph`: that of its training (a folder, or open); `comparison`: the JSON file of `kept
    compare`; `audit`: that of `kept audit -o audit.json`; `linker`: how the texts were linked;
    `licence`: the model's, as the hub spells it (`apache-2.0`).
    """

    graph: KnowledgeGraph | str | Path | None = None
    comparison: str | Path | None = None
    audit: str | Path | None = None
    linker: str | None = None
    licence: str | None = None


def model_card(
    encoder: KnowledgeEncoder,
    name: str,
    about: About,
    *,
    run: Path | None,
    settings: Mapping[str, Any],
) -> str:
    """Return the card as Markdown under YAML; `run` is the folder of the encoder's run.

    `settings` are those of the run, or what is known in their place.

    Raises `ConfigError` for a graph that is not the model's, and `CheckpointError` for a file of
    a comparison or an audit that cannot be read.
    """
    key = next(key for key, line in METHODS.items() if line is method_of(encoder))
    rows = dict(_rows(encoder, key, about, run, settings))
    front: dict[str, Any] = {
        "library_name": "kept",
        "pipeline_tag": "feature-extraction",
        "tags": ["kept", "knowledge-graph", key],
    }
    if about.licence is not None:
        front["license"] = about.licence
    head = yaml.safe_dump(front, sort_keys=False, allow_unicode=True)
    table = "\n".join(f"| {what} | {value} |" for what, value in rows.items())
    reads_graph = METHODS[key].view.reads_graph
    encode = 'encode(["A text."], kg="kg/")' if reads_graph else 'encode(["A text."])'
    return (
        f"---\n{head}---\n\n# {_plain(name)}\n\n"
        f"{title(key)}. Where knowledge enters: {METHODS[key].enters}.\n\n"
        f"| | |\n|---|---|\n{table}\n\n"
        "```python\nfrom kept import AutoEncoder\n\n"
        f'encoded = AutoEncoder.from_pretrained("{name}").{encode}\n'
        "encoded.sentences\n```\n\n"
        f'"{NOT_KNOWN}": neither the files beside the model nor whoever wrote this card said so.\n'
    )


def _rows(
    encoder: KnowledgeEncoder, key: str, about: About, run: Path | None, settings: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    config = encoder.config
    metrics = _json(run / "metrics.json") if run is not None else {}
    host = config.host
    yield "method", f"{title(key)} ({METHODS[key].paper})"
    size = f"{host.model_type}, {host.num_hidden_layers} layers, {host.hidden_size} wide"
    yield "host", _plain(f"{Path(str(settings.get('host', NOT_KNOWN))).name}: {size}")
    if key == BASELINE:
        yield "graph", "none: the language model alone"
    else:
        graph = _graph(encoder, settings, about)
        yield "graph", _hashes(config, graph)
        yield "licence of the graph", _value_text(None if graph is None else graph.manifest.licence)
        sources = () if graph is None else graph.manifest.sources
        yield "sources of the graph", _value_text(", ".join(Path(each).name for each in sources))
    yield "licence of the model", _value_text(about.licence)
    yield "trained on", _value_text(", ".join(_training(config, settings)))
    yield "knowledge in training", _value_text(settings.get("knowledge"))
    yield "linker", _value_text(about.linker)
    for split, coverage in _coverage(run, metrics).items():
        yield f"coverage{split}", _plain(coverage)
    for split, scores in metrics.items():
        if isinstance(scores, dict) and isinstance(scores.get("accuracy"), dict):
            low, high = (scores["accuracy"].get(end) for end in ("low", "high"))
            between = "" if low is None else f" [{low:.3f}, {high:.3f}]"
            yield f"accuracy, {_plain(split)}", f"{scores['accuracy']['estimate']:.3f}{between}"
    yield "controls' verdict", _verdict(key, about.comparison)
    yield "leaks", _leaks(about.audit)


def _graph(
    encoder: KnowledgeEncoder, settings: Mapping[str, Any], about: About
) -> KnowledgeGraph | None:
    """The graph that is told, or that of the run where it still lies there as it was."""
    made_with = encoder.config.content_hash
    if about.graph is not None:
        graph_settings = about.graph
        graph = (
            graph_settings
            if isinstance(graph_settings, KnowledgeGraph)
            else KnowledgeGraph.open(graph_settings)
        )
        if made_with and graph.content_hash != made_with:
            raise ConfigError(
                f"the graph of this card has the hash {graph.content_hash}, the model was made "
                f"with {made_with}; give that graph, or none"
            )
        return graph
    folder = settings.get("kg")
    if isinstance(folder, str) and (Path(folder) / "manifest.json").is_file():
        graph = KnowledgeGraph.open(folder)
        return graph if graph.content_hash == made_with else None
    return None


def _hashes(config: Any, graph: KnowledgeGraph | None) -> str:
    if not config.content_hash:
        return NOT_KNOWN
    sizes = (
        f"{counted(config.n_entities, 'entities', ',')}, "
        f"{counted(config.n_relations, 'relations', ',')}"
    )
    facts = "" if graph is None else f", {counted(graph.n_triples, 'facts', ',')}"
    return f"content `{config.content_hash}`, ids `{config.id_space_hash}`; {sizes}{facts}"


def _training(config: Any, settings: Mapping[str, Any]) -> Iterator[str]:
    if "task" in settings:
        yield _plain(f"the task {settings['task']}")
    yield from (f"the objective {_plain(name)}" for name in config.objectives)
    training = settings.get("training")
    if isinstance(training, dict) and training.get("steps") is not None:
        yield counted(training["steps"], "steps")


def _coverage(run: Path | None, metrics: Mapping[str, Any]) -> dict[str, str]:
    """By the set's name: in how many texts anything of the graph was shown to the model."""
    sections = {}
    pretraining = {} if run is None else _json(run / "coverage.json")
    if "shares" in pretraining:
        sections[", pre-training"] = summary(pretraining)
    for split, scores in metrics.items():
        if isinstance(scores, dict) and "shares" in (scores.get("coverage") or {}):
            sections[f", {split}"] = summary(scores["coverage"])
    return sections or {"": NOT_KNOWN}


def _verdict(key: str, comparison: str | Path | None) -> str:
    if comparison is None:
        return f"{NOT_KNOWN}: no comparison with controls was given (`kept compare`)"
    with _readable(comparison):
        values = json.loads(Path(comparison).read_bytes())
        task, verdicts = values["experiment"]["name"], values["verdicts"]
    if key not in verdicts:
        return f"{NOT_KNOWN}: the comparison on {_plain(task)} has no {title(key)} in it"
    missing = len(values["missing"])
    unfinished = f" ({missing} runs were not finished)" if missing else ""
    return f"on {_plain(task)}: {_plain(verdicts[key])}{unfinished}"


def _leaks(audit: str | Path | None) -> str:
    if audit is None:
        return f"{NOT_KNOWN}: no audit was given (`kept audit -o audit.json`)"
    with _readable(audit):
        checks = json.loads(Path(audit).read_bytes())
        lines = [
            f"{c['check']}: {c['n_found']} of {c['n_checked']}" for c in checks if c["n_found"]
        ]
    return _plain("; ".join(lines)) if lines else f"none in {len(checks)} checks"


class _readable:
    """Turns what is wrong with a file of results into a `CheckpointError` that names it."""

    def __init__(self, path: str | Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, (OSError, ValueError, LookupError, TypeError)):
            raise CheckpointError(
                f"{self.path} is not what `kept compare` or `kept audit -o` wrote: {error!r}"
            ) from error


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    with _readable(path):
        values = json.loads(path.read_bytes())
        if not isinstance(values, dict):
            raise TypeError(f"it holds a {type(values).__name__}")
    return dict(values)


def _value_text(value: object) -> str:
    return _plain(str(value)) if value else NOT_KNOWN


def _plain(text: str) -> str:
    """`text` in one line, with what Markdown or HTML would read escaped."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
