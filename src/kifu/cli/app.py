"""The Typer application, the decorator of its commands, and the entry point."""

from __future__ import annotations

import copy
import errno
import functools
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

import typer
from typer._coercion import build_runtime_param
from typer.core import TyperCommand, TyperGroup

from kifu import __version__
from kifu.cli.options import OutputFile
from kifu.errors import KifuError, OutputError, RecipeError, first_line, join_lines, missing_extras, printable
from kifu.text import Report

if TYPE_CHECKING:
    from kifu.progress import Progress

INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""


_PATHS = re.compile(
    r"[AB]|CATALOGUE|COMMAND|DATASET|FILE|GAME|KEY=VALUE|NET|RECIPE|RULES|\[?SOURCE\b.*|SPLIT|URL\|FILE", re.ASCII
)
"""Metavars of values that may be paths, whose bytes need not be text."""


class _Value:
    """Converts the value of a parameter without pydantic, which takes as long to load as all else, where it can."""

    def __init__(self, param: Any) -> None:
        self._type, self._parser = param.type_descriptor, param.type_descriptor.parameter_info.parser
        self._many = param.multiple or param.nargs == -1
        self._is_text = self._type.annotation in (str, list[str]) and not _PATHS.fullmatch(param.metavar or "")
        self._min, self._max = param.min, param.max

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value; raise BadParameter if it is not of the parameter's type."""
        if value is None:
            return () if self._many else None
        if self._is_text and not (text := "".join(value)).isascii():
            text.encode()  # an error for bytes that are no text, see main()
        if self._parser is not None and not self._many:
            return self._parser(value)
        if (
            self._type.annotation is int
            and re.fullmatch(r"\d{1,9}", str(value), re.ASCII)
            and (self._min or 0) <= int(value) <= (10**9 if self._max is None else self._max)
        ):
            return int(value)
        kind = get_args(self._type.annotation)[0] if self._many else self._type.annotation
        if all(type(each) is kind or kind is Path for each in (value if self._many else [value])):
            return [kind(each) for each in value] if self._many else kind(value)
        return build_runtime_param(self._type).coerce(value, param, ctx)


class _PlainHelp:
    """Leaves the types of flags and arguments out of the help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, flags and arguments without a type."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            param._runtime_param = _Value(param)
            if getattr(param, "is_flag", False):
                param.metavar = ""
            elif param.param_type_name == "argument":
                param.display_type = lambda ctx: ""
        return params


class _Group(_PlainHelp, TyperGroup):
    """The root: suggests a command for an unknown one."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; raise RecipeError for an unknown name."""
        command = super().get_command(ctx, cmd_name)
        if command is None and not cmd_name.startswith("-") and not ctx.resilient_parsing:
            from kifu.registry import suggestion

            hint = suggestion(cmd_name, self.commands) or ";"
            raise RecipeError(f"unknown command {cmd_name!r}{hint} see kifu --help")
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands, panel by panel."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for each in app.registered_commands:
            name, text = getattr(each.callback, "__name__", ""), (each.callback.__doc__ or "").partition("\n")[0]
            panels.setdefault(str(each.rich_help_panel), []).append((name, text))
        indent = max(len(name) for rows in panels.values() for name, _ in rows)
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl([(name.ljust(indent), text) for name, text in rows])


class Command(_PlainHelp, TyperCommand):
    """A command whose help ends with examples.

    Attributes:
        examples: Command lines that run one after another in an empty directory, beside a folder `sample`.
    """

    def __init__(self, *, epilog: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.examples = epilog.splitlines()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help and the examples."""
        super().format_help(ctx, formatter)
        with formatter.section("Examples"):
            for line in self.examples:
                formatter.write(f"  {line}\n")


app = typer.Typer(
    name="kifu",
    cls=_Group,
    help="Turn Go game records into clean, reproducible training sets; train, evaluate and play networks.\n\n"
    "Begin with `kifu demo`, or with `kifu fetch sample` and the examples in each command's help.",
    invoke_without_command=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich's help takes longer to load than all else
    context_settings={
        "help_option_names": ["-h", "--help"],
        "terminal_width": min(shutil.get_terminal_size().columns, 80),
    },
)


class Verbosity(IntEnum):
    """The amount of output on standard error."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


_verbosity = Verbosity.NORMAL
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


Function = TypeVar("Function", bound=Callable[..., Outcome | None])

_COMMON = {
    "json": Annotated[Path | None, OutputFile(help="Write the result as JSON; - prints it.")],
    "overwrite": Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")],
    "quiet": Annotated[bool, typer.Option("-q", "--quiet", help="Print errors and requested results only.")],
    "verbose": Annotated[bool, typer.Option("-v", "--verbose", help="Print resources used, and tracebacks of errors.")],
}


def command(panel: str, *examples: str, kernels: bool = False) -> Callable[[Function], Function]:
    """Register a command, with the options that are common to all.

    Args:
        panel: Panel of the help that lists the command.
        examples: See `Command.examples`.
        kernels: True if it runs compiled kernels.
    """

    def register(function: Function) -> Function:
        run = _Invocation(function, kernels)
        app.command(cls=Command, epilog="\n".join(examples), rich_help_panel=panel)(run)
        return function

    return register


class _Invocation:
    """Runs a command and delivers its outcome. The annotations of its parameters are evaluated if Typer needs them."""

    def __init__(self, function: Callable[..., Outcome | None], kernels: bool) -> None:
        functools.update_wrapper(self, function)
        self._function, self._kernels = function, kernels
        self.__annotations__ = {}

    @property
    def __signature__(self) -> inspect.Signature:
        signature = inspect.signature(self._function, eval_str=True)
        defaults: dict[str, Any] = {"json": None, "overwrite": False, "quiet": False, "verbose": False}
        if signature.return_annotation is None:
            del defaults["json"], defaults["overwrite"]
        defaults = {name: value for name, value in defaults.items() if name not in signature.parameters}
        options = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_COMMON[name])
            for name, default in defaults.items()
        ]
        return signature.replace(parameters=[*signature.parameters.values(), *options])

    def __call__(self, *, json: Path | None = None, quiet: bool, verbose: bool, **arguments: Any) -> int:
        _set_verbosity(quiet, verbose)
        own = "overwrite" in inspect.signature(self._function).parameters
        overwrite = arguments["overwrite"] if own else arguments.pop("overwrite", False)
        outputs = () if own or arguments.get("dry_run") else map(arguments.get, ("output", "html", "hits"))
        for path in (json, *outputs):
            if path is not None and path.is_file():  # else a folder, - or a device
                from kifu.io import keep_output

                keep_output(path, overwrite)
        if self._kernels and not quiet:
            from kifu.kernel import announce_compilation

            announce_compilation()
        outcome = self._function(**arguments)
        if outcome is not None:
            _deliver(outcome, json)
        if verbose:
            _print_resources()
        return 0 if outcome is None else outcome.code


def progress(label: str, total: int | None, unit: str) -> AbstractContextManager[Progress]:
    """Show the progress of some work on standard error unless the command is quiet; see `kifu.progress.progress`."""
    from kifu import progress as bars

    return (bars.silent if _verbosity == Verbosity.QUIET else bars.progress)(label, total, unit)


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _NewMessages(logging.Filter):
    """Lets each message pass once: a dry run reads the sources twice."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True for a new message."""
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
    _verbosity = Verbosity(1 + verbose - quiet)
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_NewMessages())
    handler.setFormatter(_OneLine("kifu: %(message)s"))
    log = logging.getLogger("kifu")
    log.handlers = [handler]
    log.setLevel((logging.ERROR, logging.INFO, logging.DEBUG)[_verbosity])


def _deliver(outcome: Outcome, json: Path | None) -> None:
    if json != Path("-") and not (outcome.summary and _verbosity == Verbosity.QUIET):
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
        typer.echo(text, nl=False)
    else:
        from kifu.io import write_output

        write_output(json, text.encode())


def echo(text: str) -> None:
    """Print lines of text, in which all characters that a terminal might interpret are escaped."""
    typer.echo(join_lines(text.split("\n")))


def _print_resources() -> None:
    from kifu.process import peak_memory
    from kifu.text import format_bytes, format_seconds

    elapsed, processor = format_seconds(time.time() - _START), format_seconds(time.process_time())
    memory = f", peak memory {format_bytes(peak)}" if (peak := peak_memory()) else ""
    print(f"kifu: {elapsed}, {processor} of processor time{memory}", file=sys.stderr)


_START = time.time()


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"kifu {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


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
            code = typer.main.get_command(_needed(sys.argv[1:2]))(prog_name="kifu", standalone_mode=False)
            sys.stdout.flush()
    except typer.Exit:  # the reader of the output has gone
        code = 0
    except typer.TyperException as error:
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


def _needed(names: list[str]) -> typer.Typer:
    """Return the application with those commands that the first argument, if any, needs, since Typer builds each.

    Shells that complete a command line give no arguments.
    """
    if "_KIFU_COMPLETE" in os.environ:
        return app
    application = copy.copy(app)
    named = [each for each in app.registered_commands if each.callback and [each.callback.__name__] == names]
    none = not names or names[0] in ("--help", "-h", "--version")
    application.registered_commands = named if named or none else app.registered_commands
    return application


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
                raise typer.Exit from None
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
    if _verbosity == Verbosity.VERBOSE:
        trace = "".join(traceback.format_exception(error)).rstrip()
        print(join_lines(f"  {each}" for each in trace.split("\n")), file=sys.stderr)


def _fail(line: str, error: BaseException | None = None) -> None:
    if error is not None:
        print_traceback(error)
    print(f"kifu: {printable(line)}", file=sys.stderr)
    sys.exit(2)


def _usage_error(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    option = getattr(error, "option_name", None)
    possibilities = getattr(error, "possibilities", None)
    invalid = getattr(error.__cause__, "errors", None)  # of pydantic, which validates the values
    if type(error).__name__ == "NoSuchOption":
        line = f"unknown option {option}" + (f"; did you mean {possibilities[0]}?" if possibilities else "")
    else:
        line = " ".join(error.format_message().split()).rstrip(".")
        line = line[:1].lower() + line[1:]
    if invalid is not None:
        line = f"{line}, got {invalid()[0]['input']!r}"
    if context is None:
        return line
    return f"{line}{'' if line.endswith('?') else ';'} see {context.command_path} --help"
