//! Scopes: what a thread allocates between here and there is laid together and counted, and may have
//! a cap. A block stays its scope's wherever it is freed; what outlives the scope stays valid.

use std::marker::PhantomData;
use std::ptr::{null_mut, NonNull};

use crate::ffi;

/// A scope. Threads go into it by [`Scope::enter`]; several may be in one.
#[derive(Debug)]
pub struct Scope {
    raw: NonNull<ffi::RawScope>,
}

// SAFETY: the C functions may be called by any thread; what is tied to a thread is `Entered`.
unsafe impl Send for Scope {}
unsafe impl Sync for Scope {}

impl Scope {
    /// A scope inside of the one that this thread is in, if any. `None` without memory for it.
    pub fn new() -> Option<Scope> {
        // SAFETY: may be called at any time.
        NonNull::new(unsafe { ffi::strata_scope_create() }).map(|raw| Scope { raw })
    }

    /// The thread is in the scope until the value returned is dropped. Drop them in the opposite
    /// order, as blocks of code do by themselves.
    pub fn enter(&self) -> Entered<'_> {
        // SAFETY: the scope lives as long as `self`, which the result borrows.
        let before = unsafe { ffi::strata_scope_enter(self.raw.as_ptr()) };
        Entered { before, scope: PhantomData, thread: PhantomData }
    }

    /// Bytes in live blocks, with 8 bytes and the rounding to 16 for each.
    pub fn live(&self) -> usize {
        // SAFETY: the scope lives.
        unsafe { ffi::strata_scope_live(self.raw.as_ptr()) }
    }

    /// More than so many bytes make an allocation fail; 0: no cap. Set it before others allocate in
    /// the scope.
    pub fn set_cap(&self, bytes: usize) {
        // SAFETY: no function is handed over.
        unsafe { ffi::strata_scope_set_cap(self.raw.as_ptr(), bytes, None, null_mut()) }
    }

    /// A hint: what is allocated in it from now on stays for long, and should lie apart.
    pub fn lasts(&self) {
        // SAFETY: the scope lives.
        unsafe { ffi::strata_scope_lasts(self.raw.as_ptr()) }
    }
}

impl Drop for Scope {
    /// The scope ends; blocks that are left stay until they are freed.
    fn drop(&mut self) {
        // SAFETY: nothing borrows it any more, so no thread is in it.
        unsafe { ffi::strata_scope_close(self.raw.as_ptr()) }
    }
}

/// A thread's stay in a scope.
#[derive(Debug)]
pub struct Entered<'a> {
    before: *mut ffi::RawScope,
    scope: PhantomData<&'a Scope>,
    thread: PhantomData<*mut ()>, // stays on its thread
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // SAFETY: the scope before was this thread's, and outlives this value by the order of drops.
        unsafe { ffi::strata_scope_enter(self.before) };
    }
}
