//! Vectors, strings, maps and boxes from several threads, handed from one to the other; prints one
//! checksum that does not depend on the order in which the threads run. Argument: rounds a thread.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::mpsc;
use std::thread;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545F4914F6CDD1D)
    }
}

#[repr(align(128))]
struct Wide([u8; 128]);

fn work(seed: u64) -> (u64, HashMap<String, Vec<u64>>) {
    let mut random = Random(seed + 1);
    let mut sum = 0u64;
    let mut table: HashMap<String, Vec<u64>> = HashMap::new();
    let mut tree: BTreeMap<u64, Box<[u8]>> = BTreeMap::new();
    let mut queue: VecDeque<Wide> = VecDeque::new();
    for step in 0..60_000u64 {
        let value = random.next();
        table.entry(format!("key {}", value % 500)).or_default().push(value % 1000);
        tree.insert(value % 3000, vec![step as u8; (value % 2000) as usize].into_boxed_slice());
        queue.push_back(Wide([step as u8; 128]));
        if queue.len() > 200 {
            let wide = queue.pop_front().unwrap();
            assert_eq!(&wide as *const Wide as usize % 128, 0);
            sum = sum.wrapping_add(wide.0[127] as u64);
        }
        if step % 3 == 0 {
            if let Some(bytes) = tree.remove(&(random.next() % 3000)) {
                assert!(bytes.iter().all(|byte| *byte == *bytes.first().unwrap()));
                sum = sum.wrapping_add(bytes.len() as u64);
            }
        }
    }
    (sum, table)
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let (sender, receiver) = mpsc::channel();
    let threads: Vec<_> = (0..4u64)
        .map(|seed| {
            let sender = sender.clone();
            thread::spawn(move || {
                for round in 0..rounds {
                    sender.send(work(seed * 10 + round)).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let mut total = 0u64;
    for (sum, table) in receiver {
        total = total.wrapping_add(sum);
        for (key, values) in table {
            total = total.wrapping_add(key.len() as u64 * values.iter().sum::<u64>());
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
    println!("checksum {total}");
}
