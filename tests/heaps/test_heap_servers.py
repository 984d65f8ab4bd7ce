"""Servers and databases on the composed heaps: the tests of tests/preload, in another lab
and somewhat shorter."""

from __future__ import annotations

import heap_lab
import pytest
from heap_lab import module_of

memcached = module_of("preload", "memcached")
nginx = module_of("preload", "nginx")
postgres = module_of("preload", "postgres")
redis = module_of("preload", "redis")
sqlite = module_of("preload", "sqlite")

PROGRAMS = (
    "test_redis_data",
    "test_postgres_database",
    "test_memcached_data",
    "test_sqlite_database",
    "test_redis_big_values",
    "test_nginx_files",
)


def is_tried(item: pytest.Function) -> bool:
    return heap_lab.tried(item, PROGRAMS, of=3)


lab = heap_lab.lab
folder = postgres.folder


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "ROWS", 30_000)


test_redis_data = redis.test_data_matches_a_model
test_redis_big_values = redis.test_big_values
test_memcached_data = memcached.test_data_matches_a_model
test_nginx_files = nginx.test_static_files_and_reload
test_sqlite_database = sqlite.test_database_is_whole
test_postgres_database = postgres.test_database_under_load
