//! `skopos replay`: sends what a rule matched again.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use skopos_control::{CancelReplay, Place, ReplayView, StartReplay, Status};

use crate::admin_client::{AdminClient, DataDir};
use crate::failure::{Code, EXIT_CODES, Failure};
use crate::moment::Moment;
use crate::output::Format;
use crate::{signal, terminal};

/// How often progress is looked at.
const POLL: Duration = Duration::from_millis(200);

/// Send what a rule matched in a range of changes again
///
/// Beside everything else, and with the same ids, so that receivers can tell what they have already. Shows progress
/// until it is done; Ctrl-C cancels it, and forgets what it gave up. What a replay gave up is otherwise kept like every
/// dead letter, by the name of the replay.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos replay ops/backup-failed --from 1h --dry-run
  skopos replay ops/backup-failed --from 2026-11-16T08:00:00Z --to 2026-11-16T09:00:00Z
  skopos replay ops/backup-failed --from 1200 --to 1300 --sink ops/new-audit

--from and --to take times, or numbers of changes as `skopos history` shows them. Needs a running process. The exit code \
is 1 if a delivery was given up.

{EXIT_CODES}"))]
pub(crate) struct Replay {
    /// The rule, as NAMESPACE/NAME, or its name alone if there is one of that name
    #[arg(value_name = "RULE")]
    rule: String,
    /// First change: a time or a number
    #[arg(long, value_name = "TIME|CHANGE")]
    from: From,
    /// Last change: before a time, or a number; otherwise the newest
    #[arg(long, value_name = "TIME|CHANGE")]
    to: Option<From>,
    /// Send to this sink instead of those of the rule
    #[arg(long, value_name = "NAME")]
    sink: Option<String>,
    /// Only count what matches
    #[arg(long)]
    dry_run: bool,
    /// Start it and do not wait for its end
    #[arg(long)]
    no_wait: bool,
    /// How to show progress
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    data_dir: DataDir,
}

/// A place in the journal, as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Seq(u64),
    Moment(Moment),
}

impl std::str::FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(seq) => Ok(Self::Seq(seq)),
            Err(_) => text.parse().map(Self::Moment),
        }
    }
}

impl From {
    fn place(self, now: Timestamp) -> Place {
        match self {
            Self::Seq(seq) => Place::Seq(seq),
            Self::Moment(moment) => Place::Time(moment.before(now)),
        }
    }
}

impl Replay {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let stop = signal::shutdown()?;
        let client = self.data_dir.open_running().await?;
        let now = Timestamp::now();
        let question = StartReplay {
            rule: self.rule.clone(),
            from: self.from.place(now),
            to: self.to.map(|to| to.place(now)),
            sink: self.sink.clone(),
            dry_run: self.dry_run,
        };
        let name = client.ask(&question).await?.name;
        if self.no_wait {
            return Ok(terminal::say(&name)?);
        }
        tokio::select! {
            followed = self.follow(&client, &name) => followed,
            () = stop.cancelled() => self.cancel(&client, name).await,
        }
    }

    async fn cancel(&self, client: &AdminClient, name: String) -> Result<(), Failure> {
        client.ask(&CancelReplay { name: name.clone() }).await?;
        let replays = client.ask(&Status {}).await?.replays;
        let replay = replays.into_iter().find(|replay| replay.name == name);
        let dead = replay.as_ref().map_or(0, |replay| replay.dead);
        let progress = replay.map(|replay| self.progress(&replay)).unwrap_or_default();
        let forgotten = match dead {
            0 => "",
            _ => ", what was given up is forgotten",
        };
        terminal::note(&format!(
            "cancelled: {progress}; what was sent was sent{forgotten}"
        ));
        Err(Failure::silent(Code::Failed))
    }

    async fn follow(&self, client: &AdminClient, name: &str) -> Result<(), Failure> {
        let mut last = None;
        loop {
            let status = client.ask(&Status {}).await?;
            let Some(replay) = status.replays.into_iter().find(|replay| replay.name == name) else {
                let text = format!("the replay {name} is gone");
                return Err(Failure::failed(text).hint("was it cancelled, or the process restarted?"));
            };
            if last.as_ref() != Some(&replay) {
                self.show(&replay)?;
            }
            if replay.finished {
                return ended(&replay);
            }
            last = Some(replay);
            tokio::time::sleep(POLL).await;
        }
    }

    fn show(&self, replay: &ReplayView) -> Result<(), Failure> {
        if self.output == Format::Json {
            return Ok(terminal::say(&json!(replay).to_string())?);
        }
        let state = if replay.finished { "done: " } else { "" };
        Ok(terminal::say(&format!("{state}{}", self.progress(replay)))?)
    }

    /// How far it came.
    fn progress(&self, replay: &ReplayView) -> String {
        let looked = replay.position.saturating_sub(replay.from.saturating_sub(1));
        let all = (replay.to + 1).saturating_sub(replay.from);
        let (matched, delivered, pending, dead) =
            (replay.matched, replay.delivered, replay.pending, replay.dead);
        match self.dry_run {
            true => format!("{looked} of {all} changes, {matched} match (dry run: nothing is sent)"),
            false => format!(
                "{looked} of {all} changes, {matched} matched, {delivered} delivered, {pending} pending, {dead} given up"
            ),
        }
    }
}

/// What the end of a replay means for who waited for it.
fn ended(replay: &ReplayView) -> Result<(), Failure> {
    let text = match replay.dead {
        0 => return Ok(()),
        1 => "1 delivery was given up".to_owned(),
        more => format!("{more} deliveries were given up"),
    };
    Err(Failure::failed(text).hint(format!("see them: skopos dlq list --rule {}", replay.name)))
}
