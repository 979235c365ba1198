//! `skopos check`: is everything in these files right?

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::failure::{Code, EXIT_CODES, Failure};
use crate::lint::{Finding, Report, lint};
use crate::output::Format;
use crate::rule_files::RuleFiles;
use crate::terminal::{self, ADDED, CHANGED, DELETED};

/// Check rules, sinks, records and resources in files, and run the tests of rules
///
/// Needs no server. Rules and resources are checked against the CustomResourceDefinitions in the same files, validation
/// rules included; without the definition of its kind a rule is only checked by itself, and a resource not at all.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  skopos check -f rules
  skopos check -f rules crds/application.yaml
  skopos check -f rules -o json

A RuleTest says what a rule must do in given cases:

  apiVersion: skopos.dev/v1alpha1
  kind: RuleTest
  metadata: {{name: scaled, namespace: ops}}
  spec:
    rule: scaled
    cases:
    - name: more replicas
      before: {{spec: {{replicas: 1}}}}
      after: {{spec: {{replicas: 3}}}}
      expect: {{matches: true}}

The exit code is 1 if there is a problem or a test fails. Warnings do not count.

{EXIT_CODES}"))]
pub(crate) struct Check {
    /// File or directory (with what is below) of YAML or JSON, or - for standard input
    #[arg(short, long, value_name = "FILE", required = true, num_args = 1..)]
    filename: Vec<PathBuf>,
    /// How to show what was found
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

impl Check {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let files = RuleFiles::read(&self.filename);
        let report = lint(&files).await;
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

fn show(report: &Report) -> String {
    let mut out = String::new();
    for problem in &report.problems {
        let _ = writeln!(out, "{DELETED}problem{DELETED:#}  {}", line(problem));
    }
    for warning in &report.warnings {
        let _ = writeln!(out, "{CHANGED}warning{CHANGED:#}  {}", line(warning));
    }
    let count = |n: usize, word: &str| match n {
        1 => format!("1 {word}"),
        n => format!("{n} {word}s"),
    };
    let (n_problems, n_tests) = (report.problems.len(), report.tests_passed + report.tests_failed);
    let style = if n_problems == 0 { ADDED } else { DELETED };
    let _ = write!(
        out,
        "{} in {}: {style}{}{style:#}, {}",
        count(report.objects, "object"),
        count(report.files, "file"),
        count(n_problems, "problem"),
        count(report.warnings.len(), "warning"),
    );
    if n_tests > 0 {
        let _ = write!(
            out,
            "; {} of {} passed",
            report.tests_passed,
            count(n_tests, "test case")
        );
    }
    if report.unchecked > 0 {
        let _ = write!(
            out,
            "; {} of unknown kinds not checked",
            count(report.unchecked, "resource")
        );
    }
    out.push('\n');
    out
}

/// One finding; what goes over several lines stays together.
fn line(finding: &Finding) -> String {
    let parts = [
        finding.place.as_str(),
        finding.object.as_str(),
        finding.message.as_str(),
    ];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(": ").replace('\n', "\n         ")
}
