//! The version of an object or a list, opaque to users.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
};

/// The version of an object, or of a list, as the server that gave it wrote it.
///
/// Users may only compare two versions of the same resource. The order is by length, then by
/// bytes, which for the decimal numbers that servers hand out is the numerical order.
#[derive(Clone)]
pub struct ResourceVersion(Text);

/// Numbers of 64 bits stay here, because a version is made of every event.
#[derive(Clone)]
enum Text {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Box<str>),
}

/// Digits of the largest number of 64 bits, and what makes the size even.
const SHORT: usize = 22;

impl ResourceVersion {
    /// Wraps the text a server gave.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(Text::Long(text.into())).shortened()
    }

    /// The text as the server wrote it.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Short { len, bytes } => std::str::from_utf8(&bytes[..usize::from(*len)])
                .expect("a short text is a copy of a whole text: `short` keeps this"),
            Text::Long(text) => text,
        }
    }

    /// The bytes of the text, which need no look at what they are.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Text::Short { len, bytes } => &bytes[..usize::from(*len)],
            Text::Long(text) => text.as_bytes(),
        }
    }

    /// Whether no version is given, which in a request means: the latest.
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }

    /// Whether this is `"0"`, which in a request means: any version will do.
    pub fn is_zero(&self) -> bool {
        self.as_bytes() == b"0"
    }

    fn short(text: &str) -> Option<Self> {
        let mut bytes = [0; SHORT];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        let len = u8::try_from(text.len()).ok()?;
        Some(Self(Text::Short { len, bytes }))
    }

    fn shortened(self) -> Self {
        Self::short(self.as_str()).unwrap_or(self)
    }
}

impl Default for ResourceVersion {
    fn default() -> Self {
        let bytes = [0; SHORT];
        Self(Text::Short { len: 0, bytes })
    }
}

impl PartialEq for ResourceVersion {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for ResourceVersion {}

impl Hash for ResourceVersion {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl Ord for ResourceVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        let [ours, theirs] = [self, other].map(Self::as_bytes);
        (ours.len(), ours).cmp(&(theirs.len(), theirs))
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResourceVersion").field(&self.as_str()).finish()
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        Self::short(text).unwrap_or_else(|| Self(Text::Long(text.into())))
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

    #[test]
    fn keeps_texts_of_any_length() {
        for text in [
            "",
            "0",
            "7",
            "18446744073709551615",
            "é",
            &"x".repeat(22),
            &"x".repeat(23),
        ] {
            let version = ResourceVersion::from(text);
            assert_eq!(version.as_str(), text);
            assert_eq!(version, ResourceVersion::new(text.to_owned()));
        }
        assert!(ResourceVersion::from("x".repeat(23).as_str()) > ResourceVersion::from(u64::MAX));
    }
}
