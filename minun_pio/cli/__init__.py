# SPDX-License-Identifier: Apache-2.0
"""`minun`: the only place that prints. Commands are imported when called, so that `--help` is quick."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from minun_pio import __version__
from minun_pio.errors import MinunError, internal, pip_install, pip_name

COMMANDS = {
    "build": "Make the C++ of models for a board.",
    "search": "Search number formats and show every candidate.",
    "evaluate": "Measure a model's accuracy, exactly as the board computes.",
    "plan": "Plan the memory of buffers given as CSV.",
    "report": "Show what was decided for a model and why.",
    "collect": "Run samples on a board and compare its answers.",
    "check": "Check a linked firmware: heap, and where AVR's constants lie.",
    "boards": "List known boards; start and stop virtual ones.",
    "where": "Print where the headers, the CMake function and the PlatformIO library lie.",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"minun_pio.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(
    cls=_Commands,
    no_args_is_help=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="minun")
@click.pass_context
def root(ctx: click.Context) -> None:
    """Accurate machine learning on microcontrollers: model.yaml to C++ that the board computes to the bit."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """The console script. Every failure is one line on stderr and an exit status that is not 0."""
    try:
        status = root.main(standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.Abort:
        _stop("interrupted", 130)
    except click.ClickException as error:
        _stop(error.format_message().replace("\n", " "), error.exit_code)
    except MinunError as error:
        _stop(str(error), 1)
    except BrokenPipeError:
        _nobody_reads()
    except ImportError as error:
        if error.name is None or error.name.startswith("minun_pio"):
            _stop(str(internal(error)), 1)
        name = pip_name(error)
        _stop(f"the Python package '{name}' is missing; run: {pip_install(name)}", 1)
    except OSError as error:
        if sys.platform == "win32" and error.errno == errno.EINVAL and error.filename is None:
            _nobody_reads()  # what Windows says of a closed pipe
        _stop(f"{error.filename or 'file'}: {error.strerror or error} [file.error]", 1)
    except Exception as error:
        _stop(str(internal(error)), 1)


def _nobody_reads() -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)


def _stop(message: str, status: int) -> NoReturn:
    sys.stdout.flush()
    click.echo(f"minun: error: {message}", err=True)
    sys.exit(status)
