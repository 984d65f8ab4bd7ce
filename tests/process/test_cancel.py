"""Nothing in the library is a cancellation point, and nothing it calls may become one."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from blackbox import HEAPS, Lab

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "cancel_cases.cpp"

# man 7 pthreads: the functions that are, or may be, cancellation points; only those that glibc has
# no other use for in an allocator. Names that differ by a suffix (64, _chk) are caught, too.
POINTS = """
    accept aio_suspend clock_nanosleep close connect copy_file_range creat epoll_pwait epoll_wait
    fallocate fcntl fdatasync fsync getrandom lockf lseek mq_receive mq_send msgrcv msgsnd msync
    nanosleep open open_by_handle_at openat pause poll posix_fallocate ppoll pread preadv pselect
    pthread_cond_timedwait pthread_cond_wait pthread_join pthread_testcancel pwrite pwritev read
    readv recv recvfrom recvmmsg recvmsg select sem_timedwait sem_wait send sendmmsg sendmsg sendto
    sigpause sigsuspend sigtimedwait sigwait sigwaitinfo sleep splice system tcdrain tee usleep
    vmsplice wait wait3 wait4 waitid waitpid write writev
    closedir closelog dprintf fclose fflush fgets fopen fprintf fputc fputs fread freopen fscanf
    fseek fwrite getc getchar getdelim getline gets glob opendir perror popen printf putc putchar
    puts readdir rewind scanf syslog tmpfile vdprintf vfprintf vprintf
""".split()
# getrandom: with GRND_NONBLOCK, by the library's own thread.
# fprintf: malloc_info, which glibc defines to write to a FILE; cancellation is off around it.
ALLOWED = {"fprintf", "getrandom"}


def undefined(library: Path) -> set[str]:
    """The functions that a library calls in others, without versions and _chk, 64, 4, __ around."""
    listing = subprocess.run(
        ["nm", "-D", "--undefined-only", "--format=posix", library],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout
    names = {line.split()[0].split("@")[0] for line in listing.splitlines()}
    plain = set()
    for name in names:
        bare = name.removeprefix("__").removesuffix("_chk").removesuffix("_2")
        plain.add(bare.removesuffix("64").removesuffix("4"))
    return plain


LIBRARIES = ["libstrata.so", "libstrata-trace.so", *(f"libstrata-{heap}.so" for heap in HEAPS)]


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_library_calls_no_cancellation_point(lab: Lab, name: str) -> None:
    library = lab.require_strata().with_name(name)
    assert library.exists(), f"{library} was not built: make lib"
    assert undefined(library) & set(POINTS) - ALLOWED == set()


def test_each_function_goes_on_with_a_cancellation_pending(lab: Lab) -> None:
    program = lab.build_linked(SOURCE)
    for env in ({}, {"STRATA_CACHE": "thread"}, {"STRATA_SAMPLE": "1K"}):
        result = lab.run(program, "all", env=env, preload=False)
        assert result.returncode == 0, result.explain()
        assert "per-" in result.stderr, "malloc_stats wrote nothing"


def test_every_function_has_a_case(lab: Lab) -> None:
    """What is not called is another name for, or a part of, what is."""
    names = set(lab.run(lab.build_linked(SOURCE), "names", preload=False).ok().stdout.split())
    exported = set((HERE.parent / "golden/exports.txt").read_text().split())
    assert names <= exported
    rest = exported - names
    aliases = ("__", "_Zd", "_Zn", "strata_hot_", "strata_reap_", "strata_scope_")
    # Libc's functions that the library stands before: system calls, or what libc does itself.
    passed_on = "dlopen dlmopen vfork prctl syscall unshare setns capset".split()
    passed_on += ["initgroups", "setgroups"]
    passed_on += [f"set{e}{who}" for e in ("", "e", "re", "res") for who in ("uid", "gid")]
    rest -= set(passed_on)
    assert {name for name in rest if not name.startswith(aliases)} == {"mallinfo"}


def test_a_double_free_aborts_with_a_cancellation_pending(lab: Lab) -> None:
    program = lab.build_linked(SOURCE)
    result = lab.run(program, "double_free", preload=False)
    assert result.returncode == -signal.SIGABRT, result.explain()
    assert len(result.strata_lines()) == 1, result.explain()
    ignored = lab.run(program, "double_free", env={"STRATA_ON_ERROR": "ignore"}, preload=False)
    assert ignored.returncode == 0, ignored.explain()
    assert len(ignored.strata_lines()) == 1, ignored.explain()
