//! Where output goes: standard output and error, coloured only on a terminal and without `NO_COLOR`.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use crate::failure::Failure;

/// Something that was added.
pub(crate) const ADDED: Style = AnsiColor::Green.on_default();
/// Something that was changed.
pub(crate) const CHANGED: Style = AnsiColor::Yellow.on_default();
/// Something that was deleted, or an error.
pub(crate) const DELETED: Style = AnsiColor::Red.on_default();
/// Less important text.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// Headings.
pub(crate) const STRONG: Style = Style::new().bold();

/// Writes to standard output. Strips colours where they do not belong.
pub(crate) fn stdout() -> impl Write {
    anstream::stdout()
}

/// Writes one line to standard output.
pub(crate) fn say(line: &str) -> io::Result<()> {
    let mut out = anstream::stdout();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Writes one line to standard error. Nothing can be done if that fails.
pub(crate) fn note(line: &str) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Writes bytes to standard output.
pub(crate) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = anstream::stdout();
    out.write_all(bytes)?;
    out.flush()
}

/// Reports a failure, with what to do next. Says nothing of one that was reported already.
pub(crate) fn report(failure: &Failure) {
    if failure.message.is_empty() {
        return;
    }
    note(&format!("{DELETED}error:{DELETED:#} {}", failure.message));
    if let Some(hint) = &failure.hint {
        note(&format!("{FAINT}hint:{FAINT:#} {hint}"));
    }
}

/// Shows a warning of the server.
pub(crate) fn warn(text: &str) {
    note(&format!("{CHANGED}Warning:{CHANGED:#} {text}"));
}
