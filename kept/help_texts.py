"""Help texts of options that several commands share: the same option says the same."""

AS_PUBLISHED = (
    "Use the settings of the method's paper instead of kept's recipe. With the "
    "recipe the method learns to read facts in few steps; with the paper's settings "
    "it may not."
)
BUDGET_MINUTES = (
    "Stop after this many minutes and write a checkpoint. Continue later with --resume."
)
CASE = (
    "How upper and lower case count when names are matched in a text "
    "({entity_linking.names.rules.case:Case}). sensitive: both must agree. "
    "insensitive: case is ignored. smart: the text may have capitals where the name "
    "has none, but not the reverse. Default: the choice stored with the run or "
    "index, if one is given, otherwise smart."
)
CONFIG = "YAML file with the settings of the run. Options on the command line replace what it says."
DATA = "Folder of data sets."
DEVICE = "Where to compute: auto (the default: a GPU if there is one), cpu, cuda or mps."
EPOCHS_TEXT = "Number of passes over the training text."
EXPERIMENT = (
    "The experiment: a YAML file, or the name of one in --tasks or of one that comes with kept."
)
EXPERIMENTS = "Folder of your own experiments (default: ./experiments)."
EXPERIMENT_DATA = "Folder with the files of the experiment (default: the variable KEPT_DATA)."
EXPERIMENT_KG = "Folder of your own graph, used instead of that of the experiment."
FORCE_FILE = "Replace the file if it exists."
FORCE_FILES = "Replace files that exist."
FORCE_OUTPUT = "With -o: replace the file if it exists, finished or not."
GOLD = "File of annotated texts, in the form that `kept link -o` writes."
HELD_OUT = "File of texts that decide when training stops, or the share of GOLD to use for that."
HOST = (
    "Language model to start from: minilm (the default), a folder, or a name on the "
    "Hugging Face hub."
)
HOST_MODEL = "Language model to start from: minilm, a folder, or a name on the Hugging Face hub."
INDEX = "Folder made by `kept link index` (default: an index is built in memory)."
KG = "Folder of the knowledge graph, as `kept kg build` makes it."
KG_OR_FILE = "Folder of the knowledge graph, or a file that `kept kg build` can read."
LEARNING_RATE = "Learning rate of the network. Lower it if the loss jumps."
LIMIT = "Largest number of examples per file, for a quick trial."
LINKED_TEXT = "File of linked texts, as `kept link -o` writes it. May be repeated."
LINK_INDEX = (
    "Index that gives the candidates, a folder made by `kept link index`. Give the "
    "same one to `kept link`."
)
LINK_METHOD = "How a candidate is chosen: one of {kept.linking.linkers:Method}."
LINK_MODEL = "With --method trained: folder made by `kept link train`."
LONG = (
    "What to do with texts that are too long for the language model "
    "({kept.graphs.windows:Long}). windows: all of a text is read, in parts that overlap. "
    "cut: only its beginning is read. Default: windows, or cut with --as-published."
)
PORT = "Port to listen on. 0 means any free port."
REDIRECTS = (
    "TSV file of redirects, one `from<TAB>to` per line. Links to the first entity "
    "are read as links to the second."
)
RERANKER = "Link with a re-ranker: a folder made by `kept link train`."
RESUME = "Continue from the last checkpoint in the folder of the run."
RESUME_OUTPUT = "With -o: continue a run that was interrupted."
SEED = "Number from which all random choices follow. The same seed gives the same result."
SHARD = (
    "With several processes (torchrun): what to split among them "
    "({kept.training.config:Shard}). May be repeated."
)
SKIP_DAMAGED = (
    "With --resume: pass over damaged checkpoints and continue from the newest that is intact."
)
STEPS = "Number of optimiser steps. Give either this or --epochs."
TEST = "File of test examples."
THREADS = "Processor threads that torch uses (default: torch chooses)."
TOKENIZER = (
    "Tokenizer that cuts words into pieces: that of minilm, of a folder, or of a "
    "name on the Hugging Face hub."
)
TRACK = (
    "Also send the training curves to one of {kept.apps.integrations.trackers:NAMES}. "
    "May be repeated."
)
TRAIN = "File of training examples."
