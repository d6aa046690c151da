"""Whatever stops a command is one message with a remedy and an exit code; no traceback."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

import kept.apps.cli.kg
import kept.lab.demo
from kept.apps.cli import app
from kept.apps.cli.errors import FAILED, FAULT, explain
from kg_loaders import Text, TextKind, Triple, graph_from_records
from tests.kept.apps.cli.test_startup import COMMANDS
from tests.kept.tiny_hosts import tiny_host

USAGE = 2
FINETUNE = (
    "finetune -o out --task relation --format wiki80 --train list.yaml --kg kg --method none "
    "--steps 1 --batch-size 1"
)
TABLE: list[tuple[str, int, str]] = [
    # what is not there, what is mistyped
    ("demo -o out --config gone.yaml", FAILED, "gone.yaml does not exist"),
    ("demo -o out --config list.yaml", FAILED, "list.yaml holds list"),
    ("demo -o out --config nan.yaml", FAILED, "finite number"),
    ("demo -o out --budget-minutes -1", USAGE, "--budget-minutes"),
    ("show Paris --kg kgg", FAILED, "kgg does not exist; did you mean kg?"),
    ("show Paris --kg kg -o a.html --seed -1", USAGE, "--seed"),
    ("show Paris --kg kg -o a.html --tokenizer hots/tiny", FAILED, "hots/tiny"),
    ("show Paris --kg kg -o a.html --tokenizer ./tinny", FAILED, "tinny does not exist"),
    ("show Paris --kg kg -o a.html --tokenizer empty_tokenizer", FAILED, "empty_tokenizer cannot"),
    ("explore --kg kgg", FAILED, "kgg does not exist; did you mean kg?"),
    ("explore --kg kg --model runs", FAILED, "give a folder of kept finetune"),
    ("explore --kg kg --text gone.txt", FAILED, "gone.txt is not a file"),
    ("explore --kg kg -o out.svg", FAILED, "choose a name in .html"),
    ("explore --kg kg --port 65536", USAGE, "--port"),
    ("data list --sources list.yaml", FAILED, "names no data sets"),
    ("data get codex --data kg", FAILED, "did you mean codex-s"),
    ("data get tacred --data kg", FAILED, "may not be fetched by kept"),
    ("data get codex-s --data kg", FAILED, "confirm with --accept that you accept it"),
    ("data check --data gone", FAILED, "gone does not exist"),
    ("serve --kg kgg", FAILED, "kgg does not exist; did you mean kg?"),
    ("serve --kg kg --address kept.example", FAILED, "is not an IP address"),
    ("serve --kg kg --address 0.0.0.0", FAILED, "set your own token"),
    ("serve --kg kg --token short", FAILED, "16 ASCII characters"),
    ("serve --kg kg --port 65536", USAGE, "--port"),
    ("kg build dump.json -o out --instance-of human", FAILED, "'human' is not a class of Wikidata"),
    ("kg add kg", FAILED, "nothing to add; name files of triples"),
    ("kg add kg dump.json --format tsv -o out", FAILED, "dump.json, line 1"),
    ("kg merge kg --decisions list.yaml -o out", FAILED, "list.yaml, line 1"),
    ("kg merge kg -o out --least 2", USAGE, "--least"),
    ("kg literals dump.json -o out", FAILED, "dump.json: no RDF format 'json'"),
    ("kg query kg SELECT", FAILED, "not a SPARQL query"),
    ("kg query kgg SELECT", FAILED, "kgg does not exist; did you mean kg?"),
    ("doctor no-such-task", FAILED, "no experiment 'no-such-task'"),
    ("pretrain -o out --config deep.yaml", FAILED, "deep.yaml cannot be read as YAML"),
    ("pretrain -o out --set a", FAILED, "write NAME=VALUE"),
    ("pretrain -o out --set training.learning_rate=.inf", FAILED, "training.learning_rate"),
    ("pretrain -o out --set training.threads=1000000", FAILED, "training.threads"),
    ("pretrain -o out --steps 5 --warmup 6", FAILED, "a warm-up is at most as long as the run"),
    ("pretrain -o out --threads 1000000", USAGE, "--threads"),
    ("pretrain -o out --lr inf", USAGE, "--lr"),
    ("pretrain -o out --lr nan", USAGE, "--lr"),
    ("pretrain -o out --host runs/mine", FAILED, "runs/mine does not exist"),
    ("pretrain -o out --kg kg --text text.jsonl --steps 1 --batch-size 1 --shard tables", FAILED,
     "shard tables: there is one process"),
    ("pretrain -o out --steps 1 --shard heads", FAILED, "training.shard.0"),
    ("pretrain -o out --kg kg --text text.jsonl --steps 1 --batch-size 1 --host cut_host", FAILED,
     "cut_host cannot be opened"),
    ("finetune -o out --config deep.yaml", FAILED, "deep.yaml cannot be read as YAML"),
    ("finetune -o out --train gone.txt", FAILED, "gone.txt does not exist"),
    (f"{FINETUNE} --set dev_share=nan", FAILED, "dev_share"),
    ("finetune -o out --epochs 0", USAGE, "--epochs"),
    ("compare --task gone.yaml", FAILED, "no experiment 'gone.yaml'"),
    ("compare --task deep.yaml", FAILED, "deep.yaml cannot be read as YAML"),
    ("compare --task asks.yaml", FAILED, "there is no row of questions 'word'; did you mean words"),
    ("compare --task asked.yaml", FAILED, "gone.jsonl does not exist"),
    ("compare --task x --seeds 1000000", USAGE, "--seeds"),
    ("compare --task x --budget nan", USAGE, "--budget"),
    ("report gone --task x", FAILED, "gone does not exist"),
    ("report runs --task x", FAILED, "no experiment 'x'"),
    ("check reading --methods nobody -o out", FAILED, "nobody"),
    ("vectors train --kg gone --text text.jsonl -o out", FAILED, "gone does not exist"),
    ("check layers minilm --train gone.conllu --test gone.conllu -o out", FAILED,
     "gone.conllu does not exist"),
    ("check analogies minilm --questions gone.txt -o out", FAILED, "gone.txt does not exist"),
    ("predict gone text --kg kg", FAILED, "gone does not exist"),
    ("extend gone --kg kg -o out", FAILED, "gone does not exist"),
    ("extend runs --kg kgg -o out", FAILED, "kgg does not exist; did you mean kg?"),
    ("extend runs --kg kg -o out", FAILED, "holds no finished model"),
    ("extend runs --kg kg -o out --start neighbors", FAILED, "did you mean neighbours?"),
    ("convert kbert gone.bin -o out", FAILED, "gone.bin does not exist"),
    ("convert nobody empty -o out", FAILED, "nobody"),
    ("audit --kg kg", FAILED, "give a test set (--test, or --triples test=FILE)"),
    ("audit --kg gone", FAILED, "gone does not exist"),
    ("audit --cloze empty --against gone", FAILED, "gone does not exist"),
    ("audit --kg kg --allow pair-in-graph=nan", FAILED, "from 0 to 1"),
    ("curve gone -o out", FAILED, "gone does not exist"),
    ("curve runs -o out --shares nan", FAILED, "runs is not a finished run"),
    ("probe ./gone --kg kg", FAILED, "gone does not exist"),
    ("probe list_config --kg kg", FAILED, "list_config cannot be opened"),
    ("probe owner/model --kg kg", FAILED, "owner/model cannot be opened"),
    ("probe tiny --kg kg --edits -1", USAGE, "--edits"),
    ("ask Paris --kg kgg", FAILED, "kgg does not exist; did you mean kg?"),
    ("ask Paris --kg kg --decoder ./gone", FAILED, "gone does not exist"),
    ("ask Paris --kg kg --decoder tiny --order file", FAILED, "is not a decoder host"),
    ("ask Paris --kg kg --as table", FAILED, "--as is for decoders; name one: --decoder"),
    ("ask Paris --kg kg --max-facts 3", FAILED, "--max-facts is for decoders; name one: --decoder"),
    ("ask Paris --kg kg --new 9", FAILED, "--new is for decoders; name one: --decoder"),
    ("ask Paris --kg kg --decoder http://127.0.0.1:9/v1 --order file", FAILED,
     "--order is for local decoders"),
    ("ask Paris --kg kg --decoder tiny --as table", FAILED, "one of words, branches, nodes"),
    ("fit gone.csv --kg kg -o out", FAILED, "gone.csv does not exist"),
    ("fit text.jsonl --kg kg -o out --column job=label", FAILED,
     "--column job=label: the use comes first: --column label=job"),
    ("fit text.jsonl --kg kg -o out --column colour=x", FAILED, "there is no use of a column"),
    ("fit kg --kg kg -o out", FAILED, "kg is the folder of a graph, which belongs to --kg"),
    ("ask Paris --kg kg --max-facts 0", USAGE, "--max-facts"),
    ("link index gone -o out", FAILED, "gone does not exist"),
    ("link index kg -o out --dense ./gone", FAILED, "gone does not exist"),
    ("link train gone.jsonl --kg kg -o out", FAILED, "gone.jsonl does not exist"),
    ("link train empty --kg kg -o out --held-out nan", FAILED, "nan"),
    ("link train empty --kg kg -o out --hidden 1000000000", USAGE, "--hidden"),
    ("link train-tagger gone.conll -o out", FAILED, "gone.conll does not exist"),
    ("link train-tagger text.jsonl -o out --held-out 2", USAGE, "--held-out"),
    ("link train-encoder gone.jsonl --kg kg -o out", FAILED, "gone.jsonl does not exist"),
    ("link train-encoder text.jsonl --kg kg -o out --epochs 0", USAGE, "--epochs"),
    ("link calibrate empty --kg kg -o out --tagger t", FAILED, "give --find with it"),
    ("link Paris --kg kg --tagger gone", FAILED, "gone"),
    ("link Paris --kg kg --pronouns", FAILED, "name one with --tagger"),
    ("link calibrate gone.jsonl --kg kg -o out", FAILED, "gone.jsonl does not exist"),
    ("link calibrate empty --kg kg -o out --folds 1", USAGE, "--folds"),
    ("link score gone.jsonl text.jsonl", FAILED, "gone.jsonl does not exist"),
    ("link score text.jsonl text.jsonl --seed -1", USAGE, "--seed"),
    ("link corrupt gone.jsonl -o out", FAILED, "gone.jsonl does not exist"),
    ("link corrupt text.jsonl -o out --drop nan", USAGE, "--drop"),
    ("link kg/ --kg kg", FAILED, "kg/ is a folder; give a file or a text"),
    ("link Paris --kg kgg", FAILED, "kgg does not exist; did you mean kg?"),
    ("link Paris --kg kg --workers 1000000", USAGE, "--workers"),
    ("link Paris --kg kg --min-prior 2", USAGE, "--min-prior"),
    ("link Paris --kg kg --nil-below inf", USAGE, "--nil-below"),
    ("link Paris --kg kg --min-length 10000000000", USAGE, "--min-length"),
    ("link Paris --kg runs", FAILED, "runs"),
    ("kg build gone.tsv -o out", FAILED, "gone.tsv does not exist"),
    ("kg build gone.tsv -o out --workers 0", USAGE, "--workers"),
    ("kg build empty -o out --format nothing", FAILED, "nothing"),
    ("kg build empty -o out --format tsv", FAILED, "an empty file?"),
    ("kg build kg -o out", FAILED, "kg is a graph that `kept kg build` made"),
    ("kg info gone", FAILED, "gone does not exist"),
    ("kg info text.jsonl", FAILED, "text.jsonl"),
    ("kg check kg --split gone", FAILED, "gone does not exist"),
    ("kg export kg -o a.xyz", FAILED, "a.xyz"),
    ("kg export kg -o /gone/a.tsv", FAILED, "/gone"),
    ("kgc train gone -o out", FAILED, "gone does not exist"),
    ("kgc train kg -o out", FAILED, "give a larger graph, or with --holdout"),
    ("kgc train text.jsonl -o out", FAILED, "kept kg build text.jsonl"),
    ("kgc train kg -o out --seed -1", USAGE, "--seed"),
    ("kgc train kg -o out --holdout nan", USAGE, "--holdout"),
    ("kgc train kg -o out --holdout 0", FAILED, "holdout"),
    ("kgc train kg -o out --width 10000000000", USAGE, "--width"),
    ("kgc train kg -o out --epochs 0", USAGE, "--epochs"),
    ("kgc train kg -o out --scorer ultra --weights gone.pth", FAILED, "gone.pth does not exist"),
    ("kgc train kg -o out --scorer simkgc --host ./gone", FAILED, "gone does not exist"),
    ("kgc train kg -o out --scorer simkgc --tokens 1", USAGE, "--tokens"),
    ("kgc train kg -o out --scorer complex --ask 5", FAILED, "complex takes no --ask"),
    ("kgc train kg -o out --scorer ultra --batch-size 1", USAGE, "--batch-size"),
    ("kgc eval kg -m gone", FAILED, "gone does not exist"),
    ("kgc eval kg -m runs", FAILED, "runs"),
    ("kgc predict ? ? --kg kg -m gone", FAILED, "gone does not exist"),
    ("kgc predict Q1 P1 --kg kg -m gone --top 0", USAGE, "--top"),
    ("kgc predict Q1 P1 --kg kg -m gone --refuse-below nan", USAGE, "--refuse-below"),
    ("kgc predict NEW P1 --kg kg -m runs --facts gone.tsv", FAILED, "gone.tsv does not exist"),
    ("finetunne", USAGE, "finetune"),
    ("kg info kg --jsno", USAGE, "--json"),
]  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph, texts, a host, and damaged ones."""
    folder = tmp_path_factory.mktemp("world")
    records = [Triple("Q1", "P1", "Q2"), Triple("Q2", "P1", "Q1")]
    names = [Text(f"Q{n}", TextKind.LABEL, name) for n, name in ((1, "Paris"), (2, "Seine"))]
    relation = Text("P1", TextKind.LABEL, "near", is_relation=True)
    graph_from_records([*records, *names, relation]).save(folder / "kg")
    (folder / "runs").mkdir()
    (folder / "empty").touch()
    line = {"id": "1", "text": "Paris.", "mentions": [{"start": 0, "end": 5, "entity": "Q1"}]}
    (folder / "text.jsonl").write_text(json.dumps(line) + "\n")
    (folder / "deep.yaml").write_text("[" * 20_000 + "]" * 20_000)
    (folder / "dump.json").write_text("[]")
    (folder / "list.yaml").write_text("[1, 2]")
    asks = "name: asks\nquestions: {kg: kg, asked: gone.jsonl}\n"
    (folder / "asks.yaml").write_text(f"{asks}methods: {{word: {{}}}}\n")
    (folder / "asked.yaml").write_text(f"{asks}methods: {{words: {{}}}}\n")
    shipped = (Path(kept.lab.demo.__file__).parent / "demo.yaml").read_text()
    (folder / "nan.yaml").write_text(
        shipped.replace("learning_rate: 6.0e-4", "learning_rate: .nan")
    )
    for name in ("tiny", "cut_host", "list_config", "empty_tokenizer"):
        tiny_host().save_pretrained(folder / name)
    weights = folder / "cut_host/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    (folder / "list_config/config.json").write_text("[]")
    (folder / "empty_tokenizer/tokenizer.json").write_text("{}")
    return folder


def run(*line: str) -> Result:
    return CliRunner().invoke(app, list(line))


def message_of(result: Result) -> str:
    """What was printed, boxes and line ends taken away."""
    return re.sub(r"[│╭╮╰╯─\s]+", " ", result.output)


@pytest.mark.parametrize(("line", "code", "words"), TABLE, ids=[line for line, _, _ in TABLE])
def test_an_error_is_one_message(
    line: str,
    code: int,
    words: str,
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(world)
    monkeypatch.delenv("KEPT_DATA", raising=False)
    result = run(*line.split())
    assert (result.exit_code, "Traceback" in result.output) == (code, False), result.output
    assert isinstance(result.exception, SystemExit), result.exception
    assert "PosixPath(" not in result.output
    assert words.replace(" ", "") in message_of(result).replace(" ", ""), result.output
    if code != USAGE:
        assert result.stderr.lstrip().startswith("error: ")
    if (world / "out").exists():
        (world / "out").rename(tmp_path / "out")
        pytest.fail("something was written")


def test_the_table_covers_every_command() -> None:
    lines = [line.replace("link Paris", "link text Paris") for line, _, _ in TABLE]
    for words in COMMANDS:
        begin = " ".join(words) + " "
        assert any(line.startswith(begin) for line in lines), begin


# ---- what nobody foresaw ---------------------------------------------------
@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, world: Path) -> Path:
    """A command with a fault of its own."""

    def facts(graph: Any) -> None:
        path = Path("some/file.bin")
        raise ZeroDivisionError(f"of {len(str(path)) * 0}\x1b[2J")

    monkeypatch.setattr(kept.apps.cli.kg, "summary_of", facts)
    return world / "kg"


def test_a_fault_says_what_where_and_how_to_see_more(broken: Path) -> None:
    result = run("kg", "info", str(broken))
    assert result.exit_code == FAULT
    message = message_of(result)
    assert "ZeroDivisionError: of 0\\u001b[2J" in message
    assert re.search(r"\(\w+\.py, line \d+, in \w+\)", message)
    assert "kept --debug" in message
    assert "Traceback" not in message


def test_debug_shows_the_traceback(broken: Path) -> None:
    result = run("--debug", "kg", "info", str(broken))
    assert isinstance(result.exception, ZeroDivisionError)


def test_an_interrupt_is_no_error(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(kept.apps.cli.kg, "summary_of", interrupted)
    result = run("kg", "info", str(broken))
    assert result.exit_code in (1, 130)  # as the version of typer has it
    assert "error:" not in result.output


# ---- causes outside kept ---------------------------------------------------
def explained(fails: Any) -> tuple[str, int]:
    try:
        fails()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is explained
        return explain(error)
    pytest.fail("nothing was raised")


@pytest.mark.parametrize(
    "write",
    [
        lambda: Path("/dev/full").write_text("x" * 100_000),
        lambda: torch.save({"a": torch.zeros(100_000)}, "/dev/full"),
    ],
)
def test_a_full_disk_is_told(write: Any) -> None:
    if not Path("/dev/full").is_char_device():
        pytest.skip("there is no /dev/full")
    message, code = explained(write)
    assert code == FAILED
    assert "no space left on the disk" in message


def test_a_full_disk_under_rust_is_told() -> None:
    from safetensors import SafetensorError

    error = SafetensorError("Error while serializing: I/O error: No space left on device")
    assert "no space left" in explain(error)[0]


@pytest.mark.parametrize("call", [lambda: torch.zeros(10**14), lambda: bytearray(10**15)])
def test_too_little_memory_is_told(call: Any) -> None:
    message, code = explained(call)
    assert code == FAILED
    assert "not enough memory" in message


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    (tmp_path / "nodes.tsv").touch()
    message, code = explained((tmp_path / "node.tsv").read_text)
    assert code == FAILED
    assert message.endswith(f"did you mean {tmp_path / 'nodes.tsv'}?")
    message, _ = explained(tmp_path.read_text)
    assert message == f"{tmp_path}: Is a directory"
