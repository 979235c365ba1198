//! `skopos resume`: lets a rule go on that was stopped.

use clap::Args;
use skopos_control::ResumeRule;

use crate::admin_client::DataDir;
use crate::failure::{EXIT_CODES, Failure};
use crate::terminal;

/// Let a rule go on that was suspended because it did more than it may, or looked like a loop
///
/// What came meanwhile was kept, and is delivered now. A rule whose specification says `suspend: true` stays as it is.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos top --once
  skopos resume ops/backup-failed

{EXIT_CODES}"))]
pub(crate) struct Resume {
    /// The rule, as NAMESPACE/NAME, or its name alone if there is one of that name
    #[arg(value_name = "RULE")]
    rule: String,
    #[command(flatten)]
    data_dir: DataDir,
}

impl Resume {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let client = self.data_dir.open_running().await?;
        let rule = self.rule.clone();
        let resumed = client.ask(&ResumeRule { rule }).await?;
        let rule = resumed.rule;
        let said = match resumed.suspended {
            Some(why) => format!("{rule} goes on; it was suspended: {why}"),
            None => format!("{rule} was not suspended: there is nothing to resume"),
        };
        Ok(terminal::say(&said)?)
    }
}
