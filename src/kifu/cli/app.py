"""The click application, the decorator of its commands, and the entry point."""

from __future__ import annotations

import errno
import inspect
import io
import logging
import os
import re
import shutil
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kifu import __version__
from kifu.cli.options import OUTPUT
from kifu.errors import KifuError, OutputError, RecipeError, first_line, join_lines, missing_extras, printable
from kifu.text import Report

if TYPE_CHECKING:
    from kifu.progress import Progress

INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""


class _Formatter(click.HelpFormatter):
    """Leaves at least half of a narrow line to descriptions."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names and descriptions."""
        super().write_dl(rows, min(col_max, self.width // 2 - 6), col_spacing)


PANELS = {
    "Begin": {"demo": "demo", "fetch": "records", "list": "reference"},
    "Look at files": {"show": "records", "convert": "records"},
    "Make a corpus of games": dict.fromkeys(("ingest", "stats", "query", "split", "audit"), "corpus"),
    "Search a corpus": {"search": "search", "explore": "search", "serve": "serve"},
    "Make data sets": {"build": "datasets", "publish": "datasets"},
    "Train and measure nets": dict.fromkeys(("train", "evaluate", "annotate", "mix", "export"), "learning"),
    "Predict and play": {"predict": "learning", "problems": "learning", "gtp": "play", "match": "play"},
}
"""The panels of the help, and the module of each command, which registers it when it is imported."""

_RENAMED = {
    **{each: f"kifu list {each}" for each in ("recipes", "planes", "formats", "nets", "ranks")},
    "inspect": "kifu show",
    "compact": "kifu ingest --compact -o FOLDER",
    "benchmark": "kifu evaluate --set NAME",
    "index": "part of kifu search and kifu explore",
}
"""Commands of version 0.17.0, and those that replace them."""


class Group(click.Group):
    """The root: imports the modules of the commands that are asked for."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; `kifu help COMMAND` and `kifu version` are other spellings of options."""
        ctx.formatter_class = _Formatter
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, ["--version"] if args == ["version"] else args)

    def list_commands(self, ctx: click.Context | None) -> list[str]:
        """Return the names of the commands."""
        return [name for panel in PANELS.values() for name in panel]

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> Command | None:
        """Return a command."""
        for panel in PANELS.values():
            if cmd_name in panel:
                import_module(f"kifu.cli.{panel[cmd_name]}")
        command = self.commands.get(cmd_name)
        assert command is None or isinstance(command, Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and summaries of the commands by panel."""
        indent = max(map(len, self.list_commands(ctx)))
        for panel, names in PANELS.items():
            with formatter.section(panel):
                commands = [(name.ljust(indent), self.get_command(ctx, name)) for name in names]
                formatter.write_dl([(name, str(each and each.help).partition("\n")[0]) for name, each in commands])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and return its exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            return INTERRUPTED


class Command(click.Command):
    """A command that delivers the outcome of its function, with the options that are common to all.

    Attributes:
        examples: Command lines that run one after another in an empty directory, beside a folder `sample`.
    """

    def __init__(self, *, examples: Sequence[str], kernels: bool, has_result: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self.examples, self._kernels = examples, kernels
        self._protects = has_result and all(each.name != "overwrite" for each in self.params)
        self.params += [*[_JSON] * has_result, *[_OVERWRITE] * self._protects, *_VERBOSITY]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        ctx.formatter_class = _Formatter
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        with formatter.section("Examples"):
            for line in self.examples:
                formatter.write(f"  {line}\n")

    def invoke(self, ctx: click.Context) -> int:
        """Run the command and return its exit code."""
        arguments = dict(ctx.params)
        json, quiet, verbose = arguments.pop("json", None), arguments.pop("quiet"), arguments.pop("verbose")
        _set_verbosity(quiet, verbose)
        overwrite = arguments.pop("overwrite") if self._protects else arguments.get("overwrite", False)
        outputs = (
            map(arguments.get, ("output", "html", "hits")) if self._protects and not arguments.get("dry_run") else ()
        )
        for path in (json, *outputs):
            if path is not None and path.is_file():  # else a folder, - or a device
                from kifu.io import keep_output

                keep_output(path, overwrite)
        if self._kernels:
            from kifu.io import skip_pandas
            from kifu.kernel import announce_compilation

            skip_pandas()
            if not quiet:
                announce_compilation()
        assert self.callback is not None
        outcome: Outcome | None = ctx.invoke(self.callback, **arguments)
        if outcome is not None:
            _deliver(outcome, json)
        if verbose:
            _print_resources()
        return 0 if outcome is None else outcome.code


_JSON = click.Option(["--json"], metavar="FILE", type=OUTPUT, help="Write the result as JSON; - prints it.")
_OVERWRITE = click.Option(["--overwrite"], is_flag=True, help="Replace existing files.")
_VERBOSITY = (
    click.Option(["-q", "--quiet"], is_flag=True, help="Print errors and requested results only."),
    click.Option(["-v", "--verbose"], is_flag=True, help="Print resources used, and tracebacks of errors."),
)


@click.group(
    cls=Group,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, message="kifu %(version)s")
@click.pass_context
def app(context: click.Context) -> None:
    """Turn Go game records into clean, reproducible training sets; train, evaluate and play networks.

    Begin with `kifu demo`, or with `kifu fetch sample` and the examples in each command's help.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


Function = TypeVar("Function", bound=Callable[..., "Outcome | None"])


def command(*examples: str, kernels: bool = True, has_result: bool = True) -> Callable[[Function], Function]:
    """Register a command, see `Command`.

    Args:
        kernels: False if it runs no compiled kernels and does not convert Arrow's arrays.
        has_result: False if the function returns None.
    """

    def register(function: Function) -> Function:
        settings = {"help": inspect.getdoc(function), "kernels": kernels, "has_result": has_result}
        name = function.__name__.rstrip("_")
        app.command(name, cls=Command, examples=examples, **settings)(function)
        return function

    return register


_QUIET, _NORMAL, _VERBOSE = range(3)
_verbosity = _NORMAL
_interrupt_note = _NOTHING_LEFT = "no partial output was left"
_interrupt_printed = threading.Event()


@dataclass(frozen=True)
class Outcome:
    """The result of a command.

    Attributes:
        text: Lines for people, a function that prints them, or None if they were printed.
        data: An object with a method `to_json`, a list of objects with `to_dict`, or a JSON value.
        summary: True if the command wrote the files that it was given for; --quiet leaves the text out then.
        write: Writes a further file once the text is printed, so that no result is lost if that fails.
    """

    text: str | Callable[[], object] | None
    data: Any
    summary: bool = False
    write: Callable[[], object] | None = None
    code: int = 0

    @classmethod
    def of_output(cls, path: Path, report: object, data: Any = None, code: int = 0) -> Outcome:
        """Return the outcome of a command that wrote `path`; `data` is the report itself by default."""
        return cls(f"{printable(path)}: {report}", report if data is None else data, summary=True, code=code)


_SHOWN = 10
"""Number of inputs or outputs that are listed as text."""


@dataclass(frozen=True)
class Plan(Report):
    """The result of --dry-run: inputs and outputs of a command, and a report that estimates its work, if any."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    estimate: Any = None

    @classmethod
    def of(cls, reads: Sequence[object], writes: Sequence[Path], estimate: Any = None) -> Plan:
        """Return a plan. Raises OutputError if an output cannot be written."""
        for path in writes:
            _check_writable(path)
        return cls(tuple(map(str, reads)), tuple(map(str, writes)), estimate)

    @classmethod
    def of_sources(cls, sources: Sequence[str], writes: Sequence[Path], estimate: Any = None) -> Plan:
        """Return a plan that reads sources. Raises SourceError, FormatError, OutputError."""
        from kifu.corpus.sources import count_left_out, find_sources

        found = find_sources(sources)
        count_left_out(found).log_listed()
        return cls.of([source.path for source in found], writes, estimate)

    @classmethod
    def of_catalogues(cls, catalogues: Sequence[str | Path], writes: Sequence[Path]) -> Plan:
        """Return a plan that reads catalogues. Raises FormatError, OutputError."""
        from kifu.corpus.catalogue import open_catalogue

        return cls.of([f"{found.path}: {found.rows:,} games" for found in map(open_catalogue, catalogues)], writes)

    def outcome(self, show: Callable[[], object] | None = None) -> Outcome:
        """Return the outcome of a command that was given --dry-run; `show` prints the estimate, by default as text."""

        def show_all() -> None:
            echo(join_lines([*_list_paths("reads", self.reads), *_list_paths("writes", self.writes)]))
            if show is not None:
                show()
            elif self.estimate is not None:
                echo(str(self.estimate))
            echo("dry run: nothing was written")

        return Outcome(show_all, self)


def _list_paths(verb: str, paths: Sequence[str]) -> list[str]:
    more = [f"  and {len(paths) - _SHOWN:,} more"] if len(paths) > _SHOWN else []
    return [f"{verb}:" if paths else f"{verb}: nothing", *(f"  {path}" for path in paths[:_SHOWN]), *more]


def _check_writable(path: Path) -> None:
    existing = next(parent for parent in (path.absolute(), *path.absolute().parents) if parent.exists())
    is_no_folder = existing != path.absolute() and not existing.is_dir()
    if is_no_folder or not os.access(existing, os.W_OK):
        reason = os.strerror(errno.ENOTDIR if is_no_folder else errno.EACCES)
        raise OutputError(f"cannot write {path}: {reason}")


def progress(label: str, total: int | None, unit: str) -> AbstractContextManager[Progress]:
    """Show the progress of some work on standard error unless the command is quiet; see `kifu.progress.progress`."""
    from kifu import progress as bars

    return (bars.silent if _verbosity == _QUIET else bars.progress)(label, total, unit)


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _NewMessages(logging.Filter):
    """Lets each message pass once: a dry run reads the sources twice."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        is_new = text not in self._seen
        self._seen.add(text)
        return is_new


def note_for_interrupt(text: str) -> None:
    """Set what is printed if the command is interrupted from now on."""
    global _interrupt_note
    _interrupt_note = text


def print_interrupted() -> None:
    """Print, once, that the command was interrupted; also called by a thread that ends the process."""
    if not _interrupt_printed.is_set():
        _interrupt_printed.set()
        print(f"kifu: interrupted; {_interrupt_note}", file=sys.stderr, flush=True)


def _set_verbosity(quiet: bool, verbose: bool) -> None:
    """Set the amount of output; notes that packages log are printed unless the command is quiet."""
    global _verbosity
    if quiet and verbose:
        raise RecipeError("--quiet and --verbose exclude each other")
    _verbosity = _NORMAL + verbose - quiet
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_NewMessages())
    handler.setFormatter(_OneLine("kifu: %(message)s"))
    log = logging.getLogger("kifu")
    log.handlers = [handler]
    log.setLevel((logging.ERROR, logging.INFO, logging.DEBUG)[_verbosity])


def _deliver(outcome: Outcome, json: Path | None) -> None:
    if json != Path("-") and not (outcome.summary and _verbosity == _QUIET):
        if callable(outcome.text):
            outcome.text()
        elif outcome.text:
            echo(outcome.text)
    if outcome.write is not None:
        outcome.write()
    if json is None:
        return
    from kifu.text import json_text

    text = outcome.data.to_json() if hasattr(outcome.data, "to_json") else json_text(outcome.data)
    if json == Path("-"):
        click.echo(text, nl=False)
    else:
        from kifu.io import write_output

        write_output(json, text.encode())


def echo(text: str) -> None:
    """Print lines of text, in which all characters that a terminal might interpret are escaped."""
    click.echo(join_lines(text.split("\n")))


def _print_resources() -> None:
    from kifu.process import peak_memory
    from kifu.text import format_bytes, format_seconds

    elapsed, processor = format_seconds(time.time() - _START), format_seconds(time.process_time())
    memory = f", peak memory {format_bytes(peak)}" if (peak := peak_memory()) else ""
    print(f"kifu: {elapsed}, {processor} of processor time{memory}", file=sys.stderr)


_START = time.time()


def main() -> None:
    """Run the command line; an error becomes one line on standard error and exit code 2."""
    # Arrow's own pool keeps freed memory, which costs an ingest 80 MB without a gain in speed.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):  # libraries would read them in this folder
        if not Path(os.environ.get(name, "/")).is_absolute():
            del os.environ[name]
    _make_streams_safe()
    _set_verbosity(quiet=False, verbose=False)
    _interrupt_printed.clear()
    note_for_interrupt(_NOTHING_LEFT)  # of an earlier command of this process
    _require_working_directory()
    try:
        _refuse_empty(sys.argv[1:])
        with missing_extras(), _termination_interrupts() as received:
            width = min(shutil.get_terminal_size().columns, 80)
            code = app(prog_name="kifu", standalone_mode=False, terminal_width=width)
            sys.stdout.flush()
    except click.exceptions.Exit:  # the reader of the output has gone
        code = 0
    except click.Abort:
        code = INTERRUPTED
    except click.UsageError as error:
        _fail(_usage_error(error))
    except KifuError as error:
        _fail(str(error), error)
    except UnicodeEncodeError as error:  # of bytes in an argument that is no path
        _fail(f"{error.object!r} is not text in UTF-8", error)
    except MemoryError as error:  # also of NumPy and Arrow
        _fail(f"out of memory ({first_line(error)}); a smaller --jobs takes less", error)
    except Exception as error:
        if isinstance(error, FileNotFoundError) and not _has_temporary_folder():
            _fail("there is no folder for temporary files: set TMPDIR to one that is writable", error)
        _fail(f"unexpected {type(error).__name__}: {first_line(error)}; --verbose shows the traceback", error)
    if code == INTERRUPTED:
        print_interrupted()
    sys.exit(128 + received[0] if received else code)


_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def _termination_interrupts() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP interrupt like Ctrl-C, so that temporary files are removed; yield those received.

    The argument of KeyboardInterrupt is the number of the signal; without one, it is SIGINT.

    Signals that are ignored, such as SIGHUP under nohup, remain so. Further signals do not disturb the removal.
    """
    received: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        received.append(number)
        if len(received) == 1:
            raise KeyboardInterrupt(number)

    numbers = [each for each in _ENDING if signal.getsignal(each) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, interrupt)
    try:
        yield received
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _require_working_directory() -> None:
    """End the program if the working directory was removed: libraries fail to load then, and only help can be shown."""
    if len(sys.argv) > 1 and not {"--help", "-h", "--version"}.intersection(sys.argv):
        try:
            Path.cwd()
        except OSError as error:
            _fail(f"the working directory cannot be used: {error.strerror}")


def _has_temporary_folder() -> bool:
    import tempfile

    with suppress(FileNotFoundError):
        return bool(tempfile.gettempdir())
    return False


class _StandardStream(io.FileIO):
    """Standard output or error. Once it fails, writes are discarded; a failure of standard output ends the command."""

    _failed = False

    def write(self, data: Any, /) -> int | None:  # type: ignore[override]
        """Write bytes. Raises Exit if the reader has gone, and OutputError."""
        try:
            return len(data) if self._failed else super().write(data)
        except OSError as error:
            self._failed = True
            if self.fileno() == 1 and isinstance(error, BrokenPipeError):
                raise click.exceptions.Exit from None
            if self.fileno() == 1:
                raise OutputError(f"cannot write to standard output: {error.strerror}") from None
            return len(data)


def _make_streams_safe() -> None:
    """Keep closed and full streams, and characters that a terminal lacks, from failing, and log in one line."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:  # closed, as of daemons
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "w" if number else "r"))
        elif number and stream is getattr(sys, f"__{name}__"):
            buffer = io.BufferedWriter(_StandardStream(number, "w", closefd=False))
            lines = number == 2 or stream.isatty()
            setattr(sys, name, io.TextIOWrapper(buffer, stream.encoding, "backslashreplace", line_buffering=lines))
        elif number and isinstance(stream, io.TextIOWrapper):  # another one of the program that calls `main`
            stream.reconfigure(errors="backslashreplace")
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_OneLine("%(message)s"))
    warnings.showwarning = _show_warning


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    print(f"kifu: {category.__name__}: {printable(message)}", file=sys.stderr)


def _refuse_empty(arguments: list[str]) -> None:
    """Raise RecipeError if an argument is empty; as a path it would be the current folder."""
    if any(not each or re.fullmatch("--[a-z-]+=", each) for each in arguments):
        raise RecipeError("an argument is empty: a path or value has at least one character")


def print_traceback(error: BaseException) -> None:
    """Print the traceback of an error if the command is verbose."""
    if _verbosity == _VERBOSE:
        trace = "".join(traceback.format_exception(error)).rstrip()
        print(join_lines(f"  {each}" for each in trace.split("\n")), file=sys.stderr)


def _fail(line: str, error: BaseException | None = None) -> None:
    if error is not None:
        print_traceback(error)
    print(f"kifu: {printable(line)}", file=sys.stderr)
    sys.exit(2)


def _usage_error(error: click.UsageError) -> str:
    match error:
        case click.NoSuchOption():
            near = [f"; did you mean {name}?" for name in error.possibilities or ()][:1]
            line = "".join([f"unknown option {error.option_name}", *near])
        case click.NoSuchCommand() if error.command_name in _RENAMED:
            return f"the command {error.command_name} is now {_RENAMED[error.command_name]}"
        case click.NoSuchCommand():
            from kifu.registry import suggestion

            line = f"unknown command {error.command_name!r}{suggestion(error.command_name, app.list_commands(None))}"
        case click.BadParameter(param=click.Parameter() as param) if not isinstance(error, click.MissingParameter):
            line = f"{param.get_error_hint(error.ctx)} {error.message}".replace("'", "", 2)
        case _:
            line = " ".join(error.format_message().split()).rstrip(".")
            line = line[:1].lower() + line[1:]
    if error.ctx is None:
        return line
    return f"{line}{'' if line.endswith('?') else ';'} see {error.ctx.command_path} --help"
