"""SmolLM2 by kept, in torch and by llama.cpp, compared with llama.cpp alone: the same GGUF file.

Each case is a process: seconds and memory of opening the decoder (after its libraries are imported;
memory is what is resident after a word was written, less what was before), words per second after a
prompt that was read, and a choice among 20 answers by their log-probabilities. "torch, from GGUF"
is how it was opened before weights were prepared.

    python benchmarks/models/decoders.py [--words 48] [--repeat 3]

JSON lines; seconds of the processor, one thread. `same_text` and `same_choice`: as torch's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import is_missing, once, write_line

ANSWERS = (
    "France", "Germany", "Spain", "Italy", "Portugal", "Belgium", "the Netherlands", "Austria",
    "Poland", "Norway", "Sweden", "Finland", "Denmark", "Ireland", "Greece", "Hungary", "Romania",
    "Bulgaria", "Croatia", "Switzerland",
)  # fmt: skip
PROMPT = (
    "<|im_start|>user\nThe river of Rouen is Seine. The country of Rouen is France.\n"
    "In which country is Rouen, and what is it known for?<|im_end|>\n<|im_start|>assistant\n"
)
CASES = ("torch", "torch, from GGUF", "llama.cpp", "llama.cpp alone")
Writer = Callable[[Sequence[int], int], Sequence[int]]
Chooser = Callable[[Sequence[int], Sequence[Sequence[int]]], list[float]]


def resident_mb() -> float:
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line
    )
    return int(line.split()[1]) / 1024


def by_torch(load: Callable[[], Any]) -> tuple[Any, Writer, Chooser]:
    """The decoder, what it writes after a text, and the log-probabilities of answers."""
    import torch

    from kept.batches import Visibility
    from kept.decoders.trees import Tree, chances, write

    host = load()

    def tree(text: Sequence[int], n: int = 1) -> Tree:
        ids = torch.tensor(text).expand(n, -1)
        mask = torch.ones_like(ids, dtype=torch.bool)
        positions = torch.arange(len(text)).expand(n, -1)
        after, last = torch.full((n,), len(text)), torch.full((n,), len(text) - 1)
        vectors = host.get_input_embeddings()(ids)
        return Tree(vectors, positions, Visibility.causal(mask), mask, after, last)

    def words(text: Sequence[int], n_new: int) -> Sequence[int]:
        return write(host, tree(text), n_new=n_new).words[0].tolist()

    @torch.no_grad()
    def choose(text: Sequence[int], answers: Sequence[Sequence[int]]) -> list[float]:
        longest = max(map(len, answers))
        padded = torch.tensor([[*a, *[a[-1]] * (longest - len(a))] for a in answers])
        scores = chances(host, tree(text, len(answers)), padded)
        return [float(row[: len(a)].sum()) for row, a in zip(scores, answers, strict=True)]

    return host, words, choose


def by_llama_cpp() -> tuple[Any, Writer, Chooser]:
    from kept.decoders.llama_cpp import LlamaCppDecoder
    from kept.hosts import smollm2_file

    decoder = LlamaCppDecoder(smollm2_file(), n_threads=1)
    return (
        decoder,
        lambda text, n_new: decoder.write([text], n_new)[0].words,
        lambda text, answers: [sum(decoder.log_chances(text, each)) for each in answers],
    )


def llama_cpp_alone(tokenizer: Any) -> tuple[Any, Writer, None]:
    import xllamacpp

    from kept.hosts import smollm2_file

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(smollm2_file())
    parameters.hostnames = [f"{tempfile.mkdtemp(prefix='kept-')}/s.sock"]
    parameters.n_ctx, parameters.n_parallel, parameters.verbosity = 1024, 1, -1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.warmup, parameters.ui = False, False
    server = xllamacpp.Server(parameters)

    def words(text: Sequence[int], n_new: int) -> Sequence[int]:
        request = {"prompt": list(text), "n_predict": n_new, "temperature": 0}
        choice = server.handle_completions(request)["choices"][0]
        ids: list[int] = tokenizer(choice["text"])["input_ids"]
        return ids

    return server, words, None


def open_case(case: str, tokenizer: Any) -> tuple[Any, Writer, Chooser | None]:
    from kept.decoders import load_decoder

    if case == "torch":
        return by_torch(lambda: load_decoder("smollm2"))
    if case == "torch, from GGUF":
        return by_torch(from_gguf)
    return by_llama_cpp() if case == "llama.cpp" else llama_cpp_alone(tokenizer)


def from_gguf() -> Any:
    """As it was opened before: unpacked, and copied once more."""
    from transformers import AutoModelForCausalLM

    from kept.hosts import smollm2_file

    file = smollm2_file()
    host = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, local_files_only=True
    )
    fields = {k: v for k, v in host.config.to_dict().items() if k != "quantization_config"}
    plain = type(host)(type(host.config).from_dict(fields))
    plain.load_state_dict(host.state_dict())
    return plain.eval()


def measure(case: str, n_words: int, repeat: int) -> dict[str, Any]:
    """The figures of one case, in this process."""
    import torch
    import transformers.models.llama.modeling_llama  # noqa: F401
    from transformers.utils.logging import disable_progress_bar

    from kept.hosts import SMOLLM2_PREPARED, load_tokenizer, smollm2_file
    from kept.prepared import cache_folder

    if "llama.cpp" in case:
        import xllamacpp  # noqa: F401
    torch.set_num_threads(1)
    disable_progress_bar()
    tokenizer = load_tokenizer("smollm2")
    weights = cache_folder() / SMOLLM2_PREPARED / "model.safetensors"
    file = weights if case.startswith("torch") else smollm2_file()
    text = tokenizer(PROMPT)["input_ids"]
    answers = [tokenizer(f"The country is {each}.")["input_ids"] for each in ANSWERS]
    before = resident_mb()
    opened = once(lambda: open_case(case, tokenizer))
    decoder, words, choose = opened.result
    written = words(text, n_words)
    memory = resident_mb() - before
    one = min(once(lambda: words(text, 1)).processor for _ in range(repeat))
    many = min(once(lambda: words(text, n_words)).processor for _ in range(repeat))
    figures = {
        "load_s": round(opened.processor, 2), "memory_mb": round(memory),
        "memory_of_file": round(memory / (file.stat().st_size / 2**20), 2),
        "words_a_second": round((len(written) - 1) / (many - one), 1), "words": list(written),
    }  # fmt: skip
    if choose is not None:
        chosen = [once(lambda: choose(text, answers)) for _ in range(repeat)]
        scores = chosen[0].result
        figures["choice_of_20_s"] = round(min(each.processor for each in chosen), 2)
        figures["choice"] = ANSWERS[scores.index(max(scores))]
    del decoder
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--words", type=int, default=48)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--case", choices=CASES, help="one case, in this process")
    options = parser.parse_args()
    if options.case is not None:
        print(json.dumps(measure(options.case, options.words, options.repeat)))
        return
    rows: dict[str, dict[str, Any]] = {}
    missing = is_missing("xllamacpp", row="decoder", peer="llama.cpp")
    for case in (case for case in CASES if not missing or "llama.cpp" not in case):
        command = [sys.executable, __file__, "--case", case, "--words", str(options.words),
                   "--repeat", str(options.repeat)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows[case] = json.loads(done.stdout.splitlines()[-1])
    words, choice = rows["torch"]["words"], rows["torch"]["choice"]
    per_second = rows[CASES[-1]]["words_a_second"] if not missing else None
    for case, row in rows.items():
        same = {"same_text": row.pop("words") == words}
        if "choice" in row:
            same["same_choice"] = row.pop("choice") == choice
        peer = {"words_of_peer": round(row["words_a_second"] / per_second, 2)} if per_second else {}
        write_line(row="decoder", case=case, **row, **peer, **same)


if __name__ == "__main__":
    main()
