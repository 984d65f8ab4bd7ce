"""Command line tools of the Strata memory allocator."""

__version__ = "0.1.0"
