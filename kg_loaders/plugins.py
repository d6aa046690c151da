"""Tables whose lines come from kept and from other installed packages, by entry points.

A package outside adds a line with an entry point in the group of the table:

    [project.entry-points."kept.methods"]
    mine = "my_package.method:METHOD"

A plugin is code that runs with all rights of the process. It runs because somebody installed the
package: a file or a folder that kept opens can name an installed plugin, and can bring none.
Names are read from the metadata of installed packages; a plugin is imported when its line is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from kg_loaders.errors import PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Line = TypeVar("Line")

LOADERS, METHODS, SCORERS = "kept.loaders", "kept.methods", "kept.scorers"
TASKS, FORMATS = "kept.tasks", "kept.formats"
GROUPS = {
    METHODS: "ways of injecting knowledge, `kept finetune --method`",
    LOADERS: "formats of graphs, `kept kg build --format`",
    SCORERS: "scorers of triples, `kept kgc train --scorer`",
    TASKS: "tasks, `kept finetune --task`",
    FORMATS: "formats of labelled texts, `kept finetune --format`",
}
"""Groups of entry points, and what a plugin of each adds."""


@dataclass(frozen=True)
class Plugin:
    """An entry point of an installed package: `name` is that of the line which it adds."""

    group: str
    name: str
    package: str
    version: str
    entry: EntryPoint

    def __str__(self) -> str:
        return f"{self.name!r} of {self.package} {self.version} ({self.entry.value})"

    def load(self) -> Any:
        """Import the plugin; raises `PluginError` with the package, the cause and a remedy."""
        try:
            return self.entry.load()
        except Exception as error:
            raise PluginError(
                f"the plugin {self} in {self.group} cannot be imported: "
                f"{type(error).__name__}: {error}; update the package or remove it "
                f"(pip uninstall {self.package})"
            ) from error


@cache
def plugins_of(group: str) -> tuple[Plugin, ...]:
    """Return the plugins of a group, by name and package; nothing of them is imported."""
    from importlib.metadata import entry_points  # 30 ms

    plugins = {}
    for entry in entry_points(group=group):
        about = entry.dist
        package, version = ("?", "?") if about is None else (about.name, about.version)
        plugin = Plugin(group, entry.name, package, version, entry)
        plugins[plugin.name, package, entry.value] = plugin  # once, where two folders list it
    return tuple(plugins[key] for key in sorted(plugins))


class Table(Mapping[str, Line]):
    """The lines that kept has of a kind, then those of plugins in the entry points of `group`.

    `kind` is the class of a line and `what` the word for it in errors. `check` raises
    `PluginError`, given a plugin and its line, for a line that does not fit. Iteration over names
    imports no plugin. Raises `PluginError` for a name that two packages have, kept among them,
    where that name is looked up, and `KeyError` for a name that none has.
    """

    def __init__(
        self,
        group: str,
        built_in: Mapping[str, Line],
        *,
        kind: type[Line],
        what: str,
        check: Callable[[Plugin, Line], None] | None = None,
    ) -> None:
        self.group, self.built_in, self.kind, self.what = group, built_in, kind, what
        self._check = check
        self._lines: dict[str, Line] = {}

    def __repr__(self) -> str:
        return f"Table({self.group!r}, {list(self)})"

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        names = (plugin.name for plugin in plugins_of(self.group))
        yield from dict.fromkeys(name for name in names if name not in self.built_in)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return any(name == each for each in self)

    def __getitem__(self, name: str) -> Line:
        plugins = [each for each in plugins_of(self.group) if each.name == name]
        if name in self.built_in:
            if plugins:
                raise _clash(self.what, name, f"kept has a {self.what} of that name", plugins)
            return self.built_in[name]
        if not plugins:
            raise KeyError(name)
        if len(plugins) > 1:
            raise _clash(self.what, name, "two plugins have that name", plugins)
        if name not in self._lines:
            self._lines[name] = self._line_of(plugins[0])
        return self._lines[name]

    def _line_of(self, plugin: Plugin) -> Line:
        line = plugin.load()
        if not isinstance(line, self.kind):
            thing = f"the class {line.__name__}" if inspect.isclass(line) else f"{line!r:.60}"
            raise PluginError(
                f"the plugin {plugin} in {plugin.group} is {thing}, not a "
                f"{self.kind.__module__}.{self.kind.__qualname__}; its entry point must name one "
                "(docs/how-to/adding-parts.md)"
            )
        if self._check is not None:
            self._check(plugin, line)
        return line


def _clash(what: str, name: str, reason: str, plugins: list[Plugin]) -> PluginError:
    listed = " and ".join(map(str, plugins))
    packages = " or ".join(dict.fromkeys(f"pip uninstall {each.package}" for each in plugins))
    return PluginError(
        f"the {what} {name!r} is ambiguous: {reason}: {listed}; remove the package ({packages}), "
        "or have its entry point renamed"
    )
