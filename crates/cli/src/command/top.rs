//! `skopos top`: how rules, sinks and captures are doing, live.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use skopos_control::{CaptureView, ConditionView, RecordView, RuleView, SinkView, Status, StatusView};
use tokio::time::Instant;

use crate::admin_client::{AdminClient, DataDir};
use crate::failure::{EXIT_CODES, Failure};
use crate::output::{Format, Table};
use crate::screen::Screen;
use crate::{signal, terminal};

/// Show how rules, sinks and captures are doing: lag, rates, what waits and what was given up
///
/// Goes on until `q` or Ctrl-C. Without a running process it shows what its data directory says.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos top
  skopos top --once
  skopos top -o json --every 10

{EXIT_CODES}"))]
pub(crate) struct Top {
    /// Show it once and end
    #[arg(long)]
    once: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// How to show it; json is one line per look
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    data_dir: DataDir,
}

impl Top {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let stop = signal::shutdown()?;
        let client = self.data_dir.open_with_deliveries().await?;
        let screen = match self.once || self.output == Format::Json {
            true => None,
            false => Screen::enter()?,
        };
        let quit = screen.as_ref().map(Screen::quit).unwrap_or_default();
        tokio::select! {
            ended = self.follow(&client, screen.as_ref()) => ended,
            () = stop.cancelled() => Ok(()),
            () = quit.cancelled() => Ok(()),
        }
    }

    async fn follow(&self, client: &AdminClient, screen: Option<&Screen>) -> Result<(), Failure> {
        let mut before: Option<(Instant, StatusView)> = None;
        loop {
            let status = client.ask(&Status {}).await?;
            let now = Instant::now();
            let rates = before
                .as_ref()
                .map(|(then, before)| Rates::new(before, &status, now - *then));
            self.show(&status, rates.as_ref(), screen)?;
            if self.once {
                return Ok(());
            }
            before = Some((now, status));
            tokio::time::sleep(Duration::from_secs(self.every)).await;
        }
    }

    /// A terminal shows one frame in place of the one before; a file gets them all.
    fn show(
        &self,
        status: &StatusView,
        rates: Option<&Rates>,
        screen: Option<&Screen>,
    ) -> Result<(), Failure> {
        let text = match self.output {
            Format::Json => format!("{}\n", json!(status)),
            Format::Text => frame(status, rates),
        };
        match screen {
            Some(screen) => screen.draw(&text)?,
            None => terminal::write(text.as_bytes())?,
        }
        Ok(())
    }
}

/// What happened a second since the last look.
#[derive(Debug, Default)]
struct Rates {
    changes: f64,
    matched: BTreeMap<String, f64>,
    delivered: BTreeMap<String, f64>,
}

impl Rates {
    fn new(before: &StatusView, now: &StatusView, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs_f64().max(0.001);
        #[expect(clippy::cast_precision_loss, reason = "a rate is shown with one digit")]
        let rate = |old: u64, new: u64| new.saturating_sub(old) as f64 / seconds;
        let rules = now.rules.iter().filter_map(|rule| {
            let old = before.rules.iter().find(|old| old.name == rule.name)?;
            Some((rule.name.clone(), rate(old.matched, rule.matched)))
        });
        let sinks = now.sinks.iter().filter_map(|sink| {
            let old = before.sinks.iter().find(|old| old.name == sink.name)?;
            Some((sink.name.clone(), rate(old.delivered, sink.delivered)))
        });
        Self {
            changes: rate(before.journal.head, now.journal.head),
            matched: rules.collect(),
            delivered: sinks.collect(),
        }
    }
}

fn shown(rate: Option<&f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"))
}

fn frame(status: &StatusView, rates: Option<&Rates>) -> String {
    let journal = &status.journal;
    let mut out = format!(
        "journal: change {} ({}/s), {} objects, {} MiB on disk, {} holes, {} damaged\n",
        journal.head,
        shown(rates.map(|rates| &rates.changes)),
        journal.objects,
        journal.disk_bytes >> 20,
        journal.holes,
        journal.damaged,
    );
    if journal.commit_errors > 0 {
        let _ = writeln!(
            out,
            "journal: {} writes failed since the start",
            journal.commit_errors
        );
    }
    let mut add = |table: Table| {
        if !table.rows.is_empty() {
            let _ = write!(out, "\n{}", table.render(true));
        }
    };
    add(captures(&status.captures));
    add(rules(&status.rules, rates));
    add(sinks(&status.sinks, rates));
    add(records(&status.records));
    add(replays(status));
    for problem in &status.unreadable {
        let _ = writeln!(out, "\ncannot be used: {}", line(problem));
    }
    out
}

fn table<const N: usize>(headings: [&str; N], rows: Vec<Vec<String>>) -> Table {
    Table {
        headings: headings.map(str::to_owned).to_vec(),
        rows,
    }
}

fn captures(captures: &[CaptureView]) -> Table {
    let row = |one: &CaptureView| {
        let why = match one.detail.is_empty() {
            true => one.trouble.clone().unwrap_or_default(),
            false => one.detail.clone(),
        };
        let heard = one.heard.map_or_else(|| "-".to_owned(), |at| format!("{at:.0}"));
        vec![one.resource.clone(), one.phase.clone(), heard, line(&why)]
    };
    table(
        ["CAPTURE", "PHASE", "UP TO DATE", "TROUBLE"],
        captures.iter().map(row).collect(),
    )
}

fn rules(rules: &[RuleView], rates: Option<&Rates>) -> Table {
    let row = |rule: &RuleView| {
        let sum =
            |of: fn(&skopos_control::RouteView) -> u64| rule.routes.iter().map(of).sum::<u64>().to_string();
        let trouble = match &rule.suspended {
            Some(why) => format!("suspended: {why}"),
            None => unmet(&rule.conditions).unwrap_or_else(|| rule.last_error.clone()),
        };
        vec![
            rule.name.clone(),
            rule.lag_changes.to_string(),
            format!("{:.1}s", rule.lag_seconds),
            rule.matched.to_string(),
            shown(rates.and_then(|rates| rates.matched.get(&rule.name))),
            sum(|route| route.delivered),
            sum(|route| route.pending),
            sum(|route| route.dead),
            line(&trouble),
        ]
    };
    let headings = [
        "RULE",
        "BEHIND",
        "LAG",
        "MATCHED",
        "PER S",
        "DELIVERED",
        "PENDING",
        "DEAD",
        "TROUBLE",
    ];
    table(headings, rules.iter().map(row).collect())
}

/// The first condition that does not hold.
fn unmet(conditions: &[ConditionView]) -> Option<String> {
    let one = conditions.iter().find(|one| !one.holds)?;
    Some(match one.message.is_empty() {
        true => format!("{}: {}", one.kind, one.reason),
        false => format!("{}: {}", one.reason, one.message),
    })
}

fn sinks(sinks: &[SinkView], rates: Option<&Rates>) -> Table {
    let row = |sink: &SinkView| {
        let down = sink
            .down_seconds
            .map_or_else(|| "-".to_owned(), |down| format!("{down:.0}s"));
        vec![
            sink.name.clone(),
            sink.delivered.to_string(),
            shown(rates.and_then(|rates| rates.delivered.get(&sink.name))),
            sink.pending.to_string(),
            sink.in_flight.to_string(),
            sink.dead.to_string(),
            down,
            line(&unmet(&sink.conditions).unwrap_or_else(|| sink.last_error.clone())),
        ]
    };
    let headings = [
        "SINK",
        "DELIVERED",
        "PER S",
        "PENDING",
        "IN FLIGHT",
        "DEAD",
        "DOWN",
        "TROUBLE",
    ];
    table(headings, sinks.iter().map(row).collect())
}

fn records(records: &[RecordView]) -> Table {
    let row = |record: &RecordView| {
        let ready = record.conditions.iter().find(|one| one.kind == "Ready");
        vec![
            record.name.clone(),
            ready.map_or_else(|| "-".to_owned(), |one| one.reason.clone()),
            line(&unmet(&record.conditions).unwrap_or_default()),
        ]
    };
    table(["RECORD", "STATE", "TROUBLE"], records.iter().map(row).collect())
}

fn replays(status: &StatusView) -> Table {
    let running = status.replays.iter().filter(|replay| !replay.finished);
    let rows = running.map(|replay| {
        vec![
            replay.name.clone(),
            replay.rule.clone(),
            format!("{} of {} to {}", replay.position, replay.from, replay.to),
            replay.matched.to_string(),
            replay.delivered.to_string(),
            replay.pending.to_string(),
        ]
    });
    table(
        ["REPLAY", "RULE", "AT", "MATCHED", "DELIVERED", "PENDING"],
        rows.collect(),
    )
}

/// The first line, without what could confuse a terminal.
fn line(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    first.chars().filter(|c| !c.is_control()).take(100).collect()
}
