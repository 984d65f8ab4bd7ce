"""Whom a call stack is charged to: the first function that is no wrapper of the allocator's."""

from __future__ import annotations

import pytest

from strata.pprof.sites import call_site


@pytest.mark.parametrize(
    ("stack", "site"),
    [
        (("malloc", "ztrymalloc_usable", "createObject", "main"), "createObject"),
        (("operator new(unsigned long)", "std::string::_M_create", "Parse", "main"), "Parse"),
        (("__libc_malloc", "xstrdup", "read_line"), "read_line"),
        (("so@0x10", "so@0x20", "main"), "so@0x10 (under main)"),
        (("so+0x10", "0x20"), "so+0x10"),
        (("so@0x10", "sqlite3Malloc", "so@0x20", "sqlite3Insert"), "so@0x20 (under sqlite3Insert)"),
        (("so@0x10", "std::sort", "main"), "so@0x10 (under main)"),
        (("Load", "my_malloc_loop", "main"), "Load"),
        (("ngx_alloc", "ngx_palloc_large", "ngx_pcalloc", "ngx_http_init"), "ngx_http_init"),
        (("CRYPTO_zalloc", "SSL_CTX_new"), "SSL_CTX_new"),
        (("AllocSetAlloc", "palloc0", "ExecInit"), "ExecInit"),
        (("malloc", "my_alloc_session", "main"), "my_alloc_session"),
        (("malloc", "ngx_http_alloc_large_header_buffer"), "ngx_http_alloc_large_header_buffer"),
        (("malloc", "av_malloc", "apr_allocator_destroy"), "apr_allocator_destroy"),
        (
            (
                "operator new(unsigned long)",
                "lib@0x10",
                "std::_Invoker<std::allocator<int>>",
                "run",
            ),
            "lib@0x10 (under run)",
        ),
        (("strata::SampleTaken(void*)", "load"), "load"),
        (
            ("os::malloc(unsigned long, MEMFLAGS)", "Arena::grow(unsigned long)"),
            "Arena::grow(unsigned long)",
        ),
        (
            ("AllocateHeap(unsigned long, MEMFLAGS)", "SymbolTable::create_table()"),
            "SymbolTable::create_table()",
        ),
        (("v8::internal::Malloced::operator new(unsigned long)", "Zone::New"), "Zone::New"),
        (("lib.so@0x10", "TclpAlloc", "Tcl_Alloc", "Tcl_SetObj"), "Tcl_SetObj"),
        (
            (
                "erts_sys_aligned_alloc",
                "erts_alcu_sys_aligned_alloc",
                "ets_insert",
            ),
            "ets_insert",
        ),
        (("erts_alloc", "erts_sys_init"), "erts_sys_init"),
        (("__zend_malloc", "_safe_femalloc", "zend_objects_new"), "zend_objects_new"),
        (
            (
                "node::NodeArrayBufferAllocator::AllocateUninitialized(unsigned long)",
                "v8::internal::Heap::AllocateExternalBackingStore(std::function<void* (unsigned "
                "long)> const&, unsigned long)",
                "v8::internal::BackingStore::Allocate(v8::internal::Isolate*, unsigned long)",
                "v8::ArrayBuffer::NewBackingStoreForNodeLTS(v8::Isolate*, unsigned long)",
                "node::Buffer::CreateUnsafeArrayBuffer(int)",
            ),
            "node::Buffer::CreateUnsafeArrayBuffer(int)",
        ),
        (("malloc", "create_carrier"), "create_carrier"),
        (("mallocator",), "mallocator"),
        (("malloc",), "malloc"),
        (("strata::SampleTaken(void*)",), "an unknown caller"),
        ((), "an unknown caller"),
    ],
)
def test_call_site_is_not_a_wrapper(stack: tuple[str, ...], site: str) -> None:
    assert call_site(stack) == site


def test_long_names_are_cut_in_sentences() -> None:
    assert len(call_site(("a" * 5000,))) == 81
