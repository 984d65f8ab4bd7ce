"""`strata run --learn DIR`: has the command write lifetime profiles, and names the functions in
them when it has ended, here, where its files are."""

from __future__ import annotations

import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from strata.errors import StrataError, why_refused
from strata.pprof import Profile, dump, load
from strata.symbolize import symbolize

SUFFIX = ".pb.gz"
HOST = "host "  # a comment that begins so names the machine
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def safe(text: str) -> str:
    return UNSAFE.sub("_", text).strip(".") or "_"


class Recording:
    """The profiles of one command and of what it starts, in a folder that others use as well."""

    def __init__(self, folder: Path, program: str) -> None:
        if folder == Path("--"):  # the folder was forgotten, and the command goes on behind it
            raise StrataError("--learn takes a folder: --learn DIR -- COMMAND")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StrataError(f"--learn {folder}: {why_refused(error)}") from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise StrataError(f"--learn {folder}: permission denied")
        self.folder = folder.absolute()
        self.host = socket.gethostname()
        began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self.prefix = f"{safe(self.host)}-{safe(Path(program).name)}-{began}-{os.getpid()}-"

    def environment(self, minutes: float) -> dict[str, str]:
        if "%p" in str(self.folder):
            raise StrataError(f"--learn {self.folder}: %p in the name would become a process id")
        path = self.folder / f"{self.prefix}%p{SUFFIX}"
        seconds = max(1, round(minutes * 60))
        return {"STRATA_PROFILE": f"lifetime:{path}", "STRATA_PROFILE_INTERVAL": str(seconds)}

    def profiles(self) -> Iterator[Path]:
        yield from sorted(self.folder.glob(f"{self.prefix}*{SUFFIX}"))

    def name_functions(self, warn: Callable[[str], None]) -> int:
        """How many profiles there are now. One that can't be read stays as it is."""
        seen: set[str] = set()

        def warn_once(message: str) -> None:
            if message not in seen:
                warn(message)
            seen.add(message)

        count = 0
        for path in self.profiles():
            try:
                named = with_host(symbolize(load(path), warn=warn_once), self.host)
            except StrataError as error:
                warn(str(error))
                continue
            replace_whole(named, path)
            count += 1
        return count


def with_host(profile: Profile, host: str) -> Profile:
    if not any(comment.startswith(HOST) for comment in profile.comments):
        profile.comments.append(HOST + host)
    return profile


def replace_whole(profile: Profile, path: Path) -> None:
    """A reader never sees half of it."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    try:
        dump(profile, Path(name))
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
