# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem top: its keys by Textual's pilot, and on terminals of tmux over processes on the simulated GPU."""

import asyncio
import contextlib
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import TIMEOUT_S, Amem, assert_sentence
from test_status import MIB, memory, process_of_nobody, rank_of, start  # noqa: F401 (a fixture)

SOURCE = Path(os.environ["AMEM_TEST_SOURCE"])
NEEDS = SOURCE / "build" / "needs" / "top"
PACKAGE = SOURCE / "python"
sys.path += [str(NEEDS), str(PACKAGE)]
pytest.importorskip("textual", reason="Textual is not installed, and there is no package index")
amem_top: Any = importlib.import_module("amem_top")


def process(pid: int, *tags: dict[str, Any], group: str = "train", **others: Any) -> dict[str, Any]:
    done = {"pauses": 2, "resumes": 1, "failed_pauses": 0, "failed_resumes": 1, "last_pause_seconds": 0.25, "last_resume_seconds": 0.5,
            "last_pause_time": 1.7e9, "last_pause_bytes": 3 * MIB, "last_resume_time": 0, "last_resume_bytes": 0,
            "last_error_time": 1.7e9, "last_error": "no [memory"}
    states = {each["tag"]: {"state": "paused" if each["released_bytes"] else "active"} for each in tags}
    return {"pid": pid, "rank": "3", "group": 0, "group_name": group, "command": f"python {pid}.py", "state": "active", "counters": done,
            "tags": states, "memory": list(tags), "persistent": {}, **others}


def status(*processes: dict[str, Any], silent: tuple[dict[str, Any], ...] = (), used: int = 20 << 30) -> dict[str, Any]:
    gpus = [{"gpu": f"GPU-{name}", "name": name, "model": "NVIDIA H200", "total_bytes": 80 << 30, "used_bytes": used, "processes": []} for name in ("9", "10")]
    return {"schema": 1, "time": 1.7e9, "gpus": gpus, "processes": list(processes), "silent": list(silent)}


TRAINER = process(101, memory("GPU-9", "weights", resident_bytes=3 * MIB), memory("GPU-10", "kv_cache", released_bytes=9 * MIB, saved_bytes=MIB))
ENGINE = process(4000, memory("GPU-9", "weights", resident_bytes=5 * MIB), group="infer")
MUTE = {"pid": 77, "reason": "no reply within 2000 ms"}


class Live:
    """The program `amem top` under the pilot, over a program `amem` that says what a test orders."""

    def __init__(self, folder: Path, which: tuple[str, ...]) -> None:
        self.folder = folder
        program = folder / "amem"
        # The status comes through a pipe; pause and resume note their arguments and end as the test says.
        program.write_text(f'#!/bin/sh\ncase $1 in status) exec cat {folder}/lines ;; esac\necho "$@" >>{folder}/called\n. {folder}/answer\n')
        program.chmod(0o755)
        os.mkfifo(folder / "lines")
        self.answers("echo 'process 4000: 18432 MiB released in 0.342 s'")
        self.child = subprocess.Popen([program, "status"], **amem_top.PIPES)
        self.lines = open(folder / "lines", "w", encoding="utf-8")  # noqa: SIM115 (live() closes it)
        self.top = amem_top.Top(str(program), self.child, which)
        self.pilot: Any = None

    def answers(self, shell: str) -> None:
        (self.folder / "answer").write_text(shell)

    def called(self) -> list[str]:
        file = self.folder / "called"
        return file.read_text().splitlines() if file.exists() else []

    async def says(self, text: dict[str, Any] | str) -> None:
        before = self.top.rows
        self.lines.write((text if isinstance(text, str) else json.dumps(text)) + "\n")
        self.lines.flush()
        await self.until(lambda: self.top.rows is not before or self.top.problem)

    async def until(self, holds: Callable[[], Any]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not holds():
            assert time.monotonic() < deadline
            await self.pilot.pause(0.01)
        await self.pilot.pause()

    def text(self, name: str) -> str:
        return str(self.top.query_one("#" + name).content)

    def table(self) -> Any:
        return self.top.query_one(amem_top.Table)

    def rows(self) -> list[tuple[int, str]]:
        return [(row.pid, row.tag) for row in self.table().rows]

    def seen(self) -> list[str]:
        return ["".join(segment.text for segment in self.table().render_line(y)).rstrip() for y in range(self.table().size.height)]


def live(tmp_path: Path, scenario: Callable[[Live], Any], size: tuple[int, int] = (80, 24), which: tuple[str, ...] = ()) -> Live:
    """Runs the steps of a test."""

    async def run() -> Live:
        one = Live(tmp_path, which)
        async with one.top.run_test(size=size) as one.pilot:
            await scenario(one)
        return one

    one = asyncio.run(run())
    one.lines.close()
    assert one.child.wait(TIMEOUT_S) is not None  # it ends with the program
    for stream in (one.child.stdout, one.child.stderr):
        stream.close()
    return one


def test_shows_gpus_tags_and_what_a_process_has_done(tmp_path: Path) -> None:
    async def steps(one: Live) -> None:
        await one.says(status(TRAINER, ENGINE, silent=(MUTE,)))
        assert one.text("gpus").splitlines()[1] == "9     20.0 GiB   60.0 GiB   80.0 GiB  NVIDIA H200"
        assert one.text("state").endswith("3 processes, 4 of 4 rows")
        assert one.seen()[:4] == [
            "  -  77      -        -                silent          0 B        0 B        0 B",
            "  9  101     train    weights          active      3.0 MiB        0 B        0 B",
            "  9  4000    infer    weights          active      5.0 MiB        0 B        0 B",
            " 10  101     train    kv_cache         paused          0 B    9.0 MiB    1.0 MiB",
        ]
        assert one.text("details") == "pid 77 no reply within 2000 ms"
        await one.pilot.press("down")
        at = time.strftime("%H:%M:%S", time.localtime(1.7e9))
        assert one.text("details").splitlines() == [
            "pid 101 rank 3: python 101.py", f"pauses: 2, failed: 0; last: {at}, 0.250 s, 3.0 MiB", "resumes: 1, failed: 1", f"error {at}: no [memory"
        ]

    live(tmp_path, steps)


@pytest.mark.parametrize("width, titles", [(40, "pid     tag          state      resident"), (80, "GPU▲ pid     group    tag              state      resident   released    on host"), (60, "pid     tag        state      resident   released    on host")])
def test_columns_fit_the_terminal(tmp_path: Path, width: int, titles: str) -> None:
    async def steps(one: Live) -> None:
        await one.says(status(TRAINER))
        assert one.text("titles") == titles
        assert all(len(line) <= width for line in one.seen()) and "weights" in one.seen()[0]

    live(tmp_path, steps, (width, 24))


def test_sorts(tmp_path: Path) -> None:
    async def steps(one: Live) -> None:
        await one.says(status(TRAINER, ENGINE))
        orders = []
        for key in ("s", "s", "S", "s", "s", "s"):
            await one.pilot.press(key)
            orders.append((one.text("titles").split("▲")[0].split("▼")[0].split()[-1], [row.pid for row in one.table().rows]))
        assert orders == [
            ("pid", [101, 101, 4000]), ("group", [4000, 101, 101]), ("group", [101, 101, 4000]),
            ("tag", [101, 101, 4000]), ("state", [101, 4000, 101]), ("resident", [4000, 101, 101])
        ]
        for _ in range(3):
            await one.pilot.press("s")
        assert "GPU▲" in one.text("titles")

    live(tmp_path, steps)


@pytest.mark.parametrize("typed, found", [("tag:kv", [101]), ("pid:40", [4000]), ("group:train", [101, 101]), ("name:101.py", [101, 101]), ("INFER weights", [4000]), ("tag:101", [])])
def test_filters(tmp_path: Path, typed: str, found: list[int]) -> None:
    async def steps(one: Live) -> None:
        await one.says(status(TRAINER, ENGINE))
        await one.pilot.press("slash", *({" ": "space", ":": "colon", ".": "full_stop", "_": "underscore"}.get(key, key) for key in typed), "enter")
        assert [row.pid for row in one.table().rows] == found
        assert one.text("state").endswith(f" {len(found)} of 3 rows")
        await one.says(status(TRAINER))  # it stays
        assert len(one.table().rows) == len([pid for pid in found if pid == 101])
        await one.pilot.press("escape")
        assert len(one.table().rows) == 2 and one.table().has_focus

    live(tmp_path, steps)


def test_the_selected_row_stays_selected_and_a_job_that_ends_vanishes(tmp_path: Path) -> None:
    async def steps(one: Live) -> None:
        await one.says(status(TRAINER, ENGINE))
        await one.pilot.press("down")
        assert one.table().selected()[0].pid == 4000
        await one.says(status(process(1, memory("GPU-9", "a")), TRAINER, ENGINE))
        assert one.table().selected()[0].pid == 4000 and one.table().at == 2
        await one.says(status(TRAINER))
        assert one.rows() == [(101, "weights"), (101, "kv_cache")] and one.table().selected()
        await one.says(status())
        assert (one.rows(), one.text("details")) == ([], "")
        await one.pilot.press("p", "down", "end", "home")

    live(tmp_path, steps)


@pytest.mark.parametrize("key, what, command", [("p", "pause weights of", "pause --pid 4000 --tag weights"), ("r", "resume", "resume --pid 4000")])
def test_asks_before_it_pauses_or_resumes(tmp_path: Path, key: str, what: str, command: str) -> None:
    async def steps(one: Live) -> None:
        await one.says(status(TRAINER, ENGINE))
        await one.pilot.press("down", key)
        question = str(one.top.screen.query_one("Static").content)
        assert question == f"{what} the job of process 4000, rank 3: python 4000.py? y/n"
        await one.pilot.press("slash", "n")  # the filter is not under the question
        assert one.called() == [] and len(one.top.screen_stack) == 1
        await one.pilot.press(key)
        await one.says(status(process(1, memory("GPU-9", "a")), TRAINER))  # the question stays what it was
        await one.pilot.press("y")
        await one.until(lambda: one.top._notifications)
        assert one.called() == [command]
        assert [each.message for each in one.top._notifications] == ["process 4000: 18432 MiB released in 0.342 s"]

    live(tmp_path, steps)


def test_pauses_processes_of_the_user_whose_it_shows(tmp_path: Path) -> None:
    async def steps(one: Live) -> None:
        await one.says(status(ENGINE))
        await one.pilot.press("r", "y")
        await one.until(lambda: one.top._notifications)
        assert one.called() == ["resume --user ann --pid 4000"]

    live(tmp_path, steps, which=("--user", "ann"))


def test_says_why_a_pause_has_failed(tmp_path: Path) -> None:
    async def steps(one: Live) -> None:
        one.answers("echo 'amem: it is [red]registered' >&2; exit 1")
        await one.says(status(ENGINE))
        await one.pilot.press("p", "y")
        await one.until(lambda: one.top._notifications)
        (said,) = one.top._notifications
        assert (said.message, said.severity) == ("amem: it is [red]registered", "error")

    live(tmp_path, steps)


def test_what_has_no_tag_or_no_pid_here_is_not_paused(tmp_path: Path) -> None:
    async def steps(one: Live) -> None:
        elsewhere = process(6, memory("GPU-9", "weights"), command="", rank="-")  # in another pid namespace: its pid is not of this one
        await one.says(status(process(5), elsewhere, silent=(MUTE,)))
        assert sorted(one.rows()) == [(5, "-"), (6, "weights"), (77, "-")]
        for _ in range(3):
            await one.pilot.press("p", "y", "down")
        assert one.called() == [] and len(one.top.screen_stack) == 1

    live(tmp_path, steps)


def test_says_for_whom_a_tag_waits(tmp_path: Path) -> None:
    resuming = process(5, memory("GPU-9", "a", released_bytes=61 << 30), tags={"a": {"state": "resuming"}})
    waiting = process(6, memory("GPU-9", "nccl"), tags={"nccl": {"state": "active", "waits_for": "process 5 is paused"}})

    async def steps(one: Live) -> None:
        await one.says(status(resuming, waiting))
        assert one.text("details").splitlines()[-1] == "a waits for memory of GPU 9"
        await one.pilot.press("down")
        assert one.text("details").splitlines()[-1] == "nccl waits for process 5 is paused"
        await one.says(status(resuming, used=10 << 30))
        assert "waits" not in one.text("details")

    live(tmp_path, steps, (160, 24))


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_ends_by_a_key(tmp_path: Path, key: str) -> None:
    async def steps(one: Live) -> None:
        await one.says(status(ENGINE))
        await one.pilot.press(key)
        await one.until(lambda: one.child.poll() is not None)

    one = live(tmp_path, steps)
    assert (one.top.return_code, one.top.problem) == (0, "")


@pytest.mark.parametrize("line", ["no json", "[]", '{"gpus": [], "processes": [{}], "silent": []}'])
def test_status_that_cannot_be_read_ends_it(tmp_path: Path, line: str) -> None:
    async def steps(one: Live) -> None:
        await one.says(line)

    assert live(tmp_path, steps).top.problem.startswith("amem status cannot be read: ")


def test_hundred_processes_with_a_thousand_tags(tmp_path: Path) -> None:
    def all_of(resident: int) -> dict[str, Any]:
        return status(*(process(pid, *(memory("GPU-9", f"tag_{tag}", resident_bytes=resident) for tag in range(1000))) for pid in range(100)))

    async def steps(one: Live) -> None:
        await one.says(all_of(MIB))
        await one.pilot.press("pagedown", "end")
        assert one.text("state").endswith("100 processes, 100000 of 100000 rows") and one.seen()[-1].split()[1:4] == ["99", "train", "tag_999"]
        drawn: list[int] = []
        draw = one.table().render_line

        def render_line(y: int) -> Any:
            drawn.append(y)
            return draw(y)

        one.table().render_line = render_line
        one.table().refresh()
        await one.pilot.pause()
        assert 0 < len(drawn) <= 24  # of 100,000
        drawn.clear()
        await one.says(all_of(MIB))
        assert drawn == []  # nothing has changed
        await one.says(all_of(2 * MIB))
        assert "2.0 MiB" in one.seen()[0] and 0 < len(drawn) <= 3 * 24

    live(tmp_path, steps)


# --- The program on a terminal


def command(amem: Amem, *arguments: str) -> list[str]:
    code = f"import sys; sys.path.insert(0, {str(PACKAGE)!r}); import amem_command; amem_command.main({amem.command!r})"
    return [sys.executable, "-c", code, "top", *arguments]


def variables(amem: Amem, **settings: str) -> dict[str, str]:
    return {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(NEEDS), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **settings}


@pytest.mark.parametrize("settings", [{"TERM": "xterm"}, {"TERM": "dumb"}, {}])
def test_without_a_terminal_it_is_a_sentence(amem: Amem, settings: dict[str, str]) -> None:
    done = subprocess.run(command(amem), env=variables(amem, **settings), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", "amem: amem top needs a terminal; amem status --watch needs none\n")


def test_without_textual_it_is_a_sentence(amem: Amem) -> None:
    done = subprocess.run([sys.executable, "-S", *command(amem)[1:]], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    assert (done.returncode, done.stderr) == (1, "amem: amem top needs Textual, and Python 3.9 or later: pip install 'amem[top]'\n")


def test_command_without_python_says_where_it_is(amem: Amem) -> None:
    assert_sentence(amem("top"), 127, "pip install 'amem[top]'")


def test_help_has_its_options(amem: Amem) -> None:
    done = subprocess.run(command(amem, "--help"), env=variables(amem), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    assert done.returncode == 0 and "--interval SECONDS" in done.stdout


class Terminal:
    """A shell in a terminal of tmux, with a server of its own."""

    def __init__(self, folder: Path, width: int, settings: dict[str, str]) -> None:
        self.server = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        clean = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "PS1": "$ ", "TERM": "xterm-256color", **settings}
        subprocess.run([*self.server, "new-session", "-d", "-x", str(width), "-y", "24", "sh"], env=clean, check=True)
        self.run("pipe-pane", f"cat >{folder}/bytes")
        self.folder = folder

    def run(self, *arguments: str) -> str:
        return subprocess.run([*self.server, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout

    def types(self, text: str, *keys: str) -> None:
        self.run("send-keys", "-l", text)
        for key in keys:
            self.run("send-keys", key)

    def shows(self, pattern: str) -> str:
        """The screen, when it has this text."""
        deadline = time.monotonic() + TIMEOUT_S
        while not re.search(pattern, screen := self.run("capture-pane", "-p")):
            assert time.monotonic() < deadline, screen
            time.sleep(0.05)  # allow: between two looks, under a deadline
        return screen


@contextlib.contextmanager
def terminal(amem: Amem, folder: Path, width: int, *arguments: str, **settings: str) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    (folder / "top").write_text(shlex.join(command(amem, "--interval", "0.2", *arguments)))
    simulated = {"LD_LIBRARY_PATH": str(amem.folder / "sim"), "AMEM_SIM_DIR": str(folder)}
    one = Terminal(folder, width, variables(amem, **simulated, **settings))
    try:
        one.types(f"cd {folder}; stty -g >before; . ./top; stty -g >after", "Enter")
        one.shows(r"q\s+quit")
        yield one
    finally:
        one.run("kill-server")


def watching(amem: Amem, folder: Path) -> int:
    """The processes `amem status --watch` of this test."""
    count = 0
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_ours = f"AMEM_SIM_DIR={folder}".encode() in (path / "environ").read_bytes().split(b"\0")
            count += is_ours and (path / "cmdline").read_bytes().startswith(f"{amem.command}\0status\0".encode())
    return count


@pytest.mark.parametrize("width, key", [(80, "q"), (40, "C-c")])
def test_follows_a_job_and_leaves_the_terminal_as_it_was(amem: Amem, tmp_path: Path, width: int, key: str) -> None:
    with rank_of(amem, tmp_path) as (rank, order), terminal(amem, tmp_path, width) as screen:
        order(f"tag_malloc weights keep {16 * MIB}")
        screen.types(f"/pid:{rank.pid}", "Enter")
        screen.shows(rf"1 of \d+ rows\n[^$]*{rank.pid} .*weights +active +16.0 MiB")
        order("tag_pause")
        shown = screen.shows(rf"{rank.pid} .*weights +paused +0 B")
        assert ("16.0 MiB        0 B" in shown) == (width == 80)  # released, on the host: it is zero
        assert re.search(r"pauses: 1, failed: 0; last: \d\d:\d\d:\d\d,\s0\.\d{3}\s+s,\s\d+\.\d\s+MiB", shown)
        assert re.search(r"\n0 +[0-9.]+ MiB .* am" + "em simulated GPU" * (width == 80), shown)
        screen.types("p")
        screen.shows(rf"pause weights of the job of\s+process\s+{rank.pid}")
        screen.types("n")
        assert watching(amem, tmp_path) == 1
        screen.types("", key)
        deadline = time.monotonic() + TIMEOUT_S
        while not ((tmp_path / "after").exists() and (tmp_path / "after").read_text()):
            assert time.monotonic() < deadline, screen.run("capture-pane", "-p")
        assert screen.run("display-message", "-p", "#{alternate_on} #{cursor_flag}") == "0 1\n"
        assert (tmp_path / "before").read_text() == (tmp_path / "after").read_text() != ""
        assert watching(amem, tmp_path) == 0


def test_root_sees_the_processes_of_another_user(amem: Amem, tmp_path: Path) -> None:
    with process_of_nobody(amem) as (child, _), terminal(amem, tmp_path, 80, "--user", "nobody") as screen:
        screen.shows(rf" {child.pid} .*nccl")


def test_a_job_that_ends_vanishes_and_a_mute_one_is_named(amem: Amem, tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]) -> None:  # noqa: F811
    mute = start()
    with terminal(amem, tmp_path, 80) as screen:
        with rank_of(amem, tmp_path) as (rank, order):
            order("tag_malloc weights discard 1")
            screen.types(f"/name:{amem.folder}", "Enter")
            screen.shows(rf"{rank.pid} .*weights +active")
        screen.types("", "Escape")
        screen.shows("pid, group, tag or name")
        screen.types(f"/pid:{mute.pid}", "Enter")
        screen.shows(rf"{mute.pid} .*silent")
        screen.types("", "Escape")
        screen.shows("pid, group, tag or name")
        screen.types(f"/pid:{rank.pid}", "Enter")
        screen.shows(r" 0 of \d+ rows")


def test_no_color_turns_colors_off(amem: Amem, tmp_path: Path) -> None:
    colors = re.compile(rb"\x1b\[[0-9;]*\b(3[0-7]|4[0-7]|9[0-7]|[34]8;[0-9;]+)\b[0-9;]*m")
    for name, settings in (("color", {}), ("plain", {"NO_COLOR": "1"})):
        folder = tmp_path / name
        folder.mkdir()
        with rank_of(amem, folder) as (rank, order), terminal(amem, folder, 80, **settings) as screen:
            order("tag_malloc weights discard 1")
            order("tag_pause")
            screen.types(f"/pid:{rank.pid}", "Enter")
            screen.shows(rf"{rank.pid} .*weights +paused")
            screen.types("p")
            screen.shows("pause weights")
            written = (folder / "bytes").read_bytes()
        assert b"\x1b[" in written and bool(colors.search(written)) == (name == "color"), colors.search(written)
