"""The files of experiments: where they are, what they say and which data they name, without torch.

So a command answers a slip in one of their names before it loads what trains.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kept.errors import ConfigError
from kept.options import merged
from kept.suggestions import no_such, require_there
from kept.training.config import RunConfig
from kg_loaders.spelling import did_you_mean

SHIPPED = Path(__file__).with_name("tasks")
FOLDER = Path("experiments")
"""Where one's own experiments lie, unless the command names another folder."""
BASE = "extends"
QUESTIONS = "questions"
"""The field that a `QuestionPlan` (`kept.lab.questions.plan`) has and an `Experiment` has not."""
DATA = "set KEPT_DATA, or give --data, to the folder that docs/how-to/data.md describes"


def shipped_experiments() -> dict[str, Path]:
    """The files of the experiments that come with kept, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def find_experiment(task: str, folder: Path | None = None) -> Path:
    """The file of an experiment: a path, a name in one's own `folder`, or one that ships."""
    path, folder = Path(task), folder or FOLDER
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return path
    committed = sorted([*folder.glob("*.yaml"), *folder.glob("*/*.yaml")])
    matching = [file for file in committed if file.stem == task]
    shipped = shipped_experiments()
    if len(matching) == 1 or (not matching and task in shipped):
        return matching[0] if matching else shipped[task]
    names = list(dict.fromkeys([*shipped, *(file.stem for file in committed)]))
    several = (
        f" {len(matching)} files in {folder} have that name: give the path." if matching else ""
    )
    raise ConfigError(
        f"no experiment {task!r}.{several} Give a YAML file, a name in the folder {folder}, or one "
        f"that ships with kept: {', '.join(names)}{did_you_mean(task, names)}"
    )


def fields_of_experiment(path: Path) -> dict[str, Any]:
    """What a file says, unchecked, over the shipped experiment that it extends."""
    given_fields = RunConfig.fields_of(path)
    if BASE not in given_fields:
        return given_fields
    name, shipped = given_fields.pop(BASE), shipped_experiments()
    if name not in shipped:
        raise ConfigError(f"{path}: {no_such('shipped experiment', str(name), shipped)}")
    fields = merged(RunConfig.fields_of(shipped[name]), {"name": path.stem} | given_fields)
    return fields | {part: given_fields[part] for part in ("methods",) if part in given_fields}


def asks_questions(path: Path) -> bool:
    """Whether a file of an experiment is a `QuestionPlan`."""
    return QUESTIONS in RunConfig.fields_of(path)


def require_links(name: str, task: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for a case policy where a task links nothing."""
    if not task.get("link"):
        raise ConfigError(
            f"{name} does not link its texts, so that --case would change nothing; write "
            "`link: true` in its task, or leave --case out"
        )


def data_root(data: Path | None) -> Path:
    """Where relative paths of an experiment begin: KEPT_DATA, else the working directory."""
    root = data or Path()
    if not root.is_dir():
        raise ConfigError(f"{root} is no folder; {DATA}")
    return root.resolve()


def files_of_task(task: Mapping[str, Any], root: Path) -> dict[str, Path]:
    """The files of a task's sets below `root`; `ConfigError` for one that is not there."""
    named = {name: task.get(name) for name in ("train", "dev", "test")}
    paths = {name: root / path for name, path in named.items() if isinstance(path, str | Path)}
    for path in paths.values():
        archive, is_zipped, _ = str(path).partition(".zip/")
        require_there(Path(f"{archive}.zip") if is_zipped else path, DATA)
    return paths
