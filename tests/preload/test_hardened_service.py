"""The library in services with systemd's hardening options, each alone and all at once.

systemd does not run where tests do: its filters come from harden.c, its limits from prlimit, its
mounts and users from unshare and setpriv.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from blackbox import Lab, need
from private_system import NO_NETWORK, UID, PrivateSystem

HERE = Path(__file__).resolve().parent
FILTERS = (
    "SystemCallFilter",
    "WithoutPrivileged",
    "WithoutAside",
    "MemoryDenyWriteExecute",
    "RestrictNamespaces",
    "RestrictAddressFamilies",
    "RestrictRealtime",
    "LockPersonality",
    "NoNewPrivileges",
)
LIMITS = {
    "LimitAS": "--as=2147483648",
    "LimitDATA": "--data=1073741824",
    "LimitNPROC": "--nproc=1",
    "LimitMEMLOCK": "--memlock=0",
    "LimitCORE": "--core=0",
    "LimitNOFILE": "--nofile=4",
    "LimitFSIZE": "--fsize=0",
    "LimitSTACK": "--stack=131072",
    "LimitSIGPENDING": "--sigpending=0",
    "LimitRTPRIO": "--rtprio=0",
}
# A line of shell each: what the option takes away, from inside of namespaces.
MOUNTS = {
    "ProtectProc": "mount -t proc -o hidepid=invisible proc /proc",
    "ProcSubset": "mount -t proc -o subset=pid proc /proc",
    "NoProc": "mount -t tmpfs none /proc",
    "NoSys": "mount -t tmpfs none /sys",
    "PrivateTmp": "mount -t tmpfs none /tmp; mount -t tmpfs none /var/tmp",
    "PrivateDevices": "mount -t tmpfs none /dev",
    "ProtectSystem": "mount -o remount,bind,ro /",
    "ProtectControlGroups": "mount -t tmpfs -o ro none /sys/fs/cgroup",
}
TOGETHER = ("ProtectControlGroups", "ProtectSystem", "PrivateDevices", "PrivateTmp", "ProcSubset")
NOBODY = ("--reuid", str(UID), "--regid", str(UID), "--clear-groups")
POWERLESS = ("--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs")


class Services:
    """Starts the program in one way after the other, and then waits for all."""

    def __init__(self, system: PrivateSystem, stack: contextlib.ExitStack) -> None:
        self._system = system
        self._stack = stack
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str, *command: str, mounts: str = "") -> None:
        script = f'set -e; {mounts}\nexec "$@"'
        service = self._system.start("sh", "-c", script, "sh", *command)
        self._running[name] = self._stack.enter_context(service)

    def require_all_fine(self) -> None:
        wrong = {}
        for name, process in self._running.items():
            out, err = process.communicate(timeout=60)
            if (process.returncode, out, err) != (0, "done\n", ""):
                wrong[name] = (process.returncode, out, err)
        assert wrong == {}


@pytest.fixture
def system(lab: Lab, tmp_path: Path) -> PrivateSystem:
    made = PrivateSystem(lab, tmp_path, NO_NETWORK)
    for name in ("strict", "harden"):
        shutil.copy(lab.build(HERE / f"{name}.c"), made.path(f"/etc/{name}"))
    return made


WORK = ("/etc/strict", "service")


@pytest.mark.parametrize("refusal", ["eperm", "kill"])
def test_filters(system: PrivateSystem, refusal: str) -> None:
    with contextlib.ExitStack() as stack:
        services = Services(system, stack)
        for name in FILTERS:
            services.start(name, "/etc/harden", refusal, name, "--", *WORK)
        services.start("all", "/etc/harden", refusal, *FILTERS, "--", *WORK)
        services.require_all_fine()


def test_files_at_exit(system: PrivateSystem) -> None:
    """What a unit's Environment= asks for is written under its filter, too."""
    asked = ("STRATA_STATS=/etc/stats", "STRATA_PROMETHEUS=/etc/prom", "STRATA_PROFILE=heap:/etc/p")
    filtered = ("/etc/harden", "kill", "SystemCallFilter", "--")
    with contextlib.ExitStack() as stack:
        services = Services(system, stack)
        services.start("asks", *filtered, need("env"), *asked, *WORK)
        services.require_all_fine()
    stats = json.loads(system.path("/etc/stats").read_text())
    figures = stats["bytes"]
    assert 1 << 20 < figures["resident"] < figures["mapped"], figures
    assert stats["resident_known"] is True and "coverage" in stats and "untouched" in figures
    assert system.path("/etc/prom").stat().st_size and system.path("/etc/p").stat().st_size


def test_what_a_filter_hides(system: PrivateSystem) -> None:
    """One that sets NO_NEW_PRIVS under the unit's filter may read no file: what it can't know, the
    statistics leave out, and say so."""
    asked = ("STRATA_STATS=/etc/stats", "STRATA_PROMETHEUS=/etc/prom")
    filtered = ("/etc/harden", "kill", "SystemCallFilter", "--")
    with contextlib.ExitStack() as stack:
        services = Services(system, stack)
        services.start("asks", *filtered, need("env"), *asked, "/etc/strict", "no_new_privs")
        services.require_all_fine()
    stats = json.loads(system.path("/etc/stats").read_text())
    assert stats["resident_known"] is False
    assert "coverage" not in stats
    assert not {"untouched", "hugepage_backed"} & stats["bytes"].keys()
    assert 64 << 20 < stats["bytes"]["resident"] <= stats["bytes"]["mapped"] + (8 << 20)
    assert sum(row[1] for row in stats["hugepage_occupancy"]) > 0
    metrics = system.path("/etc/prom").read_text()
    assert 'resident_known="false"' in metrics
    assert "\nstrata_resident_bytes{" in metrics
    for name in ("untouched_bytes", "hugepage_backed_bytes", "hugepage_coverage_ratio"):
        assert f"\nstrata_{name}{{" not in metrics, name


def test_limits(system: PrivateSystem) -> None:
    prlimit = need("prlimit")
    nobody = (need("setpriv"), *NOBODY)
    with contextlib.ExitStack() as stack:
        services = Services(system, stack)
        for name, limit in LIMITS.items():
            services.start(name, *nobody, prlimit, limit, *WORK)
        services.start("all", *nobody, prlimit, *LIMITS.values(), *WORK)
        services.require_all_fine()


def test_what_is_hidden(system: PrivateSystem) -> None:
    with contextlib.ExitStack() as stack:
        services = Services(system, stack)
        for name, mount in MOUNTS.items():
            services.start(name, *WORK, mounts=mount)
        powerless = (need("setpriv"), *NOBODY, *POWERLESS)
        services.start("CapabilityBoundingSet", *powerless, *WORK)
        everything = (*powerless, need("prlimit"), *LIMITS.values())
        hardened = (*everything, "/etc/harden", "kill", *FILTERS, "--", *WORK)
        mounts = "; ".join(MOUNTS[name] for name in TOGETHER)
        services.start("all", *hardened, mounts=mounts)
        services.require_all_fine()
