# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""`amem exporter`: what `amem status` shows, as metrics for Prometheus.

A program of its own, because `import amem` enables amem, and the exporter is none of the processes that it reports.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import threading
from typing import Any, Dict, Iterator, List, Set, Tuple

try:
    from prometheus_client import CollectorRegistry, generate_latest, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
except ImportError:
    HAS_CLIENT = False
else:
    HAS_CLIENT = True

# Name of the metric, what it is, and the field of `amem status --json`.
Fields = Tuple[Tuple[str, str, str], ...]
OF_MEMORY: Fields = (
    ("amem_resident_bytes", "Memory with a tag that is on the GPU", "resident_bytes"),
    ("amem_released_bytes", "Memory with a tag that is released and keeps its addresses", "released_bytes"),
    ("amem_saved_bytes", "Contents of released memory in host memory", "saved_bytes"),
    ("amem_disk_bytes", "Contents of released memory on disk", "disk_bytes"),
    ("amem_persistent_bytes", "Memory that is never released; amem status says why", "fixed_bytes"),
)
OF_HOST: Fields = (
    ("amem_host_used_bytes", "Pinned host memory that holds contents or is reserved", "host_used_bytes"),
    ("amem_host_borrowed_bytes", "The part of amem_host_used_bytes that other processes have created", "host_borrowed_bytes"),
    ("amem_host_idle_bytes", "Pinned host memory that is kept for the next pause", "host_idle_bytes"),
)
COUNTERS: Fields = (
    ("amem_pauses", "Pauses that have succeeded", "pauses"),
    ("amem_resumes", "Resumes that have succeeded", "resumes"),
    ("amem_failed_pauses", "Pauses that have failed; nothing is lost", "failed_pauses"),
    ("amem_failed_resumes", "Resumes that have failed; nothing is lost, they can be repeated", "failed_resumes"),
    ("amem_copied_bytes", "Contents that pauses have copied", "copied_bytes"),
)
LAST: Fields = (
    ("amem_last_pause_seconds", "Duration of the last pause", "last_pause_seconds"),
    ("amem_last_resume_seconds", "Duration of the last resume", "last_resume_seconds"),
    ("amem_last_error_timestamp_seconds", "When a call has last failed, 0 if none has", "last_error_time"),
)
OF_GPU: Fields = (
    ("amem_gpu_total_bytes", "Memory of the GPU (NVML)", "total_bytes"),
    ("amem_gpu_used_bytes", "Memory of the GPU that all programs use (NVML)", "used_bytes"),
)
TIMEOUT_S = 30
OF_PROCESS = ["pid", "rank", "group"]


class Families:
    """Metrics by name, of which each has samples of several processes."""

    def __init__(self) -> None:
        self.by_name: Dict[str, Any] = {}
        self._seen: Set[Tuple[str, ...]] = set()

    def add(self, kind: Any, name: str, what: str, labels: Dict[str, str], value: float) -> None:
        # Processes whose pid is unknown, or that of a container, may have the same labels.
        if (name, *labels.values()) not in self._seen:
            self._seen.add((name, *labels.values()))
            family = self.by_name.setdefault(name, kind(name, what, labels=list(labels)))
            family.add_metric(list(labels.values()), value)

    def add_all(self, kind: Any, fields: Fields, labels: Dict[str, str], values: Dict[str, Any]) -> None:
        for name, what, field in fields:
            if field in values:  # not in a process with an older version
                self.add(kind, name, what, labels, values[field])

    def add_process(self, process: Dict[str, Any]) -> None:
        group = process.get("group_name") or str(process["group"])
        labels = dict(zip(OF_PROCESS, (str(process["pid"]), process["rank"], group)))
        self.add(GaugeMetricFamily, "amem_process_info", "The command of a process", {**labels, "command": process["command"]}, 1)
        self.add_all(GaugeMetricFamily, OF_HOST, labels, process)
        self.add_all(CounterMetricFamily, COUNTERS, labels, process.get("counters", {}))
        self.add_all(GaugeMetricFamily, LAST, labels, process.get("counters", {}))
        for tag, of_tag in process["tags"].items():
            state = {**labels, "tag": tag, "state": of_tag["state"]}
            self.add(GaugeMetricFamily, "amem_tag_state", "1 for the state in which a tag is", state, 1)
        for memory in process["memory"]:
            where = {**labels, "gpu": memory["gpu"], "tag": memory["tag"]}
            self.add_all(GaugeMetricFamily, OF_MEMORY, where, memory)

    def add_gpu(self, gpu: Dict[str, Any]) -> None:
        labels = {"gpu": gpu["gpu"], "index": gpu["name"]}
        self.add_all(GaugeMetricFamily, OF_GPU, labels, gpu)

    def add_silent(self, process: Dict[str, Any]) -> None:
        self.add(GaugeMetricFamily, "amem_process_silent", "1: the process has not answered", {"pid": str(process["pid"])}, 1)


class Collector:
    """Asks all amem processes of one user at each scrape."""

    def __init__(self, program: str, which: List[str]) -> None:
        self._command = [program, "status", "--json", *which]
        self._asking = threading.Lock()

    def describe(self) -> List[Any]:
        return []  # nobody is asked when the collector is registered

    def collect(self) -> Iterator[Any]:
        families = Families()
        works = False
        if self._asking.acquire(blocking=False):  # else NVML or a process hangs: no more than one command waits for it
            try:
                works = self._ask(families)
            finally:
                self._asking.release()
        families.add(GaugeMetricFamily, "amem_up", "1 if amem status has answered", {}, works)
        yield from families.by_name.values()

    def _ask(self, families: Families) -> bool:
        said = ""
        try:
            done = subprocess.run(
                self._command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False
            )
            said = done.stderr.strip()
            status = json.loads(done.stdout)
            for process in status["processes"]:
                families.add_process(process)
            for gpu in status["gpus"]:
                families.add_gpu(gpu)
            for silent in status["silent"]:
                families.add_silent(silent)
        except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError, AttributeError) as error:
            print(f"amem: amem status has failed: {said or repr(error)}", file=sys.stderr)
            return False
        return True


def address(text: str) -> Tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text} is not an address with a port from 1 to 65535, such as 127.0.0.1:9436 or :9436")
    return host.strip("[]") or "0.0.0.0", int(port)


def main(program: str, arguments: List[str]) -> None:
    parser = argparse.ArgumentParser(prog="amem exporter", description="Serves what amem status shows for Prometheus.")
    parser.add_argument("--listen", type=address, default="127.0.0.1:9436", metavar="[ADDRESS]:PORT", help="default: %(default)s")
    parser.add_argument("--once", action="store_true", help="print the metrics, such as for node_exporter's textfile collector")
    parser.add_argument("--user", metavar="NAME|UID", help="the processes of this user, for root")
    options = parser.parse_args(arguments)
    if not HAS_CLIENT:
        sys.exit("amem: amem exporter needs prometheus_client: pip install 'amem[exporter]'")
    registry = CollectorRegistry()
    registry.register(Collector(program, ["--user", options.user] if options.user else []))
    if options.once:
        text = generate_latest(registry).decode()
        print(text, end="")
        sys.exit(0 if "\namem_up 1.0\n" in text else 1)
    host, port = options.listen
    try:
        start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        sys.exit(f"amem: amem exporter cannot listen on {host}:{port}: {error.strerror}; --listen names another address")
    print(f"amem: metrics on http://{host}:{port}/metrics", file=sys.stderr, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
