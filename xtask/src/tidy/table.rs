//! Compares the table of crates in `docs/architecture.md` with the crates that exist.

use std::collections::BTreeSet;

use anyhow::Context;

use crate::run::{metadata, root};

const PAGE: &str = "docs/architecture.md";

/// Crates that the table leaves out, and rows without a crate.
pub(super) fn check() -> anyhow::Result<Vec<String>> {
    let Ok(page) = std::fs::read_to_string(root().join(PAGE)) else {
        return Ok(vec![format!("{PAGE} is missing")]);
    };
    let metadata = metadata(&["--no-deps"])?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata lists no packages")?;
    let names = packages.iter().filter_map(|package| package["name"].as_str());
    let exist = names
        .filter(|name| name.starts_with("skopos"))
        .map(str::to_owned)
        .collect();
    Ok(differences(&exist, &listed(&page)))
}

fn differences(exist: &BTreeSet<String>, listed: &BTreeSet<String>) -> Vec<String> {
    let missing = exist
        .difference(listed)
        .map(|name| format!("{PAGE}: the crate table leaves out {name}"));
    let stale = listed
        .difference(exist)
        .map(|name| format!("{PAGE}: there is no crate {name}"));
    missing.chain(stale).collect()
}

/// The names in the second column of the table headed `layer | crate | responsibility`.
fn listed(page: &str) -> BTreeSet<String> {
    let cells =
        |line: &str| -> Vec<String> { line.split('|').map(|cell| cell.trim().replace('`', "")).collect() };
    let is_head = |line: &str| {
        cells(line).iter().map(|cell| cell.to_lowercase()).take(4).eq([
            "",
            "layer",
            "crate",
            "responsibility",
        ])
    };
    let rows = page.lines().skip_while(|line| !is_head(line)).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| cells(row).get(2).cloned())
        .filter(|name| name.starts_with("skopos"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_second_column() {
        let page = "# Crates\n\n| layer | crate | responsibility |\n|---|---|---|\n\
                    | 0 pure | `skopos-object` | kinds |\n| | `skopos-schema` | schemas |\n\nMore `skopos-later`.\n";
        let expect: BTreeSet<String> = ["skopos-object", "skopos-schema"].map(str::to_owned).into();
        assert_eq!(listed(page), expect);
        assert_eq!(
            differences(&["skopos-object".to_owned()].into(), &expect).len(),
            1
        );
    }
}
