//! A program on Strata: fills a map, drops it, and says where the memory is.
//!
//!     cargo run --release --example global

use std::collections::HashMap;

#[global_allocator]
static ALLOCATOR: strata_malloc::Strata = strata_malloc::Strata;

fn main() {
    let mut names: HashMap<u32, String> = HashMap::new();
    for number in 0..1_000_000 {
        names.insert(number, format!("the value of {number}"));
    }
    let full = strata_malloc::stats();
    drop(names);
    strata_malloc::release(usize::MAX);
    let empty = strata_malloc::stats();
    println!("Strata {}, {}", strata_malloc::version(), strata_malloc::cache_mode());
    for (when, stats) in [("full", full), ("empty", empty)] {
        println!(
            "{when:>6}: {:5} MiB live, {:5} MiB resident, {:3.0} % on hugepages",
            stats.live >> 20,
            stats.resident >> 20,
            100.0 * stats.coverage
        );
    }
}
