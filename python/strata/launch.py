"""Runs one command under the preload and stays out of its way.

The command is a child in our own process group, on the same terminal and descriptors. Signals that
reach only us are handed on; those that the terminal sends reach the command by themselves. Its
exit status becomes ours, 128+n for a signal. Two seconds after its start we look in its
memory map whether the library is there.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strata.errors import StrataError

PR_SET_PDEATHSIG = 1
SI_USER = 0
SI_QUEUE = -1
SI_TKILL = -6
LOOK_AFTER_SECONDS = 2.0  # a program has long been loaded, and a wrapper has started it
NOT_WATCHED = {
    signal.SIGKILL,
    signal.SIGSTOP,
    # job control: we stop when the command does
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    # faults of our own process: they must kill it, not wait in a mask
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGSYS,
    signal.SIGTRAP,
}


@dataclass(frozen=True)
class Outcome:
    """How the command ended: its pid and the exit status to pass on, 128+n for a signal."""

    pid: int
    status: int

    @property
    def killed_by(self) -> str | None:
        """The name of the signal that ended the command."""
        return signal.Signals(self.status - 128).name if self.status > 128 else None


def _not_started(command: str, code: int) -> StrataError:
    status = 127 if code == errno.ENOENT else 126
    return StrataError(f"{command}: {os.strerror(code).lower()}", status)


def resolve(command: str, environment: Mapping[str, str]) -> Path:
    """The file that `command` names, found as execvp would; env's statuses when it cannot be."""
    if "/" in command:
        path = Path(command)
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise _not_started(command, error.errno or errno.EIO) from error
        if stat.S_ISDIR(mode) or not os.access(path, os.X_OK):
            raise StrataError(f"{command}: permission denied", 126)
        return path
    found = shutil.which(command, path=environment.get("PATH", os.defpath))
    if found is None:
        raise StrataError(f"{command}: command not found", 127)
    return Path(found)


def preload_value(library: Path, existing: str | None) -> str:
    """LD_PRELOAD with the library first, what was there kept, and no entry twice."""
    rest = (existing or "").replace(":", " ").split()
    return ":".join([str(library), *(entry for entry in rest if entry != str(library))])


def without_strata(existing: str) -> str:
    """LD_PRELOAD without libraries of ours."""
    entries = existing.replace(":", " ").split()
    return ":".join(e for e in entries if not Path(e).name.startswith("libstrata"))


def is_mapped(pid: int, library: Path) -> bool | None:
    """Whether the process has the library mapped; None if its map cannot be read."""
    try:
        wanted = library.stat()
        maps = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape")
    except OSError:
        return None
    if not maps:
        return None  # a zombie: its memory is gone already
    names = (str(library), str(library.resolve()))
    for line in maps.split("\n"):
        fields = line.split(maxsplit=5)
        if len(fields) < 6:
            continue
        # the path alone does not do for a bind mount, nor device and inode for an overlay
        major, minor = (int(part, 16) for part in fields[3].split(":"))
        same_file = (os.makedev(major, minor), int(fields[4])) == (wanted.st_dev, wanted.st_ino)
        if same_file or fields[5] in names:
            return True
    return False


@dataclass(frozen=True)
class _Signals:
    """What the command must find as it was before we changed it."""

    mask: set[signal.Signals | int]
    child_ignored: bool

    @classmethod
    def take_over(cls, watched: Iterable[int]) -> _Signals:
        mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, watched))
        # with SIGCHLD ignored the kernel would reap the command and lose its exit status
        previous = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        return cls(mask, previous == signal.SIG_IGN)

    def restore(self) -> None:
        if self.child_ignored:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)


def _become(
    program: Path, command: Sequence[str], environment: Mapping[str, str], signals: _Signals
) -> None:
    """In the child: die with the parent, undo all changes to signals, run the program."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these at its start
        signal.signal(number, signal.SIG_DFL)
    signals.restore()
    try:
        os.execve(program, list(command), dict(environment))
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        # a script without #!: what execvp and every shell do
        os.execve("/bin/sh", ["/bin/sh", str(program), *command[1:]], dict(environment))


def _start(
    program: Path, command: Sequence[str], environment: Mapping[str, str], signals: _Signals
) -> int:
    """Forks and executes; returns only once the program runs, or raises with env's status."""
    reader, writer = os.pipe()  # close-on-exec: it closes when the program has started
    pid = os.fork()
    if pid == 0:
        code = errno.EIO
        try:
            os.close(reader)
            _become(program, command, environment, signals)
        except OSError as error:
            code = error.errno or code
        finally:
            os.write(writer, code.to_bytes(4, "little"))
            os._exit(127)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        failure = pipe.read(4)
    if failure:
        os.waitpid(pid, 0)
        raise _not_started(command[0], int.from_bytes(failure, "little"))
    return pid


def run(
    program: Path,
    command: Sequence[str],
    environment: Mapping[str, str],
    library: Path | None,
    on_missing: Callable[[int], None],
) -> Outcome:
    """Runs the command to its end and hands signals on meanwhile.

    `on_missing` is called with the pid if the library is still not in the running command after
    the time that a start takes; without a library nobody looks.
    """
    watched = signal.valid_signals() - NOT_WATCHED
    signals = _Signals.take_over(watched)
    try:
        pid = _start(program, command, environment, signals)
        return _wait(pid, watched, library, on_missing)
    finally:
        signals.restore()


def _wait(
    pid: int,
    watched: Iterable[int],
    library: Path | None,
    on_missing: Callable[[int], None],
) -> Outcome:
    look_at = time.monotonic() + LOOK_AFTER_SECONDS if library is not None else None
    while True:
        if look_at is None or library is None:
            information: signal.struct_siginfo | None = signal.sigwaitinfo(watched)
        elif (left := look_at - time.monotonic()) > 0:
            information = signal.sigtimedwait(watched, left)
        else:
            look_at = None
            if is_mapped(pid, library) is False:
                on_missing(pid)
            continue
        if information is None:
            continue
        if information.si_signo != signal.SIGCHLD:
            _forward(pid, information)
            continue
        status = _reap(pid)
        if status is not None:
            return Outcome(pid, status)


def _forward(pid: int, information: signal.struct_siginfo) -> None:
    """Hands a signal on if the command has not had it: one sent to us by another process."""
    if information.si_code in (SI_USER, SI_TKILL, SI_QUEUE) and information.si_pid != pid:
        with contextlib.suppress(PermissionError):  # it may have changed its user
            os.kill(pid, information.si_signo)


def _reap(pid: int) -> int | None:
    """The command's exit status if it has ended; stops with it if it was stopped."""
    done, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
    if done == 0:
        return None
    if os.WIFSTOPPED(status):
        os.kill(os.getpid(), signal.SIGSTOP)  # our shell sees its job stop, as without us
        with contextlib.suppress(PermissionError):
            os.kill(pid, signal.SIGCONT)
        return None
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
