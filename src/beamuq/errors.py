"""The one exception that users read, and its hints for unknown names."""

from __future__ import annotations

import difflib
import os
import stat
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from beamuq.secret_masking import masked


class BeamUQError(ValueError):
    """Bad configuration, data or environment, in one line: file, key, value and the fix.

    Whatever the message quotes, it shows no secret, and its line breaks and invisible characters
    are escaped.
    """

    def __init__(self, message: str) -> None:
        super().__init__("".join(map(_printable, masked(message))))


class ServerLostError(BeamUQError):
    """A model server that answers no more.

    ``finished`` is what was complete before: rows of :func:`beamuq.decode` in their order, or the
    frame of :func:`beamuq.ask_all`; ``None`` where nothing was.
    """

    def __init__(self, message: str, finished: Any = None) -> None:
        super().__init__(message)
        self.finished = finished


def _printable(character: str) -> str:
    """A character, escaped where it would not show or would end the line."""
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


def reason(error: BaseException) -> str:
    """The message of a foreign error in one line; its type where the message is empty."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def check_ends(path: Path) -> None:
    """Refuse a FIFO, a socket or a device: reading one may wait for ever, or never end.

    Raises BeamUQError naming it. What does not exist or cannot be looked at passes.
    """
    with suppress(OSError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise BeamUQError(
                f"{path}: a FIFO or a device, no file; write its content to a file, and give that"
            )


@contextmanager
def reading(place: str | Path, what: str, fix: str) -> Iterator[None]:
    """Turn any exception of a parser's call into one line that names the place.

    Raises BeamUQError naming ``place``, ``what`` it is not, why, and the ``fix``; before the call,
    if ``place`` is a path as of :func:`check_ends`.
    """
    if isinstance(place, Path):
        check_ends(place)
    try:
        yield
    except BeamUQError:
        raise
    except FileNotFoundError as error:
        raise BeamUQError(f"{place}: no such file") from error
    except Exception as error:
        # without a number a parser says that the content is damaged
        if isinstance(error, OSError) and error.errno is not None:
            raise BeamUQError(
                f"{place}: cannot be read ({reason(error)}); mend that and run again"
            ) from error
        raise BeamUQError(f"{place}: not {what} ({reason(error)}); {fix}") from error


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice nearest to ``name``, whatever the case of letters; None: no choice is near."""
    spelled = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), spelled, n=1)
    return spelled[near[0]] if near else None


def hint(name: str, choices: Iterable[str], beyond: str = "") -> str:
    """The fix for an unknown ``name``: the nearest choice, or else all of them and ``beyond``."""
    names = list(choices)
    near = nearest(name, names)
    return f"did you mean {near!r}?" if near else f"known: {', '.join(names)}{beyond}"


def exit_with_one_line(main: Callable[[], None]) -> None:
    """Run a program. Exit status 0: done; 2: one line on stderr says why not; 1: its own fault.

    Not faults of the program: bad input, a file that cannot be read or written, too little memory,
    a reader of the output that has gone, Ctrl-C. Only a fault shows its traceback; in a step,
    stderr is the job's log.
    """
    try:
        main()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python reports it once more at its end
        raise SystemExit(141) from None
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        raise SystemExit(130) from None
    except (BeamUQError, OSError, MemoryError) as error:
        print(f"error: {line_of(error)}", file=sys.stderr)
        raise SystemExit(2) from None
    except Exception as error:
        traceback.print_exc()
        fault = BeamUQError(f"a fault of beamuq ({type(error).__name__}: {reason(error)})")
        print(f"error: {fault}; please report it with the traceback above", file=sys.stderr)
        raise SystemExit(1) from None


def print_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning in one line on stderr: a program's ``warnings.showwarning``."""
    print(f"warning: {message}", file=sys.stderr)


def line_of(error: BaseException) -> str:
    """The line that reports bad input, an unreadable or unwritable file, or too little memory."""
    line = str(error)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename is not None else ""
        line = f"{place}cannot be read or written ({reason(error)}); mend that and run again"
    if isinstance(error, MemoryError):
        line = f"not enough memory ({reason(error)}); give it more, or less to do at once"
    return str(BeamUQError(line))
