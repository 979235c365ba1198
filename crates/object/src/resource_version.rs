//! The version of an object or a list, opaque to users.

use std::{cmp::Ordering, fmt};

/// The version of an object, or of a list, as the server that gave it wrote it.
///
/// Users may only compare two versions of the same resource. The order is by length, then by
/// bytes, which for the decimal numbers that servers hand out is the numerical order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Box<str>);

impl ResourceVersion {
    /// Wraps the text a server gave.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text as the server wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether no version is given, which in a request means: the latest.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is `"0"`, which in a request means: any version will do.
    pub fn is_zero(&self) -> bool {
        &*self.0 == "0"
    }
}

impl Ord for ResourceVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0.len(), &self.0).cmp(&(other.0.len(), &other.0))
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<u64> for ResourceVersion {
    fn from(revision: u64) -> Self {
        Self::new(revision.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_as_numbers_do() {
        let numbers = [0u64, 1, 9, 10, 99, 100, 12345, u64::MAX];
        for pair in numbers.windows(2) {
            assert!(ResourceVersion::from(pair[0]) < ResourceVersion::from(pair[1]));
        }
        assert!(ResourceVersion::default() < ResourceVersion::from("0"));
    }
}
