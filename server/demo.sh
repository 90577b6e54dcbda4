#!/bin/sh
# The main job, end to end, on real input: installs what is missing, builds, starts a cell
# in Paris, ingests a folder of documents (text, Markdown, HTML, PDF; English, French,
# German) that carry different residency labels, asks the same question as three callers,
# shows a write that the law forbids, why and what would allow it, what another policy would
# change, what nobody has looked into, where a workload may run, the audit log, and unmodified
# LangChain and LlamaIndex programs. Plain sh; asks nothing; can be run again; root or sudo.
#
#   sh server/demo.sh              everything
#   sh server/demo.sh --no-clients without the Python programs (saves their installation)
#
# The cell lives in a folder of its own, listens on loopback only, and is stopped at the end.
set -eu
cd "$(dirname "$0")/.."
clients=1
for a; do
    case $a in
    --no-clients) clients= ;;
    *) echo "demo: unknown option $a (--no-clients)" >&2; exit 2 ;;
    esac
done
: "${BW_DEPS:=${XDG_CACHE_HOME:-$HOME/.cache}/bailiwick}"
export BW_DEPS
title() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
[ -t 1 ] || title() { printf '\n== %s\n' "$*"; }

title "Installing what is missing"
sh server/deps.sh build model ${clients:+clients}

title "Building (a minute or more the first time; build/demo-build.log has it)"
mkdir -p build
cmake --preset release >build/demo-build.log 2>&1 && cmake --build --preset release --target bailiwick -j "$(nproc)" >>build/demo-build.log 2>&1 ||
    { tail -40 build/demo-build.log >&2; exit 1; }
bw=build/release/bailiwick
"$bw" --version

work=$(mktemp -d "${TMPDIR:-/tmp}/bailiwick-demo.XXXXXX")
pid=
stop() {
    [ -z "$pid" ] || { kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; }
    rm -rf "$work"
}
trap stop EXIT
trap 'exit 1' INT TERM

title "A cell in Paris, run by a French operator"
# Facts that the rules ask for: who runs the machine, who controls them. The operator's own data.
cat >"$work/entities.json" <<'J'
[{"uid": {"type": "Bw::LegalEntity", "id": "nuage-souverain"}, "parents": [],
  "attrs": {"seat": {"__entity": {"type": "Bw::Country", "id": "FR"}},
            "controlZones": [{"__entity": {"type": "Bw::Zone", "id": "EU"}}],
            "foreignShareMax": {"__extn": {"fn": "decimal", "arg": "0.0"}},
            "foreignShareSum": {"__extn": {"fn": "decimal", "arg": "0.0"}},
            "baaWith": [], "certs": []}}]
J
"$bw" init --data "$work/cell" --set cell.id=paris-1 --set cell.country=FR --set cell.operator=nuage-souverain \
    --set cell.certs=hds --set "policies.entities=$work/entities.json" --set "model.folder=$BW_DEPS/model" \
    --admin-key-file "$work/admin.key"
"$bw" serve --data "$work/cell" --listen 127.0.0.1:0 >"$work/serve.out" 2>"$work/serve.err" &
pid=$!
n=0
until grep -q '^listening on ' "$work/serve.out"; do
    n=$((n + 1))
    kill -0 "$pid" 2>/dev/null && [ $n -lt 300 ] || { cat "$work/serve.out" "$work/serve.err" >&2; exit 1; }
    sleep 0.1
done
url=http://$(sed -n 's/^listening on \(.*:\/\/\)\{0,1\}//p' "$work/serve.out" | head -1)
echo "serving at $url"

title "Keys for four people and a program (each is shown once, and kept as a keyed hash)"
key() { # file, then what `key add` takes
    f=$1
    shift
    "$bw" key add --url "$url" --key-file "$work/admin.key" --out "$work/$f.key" "$@"
}
key archivist --principal archivist --tenant clinique --seat FR --clearance 4 --roles editor --purposes care,compliance,audit,search
key app --principal rag-app --tenant clinique --seat FR --clearance 1 --roles editor --purposes support --default-purpose support \
    --labels '{"regimes": ["none"], "residency": ["EU"], "sensitivity": 1, "purposes": ["support"]}'
key claire --principal dr-claire --tenant clinique --seat FR --clearance 3 --roles reader --purposes care
key karl --principal karl-compliance --tenant clinique --seat DE --clearance 2 --roles reader --purposes compliance
key alex --principal alex-abroad --tenant clinique --seat US --clearance 3 --roles reader --purposes care,search
say_who() { printf '%-18s %s\n' "$1" "$2"; }
say_who archivist "files documents"
say_who dr-claire "a doctor in France, for care"
say_who karl-compliance "compliance, in Germany"
say_who rag-app "a program; its key carries the labels of what it writes"
say_who alex-abroad "a doctor who works from the United States"

title "Ingesting documents of five countries (what the law keeps out of Paris is refused)"
rc=0
"$bw" ingest tests/data/demo/documents --collection records --rules tests/data/demo/rules.json \
    --url "$url" --key-file "$work/archivist.key" --purpose audit || rc=$?
[ $rc = 0 ] || [ $rc = 3 ] || exit 1

title "Again: nothing has changed, so nothing is written"
"$bw" ingest tests/data/demo/documents --collection records --rules tests/data/demo/rules.json \
    --url "$url" --key-file "$work/archivist.key" --purpose audit >"$work/again" || rc=$?
grep ' unchanged, ' "$work/again"

question="How long are records kept?"
ask() { # key, purpose
    title "\"$question\" asked by $1, for $2"
    "$bw" query "$question" --collection records --purpose "$2" --mode hybrid --limit 12 --url "$url" --key-file "$work/$1.key" \
        >"$work/answer"
    sed -n 1,3p "$work/answer" | cut -c1-400
    grep -E '^[0-9]+\.' "$work/answer" | sed 1d
}
ask claire care
ask karl compliance
ask alex care

title "A write that the law forbids: Swiss patients' data into a cell in Paris"
curl_key() { # key file, curl arguments: the key goes by a file, never by argv
    f=$1
    shift
    { printf 'header = "api-key: '; tr -d '\n' <"$work/$f.key"; printf '"\n'; } | curl -sS -K - -H 'content-type: application/json' "$@"
}
command -v curl >/dev/null 2>&1 || sh -c 'if [ "$(id -u)" = 0 ]; then apt-get install -y -q curl; else sudo apt-get install -y -q curl; fi' >/dev/null
curl_key archivist -w '\nHTTP %{http_code}\n' -X POST "$url/v1/ingest" -d '{"collection": "records", "source": "zurich.txt",
  "text": "Ein Patientendossier aus Zürich.",
  "labels": {"regimes": ["fadp"], "residency": ["CH"], "sensitivity": 3, "categories": ["health"], "purposes": ["care"]}}'

title "Why, and the smallest change that would allow it (found by search, verified by evaluating)"
seq=$(curl_key admin "$url/v1/audit?limit=1&status=451" | sed 's/.*"seq":\([0-9]*\),"time".*/\1/')
"$bw" explain --event "$seq" --url "$url" --key-file "$work/admin.key"

title "Tomorrow's policy: checked, and what it would have changed in today's requests"
"$bw" policy compose eu-baseline >"$work/tomorrow.cedar"
cat >>"$work/tomorrow.cedar" <<'C'
@id("bank-data-in-france")
@source("rule of the house")
@text("The bank's data is read by people who act from France.")
forbid (principal, action == Bw::Action::"Query", resource)
when { resource.categories.contains("financial") && principal.seat != Bw::Country::"FR" };
C
"$bw" policy check "$work/tomorrow.cedar"
"$bw" policy replay "$work/tomorrow.cedar" --url "$url" --key-file "$work/admin.key"

title "Put in force: the next request of karl-compliance finds the bank's papers no more"
"$bw" policy put "$work/tomorrow.cedar" --url "$url" --key-file "$work/admin.key"
ask karl compliance >/dev/null
grep -E '^[0-9]+\.' "$work/answer"

title "What nobody has looked into denies, and where your own fact would go (the first two gaps)"
"$bw" catalogue gaps --data "$work/cell" --in EU >"$work/gaps" || [ $? = 3 ]
sed -n 1,6p "$work/gaps"

title "Where may a French hospital's search run, and for how much?"
"$bw" place --profile tests/data/place/01-hospital-fr.json --overlay tests/data/place/01-hospital-fr.overlay.json --limit 3

title "The audit log: every decision, chained by hashes"
curl_key admin "$url/v1/audit?limit=500" >"$work/audit.json"
python3 - "$work/audit.json" <<'P'
import json, sys
events = [e for e in json.load(open(sys.argv[1]))["events"] if e["event"] == "request"]
for e in [e for e in events if e.get("denied")][-3:] + [e for e in events if e.get("returned")][-3:]:
    what = ", ".join(f"denied {d['action']} by {d['policies']}" for d in e.get("denied", [])) or \
        f"{sum(p['classes'] for p in e['permitted'])} classes permitted, {e['returned']} points returned"
    print(f"{e['seq']:4}  {e['principal']:16} {e['method']} {e['route']:11} {e['status']}  {what}  {e['hash'][:12]}")
print(len(events), "requests on record")
P

if [ -n "$clients" ]; then
    for program in langchain llamaindex; do
        title "An unmodified $program program, with the key of rag-app"
        "$BW_DEPS/venv/bin/python" -W ignore "server/demo_$program.py" "$url" "$work/app.key"
    done
fi

title "Stopping, and checking the audit log offline"
kill "$pid"
wait "$pid" || true
pid=
"$bw" audit verify --data "$work/cell"
