//! What happens to informers and is worth a line in the log. What is counted is counted where it happens,
//! in the informer's own state.

use std::{error::Error, time::Duration};

use skopos_object::{Malformed as MalformedObject, OpenError, ResourceVersion};
use tracing::{debug, info, warn};

use crate::{ListReason, ReflectorError};

pub(crate) struct Listing<'a> {
    pub(crate) informer: &'a str,
    pub(crate) reason: ListReason,
}

impl Listing<'_> {
    pub(crate) fn emit(self) {
        let Self { informer, reason } = self;
        match reason {
            ListReason::First => debug!(informer, %reason, "listing"),
            _ => info!(informer, %reason, "listing again"),
        }
    }
}

pub(crate) struct Listed<'a> {
    pub(crate) informer: &'a str,
    pub(crate) objects: usize,
    pub(crate) version: &'a ResourceVersion,
}

impl Listed<'_> {
    pub(crate) fn emit(self) {
        let Self {
            informer,
            objects,
            version,
        } = self;
        debug!(informer, objects, %version, "listed");
    }
}

pub(crate) struct Trouble<'a> {
    pub(crate) informer: &'a str,
    pub(crate) error: &'a ReflectorError,
    pub(crate) retry_in: Duration,
}

impl Trouble<'_> {
    pub(crate) fn emit(self) {
        let Self {
            informer,
            error,
            retry_in,
        } = self;
        let cause = error.source().map(ToString::to_string);
        warn!(informer, %error, cause, ?retry_in, "not following for now");
    }
}

pub(crate) struct Resumed<'a> {
    pub(crate) informer: &'a str,
}

impl Resumed<'_> {
    pub(crate) fn emit(self) {
        info!(informer = self.informer, "following again");
    }
}

pub(crate) struct Malformed<'a> {
    pub(crate) informer: &'a str,
    pub(crate) object: &'a MalformedObject,
}

impl Malformed<'_> {
    pub(crate) fn emit(self) {
        let key = self.object.key.as_ref().map(ToString::to_string);
        let reason = &self.object.reason;
        warn!(
            informer = self.informer,
            key, reason, "set an object aside that cannot be read"
        );
    }
}

pub(crate) struct Purged<'a> {
    pub(crate) informer: &'a str,
    pub(crate) objects: usize,
}

impl Purged<'_> {
    pub(crate) fn emit(self) {
        let Self { informer, objects } = self;
        info!(informer, objects, "collection is gone");
    }
}

pub(crate) struct NotServed<'a> {
    pub(crate) informer: &'a str,
    pub(crate) error: &'a OpenError,
    pub(crate) retry_in: Duration,
}

impl NotServed<'_> {
    pub(crate) fn emit(self) {
        let Self {
            informer,
            error,
            retry_in,
        } = self;
        debug!(informer, %error, ?retry_in, "not served for now");
    }
}
