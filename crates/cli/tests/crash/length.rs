//! How long it goes on, and what came of it.

use std::{
    fmt,
    ops::AddAssign,
    str::FromStr,
    time::{Duration, Instant},
};

/// The seeds of a run: `default` of them, `SEEDS=n` for n, `SEED=n` for one; with `MINUTES=m` from there on for so long.
pub(crate) fn seeds(default: u64) -> Box<dyn Iterator<Item = u64>> {
    let given = skopos_testkit::seeds(default);
    let Some(minutes) = number::<u64>("MINUTES") else {
        return Box::new(given);
    };
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let first = given.start;
    Box::new((first..).take_while(move |seed| *seed == first || Instant::now() < end))
}

/// At least so many changes make a life; it is short if nobody says.
pub(crate) fn n_changes() -> Option<usize> {
    number("CHANGES")
}

fn number<N: FromStr<Err: fmt::Display>>(name: &str) -> Option<N> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

/// What happened in some lives.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) n_seeds: usize,
    pub(crate) n_changes: usize,
    /// Of whatever process.
    pub(crate) n_kills: usize,
    /// How often nobody watched for longer than the API server remembers.
    pub(crate) n_outages: usize,
    /// What the journal says of that.
    pub(crate) n_holes: usize,
    /// How many changes were not received, all of them in a hole.
    pub(crate) n_in_holes: usize,
    pub(crate) n_repeated: usize,
}

impl AddAssign for Account {
    fn add_assign(&mut self, other: Self) {
        self.n_seeds += other.n_seeds;
        self.n_changes += other.n_changes;
        self.n_kills += other.n_kills;
        self.n_outages += other.n_outages;
        self.n_holes += other.n_holes;
        self.n_in_holes += other.n_in_holes;
        self.n_repeated += other.n_repeated;
    }
}

/// Nothing was lost, or there would be no account.
impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} changes, {} kills, {} outages longer than the server's history, {} holes declared and {} changes in them, \
             {} repeated deliveries, 0 lost",
            self.n_changes, self.n_kills, self.n_outages, self.n_holes, self.n_in_holes, self.n_repeated
        )
    }
}
