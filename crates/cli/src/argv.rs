//! Prepares the command line before it is parsed.
//!
//! envtest starts the programs that `TEST_ASSET_KUBE_APISERVER` and `TEST_ASSET_ETCD` name without a subcommand,
//! so this program also answers to the names `kube-apiserver` and `etcd`. And people hand kube-apiserver flags
//! that mean nothing here; those are set aside with a warning instead of ending the start.

use std::ffi::OsString;
use std::path::Path;

use clap::CommandFactory as _;

use crate::cli::Cli;

/// Returns the arguments to parse, and the flags that were set aside.
pub(crate) fn prepare(mut args: Vec<OsString>) -> (Vec<OsString>, Vec<String>) {
    let program = args
        .first()
        .and_then(|arg| Path::new(arg).file_name()?.to_str().map(str::to_owned));
    match program.as_deref() {
        Some("kube-apiserver") => args.insert(1, "apiserver".into()),
        Some("etcd") => args.insert(1, "etcd".into()),
        _ => {}
    }
    match args.get(1).and_then(|arg| arg.to_str()) {
        Some(name @ ("apiserver" | "etcd")) => {
            let known = known_flags(name);
            set_aside(args, &known)
        }
        _ => (args, Vec::new()),
    }
}

/// The long flags of a command, with whether each takes a value.
fn known_flags(command: &str) -> Vec<(String, bool)> {
    let cli = Cli::command();
    // Alone: the options of the other commands are of no interest, and to define them takes longer than all this.
    let Some(mut command) = cli.find_subcommand(command).cloned() else {
        return Vec::new();
    };
    command.build();
    let global = cli.get_arguments().filter(|arg| arg.is_global_set());
    let flags = command.get_arguments().chain(global).filter_map(|arg| {
        let long = arg.get_long()?.to_owned();
        Some((long, arg.get_action().takes_values()))
    });
    flags.collect()
}

fn set_aside(args: Vec<OsString>, known: &[(String, bool)]) -> (Vec<OsString>, Vec<String>) {
    let mut kept = Vec::with_capacity(args.len());
    let mut unknown = Vec::new();
    let mut rest = args.into_iter().peekable();
    while let Some(arg) = rest.next() {
        let text = arg.to_string_lossy().into_owned();
        // kube-apiserver's verbosity is a number, ours is repeated.
        if text == "-v"
            && rest
                .next_if(|next| next.to_string_lossy().parse::<u8>().is_ok())
                .is_some()
            || text.starts_with("-v=")
        {
            continue;
        }
        let Some(flag) = text.strip_prefix("--") else {
            kept.push(arg);
            continue;
        };
        let (name, inline) = flag
            .split_once('=')
            .map_or((flag, false), |(name, _)| (name, true));
        match known.iter().find(|(known, _)| known == name) {
            Some((_, takes_value)) => {
                let takes_next = *takes_value && !inline;
                kept.push(arg);
                kept.extend(takes_next.then(|| rest.next()).flatten());
            }
            None => {
                unknown.push(format!("--{name}"));
                if !inline {
                    rest.next_if(|next| !next.to_string_lossy().starts_with('-'));
                }
            }
        }
    }
    (kept, unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, kept: &str, unknown: &str) {
        let args = line.split(' ').map(OsString::from).collect();
        let (got, aside) = prepare(args);
        let got: Vec<String> = got.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        assert_eq!(
            (got.join(" ").as_str(), aside.join(" ").as_str()),
            (kept, unknown)
        );
    }

    #[test]
    fn answers_to_the_names_that_envtest_starts() {
        check(
            "/x/kube-apiserver --help",
            "/x/kube-apiserver apiserver --help",
            "",
        );
        check("/x/etcd --data-dir=/d", "/x/etcd etcd", "--data-dir");
        check("skopos get pods", "skopos get pods", "");
    }

    #[test]
    fn flags_without_meaning_are_set_aside_with_their_values() {
        check(
            "skopos apiserver --profiling=false --secure-port 7",
            "skopos apiserver --secure-port 7",
            "--profiling",
        );
        check(
            "skopos apiserver --feature-gates A=true --secure-port=7 --goaway-chance 0.1",
            "skopos apiserver --secure-port=7",
            "--feature-gates --goaway-chance",
        );
        check("skopos apiserver -v=4 -v 2 -vv", "skopos apiserver -vv", "");
        check(
            "skopos apiserver --logging --bind-address ::1",
            "skopos apiserver --bind-address ::1",
            "--logging",
        );
    }
}
