"""`kept convert`: the table of converters, options, hostile files, and CoLAKE's release."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner, Result

from kept.cli import app
from kept.convert import CONVERTERS, convert, converter, read_options
from kept.convert import colake as keys
from kept.convert.tables import to_original
from kept.convert.vocabularies import read_vocabulary
from kept.errors import CheckpointError, ConfigError, KeptError
from kept.methods import METHODS
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph

SIZES = {
    "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 16, "max_position_embeddings": 16, "type_vocab_size": 3,
}  # fmt: skip
SPECIAL = {"<unk>": 0, "<pad>": 1, "<mask>": 2}


# ---- the table ------------------------------------------------------------------------------
def importable(method: str) -> bool:
    return find_spec(CONVERTERS[method]) is not None


def methods() -> list[Any]:
    reason = "its converter is on another branch"
    return [
        pytest.param(name, marks=pytest.mark.skipif(not importable(name), reason=reason))
        for name in CONVERTERS
    ]


def test_every_method_has_a_converter() -> None:
    assert set(METHODS) <= set(CONVERTERS)
    assert len(CONVERTERS) == 6


@pytest.mark.parametrize("method", methods())
def test_options_are_keywords_of_simple_types(method: str) -> None:
    reader = converter(method)
    hints = get_type_hints(reader)
    hints.pop("return")
    hints.pop("path")
    for name, hint in hints.items():
        types = [t for t in get_args(hint) or (hint,) if t is not type(None)]
        assert types, name
        assert all(t in (str, int, float, bool, Path) for t in types), (name, hint)
    with pytest.raises(ConfigError, match="no-such: no such option"):
        read_options(reader, {"no-such": 1})


# ---- hostile files --------------------------------------------------------------------------
class Hostile:
    """Unpickled, it would leave a file behind."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


Form = Literal["torch", "pickle", "tar"]


def hostile(folder: Path, form: Form) -> tuple[Path, Path]:
    """A file that would run a command, and the trace that it would leave."""
    trace, file = folder / "it-ran", folder / {"tar": "model.tar.gz"}.get(form, "model.bin")
    state = {"weight": torch.zeros(2), "bad": Hostile(f"touch {trace}")}
    if form == "torch":
        torch.save(state, file)
    elif form == "pickle":
        file.write_bytes(pickle.dumps(state["bad"]))
    else:
        inner = io.BytesIO()
        torch.save(state, inner)
        with tarfile.open(file, "w:gz") as archive:
            for name, data in (("weights.th", inner.getvalue()), ("config.json", b"{}")):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return file, trace


def needed_options(method: str, file: Path) -> dict[str, Any]:
    """A value for every option without a default."""
    reader = converter(method)
    values: dict[type, Any] = {Path: str(file), int: 1, str: "x", bool: False, float: 1.0}
    hints, defaults = get_type_hints(reader), reader.__kwdefaults__ or {}
    return {
        name: values[get_args(hint)[0] if get_args(hint) else hint]
        for name, hint in hints.items()
        if name not in ("path", "return") and name not in defaults
    }


def test_the_hostile_file_is_hostile(tmp_path: Path) -> None:
    file, trace = hostile(tmp_path, "pickle")
    pickle.loads(file.read_bytes())
    assert trace.exists()


@pytest.mark.parametrize("form", get_args(Form))
@pytest.mark.parametrize("method", methods())
def test_hostile_files_are_refused_and_nothing_runs(
    method: str, form: Form, tmp_path: Path
) -> None:
    file, trace = hostile(tmp_path, form)
    with pytest.raises(KeptError):
        convert(method, file, tmp_path / "out", needed_options(method, file))
    assert not trace.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == [file.name]


# ---- CoLAKE's release -----------------------------------------------------------------------
def release(folder: Path, graph: KnowledgeGraph) -> dict[str, torch.Tensor]:
    """A made-up release whose vocabularies list the graph's names backwards, and one more."""
    names = [*list(graph.entities)[::-1], "Q-other"]
    relations = list(graph.relations)[::-1]
    config = keys.original_config(host=SIZES, n_entities=len(names), n_relations=len(relations))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = KnowledgeForPreTraining(config)
        torch.nn.init.normal_(model.objectives["masked_nodes"].relation_bias)
    state = to_original(model.state_dict(), keys.PRETRAINING, keys.PRETRAINING_TIED)
    state = {name: value.clone() for name, value in state.items()}
    table = state.pop("entity_embeddings")
    folder.mkdir(exist_ok=True)
    torch.save(state, folder / "model.bin")
    np.save(folder / "entities.npy", table.numpy())
    for file, listed in ((keys.ENTITY_VOCABULARY, names), (keys.RELATION_VOCABULARY, relations)):
        ids = SPECIAL | {name: i + 3 for i, name in enumerate(listed)}
        (folder / file).write_bytes(pickle.dumps(ids, protocol=3))
    return state | {"entity_embeddings": table}


def test_without_a_graph_every_weight_stays(tmp_path: Path, small_graph: KnowledgeGraph) -> None:
    original = release(tmp_path / "release", small_graph)
    done = convert("colake", tmp_path / "release", tmp_path / "out", {"heads": 2})
    model = KnowledgeForPreTraining.from_pretrained(tmp_path / "out")
    back = to_original(model.state_dict(), keys.PRETRAINING, keys.PRETRAINING_TIED)
    assert back.keys() == original.keys()
    assert all(torch.equal(back[name], original[name]) for name in original)
    assert (model.config.id_space_hash, model.config.host.num_attention_heads) == ("", 2)
    assert done.n_parameters == sum(p.numel() for p in model.parameters())
    assert list(done.sha256) == ["model.safetensors"]
    assert not [p for p in done.folder.iterdir() if p.suffix not in (".json", ".safetensors")]


def test_with_a_graph_rows_follow_its_ids(tmp_path: Path, small_graph: KnowledgeGraph) -> None:
    original = release(tmp_path / "release", small_graph)
    small_graph.save(tmp_path / "kg")
    options = {"heads": 2, "kg": str(tmp_path / "kg")}
    convert("colake", tmp_path / "release/model.bin", tmp_path / "out", options)
    model = KnowledgeForPreTraining.from_pretrained(tmp_path / "out", graph=small_graph)
    known = read_vocabulary(tmp_path / "release" / keys.ENTITY_VOCABULARY)
    table = model.encoder.entity_embeddings.weight
    assert len(table) == small_graph.n_entities + 3
    for name in small_graph.entities:
        row = table[small_graph.entities.id(name) + 3]
        assert torch.equal(row, original["entity_embeddings"][known[name]])
    known = read_vocabulary(tmp_path / "release" / keys.RELATION_VOCABULARY)
    bias = model.objectives["masked_nodes"].relation_bias
    for name in small_graph.relations:
        place = small_graph.relations.id(name) + 3
        assert bias[place] == original["rel_lm_head.bias"][known[name]]


def test_names_that_the_release_lacks(tmp_path: Path, small_graph: KnowledgeGraph) -> None:
    original = release(tmp_path / "release", small_graph)
    small_graph.save(tmp_path / "kg")
    file = tmp_path / "release" / keys.ENTITY_VOCABULARY
    known = read_vocabulary(file)
    text = "\n".join(f"{n}\t{i}" for n, i in known.items() if n != "Q90")
    (tmp_path / "names.txt").write_text(text + "\n")
    options = {
        "heads": 2, "kg": str(tmp_path / "kg"), "entity_vocabulary": str(tmp_path / "names.txt"),
    }  # fmt: skip
    with pytest.raises(CheckpointError, match=r"1 of 10 entity names .* 'Q90' first"):
        convert("colake", tmp_path / "release", tmp_path / "out", options)
    convert("colake", tmp_path / "release", tmp_path / "out", options | {"absent": "unknown"})
    table = load_file(tmp_path / "out/model.safetensors")["encoder.entity_embeddings.weight"]
    unknown = original["entity_embeddings"][0]
    assert torch.equal(table[small_graph.entities.id("Q90") + 3], unknown)
    assert not torch.equal(table[small_graph.entities.id("Q64") + 3], unknown)


def test_missing_and_unexpected_weights_are_named(
    tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    state = release(tmp_path / "release", small_graph)
    state.pop("entity_embeddings")
    file = tmp_path / "release/model.bin"
    for change, message in (
        ({"surprise": torch.zeros(1)}, r"does not know: \['surprise'\]"),
        ({"roberta.extra": torch.zeros(1)}, r"unexpected \['encoder.host.extra'\]"),
        ({"ent_lm_head.dense.bias": None}, r"missing .*entity_transform\.dense\.bias"),
        ({"roberta.embeddings.word_embeddings.weight": None}, "no weight roberta.embeddings.word"),
        ({"lm_head.bias": "text"}, "no state dict"),
    ):
        changed = {k: v for k, v in (state | change).items() if v is not None}
        torch.save(changed, file)
        with pytest.raises(CheckpointError, match=message):
            convert("colake", file, tmp_path / "out", {"heads": 2})
        assert not (tmp_path / "out").exists()


def test_hostile_tables_and_vocabularies(tmp_path: Path, small_graph: KnowledgeGraph) -> None:
    release(tmp_path / "release", small_graph)
    small_graph.save(tmp_path / "kg")
    options = {"heads": 2, "kg": str(tmp_path / "kg")}
    bad = Hostile(f"touch {tmp_path / 'it-ran'}")
    with (tmp_path / "table.npy").open("wb") as stream:
        np.save(stream, np.array([[bad]], dtype=object), allow_pickle=True)
    pickled = [bad, {"Q1": bad}, {bad: 1}, {"Q1": 0, "x": [1]}, {"Q1": 1.5}, ["Q1", 1]]
    for content in pickled:
        file = tmp_path / "vocabulary.bin"
        file.write_bytes(pickle.dumps(content))
        with pytest.raises(CheckpointError, match="as a vocabulary"):
            convert(
                "colake", tmp_path / "release", tmp_path / "out",
                options | {"entity_vocabulary": str(file)},
            )  # fmt: skip
    with pytest.raises(CheckpointError, match="table of entities"):
        convert(
            "colake", tmp_path / "release", tmp_path / "out",
            options | {"entities": str(tmp_path / "table.npy")},
        )  # fmt: skip
    assert not (tmp_path / "it-ran").exists()


@pytest.mark.parametrize("protocol", range(1, pickle.HIGHEST_PROTOCOL + 1))
def test_vocabularies_in_every_form(protocol: int, tmp_path: Path) -> None:
    ids = {f"Q{i}": i for i in range(3000)} | {"é🙂": 70_000}
    forms = {
        "v.bin": pickle.dumps(ids, protocol=protocol),
        "v.json": str(ids).replace("'", '"').encode(),
        "v.txt": "".join(f"{name}\t{number}\n" for name, number in ids.items()).encode(),
    }
    for name, data in forms.items():
        (tmp_path / name).write_bytes(data)
        assert read_vocabulary(tmp_path / name) == ids
    (tmp_path / "v.bin").write_bytes(forms["v.bin"][:-20])
    with pytest.raises(CheckpointError, match="as a vocabulary"):
        read_vocabulary(tmp_path / "v.bin")
    (tmp_path / "v.txt").write_text("a\nb\nc\n")
    assert read_vocabulary(tmp_path / "v.txt") == {"a": 0, "b": 1, "c": 2}
    (tmp_path / "v.txt").write_text("a\t1\nb\t1\n")
    with pytest.raises(CheckpointError, match="twice"):
        read_vocabulary(tmp_path / "v.txt")


# ---- the command ----------------------------------------------------------------------------
def run(*flags: object) -> Result:
    return CliRunner().invoke(app, ["convert", *map(str, flags)])


def test_the_command_says_what_it_wrote(tmp_path: Path, small_graph: KnowledgeGraph) -> None:
    release(tmp_path / "release", small_graph)
    out = tmp_path / "new/out"
    done = run("colake", tmp_path / "release/model.bin", "-o", out, "--set", "heads=2")
    assert done.exit_code == 0, done.output
    assert "KnowledgeForPreTraining: " in done.stdout
    assert "model.safetensors SHA-256 " in done.stdout
    again = run("colake", tmp_path / "release/model.bin", "-o", out, "--set", "heads=2")
    assert again.exit_code == 1
    assert "already holds something" in again.stderr
    assert [p.name for p in out.parent.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["colak", "x"], "no converter 'colak'"),
        (["colake", "none.bin"], "none.bin does not exist"),
        (["colake", "none.bin", "--set", "head=2"], "head: no such option"),
        (["colake", "none.bin", "--set", "heads=two"], "heads: 'two' is no int"),
        (["colake", "none.bin", "--set", "heads"], "write NAME=VALUE"),
    ],
)
def test_faults_are_one_message(flags: list[str], message: str, tmp_path: Path) -> None:
    done = run(*flags, "-o", tmp_path / "out")
    assert done.exit_code == 1
    assert message in done.stderr
    assert "Traceback" not in done.output
    assert not (tmp_path / "out").exists()
