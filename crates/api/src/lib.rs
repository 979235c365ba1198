//! Our own kinds (`skopos.dev/v1alpha1`) as Rust types, from which their definitions are generated.
//!
//! A [`Rule`] says which changes matter and where they go, a [`Sink`] is a place they go to, a [`Record`] keeps the
//! history of kinds. Each reads the same from a cluster and from a file. What is only text here (expressions,
//! paths, templates) is understood by `skopos-react`.

mod definition;
mod load;
mod matching;
mod mistake;
mod record;
mod rule;
mod rule_test;
mod sink;
mod size;
mod status;
mod time;

pub use crate::{
    definition::definitions,
    load::{LoadError, Loaded, Resource, Trouble, load},
    matching::{Event, Operator, Requirement, Scope, Selector, Watch},
    mistake::Mistake,
    record::{Keep, Record, RecordSpec, RecordStatus},
    rule::{Action, Existing, Fields, Limits, OnExceed, Payload, Rule, RuleSpec, RuleStatus},
    rule_test::{Case, Expect, RuleTest, RuleTestSpec},
    sink::{
        Auth, Backoff, Batch, ConcurrencyPolicy, Delivery, Exec, File, Header, Hmac, Kafka, KubernetesAction,
        KubernetesVerb, Nats, OrderBy, Postgres, Rabbitmq, SecretKey, Sink, SinkSpec, SinkStatus, Stdout,
        Tls, ValueSource, Webhook,
    },
    size::{BadSize, Size},
    status::{Condition, ConditionStatus},
    time::{BadSpan, Span},
};

/// The group of our kinds.
pub const GROUP: &str = "skopos.dev";
/// The version of our kinds.
pub const VERSION: &str = "v1alpha1";
