//! A file of JSON lines.

mod log;
mod repair;

use std::path::PathBuf;

use futures_core::future::BoxFuture;
use skopos_api::File as Spec;

use crate::{
    Context, Destination, Event, Failure, Sent, cloud_event::to_lines, connect::BadSink, writer::Writer,
};

use self::log::{Log, Settings};

const DEFAULT_MAX_BYTES: u64 = 100 << 20;
const DEFAULT_MAX_FILES: u32 = 5;

/// Appends events to a file. Done when they are on the disk.
#[derive(Debug)]
pub(crate) struct File {
    path: PathBuf,
    max_batch: usize,
    log: Writer<Log>,
}

impl File {
    pub(crate) fn new(spec: &Spec, max_batch: usize, context: Context<'_>) -> Result<Self, BadSink> {
        if !context.allowed.file {
            return Err(BadSink::NotAllowed(
                "files are only for sinks from the directory of Skopos, or with --allow-file",
            ));
        }
        let path = PathBuf::from(&spec.path);
        if spec.path.is_empty() || spec.path.ends_with('/') {
            return Err(BadSink::value(
                "path",
                format!("{:?} is not the path of a file", spec.path),
            ));
        }
        let settings = Settings {
            path: path.clone(),
            max_bytes: spec.max_bytes.unwrap_or(DEFAULT_MAX_BYTES).max(1),
            max_files: spec.max_files.unwrap_or(DEFAULT_MAX_FILES),
        };
        let log = Writer::new(Log::new(settings));
        Ok(Self { path, max_batch, log })
    }

    async fn send_all(&self, events: &[Event]) -> Sent {
        let lines = to_lines(events);
        match self.log.write(move |log| log.append(&lines)).await {
            Ok(()) => Sent::all(events),
            Err(error) => {
                let text = format!("cannot write {}: {error}", self.path.display());
                Sent::failed(0, Failure::unavailable(text))
            }
        }
    }
}

impl Destination for File {
    fn send<'a>(&'a self, events: &'a [Event]) -> BoxFuture<'a, Sent> {
        Box::pin(self.send_all(events))
    }

    fn max_batch(&self) -> usize {
        self.max_batch
    }
}
