# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Runs what needs GPUs (ctest's tests labelled gpu, tests/gpu/run_gpu.py) and prints one table.

run_gpu.py is called as `run_gpu.py --build-dir DIR --report FILE [options]` and writes FILE: a JSON
list of {"name", "result": "ok" | "FAIL" | "skip", "seconds", "detail"}. A skip counts as a failure:
on a machine with GPUs nothing is skipped. Exit code 0 only when every row is ok and both gave rows.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def row(name, result, seconds=0.0, detail=""):
    return {"name": name, "result": result, "seconds": seconds, "detail": detail}


def rows_of_junit(path):
    """One row for each test in ctest's --output-junit file."""
    rows = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        # GoogleTest's skips are "notrun" for ctest; a disabled test is one that nobody looks at.
        result = {"run": "ok", "fail": "FAIL"}.get(case.get("status"), "skip")
        failure = case.find("failure")
        detail = failure.get("message", "") if failure is not None else ""
        rows.append(row(case.get("name"), result, float(case.get("time", 0)), detail))
    return rows


def run_ctest(build, folder):
    report = folder / "ctest.xml"
    command = ["ctest", "--test-dir", str(build), "-L", "^gpu$", "--output-on-failure"]
    # One after another: each test wants whole GPUs.
    command += ["--no-label-summary", "-j", "1", "--output-junit", str(report)]
    try:
        done = subprocess.run(command, check=False)
    except FileNotFoundError:
        return [row("ctest -L gpu", "FAIL", detail="there is no ctest; it comes with cmake")]
    rows = rows_of_junit(report) if report.exists() else []
    if not rows:
        return [row("ctest -L gpu", "FAIL", detail="ran no test")]
    if done.returncode != 0 and all(one["result"] == "ok" for one in rows):
        rows.append(row("ctest -L gpu", "FAIL", detail=f"exit code {done.returncode}"))
    return rows


def run_script(script, build, folder, options):
    report = folder / "run_gpu.json"
    command = [sys.executable, str(script), "--build-dir", str(build), "--report", str(report)]
    done = subprocess.run(command + options, check=False)
    rows = json.loads(report.read_text(encoding="utf-8")) if report.exists() else []
    if not rows:
        return [row(script.name, "FAIL", detail=f"no rows, exit code {done.returncode}")]
    if done.returncode != 0 and all(one["result"] == "ok" for one in rows):
        rows.append(row(script.name, "FAIL", detail=f"exit code {done.returncode}"))
    return rows


def table(rows):
    """The rows as text, with the count below them."""
    width = max(len(one["name"]) for one in rows)
    lines = [f"{'test':<{width}}  result  seconds  detail"]
    for one in rows:
        seconds, detail = float(one.get("seconds", 0)), one.get("detail", "")
        line = f"{one['name']:<{width}}  {one['result']:<6}  {seconds:7.2f}  {detail}"
        lines.append(line.rstrip())
    good = sum(one["result"] == "ok" for one in rows)
    lines.append(f"{good} of {len(rows)} ok")
    return "\n".join(lines), good == len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build-dir", type=Path, required=True)
    parser.add_argument("--script", type=Path, default=ROOT / "tests" / "gpu" / "run_gpu.py")
    parser.add_argument("options", nargs="*", help="passed on to run_gpu.py")
    arguments = parser.parse_args()
    build = arguments.build_dir.resolve()
    with tempfile.TemporaryDirectory() as folder:
        rows = run_ctest(build, Path(folder))
        rows += run_script(arguments.script, build, Path(folder), arguments.options)
    text, good = table(rows)
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
