//! What a rule leaves on the objects that it writes.
//!
//! An annotation of its own for each rule, so that two rules may write one object without taking fields from each other.
//! Its value follows from what was written: to write the same again changes nothing, and a change by somebody else leaves
//! it as it is. So a change of the annotation is a write of that rule, and nothing else is.

use sha2::{Digest as _, Sha256};

const PREFIX: &str = "rule.skopos.dev/";
/// What follows the prefix of an annotation is no longer than this.
const MAX_NAME: usize = 63;
/// A name of a field manager is no longer than this.
const MAX_MANAGER: usize = 128;

/// The annotation by which objects are known that a rule (`namespace/name`) wrote.
pub fn rule_annotation(rule: &str) -> String {
    format!("{PREFIX}{}", shortened(&rule.replace('/', "."), MAX_NAME))
}

/// The name under which a rule owns fields.
pub(crate) fn manager(rule: &str) -> String {
    shortened(&format!("skopos:{rule}"), MAX_MANAGER)
}

/// What the annotation says of a text that is written.
pub(crate) fn digest(text: &[u8]) -> String {
    let hash = Sha256::digest(text);
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// A name, or as much of it as fits with a digest of the whole.
fn shortened(name: &str, most: usize) -> String {
    if name.len() <= most {
        return name.to_owned();
    }
    let digest = digest(name.as_bytes());
    // Names of objects are ASCII; anything else is refused before it comes here.
    let begin: String = name.chars().take(most - digest.len() - 1).collect();
    format!("{begin}.{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_however_long_they_are_and_stay_apart() {
        assert_eq!(rule_annotation("ops/scaled"), "rule.skopos.dev/ops.scaled");
        assert_eq!(manager("ops/scaled"), "skopos:ops/scaled");
        let long = |end: &str| format!("{}/{}{end}", "n".repeat(63), "r".repeat(200));
        let (a, b) = (rule_annotation(&long("a")), rule_annotation(&long("b")));
        assert_ne!(a, b);
        assert_eq!(a.len(), PREFIX.len() + MAX_NAME);
        assert_eq!(manager(&long("a")).len(), MAX_MANAGER);
    }
}
