//! What somebody may call a change by.

/// A change as somebody names it: by its number, by its id, or by the id of a delivery that it made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeName {
    /// Its number or its id.
    pub change: String,
    /// The rule, as `namespace/name`, if the name is the id of a delivery.
    pub rule: Option<String>,
}

impl ChangeName {
    /// Reads a word; nothing if it can only be the name of something else, such as a rule.
    ///
    /// ```
    /// use skopos_control::ChangeName;
    /// let delivery = ChangeName::parse("2f1c.created/ops.scaled#2").unwrap();
    /// assert_eq!(delivery.change, "2f1c.created");
    /// assert_eq!(delivery.rule.as_deref(), Some("ops/scaled"));
    /// assert_eq!(ChangeName::parse("ops/scaled"), None);
    /// ```
    pub fn parse(word: &str) -> Option<Self> {
        if is_number(word) || is_id(word) {
            return Some(Self {
                change: word.to_owned(),
                rule: None,
            });
        }
        // `<change>/<namespace>.<rule>`, where neither a namespace nor a number of an action has a dot in it.
        let (change, action) = word.rsplit_once('/')?;
        let (namespace, rule) = action.split_once('.')?;
        let rule = rule.split_once('#').map_or(rule, |(rule, _)| rule);
        let change = change.strip_suffix(".held").unwrap_or(change);
        is_id(change).then(|| Self {
            change: change.to_owned(),
            rule: Some(format!("{namespace}/{rule}")),
        })
    }

    /// Whether it is no change at all, but the state of an object that a rule with `existing: reconcile` told again.
    pub(crate) fn is_reconciled(&self) -> bool {
        reconciled(&self.change)
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_id(text: &str) -> bool {
    let end = text.rsplit_once('.').map(|(_, end)| end);
    let is_change = end.is_some_and(|end| matches!(end, "created" | "deleted") || is_number(end));
    is_change || reconciled(text)
}

fn reconciled(text: &str) -> bool {
    let end = text.rsplit_once(".reconcile-").map(|(_, end)| end);
    end.is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_and_deliveries_are_told_from_rules() {
        let check = |word: &str, expect: Option<(&str, Option<&str>)>| {
            let found = ChangeName::parse(word);
            let found = found
                .as_ref()
                .map(|one| (one.change.as_str(), one.rule.as_deref()));
            assert_eq!(found, expect, "{word}");
        };
        check("12", Some(("12", None)));
        for id in [
            "2f1c.created",
            "2f1c.deleted",
            "2f1c.4711",
            "widgets/home/a.created",
        ] {
            check(id, Some((id, None)));
            check(&format!("{id}/ops.scaled"), Some((id, Some("ops/scaled"))));
            check(
                &format!("{id}.held/ops.my.rule#12"),
                Some((id, Some("ops/my.rule"))),
            );
        }
        check(
            "2f1c.reconcile-3/ops.scaled",
            Some(("2f1c.reconcile-3", Some("ops/scaled"))),
        );
        for word in ["backup-failed", "ops/backup-failed", "backup.failed", "v1.x", ""] {
            check(word, None);
        }
    }
}
