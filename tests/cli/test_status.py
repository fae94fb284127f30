# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem status, against live processes."""

import contextlib
import csv
import json
import os
import pty
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import TIMEOUT_S, Amem, assert_sentence

MIB = 1 << 20



def memory(gpu: str, tag: str, **sizes: int) -> dict[str, str | int]:
    return {"gpu": gpu, "tag": tag, "resident_bytes": 0, "released_bytes": 0, "saved_bytes": 0, "fixed_bytes": 0, "disk_bytes": 0, **sizes}


REPLY = {
    "pid": 1,  # the kernel knows better
    "group": 2,
    "state": "mixed",
    "tags": {"nccl": {"state": "paused"}, "weights": {"state": "active"}},
    "memory": [memory("GPU-12345678-1", "nccl", resident_bytes=3 * MIB // 2, released_bytes=5 << 30, saved_bytes=512)],
    "persistent": {},
}


@pytest.fixture
def start(amem: Amem) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a process that answers with this text, or never."""
    with contextlib.ExitStack() as stack:

        def start_one(*reply: str, **settings: str) -> subprocess.Popen[str]:
            child = subprocess.Popen(
                [amem.folder / "tests" / "cli_status_peer", *reply],
                env=amem.variables(**settings),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(end, child)
            assert child.stdout.readline() == "ready\n"
            return child

        yield start_one


def end(child: subprocess.Popen[str]) -> None:
    child.send_signal(signal.SIGCONT)
    child.stdin.close()
    child.wait(TIMEOUT_S)
    child.stdout.close()


def rows(amem: Amem, *pids: object, **settings: str) -> list[str]:
    """The lines of the table that are about these processes: others of this user may be there too."""
    done = amem("status", **settings)
    assert done.returncode in (0, 3) and done.stderr == ""
    lines = done.stdout.splitlines()
    return [line for line in lines if set(map(str, pids)) & set(line.split())]


def listed(amem: Amem, *pids: int) -> list[list[Any]]:
    done = amem("status", "--json")
    assert done.returncode in (0, 3) and done.stderr == ""
    found = json.loads(done.stdout)
    return [[row for row in found[name] if row["pid"] in pids] for name in ("processes", "silent")]


def test_shows_a_live_process(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    child = start(json.dumps(REPLY))

    (row,) = rows(amem, child.pid)
    assert row.split()[:7] == ["GPU-12345678", str(child.pid), "-", "2", "nccl", "paused", "1.5"]
    assert row.split()[7:16] == ["MiB", "5.0", "GiB", "512", "B", "0", "B", "0", "B"]
    assert row.split()[16].endswith("cli_status_peer")
    ((reply,), silent) = listed(amem, child.pid)
    assert {name: reply[name] for name in REPLY} == {**REPLY, "pid": child.pid}
    assert (reply["rank"], silent) == ("-", [])
    assert reply["command"].split()[0].endswith("cli_status_peer")


@pytest.mark.parametrize("name", ["RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"])
def test_shows_the_rank_of_the_launcher(amem: Amem, start: Callable[..., subprocess.Popen[str]], name: str) -> None:
    child = start(json.dumps(REPLY), **{name: "5"})

    assert rows(amem, child.pid)[0].split()[2] == "5"


def test_shows_the_name_of_the_group(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    child = start(json.dumps({**REPLY, "group_name": "train"}))

    assert rows(amem, child.pid)[0].split()[3] == "train"


def test_rows_are_by_gpu_and_tag(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    own = [memory("GPU-b", "nccl"), memory("GPU-b", "weights"), memory("GPU-a", "weights")]
    children = [start(json.dumps({**REPLY, "memory": own})) for _ in range(2)]

    table = [row.split() for row in rows(amem, *(child.pid for child in children))]
    first, second = sorted(str(child.pid) for child in children)

    assert [row[:2] + row[4:6] for row in table] == [
        ["GPU-a", first, "weights", "active"],
        ["GPU-a", second, "weights", "active"],
        ["GPU-b", first, "nccl", "paused"],
        ["GPU-b", first, "weights", "active"],
        ["GPU-b", second, "nccl", "paused"],
        ["GPU-b", second, "weights", "active"],
    ]


def test_says_what_is_never_released_and_why(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    child = start(json.dumps({**REPLY, "memory": [], "persistent": {"registered with a NIC": MIB}, "context_bytes": MIB}))

    table, *remarks = rows(amem, child.pid, f"{child.pid}:")
    assert table.split()[:1] + table.split()[4:7] == ["-", "-", "mixed", "-"]
    assert remarks == [
        f"pid {child.pid}: 1.0 MiB never released: registered with a NIC",
        f"pid {child.pid}: 1.0 MiB of local memory of CUDA contexts returned",
    ]


def test_says_how_much_host_memory_is_used(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    host = {"host_used_bytes": 3 * MIB, "host_borrowed_bytes": MIB, "host_idle_bytes": 2 * MIB}
    child = start(json.dumps({**REPLY, **host}))

    assert rows(amem, f"{child.pid}:") == [f"pid {child.pid}: host memory: 3.0 MiB in use, of which 1.0 MiB borrowed; 2.0 MiB idle"]


def test_shows_the_memory_in_use_of_the_gpus(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    child, stranger = start(json.dumps(REPLY)), os.getpid()
    nvml = {"LD_LIBRARY_PATH": str(amem.folder / "tests" / "fake_nvml"), "AMEM_TEST_NVML_PIDS": f"{child.pid},{stranger}"}

    done = amem("status", "--pid", child.pid, **nvml)

    assert done.stdout.splitlines()[2:] == ["GPU 7: 4.0 GiB of 80.0 GiB in use"]
    found = json.loads(amem("status", "--json", "--pid", child.pid, **nvml).stdout)
    assert found["schema"] == 1 and abs(found["time"] - time.time()) < TIMEOUT_S
    ((gpu,), (process,)) = (found["gpus"], found["processes"])
    assert (gpu["name"], gpu["model"], gpu["total_bytes"], gpu["used_bytes"], process["pid"]) == ("7", "NVIDIA H200", 80 << 30, 4 << 30, child.pid)
    assert gpu["processes"] == [{"pid": pid, "bytes": 2 << 30} for pid in (child.pid, stranger)]


def on_terminal(amem: Amem, *arguments: object, **settings: str) -> str:
    """What the command writes to a terminal."""
    ours, its = pty.openpty()
    with open(ours, "rb", buffering=0) as screen:
        process = subprocess.Popen([amem.command, *map(str, arguments)], env=amem.variables(**settings), stdin=subprocess.DEVNULL, stdout=its)
        os.close(its)
        shown = b""
        with contextlib.suppress(OSError):  # EIO: the command has ended
            while part := screen.read(4096):
                shown += part
        process.wait(TIMEOUT_S)
    return shown.decode()


def test_what_is_not_active_has_a_color_on_a_terminal(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    own = [memory("GPU-12345678-1", tag) for tag in ("nccl", "weights")]
    child = start(json.dumps({**REPLY, "memory": own}))

    shown = on_terminal(amem, "status", "--pid", child.pid, TERM="xterm")

    assert "\x1b[33mpaused\x1b[0m" in shown and "active" in shown and shown.count("\x1b[") == 2
    plain = on_terminal(amem, "status", "--pid", child.pid, TERM="xterm", NO_COLOR="1")
    assert "\x1b" not in plain and shown.replace("\x1b[33m", "").replace("\x1b[0m", "") == plain
    assert "\x1b" not in amem("status", "--pid", child.pid).stdout
    assert on_terminal(amem, "status", "--pid", child.pid, TERM="dumb") == plain


def test_exit_code_counts_a_reply_that_cannot_be_read(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    child = start('{"tags": "')

    for options in ([], ["--csv"], ["--json"]):
        assert amem("status", "--pid", child.pid, *options).returncode == 3


def test_a_process_without_amem_is_named(amem: Amem) -> None:
    assert_sentence(amem("status", "--pid", os.getpid()), 1, f"process {os.getpid()} does not run amem: start it with amem run")
    assert_sentence(amem("status", "--pid", 1 << 30), 1, f"there is no process {1 << 30}")


@pytest.mark.parametrize("option", ["--user", "--watch"])
def test_refuses_an_empty_argument(amem: Amem, option: str) -> None:
    for typed in ([f"{option}="], [option, ""]):
        assert amem("status", *typed).returncode == 2


@pytest.mark.parametrize("typed", ["x", "0", "-1", "1.5", "99999999999"])
def test_refuses_what_is_no_pid(amem: Amem, typed: str) -> None:
    assert_sentence(amem("status", f"--pid={typed}"), 2, f"--pid: {typed} is not the number of a process")


def test_command_with_line_feeds_stays_in_its_row(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    child = start("\n\t" + json.dumps(REPLY))

    _, row = amem("status", "--pid", child.pid).stdout.splitlines()
    assert "\t" not in row and "cli_status_peer   {" in row


def test_csv_has_a_row_for_each_tag_of_a_gpu(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    own = [memory("GPU-12345678-b", "weights", released_bytes=5 << 30), memory("GPU-12345678-a", "a tag, with a comma")]
    child, empty = start(json.dumps({**REPLY, "memory": own})), start(json.dumps({**REPLY, "memory": []}))

    done = amem("status", "--csv")

    found = [row for row in csv.DictReader(done.stdout.splitlines()) if row["pid"] in (str(child.pid), str(empty.pid))]
    assert [row["pid"] for row in found] == [str(empty.pid), str(child.pid), str(child.pid)]
    assert [row["gpu"] for row in found] == ["", "GPU-12345678-a", "GPU-12345678-b"]
    assert found[1]["tag"] == "a tag, with a comma"
    sizes = {name: size for name, size in own[0].items() if name.endswith("_bytes")}
    assert {name: int(found[2][name]) for name in sizes} == sizes
    assert found[2]["state"] == "active" and found[2]["rank"] == "" and found[2]["command"].split()[0].endswith("cli_status_peer")
    assert_sentence(amem("status", "--json", "--csv"), 2, "--json excludes --csv")


@contextlib.contextmanager
def process_of_nobody(amem: Amem) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """It answers with REPLY; and a folder that its user may enter."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(amem.folder / "tests" / "cli_status_peer", folder)
        command = [program, json.dumps(REPLY)]
        child = subprocess.Popen(command, user="nobody", group="nogroup", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert child.stdout.readline() == "ready\n"
            yield child, folder
        finally:
            end(child)


def test_root_sees_the_processes_of_another_user(amem: Amem) -> None:
    with process_of_nobody(amem) as (child, folder):
        assert str(child.pid) not in amem("status").stdout.split()
        assert str(child.pid) in amem("status", "--user", "nobody").stdout.split()
        command = [shutil.copy(amem.command, folder), "status", "--user", "root"]
        assert_sentence(subprocess.run(command, user="nobody", capture_output=True, text=True), 1, "the processes of user root cannot be seen: only root can")
        assert str(child.pid) in amem("status", "--user", "65534").stdout.split()
    assert_sentence(amem("status", "--user", "nosuch"), 2, "there is no user nosuch")


def test_exit_code_says_that_a_process_has_not_answered(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    mute, alive = start(), start(json.dumps(REPLY))

    assert amem("status", "--pid", alive.pid).returncode == 0
    done = amem("status", "--pid", mute.pid)
    assert (done.returncode, done.stdout) == (3, f"pid {mute.pid} did not answer: no reply within 2000 ms\n")


def test_watching_as_json_is_an_object_in_each_line(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    child = start(json.dumps(REPLY))
    watch = subprocess.Popen([amem.command, "status", "--json", "--watch", "0.1", "--pid", str(child.pid)], stdout=subprocess.PIPE, text=True)
    try:
        lines = [json.loads(watch.stdout.readline()) for _ in range(3)]
    finally:
        watch.send_signal(signal.SIGINT)
        watch.wait(TIMEOUT_S)
        watch.stdout.close()
    assert [line["processes"][0]["pid"] for line in lines] == [child.pid] * 3
    assert lines[0]["time"] < lines[2]["time"]


def test_counts_pauses_and_failures(amem: Amem, tmp_path: Path) -> None:
    with rank_of(amem, tmp_path, AMEM_SIM_MEMORY_MB="64") as (rank, order):
        order("tag_malloc weights keep 40000000")
        for _ in range(2):
            order("tag_pause")
            order("tag_resume")
        order("tag_pause")
        order("tag_malloc other keep 40000000")
        rank.stdin.write("tag_resume weights\n")
        rank.stdin.flush()
        assert "CUDA_ERROR_OUT_OF_MEMORY" in rank.stdout.readline()

        (((reply,), _)) = listed(amem, rank.pid)

        counters = reply["counters"]
        assert [counters[name] for name in ("pauses", "resumes", "failed_pauses", "failed_resumes")] == [3, 2, 0, 1]
        assert counters["last_pause_bytes"] >= counters["last_resume_bytes"] >= 40000000
        assert all(abs(counters[f"last_{call}_time"] - time.time()) < TIMEOUT_S for call in ("pause", "resume"))
        assert counters["copied_bytes"] == 0 and counters["last_pause_seconds"] > 0 < counters["last_resume_seconds"]
        assert "CUDA_ERROR_OUT_OF_MEMORY" in counters["last_error"]
        assert abs(counters["last_error_time"] - time.time()) < TIMEOUT_S


def test_json_is_as_its_schema_says(amem: Amem, tmp_path: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(__file__).parents[2] / "docs" / "reference" / "status.schema.json").read_text())
    mute = start()
    with rank_of(amem, tmp_path) as (rank, order):
        order("tag_malloc weights keep 40000000")
        order("tag_pause")
        nvml = {"LD_LIBRARY_PATH": str(amem.folder / "tests" / "fake_nvml"), "AMEM_TEST_NVML_PIDS": str(rank.pid)}
        found = json.loads(amem("status", "--json", **nvml).stdout)

    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(found)
    assert found["gpus"] and mute.pid in [silent["pid"] for silent in found["silent"]]
    (process,) = [process for process in found["processes"] if process["pid"] == rank.pid]
    memory_fields = set(schema["$defs"]["memory"]["properties"])
    assert set(process) == memory_fields | set(schema["$defs"]["process"]["properties"])
    assert set(process["memory"][0]) == memory_fields | {"gpu", "tag"}
    assert set(process["tags"]["weights"]) == memory_fields | {"state"}
    del process["counters"]["pauses"]
    assert not validator.is_valid(found)


def test_watches_until_interrupted(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    child = start(json.dumps(REPLY))
    watch = subprocess.Popen([amem.command, "status", "--watch", "0.1"], stdout=subprocess.PIPE, text=True)
    try:
        seen = 0
        while seen < 3:
            line = watch.stdout.readline()
            assert line != ""
            seen += str(child.pid) in line.split()
    finally:
        watch.send_signal(signal.SIGINT)
        watch.wait(TIMEOUT_S)
        watch.stdout.close()


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "1e300", "nan"])
def test_refuses_to_watch_without_an_interval(amem: Amem, seconds: str) -> None:
    done = amem("status", f"--watch={seconds}")

    assert (done.returncode, done.stdout) == (2, "")
    assert f"{seconds} is not a number of seconds greater than 0 and at most 86400 (see amem status --help)" in done.stderr


def test_process_with_tagged_memory_only(amem: Amem, tmp_path: Path) -> None:
    """A rank on the simulated GPU, without a communicator."""
    simulated = {"LD_LIBRARY_PATH": str(amem.folder / "sim"), "AMEM_SIM_DIR": str(tmp_path)}
    variables = amem.variables(AMEM_ENABLE="1", **simulated)
    rank = subprocess.Popen(
        [amem.folder / "bin" / "amem_rank"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
    )
    try:
        for order in ("device 1", f"tag_malloc kv_cache discard {4 * MIB}", "tag_pause kv_cache"):
            rank.stdin.write(order + "\n")
            rank.stdin.flush()
            assert rank.stdout.readline().startswith("ok")
        (row,) = rows(amem, rank.pid, **simulated)
        assert row.split()[0] == "1"  # as nvidia-smi counts
        assert row.split()[4:6] == ["kv_cache", "paused"]
        assert row.split()[6:10] == ["0", "B", "4.0", "MiB"]
    finally:
        end(rank)


def descriptors_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@contextlib.contextmanager
def rank_of(amem: Amem, tmp_path: Path, **settings: str) -> Iterator[tuple[subprocess.Popen[str], Callable[[str], None]]]:
    """A rank on the simulated GPU, without a communicator, and a function that gives it orders."""
    simulated = {"LD_LIBRARY_PATH": str(amem.folder / "sim"), "AMEM_SIM_DIR": str(tmp_path)}
    with open(tmp_path / "log", "w") as log:
        rank = subprocess.Popen(
            [amem.folder / "bin" / "amem_rank"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            env=amem.variables(AMEM_ENABLE="1", **simulated, **settings)
        )

    def order(text: str) -> None:
        rank.stdin.write(text + "\n")
        rank.stdin.flush()
        assert rank.stdout.readline().startswith("ok")

    try:
        order("device 0")
        yield rank, order
    finally:
        end(rank)


@pytest.mark.parametrize("tags", [10, 60, 75, 300])
def test_shows_every_tag_of_a_process(amem: Amem, tmp_path: Path, tags: int) -> None:
    with rank_of(amem, tmp_path, AMEM_SIM_MEMORY_MB="2048") as (rank, order):
        for tag in range(tags):
            order(f"tag_malloc {'tag_%d_' % tag:x<60} discard 1")

        ((reply,), silent) = listed(amem, rank.pid)

        assert silent == []
        assert len(reply["memory"]) == tags
        assert len([name for name in reply["tags"] if name.startswith("tag_")]) == tags
        assert len(rows(amem, rank.pid)) == tags
    assert (tmp_path / "log").read_text().count("ERROR") == 0


def test_watching_takes_nothing_from_a_process(amem: Amem, tmp_path: Path) -> None:
    with rank_of(amem, tmp_path) as (rank, order):
        order("tag_malloc weights discard 1")
        assert len(rows(amem, rank.pid)) == 1
        before = descriptors_of(rank.pid)
        watch = subprocess.Popen([amem.command, "status", "--watch", "0.01"], stdout=subprocess.PIPE, text=True)
        try:
            for _ in range(50):
                while str(rank.pid) not in watch.stdout.readline().split():
                    pass
            deadline = time.monotonic() + TIMEOUT_S
            while descriptors_of(rank.pid) > before + 1 and time.monotonic() < deadline:
                pass
            assert descriptors_of(rank.pid) <= before + 1  # the query that runs
        finally:
            watch.send_signal(signal.SIGINT)
            watch.wait(TIMEOUT_S)
            watch.stdout.close()


def test_process_that_ended_is_gone(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    child = start(json.dumps(REPLY))
    end(child)

    assert rows(amem, child.pid) == []


def test_several_processes_come_by_pid(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    children = [start(json.dumps({**REPLY, "group": group})) for group in range(3)]
    pids = sorted(child.pid for child in children)

    assert [int(row.split()[1]) for row in rows(amem, *pids)] == pids


def test_mute_processes_are_named_and_cost_two_seconds_together(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    mute, stopped, alive = start(), start(json.dumps(REPLY)), start(json.dumps(REPLY))
    os.kill(stopped.pid, signal.SIGSTOP)
    began = time.monotonic()

    answered, silent = listed(amem, mute.pid, stopped.pid, alive.pid)

    assert time.monotonic() - began < 15
    assert [row["pid"] for row in answered] == [alive.pid]
    assert sorted(row["pid"] for row in silent) == sorted([mute.pid, stopped.pid])
    assert all(row["reason"] for row in silent)
    (line,) = [row for row in rows(amem, mute.pid, stopped.pid) if f"pid {mute.pid} " in row]
    assert "did not answer" in line


@pytest.mark.parametrize(
    "reply",
    ["", "no json", "[1]", '{"state": 5}', '{"group": "x", "state": "paused"}', json.dumps({**REPLY, "group_name": 5})] + [
        json.dumps({**REPLY, name: 5}) for name in ("tags", "memory", "persistent")
    ] + [json.dumps({**REPLY, "memory": [{"gpu": "GPU-1"}]})],
)
def test_reply_that_cannot_be_read_is_named(amem: Amem, start: Callable[..., subprocess.Popen[str]], reply: str) -> None:
    child = start(reply)

    answered, silent = listed(amem, child.pid)

    assert answered == []
    assert [row["pid"] for row in silent] == [child.pid]


def test_two_commands_at_once_do_not_see_each_other(amem: Amem, start: Callable[..., subprocess.Popen[str]]) -> None:
    child = start(json.dumps(REPLY))
    commands = [
        subprocess.Popen([amem.command, "status", "--json"], stdout=subprocess.PIPE, text=True) for _ in range(8)
    ]

    outputs = [json.loads(command.communicate(timeout=TIMEOUT_S)[0]) for command in commands]

    own = {command.pid for command in commands}
    for found in outputs:
        assert child.pid in [row["pid"] for row in found["processes"]]
        assert not own & {row["pid"] for row in found["processes"] + found["silent"]}
