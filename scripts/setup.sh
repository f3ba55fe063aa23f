#!/usr/bin/env bash
# Makes .venv with all extras and sees to Java. Quick when nothing has changed.
#
#   scripts/setup.sh                  set up
#   scripts/setup.sh --list-pythons   print "version path" of each usable Python, newest first
#   scripts/setup.sh --print-python   print the first of them
#   scripts/setup.sh --check-java     see to Java only
#
# What is missing and comes from Debian is installed as root where that takes no password, and is
# announced before. RECLAIM_NO_ROOT=1 does without: then it only says what is missing.
set -euo pipefail

readonly MIN_MINOR=11
readonly MIN_JAVA=17
readonly BUILD_TOOLS=(hatchling editables setuptools wheel)

say() { printf '%s\n' "$*" >&2; }

die() {
    say "$*"
    exit 1
}

# --- Debian packages ---------------------------------------------------------------------------

# Runs a command as root where that takes no question.
as_root() {
    if [[ "$(id -u)" == 0 ]]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

can_install() {
    [[ -z "${RECLAIM_NO_ROOT:-}" ]] || return 1
    command -v apt-get >/dev/null || return 1
    [[ "$(id -u)" == 0 ]] || sudo -n true >/dev/null 2>&1
}

apt_update() { as_root apt-get update -qq >/dev/null 2>&1; }

apt_install() {
    as_root apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null 2>&1
}

# Says what is about to be installed as root, why, and how to do without.
announce() {
    local why="$1"
    shift
    say "About to install with apt-get, as root: $* ($why)."
    say "To do without, stop this, install it yourself, or set RECLAIM_NO_ROOT=1."
}

# --- Python ------------------------------------------------------------------------------------

# Prints "major minor micro level path", or nothing when this Python cannot make our venv.
# The base executable is named, so that an active venv is never the parent of .venv.
readonly PROBE='
import sys, sysconfig
import ensurepip, venv
v = sys.version_info
if sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED"):
    path = getattr(sys, "_base_executable", None) or sys.executable
    print(v[0], v[1], v[2], v[3], path)
'

candidates() {
    local pyenv="${PYENV_ROOT:-${HOME:-}/.pyenv}"
    local uv="${UV_PYTHON_INSTALL_DIR:-${XDG_DATA_HOME:-${HOME:-}/.local/share}/uv/python}"
    local dirs dir file
    IFS=: read -r -a dirs <<<"$PATH"
    for dir in "${dirs[@]}"; do
        # The shims stand for the versions that are listed below.
        [[ "$dir" == "$pyenv/shims" ]] && continue
        for file in "$dir"/python3.[0-9]* "$dir"/python3; do
            if [[ "$file" =~ /python3(\.[0-9]+)?$ ]]; then printf '%s\n' "$file"; fi
        done
    done
    for file in "$pyenv"/versions/*/bin/python "$uv"/*/bin/python3; do
        printf '%s\n' "$file"
    done
}

# Prints "version path" of each usable Python, newest first; equal ones in the order found.
list_pythons() {
    local file major minor micro level path
    candidates | while read -r file; do
        [[ -x "$file" && ! -d "$file" ]] || continue
        read -r major minor micro level path < <("$file" -c "$PROBE" 2>/dev/null </dev/null) || continue
        [[ "$major" == 3 && "$level" == final ]] || continue
        ((minor >= MIN_MINOR)) || continue
        printf '%s.%s.%s %s\n' "$major" "$minor" "$micro" "$path"
    done | sort -s -t. -k2,2nr -k3,3nr | uniq
}

# Prints the list; where no Python can make a venv, Debian's python3-venv is tried first.
require_pythons() {
    local found
    found="$(list_pythons)"
    if [[ -z "$found" ]] && can_install; then
        announce "no Python here can make a venv" python3 python3-venv
        if apt_update && apt_install python3 python3-venv; then found="$(list_pythons)"; fi
    fi
    [[ -n "$found" ]] ||
        die "Please install Python 3.$MIN_MINOR or newer with its venv module (on Debian: python3 and python3-venv) and run this again."
    printf '%s\n' "$found"
}

# --- Java --------------------------------------------------------------------------------------

# Prints the major version of the Java that Spark would start, or 0.
java_major() {
    local java=java output version
    [[ -z "${JAVA_HOME:-}" ]] || java="$JAVA_HOME/bin/java"
    output="$("$java" -version 2>&1)" || output=""
    if [[ "$output" =~ version\ \"(1\.)?([0-9]+) ]]; then
        version="${BASH_REMATCH[2]}"
    fi
    printf '%s\n' "${version:-0}"
}

java_ok() { (($(java_major) >= MIN_JAVA)); }

ensure_java() {
    local package
    if java_ok; then return; fi
    [[ -z "${JAVA_HOME:-}" ]] ||
        die "Please point JAVA_HOME to Java $MIN_JAVA or newer, or unset it, and run this again."
    if can_install; then
        announce "Spark needs Java $MIN_JAVA or newer" default-jre-headless \
            "or, if that is too old, openjdk-$MIN_JAVA-jre-headless"
        apt_update || true
        # The default of an older Debian can be older than what Spark needs.
        for package in default-jre-headless "openjdk-$MIN_JAVA-jre-headless"; do
            if apt_install "$package" && java_ok; then return; fi
        done
    fi
    die "Please install Java $MIN_JAVA or newer (on Debian: default-jre-headless) and run this again."
}

# --- The venv ----------------------------------------------------------------------------------

# Line 1: the newest Python and the place, since a venv cannot be moved. Line 2: what is installed.
fingerprint() {
    printf '%s %s\n' "$1" "$PWD"
    "$2" - pyproject.toml constraints.txt <<'PY'
import hashlib, pathlib, sys
texts = [pathlib.Path(name).read_bytes() for name in sys.argv[1:]]
print(hashlib.sha256(b"\0".join(texts)).hexdigest())
PY
}

install() {
    local log=.venv/install.log
    local pip=(.venv/bin/python -m pip --disable-pip-version-check install -c constraints.txt)
    say "Installing the build tools ..."
    "${pip[@]}" "${BUILD_TOOLS[@]}" >"$log" 2>&1 || return 1
    say "Installing reclaim with all extras (some minutes the first time) ..."
    # Without isolation the build tools are the pinned ones.
    "${pip[@]}" --no-build-isolation -e '.[all]' >>"$log" 2>&1 || return 1
}

# True when constraints.txt was made on this minor version.
is_locked() {
    local minor="${1%.*}"
    grep -Eq "^# Pythons:.* ${minor//./\\.}( |\$)" constraints.txt
}

ensure_venv() {
    local pythons version python key stamp=""
    pythons="$(require_pythons)"
    read -r version python <<<"$pythons"
    key="$(fingerprint "$version" "$python")"
    if [[ -f .venv/stamp ]] && .venv/bin/python -c '' 2>/dev/null; then stamp="$(<.venv/stamp)"; fi
    if [[ "$stamp" == "$key" ]]; then return; fi

    rm -f .venv/stamp
    if [[ "${stamp%%$'\n'*}" == "${key%%$'\n'*}" ]] && install; then
        finish "$key"
        return
    fi
    while read -r version python <&3; do
        say "Making .venv with Python $version ..."
        rm -rf .venv
        if "$python" -m venv .venv >/dev/null 2>&1; then
            if install; then
                finish "$key"
                return
            fi
            # A Python too new for the pins is no reason to stop; anything else would fail again.
            if is_locked "$version"; then break; fi
        fi
        say "Python $version did not work."
    done 3<<<"$pythons"
    [[ -f .venv/install.log ]] || die "None of the Pythons found could make a venv."
    tail -n 15 .venv/install.log >&2
    die "The set-up failed; the whole log is in .venv/install.log."
}

finish() {
    printf '%s\n' "$1" >.venv/stamp
    say "Ready."
}

main() {
    local pythons python
    cd "$(dirname "${BASH_SOURCE[0]}")/.."
    case "${1:-}" in
    --list-pythons) list_pythons ;;
    --print-python)
        pythons="$(require_pythons)"
        read -r _ python <<<"$pythons"
        printf '%s\n' "$python"
        ;;
    --check-java) ensure_java ;;
    "")
        ensure_java
        ensure_venv
        ;;
    *) die "Unknown option: $1" ;;
    esac
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then main "$@"; fi
