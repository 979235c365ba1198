//! Selectors: whatever parses prints as something that parses to the same.

use skopos_object::{FieldSelector, LabelSelector, json};

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(selector) = LabelSelector::parse(&text) {
        check_label_selector(&selector);
    }
    if let Ok(selector) = FieldSelector::parse(&text) {
        let again = FieldSelector::parse(&selector.to_string()).expect("parses what it printed");
        assert_eq!(
            again.requirements().len(),
            selector.requirements().len(),
            "{selector}"
        );
    }
    // The object form, as in the spec of a workload.
    if let Ok(decoded) = json::decode(data)
        && let Ok(selector) = LabelSelector::from_match(&decoded.value)
        && !decoded.value.is_null()
    {
        check_label_selector(&selector);
    }
}

fn check_label_selector(selector: &LabelSelector) {
    let printed = selector.to_string();
    let again = LabelSelector::parse(&printed).expect("parses what it printed");
    // Values given twice are printed once the second time, so only then is the text settled.
    assert_eq!(LabelSelector::parse(&again.to_string()).as_ref(), Ok(&again));
    for value in [None, Some(""), Some("a"), Some("5")] {
        assert_eq!(
            again.matches(|_| value),
            selector.matches(|_| value),
            "{printed} on {value:?}"
        );
    }
}
