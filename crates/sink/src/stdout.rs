//! The standard output of the process.

use std::io::{self, Write};

use futures_core::future::BoxFuture;

use crate::{Destination, Event, Failure, Sent, cloud_event::to_lines, writer::Writer};

/// Writes events as JSON lines. Done when they are flushed.
#[derive(Debug)]
pub(crate) struct Stdout {
    max_batch: usize,
    out: Writer<io::Stdout>,
}

impl Stdout {
    pub(crate) fn new(max_batch: usize) -> Self {
        Self {
            max_batch,
            out: Writer::new(io::stdout()),
        }
    }

    async fn send_all(&self, events: &[Event]) -> Sent {
        let lines = to_lines(events);
        match self.out.write(move |out| write(&mut out.lock(), &lines)).await {
            Ok(()) => Sent::all(events),
            Err(error) => {
                let text = format!("cannot write to standard output: {error}");
                Sent::failed(0, Failure::unavailable(text))
            }
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
