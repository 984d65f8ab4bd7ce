//! The allocator's figures.

use std::ffi::CStr;

use crate::ffi;

/// Where memory is, in bytes. `resident = live + internal_slack + caches + free_resident + metadata -
/// untouched`, within 2 % of what the kernel says of the same memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Asked for and not freed; estimated for small blocks.
    pub live: usize,
    /// Sizes of blocks minus what was asked.
    pub internal_slack: usize,
    /// Free objects in the caches.
    pub caches: usize,
    /// Free memory that the kernel still holds for us.
    pub free_resident: usize,
    /// Free memory given back to the kernel.
    pub released: usize,
    /// Resident memory of the allocator's own tables.
    pub metadata: usize,
    /// In use but never written, so there is no page behind it.
    pub untouched: usize,
    /// Heap and tables that the kernel holds.
    pub resident: usize,
    /// Address space mapped for the heap.
    pub mapped: usize,
    /// Heap that lies on hugepages.
    pub hugepage_backed: usize,
    /// `hugepage_backed` by the resident heap.
    pub coverage: f64,
    /// Calls that the caches answered.
    pub cache_hits: u64,
    /// Allocations that they did not.
    pub cache_misses_alloc: u64,
    /// Frees that they did not.
    pub cache_misses_free: u64,
}

/// The figures now. Walks the heap's page tables: about 1 ms a GiB.
pub fn stats() -> Stats {
    let mut out = Stats::default();
    // SAFETY: the struct is the C one, and the call fills it.
    unsafe { ffi::strata_stats(&mut out) };
    out
}

/// Gives free memory back to the kernel now, at least `bytes` if there is that much; returns how much.
pub fn release(bytes: usize) -> usize {
    // SAFETY: may be called at any time.
    unsafe { ffi::strata_release(bytes) }
}

/// `per-cpu (mm_cid)`, `per-cpu (cpu_id)`, `per-thread`, or `none` where Strata stood down.
pub fn cache_mode() -> &'static str {
    // SAFETY: a C string of static storage.
    unsafe { CStr::from_ptr(ffi::strata_cache_mode()) }.to_str().unwrap_or("")
}

/// The version of the library.
pub fn version() -> &'static str {
    // SAFETY: a C string of static storage.
    unsafe { CStr::from_ptr(ffi::strata_version()) }.to_str().unwrap_or("")
}
