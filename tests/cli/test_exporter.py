# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem exporter, against live processes, read by the parser of Prometheus' client and by Prometheus."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import TIMEOUT_S, Amem, assert_sentence
from test_status import MIB, REPLY, memory, process_of_nobody, rank_of, start  # noqa: F401 (a fixture)

parser = pytest.importorskip("prometheus_client.parser")
Start = Callable[..., "subprocess.Popen[str]"]
ALERTS = Path(__file__).resolve().parents[2] / "examples" / "prometheus_alerts.yml"


def exporter(amem: Amem, *arguments: str, **settings: str) -> "subprocess.Popen[str]":
    """`amem exporter` as the wheel's command runs it, with the program of the build folder."""
    package = Path(__file__).resolve().parents[2] / "python"
    code = f"import sys; sys.path.insert(0, {str(package)!r}); import amem_command; amem_command.main({amem.command!r})"
    return subprocess.Popen(
        [sys.executable, "-c", code, "exporter", *arguments], env=amem.variables(PYTHONDONTWRITEBYTECODE="1", **settings), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def once(amem: Amem, *arguments: str, **settings: str) -> dict[str, list[Any]]:
    """The samples of one scrape by name."""
    process = exporter(amem, "--once", *arguments, **settings)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err
    return samples(out)


def samples(text: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.documentation and family.type in ("gauge", "counter")
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def of(pid: int, found: list[Any]) -> list[Any]:
    return [sample for sample in found if sample.labels["pid"] == str(pid)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(amem: Amem) -> Iterator[str]:
    """The address of an exporter."""
    address = f"127.0.0.1:{free_port()}"
    process = exporter(amem, "--listen", address)
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == f"amem: metrics on http://{address}/metrics\n"
        yield address
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)


def test_reports_the_memory_of_each_tag(amem: Amem, start: Start) -> None:  # noqa: F811
    own = [memory("GPU-a", "weights", resident_bytes=3 * MIB), memory("GPU-b", "weights", released_bytes=5 * MIB, saved_bytes=MIB)]
    child = start(json.dumps({**REPLY, "group_name": "train", "memory": own}), RANK="3")

    found = once(amem)

    labels = {"pid": str(child.pid), "rank": "3", "group": "train", "gpu": "GPU-a", "tag": "weights"}
    resident, released = of(child.pid, found["amem_resident_bytes"]), of(child.pid, found["amem_released_bytes"])
    assert [(sample.labels, sample.value) for sample in resident] == [(labels, 3 * MIB), ({**labels, "gpu": "GPU-b"}, 0)]
    assert [sample.value for sample in released] == [0, 5 * MIB]
    assert [sample.value for sample in of(child.pid, found["amem_saved_bytes"])] == [0, MIB]
    states = {sample.labels["tag"]: sample.labels["state"] for sample in of(child.pid, found["amem_tag_state"])}
    assert states == {"nccl": "paused", "weights": "active"}
    assert found["amem_up"][0].value == 1


def test_counts_what_a_job_has_done(amem: Amem, tmp_path: Path) -> None:
    with rank_of(amem, tmp_path) as (rank, order):
        order("tag_malloc weights keep 40000000")
        order("tag_pause")
        order("tag_resume")
        order("tag_pause")

        found = once(amem)

        counts = {name: of(rank.pid, found[f"amem_{name}_total"])[0].value for name in ("pauses", "resumes", "failed_pauses")}
        assert counts == {"pauses": 2, "resumes": 1, "failed_pauses": 0}
        assert of(rank.pid, found["amem_last_pause_seconds"])[0].value > 0
        assert of(rank.pid, found["amem_last_error_timestamp_seconds"])[0].value == 0


def test_process_that_does_not_answer_is_reported(amem: Amem, start: Start) -> None:  # noqa: F811
    mute = start()

    found = once(amem)

    assert [sample.value for sample in of(mute.pid, found["amem_process_silent"])] == [1]
    assert found["amem_up"][0].value == 1


def test_shows_the_gpus(amem: Amem, start: Start) -> None:  # noqa: F811
    child = start(json.dumps(REPLY))

    found = once(amem, LD_LIBRARY_PATH=str(amem.folder / "tests" / "fake_nvml"), AMEM_TEST_NVML_PIDS=str(child.pid))

    gpus = {sample.labels["gpu"]: sample for sample in found["amem_gpu_used_bytes"]}
    assert gpus["GPU-12345678-1"].labels["index"] == "7" and gpus["GPU-12345678-1"].value == 2 << 30


def test_root_sees_the_processes_of_another_user(amem: Amem) -> None:
    with process_of_nobody(amem) as (child, _):
        assert of(child.pid, once(amem, "--user", "nobody")["amem_process_info"])
        assert not of(child.pid, once(amem).get("amem_process_info", []))
    process = exporter(amem, "--once", "--user", "nosuch")
    assert process.communicate(timeout=TIMEOUT_S)[1] == "amem: amem status has failed: amem: there is no user nosuch\n"
    assert process.returncode == 1


def test_status_that_fails_is_a_metric(amem: Amem, tmp_path: Path) -> None:
    broken = tmp_path / "amem"
    broken.write_text("#!/bin/sh\necho 'no such thing' >&2; exit 1\n")
    broken.chmod(0o755)
    amem.command = str(broken)

    process = exporter(amem, "--once")
    out, err = process.communicate(timeout=TIMEOUT_S)

    assert (process.returncode, samples(out)["amem_up"][0].value) == (1, 0)
    assert err == "amem: amem status has failed: no such thing\n"


@pytest.mark.parametrize("text", ["[]", '{"processes": 5}', '{"processes": [{}], "gpus": [], "silent": []}'])
def test_status_that_cannot_be_read_is_a_metric(amem: Amem, tmp_path: Path, text: str) -> None:
    odd = tmp_path / "amem"
    odd.write_text(f"#!/bin/sh\necho '{text}'\n")
    odd.chmod(0o755)
    amem.command = str(odd)

    process = exporter(amem, "--once")
    out, err = process.communicate(timeout=TIMEOUT_S)

    assert (process.returncode, samples(out)["amem_up"][0].value, err.count("\n")) == (1, 0, 1)


def test_processes_with_the_same_labels_are_one(amem: Amem, tmp_path: Path) -> None:
    twice = tmp_path / "amem"
    status = {"processes": [], "gpus": [], "silent": [{"pid": 0, "reason": "a"}, {"pid": 0, "reason": "b"}]}
    twice.write_text(f"#!/bin/sh\necho '{json.dumps(status)}'\n")
    twice.chmod(0o755)
    amem.command = str(twice)

    assert [sample.labels["pid"] for sample in once(amem)["amem_process_silent"]] == ["0"]


def test_serves_until_it_is_ended(amem: Amem, start: Start) -> None:  # noqa: F811
    child = start(json.dumps(REPLY))
    with serving(amem) as address:
        for _ in range(2):
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=TIMEOUT_S) as answer:
                assert of(child.pid, samples(answer.read().decode())["amem_process_info"])


def test_port_in_use_is_one_sentence(amem: Amem) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = exporter(amem, "--listen", f"127.0.0.1:{port}")
        _, err = process.communicate(timeout=TIMEOUT_S)

    assert (process.returncode, err) == (1, f"amem: amem exporter cannot listen on 127.0.0.1:{port}: Address already in use; --listen names another address\n")


@pytest.mark.parametrize("address", ["9436", "host:", ":0", ":70000", ":http"])
def test_wrong_address_is_refused(amem: Amem, address: str) -> None:
    process = exporter(amem, "--listen", address)
    _, err = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 2 and f"{address} is not an address with a port" in err


def test_command_without_python_says_where_the_exporter_is(amem: Amem) -> None:
    assert_sentence(amem("exporter"), 127, "pip install 'amem[exporter]'")


def prometheus_answer(address: str, query: str) -> list[Any]:
    with urllib.request.urlopen(f"http://{address}/api/v1/query?query={query}", timeout=TIMEOUT_S) as answer:
        return list(json.load(answer)["data"]["result"])


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_prometheus_scrapes_it_and_the_alerts_are_valid(amem: Amem, start: Start, tmp_path: Path) -> None:  # noqa: F811
    child = start(json.dumps(REPLY))
    own = f"127.0.0.1:{free_port()}"
    with serving(amem) as address:
        scrape = {"job_name": "amem", "scrape_interval": "500ms", "scrape_timeout": "500ms", "static_configs": [{"targets": [address]}]}
        settings = tmp_path / "prometheus.yml"
        settings.write_text(json.dumps({"scrape_configs": [scrape], "rule_files": [str(ALERTS)]}))  # JSON is YAML
        command = ["prometheus", f"--config.file={settings}", f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address={own}"]
        with open(tmp_path / "log", "w", encoding="utf-8") as log, subprocess.Popen(command, stderr=log, env={**os.environ, "GOMAXPROCS": "1"}) as server:
            try:
                deadline, result = time.monotonic() + TIMEOUT_S, []
                while not result and time.monotonic() < deadline and server.poll() is None:
                    try:
                        result = prometheus_answer(own, f'amem_resident_bytes{{pid="{child.pid}"}}')
                    except OSError:
                        time.sleep(0.1)  # allow: between two looks, under a deadline
                with urllib.request.urlopen(f"http://{own}/api/v1/rules", timeout=TIMEOUT_S) as answer:
                    rules = [rule["name"] for group in json.load(answer)["data"]["groups"] for rule in group["rules"]]
            finally:
                server.terminate()
    assert [float(sample["value"][1]) for sample in result] == [3 * MIB / 2], (tmp_path / "log").read_text()
    assert rules == ["AmemPauseOrResumeFailed", "AmemProcessDoesNotAnswer"]
    if shutil.which("promtool"):
        subprocess.run(["promtool", "check", "rules", str(ALERTS)], check=True)
