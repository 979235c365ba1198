//! Runs the body of a fuzz target briefly, without a fuzzer: seeded mutations of its seeds.
//!
//! Included by `#[path]` in the tests of the crate that owns the target's subject.

use std::{env, fs, panic, path::Path};

/// Feeds mutations of the seeds in `corpus/<target>` to `body`.
///
/// The sequence depends on the seed only; a failure prints seed and input.
pub(crate) fn run(target: &str, body: fn(&[u8])) {
    let seeds = seeds(target);
    let seed = number("FUZZ_SEED", 0x5eed);
    let mut random = Random(seed | 1);
    for input in &seeds {
        check(target, seed, input, body);
    }
    for _ in 0..number("FUZZ_ITERATIONS", 3000) {
        let mut input = seeds[random.below(seeds.len())].clone();
        for _ in 0..=random.below(6) {
            mutate(&mut input, &seeds, &mut random);
        }
        input.truncate(4096);
        check(target, seed, &input, body);
    }
}

fn check(target: &str, seed: u64, input: &[u8], body: fn(&[u8])) {
    // The body's own message has been printed by the panic hook.
    let passed = panic::catch_unwind(|| body(input)).is_ok();
    assert!(
        passed,
        "{target} failed with FUZZ_SEED={seed} on {:?}",
        String::from_utf8_lossy(input)
    );
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut paths: Vec<_> = fs::read_dir(&corpus)
        .unwrap_or_else(|error| panic!("read {}: {error}", corpus.display()))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    // The order of a directory is not the same everywhere; the seed must mean the same.
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().filter_map(|path| fs::read(path).ok()).collect();
    assert!(!seeds.is_empty(), "no seeds in {}", corpus.display());
    seeds
}

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// Pieces that mean something to the readers.
const TOKENS: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ":",
    "=",
    "!",
    "(",
    ")",
    "/",
    "~1",
    "-1",
    "null",
    "\\ud800",
    "1e999",
    "99999999999999999999",
    "\0",
    "\n",
    "&a ",
    "*a",
    "<<: ",
];

fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = at + random.below((input.len() - at).min(32) + 1);
    match random.below(7) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.below(256) as u8,
        2 => drop(input.drain(at..end)),
        3 => {
            let piece = input[at..end].to_vec();
            input.splice(at..at, piece);
        }
        4 => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len() + 1);
            let piece = other[from..].iter().copied().take(64);
            input.splice(at..end, piece);
        }
        5 => {
            let token = TOKENS[random.below(TOKENS.len())];
            let times = [1, 1, 1, 200][random.below(4)];
            input.splice(at..at, token.repeat(times).into_bytes());
        }
        _ => input.truncate(at),
    }
}

/// A small generator (xorshift), so that a seed means the same everywhere and for ever.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}
