//! Sends to one sink what [`Lanes`] says.

mod attempt;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::attempt::{Attempt, Told};
use super::{
    Error,
    entries::find,
    lanes::{Effect, Fate, Input, Lanes, RouteId, Row},
    plan::Settings,
    shared::{Bell, Directed, Directory, Shared},
    store::{Given, Tables, pending},
};

/// The task that sends to one sink.
pub(crate) struct Sender {
    shared: Arc<Shared>,
    name: String,
    directory: watch::Receiver<Arc<Directory>>,
    directed: Directed,
    settings: Arc<Settings>,
    lanes: Lanes,
    bell: Arc<Bell>,
    flights: JoinSet<Told>,
    batches: HashMap<Id, u64>,
    /// The rules of routes, also of those that went away while something of them was on its way.
    rules: BTreeMap<RouteId, u32>,
    settled: BTreeMap<RouteId, Settled>,
    n_settled: usize,
    flush_at: Option<Instant>,
}

/// What became of deliveries, not written down yet.
#[derive(Debug, Default)]
struct Settled {
    delivered: Vec<u64>,
    given_up: Vec<Given>,
}

/// So many outcomes are written down together, or what there is after this time.
const FLUSH_ROWS: usize = 512;
const FLUSH_AFTER: Duration = Duration::from_millis(10);

impl Sender {
    pub(crate) fn new(
        shared: Arc<Shared>,
        name: String,
        directed: Directed,
        directory: watch::Receiver<Arc<Directory>>,
    ) -> Self {
        let settings = Settings::new(&directed.sink.delivery, &*directed.sink.destination);
        let seed = shared.config.seed ^ super::entries::hash(&name);
        Self {
            lanes: Lanes::new(settings.clone(), seed),
            bell: shared.bells.of(&name),
            settings: Arc::new(settings),
            shared,
            name,
            directory,
            directed,
            flights: JoinSet::new(),
            batches: HashMap::new(),
            rules: BTreeMap::new(),
            settled: BTreeMap::new(),
            n_settled: 0,
            flush_at: None,
        }
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), Error> {
        self.follow_routes().await?;
        let bell = self.bell.clone();
        while !stop.is_cancelled() {
            let deadline = self.lanes.deadline().into_iter().chain(self.flush_at).min();
            tokio::select! {
                () = stop.cancelled() => {}
                Ok(()) = self.directory.changed() => self.configure().await?,
                routes = bell.heard() => {
                    for route in routes {
                        self.step(Input::More(route)).await?;
                    }
                }
                Some(told) = self.flights.join_next_with_id(), if !self.flights.is_empty() => {
                    self.landed(told).await?;
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    self.step(Input::Tick).await?;
                }
            }
            if self.n_settled >= FLUSH_ROWS || self.flush_at.is_some_and(|at| at <= Instant::now()) {
                self.flush().await?;
            }
        }
        self.finish().await
    }

    /// Lets requests that are under way end, but not for long, and writes down what became of them.
    async fn finish(mut self) -> Result<(), Error> {
        // With no routes nothing new is sent.
        self.step(Input::Routes([].into())).await?;
        let end = Instant::now() + self.shared.config.grace;
        while !self.flights.is_empty() {
            tokio::select! {
                Some(told) = self.flights.join_next_with_id() => self.landed(told).await?,
                () = sleep_until(end) => break,
            }
        }
        self.flights.shutdown().await;
        self.flush().await?;
        self.shared.store.board.remove_sink(&self.name);
        Ok(())
    }

    /// Takes up a new plan.
    async fn configure(&mut self) -> Result<(), Error> {
        let directory = self.directory.borrow_and_update().clone();
        let Some(directed) = directory.sinks.get(&self.name) else {
            // Whoever started this task will stop it.
            return Ok(());
        };
        // What is known of routes that go away must be written down before they may come back.
        self.flush().await?;
        self.directed = directed.clone();
        let settings = Settings::new(&directed.sink.delivery, &*directed.sink.destination);
        self.settings = Arc::new(settings.clone());
        self.lanes.configure(settings);
        self.follow_routes().await
    }

    async fn follow_routes(&mut self) -> Result<(), Error> {
        if self.flights.is_empty() {
            self.rules.clear();
        }
        let routes = self.directed.routes.iter();
        self.rules.extend(routes.map(|(id, route)| (*id, route.rule)));
        let routes = self.directed.routes.keys().copied().collect();
        self.step(Input::Routes(routes)).await
    }

    /// Tells the lanes what happened and does what they say, until there is nothing more to do at once.
    async fn step(&mut self, input: Input) -> Result<(), Error> {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for effect in self.lanes.step(input, Instant::now()) {
                match effect {
                    Effect::Load { route, from, limit } => inputs.push(self.load(route, from, limit).await?),
                    Effect::Send {
                        batch,
                        rows,
                        n_failed,
                    } => self.send(batch, rows, n_failed),
                    Effect::Done(row) => self.settle(row.route).delivered.push(row.ord),
                    Effect::Dead { row, attempts, error } => self.give_up(row, attempts, error).await,
                }
            }
        }
        self.report();
        Ok(())
    }

    async fn load(&mut self, route: RouteId, from: u64, limit: usize) -> Result<Input, Error> {
        // What was delivered must not be read again.
        self.flush().await?;
        let read = self
            .shared
            .store
            .read(move |transaction| pending(transaction, route, from, limit));
        let rows = read.await?;
        let ended = rows.len() < limit;
        Ok(Input::Loaded { route, rows, ended })
    }

    fn send(&mut self, batch: u64, rows: Vec<Row>, n_failed: u32) {
        let attempt = Attempt {
            shared: self.shared.clone(),
            sink: self.name.clone(),
            directed: self.directed.clone(),
            settings: self.settings.clone(),
            n_failed,
        };
        let flight = self.flights.spawn(attempt.run(rows));
        self.batches.insert(flight.id(), batch);
    }

    async fn landed(&mut self, told: Result<(Id, Told), JoinError>) -> Result<(), Error> {
        let (id, fates) = match told {
            Ok((id, told)) => {
                self.note(&told);
                (id, told.fates)
            }
            Err(error) => {
                tracing::error!(sink = self.name, %error, "a destination panicked");
                let failed = Fate::Failed {
                    retry_after: None,
                    error: "the destination panicked".into(),
                };
                (error.id(), vec![failed])
            }
        };
        match self.batches.remove(&id) {
            Some(batch) => self.step(Input::Sent { batch, fates }).await,
            None => Ok(()),
        }
    }

    fn note(&self, told: &Told) {
        let Some((rule, error)) = &told.trouble else {
            return;
        };
        self.shared.store.board.sink(&self.name, |sink| {
            sink.n_failed += 1;
            sink.last_error.clone_from(error);
            sink.errors.insert(rule.clone(), error.clone());
        });
    }

    fn settle(&mut self, route: RouteId) -> &mut Settled {
        self.n_settled += 1;
        self.flush_at.get_or_insert_with(|| Instant::now() + FLUSH_AFTER);
        self.settled.entry(route).or_default()
    }

    async fn give_up(&mut self, row: Row, attempts: u32, error: String) {
        let wanted = self.directed.routes.get(&row.route);
        let wanted = wanted
            .map(|route| route.planned.evaluator.wanted())
            .unwrap_or_default();
        let found = find(&*self.shared.log, &row, &wanted).await.ok().flatten();
        let object = found.map_or_else(String::new, |entry| format!("{}/{}", entry.plural, entry.key));
        tracing::warn!(
            sink = self.name,
            object,
            seq = row.seq.0,
            attempts,
            error,
            "gave a delivery up"
        );
        let given = Given {
            row,
            object,
            attempts,
            error,
        };
        self.settle(given.row.route).given_up.push(given);
    }

    /// Writes down what became of deliveries.
    async fn flush(&mut self) -> Result<(), Error> {
        self.flush_at = None;
        self.n_settled = 0;
        let mut changes = Vec::new();
        for (route, settled) in std::mem::take(&mut self.settled) {
            if let Some(rule) = self.rules.get(&route) {
                changes.push((*rule, settled));
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        let (sink, now) = (self.name.clone(), self.shared.now());
        let settle = move |tables: &mut Tables<'_>| {
            for (rule, settled) in &changes {
                tables.settle((*rule, &sink), &settled.delivered, &settled.given_up, now)?;
            }
            Ok(())
        };
        self.shared.store.write(settle).await
    }

    fn report(&self) {
        let (in_flight, down_since) = (self.lanes.n_flights(), self.lanes.down_since());
        let in_memory = self.lanes.n_loaded();
        self.shared.store.board.sink(&self.name, |sink| {
            if sink.down_since.is_none() != down_since.is_none() {
                let down = down_since.is_some();
                tracing::info!(sink = self.name, down, "a sink went down or came back");
            }
            sink.in_flight = in_flight;
            sink.in_memory = in_memory;
            sink.down_since = down_since;
        });
    }
}
