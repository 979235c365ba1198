//! Bearer tokens: the administrator's own and those of a token file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::authenticate::authenticated;
use super::seam::User;

/// Longest token file.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Known tokens. Only their digests are kept.
#[derive(Clone, Default)]
pub(crate) struct TokenTable {
    entries: Vec<Entry>,
}

#[derive(Clone)]
struct Entry {
    digest: [u8; 32],
    user: Arc<User>,
}

/// A token file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file cannot be read.
    #[error("read token file {path}: check that it exists and is readable")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is larger than a token file can be.
    #[error("token file {path} is larger than {MAX_FILE_BYTES} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A record has too few columns.
    #[error(
        "token file '{path}' must have at least 3 columns (token, user name, user uid), found {found} in line {line}"
    )]
    Columns {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Columns in that line.
        found: usize,
    },
    /// A record is not CSV.
    #[error("token file {path}: line {line} has a quote that does not close or stands alone")]
    Quote {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
    },
}

impl TokenTable {
    /// One token and its user, who joins `system:authenticated`.
    #[must_use]
    pub(crate) fn single(token: &str, user: User) -> Self {
        let mut table = Self::default();
        table.add(token, user);
        table
    }

    /// Adds a token; one that is known already now stands for `user`.
    pub(crate) fn add(&mut self, token: &str, user: User) {
        let digest = digest(token);
        self.entries.retain(|entry| entry.digest != digest);
        self.entries.push(Entry {
            digest,
            user: authenticated(user),
        });
    }

    /// Reads a file of `token,user,uid[,"group1,group2"]` lines.
    ///
    /// # Errors
    /// When the file cannot be read or a line is no such record.
    pub(crate) fn read_csv(&mut self, path: &Path) -> Result<(), TokenFileError> {
        let read = |source| TokenFileError::Read {
            path: path.to_owned(),
            source,
        };
        if std::fs::metadata(path).map_err(read)?.len() > MAX_FILE_BYTES {
            return Err(TokenFileError::TooLarge {
                path: path.to_owned(),
            });
        }
        let text = std::fs::read_to_string(path).map_err(read)?;
        self.parse_csv(&text, path)
    }

    fn parse_csv(&mut self, text: &str, path: &Path) -> Result<(), TokenFileError> {
        for (index, line) in text.lines().enumerate() {
            let line_number = index + 1;
            if line.is_empty() {
                continue;
            }
            let Some(fields) = csv_fields(line) else {
                return Err(TokenFileError::Quote {
                    path: path.to_owned(),
                    line: line_number,
                });
            };
            let [token, name, uid, rest @ ..] = fields.as_slice() else {
                return Err(TokenFileError::Columns {
                    path: path.to_owned(),
                    line: line_number,
                    found: fields.len(),
                });
            };
            if token.is_empty() {
                tracing::warn!(path = %path.display(), line = line_number, "token file has an empty token");
                continue;
            }
            let groups = rest
                .first()
                .map(|groups| groups.split(',').map(str::to_owned).collect());
            let user = User {
                name: name.clone(),
                uid: uid.clone(),
                groups: groups.unwrap_or_default(),
                ..User::default()
            };
            self.add(token, user);
        }
        Ok(())
    }

    /// The user of `token`. Takes the same time whichever token is asked for.
    pub(crate) fn find(&self, token: &str) -> Option<Arc<User>> {
        let asked = digest(token);
        let mut found = None;
        for entry in &self.entries {
            if bool::from(entry.digest.ct_eq(&asked)) {
                found = Some(&entry.user);
            }
        }
        found.map(Arc::clone)
    }
}

impl fmt::Debug for TokenTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .entries
            .iter()
            .map(|entry| entry.user.name.as_str())
            .collect();
        f.debug_struct("TokenTable").field("users", &names).finish()
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// One CSV record; `None` for a stray or open quote.
fn csv_fields(line: &str) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, tail) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => plain_field(rest)?,
        };
        fields.push(field);
        match tail.strip_prefix(',') {
            Some(next) => rest = next,
            None if tail.is_empty() => return Some(fields),
            None => return None,
        }
    }
}

fn plain_field(text: &str) -> Option<(String, &str)> {
    let end = text.find(',').unwrap_or(text.len());
    let (field, tail) = text.split_at(end);
    (!field.contains('"')).then(|| (field.to_owned(), tail))
}

fn quoted_field(mut text: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    loop {
        let (part, tail) = text.split_once('"')?;
        field.push_str(part);
        match tail.strip_prefix('"') {
            Some(after_escape) => {
                field.push('"');
                text = after_escape;
            }
            None => return Some((field, tail)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TokenTable, TokenFileError> {
        let mut table = TokenTable::default();
        table.parse_csv(text, Path::new("tokens.csv")).map(|()| table)
    }

    #[test]
    fn reads_token_files() {
        let table = parse("t1,alice,1,\"dev,ops\"\n\nt2,bob,2\r\n,nobody,3\n").unwrap();
        let alice = table.find("t1").unwrap();
        assert_eq!((alice.name.as_str(), alice.uid.as_str()), ("alice", "1"));
        assert_eq!(alice.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(table.find("t2").unwrap().groups, ["system:authenticated"]);
        assert_eq!(table.find(""), None);
        assert_eq!(table.find("t3"), None);
    }

    #[test]
    fn names_the_file_and_line_of_a_bad_record() {
        let message = parse("t1,alice,1\nt2,bob\n").unwrap_err().to_string();
        assert!(
            message.contains("tokens.csv") && message.contains("found 2 in line 2"),
            "{message}"
        );
        let message = parse("t1,\"alice,1\n").unwrap_err().to_string();
        assert!(message.contains("line 1 has a quote"), "{message}");
    }

    #[test]
    fn does_not_show_tokens_when_printed() {
        let table = parse("verysecret,alice,1\n").unwrap();
        assert!(!format!("{table:?}").contains("verysecret"));
    }
}
