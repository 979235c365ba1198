//! Seeds for randomised tests: many by default, more by hand, one to replay.

/// The seeds a test runs with.
pub type Seeds = std::ops::Range<u64>;

/// The seeds that a randomised test runs with: `default` of them, `SEEDS=<n>` for n, `SEED=<n>` for one alone.
///
/// A test prints its seed when it fails; `SEED=<that>` does the same again.
///
/// # Panics
/// If one of the variables is no number.
pub fn seeds(default: u64) -> Seeds {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        let number = text.parse::<u64>();
        Some(number.unwrap_or_else(|error| panic!("{name}={text}: {error}")))
    };
    match (number("SEED"), number("SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, seeds) => 0..seeds.unwrap_or(default),
    }
}
