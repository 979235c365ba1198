//! Writes that block a thread and cannot be stopped.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Something that one thread at a time writes to.
///
/// A write that was begun goes on although nobody waits for it any more: into a pipe that nobody reads, to a file system
/// that does not answer. Nothing else is begun meanwhile. Otherwise such writes would use up the threads that all blocking
/// work shares, and would all take place once the way is free.
#[derive(Debug)]
pub(crate) struct Writer<T> {
    /// Taken by the thread that writes, never across an await.
    to: Arc<Mutex<T>>,
    /// One permit: so many writes are under way.
    turn: Arc<Semaphore>,
    caller: Caller,
}

/// Whoever waits for the write that is under way, if one is.
type Caller = Arc<Mutex<Option<Weak<()>>>>;

/// The right to write.
struct Turn {
    caller: Caller,
    _permit: OwnedSemaphorePermit,
}

impl<T: Send + 'static> Writer<T> {
    pub(crate) fn new(to: T) -> Self {
        Self {
            to: Arc::new(Mutex::new(to)),
            turn: Arc::new(Semaphore::new(1)),
            caller: Arc::default(),
        }
    }

    /// Writes after those that came before. Fails at once if nobody waits any more for the one that is under way.
    ///
    /// Once begun it is finished even if the caller does not wait.
    pub(crate) async fn write(
        &self,
        work: impl FnOnce(&mut T) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let is_left = |caller: &Weak<()>| caller.strong_count() == 0;
        if lock(&self.caller).as_ref().is_some_and(is_left) {
            return Err(io::Error::other("the last write has not ended"));
        }
        let permit = Arc::clone(&self.turn).acquire_owned().await;
        let turn = Turn {
            caller: Arc::clone(&self.caller),
            _permit: permit.map_err(io::Error::other)?,
        };
        // Dropped with this future.
        let here = Arc::new(());
        *lock(&self.caller) = Some(Arc::downgrade(&here));
        let to = Arc::clone(&self.to);
        let writing = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&mut lock(&to))
        });
        match writing.await {
            Ok(written) => written,
            Err(_) => Err(io::Error::other("the writer was stopped")),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *lock(&self.caller) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, time::Duration};

    /// To tell a write to go on.
    fn order() -> (mpsc::SyncSender<()>, mpsc::Receiver<()>) {
        // Never full: there is one order.
        mpsc::sync_channel(1)
    }

    /// Writes a number once it is told to.
    async fn write(to: &Writer<Vec<u32>>, number: u32, told: mpsc::Receiver<()>) -> io::Result<()> {
        let work = move |numbers: &mut Vec<u32>| {
            told.recv().map_err(io::Error::other)?;
            numbers.push(number);
            Ok(())
        };
        to.write(work).await
    }

    #[tokio::test]
    async fn while_a_write_is_stuck_no_other_is_begun() {
        let writer = Writer::new(Vec::new());
        let (tell, told) = order();
        let attempt = tokio::time::timeout(Duration::from_millis(10), write(&writer, 1, told));
        assert!(attempt.await.is_err());
        for number in 2..100 {
            let (_tell, told) = order();
            let error = write(&writer, number, told).await.unwrap_err();
            assert_eq!(error.to_string(), "the last write has not ended");
        }
        tell.send(()).unwrap();
        // It waits for its end.
        drop(writer.turn.acquire().await.unwrap());
        let (tell, told) = order();
        tell.send(()).unwrap();
        write(&writer, 100, told).await.unwrap();
        assert_eq!(*lock(&writer.to), [1, 100]);
    }

    #[tokio::test]
    async fn those_who_wait_for_each_other_all_write() {
        let writer = Writer::new(Vec::new());
        let (tell_first, first) = order();
        let (tell_second, second) = order();
        let telling = async {
            tell_first.send(()).unwrap();
            tell_second.send(()).unwrap();
        };
        let (one, two, ()) = tokio::join!(write(&writer, 1, first), write(&writer, 2, second), telling);
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(*lock(&writer.to), [1, 2]);
    }

    #[tokio::test]
    async fn a_write_that_panics_holds_up_nobody() {
        let writer = Writer::new(Vec::new());
        let panics = writer.write(|_: &mut Vec<u32>| panic!("as it likes"));
        assert_eq!(panics.await.unwrap_err().to_string(), "the writer was stopped");
        writer.write(|_| Ok(())).await.unwrap();
    }
}
