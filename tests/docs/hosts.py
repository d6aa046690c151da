"""The page of hosts: families, and which methods work on them, from the code."""

from __future__ import annotations

from pathlib import Path

from kept.decoders.hosts import FAMILIES as DECODERS
from kept.host_families import FAMILIES, Family
from kept.methods import METHODS
from tests.docs.methods import table

PAGE = Path(__file__).parents[2] / "docs/reference/hosts.md"
NAMES = {
    "bert": "BERT", "electra": "ELECTRA", "ernie": "ERNIE (Baidu)", "roberta": "RoBERTa",
    "xlm-roberta": "XLM-R", "camembert": "CamemBERT", "distilbert": "DistilBERT",
    "albert": "ALBERT", "mpnet": "MPNet", "deberta-v2": "DeBERTa v2 and v3",
    "nomic_bert": "NomicBERT", "modernbert": "ModernBERT",
}  # fmt: skip
POSITIONS = {
    "mpnet": "a table, and the distance between two nodes",
    "deberta-v2": "the distance between two nodes",
    "nomic_bert": "the distance between two nodes (rotation)",
    "modernbert": "the distance between two nodes (rotation); local layers see near positions only",
}


def page() -> str:
    """Return the page."""
    bert = [name for name, method in METHODS.items() if method.encoder.needs_bert_layers]
    whole = [name for name, method in METHODS.items() if not method.encoder.needs_layers]
    rows = [(NAMES[name], f"`{name}`", *_row(family, name, bert))
            for family in FAMILIES for name in family.model_types]  # fmt: skip
    head = ("family", "model type", "positions", "methods", "adapters in its layers", "soft links")
    return f"""# Hosts: the language models you can bring

`--host` takes a folder or a name of the hub. It must be an encoder of transformers with a fast
tokenizer. Each row is tested with every method: a training step works, or an error says why not.

{table(head, rows)}
**Positions by distance.** Some families know no table of positions. They compare the positions of
two nodes. kept gives them the positions of the word-knowledge graph. So a fact of K-BERT that
begins one place after its mention is at distance 1, with any number of words between them. In a
local layer of ModernBERT a node sees the nodes whose *positions* are in its window, if the method
lets it.

**ALBERT** passes the same layer several times. What a method adds after layer *n* comes after pass
*n*. LoRA inside the layer is shared by all passes.

**DeBERTa** takes no weights of links, so links are all or nothing. A checkpoint with a convolution
(`conv_kernel_size`) is refused, since it would mix words with the facts next to them.

**Any other encoder** is run as a whole, and a line of the log says so. These methods work on it,
since they need nothing between its layers: {_list(whole)}.
Other methods are refused. Before it is used, kept checks on a few words that the encoder reads both
ways, that it takes vectors for words, and that padding changes nothing.

{_list(bert)} compute with the parts of BERT's layers, so they need a family that has them.
The linker's re-ranker and tagger need such a family too. Attention weights (`kept predict
--explain`) are not given for ALBERT, MPNet and DeBERTa; the rest of the explanation is.

Left-to-right models are hosts of another kind: see [decoders](../how-to/decoders.md). Their
families are {_list([*DECODERS])}.
Each is tested with facts as branches and as nodes, with a cache, with LoRA and with adapters.
"""


def _row(family: Family, name: str, bert: list[str]) -> tuple[str, str, str, str]:
    methods = "all" if family.has_bert_layers else f"all but {', '.join(f'`{n}`' for n in bert)}"
    kinds = ["lora", *(["houlsby"] if family.has_bert_outputs else []),
             *(["pals"] if family.has_bert_layers else [])]  # fmt: skip
    adapters = ", ".join(f"`{kind}`" for kind in kinds)
    return POSITIONS.get(name, "a table"), methods, adapters, "yes" if family.weighs_links else "no"


def _list(names: list[str]) -> str:
    codes = [f"`{name}`" for name in names]
    return f"{', '.join(codes[:-1])} and {codes[-1]}"
