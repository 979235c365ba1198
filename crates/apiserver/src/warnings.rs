//! The warnings of one response, of which there is a bounded number of characters.

/// How many characters all warnings may have before long ones are cut.
const MAX_WHOLE: usize = 4096;

/// What is left of one that is cut.
const MAX_CUT: usize = 256;

/// How many there may be: clients in Rust refuse answers with more than a hundred headers.
const MAX_WARNINGS: usize = 80;

/// Warnings in the order they came, each once.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    texts: Vec<String>,
    n_chars: usize,
    /// Whether there are too many to show each whole.
    cutting: bool,
}

impl Warnings {
    pub(crate) fn add(&mut self, text: String) {
        let is_full = self.texts.len() >= MAX_WARNINGS || self.cutting && self.n_chars >= MAX_WHOLE;
        if text.is_empty() || is_full || self.texts.contains(&text) {
            return;
        }
        let n_chars = text.chars().count();
        self.texts.push(text);
        if !self.cutting && self.n_chars + n_chars > MAX_WHOLE {
            self.cutting = true;
            self.n_chars = self.texts.iter().map(|text| cut(text).chars().count()).sum();
            return;
        }
        self.n_chars += if self.cutting {
            n_chars.min(MAX_CUT)
        } else {
            n_chars
        };
    }

    /// As they are shown.
    pub(crate) fn shown(self) -> Vec<String> {
        match self.cutting {
            true => self.texts.iter().map(|text| cut(text).to_owned()).collect(),
            false => self.texts,
        }
    }
}

fn cut(text: &str) -> &str {
    let end = text.char_indices().nth(MAX_CUT).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(texts: impl IntoIterator<Item = String>) -> Vec<usize> {
        let mut warnings = Warnings::default();
        texts.into_iter().for_each(|text| warnings.add(text));
        warnings.shown().iter().map(|text| text.chars().count()).collect()
    }

    #[test]
    fn many_short_warnings_are_shown_until_there_is_no_room() {
        let texts = |n: usize| (0..n).map(|i| format!("{i:0>64}"));
        assert_eq!(lengths(texts(64)), vec![64; 64]);
        // The one that goes beyond is the last.
        assert_eq!(lengths(texts(100)), vec![64; 65]);
    }

    #[test]
    fn long_warnings_are_cut_once_there_is_no_room_for_all() {
        let texts = |n: usize| (0..n).map(|i| format!("{i}{}", "é".repeat(999)));
        assert_eq!(lengths(texts(4)), vec![1000; 4]);
        assert_eq!(lengths(texts(5)), vec![256; 5]);
        assert_eq!(lengths(texts(100)).len(), 16);
    }

    #[test]
    fn a_warning_is_given_once() {
        assert_eq!(lengths(["a", "", "a"].map(str::to_owned)), [1]);
    }
}
