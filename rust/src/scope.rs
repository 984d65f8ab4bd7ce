//! Scopes: what a thread allocates between here and there is laid together and counted, and may have
//! a cap. A block stays its scope's wherever it is freed; what outlives the scope stays valid.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr::{null_mut, NonNull};
use std::sync::Arc;

use crate::ffi;

/// A scope. Threads go into it by [`Scope::enter`]; several may be in one.
#[derive(Debug)]
pub struct Scope {
    raw: Arc<Raw>,
}

/// Open as long as a [`Scope`] or a stay has it.
#[derive(Debug)]
struct Raw(NonNull<ffi::RawScope>);

// SAFETY: the C functions may be called by any thread; what is tied to a thread is `Entered`.
unsafe impl Send for Raw {}
unsafe impl Sync for Raw {}

/// The stays of a thread that have not ended, each with its number. Guards end in any order, and
/// one that is forgotten never does: so the guards themselves cannot know where to go back to.
struct Stays {
    before: *mut ffi::RawScope, // the first
    next: u64,
    open: Vec<(u64, Arc<Raw>)>,
}

thread_local! {
    static STAYS: RefCell<Stays> =
        const { RefCell::new(Stays { before: null_mut(), next: 0, open: Vec::new() }) };
}

fn go_to(raw: *mut ffi::RawScope) -> *mut ffi::RawScope {
    // SAFETY: null, or a scope that `Stays` or the caller keeps open, or where the thread was.
    unsafe { ffi::strata_scope_enter(raw) }
}

impl Scope {
    /// A scope inside of the one that this thread is in, if any. `None` without memory for it.
    pub fn new() -> Option<Scope> {
        // SAFETY: may be called at any time.
        let raw = NonNull::new(unsafe { ffi::strata_scope_create() })?;
        Some(Scope { raw: Arc::new(Raw(raw)) })
    }

    /// The thread is in the scope until the value returned is dropped; then in the one that it
    /// entered last of those whose values live. A value that is forgotten keeps the scope open.
    pub fn enter(&self) -> Entered<'_> {
        let number = STAYS.try_with(|stays| {
            let before = go_to(null_mut()); // the list belongs to no scope
            let mut stays = stays.borrow_mut();
            if stays.open.is_empty() {
                stays.before = before;
            }
            stays.next += 1;
            let number = stays.next;
            stays.open.push((number, Arc::clone(&self.raw)));
            go_to(self.raw.0.as_ptr());
            number
        });
        // 0: the thread ends and has no list any more, so it stays where it is.
        Entered { number: number.unwrap_or(0), scope: PhantomData, thread: PhantomData }
    }

    /// Bytes in live blocks, with 8 bytes and the rounding to 16 for each.
    pub fn live(&self) -> usize {
        // SAFETY: the scope lives.
        unsafe { ffi::strata_scope_live(self.raw.0.as_ptr()) }
    }

    /// More than so many bytes make an allocation fail; 0: no cap. Set it before others allocate in
    /// the scope.
    pub fn set_cap(&self, bytes: usize) {
        // SAFETY: no function is handed over.
        unsafe { ffi::strata_scope_set_cap(self.raw.0.as_ptr(), bytes, None, null_mut()) }
    }

    /// A hint: what is allocated in it from now on stays for long, and should lie apart.
    pub fn lasts(&self) {
        // SAFETY: the scope lives.
        unsafe { ffi::strata_scope_lasts(self.raw.0.as_ptr()) }
    }
}

impl Drop for Raw {
    /// The scope ends; blocks that are left stay until they are freed.
    fn drop(&mut self) {
        // A thread that ends drops its list, and may be in the last scope of it.
        let here = go_to(null_mut());
        if here != self.0.as_ptr() {
            go_to(here);
        }
        // SAFETY: no stay has it any more, so no thread is in it.
        unsafe { ffi::strata_scope_close(self.0.as_ptr()) }
    }
}

/// A thread's stay in a scope.
#[derive(Debug)]
pub struct Entered<'a> {
    number: u64,
    scope: PhantomData<&'a Scope>,
    thread: PhantomData<*mut ()>, // stays on its thread
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let left = STAYS.try_with(|stays| {
            let mut stays = stays.borrow_mut();
            let at = stays.open.iter().rposition(|(number, _)| *number == self.number)?;
            let (_, left) = stays.open.remove(at);
            go_to(stays.open.last().map_or(stays.before, |(_, raw)| raw.0.as_ptr()));
            Some(left)
        });
        drop(left); // when the list is no longer borrowed
    }
}
