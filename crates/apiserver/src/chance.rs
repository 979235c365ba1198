//! What the server makes up: the uids of objects, and the ends of generated names.

use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

/// Draws what must differ each time: from the system, or from a seed for a run that can be repeated.
#[derive(Debug)]
pub(crate) struct Chance {
    seeded: Option<Mutex<fastrand::Rng>>,
}

impl Chance {
    pub(crate) fn new(seed: Option<u64>) -> Chance {
        let seeded = seed.map(|seed| Mutex::new(fastrand::Rng::with_seed(seed)));
        Chance { seeded }
    }

    /// A random uid, of version 4.
    pub(crate) fn uuid(&self) -> Uuid {
        let Some(seeded) = &self.seeded else {
            return Uuid::new_v4();
        };
        let mut random = seeded.lock().unwrap_or_else(PoisonError::into_inner);
        uuid::Builder::from_random_bytes(random.u128(..).to_le_bytes()).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_uids_again_and_no_seed_never_does() {
        let three = |seed| {
            let chance = Chance::new(seed);
            [chance.uuid(), chance.uuid(), chance.uuid()]
        };
        assert_eq!(three(Some(1)), three(Some(1)));
        assert_ne!(three(Some(1)), three(Some(2)));
        assert_ne!(three(None), three(None));
        assert_eq!(three(Some(1))[0].get_version_num(), 4);
    }
}
