"""The one exception that becomes one clear line on stderr and an exit status."""


class StrataError(Exception):
    """A mistake or a missing piece that the user can act on."""

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status
