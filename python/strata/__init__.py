"""Command line tools of the Strata memory allocator."""

__version__ = "0.9.0"
