# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""amem doctor: on the simulated GPU, with a module that loads NCCL as PyTorch does."""

import json
import os
import shutil
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from conftest import Amem

TORCH = """
import ctypes, os, types
__version__ = "2.99.0"
version = types.SimpleNamespace(cuda="13.0")
cuda = types.SimpleNamespace(nccl=types.SimpleNamespace(version=lambda: (2, 28, 9)))
if os.environ.get("TEST_NCCL"):
    ctypes.CDLL(os.environ["TEST_NCCL"])
"""


@pytest.fixture
def machine(amem: Amem, tmp_path: Path) -> dict[str, str]:
    """The variables of a machine with a simulated GPU and such a PyTorch."""
    (tmp_path / "torch.py").write_text(TORCH, encoding="utf-8")
    (tmp_path / "nccl.conf").write_text("", encoding="utf-8")
    return {
        "LD_LIBRARY_PATH": str(amem.folder / "sim"),
        "AMEM_SIM_DIR": str(tmp_path),
        "PYTHONPATH": str(tmp_path),
        "NCCL_CONF_FILE": str(tmp_path / "nccl.conf"),
        "TEST_NCCL": str(amem.folder / "sim" / "libnccl.so.2"),
    }


def examine(amem: Amem, *command: str | Path, under: Iterable[str] = (), **settings: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit code, and (verdict, text) by subject. `under` is a command that runs amem."""
    words = [*under, amem.command, "doctor", "--json", *command]
    done = amem(*words[1:], command=words[0], **settings)
    assert done.stderr == ""
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["works"] else 1)
    return done.returncode, {each["subject"]: (each["verdict"], each["text"]) for each in report["findings"]}


def test_a_machine_where_all_works(amem: Amem, machine: dict[str, str]) -> None:
    code, found = examine(amem, sys.executable, "train.py", NCCL_CUMEM_ENABLE="1", NCCL_NVLS_ENABLE="0", **machine)

    assert code == 0
    for subject in ("driver", "GPU", "descriptors", "host memory", "processes", "NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE"):
        assert found[subject][0] == "ok", subject
    assert "compute capability 9.0" in found["GPU"][1]
    assert found["PyTorch"][1].startswith("2.99.0, CUDA 13.0, ")
    assert found["NCCL"][0] == "ok" and machine["TEST_NCCL"] in found["NCCL"][1]


def test_prints_a_line_for_each_finding(amem: Amem, machine: dict[str, str]) -> None:
    done = amem("doctor", "--", sys.executable, **machine)

    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1]) == (0, "A pause would work here.")
    assert all(line.split()[0] in ("ok", "note", "FAIL") for line in lines[:-1])


def test_a_machine_without_a_driver(amem: Amem, machine: dict[str, str]) -> None:
    code, found = examine(amem, sys.executable, **{**machine, "LD_LIBRARY_PATH": ""})

    assert (code, found["driver"][0]) == (1, "FAIL")
    assert "libcuda.so.1" in found["driver"][1]


def test_a_driver_that_is_too_old(amem: Amem, machine: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").symlink_to(amem.folder / "src" / "driver" / "testdata" / "libold_driver.so")
    code, found = examine(amem, sys.executable, **{**machine, "LD_LIBRARY_PATH": str(tmp_path)})

    assert (code, found["driver"][0]) == (1, "FAIL")
    assert "supports CUDA 12.1, but amem needs CUDA 12.2 or newer: update the driver" in found["driver"][1]


def test_no_gpu(amem: Amem, machine: dict[str, str]) -> None:
    code, found = examine(amem, sys.executable, AMEM_SIM_FAULT="cuInit:1..=100", **machine)

    text = "none is visible; is CUDA_VISIBLE_DEVICES empty? A container needs the GPUs of its host"
    assert (code, found["GPU"]) == (1, ("FAIL", text))


def test_a_driver_that_does_not_start(amem: Amem, machine: dict[str, str]) -> None:
    code, found = examine(amem, sys.executable, AMEM_SIM_FAULT="cuInit:1..=999", **machine)

    assert (code, found["GPU"][0]) == (1, "FAIL")
    assert "CUDA_ERROR_UNKNOWN (999): look at nvidia-smi; a container needs the GPUs" in found["GPU"][1]


def test_a_gpu_that_is_too_old(amem: Amem, machine: dict[str, str]) -> None:
    code, found = examine(amem, sys.executable, AMEM_SIM_COMPUTE="75", **machine)

    assert (code, found["GPU"][0]) == (1, "FAIL")
    assert found["GPU"][1].endswith("compute capability 7.5; amem needs 8.0 or newer")


def test_a_gpu_without_virtual_memory_management(amem: Amem, machine: dict[str, str]) -> None:
    # The first two attributes are those of the compute capability.
    code, found = examine(amem, sys.executable, AMEM_SIM_FAULT="cuDeviceGetAttribute:3..=1", AMEM_SIM_DEVICES="1", **machine)

    assert (code, found["GPU"][0]) == (1, "FAIL")
    assert "no virtual memory management with file descriptors" in found["GPU"][1]


def test_torch_memory_saver_without_the_wheel(amem: Amem, machine: dict[str, str], tmp_path: Path) -> None:
    verdict, text = examine(amem, sys.executable, AMEM_TMS="weights", **machine)[1]["AMEM_TMS"]
    assert (verdict, "amem_tms.pth" in text) == ("note", True)

    # As the wheel's .pth file does.
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['amem.torch_memory_saver'] = sys", encoding="utf-8")
    for settings in ({"AMEM_TMS": "weights"}, {"AMEM_TMS": "off"}):
        assert "AMEM_TMS" not in examine(amem, sys.executable, **settings, **machine)[1]


VERSIONS = [
    ("21805", "FAIL", "2.18.5, ", "; amem needs 2.19 or newer"),
    ("21903", "ok", "2.19.3, ", "; amem intercepts its calls"),
    ("23299", "ok", "2.32.99, ", "; amem intercepts its calls"),
    ("23300", "note", "2.33.0, ", " make it refuse later pauses: update amem if a pause is refused"),
]


@pytest.mark.parametrize("version, verdict, begin, end", VERSIONS)
@pytest.mark.parametrize("is_linked", [True, False])
def test_versions_of_nccl(amem: Amem, machine: dict[str, str], version: str, verdict: str, begin: str, end: str, is_linked: bool) -> None:
    command = amem.folder / "bin" / "amem_rank" if is_linked else sys.executable
    code, found = examine(amem, command, MINCCL_VERSION=version, **machine)

    assert (code, found["NCCL"][0]) == (int(verdict == "FAIL"), verdict)
    assert found["NCCL"][1].startswith(begin) and found["NCCL"][1].endswith(end)


def in_mounts(script: str) -> list[str]:
    """Runs the script, which runs the command, where it may mount."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--mount", "sh", "-c", script, "sh"]


DEV_SHM = {
    "mount -t tmpfs -o ro none /dev/shm": "Read-only file system",
    "mount -t tmpfs none /dev/shm && ln -s /tmp /dev/shm/amem-$(id -u)": "is not a directory that only user",
    "mount -t tmpfs none /dev && touch /dev/null": "No such file or directory",
}


@pytest.mark.parametrize("setup, reason", DEV_SHM.items())
def test_dev_shm_that_cannot_be_used(amem: Amem, machine: dict[str, str], setup: str, reason: str) -> None:
    under = in_mounts(f'{setup} && exec "$@"')
    code, found = examine(amem, amem.folder / "bin" / "amem_rank", under=under, **machine)

    assert (code, found["processes"][0]) == (1, "FAIL")
    assert reason in found["processes"][1]
    assert found["processes"][1].endswith("must be writable for this user: mount a tmpfs there")


SETTINGS = [
    ({"NCCL_P2P_USE_CUDA_MEMCPY": "1"}, "FAIL", "NCCL copies on threads of its own"),
]


@pytest.mark.parametrize("settings, verdict, text", SETTINGS)
def test_settings_with_which_a_pause_fails_or_releases_less(amem: Amem, machine: dict[str, str], settings: dict[str, str], verdict: str, text: str) -> None:
    code, found = examine(amem, sys.executable, **settings, **machine)

    assert (code, found[next(iter(settings))][0]) == (int(verdict == "FAIL"), verdict)
    assert text in found[next(iter(settings))][1]


def test_settings_that_are_fine_are_not_mentioned(amem: Amem, machine: dict[str, str]) -> None:
    fine = {"TMS_INIT_ENABLE": "1", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    found = examine(amem, sys.executable, NCCL_P2P_USE_CUDA_MEMCPY="0", **fine, **machine)[1]

    assert not {"PYTORCH_CUDA_ALLOC_CONF", "NCCL_P2P_USE_CUDA_MEMCPY"} & set(found)


def test_nothing_is_left_in_dev_shm(amem: Amem, machine: dict[str, str]) -> None:
    after = '"$@"; code=$?; test -z "$(ls /dev/shm/amem-$(id -u))" || exit 9; exit $code'
    code, found = examine(amem, amem.folder / "bin" / "amem_rank", under=in_mounts(f"mount -t tmpfs none /dev/shm && {after}"), **machine)

    assert (code, found["processes"][0]) == (0, "ok")


def test_torch_memory_saver_beside_amem(amem: Amem, machine: dict[str, str], tmp_path: Path) -> None:
    library = tmp_path / "torch_memory_saver_hook_mode_preload.abi3.so"
    library.write_bytes((amem.folder / "sim" / "libnvidia-ml.so.1").read_bytes())
    code, found = examine(amem, sys.executable, LD_PRELOAD=str(library), **machine)

    assert (code, found["LD_PRELOAD"][0]) == (0, "note")
    assert found["LD_PRELOAD"][1] == (
        f"{library} pauses memory of its own, which amem does not pause: remove it; AMEM_TMS=1 gives a job the same interface"
    )


@pytest.mark.parametrize("folder", ["lib", "lib/.."])  # of amem's library: in the wheel, elsewhere
def test_amems_library_in_place_of_torch_memory_savers(amem: Amem, machine: dict[str, str], tmp_path: Path, folder: str) -> None:
    library = tmp_path / "torch_memory_saver_hook_mode_preload.abi3.so"
    library.write_bytes((amem.folder / "sim" / "libnvidia-ml.so.1").read_bytes())
    (tmp_path / "lib").mkdir()
    (tmp_path / folder / "libamem_nccl.so").symlink_to(amem.folder / "lib" / "libamem_nccl.so")

    assert "LD_PRELOAD" not in examine(amem, sys.executable, LD_PRELOAD=str(library), **machine)[1]


@pytest.mark.parametrize("cumem, verdict", [("force", "note"), ("respect", "FAIL")])
@pytest.mark.parametrize("in_file", [True, False])
def test_nccl_without_cumem(amem: Amem, machine: dict[str, str], tmp_path: Path, cumem: str, verdict: str, in_file: bool) -> None:
    if in_file:
        (tmp_path / "nccl.conf").write_text("# site\nNCCL_CUMEM_ENABLE=0\n", encoding="utf-8")
    else:
        machine["NCCL_CUMEM_ENABLE"] = "0"
    code, found = examine(amem, sys.executable, AMEM_CUMEM=cumem, **machine)

    assert (code, found["NCCL_CUMEM_ENABLE"][0]) == (int(verdict == "FAIL"), verdict)
    assert ("nccl.conf" in found["NCCL_CUMEM_ENABLE"][1]) == in_file


def test_the_environment_counts_before_a_file(amem: Amem, machine: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "nccl.conf").write_text("NCCL_CUMEM_ENABLE=0\n", encoding="utf-8")

    assert examine(amem, sys.executable, NCCL_CUMEM_ENABLE="1", **machine)[1]["NCCL_CUMEM_ENABLE"][0] == "ok"


def test_what_stays_with_the_defaults_of_nccl(amem: Amem, machine: dict[str, str]) -> None:
    found = examine(amem, sys.executable, **machine)[1]

    assert found["NCCL_NVLS_ENABLE"][0] == "note" and "NVLS memory stays on the GPU" in found["NCCL_NVLS_ENABLE"][1]
    assert found["NCCL_GRAPH_REGISTER"][0] == "ok" and "is restored with its tag" in found["NCCL_GRAPH_REGISTER"][1]


def test_few_descriptors(amem: Amem, machine: dict[str, str]) -> None:
    code, found = examine(amem, sys.executable, under=["prlimit", "--nofile=1024"], **machine)

    assert (code, found["descriptors"][0]) == (0, "note")
    assert found["descriptors"][1].startswith("1024 open files, at most 1024; a resume needs one ")


def test_a_container(amem: Amem, machine: dict[str, str]) -> None:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    unshare = ["unshare", *user, "--pid", "--fork", "--mount-proc"]
    found = examine(amem, sys.executable, under=unshare, **machine)[1]

    assert found["container"][0] == "note"
    assert "only if both share /dev/shm (docker run --ipc=...) and the user id" in found["container"][1]


def test_static_nccl(amem: Amem, machine: dict[str, str]) -> None:
    code, found = examine(amem, sys.executable, **{**machine, "TEST_NCCL": ""})

    assert (code, found["NCCL"][0]) == (1, "FAIL")
    assert "statically" in found["NCCL"][1]


def test_python_without_pytorch(amem: Amem, machine: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no CUDA here')", encoding="utf-8")
    code, found = examine(amem, sys.executable, **machine)

    assert (code, found["PyTorch"]) == (0, ("note", "cannot be imported: ImportError: no CUDA here"))


def test_a_python_that_fails(amem: Amem, machine: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import os; os._exit(3)", encoding="utf-8")
    code, found = examine(amem, sys.executable, **machine)

    assert (code, found["Python"][0]) == (1, "FAIL")
    assert "ended with exit code 3" in found["Python"][1]


def test_a_script_is_examined_with_its_interpreter(amem: Amem, machine: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "launcher"
    script.write_text(f"#!{sys.executable}\nraise SystemExit('not to be run')\n", encoding="utf-8")
    script.chmod(0o755)

    assert sys.executable in examine(amem, script, **machine)[1]["Python"][1]


def test_the_interpreter_of_env_with_options(amem: Amem, machine: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    script = tmp_path / "launcher"
    script.write_text("#!/usr/bin/env -S A=1 python -u\nraise SystemExit('not to be run')\n", encoding="utf-8")
    script.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"

    assert str(tmp_path / "python") in examine(amem, script, PATH=path, **machine)[1]["Python"][1]


def test_a_static_program_is_not_run(amem: Amem, machine: dict[str, str], tmp_path: Path) -> None:
    # Its only instruction is `ud2`: a run would end by a signal.
    program, address = tmp_path / "program", 0x400000
    header = struct.pack("<4s5B7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 0, 2, 62, 1, address + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, address, address, 122, 122, 4096)
    program.write_bytes(header + segment + b"\x0f\x0b")
    program.chmod(0o755)
    code, found = examine(amem, program, **machine)

    assert (code, found["program"][0]) == (1, "FAIL")
    assert found["program"][1].startswith(f"{program} is linked statically: amem cannot be loaded into it")


def test_a_program_is_not_run(amem: Amem, machine: dict[str, str]) -> None:
    code, found = examine(amem, amem.folder / "bin" / "amem_rank", **machine)

    assert (code, found["NCCL"][0]) == (0, "ok")
    assert "libnccl.so.2, linked with" in found["NCCL"][1]


def test_a_program_whose_nccl_the_loader_does_not_find(amem: Amem, machine: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy(amem.folder / "bin" / "amem_rank", program)
    # Away from the build's libraries, and without the loader's cache, which may name an NCCL.
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    hidden = 'mount --bind /dev/null /etc/ld.so.cache && exec "$@"'
    under = ["unshare", *user, "--mount", "sh", "-c", hidden, "sh"]
    driver = tmp_path / "driver"
    driver.mkdir()
    (driver / "libcuda.so.1").symlink_to(amem.folder / "sim" / "libcuda.so.1")
    code, found = examine(amem, program, under=under, **{**machine, "LD_LIBRARY_PATH": str(driver)})

    says = f"the loader does not find libnccl.so.2 for {program}: set LD_LIBRARY_PATH to its folder"
    assert (code, found["NCCL"]) == (1, ("FAIL", says))


def test_a_program_that_is_not_there(amem: Amem, machine: dict[str, str]) -> None:
    code, found = examine(amem, "no-such-program", **machine)

    assert (code, found["program"]) == (1, ("FAIL", "no-such-program is not on PATH"))


def test_unknown_variables(amem: Amem, machine: dict[str, str]) -> None:
    found = examine(amem, sys.executable, AMEM_NOPE="1", **machine)[1]

    assert found["variables"][0] == "note" and "AMEM_NOPE" in found["variables"][1]


def test_amem_that_is_off(amem: Amem, machine: dict[str, str]) -> None:
    code, found = examine(amem, sys.executable, AMEM_ENABLE="0", **machine)

    assert (code, found["AMEM_ENABLE"]) == (0, ("note", "is 0: `import amem` does not enable amem; amem run does"))


def test_a_preloaded_library_that_is_not_there(amem: Amem, machine: dict[str, str]) -> None:
    done = amem("doctor", "--", amem.folder / "bin" / "amem_rank", LD_PRELOAD="/no/such.so", **machine)

    assert "/no/such.so does not exist; the loader ignores it" in done.stdout


def test_other_preloaded_libraries(amem: Amem, machine: dict[str, str]) -> None:
    library = str(amem.folder / "sim" / "libnvidia-ml.so.1")
    found = examine(amem, sys.executable, LD_PRELOAD=library, **machine)[1]

    assert found["LD_PRELOAD"] == ("ok", f"{library} is loaded before amem")
