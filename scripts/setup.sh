#!/bin/sh
# Make .venv fit for what was asked: `run` (the program), `test` (the program and its checks), `browser` (these and what
# drives a browser) or `bench` (these and what the benchmarks race against). Does nothing if it is.
set -eu
cd "$(dirname "$0")/.."
want=${1:-run}
root=$(pwd -P)
venv=$root/.venv

say() { printf '%s\n' "$*" >&2; }
fail() { say "setup: $*"; exit 1; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
        if is_new_enough "$name"; then
            printf '%s\n' "$name"
            return
        fi
    done
    fail "needs Python 3.11 or newer; none of 'python3', 'python3.11' … is. Name one: make ${want} PYTHON=/path/to/python3"
}

make_venv() {
    python=$(find_python)
    say "setup: making .venv with $("$python" --version 2>&1)"
    "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
        fail "this Python cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv"
    rm -rf "$venv"
    "$python" -m venv "$venv" || fail "could not make $venv"
}

case $want in
    run) extras= ;;
    test) extras='[test]' ;;
    browser) extras='[test,browser]' ;;
    bench) extras='[test,browser,bench]' ;;
    *) fail "knows 'run', 'test', 'browser' and 'bench', not '$want'" ;;
esac

# what the environment was made from; another folder or other requirements make it anew or bring it up to date
wanted="$root $(cat pyproject.toml requirements/constraints.txt | cksum)"
case $want in
    run) enough='run test browser bench' ;;
    test) enough='test browser bench' ;;
    browser) enough='browser bench' ;;
    *) enough=bench ;;
esac
for has in $enough; do
    ready=$venv/.ready-$has
    if [ "$(cat "$ready" 2>/dev/null || true)" = "$wanted" ] && is_new_enough "$venv/bin/python"; then
        exit 0
    fi
done

if ! is_new_enough "$venv/bin/python" || [ "$(cat "$venv/.folder" 2>/dev/null || true)" != "$root" ]; then
    make_venv
    printf '%s\n' "$root" >"$venv/.folder"
fi
rm -f "$venv/.ready-run" "$venv/.ready-test" "$venv/.ready-browser" "$venv/.ready-bench"
say "setup: installing Ratelane$extras (once; a minute or two)"
if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-warn-script-location \
    --constraint requirements/constraints.txt --editable ".$extras" >"$venv/setup.log" 2>&1; then
    tail -n 20 "$venv/setup.log" >&2
    fail "pip could not install what requirements/constraints.txt names; all of its words are in $venv/setup.log"
fi
# where Python may not write what it has compiled, every start of a process would compile all of ours again
"$venv/bin/python" -m compileall -q config console models routing tasks || true
printf '%s\n' "$wanted" >"$venv/.ready-$want"
