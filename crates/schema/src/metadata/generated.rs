//! Names that a server makes.

/// A name begins with at most so many bytes of its prefix, so that five more fit in 63.
const PREFIX_MAX_LENGTH: usize = 58;

/// The name of an object that asks for one by `generateName`.
#[must_use]
pub fn generated_name(prefix: &str, suffix: impl IntoIterator<Item = char>) -> String {
    let kept = &prefix[..prefix.floor_char_boundary(PREFIX_MAX_LENGTH)];
    kept.chars().chain(suffix).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_prefix_is_cut_between_characters() {
        let check = |prefix: &str, expect: &str| {
            assert_eq!(generated_name(prefix, "xxxxx".chars()), format!("{expect}xxxxx"));
        };
        check("web-", "web-");
        check(&"a".repeat(70), &"a".repeat(58));
        check(&"é".repeat(40), &"é".repeat(29));
        check(&format!("a{}", "é".repeat(40)), &format!("a{}", "é".repeat(28)));
    }
}
