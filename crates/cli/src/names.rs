//! Reads `TYPE NAME…`, `TYPE/NAME…` and `TYPE,TYPE`.

use skopos_client::{Catalog, Resource};

use crate::failure::Failure;
use crate::terminal;

/// A resource type and the objects of it that are meant; none means all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) word: String,
    pub(crate) names: Vec<String>,
}

/// Parses the words after a command.
pub(crate) fn targets(words: &[String]) -> Result<Vec<Target>, Failure> {
    match words {
        [] => Err(Failure::usage(
            "which resource? Write a type such as `applications`, and names if you like",
        )),
        [first, ..] if first.contains('/') => by_slash(words),
        [types] => Ok(types
            .split(',')
            .filter(|w| !w.is_empty())
            .map(|w| target(w, &[]))
            .collect()),
        [kind, names @ ..] => by_space(kind, names),
    }
}

/// Finds the resource that a word stands for, and says so if the word is ambiguous.
pub(crate) fn resolve<'a>(catalog: &'a Catalog, word: &str) -> Result<&'a Resource, Failure> {
    let found = catalog.resolve(word)?;
    if let Some(also) = found.also {
        let (chosen, other) = (found.resource.group_resource(), also.group_resource());
        terminal::note(&format!(
            "note: \"{word}\" means {chosen} here; write {other} for the other"
        ));
    }
    Ok(found.resource)
}

fn target(word: &str, names: &[String]) -> Target {
    Target {
        word: word.to_owned(),
        names: names.to_vec(),
    }
}

fn by_space(kind: &str, names: &[String]) -> Result<Vec<Target>, Failure> {
    if let Some(mixed) = names.iter().find(|name| name.contains('/')) {
        return Err(Failure::usage(format!(
            "\"{mixed}\": write either `TYPE NAME…` or `TYPE/NAME…`, not both"
        )));
    }
    if kind.contains(',') {
        return Err(Failure::usage(
            "names can only follow one type; write `TYPE/NAME TYPE/NAME`",
        ));
    }
    Ok(vec![target(kind, names)])
}

fn by_slash(words: &[String]) -> Result<Vec<Target>, Failure> {
    let mut targets: Vec<Target> = Vec::new();
    for word in words {
        let (kind, name) = match word.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => (kind, name),
            _ => return Err(Failure::usage(format!("\"{word}\" is not of the form TYPE/NAME"))),
        };
        match targets.last_mut() {
            Some(last) if last.word == kind => last.names.push(name.to_owned()),
            _ => targets.push(target(kind, &[name.to_owned()])),
        }
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: &str) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let got = match targets(&words) {
            Ok(targets) => {
                let all: Vec<String> = targets
                    .iter()
                    .map(|t| format!("{}:{}", t.word, t.names.join(",")))
                    .collect();
                all.join(" ")
            }
            Err(failure) => failure.message,
        };
        assert_eq!(got, expect, "{line}");
    }

    #[test]
    fn reads_types_and_names() {
        check("app", "app:");
        check("app,po", "app: po:");
        check("app a b", "app:a,b");
        check("app/a app/b po/c", "app:a,b po:c");
    }

    #[test]
    fn refuses_mixed_forms() {
        check("app/a b", "\"b\" is not of the form TYPE/NAME");
        check(
            "app a po/b",
            "\"po/b\": write either `TYPE NAME…` or `TYPE/NAME…`, not both",
        );
        check(
            "app,po a",
            "names can only follow one type; write `TYPE/NAME TYPE/NAME`",
        );
    }
}
