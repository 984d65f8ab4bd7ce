"""The one exception that becomes one clear line on stderr and an exit status, and what the statuses
say."""

import os
from pathlib import Path

NOT_DONE = 2
STATUSES = (
    "Exit status: 0, done; 1, done, and doctor or lint found something, or a run of compare "
    "failed; 2, not done, and one line says why; doctor also when not all could be checked; "
    "130, Ctrl-C; 141, broken pipe. run, trace and pageutil pass on the command's status, or "
    "126 or 127 if it could not be started."
)

# Debian's package of the command line, which carries what it imports but these extras.
FROM_DEBIAN = Path(__file__).resolve().parents[1].name == "strata-tools"
NOT_CARRIED = ("train", "cluster")


def remedy(extra: str | None, package: str = "strata-malloc") -> str:
    """How to install what a command lacks: an extra of pyproject.toml, or that package."""
    if FROM_DEBIAN and extra in NOT_CARRIED:
        return f"strata-tools lacks it; install the wheel, strata-malloc[{extra}], in a venv"
    if FROM_DEBIAN:
        return "apt install --reinstall strata-tools"
    return f"pip install {package}" if extra is None else f"pip install 'strata-malloc[{extra}]'"


def why_refused(error: OSError) -> str:
    """What the system says, as the end of one of our lines."""
    return (error.strerror or str(error)).lower()


def of_system(error: OSError) -> str:
    """What the system refused, and of which file."""
    if isinstance(error.filename, str | bytes | os.PathLike):
        return f"{os.fsdecode(error.filename)}: {why_refused(error)}"
    return why_refused(error)


class StrataError(Exception):
    """Why it was not done: a mistake, or a missing piece that the user can act on."""

    def __init__(self, message: str, status: int = NOT_DONE) -> None:
        super().__init__(message)
        self.status = status
