//! Stays beside those of C code, and beyond the end of their thread's list.

use std::cell::RefCell;
use std::os::raw::c_void;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread;

use strata_malloc::Scope;

#[global_allocator]
static ALLOCATOR: strata_malloc::Strata = strata_malloc::Strata;

extern "C" {
    fn strata_scope_create() -> *mut c_void;
    fn strata_scope_enter(scope: *mut c_void) -> *mut c_void;
    fn strata_scope_current() -> *mut c_void;
    fn strata_scope_close(scope: *mut c_void);
}

fn current() -> *mut c_void {
    // SAFETY: may be called at any time.
    unsafe { strata_scope_current() }
}

/// What a C library does that works in a scope of its own and calls back.
fn in_a_scope_of_c<R>(callback: impl FnOnce() -> R) -> R {
    // SAFETY: the scope is left before it is closed.
    unsafe {
        let own = strata_scope_create();
        let before = strata_scope_enter(own);
        let result = callback();
        strata_scope_enter(before);
        strata_scope_close(own);
        result
    }
}

#[test]
fn a_stay_in_a_callback_goes_back_to_the_callers_scope() {
    let (first, second) = (Scope::new().unwrap(), Scope::new().unwrap());
    let outer = first.enter();
    let mine = current();
    in_a_scope_of_c(|| {
        let theirs = current();
        drop(second.enter());
        assert_eq!(current(), theirs);
        let (one, other) = (second.enter(), first.enter());
        drop(one);
        assert_eq!(current(), mine, "the later stay is in the first scope");
        drop(other);
        assert_eq!(current(), theirs);
    });
    assert_eq!(current(), mine);
    drop(outer);
    assert!(current().is_null());
}

#[test]
fn a_stay_that_survives_its_callback_goes_nowhere() {
    let (first, second) = (Scope::new().unwrap(), Scope::new().unwrap());
    let outer = first.enter();
    let mine = current();
    let kept = in_a_scope_of_c(|| second.enter());
    assert_eq!(current(), mine);
    drop(second.enter());
    assert_eq!(current(), mine);
    drop(kept);
    assert_eq!(current(), mine);
    let kept = in_a_scope_of_c(|| second.enter());
    drop(outer);
    drop(first);
    assert_ne!(current(), mine, "that scope has ended");
    drop(kept);
    assert!(current().is_null());
}

/// Destroyed when the list of stays is gone.
struct Late(Sender<usize>, Receiver<()>, Scope);

impl Drop for Late {
    fn drop(&mut self) {
        self.0.send(0).unwrap();
        self.1.recv().unwrap(); // no other thread has the forgotten scope any more
        let nothing = self.2.enter();
        let block = vec![1u8; 10_000];
        self.0
            .send(if current().is_null() { block.len() } else { 0 })
            .unwrap();
        drop(nothing);
    }
}

thread_local! {
    static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
}

#[test]
fn a_thread_that_ends_leaves_what_it_forgot_to_leave() {
    let scope = Arc::new(Scope::new().unwrap());
    let ((tell, told), (go_on, wait)) = (channel(), channel());
    let theirs = Arc::clone(&scope);
    let ends = thread::spawn(move || {
        // Registered first, destroyed last.
        LATE.with(|late| *late.borrow_mut() = Some(Late(tell, wait, Scope::new().unwrap())));
        std::mem::forget(theirs.enter());
    });
    assert_eq!(told.recv(), Ok(0));
    drop(scope);
    go_on.send(()).unwrap();
    assert_eq!(told.recv(), Ok(10_000));
    ends.join().unwrap();
}
