//! Reads objects from files, directories and standard input, remembering where each came from.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use skopos_object::{json, yaml};

use crate::failure::Failure;

/// The most that is read of one file.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Where an object was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: String,
    /// Which document of the file, from 1.
    pub(crate) number: usize,
    /// First line of the document, from 1.
    pub(crate) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {} (line {})", self.file, self.number, self.line)
    }
}

/// An object and where it was written.
#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    pub(crate) place: Place,
    pub(crate) object: Value,
}

/// Reads all inputs. What cannot be read is reported in its place; the others are there nevertheless.
pub(crate) fn read(inputs: &[PathBuf], recursive: bool) -> Vec<Result<Manifest, Failure>> {
    let mut all = Vec::new();
    for input in inputs {
        match files(input, recursive) {
            Ok(files) => {
                for file in files {
                    all.extend(read_file(&file));
                }
            }
            Err(failure) => all.push(Err(failure)),
        }
    }
    all
}

/// The files that an input stands for, in order.
pub(crate) fn files(input: &Path, recursive: bool) -> Result<Vec<PathBuf>, Failure> {
    if !input.is_dir() {
        return Ok(vec![input.to_owned()]);
    }
    let mut found = Vec::new();
    walk(input, recursive, &mut found)
        .map_err(|error| Failure::failed(format!("cannot read directory {}: {error}", input.display())))?;
    if found.is_empty() {
        let text = format!("no .yaml, .yml or .json file in {}", input.display());
        return Err(Failure::failed(text).hint("add -R to look into its subdirectories"));
    }
    Ok(found)
}

fn walk(dir: &Path, recursive: bool, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir)?
        .map(|e| e.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    entries.sort();
    for path in entries {
        // A link to a directory is not followed, so there are no endless circles.
        if path.is_dir() && !path.is_symlink() {
            if recursive {
                walk(&path, recursive, found)?;
            }
        } else if matches!(
            path.extension().and_then(|e| e.to_str()),
            Some("yaml" | "yml" | "json")
        ) {
            found.push(path);
        }
    }
    Ok(())
}

fn read_file(path: &Path) -> Vec<Result<Manifest, Failure>> {
    let name = if path == Path::new("-") {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    match bytes(path) {
        Ok(bytes) => parse(&name, &bytes),
        Err(error) => {
            vec![Err(
                Failure::failed(format!("cannot read {name}: {error}")).hint("check the path after -f")
            )]
        }
    }
}

fn bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let n = if path == Path::new("-") {
        std::io::stdin()
            .lock()
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut all)?
    } else {
        std::fs::File::open(path)?
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut all)?
    };
    if n as u64 > MAX_FILE_BYTES {
        return Err(std::io::Error::other(format!(
            "larger than {MAX_FILE_BYTES} bytes"
        )));
    }
    Ok(all)
}

/// Parses a file of one or more documents; lists are taken apart.
pub(crate) fn parse(file: &str, bytes: &[u8]) -> Vec<Result<Manifest, Failure>> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return vec![Err(
            Failure::failed(format!("{file} is not UTF-8 text")).hint("save it as UTF-8")
        )];
    };
    let mut all = Vec::new();
    let mut number = 0;
    for (line, document) in documents(text) {
        let place = Place {
            file: file.to_owned(),
            number: number + 1,
            line,
        };
        match decode(document, line) {
            Ok(Value::Null) => continue,
            Ok(object) => expand(&place, object, &mut all),
            Err(error) => all.push(Err(not_readable(&place, &error))),
        }
        number += 1;
    }
    if all.is_empty() {
        all.push(Err(
            Failure::failed(format!("{file} holds no objects")).hint("is it the right file?")
        ));
    }
    all
}

fn not_readable(place: &Place, error: &str) -> Failure {
    Failure::failed(format!("{place}: {error}")).hint("correct the YAML or JSON there and apply again")
}

/// Cuts at lines that begin with `---`, as kubectl does; returns each part with its first line of content.
fn documents(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut start_line = 1;
    let mut at = 0;
    for (n, line) in text.split_inclusive('\n').enumerate() {
        let next = at + line.len();
        if let Some(rest) = line.strip_prefix("---") {
            parts.push((start_line, &text[start..at]));
            // `--- {a: 1}` has content on the same line: keep it, the marker is valid YAML.
            let bare = rest.trim().is_empty() || rest.trim_start().starts_with('#');
            (start, start_line) = if bare { (next, n + 2) } else { (at, n + 1) };
        }
        at = next;
    }
    parts.push((start_line, &text[start..]));
    parts.retain_mut(|(line, part)| {
        let skipped = part
            .lines()
            .take_while(|l| l.trim().is_empty() || l.trim_start().starts_with('#'))
            .count();
        *line += skipped;
        skipped < part.lines().count()
    });
    parts
}

/// Decodes one document so that errors name the line of the file.
fn decode(document: &str, first_content_line: usize) -> Result<Value, String> {
    let content = document
        .split_inclusive('\n')
        .skip_while(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
        .collect::<String>();
    let padded = format!("{}{content}", "\n".repeat(first_content_line - 1));
    let decoded = if content.trim_start().starts_with('{') {
        json::decode(padded.as_bytes())
            .map_err(|error| error.to_string())
            .or_else(|error| {
                // Flow YAML also begins with a brace.
                yaml::decode(padded.as_bytes()).map_err(|_| error)
            })
    } else {
        yaml::decode(padded.as_bytes()).map_err(|error| error.to_string())
    }?;
    match decoded.duplicates.first() {
        Some(path) => Err(format!("the key {path} is there twice")),
        None => Ok(decoded.value),
    }
}

fn expand(place: &Place, object: Value, all: &mut Vec<Result<Manifest, Failure>>) {
    let is_list =
        object["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) && object["items"].is_array();
    if is_list {
        for item in object["items"].as_array().into_iter().flatten() {
            all.push(check(place, item.clone()));
        }
        return;
    }
    all.push(check(place, object));
}

fn check(place: &Place, object: Value) -> Result<Manifest, Failure> {
    let problem = if !object.is_object() {
        Some("this is not an object")
    } else if object["apiVersion"].as_str().is_none_or(str::is_empty) {
        Some("apiVersion is missing")
    } else if object["kind"].as_str().is_none_or(str::is_empty) {
        Some("kind is missing")
    } else if object["metadata"]["name"].as_str().is_none_or(str::is_empty)
        && object["metadata"]["generateName"]
            .as_str()
            .is_none_or(str::is_empty)
    {
        Some("metadata.name is missing")
    } else {
        None
    };
    match problem {
        None => Ok(Manifest {
            place: place.clone(),
            object,
        }),
        Some(problem) => {
            let hint = "every object needs apiVersion, kind and metadata.name";
            Err(Failure::failed(format!("{place}: {problem}")).hint(hint))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_file(text: &str, expect: &[&str]) {
        let got: Vec<String> = parse("f.yaml", text.as_bytes())
            .into_iter()
            .map(|read| match read {
                Ok(m) => format!(
                    "{} {}@{}",
                    m.place.number,
                    m.object["metadata"]["name"].as_str().unwrap(),
                    m.place.line
                ),
                Err(failure) => failure.message,
            })
            .collect();
        assert_eq!(got, expect, "{text}");
    }

    const A: &str = "apiVersion: v1\nkind: A\nmetadata: {name: a}\n";

    #[test]
    fn documents_keep_their_number_and_line() {
        check_file(A, &["1 a@1"]);
        check_file(&format!("# head\n---\n{A}---\n\n{A}"), &["1 a@3", "2 a@8"]);
        check_file(
            &format!("{A}--- # note\n# only a comment\n---\n{A}"),
            &["1 a@1", "2 a@7"],
        );
    }

    #[test]
    fn lists_are_taken_apart() {
        let list = r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"A","metadata":{"name":"x"}},
            {"apiVersion":"v1","kind":"A","metadata":{"name":"y"}}]}"#;
        check_file(list, &["1 x@1", "1 y@1"]);
    }

    #[test]
    fn what_is_missing_is_named_with_its_place() {
        check_file(
            "kind: A\nmetadata: {name: a}",
            &["f.yaml, document 1 (line 1): apiVersion is missing"],
        );
        check_file(
            &format!("{A}---\n- 1\n"),
            &["1 a@1", "f.yaml, document 2 (line 5): this is not an object"],
        );
        check_file("# nothing\n", &["f.yaml holds no objects"]);
    }

    #[test]
    fn bad_yaml_does_not_hide_its_neighbours_and_names_its_line() {
        let read = parse("f.yaml", format!("a: b: c\n---\n{A}").as_bytes());
        let message = &read[0].as_ref().unwrap_err().message;
        assert!(message.starts_with("f.yaml, document 1 (line 1): "), "{message}");
        assert!(read[1].is_ok());
    }
}
