// The walk against backtrace in Rust: closures, iterators, sort callbacks, drops, a caught panic,
// threads.
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

extern "C" {
    fn probe_walk(out: *mut usize, max: usize) -> usize;
    fn probe_refresh() -> c_int;
    fn backtrace(out: *mut *mut c_void, max: c_int) -> c_int;
}

static COMPARED: AtomicUsize = AtomicUsize::new(0);
const MAX: usize = 256;

#[inline(never)]
fn compare(least: usize) {
    let mut ours = [0usize; MAX];
    let mut theirs = [std::ptr::null_mut::<c_void>(); MAX];
    let (n, m) = unsafe {
        let n = probe_walk(ours.as_mut_ptr(), MAX);
        (n, backtrace(theirs.as_mut_ptr(), MAX as c_int) as usize)
    };
    let same = n == m && n >= least && (1..n).all(|i| ours[i] == theirs[i] as usize);
    if !same {
        eprintln!("walks differ: {n} frames, backtrace {m}, at least {least} wanted");
        std::process::exit(1);
    }
    COMPARED.fetch_add(1, Ordering::Relaxed);
}

#[inline(never)]
fn down(depth: u32, leaf: &dyn Fn()) -> usize {
    let text = "x".repeat(depth as usize);
    if depth == 0 {
        leaf();
        return 0;
    }
    let more = down(depth - 1, leaf);
    more + text.len()
}

struct LooksWhenDropped;
impl Drop for LooksWhenDropped {
    fn drop(&mut self) {
        compare(4);
    }
}

#[inline(never)]
fn panics(depth: u32) {
    let _here = LooksWhenDropped;
    if depth == 0 {
        std::panic::panic_any(7u32);
    }
    panics(depth - 1);
}

fn everything() {
    down(20, &|| compare(20));
    let mut numbers: Vec<u64> = (0..60).map(|i| i * 37 % 60).collect();
    numbers.sort_by(|a, b| {
        compare(3);
        a.cmp(b)
    });
    let tree: BTreeMap<u64, String> = numbers.iter().map(|n| (*n, n.to_string())).collect();
    let total: usize = tree.iter().map(|(_, text)| { down(2, &|| compare(4)); text.len() }).sum();
    assert!(total > 60);
    std::panic::set_hook(Box::new(|_| compare(4)));
    assert!(std::panic::catch_unwind(|| panics(6)).is_err());
    let _ = std::panic::take_hook();
}

fn main() {
    unsafe {
        let mut frames = [std::ptr::null_mut::<c_void>(); 4];
        backtrace(frames.as_mut_ptr(), 4);
        assert!(probe_refresh() != 0);
    }
    everything();
    std::thread::spawn(everything).join().unwrap();
    assert!(COMPARED.load(Ordering::Relaxed) > 100);
}
