//! What is in force: our kinds from a cluster or from files become plans, their status is written back, and people can
//! ask.
//!
//! [`Admin`] answers what commands and the console ask, in process or over HTTP.

mod admin;

pub use crate::admin::{
    ADMIN_FILE, Admin, AdminServer, BindError, ChangePage, ChangeView, Changes, CollectionView,
    CollectionViews, Collections, Damaged, Door, DoorError, FieldDiff, HoleView, HoleViews, Holes, ObjectAt,
    ObjectState, Observation, Part, Presence, Question, Reason, Refusal, Resolve, Resolved, ShowChange,
    Uncertain,
};
