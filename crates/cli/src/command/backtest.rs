//! `skopos backtest`: what a rule would have matched and sent.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use skopos_control::{Backtest as Question, BacktestReport, PayloadView};
use skopos_object::yaml;

use crate::admin_client::DataDir;
use crate::failure::{Code, EXIT_CODES, Failure};
use crate::moment::Moment;
use crate::output::Format;
use crate::rule_files::{RuleFiles, text};
use crate::terminal::{self, CHANGED, FAINT, STRONG};

/// Show what a rule would have matched and sent, before it is put in force
///
/// Goes through the changes in the journal as the rule would have. Nothing is sent.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos backtest -f rule.yaml --since 7d
  skopos backtest -f rule.yaml --since 2026-11-01 --until 2026-11-08 --payloads 20
  skopos backtest -f rule.yaml -o json

The file holds one Rule; a CustomResourceDefinition of what it watches, in the same file or named with a further -f, \
lets names and types be checked. The exit code is 1 if the rule does not compile, or failed on a change.

{EXIT_CODES}"))]
pub(crate) struct Backtest {
    /// File with the rule, or - for standard input; definitions in further files
    #[arg(short, long, value_name = "FILE", required = true, num_args = 1..)]
    filename: Vec<PathBuf>,
    /// Only changes since then
    #[arg(long, value_name = "TIME", default_value = "7d")]
    since: Moment,
    /// Only changes before then
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,
    /// Show so many payloads, the first
    #[arg(long, value_name = "N", default_value_t = 5)]
    payloads: usize,
    /// Treat it as a rule of the cluster, which sees only its own namespace
    #[arg(long)]
    in_cluster: bool,
    /// How to show it
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    data_dir: DataDir,
}

/// The text with the rule, and the definitions beside it.
pub(crate) fn rule_and_definitions(files: &[PathBuf]) -> Result<(String, Vec<Value>), Failure> {
    let mut all = RuleFiles::default();
    let mut texts = Vec::new();
    for file in files {
        let text = text(file)?;
        all.parse(file, &text);
        texts.push(text);
    }
    match all.problems.first() {
        Some(problem) => Err(Failure::failed(problem.clone()).hint("correct it there and try again")),
        None => Ok((texts.join("\n---\n"), all.definition_values())),
    }
}

impl Backtest {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let (rule, definitions) = rule_and_definitions(&self.filename)?;
        let client = self.data_dir.open().await?;
        let now = Timestamp::now();
        let question = Question {
            rule,
            definitions,
            in_cluster: self.in_cluster,
            since: Some(self.since.before(now)),
            until: Some(self.until.map_or(now, |until| until.before(now))),
            payloads: Some(self.payloads),
        };
        let report = client.ask(&question).await.map_err(|failure| Failure {
            code: Code::Failed,
            ..failure
        })?;
        let text = match self.output {
            Format::Json => format!("{}\n", json!(report)),
            Format::Text => show(&report),
        };
        terminal::write(text.as_bytes())?;
        match report.problems.is_empty() {
            true => Ok(()),
            false => Err(Failure::silent(Code::Failed)),
        }
    }
}

fn show(report: &BacktestReport) -> String {
    let mut out = String::new();
    let (rule, looked, matched) = (&report.rule, report.looked, report.matched);
    let _ = writeln!(
        out,
        "{STRONG}{rule}{STRONG:#} would have matched {matched} of {looked} changes, of {} objects",
        report.objects
    );
    if let Some((first, last)) = report.range {
        let _ = writeln!(out, "  changes     {first:.0} to {last:.0}");
    }
    for (sink, n) in &report.deliveries {
        let _ = writeln!(out, "  deliveries  {n} to {sink}");
    }
    if let Some(busiest) = report.busiest {
        let _ = writeln!(
            out,
            "  at most     {} in the minute of {busiest:.0}",
            report.max_per_minute
        );
    }
    if let Some(limit) = report.limit_exceeded {
        let _ = writeln!(
            out,
            "{CHANGED}  the rule allows {limit} a minute: it would have been stopped or slowed{CHANGED:#}"
        );
    }
    for problem in &report.problems {
        let _ = writeln!(out, "{CHANGED}  problem     {problem}{CHANGED:#}");
    }
    for damaged in &report.damaged {
        let _ = writeln!(
            out,
            "{CHANGED}  unreadable  changes {} to {}: {}{CHANGED:#}",
            damaged.from, damaged.to, damaged.what
        );
    }
    for payload in &report.payloads {
        out.push_str(&shown(payload));
    }
    out
}

fn shown(payload: &PayloadView) -> String {
    let held = if payload.held { ", held" } else { "" };
    let op = format!("{:?}", payload.op).to_lowercase();
    let (time, object, sink, seq) = (payload.time, &payload.object, &payload.sink, payload.seq);
    let body = match &payload.data {
        Value::String(text) => text.clone(),
        value => yaml::encode(value),
    };
    let body: String = body.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "{FAINT}{time:.0}{FAINT:#}  {op}{held}  {STRONG}{object}{STRONG:#} -> {sink}  {FAINT}(change {seq}){FAINT:#}\n{body}"
    )
}
