//! The standard output of the process.

use std::io::{self, Write};

use futures_core::future::BoxFuture;

use crate::{Destination, Event, Failure, Sent, cloud_event::to_lines};

/// Writes events as JSON lines. Done when they are flushed.
#[derive(Debug)]
pub(crate) struct Stdout {
    max_batch: usize,
}

impl Stdout {
    pub(crate) fn new(max_batch: usize) -> Self {
        Self { max_batch }
    }

    async fn send_all(&self, events: &[Event]) -> Sent {
        let lines = to_lines(events);
        let writing = tokio::task::spawn_blocking(move || write(&mut io::stdout().lock(), &lines));
        match writing.await {
            Ok(Ok(())) => Sent::all(events),
            Ok(Err(error)) => {
                let text = format!("cannot write to standard output: {error}");
                Sent::failed(0, Failure::unavailable(text))
            }
            Err(_) => Sent::failed(
                0,
                Failure::unavailable("the writer to standard output was stopped".to_owned()),
            ),
        }
    }
}

fn write(to: &mut impl Write, lines: &[u8]) -> io::Result<()> {
    to.write_all(lines)?;
    to.flush()
}

impl Destination for Stdout {
    fn send<'a>(&'a self, events: &'a [Event]) -> BoxFuture<'a, Sent> {
        Box::pin(self.send_all(events))
    }

    fn max_batch(&self) -> usize {
        self.max_batch
    }
}
