# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""`amem top`: what `amem status` shows, live, with keys that pause and resume.

A program of its own, because `import amem` enables amem, and this is none of the processes that it shows.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import namedtuple
from typing import Any, Dict, List, Sequence

try:
    from rich.cells import set_cell_size
    from rich.segment import Segment
    from rich.style import Style
    from textual.app import App
    from textual.binding import Binding
    from textual.screen import ModalScreen
    from textual.scroll_view import ScrollView
    from textual.strip import Strip
    from textual.widgets import Input, Static
except ImportError:
    sys.exit("amem: amem top needs Textual, and Python 3.9 or later: pip install 'amem[top]'")


# The memory of a tag of a process on a GPU. A process without memory has one row, without a tag. `sizes` are resident, released
# and on the host, `done` the counters of the process.
Row = namedtuple("Row", "gpu pid group tag state sizes done awaited command")
# As many columns as fit are shown, by importance from 1 on. The unit is that of a number: B, s or times.
Column = namedtuple("Column", "title width importance value_of unit", defaults=[""])
COLUMNS = (
    Column("GPU", 4, 7, lambda row: row.gpu.rjust(3)), Column("pid", 7, 1, lambda row: row.pid),
    Column("group", 8, 8, lambda row: row.group), Column("tag", 10, 2, lambda row: row.tag),
    Column("state", 8, 3, lambda row: row.state), Column("resident", 10, 4, lambda row: row.sizes[0], "B"),
    Column("released", 10, 5, lambda row: row.sizes[1], "B"), Column("on host", 10, 6, lambda row: row.sizes[2], "B"),
    Column("failed", 7, 9, lambda row: row.done.get("failed_pauses", 0) + row.done.get("failed_resumes", 0), "times"),
    Column("pause s", 8, 10, lambda row: row.done.get("last_pause_seconds", 0), "s"),
    Column("resume s", 9, 11, lambda row: row.done.get("last_resume_seconds", 0), "s"),
    Column("waits for", 24, 12, lambda row: row.awaited), Column("command", 40, 13, lambda row: row.command),
)
FIELDS = {"pid": 1, "group": 2, "tag": 3, "name": 8}  # of Row, that a filter names
COLORS = {"active": None, "silent": "red"}  # silent: the process has not answered; other states are yellow
STEPS = {"up": -1, "down": 1, "pageup": -15, "pagedown": 15, "home": -(1 << 30), "end": 1 << 30}
PIPES: Dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "errors": "replace"}


def fitting(width: int) -> List[Column]:
    """The most important columns. The tag gets the rest of the width."""
    shown = sorted(COLUMNS, key=lambda each: each.importance)
    while (rest := width - sum(each.width + 1 for each in shown) + 1) < 0:
        shown.pop()
    return [each._replace(width=each.width + rest * (each.title == "tag")) for each in COLUMNS if each in shown]


def size_text(size: float) -> str:
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1023.95 and len(units) > 1:
        size /= 1024
        del units[0]
    return f"{size:.{0 if units[0] == 'B' else 1}f} {units[0]}"


def local_time(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def cell(column: Column, row: Row) -> str:
    value = column.value_of(row)
    text = {"B": size_text, "s": "{:.3f}".format}.get(column.unit, str)(value)
    return text.rjust(column.width) if column.unit else str(set_cell_size(text, column.width))


def rows_of(status: Dict[str, Any]) -> List[Row]:
    gpus = {gpu["gpu"]: gpu for gpu in status["gpus"]}
    nothing = {"gpu": "-", "tag": "-", "resident_bytes": 0, "released_bytes": 0, "saved_bytes": 0}
    rows = []
    for process in status["processes"]:
        done, group = process.get("counters", {}), process.get("group_name") or str(process["group"])
        command = process["command"] if process["rank"] == "-" else f"rank {process['rank']}: {process['command']}"
        for memory in process["memory"] or [nothing]:
            tag, gpu = memory["tag"], gpus.get(memory["gpu"])
            name = gpu["name"] if gpu else memory["gpu"][4:8] or "-"
            of_tag = process["tags"].get(tag, process)
            sizes = [memory[f"{size}_bytes"] for size in ("resident", "released", "saved")]
            lacks = gpu and of_tag["state"] == "resuming" and sizes[1] > gpu["total_bytes"] - gpu["used_bytes"]
            awaited = f"memory of GPU {name}" if lacks else of_tag.get("waits_for", "")
            rows.append(Row(name, process["pid"], group, tag, of_tag["state"], sizes, done, awaited, command))
    return rows + [Row("-", each["pid"], "-", "-", "silent", [0, 0, 0], {}, "", each["reason"]) for each in status["silent"]]


def text_of_gpus(gpus: List[Dict[str, Any]]) -> str:
    lines = [("GPU", "used", "free", "total", "name")] * bool(gpus)
    for gpu in gpus:
        total, used = gpu["total_bytes"], gpu["used_bytes"]
        lines.append((gpu["name"], *map(size_text, (used, total - used, total)), gpu.get("model", "")))
    return "\n".join(f"{line[0]:3.3} {line[1]:>10} {line[2]:>10} {line[3]:>10}  {line[4]}" for line in lines)


def details_of(row: Row) -> str:
    lines, done = [f"pid {row.pid} {row.command}"], row.done
    for call in ("pause", "resume") if done else ():
        lines.append(f"{call}s: {done.get(call + 's', 0)}, failed: {done.get(f'failed_{call}s', 0)}")
        if done.get(f"last_{call}_time"):
            at, seconds, size = (done[f"last_{call}_{what}"] for what in ("time", "seconds", "bytes"))
            lines[-1] += f"; last: {local_time(at)}, {seconds:.3f} s, {size_text(size)}"
    lines += [f"error {local_time(done.get('last_error_time', 0))}: {done.get('last_error')}"] * bool(done.get("last_error"))
    return "\n".join(lines + [f"{row.tag} waits for {row.awaited}"] * bool(row.awaited))


def is_wanted(row: Row, words: List[str]) -> bool:
    """Each word is in one of the fields, or in the one that it names, such as tag:kv."""

    def has(word: str) -> bool:
        name, _, text = word.partition(":")
        fields, text = ([FIELDS[name]], text) if name in FIELDS else (list(FIELDS.values()), word)
        return any(text in str(row[field]).lower() for field in fields)

    return all(map(has, words))


class Table(ScrollView):
    """Draws the rows in sight, and of these only what has changed: docs/decisions/0022-top.md."""

    can_focus, at = True, 0
    BINDINGS = tuple((key, f"move({step})") for key, step in STEPS.items())

    def __init__(self) -> None:
        super().__init__()
        self.rows: List[Row] = []
        self.drawn: Dict[int, List[Segment]] = {}

    def selected(self) -> List[Row]:
        return self.rows[self.at : self.at + 1]

    def show(self, rows: List[Row]) -> None:
        for before in self.selected():
            self.at = next((at for at, row in enumerate(rows) if row[:4] == before[:4]), self.at)
        self.rows = rows
        self.virtual_size = self.size.with_height(len(rows))
        self.action_move(0)

    def action_move(self, step: int) -> None:
        self.at = max(0, min(self.at + step, len(self.rows) - 1))
        self.scroll_to(y=max(min(self.scroll_offset.y, self.at), self.at - self.size.height + 1), animate=False, immediate=True)
        for y in range(self.size.height):
            if self.line(y) != self.drawn.get(y):
                self.refresh_line(y + self.scroll_offset.y)
        self.app.query_one("#details", Static).update("".join(map(details_of, self.selected())))

    def line(self, y: int) -> List[Segment]:
        at, segments = y + self.scroll_offset.y, []
        for row in self.rows[at : at + 1]:
            for column in fitting(self.size.width):
                color = COLORS.get(row.state, "yellow") if column.title == "state" else None
                segments.append(Segment(cell(column, row) + " ", Style(color=color, reverse=at == self.at)))
        return segments

    def render_line(self, y: int) -> Strip:
        self.drawn[y] = self.line(y)
        return Strip(self.drawn[y]).adjust_cell_length(self.size.width)


class Question(ModalScreen):
    BINDINGS = (("y", "dismiss(True)"), ("n,escape", "dismiss(False)"))

    def compose(self) -> Any:
        yield Static(self.name, markup=False)


class Top(App):
    CSS = """
    #gpus, #details { max-height: 30%; } #gpus, #titles, #state { text-wrap: nowrap; text-overflow: clip; }
    #titles { text-style: bold; } Table { height: 1fr; scrollbar-size: 0 0; } Question { align: center middle; }
    """
    ENABLE_COMMAND_PALETTE = False
    KEYS = (("q", "quit"), ("escape", "all"), ("s", "sort"), ("S", "reverse"), ("p", "ask('pause')"), ("r", "ask('resume')"))
    # By priority: before a key is given to what has the focus, so that what is typed after / at once is part of the filter.
    BINDINGS = (*KEYS, Binding("ctrl+c", "quit", priority=True), Binding("slash", "filter", priority=True))

    def __init__(self, program: str, status: Any, which: Sequence[str] = ()) -> None:
        super().__init__(ansi_color=True)
        self.program, self.status, self.which = program, status, which
        self.rows: List[Row] = []
        self.sorted_by, self.is_descending, self.problem = COLUMNS[0], False, ""

    def compose(self) -> Any:
        yield from (Static(id=name, markup=False) for name in ("state", "gpus", "titles"))
        yield Table()
        yield Static(id="details", markup=False)
        yield Input(compact=True, placeholder="pid, group, tag or name; tag:kv")
        yield Static("p pause r resume / filter s S sort q quit")

    def on_mount(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self.exit)
        self.run_worker(self.watch())

    async def watch(self) -> None:
        try:
            while line := await asyncio.to_thread(self.status.stdout.readline):
                status = await asyncio.to_thread(json.loads, line)
                self.rows = await asyncio.to_thread(rows_of, status)
                self.query_one("#gpus", Static).update(text_of_gpus(status["gpus"]))
                self.sub_title = local_time(status["time"])
                self.show()
            self.problem = "amem status has ended: " + self.status.stderr.read().strip()
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            self.problem = f"amem status cannot be read: {error!r}"
        finally:
            self.status.kill()  # the thread that reads ends
        self.exit()

    def show(self) -> None:
        words, columns = self.query_one(Input).value.lower().split(), fitting(self.size.width)
        rows = [row for row in self.rows if is_wanted(row, words)]
        self.query_one(Table).show(sorted(rows, key=self.sorted_by.value_of, reverse=self.is_descending))
        titles = (each.title + "▲▼"[self.is_descending] * (each.title == self.sorted_by.title) for each in columns)
        cells = (f"{title:{'>' if each.unit else '<'}{each.width}}" for title, each in zip(titles, columns))
        self.query_one("#titles", Static).update(" ".join(cells))
        processes = len({row.pid for row in self.rows})
        self.query_one("#state", Static).update(f"{self.sub_title} {processes} processes, {len(rows)} of {len(self.rows)} rows")

    on_resize = on_input_changed = show

    def action_sort(self) -> None:
        columns = fitting(self.size.width)
        at = next((at for at, each in enumerate(columns) if each.title == self.sorted_by.title), -1)
        self.sorted_by = columns[(at + 1) % len(columns)]
        self.is_descending = bool(self.sorted_by.unit)
        self.show()

    def action_reverse(self) -> None:
        self.is_descending = not self.is_descending
        self.show()

    def action_filter(self) -> None:
        self.set_focus(self.query_one(Input))

    def check_action(self, action: str, _parameters: Any) -> bool:
        return action != "filter" or self.focused is self.query_one(Table)

    def on_input_submitted(self) -> None:
        self.set_focus(self.query_one(Table))

    def action_all(self) -> None:
        self.query_one(Input).value = ""
        self.on_input_submitted()

    def action_ask(self, verb: str) -> None:
        row = next(iter(self.query_one(Table).selected()), None)
        if row and row.tag != "-" and row.command:  # a process of another pid namespace has none, and its pid is not of this one
            what = f"{verb} {row.tag} of" if verb == "pause" else verb  # amem resume resumes what amem pause has paused
            question = Question(f"{what} the job of process {row.pid}, {row.command}? y/n")
            self.push_screen(question, lambda yes: self.run_worker(self.change(verb, row)) if yes else None)

    async def change(self, verb: str, row: Row) -> None:
        command = [self.program, verb, *self.which, "--pid", str(row.pid), *(["--tag", row.tag] if verb == "pause" else [])]
        child = subprocess.Popen(command, start_new_session=True, **PIPES)
        while child.poll() is None:  # no thread waits for it: this program may end before
            await asyncio.sleep(0.05)
        done, said = child.communicate()
        text = (said if child.returncode else done).strip() or f"amem {verb} has ended with exit code {child.returncode}"
        self.notify(text, severity="error" if child.returncode else "information", timeout=20, markup=False)


def main(program: str, arguments: List[str]) -> None:
    parser = argparse.ArgumentParser(prog="amem top", description="Shows what amem status shows, live.")
    parser.add_argument("--interval", default="1", metavar="SECONDS", help="default: %(default)s")
    parser.add_argument("--user", metavar="NAME|UID", help="the processes of this user, for root")
    options = parser.parse_args(arguments)
    which = ["--user", options.user] if options.user else []
    if os.environ.get("TERM", "dumb") in ("", "dumb") or not all(each.isatty() for each in (sys.stdin, sys.stdout, sys.stderr)):
        print("amem: amem top needs a terminal; amem status --watch needs none", file=sys.stderr)
        sys.exit(2)
    with subprocess.Popen([program, "status", "--json", f"--watch={options.interval}", *which], **PIPES) as status:
        (top := Top(program, status, which)).run(mouse=False)
    if top.problem:
        sys.exit(f"amem: {top.problem}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
