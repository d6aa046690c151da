#!/bin/bash
# The journeys of a newcomer, each in an empty folder, with what the wheel holds and nothing else.
#   run.sh PYTHON WHEEL OUT [NAME ...]
# OUT/wheel is the unpacked wheel, OUT/NAME the folder of a journey. Prints each command and its
# seconds; goes on after a failure and ends with 1.
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
TESTS=$(cd "$HERE/../../tests" && pwd)
PYTHON=$(realpath -s "$(command -v "$1")") WHEEL=$(realpath "$2") OUT=$3
shift 3
mkdir -p "$OUT" && OUT=$(realpath "$OUT") && rm -rf "$OUT/wheel"
"$PYTHON" -m pip install --quiet --no-deps --no-index --target "$OUT/wheel" "$WHEEL" || exit 1
export PYTHONPATH="$OUT/wheel" HF_HUB_OFFLINE=1
FAILED=0

step() {  # a command of the journey, told with its seconds; the output stays in the folder's log
    N=$((N + 1))
    local TIMEFORMAT='    %R s, %U s of processor' failed=0
    echo "  \$ $*"
    { time "$@" >> log.txt 2>&1 || failed=1; } 2>&1
    [ $failed = 0 ] || { echo "    failed:"; tail -n 4 log.txt; return 1; }
}
kept() { "$PYTHON" -m kept "$@"; }
given() { "$PYTHON" "$@" >> log.txt 2>&1; }  # the files that a user brings; not counted

journey() {  # name, what, function
    [ ${#WANTED[@]} -eq 0 ] || [[ " ${WANTED[*]} " == *" $1 "* ]] || return 0
    rm -rf "${OUT:?}/$1" && mkdir -p "$OUT/$1" && cd "$OUT/$1" || exit 1
    N=0
    local begun=$SECONDS
    echo "$1: $2"
    if "$3"; then echo "  $N commands, $((SECONDS - begun)) s"; else FAILED=1; fi
}

private_graph() {
    given "$HERE/world.py" || return 1
    step kept kg build facts.tsv --labels labels.tsv -o kg &&
    step kept finetune --task classification --format tsv --train train.tsv --dev dev.tsv --kg kg \
        --link --method kbert --steps 40 --batch-size 16 --lr 3e-4 \
        --set view.soft_positions=false --set view.visible_matrix=false -o run &&
    step kept predict run "$(cat person.txt) works here." --kg kg --explain &&
    grep -m1 "accuracy" log.txt | sed 's/^/    /'
    tail -n 4 log.txt | sed 's/^/    /'
}
two_methods() {
    cp "$OUT"/private/*.tsv . 2>> log.txt && cp -r "$OUT/private/kg" . || return 1
    cat > mine.yaml <<YAML
name: mine
task:
  {task: classification, format: tsv, train: train.tsv, dev: dev.tsv, kg: kg, host: minilm, link: true,
   training: {steps: ${STEPS:-30}, batch_size: 16, learning_rate: 3.0e-4, threads: 2}}
methods:
  kbert: {view: {soft_positions: false, visible_matrix: false}}
YAML
    step kept compare --task mine.yaml --data . --methods none,kbert --controls off --seeds 2 -o runs &&
    step kept report runs --task mine.yaml --data . --latex tables.tex &&
    tail -n 14 log.txt | grep -m1 -i "kbert\|K-BERT" | sed 's/^/    /'
}
rdf_completion() {
    given -c 'from kept import atlas; atlas.graph().save("atlas")' || return 1
    given -m kept kg export atlas -o facts.nt && rm -r atlas || return 1
    step kept kg build facts.nt -o kg &&
    step kept kgc train kg --scorer dkrl -o model &&
    step kept kgc predict NEW urn:kept:P17 --kg kg -m model --explain \
        --text "Lumen: a city on the Po in Italy." &&
    tail -n 12 log.txt | sed 's/^/    /'
}
local_model() {
    given "$HERE/world.py" && given -m kept kg build facts.tsv --labels labels.tsv -o kg || return 1
    cut -f2 train.tsv > texts.txt
    step kept link texts.txt --kg kg -o linked.jsonl &&
    step kept pretrain --method none --kg kg --text linked.jsonl --steps 10 --batch-size 16 -o mlm &&
    step kept probe ./mlm --kg kg --relations "works as" --max-items 40 &&
    tail -n 12 log.txt | sed 's/^/    /'
}
vectors() {
    given "$HERE/world.py" && given -m kept kg build facts.tsv --labels labels.tsv -o kg || return 1
    cp "$HERE/vectors.py" .
    step "$PYTHON" vectors.py kg && tail -n 4 log.txt | sed 's/^/    /'
}
explorer() {
    cp -r "$OUT/private/kg" "$OUT/private/run" . || return 1
    local other
    other=$(grep -m1 '^person100	' "$OUT/private/labels.tsv" | cut -f2)
    step "$PYTHON" "$HERE/explorer.py" "$TESTS" kg run \
        "$(cat "$OUT/private/person.txt") works here." "$other" pictures &&
    step kept explore --kg kg --model run --text "$(cat "$OUT/private/person.txt") works here." \
        -o page.html && ls pictures gold.jsonl page.html | sed 's/^/    /'
}
in_class() {
    given -c 'from kept import atlas; atlas.graph().save("kg")' || return 1
    local text="The Seine flows through Paris, the capital of France."
    step kept show "$text" --kg kg -o graph.html &&
    step kept explore --kg kg --text "$text" -o page.html &&
    given "$HERE/pictures.py" "$TESTS" graph.html page.html && ls ./*.png | sed 's/^/    /'
}
medical() {
    if [ ! -d "${KEPT_DATA:-}/medical" ]; then echo "  skipped: no medical/ in KEPT_DATA"; return 0; fi
    given "$HERE/medical.py" "$KEPT_DATA/medical" || return 1
    step kept kg build facts.tsv --labels labels.tsv -o kg &&
    step kept finetune --task classification --format tsv --train train.tsv --dev dev.tsv --kg kg \
        --link --method kbert --steps 60 --batch-size 16 --lr 3e-4 \
        --set view.soft_positions=false --set view.visible_matrix=false -o run &&
    step kept explore --kg kg --model run --text notes.txt -o page.html &&
    grep -m1 "accuracy" log.txt | sed 's/^/    /' &&
    given "$HERE/pictures.py" "$TESTS" page.html && ls ./*.png | sed 's/^/    /'
}

WANTED=("$@")
journey private "a private graph and a task; which fact made an answer" private_graph
journey compare "two methods, with a control" two_methods
journey rdf "an RDF graph completed, for an entity that is not in it" rdf_completion
journey class "a text shown in class: its graph, and the explorer as one file" in_class
journey probe "what a local model recalls of a graph" local_model
journey vectors "vectors in scikit-learn, entities in spaCy" vectors
journey explorer "the explorer: a fact edited, a link corrected" explorer
journey medical "drugs and diseases of public tables: for which kind is a drug?" medical
exit $FAILED
