"""How many word pieces of a text are read where a user gives no number: all that the host takes.

The number is resolved before a run starts and is written into its configuration, so that the run is
resumed, and its model is used, with texts of the same length.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kept import hosts
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig
from kept.methods import method
from kept.options import merged

DEFAULT_HOST = "minilm"
LENGTHS = ("max_words", "max_nodes")


def with_lengths(fields: Mapping[str, Any], *, default: str | None = None) -> dict[str, Any]:
    """Return fields of a run with `graph.max_words`, `graph.max_nodes` and sizes of the view.

    What `fields` give stays. The text gets the host's positions, less what the method's view puts
    behind a mention. `default` is the method where `fields` name none. Fields without a new method,
    or with one or a host that is not known, are returned as they are: the configuration, or what
    opens the host, names the fault.

    >>> with_lengths({"method": "none", "host": "minilm"})["graph"]
    {'max_words': 512, 'max_nodes': 1024}
    """
    name, host = fields.get("method") or default, fields.get("host") or DEFAULT_HOST
    graph, view = (fields.get(key) or {} for key in ("graph", "view"))
    set_fields = {key: value for key, value in fields.items() if value is not None}
    if not (isinstance(name, str) and isinstance(host, str | Path)):
        return set_fields
    if not (isinstance(graph, Mapping) and isinstance(view, Mapping) and _is_method(name)):
        return set_fields
    lengths = lengths_for(name, host, graph, view)
    if fields.get("treebank"):
        lengths.pop("view", None)
    return merged(lengths, set_fields)


def with_windows(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a new run in which longer texts are read in windows, where nothing is given.

    Those that say `as_published` cut them, as the library does by default.

    >>> with_windows({"method": "none"})
    {'long': 'windows', 'method': 'none'}
    """
    if fields.get("as_published"):
        return dict(fields)
    return merged({"long": "windows"}, {k: v for k, v in fields.items() if v is not None})


def lengths_for(
    name: str, host: str | Path, graph: Mapping[str, Any], view: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the fields of `graph` and `view` that a method needs on a host, where they lack them;
    empty for a host that cannot be read."""
    n_positions = hosts.positions_by_config(host)
    if n_positions is None:
        return {}
    line = method(name)
    room, sizes = line.view.within_positions(n_positions, {**line.view_options, **view})
    n_words, n_nodes = graph.get("max_words"), graph.get("max_nodes")
    if n_words is None:
        most = room if n_nodes is None else min(room, _most_words(n_nodes, line.builder, graph))
        n_words = max(most, 3)
    if n_nodes is None and isinstance(n_words, int):
        n_nodes = max(2 * n_words, BuilderConfig.max_nodes if "max_words" in graph else 0)
    lengths = {"max_words": n_words, "max_nodes": n_nodes}
    lacking = {key: value for key, value in lengths.items() if key not in graph}
    sizes = {key: value for key, value in sizes.items() if key not in view}
    return {key: fields for key, fields in (("graph", lacking), ("view", sizes)) if fields}


def builder_on(
    host: str | Path, name: str, view: Mapping[str, Any]
) -> tuple[BuilderConfig, dict[str, Any]]:
    """Return builder settings, and options of the view, for a new encoder of a method on a host."""
    lengths = lengths_for(name, host, {}, view)
    return BuilderConfig(**lengths.get("graph", {})), {**lengths.get("view", {}), **view}


def _is_method(name: str) -> bool:
    try:
        method(name)
    except ConfigError:
        return False
    return True


def _most_words(n_nodes: Any, needed: Mapping[str, Any], graph: Mapping[str, Any]) -> int:
    """The longest text that `BuilderConfig` takes with so many nodes."""
    if not isinstance(n_nodes, int):
        return BuilderConfig.max_words
    replaces = {**graph, **needed}.get("replace_mentions", BuilderConfig.replace_mentions)
    return n_nodes if replaces and graph.get("replace_mentions", True) else n_nodes // 2
