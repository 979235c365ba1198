//! Semantic versions.

use std::cmp::Ordering;

/// A version: `1.2.3-rc.1+build`.
#[derive(Debug, Clone)]
pub(crate) struct Semver {
    pub(crate) numbers: [u64; 3],
    pre: Vec<Pre>,
    /// As written, without what was normalized away.
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Pre {
    /// Numbers come before text.
    Number(u64),
    Text(String),
}

impl std::fmt::Display for Semver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Semver {
    pub(crate) fn parse(text: &str) -> Result<Semver, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let major = number("Major", major)?;
        let minor = number("Minor", minor)?;
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, Some(pre)),
            None => (rest, None),
        };
        let patch = number("Patch", patch)?;
        let pre = match pre {
            Some(pre) => pre.split('.').map(pre_release).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        for part in build.into_iter().flat_map(|b| b.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_alphanumeric(part) {
                return Err(format!("Invalid character(s) found in build meta data {part:?}"));
            }
        }
        Ok(Semver {
            numbers: [major, minor, patch],
            pre,
            text: text.to_owned(),
        })
    }

    /// Parses also `v1.2`, `01.2.3` and the like.
    pub(crate) fn parse_tolerant(text: &str) -> Result<Semver, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Semver::parse(&parts.join("."))
    }

    pub(crate) fn compare(&self, other: &Semver) -> Ordering {
        let pre = || match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        };
        self.numbers.cmp(&other.numbers).then_with(pre)
    }
}

fn without_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    match trimmed.starts_with(|c: char| c.is_ascii_digit()) {
        true => trimmed.to_owned(),
        false => format!("0{trimmed}"),
    }
}

fn is_numeric(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

fn is_alphanumeric(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn number(what: &str, text: &str) -> Result<u64, String> {
    if !is_numeric(text) {
        let what = what.to_ascii_lowercase();
        return Err(format!("Invalid character(s) found in {what} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{what} number must not contain leading zeroes {text:?}"));
    }
    let reason = if text.is_empty() {
        "invalid syntax"
    } else {
        "value out of range"
    };
    text.parse()
        .map_err(|_| format!("strconv.ParseUint: parsing {text:?}: {reason}"))
}

fn pre_release(text: &str) -> Result<Pre, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if is_numeric(text) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {text:?}"
            ));
        }
        let value = text.parse();
        return value
            .map(Pre::Number)
            .map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"));
    }
    match is_alphanumeric(text) {
        true => Ok(Pre::Text(text.to_owned())),
        false => Err(format!("Invalid character(s) found in prerelease {text:?}")),
    }
}
