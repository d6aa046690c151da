"""What a change of names must leave as it is, as a JSON of hashes.

    KEPT_DATA=... .venv/bin/python .ci/nets.py store before.json    # before the change
    KEPT_DATA=... .venv/bin/python .ci/nets.py check before.json    # after it: lists differences

Nets: addresses of the runs of shipped experiments (on their data below KEPT_DATA where it is
there), settings of every committed YAML, fields of every configuration, `--help` of every
command, public names with their signatures, links in the atlas's sentences, and the messages of
wrong inputs. Then where studies store their outcomes, and the pages made from committed results.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import os
import pkgutil
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
import yaml
from pydantic import BaseModel
from study_nets import committed_pages, study_addresses
from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
PACKAGES = ("kg_loaders", "entity_linking", "kept", "experiments")
LARGE = 200_000_000
"""Bytes of a task's files above which its addresses are left out: they take minutes."""
WRONG = (
    ("link", "a text", "--kg", "nowhere"),
    ("link", "a text"),
    ("kg", "convert", "nowhere.tsv", "-o", "out"),
    ("kg", "info", "nowhere"),
    ("kg", "validate", "nowhere"),
    ("finetune", "-o", "out", "--task", "nonsense"),
    ("finetune", "-o", "out", "--config", "nowhere.yaml"),
    ("finetune", "-o", "out", "--method", "nonsense", "--kg", "atlas"),
    ("pretrain", "-o", "out", "--method", "nonsense"),
    ("predict", "nowhere", "a text"),
    ("compare", "--task", "nonsense"),
    ("compare", "--task", "atlas", "--methods", "nonsense"),
    ("compare", "--task", "atlas", "--controls", "nonsense"),
    ("compare", "--task", "atlas", "--seeds", "0"),
    ("probe", "nowhere", "--kg", "atlas"),
    ("complete", "Q1", "P1", "--kg", "nowhere", "--model", "nowhere"),
    ("kgc", "train", "--model", "nonsense"),
    ("kgc", "evaluate", "nowhere"),
    ("ask", "who?", "--kg", "nowhere"),
    ("fit", "nowhere", "--task", "nonsense"),
    ("serve", "nowhere"),
    ("nonsense",),
    ("kg", "nonsense"),
    ("finetune", "--nonsense", "1"),
)


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _modules(package: str) -> Iterator[ModuleType]:
    """Every module of a package that can be imported here."""
    top = importlib.import_module(package)
    yield top
    for info in pkgutil.walk_packages(top.__path__, f"{package}.", onerror=lambda _: None):
        if info.name.endswith("__main__"):
            continue
        try:
            yield importlib.import_module(info.name)
        except ImportError as error:
            if (error.name or "").split(".")[0] in PACKAGES:
                raise


def _configurations() -> dict[str, type[BaseModel]]:
    """Every configuration class, by its module and the fields that it has."""
    models = {}
    for package in PACKAGES:
        for module in _modules(package):
            for value in vars(module).values():
                if (
                    inspect.isclass(value)
                    and issubclass(value, BaseModel)
                    and value.__module__ == module.__name__
                ):
                    models[f"{module.__name__}.{value.__name__}"] = value
    return models


def fields_of_configurations() -> dict[str, str]:
    """Names, defaults and types of the fields; by module, as classes may be renamed."""
    nets: dict[str, list[str]] = {}
    for name, model in sorted(_configurations().items()):
        described = [
            f"{field}={info.default!r}: {_plain_type(info.annotation)}"
            for field, info in model.model_fields.items()
        ]
        nets.setdefault(name.rpartition(".")[0], []).append("; ".join(described))
    return {module: _hash(sorted(lines)) for module, lines in nets.items()}


def _plain_type(annotation: Any) -> str:
    return re.sub(r"(?:\w+\.)+(\w+)", "class", re.sub(r" at 0x\w+", "", str(annotation)))


def committed_settings() -> dict[str, str]:
    """What every committed YAML file says, read by each class of its own folder that reads it."""
    models = _configurations()
    nets = {}
    for path in sorted(ROOT.rglob("*.yaml")):
        if ".venv" in path.parts:
            continue
        name = str(path.relative_to(ROOT))
        package = ".".join(path.relative_to(ROOT).parts[:2])
        dumps = []
        for each, model in sorted(models.items()):
            if not each.startswith((package, "experiments.stages")):
                continue
            try:
                dumps.append(_read(model, path).model_dump(mode="json"))
            except Exception:  # noqa: BLE001 - a class of another file
                continue
        nets[name] = _hash(sorted(dumps, key=_hash))
    return nets


def _read(model: Any, path: Path) -> BaseModel:
    if hasattr(model, "read"):
        result: BaseModel = model.read(path)
        return result
    fields = yaml.safe_load(path.read_text(encoding="utf-8"))
    return model.model_validate(
        {"name": path.stem, **fields} if "name" in model.model_fields else fields
    )  # type: ignore[no-any-return]


def addresses() -> dict[str, str]:
    """The address of every run of the shipped experiments, for two seeds."""
    from kept.errors import KeptError
    from kept.inputs.controls.conditions import KNOWLEDGE
    from kept.lab.comparison.experiment import Experiment
    from kept.lab.comparison.files import asks_questions, shipped_experiments
    from kept.lab.comparison.trial import ComparisonTrial
    from kept.lab.study.design import planned_runs
    from kept.lab.study.run import Study
    from kg_loaders.errors import KgError

    nets = {}
    root = Path(os.environ.get("KEPT_DATA", "."))
    for name, path in shipped_experiments().items():
        if asks_questions(path):
            continue
        with tempfile.TemporaryDirectory() as folder:
            experiment = Experiment.read(path)
            runs = Study(ComparisonTrial(experiment, root, Path(folder)))
            controls = [kind for kind in KNOWLEDGE if kind not in ("true", "off")]
            lines = []
            try:
                for key in planned_runs(list(experiment.methods), controls, 2):
                    lines.append(f"{key}: {_address(runs, key)}")
            except (KeptError, KgError, OSError) as error:
                lines.append(f"{type(error).__name__}: {str(error).replace(folder, 'FOLDER')}")
            nets[name] = _hash(lines)
            print(f"  {name}: {len(lines)} runs; {lines[-1]}", file=sys.stderr)
    return nets


def _address(runs: Any, key: Any) -> str:
    from kept.errors import ConfigError

    try:
        return str(runs.of(key).name)
    except ConfigError as error:
        return str(error)


def helps() -> dict[str, str]:
    """`--help` of every command."""
    from kept.apps.cli import app

    nets = {}
    waiting: list[tuple[list[str], Any]] = [([], typer.main.get_command(app))]
    while waiting:
        words, command = waiting.pop()
        printed = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "120"})
        nets[" ".join(["kept", *words])] = _hash(printed.output)
        for name, child in getattr(command, "commands", {}).items():
            waiting.append(([*words, name], child))
    return nets


def signatures() -> dict[str, str]:
    """Everyday names with their signatures and those of their methods, and `commands.pyi`."""
    import kept

    nets = {"commands.pyi": _hash((ROOT / "kept/apps/commands.pyi").read_text(encoding="utf-8"))}
    for package in ("kept", "kg_loaders", "entity_linking"):
        top = importlib.import_module(package)
        for name in getattr(top, "__all__", ()):
            value = getattr(top, name)
            lines = [_signature(value)]
            if inspect.isclass(value):
                lines += [
                    f"{each}{_signature(member)}"
                    for each, member in sorted(vars(value).items())
                    if not each.startswith("_")
                ]
            nets[f"{package}.{name}"] = _hash(lines)
    nets["names"] = _hash(kept.__all__)
    return nets


def _signature(value: Any) -> str:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    return ", ".join(
        f"{each.kind.name} {each.name} {re.sub(r' at 0x[0-9a-f]+', '', repr(each.default))}"
        for each in parameters
    )


def links() -> dict[str, str]:
    """Links in the atlas's sentences, as they are, and in other letters and cut off."""
    from entity_linking import DictionaryLinker
    from kg_loaders import atlas

    graph = atlas.graph()
    linker = DictionaryLinker(graph)
    texts = [sentence.text for sentence in atlas.sentences()]
    texts += [f"Of {text.lower()} nothing, of {text[:40]} this" for text in texts]
    linked = [repr(linker.link(text)) for text in texts]
    return {f"{len(texts)} texts": _hash(linked)}


def errors() -> dict[str, str]:
    """What commands print for wrong inputs."""
    from kept.apps.cli import app

    nets = {}
    with tempfile.TemporaryDirectory() as folder:
        here = Path.cwd()
        os.chdir(folder)
        try:
            for words in WRONG:
                result = CliRunner().invoke(app, list(words), env={"COLUMNS": "120"})
                printed = result.output.replace(folder, "FOLDER")
                nets["kept " + " ".join(words)] = f"{result.exit_code} {_hash(printed)}"
        finally:
            os.chdir(here)
    return nets


NETS: dict[str, Callable[[], dict[str, str]]] = {
    "fields": fields_of_configurations,
    "settings": committed_settings,
    "addresses": addresses,
    "help": helps,
    "signatures": signatures,
    "links": links,
    "errors": errors,
    "studies": lambda: {name: _hash(lines) for name, lines in study_addresses().items()},
    "pages": lambda: {name: _hash(lines) for name, lines in committed_pages().items()},
}


def main() -> int:
    """Store the nets, or list what differs from stored ones."""
    sys.path.insert(0, str(ROOT))  # `experiments` is not installed
    what, path = sys.argv[1], Path(sys.argv[2])
    chosen = sys.argv[3:] or list(NETS)
    nets = {name: NETS[name]() for name in chosen}
    if what == "store":
        path.write_text(json.dumps(nets, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print({name: len(net) for name, net in nets.items()})
        return 0
    before = json.loads(path.read_text(encoding="utf-8"))
    differences = [
        f"{net}: {name}: {before[net].get(name)} -> {nets[net].get(name)}"
        for net in chosen
        for name in sorted({*before.get(net, {}), *nets[net]})
        if before[net].get(name) != nets[net].get(name)
    ]
    print("\n".join(differences) or f"equal: { {name: len(net) for name, net in nets.items()} }")
    return 1 if differences else 0


if __name__ == "__main__":
    raise SystemExit(main())
