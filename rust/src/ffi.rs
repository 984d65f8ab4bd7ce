//! The C functions: malloc's, and those of strata/strata.h and strata/scope.h.

use std::os::raw::{c_char, c_int, c_void};

use crate::stats::Stats;

#[repr(C)]
pub(crate) struct RawScope {
    _opaque: [u8; 0],
}

extern "C" {
    pub(crate) fn malloc(size: usize) -> *mut c_void;
    pub(crate) fn calloc(count: usize, size: usize) -> *mut c_void;
    pub(crate) fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
    pub(crate) fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub(crate) fn free_sized(block: *mut c_void, size: usize);
    pub(crate) fn free_aligned_sized(block: *mut c_void, alignment: usize, size: usize);

    pub(crate) fn strata_stats(out: *mut Stats) -> c_int;
    pub(crate) fn strata_release(bytes: usize) -> usize;
    pub(crate) fn strata_cache_mode() -> *const c_char;
    pub(crate) fn strata_version() -> *const c_char;

    pub(crate) fn strata_scope_create() -> *mut RawScope;
    pub(crate) fn strata_scope_enter(scope: *mut RawScope) -> *mut RawScope;
    pub(crate) fn strata_scope_close(scope: *mut RawScope);
    pub(crate) fn strata_scope_live(scope: *const RawScope) -> usize;
    pub(crate) fn strata_scope_set_cap(
        scope: *mut RawScope,
        bytes: usize,
        reached: Option<unsafe extern "C" fn(*mut c_void, usize, usize, usize) -> usize>,
        context: *mut c_void,
    );
    pub(crate) fn strata_scope_lasts(scope: *mut RawScope);
}
