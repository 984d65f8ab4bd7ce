"""Flame graphs and tables of profiles: `strata flame`, `strata diff`, `strata top`."""
