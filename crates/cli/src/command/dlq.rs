//! `skopos dlq`: deliveries that were given up.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use skopos_control::{DeadLetters, LetterView, ShowLetter, TakeLetters, Then, WhichLetters};
use skopos_object::yaml;

use crate::admin_client::DataDir;
use crate::failure::{EXIT_CODES, Failure};
use crate::output::{Format, Table};
use crate::terminal::{self, DELETED, STRONG};

/// Look at deliveries that were given up; try them again or drop them
///
/// A delivery becomes a dead letter when its destination refuses it for good, when it failed as often as the sink
/// allows, or when it is too large.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos dlq list
  skopos dlq list --sink ops/audit -o json
  skopos dlq show 3-17
  skopos dlq redrive --rule ops/backup-failed
  skopos dlq redrive 3-17
  skopos dlq drop --all

{EXIT_CODES}"))]
pub(crate) struct Dlq {
    #[command(subcommand)]
    command: DlqCommand,
}

#[derive(Debug, Subcommand)]
enum DlqCommand {
    List(List),
    Show(Show),
    Redrive(Redrive),
    Drop(Drop),
}

/// List dead letters
#[derive(Debug, Args)]
struct List {
    /// Only those of this rule, as NAMESPACE/NAME
    #[arg(long, value_name = "NAME", conflicts_with = "sink")]
    rule: Option<String>,
    /// Only those of this sink, as NAMESPACE/NAME
    #[arg(long, value_name = "NAME")]
    sink: Option<String>,
    /// How to show them
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    data_dir: DataDir,
}

/// Show one dead letter and what would be sent if it were redriven now
#[derive(Debug, Args)]
struct Show {
    /// Which, as `dlq list` shows it
    #[arg(value_name = "ID")]
    id: String,
    /// How to show it
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    data_dir: DataDir,
}

/// Try dead letters again, after everything that is pending
#[derive(Debug, Args)]
struct Redrive {
    #[command(flatten)]
    which: Which,
}

/// Forget dead letters for good
#[derive(Debug, Args)]
struct Drop {
    #[command(flatten)]
    which: Which,
}

/// Which letters are meant: nothing is taken without saying.
#[derive(Debug, Args)]
struct Which {
    /// One, as `dlq list` shows it
    #[arg(value_name = "ID", required_unless_present_any = ["rule", "sink", "all"])]
    id: Option<String>,
    /// Those of this rule, as NAMESPACE/NAME
    #[arg(long, value_name = "NAME", conflicts_with_all = ["id", "sink", "all"])]
    rule: Option<String>,
    /// Those of this sink, as NAMESPACE/NAME
    #[arg(long, value_name = "NAME", conflicts_with_all = ["id", "all"])]
    sink: Option<String>,
    /// All
    #[arg(long, conflicts_with = "id")]
    all: bool,
    /// How to show what was done
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    data_dir: DataDir,
}

impl Dlq {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self.command {
            DlqCommand::List(list) => list.run().await,
            DlqCommand::Show(show) => show.run().await,
            DlqCommand::Redrive(redrive) => redrive.which.take(Then::Redrive).await,
            DlqCommand::Drop(drop) => drop.which.take(Then::Drop).await,
        }
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let client = self.data_dir.open_with_deliveries().await?;
        let mut question = DeadLetters {
            which: WhichLetters {
                rule: self.rule,
                sink: self.sink,
                id: None,
            },
            ..DeadLetters::default()
        };
        let mut is_first = true;
        loop {
            let page = client.ask(&question).await?;
            if is_first && page.letters.is_empty() && self.output == Format::Text {
                terminal::note("No dead letters.");
            }
            let text = match self.output {
                Format::Json => page
                    .letters
                    .iter()
                    .map(|letter| format!("{}\n", json!(letter)))
                    .collect(),
                Format::Text if page.letters.is_empty() => String::new(),
                Format::Text => table(&page.letters).render(is_first),
            };
            terminal::write(text.as_bytes())?;
            is_first = false;
            match page.next {
                Some(next) => question.after = Some(next),
                None => return Ok(()),
            }
        }
    }
}

fn table(letters: &[LetterView]) -> Table {
    let headings = [
        "ID", "WHEN", "RULE", "SINK", "CHANGE", "OBJECT", "ATTEMPTS", "ERROR",
    ];
    let row = |letter: &LetterView| {
        vec![
            letter.id.clone(),
            format!("{:.0}", letter.time),
            letter.rule.clone(),
            letter.sink.clone(),
            letter.seq.to_string(),
            letter.object.clone(),
            letter.attempts.to_string(),
            letter.error.lines().next().unwrap_or_default().to_owned(),
        ]
    };
    Table {
        headings: headings.map(str::to_owned).to_vec(),
        rows: letters.iter().map(row).collect(),
    }
}

impl Show {
    async fn run(self) -> Result<(), Failure> {
        let client = self.data_dir.open_with_deliveries().await?;
        let whole = client.ask(&ShowLetter { id: self.id }).await?;
        if self.output == Format::Json {
            return Ok(terminal::say(&json!(whole).to_string())?);
        }
        let letter = &whole.letter;
        let mut out = format!(
            "{STRONG}{}{STRONG:#}  {} -> {}\n",
            letter.id, letter.rule, letter.sink
        );
        out.push_str(&format!(
            "  object    {} (change {}, {})\n",
            letter.object, letter.seq, letter.trigger
        ));
        out.push_str(&format!(
            "  given up  {:.0} after {} attempts\n",
            letter.time, letter.attempts
        ));
        out.push_str(&format!("  error     {DELETED}{}{DELETED:#}\n", letter.error));
        match (&whole.problem, &whole.data) {
            (Some(problem), _) => out.push_str(&format!("  would be sent: not known: {problem}\n")),
            (None, data) => {
                let text = match data {
                    Some(Value::String(text)) => text.clone(),
                    Some(value) => yaml::encode(value),
                    None => String::new(),
                };
                out.push_str("  would be sent:\n");
                out.extend(text.lines().map(|line| format!("    {line}\n")));
            }
        }
        Ok(terminal::write(out.as_bytes())?)
    }
}

impl Which {
    async fn take(self, then: Then) -> Result<(), Failure> {
        let client = self.data_dir.open_with_deliveries().await?;
        let which = WhichLetters {
            rule: self.rule,
            sink: self.sink,
            id: self.id,
        };
        let taken = client.ask(&TakeLetters { which, then }).await?.taken;
        let done = match then {
            Then::Redrive => "redriven",
            Then::Drop => "dropped",
        };
        let line = match self.output {
            Format::Json => json!({done: taken}).to_string(),
            Format::Text if taken == 1 => format!("1 dead letter {done}"),
            Format::Text => format!("{taken} dead letters {done}"),
        };
        Ok(terminal::say(&line)?)
    }
}
