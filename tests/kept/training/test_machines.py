"""Processes on two machines: network namespaces with names and addresses of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from kept.errors import ConfigError, TrainingError
from kept.training.processes import together
from kept.training.processes.machines import require_reachable
from kg_loaders import KnowledgeGraph
from tests.forked import Forked
from tests.kept.rounding import require_same_training
from tests.kept.training.test_processes import RATES, finish
from tests.kept.training.test_shards import without_dropout
from tests.kept.training.tiny_pretraining import write_everything
from tests.kept.training.train_processes import run

SCRIPT = Path(__file__).with_name("on_machine.py")
PROCESSES = ((0, 0, 2), (0, 1, 2), (1, 0, 1))
"""Machine, place on it and processes on it, of each: the last is a second one's first."""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[list[str]]:
    """Two network namespaces, joined by a cable."""
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("needs root and iproute2, to make network namespaces")
    names = [f"kept{os.getpid()}-{i}" for i in range(2)]
    cable = [f"k{os.getpid()}-{i}" for i in range(2)]
    try:
        try:
            for name in names:
                ip("netns", "add", name)
            ip("link", "add", cable[0], "netns", names[0], "type", "veth", "peer", "name", cable[1],
               "netns", names[1])  # fmt: skip
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces cannot be made here: {error.stderr.strip()}")
        for i, name in enumerate(names):
            ip("-n", name, "addr", "add", f"10.77.0.{i + 1}/24", "dev", cable[i])
            for device in ("lo", cable[i]):
                ip("-n", name, "link", "set", device, "up")
        lines = ["127.0.0.1 localhost", *(f"10.77.0.{i + 1} machine{i}" for i in range(2))]
        (tmp_path / "hosts").write_text("\n".join(lines) + "\n")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def start(machines: Sequence[str], hosts: Path, command: Sequence[str]) -> list[Forked]:
    """As a torchrun on each machine does."""
    started = []
    for rank, (machine, local_rank, n) in enumerate(PROCESSES):
        shared = {
            "MASTER_ADDR": "machine0", "MASTER_PORT": "29500", "WORLD_SIZE": str(len(PROCESSES)),
            "RANK": str(rank), "LOCAL_RANK": str(local_rank), "LOCAL_WORLD_SIZE": str(n),
        }  # fmt: skip
        arguments = [str(SCRIPT), machines[machine], f"machine{machine}", str(hosts), *command]
        started.append(Forked(arguments, os.environ | shared))
    return started


@pytest.mark.slow
def test_two_machines_train_what_one_does_and_go_on_when_one_is_lost(
    machines: list[str], tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    fields = write_everything(tmp_path, small_graph)
    without_dropout(tmp_path / "host/config.json")
    fields["as_published"] = True  # as what is run without the command line
    fields["training"] |= {"steps": 12, "checkpoint_steps": 4, "log_every": 4}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(fields))
    command = ["kept", "pretrain", "-c", str(tmp_path / "run.yaml"), "-o", str(tmp_path / "2"),
               "--shard", "tables", "--shard", "layers"]  # fmt: skip
    started = start(machines, tmp_path / "hosts", command)
    while not (tmp_path / "2/checkpoints/step-00000004").exists():
        assert [process.poll() for process in started] == [None] * 3
        time.sleep(0.01)
    started[2].send_signal(signal.SIGKILL)
    (code, output), (other, silent), _ = finish(started)
    assert (code, other) == (1, 1), output + silent
    assert "error: another process of this run has ended" in output
    assert "process 1: error: another process" in silent
    assert "--resume" in output
    (code, output), *others = finish(start(machines, tmp_path / "hosts", [*command, "--resume"]))
    assert [code, *(each for each, _ in others)] == [0, 0, 0], output + str(others)
    assert "resumed from" in output
    assert "step 12 of 12: finished" in output
    for _, silent in others:
        assert not {"resumed", "finished", "checksums.json", "error"} & {*silent.split()}
    state = json.loads((tmp_path / "2/checkpoints/step-00000012/state.json").read_text())
    assert state["environment"]["processes"] == "3"
    run(fields, tmp_path / "1")
    one, two = (load_file(tmp_path / f"{n}/model.safetensors") for n in (1, 2))
    require_same_training(two, one, n_steps=12, **RATES)


def test_a_machine_whose_name_leads_to_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    require_reachable()  # of a launcher that does not say how many are on one machine
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    require_reachable()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    with pytest.raises(
        ConfigError, match=r"localhost, resolves to (127\.0\.0\.1|::1).*SOCKET_IFNAME"
    ):
        together.join_processes("cpu")
    monkeypatch.setattr(socket, "gethostname", lambda: "no-such-name.invalid")
    with pytest.raises(
        ConfigError, match=r"no-such-name\.invalid, cannot be resolved .*GLOO_SOCKET_IFNAME"
    ):
        require_reachable()
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0")
    require_reachable()


def test_processes_that_cannot_train_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="one process trains on mps, not 2; take device cpu"):
        together.join_processes("mps")

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("Gloo connectFullMesh failed\nand more")

    monkeypatch.setattr(together.distributed, "init_process_group", fails)
    with pytest.raises(TrainingError, match=r"2 processes .* did not meet: Gloo connectFullMesh"):
        together.join_processes("cpu")
