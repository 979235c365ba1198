//! The whole terminal, for commands that draw on it again and again.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Read as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio_util::sync::CancellationToken;

/// Another screen than that of the shell, without a cursor, on which long lines are cut.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
/// The opposite.
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The terminal while a command has it. As it was before when dropped.
#[derive(Debug)]
pub(crate) struct Screen {
    /// How keys came before; nothing if they do not come from a terminal.
    before: Option<Termios>,
    quit: CancellationToken,
}

impl Screen {
    /// Takes the terminal; nothing if standard output is none.
    pub(crate) fn enter() -> io::Result<Option<Self>> {
        if !io::stdout().is_terminal() {
            return Ok(None);
        }
        let screen = Self {
            before: tcgetattr(io::stdin()).ok(),
            quit: CancellationToken::new(),
        };
        if let Some(before) = &screen.before {
            let mut keys = before.clone();
            // Each key at once, and unseen. Ctrl-C stays a signal.
            keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(io::stdin(), OptionalActions::Now, &keys)?;
            wait_for_quit(screen.quit.clone());
        }
        // Not stripped of what is no colour: without it there is no screen.
        io::stdout().write_all(ENTER.as_bytes())?;
        Ok(Some(screen))
    }

    /// Cancelled once somebody presses `q`.
    pub(crate) fn quit(&self) -> CancellationToken {
        self.quit.clone()
    }

    /// Shows a text in place of the one before, as much of it as there is room for.
    pub(crate) fn draw(&self, text: &str) -> io::Result<()> {
        let rows = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_row));
        let mut out = io::stdout();
        out.write_all(frame(text, rows).as_bytes())?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut out = io::stdout();
        // Who cannot be told does not see it either.
        let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Reads keys until the process ends: a thread that waits for one cannot be told to stop.
fn wait_for_quit(quit: CancellationToken) {
    std::thread::spawn(move || {
        let mut keys = io::stdin().lock().bytes().map_while(Result::ok);
        if keys.any(|key| matches!(key, b'q' | b'Q')) {
            quit.cancel();
        }
    });
}

/// What draws a text over the one before. A terminal that does not tell its size has no rows.
fn frame(text: &str, rows: usize) -> String {
    let rows = match rows {
        0 => usize::MAX,
        rows => rows,
    };
    let mut out = String::from("\x1b[H");
    for (n, line) in text.lines().take(rows).enumerate() {
        // No new line after the last: on the lowest row the first would be lost.
        let start = if n == 0 { "" } else { "\n" };
        let _ = write!(out, "{start}{line}\x1b[K");
    }
    out.push_str("\x1b[J");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_as_many_lines_as_there_is_room_for() {
        let all = "\x1b[Ha\x1b[K\nb\x1b[K\nc\x1b[K\x1b[J";
        assert_eq!(frame("a\nb\nc\n", 0), all);
        assert_eq!(frame("a\nb\nc\n", 3), all);
        assert_eq!(frame("a\nb\nc\n", 2), "\x1b[Ha\x1b[K\nb\x1b[K\x1b[J");
        assert_eq!(frame("", 2), "\x1b[H\x1b[J");
    }
}
