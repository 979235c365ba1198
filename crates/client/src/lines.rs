//! Cuts the body of a watch into lines.

use bytes::Bytes;
use memchr::memchr;

/// The most that one event may take.
pub(crate) const MAX_LINE_BYTES: usize = 16 << 20;
/// What is kept of the buffer for a line in several chunks, once such a line is done.
const KEPT_BYTES: usize = 1 << 20;

/// A line, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Whole(&'a [u8]),
    /// The line is too large; this is its beginning.
    TooLarge(&'a [u8]),
}

/// Holds the chunk that is being read and the beginning of a line from the chunks before.
#[derive(Debug)]
pub(crate) struct Lines {
    chunk: Bytes,
    /// How much of the chunk has been read.
    at: usize,
    begun: Vec<u8>,
    /// Whether the rest of a line that is too large is being passed over.
    skipping: bool,
    limit: usize,
}

impl Lines {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            chunk: Bytes::new(),
            at: 0,
            begun: Vec::new(),
            skipping: false,
            limit,
        }
    }

    /// Adds a chunk. All lines of the one before must have been taken.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.chunk = chunk;
        self.at = 0;
    }

    /// Hands the next line that is not blank to `read`. Nothing if another chunk is needed first.
    pub(crate) fn next<T>(&mut self, read: impl Fn(Line<'_>) -> T) -> Option<T> {
        loop {
            let rest = &self.chunk[self.at..];
            let Some(end) = memchr(b'\n', rest) else {
                return self.keep_rest(read);
            };
            let rest = &rest[..end];
            self.at += end + 1;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if self.begun.is_empty() {
                if !rest.trim_ascii().is_empty() {
                    return Some(read(self.whole(rest)));
                }
                continue;
            }
            let mut line = std::mem::take(&mut self.begun);
            line.extend_from_slice(rest);
            let answer = (!line.trim_ascii().is_empty()).then(|| read(self.whole(&line)));
            line.clear();
            line.shrink_to(KEPT_BYTES);
            self.begun = line;
            if answer.is_some() {
                return answer;
            }
        }
    }

    /// What is left when the body has ended: a line without its end, if there is one.
    pub(crate) fn last(&self) -> Option<&[u8]> {
        Some(self.begun.trim_ascii()).filter(|line| !line.is_empty() && !self.skipping)
    }

    fn whole<'a>(&self, line: &'a [u8]) -> Line<'a> {
        if line.len() > self.limit {
            Line::TooLarge(&line[..self.limit])
        } else {
            Line::Whole(line)
        }
    }

    fn keep_rest<T>(&mut self, read: impl Fn(Line<'_>) -> T) -> Option<T> {
        let chunk = std::mem::take(&mut self.chunk);
        let rest = &chunk[std::mem::take(&mut self.at)..];
        if self.skipping {
            return None;
        }
        self.begun.extend_from_slice(rest);
        if self.begun.len() <= self.limit {
            return None;
        }
        self.skipping = true;
        let begun = std::mem::take(&mut self.begun);
        Some(read(Line::TooLarge(&begun[..self.limit])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, step: usize, limit: usize) -> (Vec<String>, Option<String>) {
        let mut lines = Lines::new(limit);
        let mut found = Vec::new();
        for chunk in text.as_bytes().chunks(step) {
            lines.push(Bytes::copy_from_slice(chunk));
            while let Some(line) = lines.next(|line| match line {
                Line::Whole(text) => String::from_utf8_lossy(text).into_owned(),
                Line::TooLarge(text) => format!("{}…", String::from_utf8_lossy(text)),
            }) {
                found.push(line);
            }
        }
        (
            found,
            lines.last().map(|l| String::from_utf8_lossy(l).into_owned()),
        )
    }

    #[test]
    fn cuts_lines_wherever_the_chunks_end() {
        for step in 1..20 {
            let (lines, last) = cut("one\n\n two\r\nthree\nfo", step, 100);
            assert_eq!(lines, ["one", " two\r", "three"], "{step}");
            assert_eq!(last.as_deref(), Some("fo"), "{step}");
        }
    }

    #[test]
    fn passes_over_a_line_that_is_too_large() {
        for step in 1..30 {
            let (lines, last) = cut("one\n0123456789abcdef\ntwo\n", step, 8);
            assert_eq!(lines, ["one", "01234567…", "two"], "{step}");
            assert_eq!(last, None, "{step}");
        }
    }
}
