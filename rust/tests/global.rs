//! The allocator under a program: contents, alignment, growth, threads, figures, scopes.

use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, Layout};
use std::thread;

#[global_allocator]
static ALLOCATOR: strata_malloc::Strata = strata_malloc::Strata;

#[test]
fn it_is_the_allocator() {
    assert_eq!(strata_malloc::version(), env!("CARGO_PKG_VERSION"));
    assert_ne!(strata_malloc::cache_mode(), "none");
    let before = strata_malloc::stats().live;
    let block = vec![1u8; 64 << 20];
    assert!(strata_malloc::stats().live >= before + (48 << 20));
    drop(block);
    assert!(strata_malloc::release(usize::MAX) > 0 || strata_malloc::stats().released > 0);
}

#[test]
fn blocks_are_aligned_and_keep_their_bytes() {
    for power in 0..17 {
        for size in [1usize, 7, 16, 100, 5000, 300_000] {
            let layout = Layout::from_size_align(size, 1 << power).unwrap();
            // SAFETY: each block is written within its size and freed with its layout.
            unsafe {
                let block = alloc_zeroed(layout);
                assert!(!block.is_null());
                assert_eq!(block as usize % layout.align(), 0, "{layout:?}");
                assert!((0..size).all(|at| *block.add(at) == 0));
                block.write_bytes(7, size);
                let grown = realloc(block, layout, 3 * size);
                assert_eq!(grown as usize % layout.align(), 0, "{layout:?}");
                assert!((0..size).all(|at| *grown.add(at) == 7));
                dealloc(grown, Layout::from_size_align(3 * size, layout.align()).unwrap());
            }
        }
    }
}

#[test]
fn too_much_is_null() {
    let layout = Layout::from_size_align(isize::MAX as usize - 4096, 16).unwrap();
    // SAFETY: null is not used.
    assert!(unsafe { alloc(layout) }.is_null());
}

#[test]
fn threads_free_what_others_made() {
    let makers: Vec<_> = (0..4)
        .map(|seed: u64| {
            thread::spawn(move || (0..10_000).map(|n| vec![seed; n % 97]).collect::<Vec<_>>())
        })
        .collect();
    for (seed, maker) in makers.into_iter().enumerate() {
        let made = maker.join().unwrap();
        assert!(made.iter().enumerate().all(|(n, v)| v.len() == n % 97));
        assert!(made.iter().flatten().all(|&value| value == seed as u64));
    }
}

#[test]
fn a_scope_counts_what_is_made_in_it() {
    let scope = strata_malloc::Scope::new().unwrap();
    assert_eq!(scope.live(), 0);
    let kept = {
        let _inside = scope.enter();
        let kept = vec![1u8; 10_000];
        assert!(scope.live() >= 10_000);
        kept
    };
    let outside = vec![2u8; 50_000];
    assert!(scope.live() < 20_000);
    drop(outside);
    drop(kept);
    assert_eq!(scope.live(), 0);
}

#[test]
fn scopes_are_left_in_any_order() {
    let (first, second) = (
        strata_malloc::Scope::new().unwrap(),
        strata_malloc::Scope::new().unwrap(),
    );
    let outer = first.enter();
    let inner = second.enter();
    drop(outer);
    let block = vec![1u8; 10_000];
    assert!(second.live() >= 10_000, "the thread is still in it");
    drop(first);
    drop(inner);
    let outside = vec![2u8; 50_000];
    assert!(second.live() < 20_000, "the thread is in none");
    drop((block, outside));
    assert_eq!(second.live(), 0);
}

#[test]
fn a_stay_that_is_forgotten_ends_with_its_thread() {
    thread::spawn(|| {
        let scope = strata_malloc::Scope::new().unwrap();
        std::mem::forget(scope.enter());
        drop(scope);
        assert_eq!(vec![3u8; 10_000].len(), 10_000);
    })
    .join()
    .unwrap();
}
