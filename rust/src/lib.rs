//! [Strata](https://docs.rs/strata-malloc) as a Rust program's allocator: it fills hugepages densely
//! and gives free memory back to the kernel by itself.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: strata_malloc::Strata = strata_malloc::Strata;
//!
//! fn main() {
//!     let words: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
//!     assert!(strata_malloc::stats().live > 1000);
//!     drop(words);
//! }
//! ```
//!
//! Linking this crate replaces malloc for the whole process, its C and C++ parts included, whether
//! or not `#[global_allocator]` names [`Strata`]; naming it hands sizes to `free` and spares Rust's
//! own layer. Options are `STRATA_*` environment variables, as for a preloaded program.
//!
//! Linux on x86-64 or aarch64, with glibc 2.34 or newer or with musl. The C++ sources are compiled at
//! build time: a C++20 compiler and binutils are needed.
#![warn(missing_docs)]

mod ffi;
mod scope;
mod stats;

use std::alloc::{GlobalAlloc, Layout};

pub use scope::{Entered, Scope};
pub use stats::{cache_mode, release, stats, version, Stats};

/// What malloc aligns to, where the size is at least that.
const MALLOC_ALIGNMENT: usize = 16;

/// The allocator, for `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Strata;

fn is_plain(layout: Layout) -> bool {
    layout.align() <= MALLOC_ALIGNMENT && layout.align() <= layout.size()
}

// SAFETY: the functions are those of C and C23; a block is freed by the form that fits the one it
// came from, with the same size and alignment.
unsafe impl GlobalAlloc for Strata {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_plain(layout) {
            ffi::malloc(layout.size()).cast()
        } else {
            ffi::aligned_alloc(layout.align(), layout.size()).cast()
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_plain(layout) {
            ffi::free_sized(block.cast(), layout.size());
        } else {
            ffi::free_aligned_sized(block.cast(), layout.align(), layout.size());
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_plain(layout) {
            return ffi::calloc(1, layout.size()).cast();
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            block.write_bytes(0, layout.size());
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let wanted = Layout::from_size_align_unchecked(size, layout.align());
        if is_plain(layout) && is_plain(wanted) {
            return ffi::realloc(block.cast(), size).cast();
        }
        let moved = self.alloc(wanted);
        if !moved.is_null() {
            moved.copy_from_nonoverlapping(block, layout.size().min(size));
            self.dealloc(block, layout);
        }
        moved
    }
}
