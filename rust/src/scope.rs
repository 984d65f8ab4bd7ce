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

/// One stay in a scope.
struct Stay {
    number: u64,
    raw: Arc<Raw>,
    from: Option<*mut ffi::RawScope>, // where the thread was, if not in the stay before this one
}

/// The stays of a thread that have not ended. Guards end in any order, and one that is forgotten
/// never does: so the guards themselves cannot know where to go back to.
struct Stays {
    next: u64,
    open: Vec<Stay>,
}

thread_local! {
    static STAYS: RefCell<Stays> = const { RefCell::new(Stays { next: 0, open: Vec::new() }) };
}

fn go_to(raw: *mut ffi::RawScope) -> *mut ffi::RawScope {
    // SAFETY: null; or a scope that a stay in `Stays` keeps open; or one of C code that goes in and
    // out around Rust's and closes it only then: the thread was in it, and comes from a stay there.
    unsafe { ffi::strata_scope_enter(raw) }
}

impl Stays {
    fn last(&self) -> *mut ffi::RawScope {
        self.open.last().map_or(null_mut(), |stay| stay.raw.0.as_ptr())
    }

    fn add(&mut self, raw: &Arc<Raw>) -> u64 {
        let before = go_to(null_mut()); // the list belongs to no scope
        let from = if self.open.is_empty() || before != self.last() { Some(before) } else { None };
        self.next += 1;
        self.open.push(Stay { number: self.next, raw: Arc::clone(raw), from });
        go_to(raw.0.as_ptr());
        self.next
    }

    fn end(&mut self, number: u64) -> Option<Arc<Raw>> {
        let at = self.open.iter().rposition(|stay| stay.number == number)?;
        let Stay { raw, from, .. } = self.open.remove(at);
        let ended = raw.0.as_ptr();
        let here = go_to(null_mut());
        let later = &mut self.open[at..];
        let was_last = later.is_empty();
        if here == ended && later.last().map_or(false, |stay| stay.raw.0.as_ptr() != ended) {
            // C code came back to here from all that lay between, and may have closed it.
            later.iter_mut().for_each(|stay| stay.from = None);
        }
        if let Some(next) = later.first_mut() {
            next.from = next.from.or(from);
        }
        go_to(match from {
            _ if here != ended => here, // in a later stay, or where C code went
            Some(from) if was_last => from,
            _ => self.last(),
        });
        Some(raw)
    }
}

impl Drop for Stays {
    /// The thread ends, and nothing keeps the scopes of forgotten stays open for it any more.
    fn drop(&mut self) {
        let here = go_to(null_mut());
        if self.open.iter().all(|stay| stay.raw.0.as_ptr() != here) {
            go_to(here);
        }
    }
}

impl Scope {
    /// A scope inside of the one that this thread is in, if any. `None` without memory for it.
    pub fn new() -> Option<Scope> {
        // SAFETY: may be called at any time.
        let raw = NonNull::new(unsafe { ffi::strata_scope_create() })?;
        Some(Scope { raw: Arc::new(Raw(raw)) })
    }

    /// The thread is in the scope until the value returned is dropped; then in the one that it
    /// entered last of those whose values live, or in that of C code in between. A value that is
    /// forgotten keeps the scope open until the thread ends. Among the last destructors of a
    /// thread's locals, when this crate's own are gone, it enters nothing.
    pub fn enter(&self) -> Entered<'_> {
        let number = STAYS.try_with(|stays| stays.borrow_mut().add(&self.raw));
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
        // SAFETY: no stay has it any more, and each left it as it ended, so no thread is in it.
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
        let left = STAYS.try_with(|stays| stays.borrow_mut().end(self.number));
        drop(left); // when the list is no longer borrowed
    }
}
