//! A connection that several calls share, made when it is needed and given up at the first doubt.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Semaphore;

/// The connection to a server, if there is one.
#[derive(Debug)]
pub(crate) struct Link<T> {
    current: Mutex<Option<Arc<T>>>,
    /// One permit: so many connections are made at once.
    connecting: Semaphore,
}

impl<T> Default for Link<T> {
    fn default() -> Self {
        Self {
            current: Mutex::default(),
            connecting: Semaphore::new(1),
        }
    }
}

impl<T> Link<T> {
    /// Returns the connection, after `connect` made it if there is none.
    ///
    /// Whoever does not [`keep`](InUse::keep) it, because something failed or because he was dropped in the middle,
    /// leaves a connection that nobody knows the state of: the next call makes a new one.
    pub(crate) async fn get<E>(
        &self,
        connect: impl Future<Output = Result<T, E>>,
    ) -> Result<InUse<'_, T>, E> {
        if let Some(value) = self.current() {
            return Ok(self.in_use(value));
        }
        let _turn = self.connecting.acquire().await.expect("never closed");
        if let Some(value) = self.current() {
            return Ok(self.in_use(value));
        }
        let value = Arc::new(connect.await?);
        *self.lock() = Some(Arc::clone(&value));
        Ok(self.in_use(value))
    }

    fn in_use(&self, value: Arc<T>) -> InUse<'_, T> {
        InUse {
            link: self,
            value,
            kept: false,
        }
    }

    fn current(&self) -> Option<Arc<T>> {
        self.lock().clone()
    }

    fn forget(&self, value: &Arc<T>) {
        let mut current = self.lock();
        if current.as_ref().is_some_and(|now| Arc::ptr_eq(now, value)) {
            *current = None;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<T>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that a call uses.
#[derive(Debug)]
pub(crate) struct InUse<'a, T> {
    link: &'a Link<T>,
    value: Arc<T>,
    kept: bool,
}

impl<T> InUse<'_, T> {
    /// Says that the connection is good: others may use it.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl<T> Deref for InUse<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for InUse<'_, T> {
    fn drop(&mut self) {
        if !self.kept {
            self.link.forget(&self.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    async fn number(link: &Link<u32>, next: u32) -> InUse<'_, u32> {
        let made: Result<_, Infallible> = link.get(async { Ok(next) }).await;
        made.unwrap()
    }

    #[tokio::test]
    async fn a_connection_is_shared_until_someone_does_not_keep_it() {
        let link = Link::default();
        number(&link, 1).await.keep();
        let (first, second) = (number(&link, 2).await, number(&link, 3).await);
        assert_eq!((*first, *second), (1, 1));
        drop(first);
        number(&link, 4).await.keep();
        // It belongs to the connection before, and says nothing about the new one.
        drop(second);
        assert_eq!(*number(&link, 5).await, 4);
    }

    #[tokio::test]
    async fn a_connection_that_fails_leaves_nothing() {
        let link = Link::<u32>::default();
        assert_eq!(link.get(async { Err("down") }).await.unwrap_err(), "down");
        assert_eq!(*number(&link, 1).await, 1);
    }
}
