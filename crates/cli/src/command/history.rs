//! `skopos history`: what happened to objects, and what they were.

mod restore;
mod view;

use std::collections::VecDeque;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use skopos_control::{ChangeView, Changes, Holes, ObjectAt, ObjectState, Part, Presence};

use self::restore::Restore;
use self::view::Printer;
use crate::admin_client::{AdminClient, DataDir};
use crate::connection::Connection;
use crate::failure::{EXIT_CODES, Failure};
use crate::moment::Moment;
use crate::names::targets;
use crate::output::{ObjectFormat, documents, without_managed_fields};
use crate::terminal;

/// Show what happened to objects, or what they were
///
/// Reads the journal of `skopos up` or `skopos run`: of the running process, or of its data directory if none runs.
/// The kind must be captured, because a Record or a Rule asks for it. Without -n objects of all namespaces are shown;
/// with it, finding the changes of one object is quick also in a long journal.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = format!("\
Examples:
  skopos history applications
  skopos history app web -n shop --diff --since 1h
  skopos history app/web -n shop --at 2026-11-16T08:00:00Z
  skopos history pods --since 7d --last 20 -o json
  skopos history restore app web -n shop --at 10m

Times are RFC 3339 (2026-11-16T08:00:00Z), days (2026-11-16) or how long ago (90s, 10m, 7d).

A change that was only found by comparing (nobody was there when it happened) shows the time between which it \
happened. A hole is a time for which changes may be missing. With -o json each change is one line with seq, id, time, \
op, resource, namespace, name, uid, resourceVersion, observed (live, resumed, relist, first), notBefore, by (who wrote, where \
managed fields tell) and diff, with --diff also before and after; a hole is a line with the field hole.

{EXIT_CODES}"))]
pub(crate) struct History {
    #[command(subcommand)]
    command: Option<HistoryCommand>,
    #[command(flatten)]
    show: Show,
}

#[derive(Debug, Subcommand)]
enum HistoryCommand {
    Restore(Box<Restore>),
}

#[derive(Debug, Args)]
struct Show {
    /// TYPE, TYPE NAME or TYPE/NAME
    #[arg(required = true, value_name = "TYPE [NAME]")]
    what: Vec<String>,
    /// Only in this namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Show each change field by field
    #[arg(long)]
    diff: bool,
    /// Show the object as it was then
    #[arg(long, value_name = "TIME", conflicts_with_all = ["diff", "since", "until", "last"])]
    at: Option<Moment>,
    /// Only changes since then
    #[arg(long, value_name = "TIME")]
    since: Option<Moment>,
    /// Only changes before then
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,
    /// Only the newest so many
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// How to show them
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    data_dir: DataDir,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
}

impl History {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self.command {
            Some(HistoryCommand::Restore(restore)) => restore.run().await,
            None => self.show.run().await,
        }
    }
}

/// What is meant: a type, and perhaps one name.
fn target(words: &[String]) -> Result<(String, Option<String>), Failure> {
    match targets(words)?.as_mut_slice() {
        [one] if one.names.len() <= 1 => Ok((one.word.clone(), one.names.pop())),
        _ => Err(Failure::usage("history takes one type, and one name at most")),
    }
}

impl Show {
    async fn run(self) -> Result<(), Failure> {
        let (word, name) = target(&self.what)?;
        let client = self.data_dir.open().await?;
        let resource = client.resource(&word, &self.connection).await?;
        let now = Timestamp::now();
        match (self.at, name) {
            (Some(at), Some(name)) => self.object(&client, resource, name, at.before(now)).await,
            (Some(_), None) => {
                Err(Failure::usage("--at shows one object: which?").hint("write its name after the type"))
            }
            (None, name) => self.changes(&client, resource, name, now).await,
        }
    }

    async fn object(
        &self,
        client: &AdminClient,
        resource: String,
        name: String,
        at: Timestamp,
    ) -> Result<(), Failure> {
        let question = ObjectAt {
            resource,
            namespace: self.namespace.clone(),
            name,
            at,
        };
        let state = client.ask(&question).await?;
        let object = present(&question, state)?;
        let format = match self.output {
            Format::Json => ObjectFormat::Json,
            Format::Text | Format::Yaml => ObjectFormat::Yaml,
        };
        let object = without_managed_fields(object);
        Ok(documents(&mut terminal::stdout(), format, vec![object], true)?)
    }

    async fn changes(
        &self,
        client: &AdminClient,
        resource: String,
        name: Option<String>,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let time = |moment: Option<Moment>| moment.map(|moment| moment.before(now));
        let (since, until) = (time(self.since), time(self.until));
        let holes = Holes {
            resource: Some(resource.clone()),
            since,
            until,
        };
        let holes = client.ask(&holes).await?.holes;
        let mut changes = Changes {
            resource: Some(resource.clone()),
            namespace: self.namespace.clone(),
            name,
            since,
            until,
            parts: self.parts(),
            ..Changes::default()
        };
        let mut printer = Printer::new(self.output, self.diff, holes);
        let mut newest = Newest::new(self.last);
        let mut n_found = 0;
        loop {
            let page = client.ask(&changes).await?;
            n_found += page.changes.len();
            for damaged in &page.damaged {
                let (from, to) = (damaged.from, damaged.to);
                terminal::warn(&format!(
                    "changes {from} to {to} cannot be read: {}",
                    damaged.what
                ));
            }
            let shown = newest.add(page.changes);
            printer.print(shown)?;
            match page.next {
                Some(next) => changes.after = next,
                None => break,
            }
        }
        printer.print(newest.rest())?;
        let n_printed = printer.end()?;
        if let (Some(name), true) = (&changes.name, n_found == 0 && since.is_none() && until.is_none()) {
            let text = format!("nothing is known of {resource} {name}");
            let hint = format!(
                "`skopos history {resource}` shows those of which something is; -n says in which namespace"
            );
            return Err(Failure::failed(text).hint(hint));
        }
        if n_printed == 0 && self.output == Format::Text {
            terminal::note(&format!("No changes of {resource} found."));
        }
        Ok(())
    }

    fn parts(&self) -> Vec<Part> {
        match (self.output, self.diff) {
            (_, false) => vec![Part::Diff],
            (Format::Text, true) => vec![Part::Before, Part::After],
            (_, true) => vec![Part::Diff, Part::Before, Part::After],
        }
    }
}

/// The object as it was, or why it cannot be shown. Doubt is said on standard error.
fn present(asked: &ObjectAt, state: ObjectState) -> Result<serde_json::Value, Failure> {
    let (name, at) = (&asked.name, asked.at);
    if let Some(uncertain) = &state.uncertain {
        terminal::warn(&format!(
            "change {} happened at some time between {:.0} and {:.0}; this is the state before it",
            uncertain.seq, uncertain.after, uncertain.until
        ));
    }
    match (state.presence, state.object) {
        (Presence::Present, Some(object)) => Ok(object),
        (Presence::Absent, _) => {
            let failure = Failure::failed(format!("{name} was not there at {at:.0}"));
            Err(match state.since {
                Some(since) => failure.hint(format!("it was deleted at {since:.0}; ask for a time before")),
                None => failure.hint(format!(
                    "see when it came: skopos history {} {name}",
                    asked.resource
                )),
            })
        }
        _ => Err(
            Failure::failed(format!("what {name} was at {at:.0} is not known"))
                .hint("its kind was not captured then, or the changes are no longer kept"),
        ),
    }
}

/// The newest changes, if only those are wanted.
#[derive(Debug)]
struct Newest {
    limit: Option<usize>,
    kept: VecDeque<ChangeView>,
}

impl Newest {
    fn new(limit: Option<usize>) -> Self {
        Self {
            limit,
            kept: VecDeque::new(),
        }
    }

    /// Takes changes, and gives those back that are certainly wanted.
    fn add(&mut self, changes: Vec<ChangeView>) -> Vec<ChangeView> {
        let Some(limit) = self.limit else {
            return changes;
        };
        self.kept.extend(changes);
        let n_old = self.kept.len().saturating_sub(limit);
        self.kept.drain(..n_old);
        Vec::new()
    }

    fn rest(self) -> Vec<ChangeView> {
        self.kept.into()
    }
}
