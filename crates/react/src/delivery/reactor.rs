//! The door: opens the state, runs the tasks, answers questions.

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prometheus_client::registry::Registry;
use redb::{StorageBackend, backends::InMemoryBackend};
use skopos_journal::{Log, Seq};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{
    Config, Error, Plan, Status,
    look::{Command, Looker, hold_name},
    metrics,
    send::Sender,
    shared::{Bells, Directory, Shared},
    store::{Replayed, Store, Tables, notes, oldest_timer_now},
};

/// Looks at changes for rules and delivers what they match. Cheap to clone: all clones are the same reactor.
///
/// Nothing happens before [`run`](Self::run), nor before the first [`swap`](Self::swap) of a plan.
#[derive(Clone)]
pub struct Reactor {
    pub(super) shared: Arc<Shared>,
    pub(super) plan: watch::Sender<Arc<Plan>>,
    /// Replaced when the tasks begin again.
    commands: Arc<Mutex<mpsc::Sender<Command>>>,
    inbox: Arc<Mutex<Option<mpsc::Receiver<Command>>>>,
}

/// A sender at work.
struct Running {
    stop: CancellationToken,
    ended: CancellationToken,
}

/// A range of changes to send again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Of which rule, as `namespace/name`.
    pub rule: String,
    /// The first change.
    pub from: Seq,
    /// The last change; the newest there is if it is beyond.
    pub to: Seq,
    /// Where to, instead of the sinks of the rule.
    pub sink: Option<String>,
    /// Only count what matches.
    pub is_dry: bool,
}

impl Reactor {
    /// Opens the state in a directory, or begins it there.
    pub fn open(directory: &Path, log: Arc<dyn Log>) -> Result<Self, Error> {
        Self::open_with(directory, log, Config::default())
    }

    /// Opens the state in a directory, with a clock and times of one's own.
    pub fn open_with(directory: &Path, log: Arc<dyn Log>, config: Config) -> Result<Self, Error> {
        Self::on(Store::open(directory)?, log, config)
    }

    /// Keeps the state in memory, and forgets it in the end: for trying things out.
    pub fn in_memory(log: Arc<dyn Log>, config: Config) -> Result<Self, Error> {
        Self::on(Store::in_backend(InMemoryBackend::new)?, log, config)
    }

    /// Opens the state in a file that is not on this machine, with `open`, which is called again when there was no room.
    /// `place` is for messages. Reads what it must, which blocks.
    pub fn in_backend<B: StorageBackend>(
        open: impl Fn() -> B + Send + Sync + 'static,
        place: &Path,
        log: Arc<dyn Log>,
        config: Config,
    ) -> Result<Self, Error> {
        Self::on(Store::in_slow_backend(open, place)?, log, config)
    }

    pub(super) fn on(store: Store, log: Arc<dyn Log>, config: Config) -> Result<Self, Error> {
        hold_what_is_needed(&store, &*log)?;
        let (commands, inbox) = command_line();
        let shared = Shared {
            log,
            store,
            config,
            bells: Bells::default(),
            latency: metrics::latency(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            plan: watch::Sender::new(Arc::default()),
            commands: Arc::new(Mutex::new(commands)),
            inbox: Arc::new(Mutex::new(Some(inbox))),
        })
    }

    /// Puts a plan in force, in place of the one before. Returns at once.
    pub fn swap(&self, plan: Plan) {
        self.plan.send_replace(Arc::new(plan));
    }

    /// Works until the shutdown, or until the state can no longer be kept. Nothing uses the state once this returns,
    /// except who asks a clone.
    ///
    /// A full disk is waited for: nothing is looked at or sent meanwhile, and [`Status::no_space`] says so.
    ///
    /// # Panics
    /// If it is called a second time.
    pub async fn run(&self, shutdown: CancellationToken) -> Result<(), Error> {
        let mut inbox = lock(&self.inbox).take().expect("a reactor runs once");
        loop {
            let ended = self.work(inbox, &shutdown).await;
            let Some(what) = self.shared.store.full() else {
                return ended;
            };
            tracing::warn!(what, "deliveries wait: there is no room for their state");
            self.shared.store.board.wait_for_room(what);
            let room = shutdown.run_until_cancelled(self.wait_for_room()).await;
            match room {
                None => {
                    // What was sent last is sent again after the next start. A thread may be opening the file.
                    self.shared.store.settled().await;
                    return Ok(());
                }
                Some(room) => room?,
            }
            tracing::info!("deliveries go on: there is room for their state");
            let (commands, next) = command_line();
            *lock(&self.commands) = commands;
            inbox = next;
        }
    }

    /// Works until the shutdown, or until the state cannot be written.
    async fn work(&self, inbox: mpsc::Receiver<Command>, shutdown: &CancellationToken) -> Result<(), Error> {
        let stop = shutdown.child_token();
        let mut tasks = JoinSet::new();
        let (directory, directed) = watch::channel(Arc::new(Directory::default()));
        let looker = Looker::new(self.shared.clone(), self.plan.subscribe(), inbox, directory);
        tasks.spawn(looker.run(stop.clone()));
        tasks.spawn(sync_often(self.shared.clone(), stop.clone()));
        let ended = self.supervise(&mut tasks, directed, &stop).await;
        stop.cancel();
        let mut result = ended;
        while let Some(task) = tasks.join_next().await {
            result = result.and(join(task));
        }
        // A task that stops drops what it waits for: that may still be written, and must be before the last sync.
        self.shared.store.settled().await;
        result.and(self.shared.store.sync().await)
    }

    /// Closes the state, and opens it again when there is room.
    async fn wait_for_room(&self) -> Result<(), Error> {
        self.shared.store.close().await;
        loop {
            sleep(self.shared.config.full_retry).await;
            match self.shared.store.reopen().await {
                Err(error) if error.no_space().is_some() => {}
                reopened => return reopened,
            }
        }
    }

    /// Keeps one sender per sink, until the shutdown or until a task fails.
    async fn supervise(
        &self,
        tasks: &mut JoinSet<Result<(), Error>>,
        mut directory: watch::Receiver<Arc<Directory>>,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let mut senders = BTreeMap::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                Some(task) = tasks.join_next() => join(task)?,
                Ok(()) = directory.changed() => {}
            }
            let now = directory.borrow_and_update().clone();
            // One that is being stopped keeps its place until it has ended: never two for one sink.
            senders.retain(|_, sender: &mut Running| !sender.ended.is_cancelled());
            for (name, sender) in &senders {
                if !now.sinks.contains_key(name) {
                    sender.stop.cancel();
                }
            }
            for (name, directed) in &now.sinks {
                if !senders.contains_key(name) {
                    let sender = Sender::new(
                        self.shared.clone(),
                        name.clone(),
                        directed.clone(),
                        directory.clone(),
                    );
                    senders.insert(name.clone(), Running::start(sender, tasks, stop));
                }
            }
        }
    }

    /// What [`note`](Self::note) was given, by name.
    pub async fn notes(&self) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        self.shared.store.read(notes).await
    }

    /// Keeps notes by name beside the state of deliveries, each in place of the one before; those without a text are
    /// forgotten. Durable when this returns.
    pub async fn note(&self, texts: BTreeMap<String, Option<Vec<u8>>>) -> Result<(), Error> {
        let write = move |tables: &mut Tables<'_>| {
            let mut texts = texts.iter();
            texts.try_for_each(|(name, text)| tables.note(name, text.as_deref()))
        };
        self.shared.store.write(write).await?;
        self.shared.store.sync().await
    }

    /// How everything is doing.
    pub fn status(&self) -> Status {
        self.shared
            .store
            .board
            .status(self.shared.log.head(), self.shared.now())
    }

    /// Lets `registry` show metrics of rules, deliveries and sinks.
    pub fn register(&self, registry: &mut Registry) {
        metrics::register(&self.shared, registry);
    }

    /// Lets a rule go on that stands still because it did more than it may, or was paused.
    pub async fn resume(&self, rule: &str) -> Result<(), Error> {
        self.ask(|reply| Command::Resume(rule.to_owned(), reply)).await
    }

    /// Lets a rule stand still until it is resumed: it looks at nothing and sends nothing.
    pub async fn pause(&self, rule: &str, reason: &str) -> Result<(), Error> {
        self.ask(|reply| Command::Pause(rule.to_owned(), reason.to_owned(), reply))
            .await
    }

    /// Sends a range again, with the same ids, beside everything else. Returns the name by which
    /// [`Status::replays`] shows it.
    pub async fn replay(&self, replay: &Replay) -> Result<String, Error> {
        let replayed = Replayed {
            rule: replay.rule.clone(),
            from: replay.from.0.max(1),
            to: replay.to.0,
            sink: replay.sink.clone(),
            is_dry: replay.is_dry,
            is_done: false,
        };
        self.ask(|reply| Command::Replay(replayed, reply)).await
    }

    /// Ends a replay, whatever it has not sent.
    pub async fn cancel_replay(&self, name: &str) -> Result<(), Error> {
        self.ask(|reply| Command::Cancel(name.to_owned(), reply)).await
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Command,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let commands = lock(&self.commands).clone();
        let stopped = || match self.shared.store.full() {
            Some(what) => Error::NoSpace(what),
            None => Error::Stopped,
        };
        let asked = commands.send(command(reply)).await;
        asked.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

impl Running {
    fn start(sender: Sender, tasks: &mut JoinSet<Result<(), Error>>, stop: &CancellationToken) -> Self {
        let (stop, ended) = (stop.child_token(), CancellationToken::new());
        let running = Self {
            stop: stop.clone(),
            ended: ended.clone(),
        };
        tasks.spawn(async move {
            let _ended = ended.drop_guard();
            sender.run(stop).await
        });
        running
    }
}

/// The way of commands to the task that obeys them.
fn command_line() -> (mpsc::Sender<Command>, mpsc::Receiver<Command>) {
    // Full means that many ask at once: whoever asks waits.
    mpsc::channel(16)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says what must be kept, before retention begins.
fn hold_what_is_needed(store: &Store, log: &dyn Log) -> Result<(), Error> {
    let (rules, _) = store.board.records();
    for (name, record) in rules {
        let timer = oldest_timer_now(store, record.id)?;
        let oldest = store
            .board
            .oldest_pending(record.id)
            .into_iter()
            .chain(timer)
            .chain(store.board.oldest_letter(record.id))
            .min();
        let needed = oldest.map_or(log.head().0, |seq| seq.saturating_sub(1));
        log.hold(&hold_name(&name), Some(Seq(record.looks_after().min(needed))));
    }
    Ok(())
}

/// Makes what is written durable, a little later and much of it at once.
async fn sync_often(shared: Arc<Shared>, stop: CancellationToken) -> Result<(), Error> {
    loop {
        let due = async {
            shared.store.dirtied().await;
            sleep(shared.config.sync_every).await;
        };
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = due => {}
        }
        // Never given up half way: nobody would hear that it failed.
        shared.store.sync().await?;
    }
}

fn join(task: Result<Result<(), Error>, tokio::task::JoinError>) -> Result<(), Error> {
    match task {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor").finish_non_exhaustive()
    }
}
