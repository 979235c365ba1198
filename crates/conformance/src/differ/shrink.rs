//! Makes a scenario that shows a difference as short as it can be.

use super::{Difference, Excuses, Pair, Scenario, Watch};

/// How many times a scenario is played again to shorten it.
const MOST_REPLAYS: usize = 60;

impl Pair {
    /// Drops requests as long as the last one still differs in the same part. The result shows a difference too.
    pub async fn shrink(
        &self,
        scenario: &Scenario,
        difference: &Difference,
        excuses: &mut Excuses,
    ) -> Scenario {
        let mut best = scenario.clone();
        let end = best
            .requests
            .iter()
            .position(|step| step.name == difference.request);
        best.requests
            .truncate(end.map_or(best.requests.len(), |end| end + 1));
        let n_kept = n_kept(&best);
        let mut replays = 0;
        let mut size = best.requests.len() / 2;
        while size > 0 && replays < MOST_REPLAYS {
            let mut start = 0;
            while start + size + n_kept <= best.requests.len() && replays < MOST_REPLAYS {
                let mut shorter = best.clone();
                shorter.requests.drain(start..start + size);
                replays += 1;
                match self.still_differs(&shorter, difference, excuses, replays).await {
                    true => best = shorter,
                    false => start += size,
                }
            }
            size /= 2;
        }
        best
    }

    async fn still_differs(
        &self,
        scenario: &Scenario,
        difference: &Difference,
        excuses: &mut Excuses,
        replay: usize,
    ) -> bool {
        let id = format!("{:x}s{replay}", std::process::id());
        let Ok(outcome) = self.play_as(scenario, &id).await else {
            return false;
        };
        let mut found = outcome.differences.into_iter();
        found.any(|found| {
            found.request == difference.request && found.part == difference.part && !excuses.admit(&found)
        })
    }
}

/// How many requests at the end stay: the last is the one that differs, and a watch that is read up to an object needs
/// the one that makes it.
fn n_kept(scenario: &Scenario) -> usize {
    let last = scenario.requests.last();
    let watch = last.and_then(|step| step.watch.as_ref());
    1 + usize::from(matches!(watch, Some(Watch::Object(_))))
}
