//! Finding and changing the place that a JSON pointer names.

use serde_json::Value;

/// The list or object that holds the place, and the place's key in it.
pub(super) struct Place<'a> {
    pub(super) container: &'a mut Value,
    pub(super) key: String,
}

/// Finds what holds the place `path` names. The place itself need not exist.
///
/// Whatever stands before the first slash is ignored, and the whole document is no place: so does
/// the API server's library.
pub(super) fn find<'a>(document: &'a mut Value, path: &str) -> Option<Place<'a>> {
    let mut parts = path.split('/').skip(1);
    let mut key = unescape(parts.next()?);
    let mut container = document;
    for part in parts {
        container = match container {
            Value::Object(map) => map.get_mut(&key)?,
            Value::Array(items) => {
                let at = existing(&key, items.len()).ok()?;
                &mut items[at]
            }
            _ => return None,
        };
        key = unescape(part);
    }
    matches!(container, Value::Object(_) | Value::Array(_)).then_some(Place { container, key })
}

/// How many lists and objects are around the place `path` names.
pub(super) fn depth(path: &str) -> usize {
    path.split('/').count() - 1
}

fn unescape(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

impl Place<'_> {
    /// What is at the place: nothing if an object lacks the key, an error if a list lacks the index.
    pub(super) fn get(&self) -> Result<Option<&Value>, String> {
        match &*self.container {
            Value::Object(map) => Ok(map.get(&self.key)),
            Value::Array(items) => Ok(items.get(existing(&self.key, items.len())?)),
            _ => Ok(None),
        }
    }

    /// Sets a key of an object, or inserts before an index of a list; `-` is the end of the list.
    pub(super) fn add(self, value: Value) -> Result<(), String> {
        match self.container {
            Value::Object(map) => {
                map.insert(self.key, value);
            }
            Value::Array(items) if self.key == "-" => items.push(value),
            Value::Array(items) => {
                let index = parse_index(&self.key).map_err(|error| {
                    format!("value was not a proper array index: '{}': {error}", self.key)
                })?;
                let at = within(index, items.len() + 1)?;
                items.insert(at, value);
            }
            _ => {}
        }
        Ok(())
    }

    /// Sets a key of an object, or an index of a list that has it.
    pub(super) fn set(self, value: Value) -> Result<(), String> {
        match self.container {
            Value::Object(map) => {
                map.insert(self.key, value);
            }
            Value::Array(items) => {
                let at = existing(&self.key, items.len())?;
                items[at] = value;
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes what is at the place.
    pub(super) fn remove(self) -> Result<Value, String> {
        match self.container {
            Value::Object(map) => map
                .remove(&self.key)
                .ok_or_else(|| format!("Unable to remove nonexistent key: {}: missing value", self.key)),
            Value::Array(items) => {
                let at = existing(&self.key, items.len())?;
                Ok(items.remove(at))
            }
            _ => Ok(Value::Null),
        }
    }
}

fn existing(key: &str, length: usize) -> Result<usize, String> {
    within(parse_index(key)?, length)
}

/// Turns an index, which counts from the end if negative, into one below `length`.
fn within(index: i64, length: usize) -> Result<usize, String> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let at = if index < 0 {
        index.saturating_add(length)
    } else {
        index
    };
    match usize::try_from(at) {
        Ok(position) if at < length => Ok(position),
        _ => Err(format!(
            "Unable to access invalid index: {index}: invalid index referenced"
        )),
    }
}

fn parse_index(key: &str) -> Result<i64, String> {
    key.parse().map_err(|_| {
        let digits = key.strip_prefix(['+', '-']).unwrap_or(key);
        let numeric = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let problem = if numeric {
            "value out of range"
        } else {
            "invalid syntax"
        };
        format!("strconv.Atoi: parsing {}: {problem}", crate::quote(key))
    })
}
