"""What `kept doctor` finds: packages, extras, weights, the machine, and the files of a task.

Nothing is installed, downloaded or written.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from kg_loaders.errors import PluginError
from kg_loaders.plugins import GROUPS, Table, plugins_of

State = Literal["ok", "missing", "faulty", "note"]

EXTRAS = {
    "ask": "answers of `kept ask` in a second, without torch (ctranslate2)",
    "mcp": "`kept serve --mcp`: a graph as tools for language models",
    "data": "public data sets from their owners (`kept data get`)",
    "datasets": "Hugging Face data sets in and out",
    "dgl": "graphs as DGL graphs (`kept.graphs.export`)",
    "docs": "the docs site (`make docs`)",
    "duckdb": "graphs larger than memory while they are built (`kept kg build --beyond-memory 2G`)",
    "langchain": "facts of a graph as a retriever in LangChain (docs/how-to/integrations.md)",
    "llama-index": "facts of a graph as a retriever in LlamaIndex (docs/how-to/integrations.md)",
    "llamacpp": "`kept ask --decoder smollm2` seven times faster, by llama.cpp (xllamacpp)",
    "minilm": "the language model `minilm` from a package: every command without a network",
    "notebook": "the explorer as a widget in notebooks (`kept.apps.explorer.widget`)",
    "onnx": "vectors by ONNX Runtime (`AutoEncoder.compute_with`, `kept serve --backend onnx`)",
    "openvino": "vectors by OpenVINO (`AutoEncoder.compute_with`, `kept serve --backend openvino`)",
    "peft": "LoRA on the language model (docs/how-to/adaptation.md)",
    "ray": "`kept link --cluster` over machines (docs/how-to/processes.md)",
    "plot": "curves and diagrams as PNG; `kept demo`, `kept check`, `kept curve` (matplotlib)",
    "pyg": "graph networks (`kept kgc train --scorer rgcn`) and graphs as PyG graphs",
    "sentence-transformers": "an encoder as a module of sentence-transformers, with its facts",
    "serve": "linking, vectors, probing and completion over HTTP (`kept serve`)",
    "sklearn": "vectors in scikit-learn's pipelines, `kept check analogies`",
    "smollm2": "the decoder `smollm2` from an installed package",
    "spacy": "the linker as a component of a spaCy pipeline",
    "trackers": "curves of trainings in TensorBoard (`--track tensorboard`)",
}
"""What each extra is for; `demo` is `minilm` and `plot`, `all` most, `dev` for work here."""
LEAST_DISK = 2 * 1024**3
LEAST_MEMORY = 2 * 1024**3
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*([^;]*)(?:;\s*(.*))?")
_BOUND = re.compile(r"(>=|==)\s*([0-9][0-9.]*)")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, how it is, and what to do where it is not well."""

    group: str
    name: str
    state: State
    says: str
    remedy: str = ""


def all_findings(task: str | None, data: Path | None) -> list[Finding]:
    """Return everything that is looked at, group by group."""
    findings = [*_packages(), *_extras(), *_plugins(), *_weights(), *_machine(), *_device()]
    return findings + ([] if task is None else list(_task(task, data)))


def requirements() -> dict[str, list[tuple[str, str]]]:
    """Return what kept needs, (package, bound), under "" and under the name of each extra."""
    needed: dict[str, list[tuple[str, str]]] = {"": []}
    for line in metadata.requires("kept") or []:
        match = _REQUIREMENT.fullmatch(line.strip())
        if match is None or match[1] == "kept":
            continue
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", match[3] or "")
        needed.setdefault(extra[1] if extra else "", []).append((match[1], match[2].strip()))
    return needed


def installed(package: str, bound: str) -> tuple[State, str]:
    """Return whether a package is there in a version that `bound` allows, and what is there.

    >>> installed("no-such-package", ">=1")
    ('missing', 'not installed')
    """
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing", "not installed"
    for how, wanted in _BOUND.findall(bound):
        actual, least = _numbers(version), _numbers(wanted)
        if actual < least or (how == "==" and actual != least):
            return "faulty", f"{version}, but kept needs {bound}"
    return "ok", version


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _packages() -> Iterator[Finding]:
    yield Finding("kept", "kept", "ok", metadata.version("kept"))
    yield Finding("kept", "Python", "ok", f"{platform.python_version()}, {sys.executable}")
    for package, bound in sorted(requirements()[""]):
        state, says = installed(package, bound)
        remedy = "" if state == "ok" else f"pip install '{package}{bound}'"
        yield Finding("packages", package, state, says, remedy)


def _extras() -> Iterator[Finding]:
    needed = requirements()
    for extra, enables in EXTRAS.items():
        if extra not in needed:  # installed from a version that did not have it
            continue
        states = [(package, *installed(package, bound)) for package, bound in needed[extra]]
        gone = [f"{package} {says}" for package, state, says in states if state != "ok"]
        if gone:
            says = f"{'; '.join(gone)}. It would bring {enables}"
            yield Finding("extras", extra, "note", says, f"pip install 'kept[{extra}]'")
        else:
            versions = ", ".join(f"{package} {version}" for package, _, version in states)
            yield Finding("extras", extra, "ok", f"{versions}: {enables}")


def _plugins() -> Iterator[Finding]:
    """Every plugin of an installed package; each is imported, as a command that uses it would."""
    from kept.kge.kinds import SCORERS
    from kept.methods import METHODS
    from kept.tasks.datasets.formats import FORMATS as TASK_FORMATS
    from kept.tasks.kinds import TASKS
    from kg_loaders.build import FORMATS

    tables: tuple[Table[Any], ...] = (METHODS, FORMATS, SCORERS, TASKS, TASK_FORMATS)
    for table in tables:
        for plugin in plugins_of(table.group):
            name, package = f"{table.group} {plugin.name}", f"{plugin.package} {plugin.version}"
            try:
                table[plugin.name]
            except PluginError as error:
                remedy = f"pip uninstall {plugin.package}"
                yield Finding("plugins", name, "faulty", str(error), remedy)
            else:
                yield Finding("plugins", name, "ok", f"{package}: {GROUPS[table.group]}")


def _weights() -> Iterator[Finding]:
    from kept.errors import KeptError
    from kept.hosts import is_offline, minilm_folder, smollm2_file

    for name, locate in (("minilm", minilm_folder), ("smollm2", smollm2_file)):
        try:
            folder = locate()
        except KeptError as error:
            state: State = "note" if isinstance(error, ImportError) else "faulty"
            yield Finding("weights", name, state, str(error))
        else:
            yield Finding("weights", name, "ok", f"{folder}, its hash is right")
    cache = Path(os.environ.get("HF_HUB_CACHE") or _hub_cache())
    models = sorted(path.name[8:].replace("--", "/") for path in cache.glob("models--*"))
    held = f"holds {', '.join(models[:8])}" if models else "holds no model"
    more = f" and {len(models) - 8} more" if len(models) > 8 else ""
    network = "the network is not used" if is_offline() else "others are downloaded from the hub"
    yield Finding("weights", "models of a hub", "ok", f"{cache} {held}{more}; {network}")


def _hub_cache() -> Path:
    home = os.environ.get("HF_HOME")
    return Path(home or os.path.expanduser("~/.cache/huggingface")) / "hub"


def _machine() -> Iterator[Finding]:
    yield Finding("machine", "processor", "ok", f"{os.cpu_count()} cores, {platform.machine()}")
    total, free = memory()
    if total is not None:
        says = f"{_size(total)}" + ("" if free is None else f", {_size(free)} of it free")
        is_small = (free or total) < LEAST_MEMORY
        remedy = "take smaller batches, or close other programs" if is_small else ""
        yield Finding("machine", "memory", "faulty" if is_small else "ok", says, remedy)
    for name, path in (("disk here", Path.cwd()), ("disk for temporary files", _temporary())):
        left = shutil.disk_usage(path).free
        is_full = left < LEAST_DISK
        says = f"{_size(left)} free below {path}"
        remedy = "make room, or work in another folder" if is_full else ""
        yield Finding("machine", name, "faulty" if is_full else "ok", says, remedy)


def _temporary() -> Path:
    return Path(tempfile.gettempdir())


def memory() -> tuple[int | None, int | None]:
    """Return the machine's memory and what is free of it, in bytes; None where it does not say."""
    path = Path("/proc/meminfo")
    if path.is_file():
        lines = (line.split() for line in path.read_text(encoding="ascii").splitlines())
        sizes = {line[0].rstrip(":"): int(line[1]) * 1024 for line in lines if len(line) > 1}
        return sizes.get("MemTotal"), sizes.get("MemAvailable")
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), None
    return None, None


def _device() -> Iterator[Finding]:
    import torch

    from kept.training.precision import faster_precision

    yield Finding("machine", "torch", "ok", f"{torch.get_num_threads()} threads on the processor")
    yield _products()
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            free, total = torch.cuda.mem_get_info(number)
            says = f"{torch.cuda.get_device_name(number)}, {_size(free)} of {_size(total)} free"
            yield Finding("machine", f"GPU {number}", "ok", says)
    elif torch.backends.mps.is_available():
        yield Finding("machine", "GPU", "ok", "Apple's (mps)")
    else:
        says = "none that torch can use: trainings run on the processor"
        yield Finding("machine", "GPU", "note", says)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    says = str(faster_precision(device))
    yield Finding("machine", "precision: auto", "ok", says.removeprefix("precision: "))


def _products() -> Finding:
    from kept.errors import ConfigError
    from kept.layers.products import SETTING, choose_products

    name = "matrix products"
    try:
        return Finding("machine", name, "ok", str(choose_products(store=False)))
    except ConfigError as error:
        return Finding("machine", name, "faulty", str(error), f"unset {SETTING}, or set it to auto")


def _task(task: str, data: Path | None) -> Iterator[Finding]:
    """The files that an experiment names."""
    from kept.lab.comparison.files import DATA, asks_questions, data_root, find_experiment
    from kept.lab.comparison.find import read_experiment
    from kept.tasks.datasets.public_graphs import GRAPHS, TEXTS
    from kept.training.finetuning.task_files import SETS

    if asks_questions(find_experiment(task)):
        yield from _questions(task, data)
        return
    experiment = read_experiment(task)
    root = data_root(data)
    named = [(name, experiment.task.get(name)) for name in (*SETS, "kg")]
    if experiment.pretraining is not None:
        named.append(("text of pre-training", experiment.pretraining.text))
    for name, path in named:
        if path is None:
            continue
        if str(path) in GRAPHS or str(path) in TEXTS:
            says = f"{path}: made from public files below {root}, which are not looked at here"
            yield Finding(f"task {task}", name, "note", says)
            continue
        archive, is_zipped, _ = str(root / path).partition(".zip/")
        target = Path(f"{archive}.zip") if is_zipped else root / path
        is_there = target.exists()
        says = str(target) if is_there else f"{target} is not there"
        state: State = "ok" if is_there else "missing"
        yield Finding(f"task {task}", name, state, says, "" if is_there else DATA)


def _questions(task: str, data: Path | None) -> Iterator[Finding]:
    """The graph and the files of questions that a plan names."""
    from kept.lab.comparison.files import DATA, data_root, find_experiment
    from kept.lab.questions.plan import QuestionPlan

    source = QuestionPlan.read(find_experiment(task)).questions
    if source.world is not None:
        says = f"the made-up world {source.world}: no file is needed"
        yield Finding(f"task {task}", "world", "ok", says)
    for name in ("kg", "asked", "train"):
        if (path := getattr(source, name)) is None:
            continue
        target = data_root(data) / path
        says = str(target) if target.exists() else f"{target} is not there"
        state: State = "ok" if target.exists() else "missing"
        yield Finding(f"task {task}", name, state, says, "" if target.exists() else DATA)


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1024**3:.1f} GiB"
