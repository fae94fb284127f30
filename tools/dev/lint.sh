#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
# lint.sh ruff|mypy|codespell: checks the Python code, its types, or the spelling of all files (pyproject.toml). The tools are
# installed in build/needs/lint. Exit code 77: they are not, and there is no package index.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly packages=(codespell==2.4.3 mypy==2.4.1 ruff==0.17.6) tools=build/needs/lint

if [[ $(cat "$tools/complete" 2>/dev/null) != "${packages[*]}" ]]; then
  rm -rf "$tools"
  python=$(bash tools/dev/python_with.sh venv,ensurepip)
  "$python" -m venv "$tools"
  pip=("$tools/bin/pip" --quiet --disable-pip-version-check --retries 1)
  "${pip[@]}" download --no-deps --dest "$tools/index" "${packages[0]}" >&2 || {
    echo "skipped: ${packages[*]} are not installed, and there is no package index" >&2
    exit 77
  }
  "${pip[@]}" install "${packages[@]}" >&2
  echo "${packages[*]}" >"$tools/complete"
fi

# Tests, benchmarks and examples beside pyproject.toml: PyTorch, frameworks and pytest are not installed where this runs. Pipes of
# a Popen and matches of a pattern are known to be there; a container is what is put into it.
readonly of_tests=(--python-version 3.11 --ignore-missing-imports --allow-subclassing-any --allow-untyped-decorators
  --disable-error-code union-attr --disable-error-code var-annotated --disable-error-code import-untyped
  --exclude 'torch_rows\.py$|vllm_stand_in')

# Each folder of tests alone: modules of several folders have the same name. torch_rows.py runs tests of tests/torch.
check_types() {
  local folder others
  "$tools/bin/mypy" python/amem python/*.py tools/*.py tools/dev/*.py tools/selftest/*.py
  for folder in * python/tests tests/*; do
    [[ ! $folder =~ ^(python|tools)$ ]] && compgen -G "$folder/*.py" >/dev/null || continue
    others=()
    [[ $folder != tests/torch ]] || others=(tests/gpu/torch_rows.py)
    MYPYPATH=$folder:python/tests "$tools/bin/mypy" "${of_tests[@]}" "$folder" "${others[@]}"
  done
}

case ${1:?ruff, mypy or codespell} in
  ruff) "$tools/bin/ruff" check --quiet . ;;
  mypy) check_types ;;
  codespell) "$tools/bin/codespell" ;;
  *) echo "lint.sh knows ruff, mypy and codespell, not '$1'" >&2 && exit 2 ;;
esac
