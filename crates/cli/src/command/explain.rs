//! `skopos explain`: why a rule fired or not.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use skopos_control::{ChangeName, Explain as Question, Explained, ExplanationView};

use super::backtest::rule_and_definitions;
use crate::admin_client::DataDir;
use crate::failure::{EXIT_CODES, Failure};
use crate::output::Format;
use crate::terminal::{self, ADDED, DELETED, FAINT, STRONG};

/// Show why a rule fired for a change, or why not
///
/// Of a change: what each rule in force made of it. Of a rule: what it makes of the newest changes of its kind, and
/// how it is doing.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos explain 1234
  skopos explain 2f1c0f9e-7d4b-4a8e-9a51-0f5d5c0c9d1e.created/ops.backup-failed
  skopos explain 2f1c0f9e-7d4b-4a8e-9a51-0f5d5c0c9d1e.created --rule ops/backup-failed
  skopos explain ops/backup-failed
  skopos explain 1234 -f rule.yaml

`skopos history` shows the numbers of changes. The id of a delivery, as its receiver got it, stands for its change and its
rule. With -f the rule in the file is asked, whether or not it is in force; without, a process must run on the data
directory.

{EXIT_CODES}"))]
pub(crate) struct Explain {
    /// Number or id of a change, id of a delivery, or the name of a rule
    #[arg(value_name = "CHANGE|RULE", required_unless_present = "filename")]
    what: Option<String>,
    /// Only this rule
    #[arg(long, value_name = "NAME", conflicts_with = "filename")]
    rule: Option<String>,
    /// File with a rule to ask instead of those in force; definitions in further files
    #[arg(short, long, value_name = "FILE", num_args = 1..)]
    filename: Vec<PathBuf>,
    /// Treat the rule in the file as one of the cluster, which sees only its own namespace
    #[arg(long, requires = "filename")]
    in_cluster: bool,
    /// How to show it
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    data_dir: DataDir,
}

impl Explain {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let question = self.question()?;
        let client = self.data_dir.open().await?;
        let explained = client.ask(&question).await?;
        let text = match self.output {
            Format::Json => format!("{}\n", json!(explained)),
            Format::Text => show(&explained),
        };
        Ok(terminal::write(text.as_bytes())?)
    }

    fn question(&self) -> Result<Question, Failure> {
        let mut question = Question {
            rule: self.rule.clone(),
            in_cluster: self.in_cluster,
            ..Question::default()
        };
        if !self.filename.is_empty() {
            let (rule, definitions) = rule_and_definitions(&self.filename)?;
            (question.try_rule, question.definitions) = (Some(rule), definitions);
        }
        match &self.what {
            Some(word) if ChangeName::parse(word).is_some() => question.change = Some(word.clone()),
            Some(word) if self.rule.is_some() || !self.filename.is_empty() => {
                return Err(Failure::usage(format!(
                    "{word:?} is neither the number nor the id of a change or delivery"
                ))
                .hint("`skopos history` shows the numbers"));
            }
            Some(word) => question.rule = Some(word.clone()),
            None => {}
        }
        Ok(question)
    }
}

fn show(explained: &Explained) -> String {
    let mut out = String::new();
    if let Some(change) = &explained.change {
        let op = format!("{:?}", change.op).to_lowercase();
        let key = match change.namespace.is_empty() {
            true => change.name.clone(),
            false => format!("{}/{}", change.namespace, change.name),
        };
        let (time, resource, seq) = (change.time, &change.resource, change.seq);
        let _ = writeln!(
            out,
            "{FAINT}{time:.0}{FAINT:#}  {op}  {resource} {STRONG}{key}{STRONG:#}  {FAINT}(change {seq}){FAINT:#}"
        );
    }
    for one in &explained.conditions {
        let (style, mark) = match one.holds {
            true => (ADDED, "yes"),
            false => (DELETED, "NO "),
        };
        let _ = writeln!(
            out,
            "{style}{mark}{style:#} {} ({}) {}",
            one.kind, one.reason, one.message
        );
    }
    for one in &explained.explanations {
        out.push_str(&shown(one, explained.change.is_none()));
    }
    if explained.explanations.is_empty() {
        let why = match explained.change {
            Some(_) => "no rule is in force",
            None => "no change of its kind is among the newest",
        };
        let _ = writeln!(out, "{why}");
    }
    out
}

/// What a rule made of a change: of one that matched in short, of one that did not up to what decided.
fn shown(one: &ExplanationView, named: bool) -> String {
    let (style, outcome) = match one.matched {
        true => (ADDED, "matches"),
        false => (DELETED, "does not match"),
    };
    let seq = if named {
        format!(" change {}", one.seq)
    } else {
        String::new()
    };
    let mut out = format!("{STRONG}{}{STRONG:#} {style}{outcome}{style:#}{seq}\n", one.rule);
    for step in &one.steps {
        let (style, mark) = match step.passed {
            true => (ADDED, "yes"),
            false => (DELETED, "NO "),
        };
        let _ = writeln!(out, "  {style}{mark}{style:#} {}: {}", step.name, step.detail);
        for (what, value) in &step.values {
            let _ = writeln!(out, "        {FAINT}{what} = {value}{FAINT:#}");
        }
    }
    out
}
