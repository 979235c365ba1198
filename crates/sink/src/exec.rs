//! A command.

mod group;

use std::{ffi::OsString, path::PathBuf, process::Stdio, time::Duration};

use futures_core::future::BoxFuture;
use skopos_api::Exec as Spec;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
};

use crate::{
    Context, Destination, Event, Failure, Sent,
    cloud_event::to_json,
    connect::BadSink,
    secrets::{Hidden, text, without, without_begun},
};

use self::group::Group;

/// So much of what a command prints is kept, of each stream.
const MAX_OUTPUT_BYTES: usize = 4 << 10;
/// How long what is left of its output is read when a command has ended. It is in the pipe by then.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The exit code for data that is not wanted (`EX_DATAERR`).
const REFUSED: i32 = 65;

/// Runs a command for each event, which it gets as JSON on its standard input. No shell.
#[derive(Debug)]
pub(crate) struct Exec {
    program: String,
    args: Vec<String>,
    env: Vec<(OsString, Hidden)>,
    search_path: Option<OsString>,
    dir: Option<PathBuf>,
}

impl Exec {
    pub(crate) async fn new(spec: &Spec, context: Context<'_>) -> Result<Self, BadSink> {
        if !context.allowed.exec {
            return Err(BadSink::NotAllowed(
                "commands are only for sinks from the directory of Skopos, or with --allow-exec",
            ));
        }
        let Some((program, args)) = spec
            .command
            .split_first()
            .filter(|(program, _)| !program.is_empty())
        else {
            return Err(BadSink::value(
                "command",
                "is empty: name the program and its arguments",
            ));
        };
        if spec.command.iter().any(|word| word.contains('\0')) {
            return Err(BadSink::value("command", "has a zero byte in it"));
        }
        let mut env = Vec::new();
        for (name, source) in &spec.env {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(BadSink::value(
                    "env",
                    format!("{name:?} is not the name of a variable"),
                ));
            }
            let value = text(context.secrets, "env", source).await?;
            if value.0.contains('\0') {
                return Err(BadSink::value("env", format!("{name:?} has a zero byte in it")));
            }
            env.push((name.into(), value));
        }
        Ok(Self {
            program: program.clone(),
            args: args.to_vec(),
            env,
            search_path: context.search_path.cloned(),
            dir: spec.dir.as_ref().map(PathBuf::from),
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear();
        if let Some(path) = &self.search_path {
            command.env("PATH", path);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, &value.0)));
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own, so that what it starts can be stopped with it.
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    async fn run(&self, event: &Event) -> Result<(), Failure> {
        let mut child = self
            .command()
            .spawn()
            .map_err(|error| Failure::unavailable(format!("cannot start {:?}: {error}", self.program)))?;
        // Kills what is left of the group when the command has ended, and all of it when this is dropped before.
        let group = Group::of(&child);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feeding = async {
            if let Some(mut stdin) = stdin {
                // Who does not read it all need not: only the exit code counts.
                let _ = stdin.write_all(&to_json(event)).await;
            }
        };
        let (mut said, mut warned) = (Vec::new(), Vec::new());
        let status = {
            let talking = async {
                tokio::join!(
                    feeding,
                    beginning(stdout, &mut said),
                    beginning(stderr, &mut warned)
                )
            };
            let ending = async {
                let status = child.wait().await;
                drop(group);
                status
            };
            ended(ending, talking).await
        };
        let status = status
            .map_err(|error| Failure::unavailable(format!("cannot wait for {:?}: {error}", self.program)))?;
        if status.success() {
            return Ok(());
        }
        let text = self.told(&format!("{:?} ended with {status}", self.program), &said, &warned);
        match status.code() {
            Some(REFUSED) => Err(Failure::refused(text)),
            _ => Err(Failure::unavailable(text)),
        }
    }

    /// What happened and what the command said about it, without the secrets it was given.
    fn told(&self, what: &str, stdout: &[u8], stderr: &[u8]) -> String {
        // Short values are no secrets, and would tear the text apart.
        let hidden = || {
            let values = self.env.iter().map(|(_, value)| value);
            values.filter(|value| value.0.len() >= 4)
        };
        let mut text = what.to_owned();
        for (name, output) in [("stderr", stderr), ("stdout", stdout)] {
            let said = without(hidden(), &String::from_utf8_lossy(output));
            let said = match output.len() < MAX_OUTPUT_BYTES {
                true => said,
                false => without_begun(hidden(), &said),
            };
            if !said.trim().is_empty() {
                text.push_str(&format!("; {name}: {}", said.trim()));
            }
        }
        text
    }
}

impl Destination for Exec {
    fn send<'a>(&'a self, events: &'a [Event]) -> BoxFuture<'a, Sent> {
        Box::pin(async move {
            for (n, event) in events.iter().enumerate() {
                if let Err(failure) = self.run(event).await {
                    return Sent::failed(n, failure);
                }
            }
            Sent::all(events)
        })
    }
}

/// Waits for the end of a command while it is talked with, and a little for its last words. A process that left its group
/// may hold its output open for ever.
async fn ended<T>(ending: impl Future<Output = T>, talking: impl Future) -> T {
    tokio::pin!(ending, talking);
    tokio::select! {
        _ = &mut talking => ending.await,
        status = &mut ending => {
            let _ = tokio::time::timeout(LAST_WORDS, talking).await;
            status
        }
    }
}

/// Reads to the end and keeps the beginning, so that nobody waits for a full pipe.
async fn beginning(stream: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut stream) = stream else { return };
    let mut chunk = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut chunk).await {
        let room = MAX_OUTPUT_BYTES - kept.len();
        kept.extend_from_slice(&chunk[..n.min(room)]);
    }
}
