//! Reads an `Accept` header and picks the first offer a client likes, by upstream's rules.
//!
//! Clauses are sorted by quality, then concrete types before wildcards; inside one clause our own order of
//! encodings decides. A clause may also ask for another form of the object with `as`, `g` and `v`.

use http::HeaderMap;
use http::header::{ACCEPT, USER_AGENT};

use super::Encoding;
use crate::request::Query;

/// More clauses than any client sends; the rest of a longer header is not read.
const MAX_CLAUSES: usize = 64;

/// One part of an `Accept` header.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Clause<'a> {
    pub(crate) main: &'a str,
    pub(crate) sub: &'a str,
    quality: f32,
    params: Vec<(&'a str, &'a str)>,
}

/// The form a client wants an object turned into.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Conversion<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
}

/// What was agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice<'a> {
    pub(crate) encoding: Encoding,
    pub(crate) conversion: Option<Conversion<'a>>,
    pub(crate) pretty: bool,
}

/// Whether an endpoint takes the `sv` parameter, which names the version of the meta group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerVersion {
    Taken,
    Refused,
}

/// The first `Accept` header; upstream reads no other.
pub(crate) fn header(headers: &HeaderMap) -> &str {
    headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("")
}

/// Splits a header into clauses, best first.
pub(crate) fn parse(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = header
        .split(',')
        .filter_map(Clause::parse)
        .take(MAX_CLAUSES)
        .collect();
    // Insertion sort on purpose: the order below is not a strict one, so the result depends on the method.
    for i in 1..clauses.len() {
        let mut j = i;
        while j > 0 && clauses[j].goes_before(&clauses[j - 1]) {
            clauses.swap(j, j - 1);
            j -= 1;
        }
    }
    clauses
}

/// Picks an encoding that the client accepts and `allows` permits for the wanted conversion.
pub(crate) fn choose<'a>(
    header: &'a str,
    server_version: ServerVersion,
    allows: impl Fn(Encoding, Option<&Conversion<'a>>) -> bool,
) -> Option<Choice<'a>> {
    if header.is_empty() {
        return Some(Choice {
            encoding: Encoding::Json,
            conversion: None,
            pretty: false,
        });
    }
    for clause in parse(header) {
        for encoding in Encoding::ALL {
            if !clause.covers("application", encoding.subtype()) {
                continue;
            }
            let Some(choice) = clause.options(encoding, server_version) else {
                continue;
            };
            if allows(encoding, choice.conversion.as_ref()) {
                return Some(choice);
            }
        }
    }
    None
}

/// Whether the client looks like a person: `?pretty=` decides, else the user agent does.
pub(crate) fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(value) = query.get("pretty") {
        return matches!(value, "1" | "t" | "T" | "TRUE" | "true" | "True");
    }
    let agent = headers.get(USER_AGENT).map_or(&b""[..], |value| value.as_bytes());
    [&b"curl"[..], b"Wget", b"Mozilla/5.0"]
        .iter()
        .any(|prefix| agent.starts_with(prefix))
}

impl<'a> Clause<'a> {
    fn parse(part: &'a str) -> Option<Clause<'a>> {
        let mut pieces = part.split(';');
        let media = pieces.next()?.trim_matches(' ');
        let (main, sub) = match media.split_once('/') {
            Some((_, sub)) if sub.contains('/') => return None,
            Some((main, sub)) if !sub.is_empty() => (main.trim_matches(' '), sub.trim_matches(' ')),
            _ if media.trim_end_matches('/') == "*" => ("*", "*"),
            _ => return None,
        };
        let mut clause = Clause {
            main,
            sub,
            quality: 1.0,
            params: Vec::new(),
        };
        for piece in pieces {
            match piece.split_once('=') {
                Some((_, value)) if value.is_empty() || value.contains('=') => {}
                Some((name, value)) if name.trim_matches(' ') == "q" => {
                    clause.quality = value.parse().unwrap_or(0.0);
                }
                Some((name, value)) => clause
                    .params
                    .push((name.trim_matches(' '), value.trim_matches(' '))),
                None => {}
            }
        }
        Some(clause)
    }

    /// Whether a media type falls under this clause.
    pub(crate) fn covers(&self, main: &str, sub: &str) -> bool {
        (self.main == main && (self.sub == sub || self.sub == "*")) || (self.main == "*" && self.sub == "*")
    }

    fn goes_before(&self, other: &Clause<'_>) -> bool {
        self.quality > other.quality
            || (self.main != "*" && other.main == "*")
            || (self.sub != "*" && other.sub == "*")
    }

    /// What the parameters ask for; `None` if one of them rules the clause out.
    fn options(&self, encoding: Encoding, server_version: ServerVersion) -> Option<Choice<'a>> {
        let mut choice = Choice {
            encoding,
            conversion: None,
            pretty: false,
        };
        for &(name, value) in &self.params {
            match name {
                "as" => choice.conversion.get_or_insert_default().kind = value,
                "g" => choice.conversion.get_or_insert_default().group = value,
                "v" => choice.conversion.get_or_insert_default().version = value,
                "stream" if value != "watch" || !encoding.streams() => return None,
                "sv" if server_version == ServerVersion::Refused || value != "v1" => return None,
                "pretty" => choice.pretty = value == "1",
                _ => {}
            }
        }
        Some(choice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(header: &str) -> Vec<String> {
        parse(header)
            .iter()
            .map(|c| format!("{}/{}", c.main, c.sub))
            .collect()
    }

    #[test]
    fn sorts_clauses_by_quality_and_then_wildcards_last() {
        for (header, expect) in [
            ("application/json", vec!["application/json"]),
            (
                "application/json;q=0.1, application/yaml",
                vec!["application/yaml", "application/json"],
            ),
            ("*/*, application/yaml", vec!["application/yaml", "*/*"]),
            (
                "application/*, application/yaml;q=0.5",
                vec!["application/yaml", "application/*"],
            ),
            ("*", vec!["*/*"]),
            ("text", vec![]),
            ("a/b/c, text/html", vec!["text/html"]),
            ("", vec![]),
            (",,;;,=", vec![]),
        ] {
            assert_eq!(order(header), expect, "{header}");
        }
    }

    #[test]
    fn reads_the_wanted_conversion() {
        let header = "application/json;as=Table;v=v1;g=meta.k8s.io, application/json";
        let choice = choose(header, ServerVersion::Refused, |_, _| true).unwrap();
        let expect = Conversion {
            group: "meta.k8s.io",
            version: "v1",
            kind: "Table",
        };
        assert_eq!(choice.conversion, Some(expect));
    }

    #[test]
    fn falls_to_the_next_clause_when_the_first_is_not_allowed() {
        let header = "application/json;as=Table;v=v1;g=meta.k8s.io, application/yaml";
        let choice = choose(header, ServerVersion::Refused, |_, c| c.is_none()).unwrap();
        assert_eq!((choice.encoding, choice.conversion), (Encoding::Yaml, None));
    }

    #[test]
    fn yaml_cannot_stream() {
        let any = |_: Encoding, _: Option<&Conversion<'_>>| true;
        assert_eq!(
            choose("application/yaml;stream=watch", ServerVersion::Refused, any),
            None
        );
        assert!(choose("application/json;stream=watch", ServerVersion::Refused, any).is_some());
        assert_eq!(
            choose("application/json;stream=other", ServerVersion::Refused, any),
            None
        );
    }

    #[test]
    fn people_get_indented_output() {
        let query = |text: &str| Query::parse(&format!("/x?{text}").parse().unwrap());
        let mut headers = HeaderMap::new();
        assert!(!wants_pretty(&headers, &query("")));
        assert!(wants_pretty(&headers, &query("pretty=true")));
        headers.insert(USER_AGENT, "curl/8.5.0".parse().unwrap());
        assert!(wants_pretty(&headers, &query("")));
        assert!(!wants_pretty(&headers, &query("pretty=false")));
        assert!(!wants_pretty(&headers, &query("pretty=maybe")));
    }
}
