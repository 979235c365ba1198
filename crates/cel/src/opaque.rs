//! The values of the function libraries that have types of their own.

use std::net::IpAddr;
use std::sync::Arc;

use crate::{
    eval_error::{Eval, EvalError},
    library::{format::NamedFormat, net::Cidr, quantity::Quantity, semver::Semver, url::Url},
};

/// A value of a function library.
#[derive(Debug, Clone)]
pub struct Opaque(pub(crate) Inner);

#[derive(Debug, Clone)]
pub(crate) enum Inner {
    Quantity(Arc<Quantity>),
    Url(Arc<Url>),
    Ip(Arc<IpAddr>),
    Cidr(Arc<Cidr>),
    Format(&'static NamedFormat),
    Semver(Arc<Semver>),
}

impl Opaque {
    /// The name of the type.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match &self.0 {
            Inner::Quantity(_) => "kubernetes.Quantity",
            Inner::Url(_) => "kubernetes.URL",
            Inner::Ip(_) => "net.IP",
            Inner::Cidr(_) => "net.CIDR",
            Inner::Format(_) => "kubernetes.NamedFormat",
            Inner::Semver(_) => "kubernetes.Semver",
        }
    }

    pub(crate) fn equals(&self, other: &Opaque) -> Eval<bool> {
        match (&self.0, &other.0) {
            (Inner::Quantity(a), Inner::Quantity(b)) => Ok(a.nanos == b.nanos),
            (Inner::Url(a), Inner::Url(b)) => Ok(a == b),
            (Inner::Ip(a), Inner::Ip(b)) => Ok(a == b),
            (Inner::Cidr(a), Inner::Cidr(b)) => Ok(a == b),
            (Inner::Format(a), Inner::Format(b)) => Ok(a.name == b.name),
            (Inner::Semver(a), Inner::Semver(b)) => Ok(a.compare(b).is_eq()),
            _ => Err(EvalError::no_overload()),
        }
    }
}
