# SPDX-License-Identifier: Apache-2.0
"""`pio test`: uploads the firmware, then checks the board against the host over the serial port.

A project of your own needs this file and test_board/firmware.cpp (which is empty) in its test/ folder, and
`test_framework = custom`, `test_build_src = yes` in platformio.ini.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click
from platformio.public import TestCase, TestRunnerBase, TestStatus
from platformio.test.exception import UnitTestSuiteError


def _find_minun(libraries: Path) -> None:
    """Makes minun_pio importable: installed, from the repository, or from the project's libraries."""
    try:
        import minun_pio  # noqa: F401

        return
    except ImportError:
        pass
    here = Path(__file__).resolve()
    places = [here.parents[1], here.parents[2], *libraries.glob("*/*")]
    for link in libraries.glob("*/*.pio-link"):  # what PlatformIO notes of symlink://
        noted = json.loads(link.read_text(encoding="utf-8"))
        place = Path(noted["cwd"], noted["spec"]["uri"].partition("://")[2]).resolve()
        places += [place, place.parent.parent]  # a checkout; minun_pio/library of an installed package
    for place in places:
        if (place / "minun_pio" / "__init__.py").is_file():
            sys.path.append(str(place))
            return
    raise UnitTestSuiteError(
        "the Python package minun_pio was not found; install it from its repository: "
        f"{sys.executable} -m pip install <its folder or git address>"
    )


class CustomTestRunner(TestRunnerBase):
    def stage_testing(self) -> None:
        if self.options.without_testing:
            return
        click.secho("Testing...", bold=True)
        project = Path(self.project_config.path).resolve().parent
        _find_minun(project / Path(self.project_config.get("platformio", "libdeps_dir")))
        from minun_pio.board import virtual
        from minun_pio.board.checks import run_checks
        from minun_pio.board.vectors import read
        from minun_pio.errors import MinunError

        environment = self.test_suite.env_name
        folder = self._generated(project, environment)
        files = sorted(folder.glob("*.vectors"))
        if not files:
            raise UnitTestSuiteError(
                f"no self-test vectors in {os.path.relpath(folder)}; does it have a model?"
            )
        place = virtual.board_dir(project, environment)
        try:
            port = self.get_test_port() or self._own_port(place / "port", environment)
            for check in run_checks(str(port), [read(path) for path in files]):
                told = {True: TestStatus.PASSED, False: TestStatus.FAILED, None: TestStatus.SKIPPED}
                status = told[check.passed]
                case = TestCase(name=check.name, status=status, message=check.message, duration=check.seconds)
                self.test_suite.add_case(case)
                click.echo(case.humanize())
        except MinunError as error:
            raise UnitTestSuiteError(str(error)) from None
        finally:
            virtual.stop(place)

    def _generated(self, project: Path, environment: str) -> Path:
        """Where the plugin put this environment's files."""
        option = self.project_config.get(f"env:{environment}", "custom_minun_output_dir", None)
        if option:
            return project / option
        include = Path(self.project_config.get("platformio", "include_dir"))
        return (include if include.is_absolute() else project / include) / "minun_models" / environment

    def _own_port(self, virtual_port: Path, environment: str) -> str:
        """A virtual board's port, or the one the project or PlatformIO knows for a real board."""
        if os.path.lexists(virtual_port):
            return str(virtual_port)
        for option in ("test_port", "monitor_port", "upload_port"):
            named = self.project_config.get(f"env:{environment}", option, None)
            if named:
                return str(named)
        from platformio.device.finder import SerialPortFinder

        found = SerialPortFinder(
            board_config=self.platform.board_config(self.project_config.get(f"env:{environment}", "board"))
        ).find()
        if not found:
            raise UnitTestSuiteError("no serial port found; name it: pio test --test-port PORT")
        return str(found)
