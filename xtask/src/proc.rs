//! What the system says about processes.

use std::str::FromStr;

/// Some fields of `/proc/<id>/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Who started it, or whoever has it since that one is gone.
    pub(crate) parent: u32,
    /// Its process group.
    pub(crate) group: i32,
    /// The group that its terminal sends Ctrl-C to; -1 without a terminal.
    pub(crate) foreground: i32,
    /// Clock ticks from boot to its start.
    pub(crate) started: u64,
}

impl Stat {
    /// None when the process is gone or only its remains are left.
    pub(crate) fn of(id: u32) -> Option<Stat> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Stat> {
        // The second field is the program's name in brackets and may hold anything.
        let fields: Vec<_> = text.rsplit_once(')')?.1.split_whitespace().collect();
        if *fields.first()? == "Z" {
            return None;
        }
        Some(Stat {
            parent: field(&fields, 1)?,
            group: field(&fields, 2)?,
            foreground: field(&fields, 5)?,
            started: field(&fields, 19)?,
        })
    }
}

fn field<N: FromStr>(fields: &[&str], at: usize) -> Option<N> {
    fields.get(at)?.parse().ok()
}

/// All processes that run now.
pub(crate) fn all() -> Vec<(u32, Stat)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| Some((id, Stat::of(id)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let rest = "12 13 14 0 15 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0";
        let expect = Stat {
            parent: 12,
            group: 13,
            foreground: 15,
            started: 99,
        };
        assert_eq!(Stat::parse(&format!("1 (a) Z 2) S {rest}")), Some(expect));
        assert_eq!(Stat::parse(&format!("1 (a) Z {rest}")), None);
    }
}
