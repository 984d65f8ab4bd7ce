"""Learned lifetimes: profiles of how long objects live become a data set (LLAMA, Maas et al.,
ASPLOS 2020). `record` collects them, `dataset` merges any number, `command` is `strata lifetimes`.
"""
