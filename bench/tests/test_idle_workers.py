"""What a worker's memory is for, by its smaps."""

from __future__ import annotations

from strata_bench import idle_workers

SMAPS = """\
1000-2000 r-xp 00000000 fe:00 7 /usr/sbin/nginx
Rss: 600 kB
Private_Dirty: 1 kB
2000-3000 rw-p 00000000 00:00 0
Rss: 20 kB
Private_Dirty: 16 kB
3000-4000 r--p 00000000 fe:00 8 /work/libstrata.so.0.9.0
Rss: 48 kB
Private_Dirty: 0 kB
4000-5000 r-xp 00010000 fe:00 8 /work/libstrata.so.0.9.0
Rss: 128 kB
Private_Dirty: 0 kB
5000-6000 rw-p 000d0000 fe:00 8 /work/libstrata.so.0.9.0
Rss: 8 kB
Private_Dirty: 4 kB
6000-7000 rw-p 00000000 00:00 0
Rss: 52 kB
Private_Dirty: 24 kB
7000-8000 r-xp 00000000 fe:00 9 /work/ngx_strata_module.so
Rss: 8 kB
Private_Dirty: 0 kB
8000-9000 rw-p 00000000 00:00 0
Rss: 4 kB
Private_Dirty: 4 kB
"""


def test_each_mapping_is_somebodys() -> None:
    assert idle_workers.parts(SMAPS) == {
        idle_workers.CODE: 128,
        idle_workers.CONSTANTS: 48,
        idle_workers.VARIABLES: 60,
        idle_workers.MODULE: 8,
        idle_workers.OTHERS: 24,
        idle_workers.FILES: 600,
        idle_workers.WRITTEN: 49,
    }


def test_without_the_library_nothing_is_its() -> None:
    sizes = idle_workers.parts(SMAPS.split("3000-4000")[0])
    assert sizes == {idle_workers.FILES: 600, idle_workers.OTHERS: 20, idle_workers.WRITTEN: 17}
