# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""The package in a process that amem is not in, or is off in."""

import pytest

_CATCH = """
import amem
try:
    {call}
except amem.AmemError as error:
    print(error.code, error)
else:
    print("no error")
"""


@pytest.mark.parametrize(
    "call", ["amem.pause()", "amem.resume()", "amem.stats()", "amem.set_group(1)", "amem.paused().__enter__()"]
)
def test_says_how_to_start_the_job(build, call):
    text = build.python(_CATCH.format(call=call))

    assert text.startswith("None amem is not in this process: ")
    assert "amem run -- command" in text
    assert len(text.splitlines()) == 1


def test_reads_as_off_where_it_is_not_loaded(build):
    assert build.python("import amem; print(amem.state(), amem.enabled(), [amem.last_error()])") == "off False ['']"


def test_forwards_only_while_it_is_off(build):
    preload = {"LD_PRELOAD": build.preload}

    text = build.python(_CATCH.format(call="amem.pause()"), **preload)

    assert text.startswith("5 ncclPause failed: ")  # ncclInvalidUsage
    assert "AMEM_ENABLE=1" in text
    assert build.python("import amem; print(amem.state(), amem.enabled())", **preload) == "off False"


def test_shows_empty_statistics_while_it_is_off(build):
    code = "import amem; stats = amem.stats(); print(stats['state'], stats['total']['objects'], stats['devices'])"

    assert build.python(code, LD_PRELOAD=build.preload) == "off 0 {}"


def test_is_off_without_a_driver(build, tmp_path):
    code = _CATCH.format(call="amem.pause()") + "print(amem.state())"

    lines = build.job(code, LD_LIBRARY_PATH=str(tmp_path)).splitlines()

    if lines[0] == "no error":
        pytest.skip("this machine has a CUDA driver")
    assert "libcuda.so.1" in lines[0]
    assert lines[1] == "off"
