//! A Kafka topic.

mod partition;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_core::future::BoxFuture;
use futures_util::future::join_all;
use rskafka::{
    BackoffConfig,
    chrono::{DateTime, Utc},
    client::{
        Client, ClientBuilder, Credentials, SaslConfig,
        error::{Error as KafkaError, ProtocolError},
        partition::{Compression, PartitionClient, UnknownTopicHandling},
    },
    record::Record,
};
use skopos_api::Kafka as Spec;

use crate::{
    Context, Destination, Event, Failure, Sent,
    cloud_event::attributes,
    connect::BadSink,
    link::Link,
    secrets::{Hidden, user},
    tls::Tls,
};

use self::partition::partition_of;

/// A request has at most so many bytes of data, unless one event has more: brokers take 1 MiB unless told otherwise.
const MAX_REQUEST_BYTES: usize = 512 << 10;
/// The client hands requests up to 8 KiB to the socket at once. It writes larger ones in two parts without `TCP_NODELAY`,
/// and the second then waits for the acknowledgement of the first, up to 40 ms.
const QUICK_REQUEST_BYTES: usize = 7 << 10;
/// With more than so much, one slow request is faster than many quick ones.
const MAX_QUICK_BYTES: usize = 64 << 10;
/// How long the client may retry by itself; then whoever calls decides.
const PATIENCE: Duration = Duration::from_secs(1);

/// Writes events to the partition that their lane belongs to. Done when all replicas in sync have them.
#[derive(Debug)]
pub(crate) struct Kafka {
    brokers: Vec<String>,
    topic: String,
    user: Option<(String, Hidden)>,
    tls: Option<Tls>,
    max_batch: usize,
    link: Link<Topic>,
}

/// The topic as it was when the connection was made.
#[derive(Debug)]
struct Topic {
    client: Client,
    /// In the order of their numbers.
    partitions: Vec<i32>,
    /// Connections to the leaders of partitions, as far as they were needed.
    leaders: Mutex<BTreeMap<i32, Arc<PartitionClient>>>,
}

impl Kafka {
    pub(crate) async fn new(spec: &Spec, max_batch: usize, context: Context<'_>) -> Result<Self, BadSink> {
        if spec.brokers.is_empty() {
            return Err(BadSink::value(
                "brokers",
                "must name one broker at least, such as kafka:9092",
            ));
        }
        for broker in &spec.brokers {
            let port = broker
                .rsplit_once(':')
                .and_then(|(host, port)| (!host.is_empty()).then(|| port.parse::<u16>()));
            if !matches!(port, Some(Ok(_))) || broker.contains('/') {
                return Err(BadSink::value(
                    "brokers",
                    format!("{broker:?} is not host:port, such as kafka:9092"),
                ));
            }
        }
        if spec.topic.is_empty() {
            return Err(BadSink::value("topic", "is empty"));
        }
        Ok(Self {
            brokers: spec.brokers.clone(),
            topic: spec.topic.clone(),
            user: user(context.secrets, spec.auth.as_ref()).await?,
            tls: match &spec.tls {
                Some(tls) => Some(Tls::new(Some(tls), context.secrets).await?),
                None => None,
            },
            max_batch,
            link: Link::default(),
        })
    }

    async fn connect(&self) -> Result<Topic, Failure> {
        let mut builder = ClientBuilder::new(self.brokers.clone())
            .client_id("skopos")
            .backoff_config(BackoffConfig {
                init_backoff: Duration::from_millis(50),
                max_backoff: PATIENCE / 2,
                base: 3.,
                deadline: Some(PATIENCE),
            });
        if let Some((username, password)) = &self.user {
            let credentials = Credentials::new(username.clone(), password.0.clone());
            builder = builder.sasl_config(SaslConfig::Plain(credentials));
        }
        if let Some(tls) = &self.tls {
            builder = builder.tls_config(Arc::clone(&tls.config));
        }
        let client = builder
            .build()
            .await
            .map_err(|error| self.failed("connect to", &error))?;
        let topics = client
            .list_topics()
            .await
            .map_err(|error| self.failed("ask", &error))?;
        let Some(topic) = topics.into_iter().find(|topic| topic.name == self.topic) else {
            return Err(Failure::unavailable(format!(
                "there is no topic {:?}, or we may not see it: make it, or check the rights of the user",
                self.topic
            )));
        };
        Ok(Topic {
            client,
            partitions: topic.partitions.into_iter().collect(),
            leaders: Mutex::default(),
        })
    }

    async fn send_all(&self, events: &[Event]) -> Sent {
        let topic = match self.link.get(self.connect()).await {
            Ok(topic) => topic,
            Err(failure) => return Sent::failed(0, failure),
        };
        let sending = by_partition(events, &topic.partitions)
            .into_iter()
            .map(|(partition, part)| self.send_partition(&topic, partition, events, part));
        // Each partition stops at its own first failure; the first of those in the order of events counts.
        let first = join_all(sending)
            .await
            .into_iter()
            .flatten()
            .min_by_key(|(n, _)| *n);
        match first {
            Some((n, failure)) => {
                if matches!(failure, Failure::Refused(_)) {
                    topic.keep();
                }
                Sent::failed(n, failure)
            }
            None => {
                topic.keep();
                Sent::all(events)
            }
        }
    }

    /// Sends the events with these numbers; the answer is the number of the first that failed.
    async fn send_partition(
        &self,
        topic: &Topic,
        partition: i32,
        events: &[Event],
        numbers: Vec<usize>,
    ) -> Option<(usize, Failure)> {
        let leader = match self.leader(topic, partition).await {
            Ok(leader) => leader,
            Err(failure) => return Some((numbers[0], failure)),
        };
        let mut waiting = Waiting::new(requests(events, &numbers));
        while let Some(request) = waiting.next() {
            let records = request.iter().map(|n| record(&events[*n])).collect();
            match leader.produce(records, Compression::NoCompression).await {
                Ok(_) => {}
                Err(error) if is_too_large(&error) && waiting.add_halves(request) => {}
                Err(error) => return Some((request[0], self.judge(&error))),
            }
        }
        None
    }

    async fn leader(&self, topic: &Topic, partition: i32) -> Result<Arc<PartitionClient>, Failure> {
        let known = |topic: &Topic| {
            topic
                .leaders
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(&partition)
                .cloned()
        };
        if let Some(leader) = known(topic) {
            return Ok(leader);
        }
        let leader = topic
            .client
            .partition_client(self.topic.clone(), partition, UnknownTopicHandling::Error)
            .await
            .map_err(|error| self.failed("find the leader at", &error))?;
        let mut leaders = topic.leaders.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(
            leaders.entry(partition).or_insert_with(|| Arc::new(leader)),
        ))
    }

    fn judge(&self, error: &KafkaError) -> Failure {
        match error {
            error if is_too_large(error) => Failure::refused(format!(
                "the event is larger than topic {:?} takes (max.message.bytes)",
                self.topic
            )),
            KafkaError::ServerError {
                protocol_error: ProtocolError::InvalidRecord,
                ..
            } => Failure::refused(format!(
                "topic {:?} does not take such records: {error}",
                self.topic
            )),
            _ => self.failed("write to", error),
        }
    }

    fn failed(&self, what: &str, error: &KafkaError) -> Failure {
        Failure::unavailable(format!(
            "cannot {what} Kafka at {}: {error}",
            self.brokers.join(", ")
        ))
    }
}

impl Destination for Kafka {
    fn send<'a>(&'a self, events: &'a [Event]) -> BoxFuture<'a, Sent> {
        Box::pin(self.send_all(events))
    }

    fn max_batch(&self) -> usize {
        self.max_batch
    }
}

/// The numbers of the events of each partition.
fn by_partition(events: &[Event], partitions: &[i32]) -> BTreeMap<i32, Vec<usize>> {
    let mut parts: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for (n, event) in events.iter().enumerate() {
        let partition = partition_of(event.lane.as_bytes(), partitions);
        parts.entry(partition).or_default().push(n);
    }
    parts
}

/// Requests that are to be written, the next one last.
struct Waiting<'a>(Vec<&'a [usize]>);

impl<'a> Waiting<'a> {
    fn new(mut requests: Vec<&'a [usize]>) -> Self {
        requests.reverse();
        Self(requests)
    }

    fn next(&mut self) -> Option<&'a [usize]> {
        self.0.pop()
    }

    /// Puts a request that is too large back in two parts, unless it is of one event. The limit of a topic is for what is
    /// written at once.
    fn add_halves(&mut self, request: &'a [usize]) -> bool {
        let (first, second) = request.split_at(request.len() / 2);
        if first.is_empty() {
            return false;
        }
        self.0.extend([second, first]);
        true
    }
}

fn is_too_large(error: &KafkaError) -> bool {
    use ProtocolError::{MessageTooLarge, RecordListTooLarge};
    matches!(
        error,
        KafkaError::ServerError {
            protocol_error: MessageTooLarge | RecordListTooLarge,
            ..
        }
    )
}

/// Cuts events of one partition into requests that brokers take.
fn requests<'a>(events: &[Event], numbers: &'a [usize]) -> Vec<&'a [usize]> {
    let total: usize = numbers.iter().map(|n| size(&events[*n])).sum();
    let limit = match total {
        0..=MAX_QUICK_BYTES => QUICK_REQUEST_BYTES,
        _ => MAX_REQUEST_BYTES,
    };
    let mut requests = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, n) in numbers.iter().enumerate() {
        let more = size(&events[*n]);
        if at > start && bytes + more > limit {
            requests.push(&numbers[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += more;
    }
    requests.push(&numbers[start..]);
    requests
}

/// About what an event takes in a request.
fn size(event: &Event) -> usize {
    let values: usize = attributes(event)
        .map(|(name, value)| name.len() + value.len() + 8)
        .sum();
    values + event.lane.len() + event.data.len() + 64
}

fn now() -> DateTime<Utc> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    DateTime::from_timestamp_millis(millis).unwrap_or_default()
}

/// The binary mode of CloudEvents for Kafka: attributes are headers with `ce_` before the name.
fn record(event: &Event) -> Record {
    let mut headers: BTreeMap<String, Vec<u8>> = attributes(event)
        .map(|(name, value)| (format!("ce_{name}"), value.as_bytes().to_vec()))
        .collect();
    headers.insert("content-type".into(), event.content_type.into());
    Record {
        key: Some(event.lane.clone().into_bytes()),
        value: Some(event.data.to_vec()),
        headers,
        // When it is written, not when it was observed: the broker deletes what is old, and a replay is not.
        timestamp: now(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn check(sizes: &[usize], expect: &[&[usize]]) {
        let event = |size: &usize| Event {
            id: String::new(),
            what: skopos_api::Event::Created,
            source: String::new(),
            subject: String::new(),
            rule: String::new(),
            time: String::new(),
            lane: String::new(),
            content_type: "text/plain",
            data: Bytes::from(vec![0; *size]),
            traceparent: None,
            account: None,
        };
        let events: Vec<_> = sizes.iter().map(event).collect();
        let numbers: Vec<_> = (0..events.len()).collect();
        assert_eq!(requests(&events, &numbers), expect, "{sizes:?}");
    }

    /// Only an event that is too large alone can never be written.
    #[test]
    fn a_request_that_is_too_large_is_made_smaller() {
        let check = |sizes: &[usize], expect: &[&[usize]], failed: Option<usize>| {
            let numbers: Vec<_> = (0..sizes.len()).collect();
            let mut waiting = Waiting::new(vec![&numbers]);
            let (mut written, mut refused) = (Vec::new(), None);
            while let Some(request) = waiting.next() {
                let fits = request.iter().map(|n| sizes[*n]).sum::<usize>() <= 100;
                if fits {
                    written.push(request);
                } else if !waiting.add_halves(request) {
                    refused = Some(request[0]);
                    break;
                }
            }
            assert_eq!((&written[..], refused), (expect, failed), "{sizes:?}");
        };
        check(&[30, 30, 30], &[&[0, 1, 2]], None);
        check(&[60, 60, 30, 30], &[&[0], &[1], &[2, 3]], None);
        check(&[60, 60, 200, 10], &[&[0], &[1]], Some(2));
        check(&[200], &[], Some(0));
    }

    #[test]
    fn requests_are_quick_or_few_and_never_larger_than_brokers_take() {
        check(&[10, 10, 10], &[&[0, 1, 2]]);
        check(&[3_000, 3_000, 3_000], &[&[0, 1], &[2]]);
        check(&[9_000, 10], &[&[0], &[1]]);
        check(&[50_000, 50_000, 50_000], &[&[0, 1, 2]]);
        check(&[300_000, 300_000, 10], &[&[0], &[1, 2]]);
        check(&[2_000_000, 10], &[&[0], &[1]]);
    }
}
