"""Reads files that a user named, or that another file named, whatever they are, within bounds; and
writes those that a user named."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from strata.errors import StrataError, why_refused

MOST_TEXT = 64 << 20  # of statistics, plans, lists of hosts
MOST_BINARY = 4 << 30  # of programs and libraries with their debug information
MOST_LINKS = 40  # as the kernel
ROOT = 0
STANDARD_STREAM = re.compile("/proc/self/fd/[012]")
KINDS = (
    (stat.S_ISDIR, "is a directory"),
    (stat.S_ISCHR, "is a device"),
    (stat.S_ISBLK, "is a device"),
    (stat.S_ISFIFO, "is a pipe, not a file"),
    (stat.S_ISSOCK, "is a socket"),
)


class UnreadableError(StrataError):
    """The text is why, without the file's name."""


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return why_refused(error)
    return "no file has such a name"


def open_file(path: Path) -> BinaryIO:
    """A regular file for reading. Anything else is refused, and nothing is waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        raise UnreadableError(_why(error)) from error
    mode = os.fstat(descriptor).st_mode
    for is_kind, what in KINDS:
        if is_kind(mode):
            os.close(descriptor)
            raise UnreadableError(what)
    return os.fdopen(descriptor, "rb")


def read_within(path: Path, most: int) -> bytes:
    """All of a regular file; UnreadableError if there is none, or it has more than `most` bytes."""
    with open_file(path) as file:
        try:
            # Files of the kernel's making say that they are empty, and may have no end.
            data = b"" if os.fstat(file.fileno()).st_size > most else file.read(most + 1) or b""
        except OSError as error:
            raise UnreadableError(_why(error)) from error
        if len(data) > most or os.fstat(file.fileno()).st_size > most:
            raise UnreadableError(f"is larger than {most >> 20} MiB")
    return data


def read_file(path: Path, most: int = MOST_TEXT, named_by: str = "") -> bytes:
    """The same, and the error says which file it was."""
    try:
        return read_within(path, most)
    except UnreadableError as error:
        where = f"{named_by} {path}" if named_by else str(path)
        raise StrataError(f"{where}: {error}") from error


def follow(path: Path) -> Path:
    """Where a name for an output leads. A link that another user made is refused, as the library
    does: in a folder where anyone may add, it may lead to any file of ours."""
    first = path
    for _ in range(MOST_LINKS):
        try:
            found = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return path  # opening it will tell
        except OSError as error:
            raise StrataError(f"{path}: {_why(error)}") from error
        if not stat.S_ISLNK(found.st_mode) or _is_descriptor(path):
            return path
        target = path.readlink()
        # In a user namespace root's /dev/stdout is nobody's. To a standard stream any may lead.
        harmless = STANDARD_STREAM.fullmatch(str(target)) is not None
        if not harmless and found.st_uid not in (ROOT, os.geteuid()):
            raise StrataError(f"{path}: is a link of another user's")
        path = path.parent / target
    raise StrataError(f"{first}: too many links")


def _is_descriptor(path: Path) -> bool:
    """What /dev/stdout leads to: not where its text says."""
    return os.path.realpath(path.parent).startswith("/proc/")


def write_file(path: Path, data: str | bytes) -> None:
    """What a user named for an output. Text is UTF-8 wherever we are; what is no letter, as in
    names of files, is escaped."""
    place = follow(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOCTTY
    if not _is_descriptor(place):
        flags |= os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(place, flags, 0o666), "wb") as file:
            file.write(data.encode(errors="backslashreplace") if isinstance(data, str) else data)
    except (OSError, ValueError) as error:
        raise StrataError(f"{path}: {_why(error)}") from error


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise StrataError(f"{path}: {_why(error)}") from error


def check_there(path: Path) -> None:
    """Refuses a file or folder that is not there, or of which nobody may know."""
    try:
        path.stat()
    except (OSError, ValueError) as error:
        raise StrataError(f"{path}: {_why(error)}") from error


def check_output(path: Path) -> None:
    """Refuses what no file can be written to, before there is work to lose. A device is refused
    too: many files are written beside their place and put there, which would replace it."""
    if not path.absolute().parent.is_dir():
        raise StrataError(f"{path.parent}: no such directory")
    follow(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if not os.access(path.absolute().parent, os.W_OK):
            raise StrataError(f"{path.parent}: permission denied") from None
        return
    except OSError as error:
        raise StrataError(f"{path}: {_why(error)}") from error
    for is_kind, what in KINDS:
        if is_kind(mode):
            raise StrataError(f"{path}: {what}")
    if not os.access(path, os.W_OK):
        raise StrataError(f"{path}: permission denied")
